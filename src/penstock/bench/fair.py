"""Fairness of results when queries share an overloaded application: `Fair` against the alternatives, in turn.

Four queries with different rates, costs and numbers of sources bring twice the work that two cores can do. Each
alternative runs all four:

- `fair`: equal shares of source information, `Fair`; - `random`: the same share for all, of whole batches as sources
send them, as the paper's random shedder does; - `random_rows`: the same share for all, of rows; - `alone`: each query
with its own guard, independent of the others; - `pools`: nothing is shed, and Spark's FAIR scheduler has a pool for
each query.

The measure is the paper's: the share of a source's rows of the last source time window that have been processed. A
query's SIC is the mean over its sources; it is taken once a second.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.fair_queries import DONE, SHAPES, SLOT_S, Running, Shape, Work, start, wait_for
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.jain import fairness
from penstock.spark.fair.fair import Fair
from penstock.spark.guard.guard import Guard
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Way = Literal["fair", "random", "random_rows", "alone", "pools"]
WAYS: tuple[Way, ...] = ("fair", "random", "random_rows", "alone", "pools")
CORES = 2
#: The longest wait for the first batch of every query.
FIRST_S = 120.0
#: With a lower mean SIC than this no result came in time.
LEAST_SIC = 0.01


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

    @property
    def steps(self) -> int:
        """The number of progress steps, with the warm-up."""
        return 1 + len(self.ways)


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
            "cores": CORES,
            "overload": effort.overload,
            "work_per_s": sum(shape.work_per_s for shape in effort.asked),
            "queries": {
                shape.name: {"rows_per_s": dict(shape.rates), "cost_ms": shape.cost_ms} for shape in effort.asked
            },
            "target_s": MeanQueueLatency(effort.target).limit_s,
            "window_s": effort.window_s,
            "settle_s": effort.settle_s,
            "measure_s": effort.measure_s,
            "batch_of_a_source_s": SLOT_S,
            "work": effort.work,
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
        guard: Guard | None = None
        observed: Callable[[DataFrame], DataFrame] = _as_it_is
        admit: Callable[[DataFrame, str], DataFrame] = _unguarded
        if fair is not None:
            row = ("of", "slot") if way == "random" else ("of", "row")
            member = fair.query(
                shape.name, sources=tuple(shape.rates), prefer=shape.prefer, row=row, checkpoint=checkpoint
            )
            guard, admit, observed = member, member.admit, member.results
        elif way == "alone":
            guard = Guard(
                MeanQueueLatency(effort.target), LoadAware(), row=("of", "row"), name=shape.name, checkpoint=checkpoint
            )
            admit = _after_union
        own = start(
            spark,
            shape,
            work=effort.work,
            admit=admit,
            gate=guard.admit if way == "alone" and guard is not None else _as_it_is,
            measured=guard.measured if guard is not None else None,
            observed=observed,
            checkpoint=checkpoint,
        )
        stack.callback(own.query.stop)
        if guard is not None:
            guard.watch(own.query)
            stack.callback(guard.stop)
        running.append(own)
    return running


def _as_it_is(df: DataFrame) -> DataFrame:
    return df


def _unguarded(df: DataFrame, source: str) -> DataFrame:  # noqa: ARG001 - all are alike
    return df.withColumns({"weight": F.lit(1.0), "sic": F.lit(None).cast("double")})


def _after_union(df: DataFrame, source: str) -> DataFrame:  # noqa: ARG001 - a guard has one gate
    return df.withColumn("sic", F.lit(None).cast("double"))


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
