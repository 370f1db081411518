"""Fairness of results when queries share an overloaded application: `Fair` against the alternatives, in turn.

Four queries of THEMIS's kind (its table 1: AVG-all, TOP-5, COV and COUNT) differ in rates, costs and numbers of
sources. They bring twice the work that two cores can do. Each row keeps a task slot busy for a time that depends on its
query. Then the query's own operators compute a real result with its source information content and its quality. Each
alternative runs all four:

- `fair`: equal shares of source information, `Fair`;
- `random`: the same share for all, of whole batches as sources send them, as the paper's random shedder does;
- `random_rows`: the same share for all, of rows;
- `alone`: each query with its own guard, independent of the others;
- `pools`: nothing is shed, and Spark's FAIR scheduler has a pool for each query.

The measure is the paper's: the share of a source's rows of the last source time window that have been processed. A
query's SIC is the mean over its sources; it is taken once a second.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.workload import Work, parameters, spend, wait_for
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.jain import fairness
from penstock.spark.fair import sic_operators as sic
from penstock.spark.fair.fair import Fair, FairQuery
from penstock.spark.guard.guard import Guard
from penstock.spark.probe.measured import unmeasured
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Way = Literal["fair", "random", "random_rows", "alone", "pools"]
WAYS: tuple[Way, ...] = ("fair", "random", "random_rows", "alone", "pools")
CORES = 2
#: The longest wait for the first batch of every query.
FIRST_S = 120.0
#: With a lower mean SIC than this no result came in time.
LEAST_SIC = 0.01
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


@dataclass(frozen=True)
class Effort:
    """Length and load of the benchmark."""

    ways: Sequence[Way] = WAYS
    overload: float = 2.0  #: multiple of the cores' capacity
    settle_s: float = 30.0
    measure_s: float = 40.0
    target: str = "5 s"
    window_s: float = 20.0
    work: Work = "busy"
    shapes: Sequence[Shape] = SHAPES

    @property
    def asked(self) -> list[Shape]:
        """The queries at that load."""
        return [shape.times(self.overload) for shape in self.shapes]


def bench_fair(folder: Path, effort: Effort, done: Callable[[], None]) -> dict[str, Any]:
    """One row for each way."""
    rows = []
    brief = Effort(settle_s=5.0, measure_s=5.0, overload=0.5, shapes=effort.shapes)
    for way in (None, *effort.ways):  # The machine warms up first.
        settings = {"spark.scheduler.mode": "FAIR"} if way == "pools" else {}
        spark = local_session(folder, cores=CORES, settings=settings)
        if way is None:
            run(spark, "fair", brief, folder / "warm-up")
        else:
            rows.append({"way": way, **run(spark, way, effort, folder / way)})
        spark.stop()
        done()
    return {
        "rows": rows,
        "parameters": {
            **parameters(effort, "ways", "shapes", cores=CORES),
            "work_per_s": sum(shape.work_per_s for shape in effort.asked),
            "queries": {
                shape.name: {"rows_per_s": dict(shape.rates), "cost_ms": shape.cost_ms} for shape in effort.asked
            },
            "batch_of_a_source_s": SLOT_S,
        },
    }


def run(spark: SparkSession, way: Way, effort: Effort, folder: Path) -> dict[str, Any]:
    """All queries in one way; how even their results were."""
    with ExitStack() as stack:
        running = _started(spark, way, effort, folder, stack)
        queries = [one.query for one in running]
        # Independent of Spark's start: time is counted from when every query has a result.
        wait_for(queries, lambda: all(worked_off(one) for one in running), FIRST_S)
        begin_s = time.time()
        wait_for(queries, lambda: False, effort.settle_s + effort.measure_s)
        batches = {one.shape.name: worked_off(one) for one in running}
        results = {one.shape.name: list(one.results) for one in running}
    times_s = [begin_s + effort.settle_s + second for second in range(int(effort.measure_s) + 1)]
    sic = {
        shape.name: [sic_at(at_s, batches[shape.name], shape, effort.window_s) for at_s in times_s]
        for shape in effort.asked
    }
    # Equal shares of nothing are no fairness.
    found = fairness(zip(*sic.values(), strict=True))
    waits = {name: waited_s(own, times_s[0]) for name, own in batches.items()}
    return {
        "jain": found.jain if found.mean >= LEAST_SIC else None,
        "jain_instant": found.jain_instant if found.mean >= LEAST_SIC else None,
        "sic_mean": found.mean,
        "sic_min": found.poorest,
        "oscillation": found.oscillation,
        "sic": {name: sum(values) / len(values) for name, values in sic.items()},
        "wait_s": waits,
        "batches": {name: len(own) for name, own in batches.items()},
        "results": {name: len(own) for name, own in results.items()},
        "last_result": {name: own[-1] if own else None for name, own in results.items()},
    }


@dataclass
class Running:
    """A query that runs, and what it gave so far."""

    shape: Shape
    query: StreamingQuery
    results: list[dict[str, Any]]


def _started(spark: SparkSession, way: Way, effort: Effort, folder: Path, stack: ExitStack) -> list[Running]:
    fair = None
    if way in ("fair", "random", "random_rows"):
        policy: Literal["balance_sic", "random"] = "balance_sic" if way == "fair" else "random"
        fair = stack.enter_context(Fair(effort.target, window=effort.window_s, policy=policy))
    running = []
    for shape in effort.asked:
        checkpoint = folder / shape.name
        if way == "pools":
            # A pool is chosen by a property of the thread that starts the query; only classic Spark has it.
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", shape.name)
        guard: Guard | FairQuery | None = None
        member = None
        if fair is not None:
            row = ("of", "slot") if way == "random" else ("of", "row")
            guard = member = fair.query(
                shape.name, sources=tuple(shape.rates), prefer=shape.prefer, row=row, checkpoint=checkpoint
            )
        elif way == "alone":
            guard = Guard(
                MeanQueueLatency(effort.target), LoadAware(), row=("of", "row"), name=shape.name, checkpoint=checkpoint
            )
        operator = Operator(effort.work, shape.cost_ms)
        sources = _sources(spark, shape)
        if member is not None:
            rows = reduce(DataFrame.unionByName, (member.admit(df, name) for name, df in sources.items()))
        else:
            rows = reduce(DataFrame.unionByName, sources.values()).withColumn("sic", F.lit(None).cast("double"))
            rows = rows.withColumn("weight", F.lit(1.0)) if guard is None else guard.admit(rows)
        if guard is None:
            worked = unmeasured(rows, operator, RESULT, "row")
        else:
            worked = rows.transform(guard.measured(operator, RESULT, form="row"))
        worked = worked.observe(f"{DONE}{shape.name}", *_done(shape.rates))
        own = _start(worked if member is None else member.results(worked), shape, checkpoint)
        stack.callback(own.query.stop)
        if guard is not None:
            guard.watch(own.query)
            stack.callback(guard.stop)
        running.append(own)
    return running


def _sources(spark: SparkSession, shape: Shape) -> dict[str, DataFrame]:
    """Streams of readings of nodes, from when their query starts."""
    found, seed = {}, sum(map(ord, shape.name))
    for number, (name, rate) in enumerate(shape.rates.items()):
        options = {"rate": rate, "seed": seed + number, "keys": NODES, "skew": 0.0, "partitions": 2}
        df = spark.readStream.format("penstock").options(**options).load()
        slot = F.floor(F.col("row") / F.lit(max(rate * SLOT_S, 1.0)))
        found[name] = df.select("row", "key", "arrival", "value", F.lit(name).alias("of"), slot.alias("slot"))
    return found


def _start(worked: DataFrame, shape: Shape, checkpoint: Path) -> Running:
    made: list[dict[str, Any]] = []
    writer = worked.writeStream.option("checkpointLocation", str(checkpoint))

    def give(batch: DataFrame, number: int) -> None:
        made.extend({"batch": number, **row.asDict()} for row in _RESULTS[shape.name](batch).collect())

    query = writer.queryName(f"{shape.name}-{checkpoint.name}").foreachBatch(give).start()
    return Running(shape, query, made)


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


class Done(NamedTuple):
    """The rows of one source that one batch processed."""

    end_s: float
    source: str
    rows: int
    first_s: float
    last_s: float


def worked_off(running: Running) -> list[Done]:
    """The batches of a query, source by source."""
    found = []
    for progress in map(Progress.of, running.query.recentProgress):
        seen = progress.observed.get(f"{DONE}{running.shape.name}") or {}
        for source in running.shape.rates:
            if rows := seen.get(f"rows_{source}"):
                end_s = progress.start_s + progress.duration_s
                found.append(Done(end_s, source, rows, seen[f"first_{source}"], seen[f"last_{source}"]))
    return found


def sic_at(now_s: float, batches: Sequence[Done], shape: Shape, window_s: float) -> float:
    """The share of rows of the last window that has been processed, as the mean over the query's sources.

    >>> shape = Shape("q", {"a": 10.0}, 1.0)
    >>> sic_at(100.0, [Done(99.0, "a", 50, 85.0, 95.0), Done(101.0, "a", 50, 95.0, 99.0)], shape, window_s=10.0)
    0.25
    """
    found = dict.fromkeys(shape.rates, 0.0)
    for batch in batches:
        if batch.end_s <= now_s:
            length_s = max(batch.last_s - batch.first_s, 1e-6)
            within_s = min(batch.last_s, now_s) - max(batch.first_s, now_s - window_s)
            found[batch.source] += batch.rows * min(max(within_s / length_s, 0.0), 1.0)
    shares = [min(found[name] / (rate * window_s), 1.0) for name, rate in shape.rates.items()]
    return sum(shares) / len(shares)


def waited_s(batches: Sequence[Done], after_s: float) -> float | None:
    """How old rows were on average when their batch ended, of batches that ended after a time; None if none did."""
    late = [batch for batch in batches if batch.end_s > after_s]
    rows = sum(batch.rows for batch in late)
    if not rows:
        return None
    return sum(batch.rows * (batch.end_s - (batch.first_s + batch.last_s) / 2.0) for batch in late) / rows
