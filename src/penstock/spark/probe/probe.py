"""The probe: runs a user's function unchanged and measures cost and wait of each row.

The function gets its rows in slices, is timed between one slice and the next, and its results pass through untouched.
At the end of a task one more row carries the sums, in a separate column. `observe` collects it into the query's
progress, and a filter removes the row.

This module is imported by workers, so it imports little.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from penstock.errors import PenstockError
from penstock.spark.probe.batch_formats import ArrowForm, Form
from penstock.spark.probe.meter import Meter, Rows
from penstock.spark.probe.row_gate import RowGate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.control.policies import Machines

#: Sizes to try first, the large ones before the small, because a large slice harms no function.
_TRIALS = (64, 16, 4, 1) * 4
#: Calls remembered, and after how many of them another size is tried again.
_REMEMBERED, _TRY_EVERY = 64, 32
#: The maximum share of the fixed part of a call, and the minimum time of a slice, because timing a call has a cost.
_FIXED_SHARE, _LEAST_S = 0.05, 0.0002


def slice_end(at: int, rows: int, run_ends: Sequence[int]) -> int:
    """The best end of a slice of about this many rows: at the end of a run of equal keys, whose cost is then exact.

    >>> run_ends = [100, 110, 400]  # three runs; there are 400 rows
    >>> [slice_end(at, rows, run_ends) for at, rows in ((0, 64), (0, 40), (100, 64), (399, 64))]
    [100, 40, 164, 400]
    """
    first = bisect_right(run_ends, at)
    if run_ends[first] - at >= rows / 4:
        return run_ends[first] if run_ends[first] - at < 2 * rows else at + rows
    last = run_ends[bisect_right(run_ends, at + rows) - 1]
    return last if last - at >= rows / 4 else min(at + rows, run_ends[-1])


class SliceSizer:
    r"""Chooses the next slice's size from the times of calls so far, so that costs are distinguished at little expense.

    A call on $n$ rows takes about $F + n\,v$: a fixed part and a part for each row. Small slices distinguish costs, but
    a vectorised function pays $F$ for each. The sizer tries a few sizes, fits the line, and settles on the smallest
    slice in which the fixed part is at most 5 percent.

    >>> sizer = SliceSizer()
    >>> for _ in range(40):
    ...     rows = sizer.next_rows()
    ...     sizer.took(rows, 0.001 * rows)  # a function that works row by row, a millisecond each
    >>> sizer.settled_rows
    1
    >>> for _ in range(100):
    ...     rows = sizer.next_rows()
    ...     sizer.took(rows, 0.01 + 0.00001 * rows)  # a vectorised one
    >>> sizer.settled_rows > 10_000
    True
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._count = 0
        self.settled_rows = _TRIALS[0]

    def next_rows(self) -> int:
        """The size of the next slice."""
        if self._count < len(_TRIALS):
            return _TRIALS[self._count]
        if self._count % _TRY_EVERY == 0:
            return 4 * self.settled_rows
        return self.settled_rows

    def took(self, rows: int, seconds: float) -> None:
        """Learn from one call."""
        self._calls.append((rows, seconds))
        self._count += 1
        if self._count >= len(_TRIALS):
            self.settled_rows = self._settle()

    def _settle(self) -> int:
        count = len(self._calls)
        mean_rows = sum(rows for rows, _ in self._calls) / count
        mean_s = sum(seconds for _, seconds in self._calls) / count
        spread = sum((rows - mean_rows) ** 2 for rows, _ in self._calls)
        if not spread:
            return self.settled_rows
        per_row_s = sum((rows - mean_rows) * (seconds - mean_s) for rows, seconds in self._calls) / spread
        # A line through scattered points may fall; then a row costs almost nothing.
        per_row_s = max(per_row_s, 1e-9)
        fixed_s = max(mean_s - per_row_s * mean_rows, 0.0)
        least = max(fixed_s * (1.0 - _FIXED_SHARE) / _FIXED_SHARE, _LEAST_S) / per_row_s
        return min(max(math.ceil(least), 1), 1_000_000)


#: The most rows of results passed on at once: as many as Spark does.
_FULL = 10_000
#: The learned slice sizes, and the row gates, by guard: workers persist between batches.
_sizers: dict[str, SliceSizer] = {}
_row_gates: dict[str, RowGate] = {}


@dataclass(frozen=True)
class RowGateSpec:
    """A row gate to be made on a worker: its guard, its machines, and the column of its weights."""

    guard: str
    machines: Callable[[], Machines]
    weight_column: str | None

    def gate(self) -> RowGate:
        """The gate of this worker."""
        if self.guard not in _row_gates:
            _row_gates[self.guard] = RowGate(self.machines())
        return _row_gates[self.guard]


@dataclass(frozen=True)
class Measured:
    """A map function over batches, timed slice by slice."""

    function: Callable[[Iterator[Any]], Iterable[Any]]
    form: Form
    guard: str
    apart: bool = True  #: whether costs are recorded per task

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The function's results, then the sums; nothing for a task without rows, for which it is not called.

        Such tasks are Spark's own, and those that write rows to a quarantine.
        """
        batches = iter(batches)
        first = next((batch for batch in batches if len(batch)), None)
        if first is None:
            return
        meter = Meter()
        sizer = _sizers.setdefault(self.guard, SliceSizer())
        clock = time.perf_counter
        away_s = 0.0  # time that the reader of results has spent since the slice was passed on
        idle_since = 0.0
        ends = False  # whether the current slice is the last of its batch

        def slices() -> Iterator[Any]:
            nonlocal away_s, idle_since, ends
            for batch in chain((first,), batches):
                bare, rows = self.form.split(batch)
                sizes, starts_s, costs_s = list[int](), list[float](), list[float]()
                at, run_ends = 0, rows.run_ends()
                while run_ends and at < run_ends[-1]:
                    part = slice(at, slice_end(at, sizer.next_rows(), run_ends))
                    starts_s.append(time.time())
                    begin, away_s, ends = clock(), 0.0, part.stop >= run_ends[-1]
                    yield self.form.part(bare, part)
                    costs_s.append(max(clock() - begin - away_s, 0.0))
                    sizes.append(part.stop - part.start)
                    sizer.took(sizes[-1], costs_s[-1])
                    at = part.stop
                meter.executed(rows, sizes, starts_s, costs_s)
            away_s, idle_since = 0.0, clock()

        result, held = None, list[Any]()
        for result in self.function(slices()):
            paused = clock()
            held.append(self.form.plain(result))
            # Batch by batch, as without a probe. A reader of only the first rows closes the connection, and a worker
            # with more slices to write would print a traceback.
            if ends or sum(map(len, held)) >= _FULL:
                yield from self.form.together(held)
                held = []
            away_s += clock() - paused
        yield from self.form.together(held)
        if idle_since and meter.rows:
            # Work of the function after its last row, such as a flush.
            flush_s = max(clock() - idle_since - away_s, 0.0)
            end_s = time.time()
            meter.worked(end_s - flush_s, end_s, flush_s)
        if (sums := meter.text(_partition(), apart=self.apart)) is not None:
            yield self.form.last(result, sums)


@dataclass(frozen=True)
class MeasuredRows:
    """A function of one row, timed row by row; with a row gate in front of it, if there is one."""

    function: Callable[[dict[str, Any]], Any]
    schema: pa.Schema
    row_gate: RowGateSpec | None = None
    apart: bool = True  #: as in `Measured`

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's results, then the sums."""
        meter = Meter()
        form = ArrowForm(self.schema)
        for batch in batches:
            bare, rows = form.split(batch)
            found: list[dict[str, Any]] = []
            if self.row_gate is None:
                self._all(bare.to_pylist(), rows, meter, found)
            else:
                self._those_in_time(bare.to_pylist(), rows, meter, found, self.row_gate)
            yield form.plain(batch_of(found, self.schema))
        if (sums := meter.text(_partition(), apart=self.apart)) is not None:
            yield form.last(None, sums)

    def _all(self, given: list[dict[str, Any]], rows: Rows, meter: Meter, found: list[dict[str, Any]]) -> None:
        names = frozenset(self.schema.names)
        starts_s, costs_s = list[float](), list[float]()
        for row in given:
            starts_s.append(time.time())
            begin = time.perf_counter()
            found.extend(results_of(self.function(row), names))
            costs_s.append(time.perf_counter() - begin)
        meter.executed(rows, [1] * len(costs_s), starts_s, costs_s)

    def _those_in_time(
        self, given: list[dict[str, Any]], rows: Rows, meter: Meter, found: list[dict[str, Any]], row_gate: RowGateSpec
    ) -> None:
        gate, names = row_gate.gate(), frozenset(self.schema.names)
        starts_s, costs_s, weights = list[float](), list[float](), list[float]()
        passed = np.zeros(len(given), np.bool_)
        columns = (rows.buckets.tolist(), rows.arrivals_s.tolist(), rows.must_keep.tolist(), rows.weights.tolist())
        for number, (row, bucket, arrival_s, must_keep, weight) in enumerate(zip(given, *columns, strict=True)):
            now_s = time.time()
            verdict = gate.judge(bucket, arrival_s, now_s, must_keep=must_keep, weight=weight)
            if verdict is None:
                continue
            passed[number] = True
            weights.append(verdict.weight)
            if row_gate.weight_column is not None:
                row[row_gate.weight_column] = verdict.weight
            begin = time.perf_counter()
            found.extend(results_of(self.function(row), names))
            starts_s.append(now_s)
            costs_s.append(time.perf_counter() - begin)
            gate.executed(verdict, now_s, costs_s[-1])
        taken_up = replace(rows.only(passed), weights=np.array(weights))
        meter.executed(taken_up, [1] * len(costs_s), starts_s, costs_s)
        meter.shed(len(given) - len(costs_s))


@dataclass(frozen=True)
class EachRow:
    """A function of one row over batches, not measured."""

    function: Callable[[dict[str, Any]], Any]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's results."""
        names = frozenset(self.schema.names)
        for batch in batches:
            found = [result for row in batch.to_pylist() for result in results_of(self.function(row), names)]
            yield batch_of(found, self.schema)


def _partition() -> int:
    context = TaskContext.get()
    return -1 if context is None else context.partitionId()


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch; one line for a value that does not fit its column."""
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        for field in schema:
            for row in rows:
                _refuse_unfit(row.get(field.name), field)
        raise


def _refuse_unfit(value: Any, field: pa.Field) -> None:  # noqa: ANN401 - a user's value
    try:
        pa.array([value], field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise PenstockError.setting(
            f"the function's field {field.name!r}", value, f"a value that fits {field.type}, as its schema says", why
        ) from None


def results_of(result: Any, names: frozenset[str]) -> list[dict[str, Any]]:  # noqa: ANN401 - a user's value
    """The result of a function of one row as rows: one, several, or none; an unknown field is refused."""
    if result is None:
        return []
    if isinstance(result, dict):
        rows = [result]
    elif hasattr(result, "asDict"):  # Spark's own Row, which is a tuple too
        rows = [result.asDict()]
    elif isinstance(result, Iterable) and not isinstance(result, str | bytes):
        rows = [one.asDict() if hasattr(one, "asDict") else one for one in result]
    else:
        rows = [result]
    for row in rows:
        if not isinstance(row, dict):
            raise PenstockError.setting(
                "the function's result", result, "a row as a dictionary, a list of such rows, or None"
            )
        if not row.keys() <= names:
            # Arrow would drop it silently.
            unknown = min(row.keys() - names, key=str)
            raise PenstockError(
                f"the function gave a field {unknown!r} that its schema lacks: it has {', '.join(sorted(names))}"
            )
    return rows
