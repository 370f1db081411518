"""The demo's stream: calm, then twice what the cores can do, with an operator that spins for each row's cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.rate_profile import RateProfile
from penstock.spark.source import Population

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

#: Cores, and as many partitions: each task has one to itself.
CORES = 2
#: Arrivals as a multiple of the cores' capacity.
CALM_LOAD, OVERLOAD = 0.5, 2.0
#: Part of a run that is calm.
CALM_SHARE = 0.25
#: One key in this many is never shed.
KEEP_EVERY, KEEP_REST = 20, 7
MUST_KEEP = f"key % {KEEP_EVERY} = {KEEP_REST}"
RESULTS = "row bigint, key bigint, value double, weight double, taken_s double"
#: Unguarded, a batch is limited to the arrivals of this many targets; otherwise each would be twice as long as the
#: last.
BATCH_TARGETS = 1.5
_SAMPLE_ROWS = 50_000


def enrich(row: Mapping[str, Any]) -> dict[str, Any]:
    """The expensive operator: records when it started on the row, and spins for the row's cost."""
    taken_s = time.time()
    end_s = time.perf_counter() + row["cost_ms"] / 1e3
    while time.perf_counter() < end_s:
        pass
    return {"row": row["row"], "key": row["key"], "value": row["value"], "weight": row["weight"], "taken_s": taken_s}


@dataclass(frozen=True)
class Workload:
    """What arrives when, and what it costs.

    >>> workload = Workload(seconds=40.0, target_s=2.0, seed=0)
    >>> calm, overload = workload.profile.rows_per_s
    >>> overload / calm
    4.0
    """

    seconds: float  #: length of a run
    target_s: float  #: mean queuing latency to hold
    seed: int  #: seed of keys, costs and values

    @cached_property
    def population(self) -> Population:
        """Keys and their costs: those of the LAS paper, 0.1 to 6.4 ms."""
        return Population(seed=self.seed)

    @cached_property
    def mean_cost_ms(self) -> float:
        """What a row costs on average, before anything is shed."""
        return float(self.rows(_SAMPLE_ROWS)["cost_ms"].to_numpy().mean())

    @property
    def capacity(self) -> float:
        """Rows a second that the cores can process."""
        return CORES / (self.mean_cost_ms / 1e3)

    @property
    def calm_s(self) -> float:
        """How long it is calm."""
        return CALM_SHARE * self.seconds

    @cached_property
    def profile(self) -> RateProfile:
        """Arrivals; the overload lasts until the query is stopped."""
        rates = (round(CALM_LOAD * self.capacity, 1), round(OVERLOAD * self.capacity, 1))
        return RateProfile((self.calm_s, self.seconds), rates)

    @property
    def rows_per_batch(self) -> int:
        """The most rows of one batch if nothing is shed."""
        return max(round(BATCH_TARGETS * self.target_s * self.profile.rows_per_s[-1]), 100)

    def rows(self, count: int) -> pa.RecordBatch:
        """The first rows of the stream, without their arrival times."""
        return self.population.batch(np.arange(count, dtype=np.int64), np.zeros(count, np.int64))

    def must_keep(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the rows with these keys must be kept, as `MUST_KEEP` says in SQL."""
        return np.equal(keys % KEEP_EVERY, KEEP_REST)

    def stream(self, spark: SparkSession, start_s: float, rows_per_batch: int | None) -> DataFrame:
        """The stream from `start_s` on, with a limit of rows per batch or none."""
        phases = zip(self.profile.lengths_s, self.profile.rows_per_s, strict=True)
        text = ", ".join(f"{length} s: {rate}" for length, rate in phases)
        limit = {} if rows_per_batch is None else {"rows_per_batch": rows_per_batch}
        return self._read(spark, phases=text, start=start_s, **limit)

    def short_stream(self, spark: SparkSession, batches: int, rows_per_batch: int) -> DataFrame:
        """The first rows of the stream, all there at once, in a few small batches."""
        return self._read(spark, available=batches * rows_per_batch, rows_per_batch=rows_per_batch)

    def _read(self, spark: SparkSession, **options: float | str) -> DataFrame:
        reader = spark.readStream.format("penstock").option("seed", self.seed).option("partitions", CORES)
        return reader.options(**options).load()
