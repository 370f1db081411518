"""What grouping by cost gains: `grouping.by_cost` against `repartition(k)` and against knowing every cost, in turn.

The paper's stream (OSG, section 5.1): 4,096 items by Zipf's law with exponent 1. Each has one of 64 costs from 1 to 64
times a unit. Micro-batches have enough rows that a task of `repartition(k)` works about a second. Each way of dealing
has its own query on the same rows, which continues from repeat to repeat; AQE is on.

Of each row its operator writes down when it was taken up and when it was done. Stage time is that from the first row
taken up to the last one done, so the slowest task's. A row's completion time is counted from the start of its batch,
with all that is planned, read, dealt and shuffled in it.

Most work here *waits*, as for the answer of a database: eight such tasks need no eight cores. Busy work is measured for
two tasks, which need two. `full_knowledge` is our deal by true costs, in classes two percent wide.

OSG's figure 12 is run as well: completion times as the stream unfolds, while the speed of every instance changes half
way. The paper's prototype runs 150,000 tuples through five instances of Storm. Their costs are multiplied by 1.05 to
0.95 in the first half and by 0.90 to 1.10 in the second. Here it is a tenth of the rows, in micro-batches, and work
that waits, so that five instances need no five machines. As in the paper completion is counted from a row's arrival.
The paper's rows come as fast as five instances can work. Spark also plans and commits each batch, so here they come at
nine tenths of that. A batch contains the rows that came during the previous one: uneven tasks make it longer, and so
the next ones.
"""

from __future__ import annotations

import math
import statistics
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.bench.spread import spread
from penstock.bench.workload import Work, spend
from penstock.spark.grouping.grouping import Grouping, by_cost
from penstock.spark.probe.measured import unmeasured
from penstock.spark.progress import Progress
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.messages.plan import Plan
    from penstock.messages.report import Report

Way = Literal["round_robin", "by_cost", "full_knowledge"]
WAYS: tuple[Way, ...] = ("round_robin", "by_cost", "full_knowledge")
#: Columns that the operator gives.
RESULT = "row bigint, arrival_s double, start_s double, end_s double"
#: The paper's items and costs; a unit of half a millisecond can be slept.
UNIT_MS, ITEMS, VALUES = 0.5, 4096, 64
#: The constant cost of a stream whose rows are all alike: the mean of the others.
MEAN_MS = UNIT_MS * (VALUES + 1) / 2.0
#: Tasks that read and deal a batch.
READERS = 2
SLOTS = 8
#: Runs from which a batch job learns: a slow partition counts after two of them.
LEARN_JOBS = 3
#: Figure 12: how many times as long each instance takes, in the first half of the stream and in the second.
SPEEDS = ((1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10))
#: Load over the capacity of all instances.
LOAD = 0.9
#: From the paper: where OSG first uses costs, and where it does so again, of 150,000 tuples.
PAPER_ROWS, PAPER_RUN_AT = 150_000, (20_978, 82_311)
#: Rows to warm up the JVM.
WARM_ROWS = 2000


@dataclass(frozen=True)
class Case:
    """One stream and what is done with it."""

    partitions: int
    work: Work = "waiting"
    slow: float = 1.0  #: how many times as long the first partition takes
    constant: bool = False  #: all rows cost the same
    batch: bool = False  #: one batch job in place of a stream
    long: int = 1  #: how many times as many rows a batch has

    @property
    def told(self) -> dict[str, Any]:
        """For the rows of a result."""
        return {
            "job": "batch" if self.batch else "stream",
            "k": self.partitions,
            "work": self.work,
            "costs": "constant" if self.constant else "zipf-1.0",
            "slow_instance": self.slow,
            "batches_of_s": self.long,
        }


CASES = (
    Case(2),
    Case(4),
    Case(8),
    Case(4, slow=1.5),
    Case(8, slow=1.5),
    Case(2, "busy"),
    Case(2, "busy", slow=1.5),
    Case(4, constant=True),
    Case(4, constant=True, long=5),
    Case(4, batch=True),
    Case(4, batch=True, slow=1.5),
)


@dataclass(frozen=True)
class Effort:
    """Length and load of the benchmark."""

    repeats: int = 3
    learn: int = 10  #: batches before the first repeat
    batches: int = 6  #: batches a repeat
    rows: int = 64  #: rows of a batch for each partition
    cases: Sequence[Case] = CASES

    @property
    def steps(self) -> int:
        """Runs that report progress one by one."""
        return len(self.cases) * (1 + self.repeats)


@dataclass(frozen=True)
class Operator:
    """Waits or works as long as a row says times the factor of its partition, and writes down when."""

    work: Work
    factors: Sequence[Sequence[float]]  #: of each partition; the second ones count from the row `change_at` on
    change_at: float = math.inf

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row's result."""
        context = TaskContext.get()
        factor = self.factors[row["row"] >= self.change_at][context.partitionId() if context else 0]
        start_s = time.time()
        spend(self.work, row["cost_ms"] / 1000.0 * factor)
        arrival_s = row["arrival"].timestamp()
        return {"row": row["row"], "arrival_s": arrival_s, "start_s": start_s, "end_s": time.time()}


def source_options(rows: int, *, constant: bool = False) -> dict[str, float]:
    """The first rows of the paper's stream, from the embedded source."""
    return {
        "available": rows,
        "partitions": READERS,
        "seed": 1,
        "keys": ITEMS,
        "skew": 1.0,
        "cost_values": 1 if constant else VALUES,
        "min_cost_ms": MEAN_MS if constant else UNIT_MS,
        "max_cost_ms": MEAN_MS if constant else VALUES * UNIT_MS,
    }


def bench_grouping(folder: Path, effort: Effort, done: Callable[[], None]) -> dict[str, Any]:
    """One row for each case and way."""
    spark = local_session(folder, cores=SLOTS)
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(effort.cases):
        runs = _Runs(spark, folder / f"case-{number}", case, effort)
        if effort.learn:
            runs.first()
        done()
        for repeat in range(effort.repeats):
            runs.repeat(repeat)
            done()
        rows.extend(runs.rows())
    spark.stop()
    return {
        "rows": rows,
        "parameters": {
            "items": ITEMS,
            "cost_values": VALUES,
            "unit_ms": UNIT_MS,
            "rows_per_partition_and_batch": effort.rows,
            "batches": effort.batches,
            "learn_batches": effort.learn,
            "repeats": effort.repeats,
            "readers": READERS,
            "slots": SLOTS,
        },
    }


@dataclass
class _Runs:
    """The ways of one case, in turn."""

    spark: SparkSession
    folder: Path
    case: Case
    effort: Effort
    found: dict[Way, list[dict[str, float]]] = field(default_factory=lambda: {way: [] for way in WAYS})

    def __post_init__(self) -> None:
        case = self.case
        factors = (case.slow, *[1.0] * (case.partitions - 1))
        known = factors if case.slow != 1.0 else ()
        self.groupings: dict[Way, Grouping] = {
            "by_cost": by_cost("key", case.partitions, row="row", checkpoint=self.folder / "by_cost"),
            "full_knowledge": by_cost(cost="cost_s", partitions=case.partitions, row="row", factors=known),
        }
        self.operator = Operator(case.work, (factors,))
        self.batch_rows = self.effort.rows * case.partitions * case.long
        self.done_rows = 0

    def first(self) -> None:
        """Warm up, and learn: a stream from batch to batch, a batch job from one run to the next."""
        jobs = LEARN_JOBS if self.case.batch else 1
        for _ in range(jobs):
            self._run_all(self._batches(self.effort.learn // jobs))

    def repeat(self, number: int) -> None:
        """One repeat, with another way first each time."""
        turn = number % len(WAYS)
        for way, measured in self._run_all(self._batches(self.effort.batches), (*WAYS[turn:], *WAYS[:turn])).items():
            self.found[way].append(measured)

    def _batches(self, short: int) -> int:
        """About as many rows in long batches as in short ones."""
        return max(2, short // self.case.long)

    def _run_all(self, batches: int, ways: Sequence[Way] = WAYS) -> dict[Way, dict[str, float]]:
        first, self.done_rows = self.done_rows, self.done_rows + batches * self.batch_rows
        run = self._batch if self.case.batch else self._stream
        return {way: run(way, first) for way in ways}

    def _dealt(self, df: DataFrame, way: Way) -> DataFrame:
        """The rows of one grouping, and the operator's results."""
        df = df.withColumn("cost_s", F.col("cost_ms") / 1000.0)
        if way == "by_cost":
            own = self.groupings[way]
            return df.transform(own).transform(own.measured(self.operator, RESULT, form="row"))
        dealt = df.repartition(self.case.partitions) if way == "round_robin" else df.transform(self.groupings[way])
        return unmeasured(dealt, self.operator, RESULT, "row")

    def _stream(self, way: Way, first: int) -> dict[str, float]:
        """Continue the stream of a grouping; returns its batch times."""
        options = source_options(self.done_rows, constant=self.case.constant) | {"rows_per_batch": self.batch_rows}
        dealt = self._dealt(self.spark.readStream.format("penstock").options(**options).load(), way)
        query = _writer(dealt, self.folder / way).trigger(availableNow=True).start()
        with self.groupings[way] if way == "by_cost" else nullcontext() as grouping:
            if grouping is not None:
                grouping.watch(query)
            query.awaitTermination()
        if (error := query.exception()) is not None:
            raise error
        progress = [one for one in map(Progress.of, query.recentProgress) if one.rows]
        table = written(self.spark, self.folder / way / "sink", first)
        starts_s = {one.batch: one.start_s for one in progress}
        batches = table["row"].to_numpy() // self.batch_rows
        return measures(table, batches, starts_s, {one.batch: one.duration_s for one in progress})

    def _batch(self, way: Way, first: int) -> dict[str, float]:
        """One batch job over the rows from `first` on; returns its times. Its costs are learned for the next one."""
        options = source_options(self.done_rows, constant=self.case.constant)
        df = self.spark.read.format("penstock").options(**options).load()
        out = self._dealt(df.filter(F.col("row") >= first), way)
        sink = self.folder / f"{way}-{first}"
        start_s = time.time()
        out.write.parquet(str(sink))
        took_s = time.time() - start_s
        if way == "by_cost":
            self.groupings[way].learn()
        table = written(self.spark, sink, first)
        return measures(table, np.zeros(table.num_rows, np.int64), {0: start_s}, {0: took_s})

    def rows(self) -> list[dict[str, Any]]:
        """One for each way."""
        base = self.found["round_robin"]
        oracle = self.found["full_knowledge"]
        return [
            {
                **self.case.told,
                "way": way,
                **{name: spread([one[name] for one in own]) for name in own[0]},
                "speed_up": {name: spread(_ratios(base, own, name)) for name in own[0]},
                "of_full_knowledge": {name: statistics.median(_ratios(oracle, own, name)) for name in own[0]},
            }
            for way, own in self.found.items()
        ]


def _ratios(base: list[dict[str, float]], own: list[dict[str, float]], name: str) -> list[float]:
    return [before[name] / after[name] for before, after in zip(base, own, strict=True)]


def _writer(out: DataFrame, folder: Path) -> DataStreamWriter:
    """Writes to Parquet files in `sink` beside the checkpoint."""
    writer = out.writeStream.format("parquet").option("path", str(folder / "sink"))
    return writer.option("checkpointLocation", str(folder))


def written(spark: SparkSession, sink: Path, first: int) -> pa.Table:
    """The rows from that number on, without those of an incomplete batch."""
    return spark.read.parquet(str(sink)).filter(F.col("row") >= first).toArrow()


def measures(
    table: pa.Table, batches: NDArray[np.int64], starts_s: dict[int, float], durations_s: dict[int, float]
) -> dict[str, float]:
    """Stage time and batch time, on average over batches, and completion times of rows."""
    begins_s, ends_s = table["start_s"].to_numpy(), table["end_s"].to_numpy()
    stages_s = [ends_s[batches == one].max() - begins_s[batches == one].min() for one in np.unique(batches)]
    completions_s = ends_s - np.array([starts_s[one] for one in batches.tolist()])
    return {
        "stage_s": float(np.mean(stages_s)),
        "completion_mean_s": float(completions_s.mean()),
        "completion_p99_s": float(np.quantile(completions_s, 0.99)),
        "batch_s": float(np.mean([durations_s[one] for one in np.unique(batches).tolist()])),
    }


@dataclass(frozen=True)
class Series:
    """The length of the stream and of its batches."""

    rows: int = 15_000
    window_rows: int = 200

    @property
    def change_at(self) -> int:
        """The first row of the second half."""
        return self.rows // 2


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
            **asdict(series),
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
    operator = Operator("waiting", SPEEDS, series.change_at)
    own = by_cost("key", len(SPEEDS[0]), row="row", checkpoint=folder)
    if costs:
        out = df.transform(own).transform(own.measured(operator, RESULT, form="row"))
    else:
        out = unmeasured(df.repartition(len(SPEEDS[0])), operator, RESULT, "row")
    query = _writer(out, folder).start()
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
