# ruff: noqa: N802 - Spark names the methods of a data source
"""The embedded source, `format("penstock")`: a rate profile replayed with skewed keys and arrival times.

Everything in a row follows from the seed and the row's number, except that arrival times count from the start of the
profile. An offset holds the number of rows so far and that start. So a query that resumes from its checkpoint continues
with the same profile. A range of offsets always gives the same rows in the same partitions.

Columns: `row` (number from 0), `key` (Zipf; 0 is the most frequent, up to keys - 1), `arrival`, `cost_ms` and `value`
(from 0 to below 1). `cost_ms` is what the row really costs, the same for all rows of a key.

Options, with `rate = 1000` if no profile is named:

- `rate`; or `rate`, `burst_rate`, `burst_every`, `burst_for`; or `phases`; or `csv` (a file the driver can read): see
  `RateProfile`. `repeat`: phases or the CSV repeat after the last, which otherwise continues.
- `seed` (0), `keys` (1024), `skew` (1.0: the exponent; 0 is uniform), `cost_values` (64), `min_cost_ms` (0.1),
  `max_cost_ms` (6.4). Costs are at equal distance from the least to the largest. Each is given to as many keys as the
  others, at random.
- `start`: when the profile begins, in seconds since 1970; by default when the query first starts.
- `available`: that many rows are there at once and no more come; a batch read needs it.
- `rows_per_batch`: the maximum in one micro-batch. Before Spark 4.2, a run with the trigger `availableNow` ends after
  one such batch. `partitions` (2): the number of tasks, which get rows in turn.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from penstock.core.hashing import unit_interval, xxhash64, xxhash64_ints
from penstock.core.rate_profile import RateProfile, parsed
from penstock.core.settings import number, whole_number
from penstock.errors import PenstockError
from penstock.spark.version import (
    HERE,
    LIMITED_READS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    register_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    Offset = dict[str, int]

SCHEMA = "row bigint, key bigint, arrival timestamp, cost_ms double, value double"
#: Rows in one Arrow batch at most.
ARROW_ROWS = 10_000

_ARROW = pa.schema(
    [
        ("row", pa.int64()),
        ("key", pa.int64()),
        # Always UTC here, independent of the session's time zone: Spark reads the instant.
        ("arrival", pa.timestamp("us", "UTC")),
        ("cost_ms", pa.float64()),
        ("value", pa.float64()),
    ]
)
_PROFILE_OPTIONS = ("rate", "burst_rate", "burst_every", "burst_for", "phases", "csv", "repeat")
_OTHER_OPTIONS = (
    *("seed", "keys", "skew", "cost_values", "min_cost_ms", "max_cost_ms"),
    *("start", "available", "rows_per_batch", "partitions"),
)
_BURST_OPTIONS = ("burst_rate", "burst_every", "burst_for")
_CELLS = 2**16
_MOST_ROWS = 2**53
_MOST_KEYS = 10_000_000
_MOST_PARTITIONS = 100_000
_MOST_START_S = 1e11
#: Rows due later than this after the start (30 years) would have no timestamp.
_HORIZON_S = 1e9


def register(spark: SparkSession) -> None:
    """Register `format("penstock")` in a session that did not discover it."""
    register_source(spark, PenstockSource)


@dataclass(frozen=True)
class Population:
    """The keys and what they cost; with a row's number, all of a row but its arrival time."""

    seed: int = 0
    keys: int = 1024
    skew: float = 1.0
    cost_values: int = 64
    min_cost_ms: float = 0.1
    max_cost_ms: float = 6.4

    def batch(self, rows: NDArray[np.int64], arrivals_us: NDArray[np.int64]) -> pa.RecordBatch:
        """These rows, all columns."""
        key = _keys(self.keys, self.skew, self._uniform("key", rows))
        value = self._uniform("value", rows)
        arrival = pa.array(arrivals_us).view(_ARROW.field("arrival").type)
        columns = [pa.array(rows), pa.array(key), arrival, pa.array(_costs_ms(self)[key]), pa.array(value)]
        return pa.RecordBatch.from_arrays(columns, schema=_ARROW)

    def _uniform(self, column: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return unit_interval(xxhash64_ints(rows, seed=xxhash64(column, self.seed)))


def _keys(keys: int, skew: float, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Zipf keys by the inverse of the cumulated shares, looked up where a cell of [0, 1) has one key only."""
    drawn = _key_of_cell(keys, skew)[(uniform * _CELLS).astype(np.int64)]
    open_ = np.flatnonzero(drawn < 0)
    drawn[open_] = np.searchsorted(_cumulated(keys, skew), uniform[open_], side="right")
    return drawn


# A worker process keeps these between tasks, because each task gets a new reader.
@lru_cache(maxsize=4)
def _key_of_cell(keys: int, skew: float) -> NDArray[np.int64]:
    edges = np.arange(_CELLS + 1) / _CELLS
    first = np.searchsorted(_cumulated(keys, skew), edges[:-1], side="right")
    last = np.searchsorted(_cumulated(keys, skew), edges[1:], side="left")
    return np.where(first == last, first, -1)


@lru_cache(maxsize=4)
def _cumulated(keys: int, skew: float) -> NDArray[np.float64]:
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    total: NDArray[np.float64] = np.cumsum(weights / weights.sum())
    total[-1] = 1.0
    return total


@lru_cache(maxsize=4)
def _costs_ms(population: Population) -> NDArray[np.float64]:
    """The cost of each key: values at equal distance, dealt out in turn to the keys in an order drawn by the seed."""
    hashes = xxhash64_ints(np.arange(population.keys), seed=xxhash64("cost", population.seed))
    costs = np.empty(population.keys)
    values = np.linspace(population.min_cost_ms, population.max_cost_ms, population.cost_values).round(9)
    costs[np.argsort(hashes, kind="stable")] = values[np.arange(population.keys) % population.cost_values]
    return costs


@dataclass(frozen=True)
class Settings:
    """The options of the source, read and checked."""

    profile: RateProfile
    population: Population
    start_us: int | None
    available: int | None
    rows_per_batch: int | None
    partitions: int

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Settings:
        """Read the options, or say in one line which of them is wrong."""
        known = (*_PROFILE_OPTIONS, *_OTHER_OPTIONS)
        for name in options:
            if name not in known:
                raise PenstockError.setting("option", name, f"one of {', '.join(known)}")
        given = {name: parsed(text) for name, text in options.items()}
        start = number("start", given["start"], 0.0, _MOST_START_S) if "start" in given else None
        settings = cls(
            _profile(options, given),
            _population(given),
            start_us=None if start is None else round(start * 1e6),
            available=_whole(given, "available", 0, _MOST_ROWS) if "available" in given else None,
            rows_per_batch=_whole(given, "rows_per_batch", 1, _MOST_ROWS) if "rows_per_batch" in given else None,
            partitions=_whole({"partitions": 2} | given, "partitions", 1, _MOST_PARTITIONS),
        )
        if settings.available and settings.available > (most := settings.profile.rows_by(_HORIZON_S)):
            raise PenstockError.setting("available", settings.available, f"at most {most}: the profile brings no more")
        return settings


def _population(options: Mapping[str, object]) -> Population:
    given = asdict(Population()) | dict(options)
    least_ms = number("min_cost_ms", given["min_cost_ms"], 0.0)
    return Population(
        seed=_whole(given, "seed", -(2**63), 2**63 - 1),
        keys=_whole(given, "keys", 1, _MOST_KEYS),
        skew=number("skew", given["skew"], 0.0, 10.0),
        cost_values=_whole(given, "cost_values", 1, _MOST_KEYS),
        min_cost_ms=least_ms,
        max_cost_ms=number("max_cost_ms", given["max_cost_ms"], least_ms),
    )


def _whole(given: Mapping[str, object], name: str, least: int, most: int) -> int:
    return whole_number(name, given[name], least, most)


def _profile(options: Mapping[str, str], given: Mapping[str, object]) -> RateProfile:
    named = [name for name in ("rate", "phases", "csv") if name in given]
    if len(named) > 1:
        raise PenstockError(f"{' and '.join(named)} are both given: give one of rate, phases and csv")
    kind = named[0] if named else "rate"
    burst = [name for name in _BURST_OPTIONS if name in given]
    if burst and kind != "rate":
        raise PenstockError(f"{burst[0]} does not go with {kind}: give it with rate, or leave it out")
    if burst and len(burst) < len(_BURST_OPTIONS):
        lacking = next(name for name in _BURST_OPTIONS if name not in given)
        raise PenstockError(f"{burst[0]} is given without {lacking}: give all of {', '.join(_BURST_OPTIONS)}")
    repeat = options.get("repeat", "false").strip().lower()
    if repeat not in {"true", "false"} or (repeat == "true" and kind == "rate"):
        raise PenstockError.setting("repeat", options["repeat"], "true or false", "true goes with phases or csv only")
    if kind == "phases":
        return RateProfile.phases(options["phases"], repeat=repeat == "true")
    if kind == "csv":
        return RateProfile.csv(_text(options["csv"]), repeat=repeat == "true")
    rate = given.get("rate", 1000)
    return RateProfile.bursts(rate, **{name: given[name] for name in burst}) if burst else RateProfile.constant(rate)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PenstockError.setting("csv", path, "a CSV file that the driver can read", f"{reason}") from None


class PenstockSource(DataSource):
    """What Spark asks for readers when it meets `format("penstock")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock"

    def schema(self) -> str:
        """The columns; wrong options are refused here already, when the frame is loaded."""
        Settings.from_options(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """The first `available` rows as a static frame."""
        settings = self._settings(schema)
        if settings.available is None:
            raise PenstockError("available is not given: a batch read needs it, the number of rows to read")
        return BatchReader(settings)

    def streamReader(self, schema: StructType) -> StreamReader:
        """The rows as they arrive."""
        settings = self._settings(schema)
        return StreamReader(settings) if HERE >= LIMITED_READS else RememberingReader(settings)

    def __reduce__(self) -> tuple[Callable[..., PenstockSource], tuple[object, ...]]:
        """Travel with the archive that this package came in, if it did: `spark-submit --py-files` brings one.

        Spark asks a stream reader for offsets in a process of the driver's. It shows this process the wrong folder for
        such archives (`writeSparkFiles(Some("streaming_job"), ...)` in its PythonStreamingSourceRunner, seen in 4.3).
        """
        archive: str | None = getattr(__spec__ and __spec__.loader, "archive", None)
        if archive is None:
            return PenstockSource, (self.options,)

        # Spark's pickle sends a function inside a function as code and not by its name, which would need this package.
        def unpacked(options: dict[str, str]) -> PenstockSource:
            if archive not in sys.path:
                sys.path.insert(0, archive)
            from penstock.spark.source import PenstockSource as Found  # noqa: PLC0415 - now it can be found

            return Found(options)

        return unpacked, (self.options,)

    def _settings(self, schema: StructType) -> Settings:
        if schema.simpleString() != f"struct<{SCHEMA.replace(', ', ',').replace(' ', ':')}>":
            raise PenstockError.setting("schema", schema.simpleString(), "no schema", "the source has its own")
        return Settings.from_options(self.options)


@dataclass
class RowRange(InputPartition):
    """The rows of one task: every `step`-th from `first` to below `stop`."""

    first: int
    stop: int
    step: int
    start_us: int


def _ranges(first: int, stop: int, parts: int, start_us: int) -> list[RowRange]:
    """Deal the rows out in turn, row i to range i mod parts, so that every task has old rows and new ones alike."""
    heads = sorted(range(first, min(first + parts, stop)), key=lambda row: row % parts)
    return [RowRange(row, stop, parts, start_us) for row in heads]


def _batches(settings: Settings, rows: RowRange) -> Iterator[pa.RecordBatch]:
    stride = rows.step * ARROW_ROWS
    for first in range(rows.first, rows.stop, stride):
        numbers = np.arange(first, min(first + stride, rows.stop), rows.step, dtype=np.int64)
        arrivals_us = (settings.profile.arrival_s(numbers) * 1e6).astype(np.int64) + rows.start_us
        yield settings.population.batch(numbers, arrivals_us)


class BatchReader(DataSourceReader):
    """Reads the first `available` rows."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[RowRange]:
        """The ranges of rows to read."""
        start_us = _now_us(time.time) if self._settings.start_us is None else self._settings.start_us
        return _ranges(0, self._settings.available or 0, self._settings.partitions, start_us)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range; Spark gives a foreign partition if there is none."""
        return _batches(self._settings, partition) if isinstance(partition, RowRange) else iter(())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far the profile has come and reads the rows up to there."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._until_us: int | None = None
        self._latest: Offset | None = None

    def initialOffset(self) -> Offset:
        """No rows yet; the profile begins now unless the settings say when."""
        start_us = _now_us(self._clock) if self._settings.start_us is None else self._settings.start_us
        return {"rows": 0, "start_us": start_us}

    def prepareForTriggerAvailableNow(self) -> None:
        """Rows that arrive after this moment are not part of the run."""
        self._until_us = _now_us(self._clock)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What `rows_per_batch` says."""
        most = self._settings.rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """As far as the profile has come, within the limit, and never back even if the clock goes back."""
        rows = max(self._arrived(start["start_us"]), start["rows"])
        self._latest = {"rows": rows, "start_us": start["start_us"]}
        if isinstance(limit, ReadMaxRows):
            rows = min(rows, start["rows"] + limit.max_rows)
        return {"rows": rows, "start_us": start["start_us"]}

    def reportLatestOffset(self) -> Offset | None:
        """The offset of the profile without the limit; the difference to the end offset waits at the source."""
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[RowRange]:
        """The ranges of rows between two offsets.

        The profile's start is the one in `end`: a first batch that is done again after a restart has an initial
        offset with another.
        """
        return _ranges(start["rows"], end["rows"], self._settings.partitions, end["start_us"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range."""
        return _batches(self._settings, partition) if isinstance(partition, RowRange) else iter(())

    def _arrived(self, start_us: int) -> int:
        if self._settings.available is not None:
            return self._settings.available
        now_us = _now_us(self._clock)
        until_us = now_us if self._until_us is None else min(now_us, self._until_us)
        return self._settings.profile.rows_by((until_us - start_us) / 1e6)


class RememberingReader(StreamReader):
    """The reader for Spark before 4.2, which asks for the latest offset without the start or a limit.

    One process serves a query, so the reader remembers where the last batch ended. When a query resumes, Spark asks
    for the partitions of the offset in its checkpoint before it asks for a later one.
    """

    _first: Offset | None = None
    _last: Offset | None = None

    def initialOffset(self) -> Offset:
        """The same as often as Spark asks: it asks after the first batch was planned, and to repeat that batch."""
        if self._first is None:
            self._first = super().initialOffset()
        return self._first

    def latestOffset(self) -> Offset:  # type: ignore[override]  # the form of Spark 4.0
        """As far as the profile has come, within the limit."""
        return super().latestOffset(self._last or self.initialOffset(), self.getDefaultReadLimit())

    def partitions(self, start: Offset, end: Offset) -> Sequence[RowRange]:
        """The ranges of rows between two offsets; the next batch starts at the second."""
        self._last = end
        return super().partitions(start, end)


def _now_us(clock: Callable[[], float]) -> int:
    return round(clock() * 1e6)
