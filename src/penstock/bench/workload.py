"""The stream that benchmarks run on: rows of the embedded source, each of which keeps a core busy for its cost."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.control.targets import MeanQueueLatency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.guard.guard import QueryGuard

Work = Literal["waiting", "busy"]
#: Columns of the operator's results.
RESULT = "row bigint, key bigint, weight double"
#: Rows from which the mean cost of a stream is taken.
_MEAN_ROWS = 1_000_000


def spend(work: Work, cost_s: float) -> None:
    """Work for this time."""
    if work == "waiting":
        time.sleep(cost_s)
        return
    end = time.perf_counter() + cost_s
    while time.perf_counter() < end:
        pass


def busy(row: dict[str, Any]) -> dict[str, Any]:
    """Keep a core busy for the row's cost."""
    spend("busy", row["cost_ms"] / 1000.0)
    return {"row": row["row"], "key": row["key"], "weight": row["weight"]}


def mean_cost_s(spark: SparkSession, options: Mapping[str, Any]) -> float:
    """What a row of the stream costs on average, in seconds."""
    rows = spark.read.format("penstock").options(**options, available=_MEAN_ROWS).load()
    return float(rows.agg(F.avg("cost_ms")).collect()[0][0]) / 1000.0


def stream(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    """The stream, with each row's cost in seconds."""
    return spark.readStream.format("penstock").options(**options).load().withColumn("cost_s", F.col("cost_ms") / 1000.0)


@contextmanager
def running(df: DataFrame, guard: QueryGuard, checkpoint: str | PathLike[str]) -> Iterator[StreamingQuery]:
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


def wait_for(queries: Sequence[StreamingQuery], enough: Callable[[], bool], limit_s: float) -> None:
    """Wait until it is enough, at most for this time; raise an error if a query fails."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s and not enough():
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
        time.sleep(0.1)


def parameters(effort: Any, *without: str, **more: object) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """The settings of a benchmark for its result, the target in seconds."""
    given = asdict(effort)
    given["target_s"] = MeanQueueLatency(given.pop("target")).limit_s
    return {name: value for name, value in given.items() if name not in without} | more
