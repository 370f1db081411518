"""The utility of policies for queries that share an overloaded application and differ in cost and worth of rows.

Three queries bring twice the work that two cores can do, a third each. A row costs 1, 4 or 16 by its key, times a
factor of its query's, and is worth more or less by its value. Each policy runs all three in turn:

- `random`: the same share of rows for all;
- `load_aware`: each query with a guard of its own that knows costs (LAS);
- `semantic`: each with a guard of its own that knows worths;
- `balance_sic`: equal shares of source information for all (THEMIS);
- `balanced`: utility per cycle, alpha-fair across queries.

A query's utility is the worth of its processed rows over that of all its incoming rows.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.latency import WINDOW_S, windows_s
from penstock.bench.spread import spread
from penstock.bench.workload import RESULT, busy, parameters, running, wait_for
from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.jain import jain
from penstock.spark.fair.fair import Fair, FairQuery
from penstock.spark.guard.guard import Guard, QueryGuard
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Way = Literal["random", "load_aware", "semantic", "balance_sic", "balanced"]
WAYS: tuple[Way, ...] = ("random", "load_aware", "semantic", "balance_sic", "balanced")
CORES, KEYS = 2, 60
#: Cost of a row by its key, in units of its query's.
COSTS = (1.0, 4.0, 16.0)
#: The longest wait for the first batch of every query.
FIRST_S = 180.0
#: Prefixes of the metrics of incoming and of processed rows.
CAME, DONE = "came_", "done_"


@dataclass(frozen=True)
class Shape:
    """One query: its unit of cost, and the worth of its rows."""

    name: str
    unit_ms: float
    worth: Worth

    @property
    def cost_s(self) -> float:
        """Mean cost of a row."""
        return self.unit_ms * sum(COSTS) / len(COSTS) / 1000.0


SHAPES = (
    Shape("light", 0.75, Worth("value", [(0, 0.5, 0.1), (0.5, 1, 1.0)])),
    Shape("middle", 1.5, Worth("value", [(0, 0.4, 0.1), (0.4, 0.7, 0.5), (0.7, 1, 1.0)])),
    Shape("heavy", 3.0, Worth("value", [(0, 0.7, 0.2), (0.7, 1, 1.0)])),
)


@dataclass(frozen=True)
class Effort:
    """Length and load of the benchmark."""

    repeats: int = 3
    ways: Sequence[Way] = WAYS
    overload: float = 2.0  #: multiple of the cores' capacity
    settle_s: float = 45.0
    measure_s: float = 30.0
    target: str = "3 s"
    alpha: float = 1.0
    shapes: Sequence[Shape] = field(default=SHAPES)

    def rate(self, shape: Shape) -> float:
        """Rows a second of a query, so that all bring the same work."""
        return self.overload * CORES / len(self.shapes) / shape.cost_s


def bench_balanced(folder: Path, effort: Effort, done: Callable[[], None]) -> dict[str, Any]:
    """One row per policy, over all repeats; ratios are taken within a repeat."""
    spark = local_session(folder, cores=CORES)
    run(spark, "random", replace(effort, settle_s=0.0), folder / "warm-up")
    done()
    runs: list[dict[Way, dict[str, Any]]] = []
    for repeat in range(effort.repeats):
        runs.append({})
        first = repeat % len(effort.ways)  # The JVM gets faster for minutes, so the order of policies alternates.
        for way in (*effort.ways[first:], *effort.ways[:first]):
            runs[-1][way] = run(spark, way, effort, folder / f"{repeat}-{way}")
            done()
    spark.stop()
    return {
        "bench": "balanced",
        "rows": [{"way": way, **summed_up([one[way] for one in runs])} for way in effort.ways],
        **ratios(runs),
        "parameters": {
            **parameters(effort, "ways", "shapes", cores=CORES, window_s=WINDOW_S),
            "queries": {
                shape.name: {
                    "rows_per_s": effort.rate(shape),
                    "costs_ms": [shape.unit_ms * cost for cost in COSTS],
                    "worth": [list(one) for one in shape.worth.intervals],
                }
                for shape in effort.shapes
            },
        },
    }


def run(spark: SparkSession, way: Way, effort: Effort, folder: Path) -> dict[str, Any]:
    """All queries under one policy: their utilities and waits."""
    with ExitStack() as stack:
        started = _started(spark, way, effort, folder, stack)
        queries = [query for _, _, query in started]
        # Time counts from when every query has completed a batch.
        wait_for(queries, lambda: all(guard.report() for _, guard, _ in started), FIRST_S)
        begin_s = time.time() + effort.settle_s
        # One extra batch, so that the last window is complete.
        wait_for(queries, lambda: False, effort.settle_s + effort.measure_s + 3.0)
        progress = {shape.name: [Progress.of(one) for one in query.recentProgress] for shape, _, query in started}
        histories = [guard.history() for _, guard, _ in started]
    end_s = begin_s + effort.measure_s
    utilities = {name: utility(own, name, begin_s, end_s) for name, own in progress.items()}
    count = max(int(effort.measure_s / WINDOW_S), 1)
    windows = [wait_s for history in histories for wait_s in windows_s(history, begin_s, count)]
    limit_s = MeanQueueLatency(effort.target).limit_s
    return {
        "utility": utilities,
        "mean": sum(utilities.values()) / len(utilities),
        "worst": min(utilities.values()),
        "jain": jain(list(utilities.values())),
        "within": sum(wait_s is not None and wait_s <= limit_s for wait_s in windows) / len(windows),
        "wait_s": [wait_s for wait_s in windows if wait_s is not None],
    }


def _started(
    spark: SparkSession, way: Way, effort: Effort, folder: Path, stack: ExitStack
) -> list[tuple[Shape, QueryGuard, StreamingQuery]]:
    policies: dict[str, Any] = {"random": "random", "balance_sic": "balance_sic"}
    policies["balanced"] = Balanced(alpha=effort.alpha)
    fair = stack.enter_context(Fair(effort.target, policy=policies[way])) if way in policies else None
    started: list[tuple[Shape, QueryGuard, StreamingQuery]] = []
    for shape in effort.shapes:
        checkpoint = folder / shape.name
        common: dict[str, Any] = {"row": "row", "checkpoint": checkpoint}
        guard: Guard | FairQuery
        if way == "load_aware":
            guard = Guard(MeanQueueLatency(effort.target), LoadAware(), key="key", name=shape.name, **common)
        elif fair is None:
            guard = Guard(MeanQueueLatency(effort.target), Balanced(value=shape.worth), name=shape.name, **common)
        else:
            known: dict[str, Any] = {"key": "key", "value": shape.worth} if way == "balanced" else {}
            guard = fair.query(shape.name, **common, **known)
        worth = F.sum("worth").alias("worth")
        rows = _stream(spark, shape, effort).observe(f"{CAME}{shape.name}", worth).transform(guard.admit)
        rows = rows.observe(f"{DONE}{shape.name}", worth).transform(guard.measured(busy, RESULT, form="row"))
        started.append((shape, guard, stack.enter_context(running(rows, guard, checkpoint))))
    return started


def _stream(spark: SparkSession, shape: Shape, effort: Effort) -> DataFrame:
    options = {"rate": effort.rate(shape), "seed": sum(map(ord, shape.name)), "keys": KEYS, "skew": 0.0}
    rows = spark.readStream.format("penstock").options(**options, partitions=CORES).load()
    cost = F.element_at(F.array(*map(F.lit, COSTS)), (F.col("key") % F.lit(len(COSTS)) + 1).cast("int"))
    return rows.withColumns({"cost_ms": cost * F.lit(shape.unit_ms), "worth": _worth(shape.worth)})


def _worth(worth: Worth) -> Column:
    value = F.col(worth.column)
    found = F.lit(worth.utilities[-1])
    for end, utility_below in reversed(list(zip(worth.ends, worth.utilities, strict=False))):
        found = F.when(value <= F.lit(end), F.lit(utility_below)).otherwise(found)
    return found


def utility(batches: Sequence[Progress], name: str, begin_s: float, end_s: float) -> float:
    """The utility of batches that began within a time; 0 if none did."""
    came = done = 0.0
    for batch in batches:
        if begin_s <= batch.start_s < end_s:
            came += (batch.observed.get(f"{CAME}{name}") or {}).get("worth") or 0.0
            done += (batch.observed.get(f"{DONE}{name}") or {}).get("worth") or 0.0
    return done / came if came > 0.0 else 0.0


def summed_up(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The repeats of one policy as medians with their spread, with the waits of all windows."""
    waits_s = [wait_s for one in runs for wait_s in one["wait_s"]]
    return {
        **{column: spread([one[column] for one in runs]) for column in ("mean", "worst", "jain")},
        "utility": {name: spread([one["utility"][name] for one in runs]) for name in runs[0]["utility"]},
        "windows_within_target": sum(one["within"] for one in runs) / len(runs),
        "wait_s": spread(waits_s) if waits_s else None,
    }


def ratios(runs: Sequence[dict[Way, dict[str, Any]]]) -> dict[str, Any]:
    """The utility of `balanced` over that of the others, within each repeat."""
    found = {}
    for column, other in (("worst", "balance_sic"), ("mean", "random")):
        each = [
            one["balanced"][column] / one[other][column]  # type: ignore[index]  # the names of ways
            for one in runs
            if {"balanced", other} <= set(one) and one[other][column] > 0.0  # type: ignore[index]
        ]
        found[f"{column}_over_{other}"] = spread(each) if each else None
    return found
