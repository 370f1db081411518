r"""A planner for queries that share one application, so that results are based on equal shares of their sources.

Of query $q$ with importance $w_q$, the gate keeps a share $x_{qs}$ of the rows of source $s$. Its source information
content (`core.fairness.sic`) is then $\frac{1}{|S_q|}\sum_s x_{qs}$. With rates $r_{qs}$ and a cost of $c_q$ a row it
takes $c_q \sum_s r_{qs} x_{qs}$ of work a second. Within the work that fits (`core.fairness.work_budget`) the planner
maximizes the poorest query, then the next (THEMIS, section 5). `core.fairness.max_min` solves it exactly, by work
instead of tuples:

$$\max \min_q \frac{1}{w_q |S_q|} \sum_s x_{qs} \qquad\text{subject to}\qquad
\sum_q c_q \sum_s r_{qs}\,x_{qs} \le B$$

Must-keep rows are paid for first, and count. Importance is not in the paper: a query of importance 2 gets twice the
share, up to all of it.

Inside a query all sources have the same keep share, or those with the most SIC for their work come first (the paper's
rule). The second gives the most SIC, but sheds the busy side of a join.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.core.control.forecast import Knowledge
from penstock.core.control.memory import Learned, restored, saved
from penstock.core.control.out_of_reach import why_out_of_reach
from penstock.core.control.planner import RECALLED, SOURCE
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.by_source import BySource, Policy
from penstock.core.fairness.members import Member, SharedKnowledge, Sharing, Terms, row_costs_s, told
from penstock.core.fairness.sic import STW_S, source_sic
from penstock.core.fairness.work_budget import WorkBudget
from penstock.messages.plan import Effect, Fits, Plan, RowSic
from penstock.messages.report import Report

#: Rates that differ by less than this share from those behind the SIC of rows make no new plan.
SIC_BAND = 0.1
#: A query whose batches take this share of the time has no pauses.
WITHOUT_PAUSE = 0.9


class FairPlanner:
    """Plans for every query by the reports of all.

    >>> planner = FairPlanner(target_s=1.0)
    >>> for name, importance in (("free", 1.0), ("paying", 2.0)):
    ...     planner.join(name, Terms(("events",), importance))
    >>> def report(number, name, rows):
    ...     return Report(sequence=number, start_s=2.0 * number, end_s=2.0 * number + 2.0, rows_in=rows, rows_kept=rows,
    ...                   busy_s=1.0, boxes={"events": {"rows_in": rows, "rows_out": rows, "busy_s": 0.0}})
    >>> for number in range(3):  # rows of both wait for 2 s; the fixed part is unknown
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
        policy: Policy | Sharing = "balance_sic",
        salt: int = 0,
        acts: bool = True,
    ) -> None:
        """Hold all queries to the target, with the SIC of rows by windows of this length.

        In a dry run plans do not act (`acts` is false), so waits do not depend on them.
        """
        self.rule = BySource(policy) if isinstance(policy, str) else policy  #: the rule for sharing the work that fits
        self.salt, self.window_s, self.target_s = salt, window_s, target_s
        self.budget = WorkBudget(target_s, acts=acts)
        self.members: dict[str, Member] = {}  #: by name

    def join(self, name: str, terms: Terms) -> None:
        """Add a query; a former one starts over without knowledge."""
        batches = Knowledge(MeanQueueLatency(self.target_s), triggered=False)
        self.members[name] = Member(terms, SharedKnowledge(terms.sources, self.window_s), batches)

    def leave(self, name: str) -> None:
        """The query has ended: the others share its capacity."""
        self.members[name].known.forget()

    def plan(self, name: str) -> Plan | None:
        """The query's plan in force; None before the first."""
        return self.members[name].plan

    def alarms(self, name: str) -> tuple[str, ...]:
        """The alarms of the query, one line each, as of its last report."""
        return self.members[name].alarms

    def decide(self, name: str, report: Report, now_s: float) -> Plan | None:
        """A plan for the query's next batch, or None to keep the current one."""
        own = self.members[name]
        own.learn(report)
        if not own.known.ready:
            return None
        # The active queries, by the clock of batches, which with Spark Connect is not the local one.
        active = [one for one in self.members if one == name or self.members[one].known.present(report.end_s)]
        present = {one: self.members[one] for one in active}
        self._follow(present, now_s)
        choice = self.rule.choose(name, present, self.budget)
        own.alarms = tuple(self._alarms(name, report, present))
        sic = RowSic(SOURCE, tuple(self._carried(own)))
        fits = own.fits(choice.share)
        if own.in_force.stays(fits, moved=choice.moved or _carries_else(own.plan, sic)):
            return None
        gates = () if choice.table is None else (choice.table,)
        own.in_force.plan = replace(
            self._plan(report.sequence + 1, now_s, fits, (sic,)), gates=gates, expected=Effect(choice.share)
        )
        return own.plan

    def _plan(self, version: int, now_s: float, fits: Fits | None, sic: tuple[RowSic, ...], note: str = "") -> Plan:
        """One that keeps everything."""
        effect = Effect(1.0)
        return Plan(version, self.rule.name, now_s, self.salt, sic=sic, expected=effect, note=note, fits=fits)

    def save(self, name: str) -> dict[str, Any]:
        """The learned state of a query, and of all together."""
        return saved(self._settings(name), **self._learned(name), budget=self.budget)

    def restore(self, name: str, state: Mapping[str, Any], now_s: float) -> None:
        """Restore the state of `save`; of the common state, the newest is used."""
        budget = copy.copy(self.budget)
        restored(state, self._settings(name), **self._learned(name), budget=budget)
        if self.budget.seen_s < budget.seen_s <= now_s:
            self.budget = budget

    def _settings(self, name: str) -> str:
        terms = self.members[name].terms
        return f"{self.rule.name}, {self.target_s:g} s, sources {', '.join(terms.sources)}, {terms.worth}"

    def _learned(self, name: str) -> dict[str, Learned]:
        own = self.members[name]
        return {"known": own.known, "batches": own.batches, "in_force": own.in_force}

    def recall(self, name: str, reports: Sequence[Report], now_s: float) -> Plan | None:
        """Learn from reports of an earlier run; returns a plan with the rows that fit, or None if unknown.

        It sheds nothing, and rows carry the same SIC as then.
        """
        own = self.members[name]
        for report in reports:
            if report.end_s > own.batches.history.until_s:
                own.learn(report)
        fits = own.fits(1.0, spare=1.0)
        sic = (RowSic(SOURCE, tuple(self._carried(own))),) if own.known.ready else ()
        own.known.pause(now_s)
        own.batches.history.pause()
        own.in_force.plan = None
        if fits is None:
            return None
        return self._plan(0, min(own.batches.history.until_s, now_s), fits, sic, RECALLED)

    def release(self, name: str, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything, for an idle query, which is inactive until its next report."""
        own = self.members[name]
        own.known.forget()
        if own.plan is None or not own.plan.gates:
            return None
        own.in_force.plan = self._plan(version, now_s, own.fits(1.0), own.plan.sic, note)
        return own.plan

    def _follow(self, present: Mapping[str, Member], now_s: float) -> None:
        """Update the budget from the active queries."""
        by_length, before = not told(present), self.budget.per_s
        if self.budget.by_length is not None and by_length is not self.budget.by_length:
            self.budget.convert(_rate_of_exchange(present, by_length=by_length))
        self.budget.by_length = by_length
        costs_s = row_costs_s(present)
        held = [member.known for member in present.values() if member.held]
        self.budget.follow(
            now_s,
            wait_s=max((known.queued_s for known in held), default=0.0),
            cycle_s=max((known.working_s for known in held), default=0.0),
            done_per_s=sum(  # by operators: in them, and for the same rows outside them
                costs_s[name] * member.known.kept_per_s
                if by_length
                else member.known.busy_per_s + member.batches.outside_s * member.known.kept_per_s
                for name, member in present.items()
            ),
            comes_per_s=sum(costs_s[name] * sum(member.known.rates.values()) for name, member in present.items()),
            # By length, a query whose batches have no pauses only processes rows.
            pace_per_s=sum(member.known.at_work for member in present.values() if member.known.at_work >= WITHOUT_PAUSE)
            if by_length
            else max(member.known.pace_per_s for member in present.values()),
            queries=1 if by_length else len(present),
            in_vain=not held,
        )
        ended = before is not None and self.budget.per_s is None and not self.budget.in_vain
        if before is not None and ended and before < self.rule.must_cover_per_s(present):
            self.budget.per_s = before

    def _carried(self, member: Member) -> list[float]:
        """The SIC of a row of each source; a source without rows is assumed to have one row per window."""
        rows = [max(rate * self.window_s, 1.0) for rate in member.known.rates.values()]
        return [source_sic(one, len(rows)) for one in rows]

    def _alarms(self, name: str, report: Report, present: Mapping[str, Member]) -> list[str]:
        found, history = self._reasons(name, report, present), self.members[name].batches.history
        if not found and history.misses_for_long and report.queuing is not None:
            found.append(
                f"query {name!r}: the mean wait exceeds the {self.target_s:g} s target in {history.misses} batches in "
                f"a row, {report.queuing.mean_s:.2f} s in the last one; raise the target or add cores"
            )
        return found

    def _reasons(self, name: str, report: Report, present: Mapping[str, Member]) -> list[str]:
        """The reason of long waits, if known."""
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
        costs_s = row_costs_s(present)
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


def _rate_of_exchange(present: Mapping[str, Member], *, by_length: bool) -> float | None:
    """The ratio of work by operators to work by the length of batches, or the inverse; None if no query has both."""
    both = [member for member in present.values() if member.cost_s > 0.0 and member.length_s > 0.0]
    told, lengths = (sum(one.known.kept_per_s * getattr(one, kind) for one in both) for kind in ("cost_s", "length_s"))
    if told <= 0.0 or lengths <= 0.0:
        return None
    return float(lengths / told if by_length else told / lengths)


def _carries_else(plan: Plan | None, sic: RowSic) -> bool:
    """Whether the SIC of rows differs from the current plan."""
    carried = None if plan is None else plan.sic_at(SOURCE)
    if carried is None:
        return True
    return any(abs(new - before) > SIC_BAND * new for before, new in zip(carried.sic, sic.sic, strict=True))
