"""One run of the demo's query under a guard, with the guard's reports and every kept row."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.demo.workload import MUST_KEEP, RESULTS, Workload, enrich
from penstock.errors import PenstockError
from penstock.spark.guard.guard import Guard, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.messages.report import Report

#: The stream begins this long after the query is started.
LEAD_S = 3.0
LOOK_S = 0.25
#: The longest wait for the last batch of a run.
PATIENCE_S = 120.0
_WARM_UP_BATCHES, _WARM_UP_ROWS = 3, 150


@dataclass
class Run:
    """A run, during and after."""

    name: str  #: what to call it
    mode: Mode  #: the guard's mode
    workload: Workload  #: what arrives
    start_s: float = 0.0  #: when its stream began, in seconds since 1970
    reports: list[Report] = field(default_factory=list)  #: the guard's report of each batch that has ended
    alarms: tuple[str, ...] = ()  #: the guard's alarms; during the run, as of the last batch
    errors: int = 0  #: errors that the guard caught
    rows: pa.Table | None = None  #: rows kept by the batches in `reports`

    @property
    def elapsed_s(self) -> float:
        """Time since the stream began, now."""
        return max(time.time() - self.start_s, 0.0)

    @property
    def rows_in(self) -> int:
        """Rows that came to the gate so far."""
        return sum(report.rows_in for report in self.reports)

    @property
    def rows_per_batch(self) -> int | None:
        """The most rows of a batch: a guard needs no limit, and could not shed the rows behind it."""
        return self.workload.rows_per_batch if self.mode == "dry_run" else None

    @property
    def end_s(self) -> float:
        """When the last batch ended, in seconds since the stream began."""
        return self.reports[-1].end_s - self.start_s if self.reports else 0.0

    @property
    def over(self) -> bool:
        """Whether a batch has ended after the time of the run was up."""
        return bool(self.reports) and self.end_s >= self.workload.seconds

    def execute(self, spark: SparkSession, folder: Path, look: Callable[[], None]) -> None:
        """Run the query until its time is up and its last batch has ended; `look` is called repeatedly."""
        guard = self._guard(folder)
        self.start_s = time.time() + LEAD_S
        stream = self.workload.stream(spark, self.start_s, self.rows_per_batch)
        with _query(stream, guard, self.name, folder) as query:
            with guard.watch(query, on_report=self.reports.append):
                while not self.over:
                    look()
                    self.alarms = guard.alarms
                    _refuse_the_end(query, self.elapsed_s > self.workload.seconds + PATIENCE_S)
                    time.sleep(LOOK_S)
                self.alarms = guard.alarms
            self.errors = guard.errors
        # A batch may have ended after the last report.
        self.rows = spark.table(self.name).where(f"row < {self.rows_in}").toArrow()

    def warm_up(self, spark: SparkSession, folder: Path) -> None:
        """Run the same query over a few rows, to warm up the JVM and its Python workers."""
        guard = self._guard(folder)
        stream = self.workload.short_stream(spark, _WARM_UP_BATCHES, _WARM_UP_ROWS)
        with _query(stream, guard, f"{self.name}_warm_up", folder) as query, guard.watch(query):
            query.processAllAvailable()

    def _guard(self, checkpoint: Path) -> Guard:
        return Guard(
            MeanQueueLatency(self.workload.target_s),
            LoadAware(prefer="cheap"),
            key="key",
            row="row",
            keep=MUST_KEEP,
            mode=self.mode,
            checkpoint=checkpoint,
            name=self.name,
        )


@contextmanager
def _query(stream: DataFrame, guard: Guard, name: str, checkpoint: Path) -> Iterator[StreamingQuery]:
    results = stream.transform(guard.admit).transform(guard.measured(enrich, RESULTS, form="row"))
    writer = results.writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def _refuse_the_end(query: StreamingQuery, late: bool) -> None:  # noqa: FBT001 - one caller
    if late:
        raise PenstockError(
            f"no batch ended in the {PATIENCE_S:.0f} s after the run: this machine is too busy for a demo"
        )
    if not query.isActive:
        error = query.exception()
        reason = str(error).strip().partition("\n")[0] if error else ""
        raise PenstockError(f"the demo's query ended early: {reason or 'no reason is known'}")
