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


@dataclass
class TaskSums:
    """What one task measured."""

    rows: int = 0
    busy_s: float = 0.0
    start_s: float = 0.0  #: when its first row was taken up, in seconds since 1970
    end_s: float = 0.0
    queued_s: float = 0.0  #: waiting time of all rows with a plausible arrival time
    queued_rows: int = 0
    queued_max_s: float = 0.0
    oldest_s: float | None = None  #: earliest and latest arrival of these
    newest_s: float | None = None
    costs: str = ""  #: `BucketCosts`, packed; empty if Spark sums the costs of all tasks
    late: int = 0  #: rows that the row gate shed
    ancient: int = 0  #: rows with an arrival time more than 30 days ago, or ahead of the worker's clock
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
        """Costs of rows by bucket."""
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
        self._costs = BucketCosts()
        self._sums = TaskSums()
        self._began = False

    @property
    def rows(self) -> int:
        """Rows counted so far."""
        return self._sums.rows

    def shed(self, rows: int) -> None:
        """Count rows that the row gate shed."""
        self._sums.late += rows

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
        self._sums.rows += done
        self.worked(starts_s[0], starts_s[-1] + costs_s[-1], sum(costs_s))
        arrivals_s = rows.arrivals_s[:done]
        known, ancient, ahead = sort_out(arrivals_s, row_starts_s)
        self._sums.ancient += ancient
        self._sums.ahead += ahead
        if known.any():
            self._waited(np.maximum(row_starts_s - arrivals_s, 0.0)[known], arrivals_s[known])

    def _waited(self, waits_s: NDArray[np.float64], arrivals_s: NDArray[np.float64]) -> None:
        sums, oldest_s, newest_s = self._sums, float(arrivals_s.min()), float(arrivals_s.max())
        sums.queued_s += float(waits_s.sum())
        sums.queued_rows += len(waits_s)
        sums.queued_max_s = max(sums.queued_max_s, float(waits_s.max()))
        sums.oldest_s = oldest_s if sums.oldest_s is None else min(sums.oldest_s, oldest_s)
        sums.newest_s = newest_s if sums.newest_s is None else max(sums.newest_s, newest_s)

    def worked(self, start_s: float, end_s: float, cost_s: float) -> None:
        """Add work, of rows or of none."""
        if not self._began:
            self._sums.start_s, self._began = start_s, True
        self._sums.end_s = end_s
        self._sums.busy_s += cost_s

    def text(self, partition: int = -1, *, apart: bool = True) -> str | None:
        """The sums as text; None if there was nothing to do.

        Unless `apart` is true, costs by bucket follow on a separate line for Spark to sum. A hundred tasks would make
        the progress a hundred times as long.
        """
        if not self._began and not self._sums.late:
            return None
        start_s = self._sums.start_s if self._began else time.time()
        costs = base64.b64encode(zlib.compress(self._costs.to_bytes(), 1)).decode() if apart else ""
        end_s = max(self._sums.end_s, start_s)
        sums = replace(self._sums, start_s=start_s, end_s=end_s, costs=costs, partition=partition).to_text()
        return sums if apart else f"{sums}\n{self._costs.to_text()}"
