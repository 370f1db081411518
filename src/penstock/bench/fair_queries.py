"""Four streaming queries of THEMIS's kind that share an application: AVG-all, TOP-5, COV and COUNT (its table 1).

Their sources are streams of the embedded source with different rates. Each row keeps a task slot busy for a time that
depends on its query; then the query's own operators compute a real result, which carries its source information
content and its quality.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.grouping import spend
from penstock.spark.fair import sic_operators as sic
from penstock.spark.probe.measured import unmeasured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Work = Literal["busy", "waiting"]
#: Columns behind the expensive operator.
RESULT = "of string, key bigint, arrival timestamp, value double, weight double, sic double"
#: Nodes that are monitored.
NODES = 20
#: How long the tuples of a source are sent together: what the paper's shedder sees as one batch.
SLOT_S = 0.5
#: Prefix of the metrics of processed rows.
DONE = "done_"


@dataclass(frozen=True)
class Shape:
    """One query: its sources and what it costs."""

    name: str  #: what it computes
    rates: Mapping[str, float]  #: rows a second of each source
    cost_ms: float  #: how long a row keeps a slot busy
    prefer: Literal["any", "sic"] = "any"  #: whether its sources must be thinned alike, as for a join

    @property
    def work_per_s(self) -> float:
        """Work that comes a second."""
        return sum(self.rates.values()) * self.cost_ms / 1000.0

    def times(self, factor: float) -> Shape:
        """With the rates multiplied by a factor."""
        return Shape(self.name, {name: factor * rate for name, rate in self.rates.items()}, self.cost_ms, self.prefer)


#: Together 2 s of work a second: what two cores could do if there were nothing else to do.
SHAPES = (
    Shape("avg_all", {"rack_1": 150.0, "rack_2": 50.0}, 4.0, "sic"),
    Shape("top_5", {"cpu": 40.0, "memory": 20.0}, 8.0),
    Shape("cov", {"node_1": 25.0, "node_2": 25.0}, 9.0),
    Shape("count", {"readings": 135.0}, 2.0),
)


@dataclass(frozen=True)
class Operator:
    """Keeps a slot busy, and passes the row on."""

    work: Work
    cost_ms: float

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row's result."""
        spend(self.work, self.cost_ms / 1000.0)
        return {name: row[name] for name in ("of", "key", "arrival", "value", "weight", "sic")}


@dataclass
class Running:
    """A query that runs, and what it gave so far."""

    shape: Shape
    query: StreamingQuery
    results: list[dict[str, Any]] = field(default_factory=list)


def source(spark: SparkSession, name: str, rate: float, seed: int) -> DataFrame:
    """A stream of readings of nodes, from when its query starts."""
    options = {"rate": rate, "seed": seed, "keys": NODES, "skew": 0.0, "partitions": 2}
    df = spark.readStream.format("penstock").options(**options).load()
    slot = F.floor(F.col("row") / F.lit(max(rate * SLOT_S, 1.0)))
    return df.select("row", "key", "arrival", "value", F.lit(name).alias("of"), slot.alias("slot"))


def start(
    spark: SparkSession,
    shape: Shape,
    *,
    work: Work,
    admit: Callable[[DataFrame, str], DataFrame],
    gate: Callable[[DataFrame], DataFrame],
    measured: Callable[..., Callable[[DataFrame], DataFrame]] | None,
    observed: Callable[[DataFrame], DataFrame],
    checkpoint: Path,
) -> Running:
    """Start a query.

    `admit` stands behind each source, `gate` behind all of them, `measured` around the operator, `observed` behind it.
    """
    seed = sum(map(ord, shape.name))
    sources = [
        admit(source(spark, name, rate, seed + number), name) for number, (name, rate) in enumerate(shape.rates.items())
    ]
    rows = sources[0]
    for other in sources[1:]:
        rows = rows.unionByName(other)
    rows = gate(rows)
    operator = Operator(work, shape.cost_ms)
    if measured is None:
        worked = unmeasured(rows, operator, RESULT, "row")
    else:
        worked = rows.transform(measured(operator, RESULT, form="row"))
    worked = observed(worked.observe(f"{DONE}{shape.name}", *_done(shape.rates)))
    made: list[dict[str, Any]] = []
    writer = worked.writeStream.option("checkpointLocation", str(checkpoint)).queryName(
        f"{shape.name}-{checkpoint.name}"
    )
    compute = _RESULTS[shape.name]

    def give(batch: DataFrame, number: int) -> None:
        made.extend({"batch": number, **row.asDict()} for row in compute(batch).collect())

    return Running(shape, writer.foreachBatch(give).start(), made)


def _done(sources: Sequence[str] | Mapping[str, float]) -> list[Any]:
    """Rows of each source, and when the first and the last of them arrived."""
    found = []
    for name in sources:
        here = F.col("of") == F.lit(name)
        arrival_s = F.when(here, F.unix_micros("arrival") / F.lit(1e6))
        found += [
            F.count(F.when(here, 1)).alias(f"rows_{name}"),
            F.min(arrival_s).alias(f"first_{name}"),
            F.max(arrival_s).alias(f"last_{name}"),
        ]
    return found


def _avg_all(rows: DataFrame) -> DataFrame:
    return rows.agg((F.sum(F.col("value") * F.col("weight")) / F.sum("weight")).alias("avg"), *_told())


def _top_5(rows: DataFrame) -> DataFrame:
    """Both sources side by side for each node, then the nodes with the most processor among those with memory."""
    cpu, memory = (F.avg(F.when(F.col("of") == name, F.col("value"))) for name in ("cpu", "memory"))
    nodes = rows.groupBy("key").agg(cpu.alias("cpu"), memory.alias("memory"), *_told())
    return nodes.transform(sic.where("memory >= 0.1")).orderBy(F.desc("cpu")).limit(5)


def _cov(rows: DataFrame) -> DataFrame:
    """Covariance of both nodes over tenths of a second in which both have a reading."""
    one, other = (F.avg(F.when(F.col("of") == name, F.col("value"))) for name in ("node_1", "node_2"))
    slots = rows.groupBy(F.window("arrival", "100 milliseconds")).agg(
        one.alias("x"), other.alias("y"), sic.total(), F.sum(F.col("sic") * F.col("weight")).alias("came")
    )
    quality = (F.sum("sic") / F.sum("came")).alias("quality")
    return slots.agg(F.covar_samp("x", "y").alias("cov"), sic.total(), quality)


def _count(rows: DataFrame) -> DataFrame:
    return rows.agg(F.sum(F.when(F.expr("value >= 0.5"), F.col("weight")).otherwise(0.0)).alias("n"), *_told())


def _told() -> list[Any]:
    return [sic.total(), sic.quality()]


_RESULTS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "avg_all": _avg_all,
    "top_5": _top_5,
    "cov": _cov,
    "count": _count,
}


def wait_for(queries: Sequence[StreamingQuery], enough: Callable[[], bool], limit_s: float) -> None:
    """Wait until it is enough, at most for this time; raise an error if a query fails."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s and not enough():
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
        time.sleep(0.1)
