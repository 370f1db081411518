"""OSG's figure 12 on Spark: completion times as the stream unfolds, while the speed of every instance changes half way.

The paper's prototype runs 150,000 tuples through five instances of Storm, whose costs are multiplied by 1.05 to 0.95 in
the first half and by 0.90 to 1.10 in the second. Here it is a tenth of the rows, in micro-batches, and work that waits,
so that five instances need no five machines. Completion is counted from the start of a row's batch. Batches follow each
other without a pause, so there is no queue in front of them that grows as in the paper: what differs is how long a
batch takes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import TaskContext

from penstock.spark.bench.grouping import READERS, RESULT, UNIT_MS, finished, source_options, spend, written
from penstock.spark.grouping import by_cost
from penstock.spark.measured import unmeasured
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from penstock.plan import Plan
    from penstock.report import Report

#: How many times as long each instance takes, in the first half of the stream and in the second.
SPEEDS = ((1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10))
#: What the paper says: where OSG first goes by costs, and where it does so again, of 150,000 tuples.
PAPER_ROWS, PAPER_RUN_AT = 150_000, (20_978, 82_311)
#: The JVM warms up on so many rows first.
WARM_ROWS = 1000


@dataclass(frozen=True)
class Series:
    """How long the stream is, and how it is cut."""

    rows: int = 15_000
    batch_rows: int = 250
    window_rows: int = 200

    @property
    def change_at(self) -> int:
        """The first row of the second half."""
        return self.rows // 2


@dataclass(frozen=True)
class Instance:
    """Waits as long as a row says, by the speed of its instance at that row of the stream."""

    change_at: int

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row's result."""
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        start_s = time.time()
        spend("waiting", row["cost_ms"] / 1000.0 * SPEEDS[row["row"] >= self.change_at][partition])
        return {"row": row["row"], "partition": partition, "start_s": start_s, "end_s": time.time()}


def bench_series(folder: Path, series: Series, done: Callable[[], None]) -> dict[str, Any]:
    """Windows of both algorithms, and the rows at which costs are first gone by, and again after the change."""
    spark = local_session(folder, cores=len(SPEEDS[0]) + READERS)
    _run(spark, folder / "warm", Series(WARM_ROWS, series.batch_rows), costs=True)
    done()
    rows: list[dict[str, Any]] = []
    means_ms: dict[str, list[float]] = {}
    run_at: tuple[int | None, int | None] = None, None
    for algorithm in ("round_robin", "by_cost"):
        completions_s, reports, plans = _run(spark, folder / algorithm, series, costs=algorithm == "by_cost")
        rows.extend({"algorithm": algorithm, **one} for one in windows(completions_s, series.window_rows))
        halves = np.split(1000.0 * completions_s, [series.change_at])
        means_ms[algorithm] = [float(half.mean()) for half in halves]
        if algorithm == "by_cost":
            run_at = gone_by(reports, plans, series)
        done()
    spark.stop()
    return {
        "figure": "12",
        "rows": rows,
        "run_at": run_at,
        "completion_mean_ms": means_ms,
        "speed_up": [before / after for before, after in zip(*means_ms.values(), strict=True)],
        "parameters": {
            "rows": series.rows,
            "batch_rows": series.batch_rows,
            "window_rows": series.window_rows,
            "unit_ms": UNIT_MS,
            "speeds": SPEEDS,
            "readers": READERS,
            "work": "waiting",
            "paper": {"rows": PAPER_ROWS, "run_at": PAPER_RUN_AT},
        },
    }


def _run(
    spark: SparkSession, folder: Path, series: Series, *, costs: bool
) -> tuple[NDArray[np.float64], list[Report], list[Plan]]:
    """The completion time of every row, in order, and what was learned on the way."""
    source = spark.readStream.format("penstock").options(**source_options(series.rows))
    df = source.option("rows_per_batch", series.batch_rows).load()
    operator = Instance(series.change_at)
    own = by_cost("key", len(SPEEDS[0]), row="row", checkpoint=folder)
    if costs:
        out = df.transform(own).transform(own.measured(operator, RESULT, form="row"))
    else:
        out = unmeasured(df.repartition(len(SPEEDS[0])), operator, RESULT, "row")
    query = (
        out.writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    with own:
        if costs:
            own.watch(query)
        # More batches than Spark remembers would be lost: there are fewer.
        starts_s = {one.batch: one.start_s for one in finished(query)}
    table = written(folder / "sink", 0).sort_by("row")
    batches = table["row"].to_numpy() // series.batch_rows
    completions_s = table["end_s"].to_numpy() - np.array([starts_s[one] for one in batches.tolist()])
    return completions_s, own.history(), list(own.plans().plans()) if costs else []


def windows(completions_s: NDArray[np.float64], rows: int) -> list[dict[str, Any]]:
    """Least, mean and greatest completion time of each so many rows.

    >>> windows(np.array([0.001, 0.003, 0.002]), 2)[0]
    {'row': 2, 'completion_ms': {'mean': 2.0, 'min': 1.0, 'max': 3.0}}
    """
    found = []
    for at in range(rows, len(completions_s) + 1, rows):
        own = 1000.0 * completions_s[at - rows : at]
        found.append(
            {"row": at, "completion_ms": {"mean": float(own.mean()), "min": float(own.min()), "max": float(own.max())}}
        )
    return found


def gone_by(reports: Sequence[Report], plans: Sequence[Plan], series: Series) -> tuple[int | None, int | None]:
    """The first row that was dealt by costs, and the first one dealt by costs that were measured after the change."""
    decided_s = {plan.version: plan.decided_s for plan in plans}
    dealt = [report for report in reports if report.plan_version in decided_s]
    first = next((report.sequence * series.batch_rows for report in dealt), None)
    changed = next((report for report in reports if report.sequence * series.batch_rows >= series.change_at), None)
    if changed is None:
        return first, None
    again = (
        report.sequence * series.batch_rows
        for report in dealt
        if report.plan_version is not None and decided_s[report.plan_version] >= changed.end_s
    )
    return first, next(again, None)
