"""How fast the gate is: `guard.admit` against `DataFrame.sample` on the same rows.

Both keep half of the rows and write them to Spark's `noop` sink. The guard's plan is a load-aware table: every bucket
has a share of its own. These are batch queries, in which the gate takes the plan in force as a literal.
`penstock bench idle` measures what reading the control table adds to a micro-batch.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.spread import spread
from penstock.core.control.allotment import DEAR, cheapest_first
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.guard.guard import Guard
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: Times each is run before any is timed: the JVM compiles as it goes.
WARM_UPS = 3


def half_table(seed: int = 0) -> KeepTable:
    """The table of a load-aware plan that keeps half of evenly spread rows, the cheap half."""
    costs_s = np.random.default_rng(seed).uniform(0.0001, 0.0064, BUCKETS)
    rows = np.ones(BUCKETS)
    keep = cheapest_first(rows, costs_s, budget=np.inf, most_rows=BUCKETS / 2)
    return KeepTable(SOURCE, keep=tuple(keep.tolist()), reasons=(DEAR,))


def bench_gate(folder: Path, rows: int, repeats: int, done: Callable[[], None]) -> dict[str, Any]:
    """Rows a second of gate and sample, in turn, and their ratio."""
    spark = local_session(folder)
    guard = Guard(
        MeanQueueLatency("2 s"), LoadAware(prefer="cheap"), key="user_id", row="id", checkpoint=folder / "gate"
    )
    events = _events(spark, rows)
    ways: dict[str, Callable[[], DataFrame]] = {
        "gate": lambda: events.transform(guard.admit),
        "sample": lambda: events.sample(0.5),
        "everything": lambda: events,
    }
    _renew(guard)
    kept = {name: way().count() / rows for name, way in ways.items()}
    times_s: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(WARM_UPS + repeats):
        for name, way in ways.items():
            _renew(guard)
            df, begin_s = way(), time.perf_counter()
            df.write.format("noop").mode("overwrite").save()
            if repeat >= WARM_UPS:
                times_s[name].append(time.perf_counter() - begin_s)
        done()
    spark.stop()
    ratios = [sample_s / gate_s for gate_s, sample_s in zip(times_s["gate"], times_s["sample"], strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "ratio_spread": spread(ratios),
        "rows_per_s": {name: spread([rows / took_s for took_s in taken]) for name, taken in times_s.items()},
        "kept_share": kept,
        "parameters": {"rows": rows, "repeats": repeats, "warm_ups": WARM_UPS, "cores": 2, "buckets": BUCKETS},
    }


def _events(spark: SparkSession, rows: int) -> DataFrame:
    """Rows as a stream has them: an identity, a key, a time of arrival, a number."""
    return spark.range(rows).select(
        "id",
        F.col("id").bitwiseAND(F.lit(0xFFFFF)).alias("user_id"),
        F.timestamp_seconds(F.col("id")).alias("arrival"),
        (F.col("id") * F.lit(0.01)).alias("amount"),
    )


def _renew(guard: Guard) -> None:
    """A plan decided now: one that sheds acts only for its lease."""
    plans = guard.plans()
    version = plans.next_version()
    plans.add(version, Plan(version, "load_aware", time.time(), 0, gates=(half_table(),)))
