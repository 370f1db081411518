"""What a network learns from its batches: what was measured, and what SQL boxes cost, each timed alone over a sample.

Python boxes measure themselves and are not run here, because their side effects must happen once per row. A box behind
one is timed if the rows of the Python box are kept for several consumers; otherwise it counts as free.
"""

from __future__ import annotations

import threading
import timeit
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.loop.events import BatchEnded
from penstock.messages.plan import Plan
from penstock.messages.report import BoxStatistics, added
from penstock.spark.network.batch import Batch, root_rows, together, worked
from penstock.views.network.history import History
from penstock.views.network.snapshot import taken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock.core.network.model import Network
    from penstock.core.network.planner import NetworkPlanner
    from penstock.messages.report import Report
    from penstock.spark.network.layout import Layout, Stage
    from penstock.store.bound_plans import BoundPlans
    from penstock.views.network.snapshot import Snapshot

#: How much work a sample should be, roughly: less is lost in the noise of short jobs. The first try uses the length of
#: the batch, most of which may be overhead. If it was far too little, the next is this many times as large.
WORTH_S, FAR_TOO_LITTLE, TIMES_AS_LARGE = 1.0, 0.3, 8.0
#: How many times a box is run; the quickest counts.
TIMES = 2


def overhead_s(network: Network, stage: Stage, empty: DataFrame, schemas: Mapping[str, StructType]) -> float:
    """The time of a batch without rows, without sinks."""

    def run() -> None:
        batch = Batch(network, stage, empty, Plan.keep_all(0, "timing", 0.0), {}, schemas)
        try:
            for df in batch.ends.values():
                _run(df)
        finally:
            batch.close()

    return _least_s(run)


def costs_s(
    network: Network, stage: Stage, batch: Batch, schemas: Mapping[str, StructType], duration_s: float
) -> tuple[dict[str, float], bool]:
    """Seconds of a task for each row, by SQL box, after a batch of this length; a box without rows is omitted.

    Also, whether there was enough work for them to be certain.
    """
    share = min(WORTH_S / duration_s, 1.0)
    found, worked_s = _costs_s(network, stage, batch, schemas, share)
    while worked_s < FAR_TOO_LITTLE * WORTH_S and share < 1.0:
        share = min(TIMES_AS_LARGE * share, 1.0)
        found, worked_s = _costs_s(network, stage, batch, schemas, share)
    return found, worked_s >= FAR_TOO_LITTLE * WORTH_S


def _costs_s(
    network: Network, stage: Stage, batch: Batch, schemas: Mapping[str, StructType], share: float
) -> tuple[dict[str, float], float]:
    """Costs by box, and how long the work on a sample took in all."""
    sample = _sampled(batch.head, share).persist()
    took_s: dict[str, tuple[float, int]] = {}
    kept = [sample]
    boxes = {box.name: box for box in network.boxes}
    frames = {root: root_rows(sample, root, alone=len(stage.roots) == 1) for root in stage.roots}
    frames |= {name: _sampled(df, share) for name, df in batch.shared.items() if boxes[name].python}
    try:
        for name in stage.boxes:
            sources = [arc.source for arc in network.into[name]]
            if boxes[name].python or not any(source in frames for source in sources):
                continue
            empty = {one: sample.sparkSession.createDataFrame([], schemas[one]) for one in sources if one not in frames}
            given = together([(frames | empty)[source] for source in sources]).persist()
            kept.append(given)
            rows_in = given.count()
            frames[name] = worked(boxes[name], given)
            if rows_in:
                took_s[name] = _least_s(partial(_run, frames[name])), rows_in
        # The time of a job that only reads rows; measured last, when the JVM is warm.
        bare_s = _least_s(partial(_run, sample))
    finally:
        for df in kept:
            df.unpersist()
    worked_s = {name: max(took - bare_s, 0.0) for name, (took, _) in took_s.items()}
    return {name: worked_s[name] / rows for name, (_, rows) in took_s.items()}, sum(worked_s.values())


def _sampled(df: DataFrame, share: float) -> DataFrame:
    """A part of the rows in one task, because costs are in seconds of a task."""
    return (df.sample(fraction=share, seed=1) if share < 1.0 else df).coalesce(1)


def _least_s(work: Callable[[], None]) -> float:
    return min(timeit.repeat(work, number=1, repeat=TIMES))


def _run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


#: SQL boxes are timed again after this many batches.
CALIBRATE_EVERY = 500
#: They are timed again sooner after too little work, once this many times as many rows arrive.
MANY_MORE = 4


class Learning:
    """Turns the batches of all stages into what the planner learns from."""

    def __init__(
        self, layout: Layout, planner: NetworkPlanner, plans: BoundPlans, alarms: Callable[[], tuple[str, ...]]
    ) -> None:
        """Learn for this planner; `alarms` are added to the planner's own in snapshots."""
        self._layout, self._planner, self._plans, self._alarms = layout, planner, plans, alarms
        self._begun_s: dict[str, float] = {}
        self._fed: dict[str, int] = {}
        self._later: list[Report] = []  # what stages behind the inputs have counted since the last batch of the inputs
        self._timed: set[str] = set()  # stages whose boxes were timed
        self._uncertain_rows: int | None = None
        self._batches = 0
        self._lock = threading.RLock()
        self.snapshots = History()

    def learn(self, stage: Stage, laid: Batch, number: int, plan: Plan, begun_s: float) -> Snapshot | None:
        """Learn from a batch of a stage; after one of the inputs, plan for the next and make a snapshot."""
        report = laid.report(number, begun_s)
        with self._lock:
            before_s = self._begun_s.get(stage.name)
            # The first batch may be a replay: rows behind it have come since an earlier run bound it.
            bound_s = self._plans.bound_s(stage.name, number) if before_s is None else None
            self._begun_s[stage.name] = min(begun_s, begun_s if bound_s is None else bound_s)
            for arc in stage.ends:
                if self._layout.feeds(arc):
                    self._fed[arc.name] = self._fed.get(arc.name, 0) + report.links[arc.name].rows_kept
            if not self._layout.begins_with_inputs(stage):
                self._later.append(report)
                self._learn_stage(stage, laid, report)
                return None
            elapsed_s = max(begun_s - before_s, 0.0) if before_s else 0.0
            report = replace(added(report, *self._later), elapsed_s=elapsed_s)
            self._later = []
            if report.rows_in:  # Boxes are timed at first, periodically, and after too few rows the last time.
                more = self._uncertain_rows is not None and report.rows_in >= MANY_MORE * self._uncertain_rows
                if more or self._batches % CALIBRATE_EVERY == 0:
                    self._calibrate(stage, laid, report)
                    if not self._batches:  # The first batch of a cold JVM does not show the pace of the others.
                        report = replace(report, span_s=0.0)
                self._batches += 1
            entry, entries = self._planner.entry, self._planner.entries
            self._plans.handle(BatchEnded(report.end_s, number, report))
            snapshot = taken(report, plan, self._planner, (entry, entries), self._alarms())
            self.snapshots.append(snapshot)
        return snapshot

    def settle(self) -> None:
        """What stages have counted after the last batch of the inputs belongs to that batch's snapshot."""
        with self._lock:
            if self.snapshots and self._later:
                for report in self._later:
                    self.snapshots.add_rows({name: one.rows_kept for name, one in report.links.items()})
                self._later = []

    def _learn_stage(self, stage: Stage, laid: Batch, report: Report) -> None:
        """One batch of a stage that a box with a state begins."""
        network, known = self._layout.network, self._planner.known
        rows_out = report.boxes[stage.name].rows_out
        if fed := sum(self._fed.pop(arc.name, 0) for arc in network.into[stage.name]):
            box = BoxStatistics(fed, rows_out, 0.0)
            known.learn_stage(stage.name, replace(report, boxes={**report.boxes, stage.name: box}))
        if rows_out and stage.name not in self._timed:
            known.calibrate(costs_s(network, stage, laid, self._layout.schemas, report.duration_s)[0])
            self._timed.add(stage.name)

    def _calibrate(self, stage: Stage, laid: Batch, report: Report) -> None:
        network, schemas = self._layout.network, self._layout.schemas
        found, certain = costs_s(network, stage, laid, schemas, report.duration_s)
        empty = laid.head.sparkSession.createDataFrame([], laid.head.schema)
        self._planner.known.calibrate(found, overhead_s(network, stage, empty, schemas))
        self._uncertain_rows = None if certain else report.rows_in
