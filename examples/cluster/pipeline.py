"""A guarded pipeline for a Spark cluster: `spark-submit --py-files penstock.zip pipeline.py /shared/folder`.

The folder must be one that the driver and every worker see under the same path. Results go into `results` in it, and
what the guard says of each batch into `reports.jsonl`. docs/cluster.md tells the rest.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import penstock as ps
from penstock.spark.source import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from penstock import Report

RESULT = "row bigint, key bigint, weight double"


def enrich(row: dict[str, Any]) -> dict[str, Any]:
    """Stand in for your expensive function, such as a call of another service: it waits as long as the row says."""
    time.sleep(row["cost_ms"] / 1000.0)
    return {"row": row["row"], "key": row["key"], "weight": row["weight"]}


def found_by_tasks(spark: SparkSession, tasks: int) -> list[str]:
    """Where tasks on the executors find penstock: in the archive of --py-files, or where pip installed it."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 - this runs on an executor

        import penstock  # noqa: PLC0415 - this runs on an executor

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"file": [penstock.__file__] * batch.num_rows})

    found = spark.range(0, tasks, numPartitions=tasks).mapInArrow(look, "file string").collect()
    return sorted({row["file"] for row in found})


def writer(path: Path, guard: ps.Guard) -> Callable[[Report], None]:
    """Write down each batch's Report as a line of JSON, with the guard's alarms and the errors it survived."""

    def write(report: Report) -> None:
        said = json.loads(replace(report, cost_sketch=None).to_json())
        with path.open("a") as file:
            file.write(json.dumps({"report": said, "errors": guard.errors, "alarms": guard.alarms}) + "\n")

    return write


def main() -> None:
    """Run until the query is stopped or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that driver and workers share")
    parser.add_argument("--target", default="2 s", help="how long rows may wait on average")
    parser.add_argument("--rate", type=float, default=300.0, help="rows a second")
    parser.add_argument("--tasks", type=int, default=4, help="tasks of a batch: the cores of all workers")
    given = parser.parse_args()

    spark = SparkSession.builder.appName("guarded").getOrCreate()
    register(spark)  # only the embedded source needs it
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "found.json").write_text(json.dumps({"driver": ps.__file__, "tasks": found_by_tasks(spark, 8)}))

    guard = ps.Guard(
        ps.MeanQueueLatency(given.target), key="key", row="row", checkpoint=given.folder / "checkpoint", name="cluster"
    )
    query = (
        spark.readStream.format("penstock")
        .options(rate=given.rate, partitions=given.tasks, min_cost_ms=5, max_cost_ms=15)
        .load()
        .transform(guard.admit)
        .transform(guard.measured(enrich, RESULT, form="row"))
        .writeStream.format("parquet")
        .option("path", str(given.folder / "results"))
        .option("checkpointLocation", str(given.folder / "checkpoint"))
        .start()
    )
    with guard.watch(query, on_report=writer(given.folder / "reports.jsonl", guard)):
        query.awaitTermination()


if __name__ == "__main__":
    main()
