"""The learned state of one of several queries that share an application: rates, cost, waits.

Every value is a mean over the batches of the last source time window, and over at least the last three. So a plan
follows the load and not the noise of a batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.allotment import LEAST_SHARE
from penstock.core.control.forecast import SPARE, Knowledge
from penstock.core.control.memory import Learned
from penstock.core.control.planner import InForce
from penstock.core.fairness.work_budget import WorkBudget
from penstock.messages.codec import Count, Flag, Name, Number, Record
from penstock.messages.plan import Fits, KeepTable, Plan
from penstock.messages.report import Report

Prefer = Literal["any", "sic"]

#: The number of batches that are kept regardless of age.
LEAST_BATCHES = 3
#: A query without a batch for this many of its cycles, and for this long, is inactive: it or its input has ended.
GONE_CYCLES, GONE_S = 5.0, 20.0


@dataclass(frozen=True, slots=True)
class _Batch(Record):
    start_s: Number
    end_s: Number
    came_s: Number  #: the time in which its rows came; 0: unknown
    rows: Mapping[Name, Count]  #: by source
    kept: Count
    must_keep: Count
    busy_s: Number
    span_s: Number  #: time in which any task worked
    wait_s: Number
    stood_still: Flag  #: whether the query had nothing to do for long before it
    waited_for_trigger_s: Number  #: the part of the wait before the trigger
    replayed_s: Number  #: since it began in a run that was killed


class SharedKnowledge(Learned):
    """The learned state of one query after its last report.

    >>> known = SharedKnowledge(("orders", "clicks"), window_s=10.0)
    >>> for number in range(3):
    ...     known.learn(Report(sequence=number, start_s=2.0 * number, end_s=2.0 * number + 2.0, rows_in=300,
    ...                        rows_kept=300, busy_s=1.5, span_s=1.8, boxes={
    ...                            "orders": {"rows_in": 100, "rows_out": 100, "busy_s": 0.0},
    ...                            "clicks": {"rows_in": 200, "rows_out": 200, "busy_s": 0.0}}))
    >>> known.rates, known.cost_s, known.wait_s
    ({'orders': 50.0, 'clicks': 100.0}, 0.005, 2.0)
    """

    _batches: tuple[_Batch, ...]
    _paused_s: Number | None  # start of another run without a report yet
    #: Work of a row that is kept, as its operator measured it; the last known value if no row was kept recently.
    cost_s: Number
    #: Whether an operator reports its work; otherwise only the length of batches is known.
    measured: Flag

    def __init__(self, sources: Sequence[str], window_s: float) -> None:
        self._sources, self._window_s = tuple(sources), window_s
        self._batches, self._paused_s, self.cost_s, self.measured = (), None, 0.0, False
        self._counted: tuple[tuple[_Batch, ...], dict[str, float], float] | None = None

    def learn(self, report: Report) -> None:
        """Process the report of one batch."""
        earlier_per_s = 0.0 if self._paused_s is None else sum(self.rates.values())
        if self._paused_s is not None:
            self.forget()
        before = self._batches[-1] if self._batches else None
        if before is not None and report.start_s <= before.start_s:
            return
        came_s = 0.0 if before is None else report.start_s - before.start_s + before.replayed_s
        if report.replayed_s and earlier_per_s > 0.0:
            came_s = report.rows_in / earlier_per_s  # It may be a burst; its rows came at the rate of the run before.
        elif before is None and report.backlog_rows:
            came_s = report.rows_in * report.duration_s / report.backlog_rows
        pause_s = 0.0 if before is None else max(report.start_s - before.end_s, 0.0)
        wait_s = report.queuing.mean_s if report.queuing else (came_s + report.duration_s) / 2.0 + report.lag_s
        # Rows that come during idle time wait for half of it; their age at its end is bounded by it.
        age_s = max(wait_s - report.delay_s - report.span_s / 2.0, 0.0)
        new = _Batch(
            report.start_s,
            report.end_s,
            came_s,
            {name: report.boxes[name].rows_in if name in report.boxes else 0 for name in self._sources},
            report.rows_kept,
            report.rows_must_keep,
            report.busy_s,
            report.span_s,
            wait_s,
            before is not None and not self.present(report.start_s),
            min(pause_s / 2.0, age_s),
            report.replayed_s,
        )
        batches = (*self._batches, new)
        old = sum(batch.end_s < new.end_s - self._window_s for batch in batches)
        self._batches = batches[min(old, max(len(batches) - LEAST_BATCHES, 0)) :]
        # A batch without rows at the operator gives no information about it.
        self.measured = self.measured or report.cost_sketch is not None
        kept = sum(batch.kept for batch in self._batches)
        self.cost_s = sum(batch.busy_s for batch in self._batches) / kept if kept else self.cost_s

    def forget(self) -> None:
        """The query is idle: later batches may be different."""
        self._batches, self._paused_s = (), None

    def pause(self, now_s: float) -> None:
        """The query begins another run: until its first report the data of the last run count."""
        self._paused_s = now_s

    def present(self, now_s: float) -> bool:
        """Whether the query is active."""
        if not self._batches:
            return False
        silent_s = now_s - (self._batches[-1].end_s if self._paused_s is None else self._paused_s)
        return silent_s <= max(GONE_CYCLES * self.cycle_s, GONE_S)

    @property
    def ready(self) -> bool:
        """Whether rates are known."""
        return any(batch.came_s > 0.0 for batch in self._batches)

    @property
    def rates(self) -> dict[str, float]:
        """Rows a second of each source, before the gate.

        After an idle time it is unknown when rows began to come; other batches are used if there are any.
        """
        return self._rates_and_must_keep()[0]

    @property
    def kept_per_s(self) -> float:
        """Rows processed per second, over recent batches."""
        return self._per_s([batch.kept for batch in self._batches])

    @property
    def busy_per_s(self) -> float:
        """Work of operators per second, over recent batches."""
        return self._per_s([batch.busy_s for batch in self._batches])

    @property
    def pace_per_s(self) -> float:
        """Work that tasks completed a second while any of them worked."""
        return max((batch.busy_s / batch.span_s for batch in self._batches if batch.span_s > 0.0), default=0.0)

    @property
    def at_work(self) -> float:
        """The share of recent time in which a batch ran."""
        return min(self._per_s([batch.end_s - batch.start_s for batch in self._batches]), 1.0)

    @property
    def must_keep(self) -> float:
        """Share of rows that must be kept."""
        return self._rates_and_must_keep()[1]

    def _rates_and_must_keep(self) -> tuple[dict[str, float], float]:
        """Both are asked for by the plans of all queries, so they are computed once for the same batches."""
        if self._counted is None or self._counted[0] is not self._batches:
            known = [batch for batch in self._batches if batch.came_s > 0.0]
            known = [batch for batch in known if not batch.stood_still] or known
            came_s = sum(batch.came_s for batch in known)
            per_s = {
                name: sum(batch.rows[name] for batch in known) / came_s if known else 0.0 for name in self._sources
            }
            rows = sum(sum(batch.rows.values()) for batch in self._batches)
            must_keep = min(sum(batch.must_keep for batch in self._batches) / rows, 1.0) if rows else 0.0
            self._counted = self._batches, per_s, must_keep
        return self._counted[1:]

    @property
    def wait_s(self) -> float:
        """Mean wait of the rows of a batch: the median of the last three batches."""
        return self._of_late([batch.wait_s for batch in self._batches])

    @property
    def queued_s(self) -> float:
        """The part of it that is due to work, without the wait for a trigger.

        Shedding does not shorten the rest.
        """
        return self._of_late([batch.wait_s - batch.waited_for_trigger_s for batch in self._batches])

    @property
    def cycle_s(self) -> float:
        """Time from batch to batch, over recent batches."""
        return self._of_late([max(batch.came_s, batch.end_s - batch.start_s) for batch in self._batches])

    @property
    def working_s(self) -> float:
        """The same without pauses between batches."""
        lengths_s = [batch.end_s - batch.start_s for batch in self._batches]
        before_s = [0.0, *lengths_s]
        return self._of_late([max(pair) for pair in zip(lengths_s, before_s, strict=False)])

    def _per_s(self, values: Sequence[float]) -> float:
        recent = list(self._batches)[-LEAST_BATCHES:]
        took_s = recent[-1].end_s - recent[0].start_s if recent else 0.0
        return sum(values[-LEAST_BATCHES:]) / took_s if took_s > 0.0 else 0.0

    def _of_late(self, values: Sequence[float]) -> float:
        return float(median(values[-LEAST_BATCHES:])) if values else 0.0


class Graded(Protocol):
    """The worth of rows, by bucket."""

    @property
    def grid(self) -> tuple[int, int]:
        """Places for keys, and grades of worth."""

    def by_bucket(self) -> NDArray[np.float64]:
        """The utility of a row of each bucket."""


@dataclass(frozen=True)
class Terms:
    """The settings of a query."""

    sources: tuple[str, ...]  #: names of its sources
    importance: float = 1.0  #: the divisor of its SIC
    prefer: Prefer = "any"  #: `any`: all sources alike; `sic`: those with the most SIC for their work first
    worth: Graded | None = None  #: worth of its rows by bucket; None: equal


@dataclass
class Member:
    """An active query: its settings, its learned state, and its current plan."""

    terms: Terms
    known: SharedKnowledge
    batches: Knowledge
    alarms: tuple[str, ...] = ()
    in_force: InForce = field(default_factory=InForce)

    @property
    def plan(self) -> Plan | None:
        """Its plan in force."""
        return self.in_force.plan

    def learn(self, report: Report) -> None:
        """Process a batch."""
        self.known.learn(report)
        self.batches.learn(report)

    @property
    def cost_s(self) -> float:
        """Work of a kept row, as measured by its operator, plus its cost outside the operator."""
        return self.known.cost_s + self.batches.outside_s

    @property
    def length_s(self) -> float:
        """Work of a kept row, by the length of batches without their overhead."""
        return self.batches.row_span_s

    def fits(self, share: float, spare: float = SPARE) -> Fits | None:
        """The number of rows up to which a plan with this share is valid; None if unknown."""
        batches = self.batches
        # Kept rows may be cheaper than incoming ones.
        whole_s = (batches.costs.reach * batches.costs.mean_s + batches.outside_s) / batches.capacity
        row_s = self.length_s * max(share, LEAST_SHARE) if share < 1.0 else max(self.length_s, whole_s)
        return batches.fits(1.0 / row_s, spare) if row_s > 0.0 else None

    @property
    def held(self) -> bool:
        """Whether shedding shortens its waits, which would not end otherwise."""
        return not (self.batches.out_of_reach or self.batches.history.catching_up)


class Choice(NamedTuple):
    """Keep shares of a query."""

    table: KeepTable | None  #: None keeps everything
    share: float  #: share of its rows that is expected to be kept
    moved: bool  #: whether it requires a new plan


class Sharing(Protocol):
    """A rule for sharing the work that fits."""

    @property
    def name(self) -> str:
        """The name under which plans are signed."""

    def must_cover_per_s(self, present: Mapping[str, Member]) -> float:
        """Work a second that the budget must cover before it ends."""

    def choose(self, name: str, present: Mapping[str, Member], budget: WorkBudget) -> Choice:
        """Keep shares of one of the active queries, within the budget."""


def told(present: Mapping[str, Member]) -> bool:
    """Whether every query has an operator that reports its work."""
    return all(member.known.measured for member in present.values())


def row_costs_s(present: Mapping[str, Member]) -> dict[str, float]:
    """Work of a row of each query: as operators report or, unless all of them do, by the length of batches.

    Lengths of concurrent batches sum to more than the elapsed time. This common factor affects neither the order of
    queries nor the share that fits.
    """
    by_operator = told(present)
    return {name: one.cost_s if by_operator else one.length_s for name, one in present.items()}
