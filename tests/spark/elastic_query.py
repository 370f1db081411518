"""A guarded query on executors that come and go: `python elastic_query.py FOLDER KIND`.

Each of its batches has one task that is slow at its first attempt.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.quarantined import guard, put_plan
from tests.spark.until_read import until_read

from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ROWS, BATCH, SLOW_S = 4000, 1000, 6.0
RESULT = "row bigint, key bigint, weight double"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}
ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
}
DECOMMISSION = {"spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "true"}
SETTINGS = {"speculation": SPECULATION, "allocation": ALLOCATION, "decommission": DECOMMISSION, "loss": {}}


def slow_at_first(folder: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """An operator that notes each attempt at some rows, and of these attempts delays the first."""

    def work(row: dict[str, Any]) -> dict[str, Any]:
        if row["row"] % BATCH == 4:
            note = folder / f"attempt-{row['row']}-{time.time_ns()}-{os.getpid()}"
            first = not any(folder.glob(f"attempt-{row['row']}-*"))
            note.touch()
            if first:
                time.sleep(SLOW_S)
        return {"row": row["row"], "key": row["key"], "weight": row["weight"]}

    return work


def take_away(spark: SparkSession, *, notice: bool) -> str:
    """Take one executor away, with a notice as a cloud gives it or without; another takes its place."""
    context, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no public way
    scheduler = context.schedulerBackend()
    executor = str(scheduler.getExecutorIds().head())
    if not notice:
        context.killExecutor(executor)
        return executor
    why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("a test", jvm.scala.Option.apply(None))
    scheduler.decommissionExecutor(executor, why, False, False)  # noqa: FBT003 - Scala's
    return executor


def main(folder: Path, kind: str) -> None:
    settings = SETTINGS[kind] | {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"}
    spark = local_session(folder / "spark", settings=settings)
    of = guard(folder, keep="row % 1000 = 4")
    put_plan(of)
    stream = spark.readStream.format("penstock").options(
        available=ROWS, rows_per_batch=BATCH, rate=100_000, seed=3, partitions=4
    )
    work = of.measured(slow_at_first(folder), RESULT, form="row")
    where = {"path": str(folder / "sink"), "checkpointLocation": str(folder / "checkpoint")}
    query = until_read(stream.load().transform(of.admit).transform(work).writeStream.format("parquet").options(**where))
    gone = ""
    with of.watch(query):
        while query.isActive:
            time.sleep(0.1)
            if kind in {"decommission", "loss"} and not gone and any(folder.glob("attempt-*")):
                gone = take_away(spark, notice=kind == "decommission")
    rows = [[one.rows_in, one.rows_kept] for one in of.history()]
    kept = sorted(row["row"] for row in spark.read.parquet(str(folder / "sink")).collect())
    failed = str(query.exception() or "")
    sys.stdout.write(json.dumps({"reports": rows, "kept": kept, "gone": gone, "failed": failed}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
