"""The stream that benchmarks run on: rows of the embedded source, each of which keeps a core busy for its cost."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.guard.guard import Guard

#: Columns of the operator's results.
RESULT = "row bigint, key bigint, weight double"
#: Rows from which the mean cost of a stream is taken.
_MEAN_ROWS = 1_000_000


def busy(row: dict[str, Any]) -> dict[str, Any]:
    """Keep a core busy for the row's cost."""
    end = time.perf_counter() + row["cost_ms"] / 1000.0
    while time.perf_counter() < end:
        pass
    return {"row": row["row"], "key": row["key"], "weight": row["weight"]}


def mean_cost_s(spark: SparkSession, options: Mapping[str, Any]) -> float:
    """What a row of the stream costs on average, in seconds."""
    rows = spark.read.format("penstock").options(**options, available=_MEAN_ROWS).load()
    return float(rows.agg(F.avg("cost_ms")).collect()[0][0]) / 1000.0


def stream(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    """The stream, with each row's cost in seconds."""
    return spark.readStream.format("penstock").options(**options).load().withColumn("cost_s", F.col("cost_ms") / 1000.0)


@contextmanager
def running(df: DataFrame, guard: Guard, checkpoint: str | PathLike[str]) -> Iterator[StreamingQuery]:
    """A query without a sink and its guard; at the end both are stopped, and an error of the query is raised."""
    query = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        guard.watch(query)
        yield query
    finally:
        query.stop()
        guard.stop()
    if (error := query.exception()) is not None:
        raise error
