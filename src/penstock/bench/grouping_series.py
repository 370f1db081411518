"""OSG's figure 12 on Spark: completion times as the stream unfolds, while the speed of every instance changes half way.

The paper's prototype runs 150,000 tuples through five instances of Storm, whose costs are multiplied by 1.05 to 0.95 in
the first half and by 0.90 to 1.10 in the second. Here it is a tenth of the rows, in micro-batches, and work that waits,
so that five instances need no five machines. As in the paper completion is counted from a row's arrival. The paper's
rows come as fast as five instances can work; Spark also plans and commits each batch, so here they come at nine tenths
of that. A batch contains the rows that came during the previous one: uneven tasks make it longer, and so the next ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.grouping import READERS, UNIT_MS, source_options, spend, written
from penstock.spark.grouping.grouping import by_cost
from penstock.spark.probe.measured import unmeasured
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from penstock.messages.plan import Plan
    from penstock.messages.report import Report

#: How many times as long each instance takes, in the first half of the stream and in the second.
SPEEDS = ((1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10))
#: Load over the capacity of all instances.
LOAD = 0.9
#: From the paper: where OSG first uses costs, and where it does so again, of 150,000 tuples.
PAPER_ROWS, PAPER_RUN_AT = 150_000, (20_978, 82_311)
#: Rows to warm up the JVM.
WARM_ROWS = 2000
RESULT = "row bigint, arrival_s double, end_s double"


@dataclass(frozen=True)
class Series:
    """The length of the stream and of its batches."""

    rows: int = 15_000
    window_rows: int = 200

    @property
    def change_at(self) -> int:
        """The first row of the second half."""
        return self.rows // 2


@dataclass(frozen=True)
class Instance:
    """Sleeps for a row's cost times the factor of its instance at that row of the stream."""

    change_at: int

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row's result."""
        context = TaskContext.get()
        speeds = SPEEDS[row["row"] >= self.change_at]
        spend("waiting", row["cost_ms"] / 1000.0 * speeds[context.partitionId() if context else 0])
        return {"row": row["row"], "arrival_s": row["arrival"].timestamp(), "end_s": time.time()}


def bench_series(folder: Path, series: Series, done: Callable[[], None]) -> dict[str, Any]:
    """Windows of both algorithms, and the rows from which costs are used, first and after the change."""
    spark = local_session(folder, cores=len(SPEEDS[0]) + READERS)
    every_row = spark.read.format("penstock").options(**source_options(series.rows)).load()
    mean_s = float(every_row.agg(F.avg("cost_ms")).collect()[0][0]) / 1000.0
    rate = LOAD * len(SPEEDS[0]) / mean_s
    if WARM_ROWS:
        _run(spark, folder / "warm", Series(WARM_ROWS), rate, costs=True)
    done()
    rows: list[dict[str, Any]] = []
    means_ms: dict[str, list[float]] = {}
    run_at: tuple[int | None, int | None] = None, None
    for algorithm in ("round_robin", "by_cost"):
        made = _run(spark, folder / algorithm, series, rate, costs=algorithm == "by_cost")
        rows.extend({"algorithm": algorithm, **one} for one in windows(made.completions_s, series.window_rows))
        halves = np.split(1000.0 * made.completions_s, [series.change_at])
        means_ms[algorithm] = [float(half.mean()) for half in halves]
        if algorithm == "by_cost":
            run_at = gone_by(made, series)
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
            "window_rows": series.window_rows,
            "unit_ms": UNIT_MS,
            "load": LOAD,
            "rows_per_s": rate,
            "speeds": SPEEDS,
            "readers": READERS,
            "work": "waiting",
            "paper": {"rows": PAPER_ROWS, "run_at": PAPER_RUN_AT},
        },
    }


@dataclass(frozen=True)
class Made:
    """One run: the completion time of every row, in order, the first row of every batch, and what was learned."""

    completions_s: NDArray[np.float64]
    first_rows: dict[int, int]
    reports: Sequence[Report] = ()
    plans: Sequence[Plan] = ()


def _run(spark: SparkSession, folder: Path, series: Series, rate: float, *, costs: bool) -> Made:
    options = {name: value for name, value in source_options(series.rows).items() if name != "available"}
    df = spark.readStream.format("penstock").options(**options, rate=rate).load()
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
        .start()
    )
    batches: dict[int, int] = {}
    with own:
        if costs:
            own.watch(query)
        while query.isActive and sum(batches.values()) < series.rows:
            time.sleep(0.1)
            batches |= {one.batch: one.rows for one in map(Progress.of, query.recentProgress)}
        query.stop()
    if (error := query.exception()) is not None:
        raise error
    table = written(spark, folder / "sink", 0).sort_by("row").slice(0, series.rows)
    completions_s: NDArray[np.float64] = table["end_s"].to_numpy() - table["arrival_s"].to_numpy()
    first_rows = {batch: sum(rows for other, rows in batches.items() if other < batch) for batch in batches}
    return Made(completions_s, first_rows, own.history(), list(own.plans().plans()) if costs else [])


def windows(completions_s: NDArray[np.float64], rows: int) -> list[dict[str, Any]]:
    """Minimum, mean and maximum completion time per window of rows.

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


def gone_by(made: Made, series: Series) -> tuple[int | None, int | None]:
    """The first row that was dealt by costs, and the first one dealt by costs that were measured after the change."""
    decided_s = {plan.version: plan.decided_s for plan in made.plans}
    dealt = [report for report in made.reports if report.plan_version in decided_s]
    first = next((made.first_rows[report.sequence] for report in dealt), None)
    ends_s = [one.end_s for one in made.reports if made.first_rows[one.sequence] >= series.change_at]
    again = (
        made.first_rows[report.sequence]
        for report in dealt
        if report.plan_version is not None and ends_s and decided_s[report.plan_version] >= ends_s[0]
    )
    return first, next(again, None)
