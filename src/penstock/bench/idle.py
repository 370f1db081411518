"""The cost of a guard without overload: a guarded pipeline against the bare one.

Both read the same rows in equal batches from Spark's own `rate-micro-batch` source and run the same operator, as fast
as they can. The guard's target is high, so it sheds nothing. Also the time that the gate adds to a micro-batch,
measured on tiny batches. A guard has a fixed cost per batch, so throughput is measured with batches of 5 s and of 2 s.

Both are measured warm: hundreds of small batches come first, so that the JVM has compiled its code.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.spread import spread
from penstock.bench.workload import RESULT, busy, running
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.spark.guard.guard import Guard
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: Rows of a batch to warm up with, and how many.
WARM_ROWS, WARM_BATCHES = 20, 300
#: Rows a batch, and batches a run of which the first ones are not counted.
ROWS_PER_BATCH, SHORT_BATCH_ROWS, BATCHES, WARM_UPS = 10_000, 4000, 8, 2
#: The same for the control table.
FEW_ROWS, MANY_BATCHES, MANY_WARM_UPS = 100, 60, 20
#: 1 ms of work a row: two cores take 5 s for a batch.
COST_MS = 1.0
#: The time between two looks whether enough batches have ended.
LOOK_S = 0.5


def bench_idle(folder: Path, repeats: int, done: Callable[[], None]) -> dict[str, Any]:
    """Throughput of both pipelines in turn, their ratio, and the control table's cost."""
    runs = _Runs(local_session(folder))
    rates: dict[int, dict[str, list[float]]] = {
        rows: {"guarded": [], "bare": []} for rows in (ROWS_PER_BATCH, SHORT_BATCH_ROWS)
    }
    small_ms: dict[str, list[float]] = {"guarded": [], "bare": []}
    for guarded in (True, False) if WARM_BATCHES else ():
        runs.batches(_pipeline, guarded=guarded, rows=WARM_ROWS, batches=WARM_BATCHES)
    done()
    for _ in range(repeats):
        for rows, own in rates.items():
            for name in ("guarded", "bare"):
                own[name].append(runs.rows_per_s(rows, guarded=name == "guarded"))
        for name in ("guarded", "bare"):
            small_ms[name].append(runs.batch_ms(guarded=name == "guarded"))
        done()
    runs.spark.stop()
    added_ms = [guarded - bare for guarded, bare in zip(small_ms["guarded"], small_ms["bare"], strict=True)]
    return {
        **_compared(rates[ROWS_PER_BATCH]),
        "short_batches": _compared(rates[SHORT_BATCH_ROWS]),
        "rows_shed": runs.rows_shed,
        "control_table_ms": spread(added_ms),
        "small_batch_ms": {name: spread(values) for name, values in small_ms.items()},
        "parameters": {
            "rows_per_batch": ROWS_PER_BATCH,
            "short_batch_rows": SHORT_BATCH_ROWS,
            "batches": BATCHES,
            "cost_ms": COST_MS,
            "repeats": repeats,
            "cores": 2,
        },
    }


def _compared(rates: dict[str, list[float]]) -> dict[str, Any]:
    ratios = [guarded / bare for guarded, bare in zip(rates["guarded"], rates["bare"], strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "ratio_spread": spread(ratios),
        "rows_per_s": {name: spread(values) for name, values in rates.items()},
    }


def _pipeline(df: DataFrame, guard: Guard) -> DataFrame:
    return df.transform(guard.admit).transform(guard.measured(busy, RESULT, form="row"))


@dataclass
class _Runs:
    """Queries of one session, and the rows that their guards shed."""

    spark: SparkSession
    rows_shed: int = 0

    def rows_per_s(self, rows: int, *, guarded: bool) -> float:
        """Rows of a pipeline with an operator for each second of its batches, the first ones left out."""
        found = self.batches(_pipeline, guarded=guarded, rows=rows, batches=BATCHES)[WARM_UPS:]
        return sum(batch.rows for batch in found) / sum(batch.duration_s for batch in found)

    def batch_ms(self, *, guarded: bool) -> float:
        """Median time to plan and run a micro-batch of few rows with nothing but the gate in it, or nothing at all."""
        found = self.batches(lambda df, guard: guard.admit(df), guarded=guarded, rows=FEW_ROWS, batches=MANY_BATCHES)
        return 1000.0 * statistics.median(batch.planning_s + batch.work_s for batch in found[MANY_WARM_UPS:])

    def batches(
        self, pipeline: Callable[[DataFrame, Guard], DataFrame], *, guarded: bool, rows: int, batches: int
    ) -> list[Progress]:
        """The first batches of a query."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            guard = Guard(
                MeanQueueLatency("1 h"),
                LoadAware(prefer="cheap"),
                key="key",
                row="row",
                checkpoint=checkpoint,
                mode="enforce" if guarded else "off",
            )
            with running(pipeline(_stream(self.spark, rows), guard), guard, checkpoint) as query:
                while query.isActive and ((last := query.lastProgress) is None or last["batchId"] < batches):
                    time.sleep(LOOK_S)
                found = [batch for batch in map(Progress.of, query.recentProgress) if batch.rows]
            self.rows_shed += sum(report.shed_total for report in guard.history())
            return found[:batches]


def _stream(spark: SparkSession, rows: int) -> DataFrame:
    """A batch of rows after the other, each row with a key, a cost and a time of arrival not long ago."""
    options = {"rowsPerBatch": rows, "startTimestamp": int(time.time() * 1000), "advanceMillisPerBatch": 1}
    source = spark.readStream.format("rate-micro-batch").options(**options, numPartitions=2).load()
    return source.select(
        F.col("value").alias("row"),
        F.col("value").bitwiseAND(F.lit(1023)).alias("key"),
        F.col("timestamp").alias("arrival"),
        F.lit(COST_MS).alias("cost_ms"),
    )
