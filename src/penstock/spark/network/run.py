"""A network as streaming queries: each stage a query, and one planner that all of them report to.

The planner runs between two batches of the inputs, in the same thread, so the next batch finds its plan. A plan is in
the log before it acts, and a batch is bound to it before it runs. So a replay drops the same rows. If planning fails,
every row is kept.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.loop.events import Misread
from penstock.core.network.by_value.roadmap import judged_columns
from penstock.core.network.model import Network
from penstock.core.network.planner import NetworkPlanner
from penstock.errors import PenstockError
from penstock.messages.plan import Drop, Plan
from penstock.spark import file_log
from penstock.spark.checkpoint import batch_id
from penstock.spark.network import streams
from penstock.spark.network.batch import Batch, counted
from penstock.spark.network.drops import HIDDEN
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.feeds import feed
from penstock.spark.network.layout import INPUTS, Layout, Stage, check_subjects, file_name, schemas, stages
from penstock.spark.network.learning import Learning
from penstock.spark.network.sinks import Outputs
from penstock.spark.network.weighted_aggregates import unweighted
from penstock.spark.progress import ProgressFeed
from penstock.store import retention
from penstock.store.bound_plans import BoundPlans, ReusedError
from penstock.store.folder import FolderStore
from penstock.wording import counted as words

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.network_file import NetworkFile
    from penstock.core.network.planner import Kind
    from penstock.views.network.history import History
    from penstock.views.network.snapshot import Snapshot

_logger = logging.getLogger("penstock")


class NetworkRun:
    """A network that runs; `snapshots` says how it went, batch by batch.

    Attributes:
        planner: What was learned, and what follows.
        queries: The streaming queries, those that feed others first.
        outputs: The sinks.
        plans_shown: Spark's plan of each arc at which rows leave a stage.
    """

    def __init__(
        self,
        spark: SparkSession,
        file: NetworkFile,
        folder: Path,
        *,
        kind: Kind | None = None,
        cores: int = 2,
        shed: bool = True,
        drops: tuple[Drop, ...] = (),
        on_snapshot: Callable[[Snapshot], None] | None = None,
    ) -> None:
        """Run the network of a file, with checkpoints, plans and feeds in `folder`.

        Args:
            spark: The session.
            file: What to run.
            folder: Where the run stores its state.
            kind: How rows are dropped, instead of the file's setting.
            cores: A first guess of how many seconds of work get done in one.
            shed: Whether rows are dropped when there are too many.
            drops: What is dropped from the first batch on, until something else is decided.
            on_snapshot: Called after each batch of the inputs.
        """
        self._file, self._on_snapshot = file, on_snapshot
        inputs = streams.inputs(spark, file.sources)
        #: What is run.
        self.network = network = _with_columns(file.network, inputs)
        _refuse_names(network)
        self._layout = layout = Layout(network, tuple(stages(network)), schemas(spark, network, inputs.schema), folder)
        if (kind or file.kind) == "semantic" and file.objective != "sum":
            raise PenstockError.setting("objective", file.objective, "sum with drops by value, or kind: random")
        self.planner = NetworkPlanner(
            network,
            trigger_s=file.trigger_s,
            headroom=file.headroom,
            kind=kind or file.kind,
            solver=file.solver,
            objective=file.objective,
            pace=float(cores),
            stages=[
                (one.name, frozenset([one.name, *one.boxes]))
                for one in layout.stages
                if not layout.begins_with_inputs(one)
            ],
            shed=shed,
        )
        self.planner.start = drops
        check_subjects(spark, network, layout.schemas, self.planner.subjects)
        _refuse_old_files(file, folder)
        _refuse_other_network(network, folder)
        names = {stage.name: file_name(stage.name) for stage in layout.stages}
        self._plans = plans = BoundPlans.below(folder, names, self.planner, tell=_logger.warning)
        self.queries: list[StreamingQuery] = []
        losses = Losses(network, self.queries)
        self._planning = SafePlanning(file.name, plans, losses, Learning(layout, self.planner, plans, losses.alarms))
        self.outputs = Outputs(file.sinks)
        self.plans_shown: dict[str, str] = {}
        self._streams = self._sources(spark, inputs)

    @property
    def snapshots(self) -> History:
        """The state after each of the last 1,000 batches of the inputs, and the sums of all batches."""
        return self._planning.learning.snapshots

    @property
    def errors(self) -> int:
        """Errors that were caught."""
        return self._planning.errors

    def start(self, *, once: bool = False) -> None:
        """Start all queries; with `once`, process the available rows, stage after stage, and end."""
        for stage in self._layout.stages:
            query = self._started(stage, once=once)
            self.queries.append(query)
            if once:
                with contextlib.suppress(*SPARK_ERRORS):
                    query.awaitTermination()
                self.refuse_failure()
        if once:
            self._planning.learning.settle()

    @property
    def active(self) -> bool:
        """Whether all queries run."""
        return all(query.isActive for query in self.queries)

    def stop(self) -> None:
        """Stop all queries, those that feed others first, and write a last plan that keeps every row."""
        self._planning.stopping = True
        for query in self.queries:
            query.stop()
        self._planning.learning.settle()
        self._plans.stop()

    def refuse_failure(self) -> None:
        """Raise an error in one line if a query has failed."""
        for query in self.queries:
            error = None if query.isActive else query.exception()
            if error is not None:
                raise PenstockError(f"query {query.name} failed: {line_of(error)}")

    def table(self, output: str) -> pa.Table | None:
        """What an output with the sink `memory` has got so far."""
        return self.outputs.table(output)

    def _sources(self, spark: SparkSession, inputs: DataFrame) -> dict[str, DataFrame]:
        """The stream of each stage."""
        found: dict[str, DataFrame] = {}
        layout, boxes = self._layout, {box.name: box for box in self.network.boxes}
        for stage in layout.stages:
            if layout.begins_with_inputs(stage):
                found[stage.name] = inputs
                continue
            box = boxes[stage.name]
            feeds = [(layout.feed(arc.name), layout.schemas[arc.source]) for arc in self.network.into[box.name]]
            found[stage.name] = streams.stateful(spark, box, feeds, judged=judged_columns(self.network, box.name))
        return found

    def _started(self, stage: Stage, *, once: bool) -> StreamingQuery:
        writer = self._streams[stage.name].writeStream.queryName(f"{self._file.name}.{stage.name}")
        writer = writer.option("checkpointLocation", str(self._layout.checkpoint(stage)))
        writer = writer.foreachBatch(lambda rows, batch: self._run_batch(stage, rows, batch))
        trigger = (
            {"availableNow": True} if once else {"processingTime": f"{round(self._file.trigger_s * 1e3)} milliseconds"}
        )
        return writer.trigger(**trigger).start()

    def _run_batch(self, stage: Stage, rows: DataFrame, number: int) -> None:
        begun_s, layout = time.time(), self._layout
        own_id = batch_id(layout.checkpoint(stage), number)
        if number % retention.PURGE_EVERY == 0:
            file_log.shorten(layout.checkpoint(stage))  # Spark waits for this batch.
        plan = self._planning.bound(stage, number, own_id)
        batch = Batch(self.network, stage, rows, plan, self.planner.subjects, layout.schemas)
        snapshot = None
        try:
            for arc in stage.ends:
                df = batch.ends[arc.name]
                if arc.name not in self.plans_shown:
                    self.plans_shown[arc.name] = _explained(df)
                if layout.feeds(arc):
                    fed, count = counted(df)
                    feed(fed, layout.feed(arc.name) / file_name(stage.name), number, own_id, count)
                else:
                    within = stage.name if layout.writers(arc.target) > 1 else ""
                    self.outputs.write(arc.target, df, number, within)
            snapshot = self._planning.learned(stage, batch, number, plan, begun_s)
        finally:
            batch.close()
        if snapshot is not None and self._on_snapshot is not None:
            self._on_snapshot(snapshot)


class SafePlanning:
    """Planning that stops no batch: if it fails, rows flow.

    Attributes:
        learning: What turns batches into plans.
        errors: Errors that were caught.
        stopping: Whether the queries are being stopped: what fails then is no error.
    """

    def __init__(self, network: str, plans: BoundPlans, losses: Losses, learning: Learning) -> None:
        """Plan for the network of this name; `losses` counts batches without a plan."""
        self._network, self._plans, self._losses = network, plans, losses
        self.learning, self.errors, self.stopping = learning, 0, False

    def bound(self, stage: Stage, number: int, own_id: str) -> Plan:
        """The plan of a batch; if there is none, one that keeps every row.

        Raises:
            ReusedError: If the number was bound before, for another batch.
        """
        try:
            return self._plans.of(stage.name, number, own_id)
        except ReusedError:
            raise
        except (OSError, PenstockError) as error:
            self._losses.unbound(line_of(error))
            self._fail(error)
            return Plan.keep_all(0, "rows flow", 0.0)

    def learned(self, stage: Stage, batch: Batch, number: int, plan: Plan, begun_s: float) -> Snapshot | None:
        """Learn from a batch, and plan for the next; returns the snapshot after a batch of the inputs."""
        try:
            return self.learning.learn(stage, batch, number, plan, begun_s)
        except Exception as error:  # noqa: BLE001 - after any error the next rows must flow
            if not self.stopping:
                self._fail(error)
            return None

    def _fail(self, error: Exception) -> None:
        """Report an error, and keep every row from now on."""
        self.errors += 1
        _logger.warning("the network %s caught an error and keeps every row: %s", self._network, line_of(error))
        self._plans.note(Misread(time.time()))


class Losses:
    """Counts losses outside the plans, late rows and batches without a plan, and raises alarms."""

    def __init__(self, network: Network, queries: list[StreamingQuery]) -> None:
        """Watch these queries, also those that are added later."""
        self._biased, self._queries = _biased(network), queries
        self._progress: dict[str, ProgressFeed] = {}  # by query
        self._late: Counter[str] = Counter()  # rows lost so far, by query
        self._unbound, self._why = 0, ""  # batches that no plan judged, and why the last of them

    def unbound(self, why: str) -> None:
        """A batch ran without a plan."""
        self._unbound, self._why = self._unbound + 1, why

    def alarms(self) -> tuple[str, ...]:
        """The losses so far, one line each. Batches that kept every row may not do so at a replay."""
        ran = f"{words(self._unbound, 'batch', 'batches')} ran without a plan and kept every row"
        unbound = (f"{ran}, the last because: {self._why}",) if self._unbound else ()
        return (*self._biased, *unbound, *self._late_rows())

    def _late_rows(self) -> tuple[str, ...]:
        """Rows that came too late for a window or a join, one line a query."""
        for query in self._queries:
            feed = self._progress.setdefault(str(query.name), ProgressFeed(query))
            self._late[str(query.name)] += sum(one.late_rows for one in feed.news().batches)
        told = {name: total for name, total in self._late.items() if total}
        return tuple(
            f"{words(total, 'row')} came too late for query {name} and {'is' if total == 1 else 'are'} lost"
            for name, total in told.items()
        )


def _biased(network: Network) -> tuple[str, ...]:
    """Aggregates that are wrong when rows are dropped, one line each."""
    return tuple(
        f"boxes.{box.name}: {', '.join(found)} cannot be corrected by weights when rows are dropped"
        for box in network.boxes
        if box.op == "aggregate" and (found := [name for text in box.select.values() for name in unweighted(text)])
    )


def _with_columns(network: Network, inputs: DataFrame) -> Network:
    """The network with the actual columns of its inputs."""
    schema = inputs.schema
    known = [replace(one, columns=tuple(schema[one.name].dataType.fieldNames())) for one in network.inputs]  # type: ignore[attr-defined]
    return Network(known, network.boxes, network.outputs)


def _refuse_names(network: Network) -> None:
    """Refuse names that Spark, or this run, would confuse."""
    seen: dict[str, str] = {INPUTS: "the inputs' own stage", **dict.fromkeys(HIDDEN, "a hidden column")}
    for kind, names in (
        ("inputs", [one.name for one in network.inputs]),
        ("boxes", [box.name for box in network.boxes]),
    ):
        for name in names:
            if name.lower() in seen:
                other = seen[name.lower()]
                raise PenstockError.setting(
                    f"a name of {kind}", name, f"one that differs from {other} by more than case"
                )
            seen[name.lower()] = name


def _refuse_old_files(file: NetworkFile, folder: Path) -> None:
    """Refuse files of another run: this one would replace only some of them."""
    if (folder / "checkpoints").exists():
        return
    for name, sink in file.sinks.items():
        path = sink.options.get("path", "")
        if (
            sink.format in ("parquet", "json", "csv")
            and "://" not in path
            and Path(path).is_dir()
            and any(Path(path).iterdir())
        ):
            accepted = "an empty folder, or the folder of the run that wrote it (--folder)"
            raise PenstockError.setting(f"outputs.{name}.to.options.path", path, accepted)


def _refuse_other_network(network: Network, folder: Path) -> None:
    """Refuse a folder with the checkpoints of another network: state and offsets would not match."""
    plain = [replace(box, cost=0.0, selectivity=1.0) for box in network.boxes]
    text = repr((sorted(one.name for one in network.inputs), plain))
    store = FolderStore(folder)
    if (store.read("network.txt") or text.encode()) != text.encode():
        accepted = "the folder of this network, or a new one; inputs or boxes have changed since it was made"
        raise PenstockError.setting("folder", str(folder), accepted)
    store.replace("network.txt", text.encode())


def _explained(df: DataFrame) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain()
    return text.getvalue()
