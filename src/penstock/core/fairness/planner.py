r"""A planner for queries that share one application: their results are to rest on equal shares of their sources.

Of query $q$ with importance $w_q$, the gate keeps a share $x_{qs}$ of what source $s$ brings. Its source information
content (`core.fairness.sic`) is then $\frac{1}{|S_q|}\sum_s x_{qs}$, and with rates $r_{qs}$ and a cost of $c_q$ a row
it takes $c_q \sum_s r_{qs} x_{qs}$ of work a second. Within the work that fits (`core.fairness.work_budget`) the
poorest query is to be as rich as can be, then the next (THEMIS, section 5; `core.fairness.max_min` solves it exactly,
by work instead of tuples):

$$\max \min_q \frac{1}{w_q |S_q|} \sum_s x_{qs} \qquad\text{subject to}\qquad
\sum_q c_q \sum_s r_{qs}\,x_{qs} \le B$$

Rows that must be kept are paid for first, and count. Importance is ours: a query of importance 2 gets twice the share,
up to all of it.

Inside a query either all sources are kept alike, or those first that bring the most SIC for their work, as the paper
has it. The second makes the most of the work, and starves a join of its busy side.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from penstock.core.control.allotment import LEAST_SHARE, alike
from penstock.core.control.forecast import SPARE, Knowledge
from penstock.core.control.memory import Learned, restored, saved
from penstock.core.control.out_of_reach import why_out_of_reach
from penstock.core.control.planner import DEAD_BAND, RECALLED, SOURCE, InForce
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.max_min import max_min
from penstock.core.fairness.members import SharedKnowledge
from penstock.core.fairness.sic import STW_S, source_sic
from penstock.core.fairness.work_budget import WorkBudget
from penstock.messages.plan import Effect, Fits, KeepTable, Plan, RowSic
from penstock.messages.report import Report

Prefer = Literal["any", "sic"]
Policy = Literal["balance_sic", "random"]

#: Why rows are shed.
UNFAIR = "more work than the application can do, shared fairly"
ALIKE = "more work than the application can do, the same share for all"
#: Rates that differ by less than this share from what rows say they carry make no new plan.
SIC_BAND = 0.1
#: A query whose batches take this share of the time does not pause between them.
WITHOUT_PAUSE = 0.9


@dataclass(frozen=True)
class Terms:
    """On what terms a query takes part.

    Attributes:
        sources: Names of its sources.
        importance: What its SIC is divided by.
        prefer: `any`: all sources alike; `sic`: those first that bring the most SIC for their work.
    """

    sources: tuple[str, ...]
    importance: float = 1.0
    prefer: Prefer = "any"


@dataclass
class Member:
    """A query that takes part: its terms, what is known of it and of its batches, and its plan in force."""

    terms: Terms
    known: SharedKnowledge
    batches: Knowledge
    alarms: tuple[str, ...] = ()
    in_force: InForce = field(default_factory=InForce)

    @property
    def plan(self) -> Plan | None:
        """Its plan in force."""
        return self.in_force.plan

    @property
    def cost_s(self) -> float:
        """Work of a row that is kept, by what its operator told, with what it costs outside the operator."""
        return self.known.cost_s + self.batches.outside_s

    @property
    def length_s(self) -> float:
        """Work of a row that is kept, by the length of batches, less what a batch takes however few rows it has."""
        return self.batches.row_span_s

    def fits(self, share: float, spare: float = SPARE) -> Fits | None:
        """Up to how many rows of a batch a plan that keeps this share is right; None if that is not known."""
        batches = self.batches
        # Rows that were kept may be cheaper than those that come.
        whole_s = (batches.reach * batches.costs.mean_s + batches.outside_s) / batches.capacity
        row_s = self.length_s * max(share, LEAST_SHARE) if share < 1.0 else max(self.length_s, whole_s)
        return batches.fits(1.0 / row_s, spare) if row_s > 0.0 else None

    @property
    def held(self) -> bool:
        """Whether shedding shortens its waits, and they would not end otherwise."""
        return not (self.batches.out_of_reach or self.batches.catching_up)


class Choice(NamedTuple):
    """What to keep of a query."""

    table: KeepTable | None  #: None keeps everything
    share: float  #: of its rows that is expected to be kept
    moved: bool  #: whether it is worth a new plan


class FairPlanner:
    """Plans for every query by the reports of all.

    >>> planner = FairPlanner(target_s=1.0)
    >>> for name, importance in (("free", 1.0), ("paying", 2.0)):
    ...     planner.join(name, Terms(("events",), importance))
    >>> def report(number, name, rows):
    ...     return Report(sequence=number, start_s=2.0 * number, end_s=2.0 * number + 2.0, rows_in=rows, rows_kept=rows,
    ...                   busy_s=1.0, boxes={"events": {"rows_in": rows, "rows_out": rows, "busy_s": 0.0}})
    >>> for number in range(3):  # rows of both wait for 2 s; what of that is fixed is not known yet
    ...     for name, rows in (("free", 100), ("paying", 50)):
    ...         plan = planner.decide(name, report(number, name, rows), now_s=2.0 * number + 2.0)
    >>> [round(planner.plan(name).gate("source").keep[0], 2) for name in ("free", "paying")]
    [0.33, 0.67]
    >>> planner.plan("paying").sic_at("source").sic[0]  # one over the 250 rows of a window
    0.004
    """

    def __init__(
        self,
        target_s: float,
        *,
        window_s: float = STW_S,
        policy: Policy = "balance_sic",
        salt: int = 0,
        acts: bool = True,
    ) -> None:
        """Hold all queries to the target, with rows that carry their SIC by windows of this length.

        In a dry run nobody `acts` on plans, and waits say nothing about them.
        """
        self.policy: str = policy  #: the name under which plans are signed
        self.salt, self.window_s, self.target_s = salt, window_s, target_s
        self.budget = WorkBudget(target_s, acts=acts)
        self.members: dict[str, Member] = {}  #: by name

    def join(self, name: str, terms: Terms) -> None:
        """Add a query; one that took part before starts over without knowledge."""
        batches = Knowledge(MeanQueueLatency(self.target_s), triggered=False)
        self.members[name] = Member(terms, SharedKnowledge(terms.sources, self.window_s), batches)

    def leave(self, name: str) -> None:
        """The query has ended: from now on the others share what there is."""
        self.members[name].known.forget()

    def plan(self, name: str) -> Plan | None:
        """The query's plan in force; None before the first."""
        return self.members[name].plan

    def alarms(self, name: str) -> tuple[str, ...]:
        """The alarms of the query, one line each, as of its last report."""
        return self.members[name].alarms

    def decide(self, name: str, report: Report, now_s: float) -> Plan | None:
        """A plan for the query's next batch, or None to go on with the one in force."""
        own = self.members[name]
        self.learn(name, report)
        if not own.known.ready:
            return None
        present = self._present(name, report)
        self.follow(present, now_s)
        choice = self.choose(name, present)
        own.alarms = tuple(self._alarms(name, report, present))
        sic = RowSic(SOURCE, tuple(self._carried(own)))
        fits = own.fits(choice.share)
        if own.in_force.stays(fits, moved=choice.moved or _carries_else(own.plan, sic)):
            return None
        own.in_force.plan = Plan(
            report.sequence + 1,
            self.policy,
            now_s,
            self.salt,
            gates=() if choice.table is None else (choice.table,),
            sic=(sic,),
            expected=Effect(choice.share),
            fits=fits,
        )
        return own.plan

    def save(self, name: str) -> dict[str, Any]:
        """What is learned of a query so far, and of all together."""
        return saved(self._settings(name), **self._learned(name), budget=self.budget)

    def restore(self, name: str, state: Mapping[str, Any], now_s: float) -> None:
        """Take over what `save` gave; of what is common to all queries, what was learned last."""
        budget = copy.copy(self.budget)
        restored(state, self._settings(name), **self._learned(name), budget=budget)
        if self.budget.seen_s < budget.seen_s <= now_s:
            self.budget = budget

    def _settings(self, name: str) -> str:
        return f"{self.policy}, {self.target_s:g} s, sources {', '.join(self.members[name].terms.sources)}"

    def _learned(self, name: str) -> dict[str, Learned]:
        own = self.members[name]
        return {"known": own.known, "batches": own.batches, "in_force": own.in_force}

    def recall(self, name: str, reports: Sequence[Report], now_s: float) -> Plan | None:
        """Learn from reports of an earlier run; a plan that says what fits, or None if that is not known.

        It sheds nothing, and rows carry the same SIC as then.
        """
        own = self.members[name]
        for report in reports:
            if report.end_s > own.batches.until_s:
                self.learn(name, report)
        fits = own.fits(1.0, spare=1.0)
        sic = (RowSic(SOURCE, tuple(self._carried(own))),) if own.known.ready else ()
        own.known.pause(now_s)
        own.batches.pause()
        own.in_force.plan = None
        if fits is None:
            return None
        known_s = min(own.batches.until_s, now_s)
        return Plan(
            0, self.policy, known_s, self.salt, sic=sic, expected=Effect(keep_share=1.0), note=RECALLED, fits=fits
        )

    def learn(self, name: str, report: Report) -> None:
        """Process a batch of the query; a planner that knows more extends it."""
        self.members[name].known.learn(report)
        self.members[name].batches.learn(report)

    def choose(self, name: str, present: Mapping[str, Member]) -> Choice:
        """What to keep of one of the queries present, within the budget; another planner puts its own rule here."""
        own = self.members[name]
        shares = self._shares(present)[name]
        table = self._table(shares)
        return Choice(table, self._expected(own, shares), _differs(own.in_force.table, table))

    def release(self, name: str, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything, for a query that stands still; it takes no part until its next report."""
        own = self.members[name]
        own.known.forget()
        if own.plan is None or not own.plan.gates:
            return None
        own.in_force.plan = Plan(
            version,
            self.policy,
            now_s,
            self.salt,
            sic=own.plan.sic,
            expected=Effect(1.0),
            note=note,
            fits=own.fits(1.0),
        )
        return own.plan

    def _present(self, name: str, report: Report) -> dict[str, Member]:
        """Who takes part, by the clock that batches go by: with Spark Connect that is not the one here."""
        return {
            one: member for one, member in self.members.items() if one == name or member.known.present(report.end_s)
        }

    def follow(self, present: Mapping[str, Member], now_s: float) -> None:
        """Move the budget to what the queries present tell; a planner that knows more extends it."""
        by_length = not _told(present)
        if self.budget.by_length is not None and by_length is not self.budget.by_length:
            self.budget.convert(_rate_of_exchange(present, by_length=by_length))
        self.budget.by_length = by_length
        costs_s = self._costs_s(present)
        held = [member.known for member in present.values() if member.held]
        self.budget.follow(
            now_s,
            wait_s=max((known.queued_s for known in held), default=0.0),
            cycle_s=max((known.working_s for known in held), default=0.0),
            done_per_s=sum(
                costs_s[name] * member.known.kept_per_s if by_length else _done_per_s(member)
                for name, member in present.items()
            ),
            comes_per_s=sum(costs_s[name] * sum(member.known.rates.values()) for name, member in present.items()),
            # By length, a query whose batches follow each other without a pause could do nothing but work on rows.
            pace_per_s=sum(member.known.at_work for member in present.values() if member.known.at_work >= WITHOUT_PAUSE)
            if by_length
            else max(member.known.pace_per_s for member in present.values()),
            in_vain=not held,
        )

    def _costs_s(self, present: Mapping[str, Member]) -> dict[str, float]:
        """Work of a row of each query: as operators tell, or, unless all of them do, by the length of batches.

        Lengths of batches that run side by side add up to more than the time there is. That is a factor common to all,
        which neither the order of queries nor the share that fits depends on.
        """
        told = _told(present)
        return {name: one.cost_s if told else one.length_s for name, one in present.items()}

    def _shares(self, present: Mapping[str, Member]) -> dict[str, list[float]]:
        """The share to keep of every source of every query."""
        everything = {name: [1.0] * len(member.terms.sources) for name, member in present.items()}
        if self.budget.per_s is None:
            return everything
        costs_s = self._costs_s(present)
        offers, known_sic = dict[str, list[tuple[float, float, float]]](), dict[str, float]()
        budget = self.budget.now_per_s or 0.0
        for name, member in present.items():
            must, rates = member.known.must_keep, member.known.rates
            works = [costs_s[name] * rates[source] for source in member.terms.sources]
            budget -= must * sum(works)
            known_sic[name] = must
            sources = len(works)
            # One batch of everything, or one of each source, of which the share kept is asked.
            batches = [(1.0 / sources, work) for work in works] if member.terms.prefer == "sic" else [(1.0, sum(works))]
            offers[name] = [(1.0 - must, sic, work) for sic, work in batches]
        if self.policy == "random":
            share = alike(sum(rest * work for offer in offers.values() for rest, _, work in offer), budget)
            return {name: [share] * len(own) for name, own in everything.items()}
        weights = {name: member.terms.importance for name, member in present.items()}
        kept = max_min(max(budget, 0.0), offers, known_sic=known_sic, weights=weights).kept
        return {
            name: [max(share, LEAST_SHARE) for share in (kept[name] if len(kept[name]) > 1 else kept[name] * len(own))]
            for name, own in everything.items()
        }

    def _table(self, shares: Sequence[float]) -> KeepTable | None:
        """The shares, one bucket a source; None if everything is kept."""
        if min(shares) >= 1.0:
            return None
        buckets = 2 ** math.ceil(math.log2(len(shares)))
        padding = [1.0] * (buckets - len(shares))
        reason = UNFAIR if self.policy == "balance_sic" else ALIKE
        return KeepTable(SOURCE, keep=(*shares, *padding), reasons=(reason,))

    def _carried(self, member: Member) -> list[float]:
        """What a row of each source carries; a source that brought nothing yet is taken to bring one row a window."""
        rows = [max(rate * self.window_s, 1.0) for rate in member.known.rates.values()]
        return [source_sic(one, len(rows)) for one in rows]

    def _expected(self, member: Member, shares: Sequence[float]) -> float:
        rates = list(member.known.rates.values())
        kept = sum(rate * share for rate, share in zip(rates, shares, strict=True))
        return min(kept / sum(rates), 1.0) if sum(rates) > 0.0 else 1.0

    def _alarms(self, name: str, report: Report, present: Mapping[str, Member]) -> list[str]:
        found, batches = self._reasons(name, report, present), self.members[name].batches
        if not found and batches.misses_for_long and report.queuing is not None:
            found.append(
                f"query {name!r}: the mean wait exceeds the {self.target_s:g} s target in {batches.misses} batches in "
                f"a row, {report.queuing.mean_s:.2f} s in the last one; raise the target or add cores"
            )
        return found

    def _reasons(self, name: str, report: Report, present: Mapping[str, Member]) -> list[str]:
        """Why rows wait too long, where that is known."""
        own = self.members[name]
        found = []
        if own.known.wait_s > self.target_s >= own.known.queued_s:
            found.append(
                f"query {name!r}: mean wait {own.known.wait_s:.2f} s, most of it before the batch starts, which "
                f"shedding cannot shorten: give a shorter trigger, or a target above {self.target_s:g} s"
            )
        elif own.batches.out_of_reach and own.known.wait_s > self.target_s:
            found.append(f"query {name!r}: {why_out_of_reach(MeanQueueLatency(self.target_s), own.batches)}")
        budget = self.budget.per_s
        if budget is None:
            return found
        costs_s = self._costs_s(present)
        must_be_done = sum(
            member.known.must_keep * costs_s[one] * sum(member.known.rates.values()) for one, member in present.items()
        )
        if must_be_done > budget and own.known.must_keep > 0.0:
            found.append(
                f"query {name!r}: keep matches {report.rows_must_keep} of {report.rows_in} rows, and the must-keep "
                "rows of all queries exceed capacity; narrow keep or add cores"
            )
        elif must_be_done <= budget and self.budget.at_least and own.known.queued_s > self.target_s:
            found.append(
                f"query {name!r}: mean wait {own.known.queued_s:.2f} s exceeds the {self.target_s:g} s target at the "
                "maximum shed rate: rows are old on arrival, or one batch takes that long; raise the target"
            )
        return found


def _told(present: Mapping[str, Member]) -> bool:
    """Whether every query has an operator that tells how long it worked."""
    return all(member.known.measured for member in present.values())


def _done_per_s(member: Member) -> float:
    """Work that was done a second: in operators, and for the same rows outside them."""
    return member.known.busy_per_s + member.batches.outside_s * member.known.kept_per_s


def _rate_of_exchange(present: Mapping[str, Member], *, by_length: bool) -> float | None:
    """What work told by operators is by the length of batches, or the other way; None if no query tells both."""
    both = [member for member in present.values() if member.cost_s > 0.0 and member.length_s > 0.0]
    told, lengths = (sum(one.known.kept_per_s * getattr(one, kind) for one in both) for kind in ("cost_s", "length_s"))
    if told <= 0.0 or lengths <= 0.0:
        return None
    return float(lengths / told if by_length else told / lengths)


def _differs(old: KeepTable | None, new: KeepTable | None) -> bool:
    """Whether a table keeps something else than the one in force."""
    if old is None or new is None:
        return old is not new
    return any(abs(after - before) > DEAD_BAND * after for before, after in zip(old.keep, new.keep, strict=True))


def _carries_else(plan: Plan | None, sic: RowSic) -> bool:
    """Whether rows are to carry something else than the plan in force says."""
    carried = None if plan is None else plan.sic_at(SOURCE)
    if carried is None:
        return True
    return any(abs(new - before) > SIC_BAND * new for before, new in zip(carried.sic, sic.sic, strict=True))
