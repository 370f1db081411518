"""The meter: sums costs and waits of the rows of one task.

This module is imported by workers, so it imports little.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.control.backlog import sort_out
from penstock.core.control.bucket_costs import BucketCosts

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TaskSums:
    """What one task measured."""

    rows: int
    busy_s: float
    start_s: float  #: when its first row was taken up, in seconds since 1970
    end_s: float
    queued_s: float  #: waiting time of all rows with a time of arrival that can be right
    queued_rows: int
    queued_max_s: float
    oldest_s: float | None  #: earliest and latest arrival of these
    newest_s: float | None
    costs: str  #: `BucketCosts`, packed; empty if the costs of all tasks are added up on the way
    late: int = 0  #: rows that the row gate shed
    ancient: int = 0  #: rows that arrived more than 30 days ago, or ahead of the worker's clock, as they say
    ahead: int = 0
    partition: int = -1  #: number of the task's partition; -1: not known

    def to_text(self) -> str:
        """The sums as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> TaskSums:
        """What `to_text` wrote."""
        return cls(**json.loads(text))

    def bucket_costs(self) -> BucketCosts:
        """What rows cost by bucket."""
        if not self.costs:
            return BucketCosts()
        return BucketCosts.from_bytes(zlib.decompress(base64.b64decode(self.costs)))


@dataclass(frozen=True)
class Rows:
    """The rows of one input batch as the meter needs them."""

    buckets: NDArray[np.int64]
    arrivals_s: NDArray[np.float64]  #: NaN: not known
    weights: NDArray[np.float64]
    must_keep: NDArray[np.bool_]

    def run_ends(self) -> list[int]:
        """Where runs of rows of the same bucket end."""
        changes = np.flatnonzero(np.diff(self.buckets)) + 1
        return [*changes.tolist(), len(self.buckets)] if len(self.buckets) else []

    def only(self, which: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.buckets[which], self.arrivals_s[which], self.weights[which], self.must_keep[which])


class Meter:
    """Sums costs and waits of a task's rows."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._costs = BucketCosts()
        self._rows = self._queued_rows = 0
        self._busy_s = self._queued_s = self._queued_max_s = 0.0
        self._start_s: float | None = None
        self._end_s = 0.0
        self._oldest_s, self._newest_s = np.inf, -np.inf
        self._late = self._ancient = self._ahead = 0

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return self._rows

    def shed(self, rows: int) -> None:
        """Count rows that the row gate shed."""
        self._late += rows

    def executed(self, rows: Rows, sizes: list[int], starts_s: list[float], costs_s: list[float]) -> None:
        """Count the rows of a batch, slice by slice: all rows of a slice share its cost equally."""
        if not sizes:
            return
        counts = np.array(sizes)
        done = int(counts.sum())
        each_s = np.repeat(np.array(costs_s) / counts, counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        row_starts_s = np.repeat(starts_s, counts) + each_s * (np.arange(done) - first)
        self._costs.add(rows.buckets[:done], each_s, rows.weights[:done])
        self._rows += done
        self._busy_s += sum(costs_s)
        self._start_s = starts_s[0] if self._start_s is None else self._start_s
        self._end_s = starts_s[-1] + costs_s[-1]
        arrivals_s = rows.arrivals_s[:done]
        known, ancient, ahead = sort_out(arrivals_s, row_starts_s)
        self._ancient += ancient
        self._ahead += ahead
        if known.any():
            waits_s = np.maximum(row_starts_s - arrivals_s, 0.0)[known]
            self._queued_s += float(waits_s.sum())
            self._queued_rows += len(waits_s)
            self._queued_max_s = max(self._queued_max_s, float(waits_s.max()))
            self._oldest_s = min(self._oldest_s, float(arrivals_s[known].min()))
            self._newest_s = max(self._newest_s, float(arrivals_s[known].max()))

    def worked(self, start_s: float, cost_s: float) -> None:
        """Add work that belongs to no row."""
        self._start_s = start_s if self._start_s is None else self._start_s
        self._busy_s += cost_s
        self._end_s = start_s + cost_s

    def text(self, partition: int = -1, *, apart: bool = True) -> str | None:
        """The sums as text; None if there was nothing to do.

        Unless `apart` is true, costs by bucket follow on a separate line for Spark to sum: a hundred tasks would make
        the progress a hundred times as long.
        """
        sums = self.sums(partition)
        if sums is None:
            return None
        if apart:
            return sums.to_text()
        return f"{replace(sums, costs='').to_text()}\n{self._costs.to_text()}"

    def sums(self, partition: int = -1) -> TaskSums | None:
        """All of it, for the task of that partition; None if there was nothing to do."""
        if self._start_s is None and not self._late:
            return None
        now_s = time.time()
        any_arrival = self._queued_rows > 0
        return TaskSums(
            rows=self._rows,
            busy_s=self._busy_s,
            start_s=now_s if self._start_s is None else self._start_s,
            end_s=now_s if self._start_s is None else max(self._end_s, self._start_s),
            queued_s=self._queued_s,
            queued_rows=self._queued_rows,
            queued_max_s=self._queued_max_s,
            oldest_s=self._oldest_s if any_arrival else None,
            newest_s=self._newest_s if any_arrival else None,
            costs=base64.b64encode(zlib.compress(self._costs.to_bytes(), 1)).decode(),
            late=self._late,
            ancient=self._ancient,
            ahead=self._ahead,
            partition=partition,
        )
