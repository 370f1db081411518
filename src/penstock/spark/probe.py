"""The probe: runs a user's function as it is and measures what each row costs and how long it waited.

The function gets its rows in slices, is timed between one slice and the next, and its results pass through untouched.
At the end of a task one more row carries the sums, in a column of its own; `observe` collects it into the query's
progress and the row is taken out again.

This module is imported by workers, so it imports little.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.core.bucket_costs import BucketCosts
from penstock.errors import PenstockError
from penstock.spark.fine import FineGate
from penstock.spark.slices import SliceSizer, slice_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from penstock.core.policy import Machines

BUCKET = "__penstock_bucket"
ARRIVAL = "__penstock_arrival_s"
WEIGHT = "__penstock_weight"
MUST_KEEP = "__penstock_must_keep"
SUMS = "__penstock_sums"
_EXTRA = {BUCKET: np.int64, ARRIVAL: np.float64, WEIGHT: np.float64, MUST_KEEP: np.bool_}

#: What was learned of good slice sizes, and the fine gates, by guard: workers live on from batch to batch.
_sizers: dict[str, SliceSizer] = {}
_fine_gates: dict[str, FineGate] = {}


@dataclass(frozen=True)
class TaskSums:
    """What one task measured."""

    rows: int
    busy_s: float
    start_s: float  #: when its first row was taken up, in seconds since 1970
    end_s: float
    queued_s: float  #: waiting time of all rows with a time of arrival
    queued_rows: int
    queued_max_s: float
    oldest_s: float | None  #: earliest and latest arrival
    newest_s: float | None
    costs: str  #: `BucketCosts`, packed: progress is read often and should stay small
    late: int = 0  #: rows that the fine gate shed

    def to_text(self) -> str:
        """The sums as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> TaskSums:
        """What `to_text` wrote."""
        return cls(**json.loads(text))

    def bucket_costs(self) -> BucketCosts:
        """What rows cost by bucket."""
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


@dataclass(frozen=True)
class Fine:
    """A fine gate to be made on a worker: for which guard, of which machines, and the column its weights go to."""

    guard: str
    machines: Machines
    weight_column: str | None

    def gate(self) -> FineGate:
        """The gate of this worker."""
        return _fine_gates.setdefault(self.guard, FineGate(self.machines))


class Meter:
    """Adds up what a task's rows cost and how long they waited."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._costs = BucketCosts()
        self._rows = self._queued_rows = 0
        self._busy_s = self._queued_s = self._queued_max_s = 0.0
        self._start_s: float | None = None
        self._end_s = 0.0
        self._oldest_s, self._newest_s = np.inf, -np.inf
        self._late = 0

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return self._rows

    def shed(self, rows: int) -> None:
        """Take in rows that the fine gate shed."""
        self._late += rows

    def executed(self, rows: Rows, sizes: list[int], starts_s: list[float], costs_s: list[float]) -> None:
        """Take in the rows of a batch, slice by slice: all rows of a slice take an equal part of its cost."""
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
        known = np.isfinite(arrivals_s)
        if known.any():
            waits_s = np.maximum(row_starts_s - arrivals_s, 0.0)[known]
            self._queued_s += float(waits_s.sum())
            self._queued_rows += len(waits_s)
            self._queued_max_s = max(self._queued_max_s, float(waits_s.max()))
            self._oldest_s = min(self._oldest_s, float(arrivals_s[known].min()))
            self._newest_s = max(self._newest_s, float(arrivals_s[known].max()))

    def worked(self, start_s: float, cost_s: float) -> None:
        """Take in work that belongs to no row."""
        self._start_s = start_s if self._start_s is None else self._start_s
        self._busy_s += cost_s
        self._end_s = start_s + cost_s

    def sums(self) -> TaskSums | None:
        """All of it; None if there was nothing to do."""
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
        )


class Form(Protocol):
    """How rows are handed over: as Arrow batches, pandas frames, or one by one."""

    def split(self, batch: Any) -> tuple[Any, Rows]:  # noqa: ANN401 - Arrow's or pandas' own type
        """The batch as the function is to see it, and what the meter needs of it."""

    def part(self, batch: Any, at: slice) -> Any:  # noqa: ANN401 - Arrow's or pandas' own type
        """Some rows of a batch."""

    def plain(self, result: Any) -> Any:  # noqa: ANN401 - Arrow's or pandas' own type
        """A result with an empty column for the sums."""

    def last(self, result: Any | None, sums: str) -> Any:  # noqa: ANN401 - Arrow's or pandas' own type
        """The row with the sums, of the same shape as the results before it."""


class ArrowForm:
    """Arrow record batches."""

    def __init__(self, schema: pa.Schema) -> None:
        """Results have this schema."""
        self._schema = schema

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Rows]:
        """Take the meter's columns out."""
        extra = [batch[name].to_numpy(zero_copy_only=False).astype(kind, copy=False) for name, kind in _EXTRA.items()]
        return batch.drop_columns(list(_EXTRA)), Rows(*extra)

    def part(self, batch: pa.RecordBatch, at: slice) -> pa.RecordBatch:
        """Some rows, not copied."""
        return batch.slice(at.start, at.stop - at.start)

    def plain(self, result: pa.RecordBatch) -> pa.RecordBatch:
        """Append a column of nulls; all columns become nullable, because the row with the sums has nulls."""
        columns = [*result.columns, pa.nulls(result.num_rows, pa.string())]
        return pa.RecordBatch.from_arrays(columns, schema=_with_sums(result.schema))

    def last(self, result: pa.RecordBatch | None, sums: str) -> pa.RecordBatch:
        """Nulls, and the sums."""
        schema = self._schema if result is None else result.schema
        nulls = [pa.nulls(1, field.type) for field in schema]
        return pa.RecordBatch.from_arrays([*nulls, pa.array([sums])], schema=_with_sums(schema))


def _with_sums(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_nullable(True) for field in schema]  # noqa: FBT003 - Arrow's own signature
    return pa.schema([*fields, pa.field(SUMS, pa.string())])


class PandasForm:
    """Pandas data frames."""

    def __init__(self, names: list[str]) -> None:
        """Results have these columns."""
        self._names = names

    def split(self, batch: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
        """Take the meter's columns out."""
        extra = [batch[name].to_numpy(kind) for name, kind in _EXTRA.items()]
        return batch.drop(columns=list(_EXTRA)), Rows(*extra)

    def part(self, batch: pd.DataFrame, at: slice) -> pd.DataFrame:
        """Some rows, numbered from 0 as Spark's own frames are."""
        return batch.iloc[at].reset_index(drop=True)

    def plain(self, result: pd.DataFrame) -> pd.DataFrame:
        """Add an empty column, to the columns that Spark would have taken: by name, or else by position."""
        if not len(result.columns):
            result = result.reindex(columns=self._names)
        elif not any(isinstance(name, str) for name in result.columns):
            result = result.iloc[:, : len(self._names)].set_axis(self._names, axis="columns")
        elif set(self._names) <= set(result.columns):
            result = result[self._names]
        return result.assign(**{SUMS: None})

    def last(self, result: pd.DataFrame | None, sums: str) -> pd.DataFrame:  # noqa: ARG002 - names say it all
        """Nulls, and the sums."""
        import pandas as pd  # noqa: PLC0415 - only this form needs it

        return pd.DataFrame({name: [None] for name in self._names} | {SUMS: [sums]})


@dataclass(frozen=True)
class Measured:
    """A map function over batches, timed slice by slice."""

    function: Callable[[Iterator[Any]], Iterable[Any]]
    form: Form
    guard: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The function's results, then the sums."""
        meter = Meter()
        sizer = _sizers.setdefault(self.guard, SliceSizer())
        clock = time.perf_counter
        away_s = 0.0  # time since the slice was handed over that others spent: the reader of results
        idle_since = 0.0

        def slices() -> Iterator[Any]:
            nonlocal away_s, idle_since
            for batch in batches:
                bare, rows = self.form.split(batch)
                sizes, starts_s, costs_s = list[int](), list[float](), list[float]()
                at, run_ends = 0, rows.run_ends()
                while run_ends and at < run_ends[-1]:
                    part = slice(at, slice_end(at, sizer.next_rows(), run_ends))
                    starts_s.append(time.time())
                    begin, away_s = clock(), 0.0
                    yield self.form.part(bare, part)
                    costs_s.append(max(clock() - begin - away_s, 0.0))
                    sizes.append(part.stop - part.start)
                    sizer.took(sizes[-1], costs_s[-1])
                    at = part.stop
                meter.executed(rows, sizes, starts_s, costs_s)
            away_s, idle_since = 0.0, clock()

        result = None
        for result in self.function(slices()):
            paused = clock()
            yield self.form.plain(result)
            away_s += clock() - paused
        if idle_since and meter.rows:
            # What the function did after its last row: a flush, say.
            flush_s = max(clock() - idle_since - away_s, 0.0)
            meter.worked(time.time() - flush_s, flush_s)
        if (sums := meter.sums()) is not None:
            yield self.form.last(result, sums.to_text())


@dataclass(frozen=True)
class MeasuredRows:
    """A function of one row, timed row by row; with a fine gate in front of it, if there is one."""

    function: Callable[[dict[str, Any]], Any]
    schema: pa.Schema
    fine: Fine | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's results, then the sums."""
        meter = Meter()
        form = ArrowForm(self.schema)
        for batch in batches:
            bare, rows = form.split(batch)
            found: list[dict[str, Any]] = []
            if self.fine is None:
                self._all(bare.to_pylist(), rows, meter, found)
            else:
                self._those_in_time(bare.to_pylist(), rows, meter, found, self.fine)
            yield form.plain(pa.RecordBatch.from_pylist(found, schema=self.schema))
        if (sums := meter.sums()) is not None:
            yield form.last(None, sums.to_text())

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
        self, given: list[dict[str, Any]], rows: Rows, meter: Meter, found: list[dict[str, Any]], fine: Fine
    ) -> None:
        gate, names = fine.gate(), frozenset(self.schema.names)
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
            if fine.weight_column is not None:
                row[fine.weight_column] = verdict.weight
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
            yield pa.RecordBatch.from_pylist(found, schema=self.schema)


def results_of(result: Any, names: frozenset[str]) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever a user gives
    """What a function of one row gave, as rows: a row, several, or none; a field that is not named is refused."""
    if result is None:
        return []
    if isinstance(result, dict):
        rows = [result]
    elif hasattr(result, "asDict"):  # Spark's own Row, which is a tuple too
        rows = [result.asDict()]
    else:
        rows = [one.asDict() if hasattr(one, "asDict") else one for one in result]
    for row in rows:
        if not row.keys() <= names:
            # Arrow would drop it without a word.
            unknown = min(row.keys() - names, key=str)
            raise PenstockError(
                f"the function gave a field {unknown!r} that its schema lacks: it has {', '.join(sorted(names))}"
            )
    return rows
