"""What reports teach about one of several queries that share an application: rates, cost, waits.

Everything is a mean over the batches of the last source time window, and over the last three at least: a plan is to
follow the load, and not the accidents of a batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

#: Batches that are remembered however long ago they were.
LEAST_BATCHES = 3
#: A query that showed no batch for so many of its cycles, and for so long, is not counted: its input is over, or it is.
GONE_CYCLES, GONE_S = 5.0, 20.0


@dataclass(frozen=True, slots=True)
class _Batch(Record):
    start_s: Number
    end_s: Number
    came_s: Number  #: the time in which its rows came; 0: not known
    rows: Mapping[Name, Count]  #: by source
    kept: Count
    must_keep: Count
    busy_s: Number
    span_s: Number  #: how long any task worked
    wait_s: Number
    stood_still: Flag  #: whether the query had nothing to do for long before it
    waited_for_trigger_s: Number  #: the part of the wait in which the query did nothing: its trigger had not come


class SharedKnowledge(Learned):
    """What is known of one query after its last report.

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
    _paused_s: Number | None  # when it began another run, of which it has not reported yet
    #: Work of a row that is kept, as its operator measured it; the last known value if no row was kept recently.
    cost_s: Number
    #: Whether an operator tells how long it works; otherwise the length of batches is all that is known.
    measured: Flag

    def __init__(self, sources: Sequence[str], window_s: float) -> None:
        """Start knowing nothing."""
        self._sources, self._window_s = tuple(sources), window_s
        self._batches, self._paused_s, self.cost_s, self.measured = (), None, 0.0, False

    def learn(self, report: Report) -> None:
        """Process the report of one batch."""
        if self._paused_s is not None:
            self.forget()
        before = self._batches[-1] if self._batches else None
        if before is not None and report.start_s <= before.start_s:
            return
        came_s = 0.0 if before is None else report.start_s - before.start_s
        if before is None and report.backlog_rows:
            came_s = report.rows_in * report.duration_s / report.backlog_rows
        pause_s = 0.0 if before is None else max(report.start_s - before.end_s, 0.0)
        wait_s = report.queuing.mean_s if report.queuing else (came_s + report.duration_s) / 2.0 + report.lag_s
        # Rows that come while nothing is done wait for half of that. They were no older than this when it was over.
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
        )
        batches = (*self._batches, new)
        old = sum(batch.end_s < new.end_s - self._window_s for batch in batches)
        self._batches = batches[min(old, max(len(batches) - LEAST_BATCHES, 0)) :]
        # A batch of which nothing came as far as the operator teaches nothing about it.
        self.measured = self.measured or report.cost_sketch is not None
        kept = sum(batch.kept for batch in self._batches)
        self.cost_s = sum(batch.busy_s for batch in self._batches) / kept if kept else self.cost_s

    def forget(self) -> None:
        """The query stands still: what comes next may be different."""
        self._batches, self._paused_s = (), None

    def pause(self, now_s: float) -> None:
        """The query begins another run: until its first report it counts with what is known of the last one."""
        self._paused_s = now_s

    def present(self, now_s: float) -> bool:
        """Whether the query takes part at the moment."""
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

        When a query stood still, nobody knows when its rows began to come again; other batches tell, if there are any.
        """
        known = [batch for batch in self._batches if batch.came_s > 0.0]
        known = [batch for batch in known if not batch.stood_still] or known
        came_s = sum(batch.came_s for batch in known)
        return {name: sum(batch.rows[name] for batch in known) / came_s if known else 0.0 for name in self._sources}

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
        """Work that tasks got done a second while any of them worked."""
        return max((batch.busy_s / batch.span_s for batch in self._batches if batch.span_s > 0.0), default=0.0)

    @property
    def at_work(self) -> float:
        """The share of recent time in which a batch ran."""
        return min(self._per_s([batch.end_s - batch.start_s for batch in self._batches]), 1.0)

    @property
    def must_keep(self) -> float:
        """Share of rows that must be kept."""
        rows = sum(sum(batch.rows.values()) for batch in self._batches)
        return min(sum(batch.must_keep for batch in self._batches) / rows, 1.0) if rows else 0.0

    @property
    def wait_s(self) -> float:
        """Mean wait of the rows of a batch: the median of the last three batches."""
        return self._of_late([batch.wait_s for batch in self._batches])

    @property
    def queued_s(self) -> float:
        """The part of it that is due to work: that for a trigger which has not come yet is left out.

        To shed rows does not shorten the rest.
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
        return float(np.median(values[-LEAST_BATCHES:])) if values else 0.0


class Graded(Protocol):
    """What rows are worth, by their bucket."""

    @property
    def grid(self) -> tuple[int, int]:
        """Places for keys, and grades of worth."""

    def by_bucket(self) -> NDArray[np.float64]:
        """The utility of a row of each bucket."""


@dataclass(frozen=True)
class Terms:
    """On what terms a query takes part."""

    sources: tuple[str, ...]  #: names of its sources
    importance: float = 1.0  #: what its SIC is divided by
    prefer: Prefer = "any"  #: `any`: all sources alike; `sic`: those first that bring the most SIC for their work
    worth: Graded | None = None  #: what its rows are worth by their bucket; None: all alike


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

    def learn(self, report: Report) -> None:
        """Process a batch."""
        self.known.learn(report)
        self.batches.learn(report)

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
        whole_s = (batches.costs.reach * batches.costs.mean_s + batches.outside_s) / batches.capacity
        row_s = self.length_s * max(share, LEAST_SHARE) if share < 1.0 else max(self.length_s, whole_s)
        return batches.fits(1.0 / row_s, spare) if row_s > 0.0 else None

    @property
    def held(self) -> bool:
        """Whether shedding shortens its waits, and they would not end otherwise."""
        return not (self.batches.out_of_reach or self.batches.history.catching_up)


class Choice(NamedTuple):
    """What to keep of a query."""

    table: KeepTable | None  #: None keeps everything
    share: float  #: of its rows that is expected to be kept
    moved: bool  #: whether it is worth a new plan


class Sharing(Protocol):
    """A rule by which queries share the work that fits."""

    @property
    def name(self) -> str:
        """The name under which plans are signed."""

    def must_cover_per_s(self, present: Mapping[str, Member]) -> float:
        """Work a second that the budget must cover before it ends."""

    def choose(self, name: str, present: Mapping[str, Member], budget: WorkBudget) -> Choice:
        """What to keep of one of the queries present, within the budget."""


def told(present: Mapping[str, Member]) -> bool:
    """Whether every query has an operator that tells how long it worked."""
    return all(member.known.measured for member in present.values())


def row_costs_s(present: Mapping[str, Member]) -> dict[str, float]:
    """Work of a row of each query: as operators tell, or, unless all of them do, by the length of batches.

    Lengths of batches that run side by side add up to more than the time there is. That is a factor common to all,
    which neither the order of queries nor the share that fits depends on.
    """
    by_operator = told(present)
    return {name: one.cost_s if by_operator else one.length_s for name, one in present.items()}
