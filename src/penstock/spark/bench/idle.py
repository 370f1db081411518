"""What a guard costs while there is nothing to guard against: a guarded pipeline against the bare one.

Both read the same rows in batches of the same size, as fast as they can, and run the same operator. The guard's target
is far off, so it sheds nothing; the run fails if it does. Beside that, what the control table adds to a micro-batch,
from batches so small that nothing else counts.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.policy import LoadAware
from penstock.core.target import MeanQueueLatency
from penstock.errors import PenstockError
from penstock.spark.bench.spread import spread
from penstock.spark.bench.workload import RESULT, busy, stream
from penstock.spark.guard import Guard
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: Rows a batch, and batches a run of which the first ones are not counted.
ROWS_PER_BATCH, BATCHES, WARM_UPS = 4000, 8, 2
#: The same for the control table.
FEW_ROWS, MANY_BATCHES = 100, 30
#: 1 ms of work a row: two cores take 2 s for a batch.
COST_MS = 1.0


def bench_idle(folder: Path, repeats: int, done: Callable[[], None]) -> dict[str, Any]:
    """Throughput of both pipelines in turn, their ratio, and the control table's cost."""
    spark = local_session(folder)
    rates: dict[str, list[float]] = {"guarded": [], "bare": []}
    table_ms: list[float] = []
    with_ms, without_ms = list[float](), list[float]()
    for repeat in range(repeats + 1):
        for guarded in (True, False):
            rate = _rows_per_s(spark, guarded=guarded)
            if repeat:  # in the first round the JVM compiles
                rates["guarded" if guarded else "bare"].append(rate)
        gated, bare = (_batch_ms(spark, guarded=guarded) for guarded in (True, False))
        if repeat:
            with_ms.append(gated)
            without_ms.append(bare)
            table_ms.append(gated - bare)
        done()
    spark.stop()
    ratios = [guarded / bare for guarded, bare in zip(rates["guarded"], rates["bare"], strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "ratio_spread": spread(ratios),
        "rows_per_s": {name: spread(values) for name, values in rates.items()},
        "rows_shed": 0,
        "control_table_ms": spread(table_ms),
        "small_batch_ms": {"guarded": spread(with_ms), "bare": spread(without_ms)},
        "parameters": {
            "rows_per_batch": ROWS_PER_BATCH,
            "batches": BATCHES,
            "cost_ms": COST_MS,
            "repeats": repeats,
            "cores": 2,
        },
    }


def _rows_per_s(spark: SparkSession, *, guarded: bool) -> float:
    """Rows of a pipeline with an operator for each second of its batches, the first ones left out."""

    def pipeline(df: DataFrame, guard: Guard) -> DataFrame:
        return df.transform(guard.admit).transform(guard.measured(busy, RESULT, form="row"))

    batches = _run(spark, pipeline, guarded=guarded, rows=ROWS_PER_BATCH, batches=BATCHES)[WARM_UPS:]
    return sum(batch.rows for batch in batches) / sum(batch.duration_s for batch in batches)


def _batch_ms(spark: SparkSession, *, guarded: bool) -> float:
    """Median length of a micro-batch of few rows with nothing but the gate in it, or nothing at all."""
    batches = _run(
        spark, lambda df, guard: df.transform(guard.admit), guarded=guarded, rows=FEW_ROWS, batches=MANY_BATCHES
    )
    return 1000.0 * statistics.median(batch.duration_s for batch in batches[WARM_UPS:])


def _run(
    spark: SparkSession,
    pipeline: Callable[[DataFrame, Guard], DataFrame],
    *,
    guarded: bool,
    rows: int,
    batches: int,
) -> list[Progress]:
    options: dict[str, Any] = {"rate": 1000, "available": rows * batches, "rows_per_batch": rows}
    options |= {"min_cost_ms": COST_MS, "max_cost_ms": COST_MS, "cost_values": 1}
    with tempfile.TemporaryDirectory() as checkpoint:
        guard = Guard(
            MeanQueueLatency("1 h"),
            LoadAware(prefer="cheap"),
            key="key",
            row="row",
            checkpoint=checkpoint,
            mode="enforce" if guarded else "off",
        )
        df = pipeline(stream(spark, options), guard)
        query = (
            df.withColumn("done", F.lit(True))  # noqa: FBT003 - a literal
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        guard.watch(query)
        query.awaitTermination()
        guard.stop()
        if any(report.shed_total for report in guard.history()):
            raise PenstockError("the guard shed rows though nothing was overloaded: the measurement means nothing")
        found = [Progress.of(one) for one in query.recentProgress]
        return [batch for batch in found if batch.rows]
