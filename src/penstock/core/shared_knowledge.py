"""What reports teach about one of several queries that share an application: rates, cost, waits.

Everything is a mean over the batches of the last source time window, and over the last three at least: a plan is to
follow the load, and not the accidents of a batch.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.report import Report

#: Batches that are remembered however long ago they were.
LEAST_BATCHES = 3
#: How much dearer than at best rows may seem from one batch to the next, when costs rise.
SOFTEN = 1.03
#: A query that showed no batch for so many of its cycles, and for so long, is not counted: its input is over, or it is.
GONE_CYCLES, GONE_S = 5.0, 20.0


class _Batch(NamedTuple):
    start_s: float
    end_s: float
    came_s: float  #: the time in which its rows came; 0: not known
    rows: dict[str, int]  #: by source
    kept: int
    must_keep: int
    busy_s: float
    span_s: float  #: how long any task worked
    measured: bool  #: whether an operator told how long it worked; otherwise the batch's length is all that is known
    wait_s: float


class SharedKnowledge:
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

    def __init__(self, sources: Sequence[str], window_s: float) -> None:
        """Start knowing nothing."""
        self._sources, self._window_s = tuple(sources), window_s
        self._batches = deque[_Batch]()
        #: Work of a row that is kept, by the length of batches. Each has a part that does not depend on its rows, so
        #: the fewer there are, the dearer each seems: the least of late is nearest to the truth.
        self.length_s = 0.0

    def learn(self, report: Report) -> None:
        """Take in one batch."""
        before = self._batches[-1] if self._batches else None
        if before is not None and report.start_s <= before.start_s:
            return
        came_s = 0.0 if before is None else report.start_s - before.start_s
        if before is None and report.backlog_rows:
            came_s = report.rows_in * report.duration_s / report.backlog_rows
        self._batches.append(
            _Batch(
                report.start_s,
                report.end_s,
                came_s,
                {name: report.boxes[name].rows_in if name in report.boxes else 0 for name in self._sources},
                report.rows_kept,
                report.rows_must_keep,
                report.busy_s,
                report.span_s,
                report.cost_sketch is not None,
                report.queuing.mean_s if report.queuing else (came_s + report.duration_s) / 2.0 + report.lag_s,
            )
        )
        if report.rows_kept and before is not None:  # The first batch of a run is like no other.
            each_s = report.duration_s / report.rows_kept
            self.length_s = min(each_s, SOFTEN * self.length_s) if self.length_s else each_s
        while len(self._batches) > LEAST_BATCHES and self._batches[0].end_s < self._batches[-1].end_s - self._window_s:
            self._batches.popleft()

    def forget(self) -> None:
        """The query stands still: what comes next may be different."""
        self._batches.clear()

    def present(self, now_s: float) -> bool:
        """Whether the query takes part at the moment."""
        if not self._batches:
            return False
        silent_s = now_s - self._batches[-1].end_s
        return silent_s <= max(GONE_CYCLES * self.cycle_s, GONE_S)

    @property
    def ready(self) -> bool:
        """Whether rates are known."""
        return any(batch.came_s > 0.0 for batch in self._batches)

    @property
    def measured(self) -> bool:
        """Whether an operator told how long it worked."""
        return any(batch.measured for batch in self._batches)

    @property
    def rates(self) -> dict[str, float]:
        """Rows a second of each source, before the gate."""
        known = [batch for batch in self._batches if batch.came_s > 0.0]
        came_s = sum(batch.came_s for batch in known)
        return {name: sum(batch.rows[name] for batch in known) / came_s if known else 0.0 for name in self._sources}

    @property
    def cost_s(self) -> float:
        """Work of a row that is kept, by what its operator told."""
        kept = sum(batch.kept for batch in self._batches)
        return sum(batch.busy_s for batch in self._batches) / kept if kept else 0.0

    @property
    def kept_per_s(self) -> float:
        """Rows that were worked off a second, of late."""
        recent = list(self._batches)[-LEAST_BATCHES:]
        took_s = recent[-1].end_s - recent[0].start_s if recent else 0.0
        return sum(batch.kept for batch in recent) / took_s if took_s > 0.0 else 0.0

    @property
    def pace_per_s(self) -> float:
        """Work that tasks got done a second while any of them worked."""
        return max((batch.busy_s / batch.span_s for batch in self._batches if batch.span_s > 0.0), default=0.0)

    @property
    def must_keep(self) -> float:
        """Share of rows that must be kept."""
        rows = sum(sum(batch.rows.values()) for batch in self._batches)
        return min(sum(batch.must_keep for batch in self._batches) / rows, 1.0) if rows else 0.0

    @property
    def wait_s(self) -> float:
        """Mean wait of the rows of a batch, of late: the median of three batches."""
        waits = [batch.wait_s for batch in list(self._batches)[-LEAST_BATCHES:]]
        return float(np.median(waits)) if waits else 0.0

    @property
    def cycle_s(self) -> float:
        """Time from batch to batch, of late."""
        times = [max(batch.came_s, batch.end_s - batch.start_s) for batch in list(self._batches)[-LEAST_BATCHES:]]
        return float(np.median(times)) if times else 0.0
