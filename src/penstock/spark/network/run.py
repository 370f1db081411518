"""A network as streaming queries: each stage a query, and one planner that all of them report to.

The planner is asked between two batches of the inputs, in the same thread, so the next batch meets its plan. A plan is
in the log before it acts, and a batch is bound to it before it runs: a replay drops the same rows. If planning fails,
rows flow.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from penstock.core.answers.weighted_aggregates import unweighted
from penstock.core.network.by_value.roadmap import judged_columns
from penstock.core.network.model import Network
from penstock.core.network.planner import NetworkPlanner, nothing_dropped
from penstock.core.network.statistics import Measured
from penstock.errors import PenstockError
from penstock.messages.drop_plan import Drop, DropPlan
from penstock.messages.snapshot import Snapshot
from penstock.spark import file_log
from penstock.spark.checkpoint import batch_id
from penstock.spark.feed import ProgressFeed
from penstock.spark.network import calibration, streams
from penstock.spark.network.batch import Batch, Counts, counted
from penstock.spark.network.bound import BoundPlans, ReusedError
from penstock.spark.network.drops import HIDDEN
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.feeds import feed, tidy
from penstock.spark.network.schemas import check_subjects, schemas
from penstock.spark.network.sinks import Outputs
from penstock.spark.network.stages import INPUTS, Stage, stages
from penstock.store import retention
from penstock.views.network.history import History
from penstock.wording import counted as so_many

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.network_file import NetworkFile
    from penstock.core.network.planner import Decision, Kind
    from penstock.core.network.roadmap import Entry

_logger = logging.getLogger("penstock")

#: SQL boxes are timed again after this many batches.
CALIBRATE_EVERY = 500
#: They are timed again sooner if there was too little work for it, once so many times as many rows come.
MANY_MORE = 4
#: At least this share of rows is kept by chance where a plan would keep none: of no row, nothing can be learned.
LEAST_KEPT = 0.01


class NetworkRun:
    """A network that runs; `snapshots` says how it went, batch by batch.

    Attributes:
        network: What is run.
        snapshots: The state after each of the last 1,000 batches of the inputs, and what all batches add up to.
        outputs: The sinks.
        errors: Errors that were met and survived.
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
            folder: Where the run keeps what it must remember.
            kind: How rows are dropped, if not as the file says.
            cores: A first guess of how many seconds of work get done in one.
            shed: Whether rows are dropped when there are too many.
            drops: What is dropped from the first batch on, until something else is decided.
            on_snapshot: Called after each batch of the inputs.
        """
        self._file, self._spark, self._folder = file, spark, folder
        inputs = streams.inputs(spark, file.sources)
        self.network = _with_columns(file.network, inputs)
        _refuse_names(self.network)
        self._schemas = schemas(spark, self.network, inputs.schema)
        if (kind or file.kind) == "semantic" and file.objective != "sum":
            raise PenstockError.setting("objective", file.objective, "sum with drops by value, or kind: random")
        self._stages = stages(self.network)
        self._boxes = {box.name: box for box in self.network.boxes}
        self._shed, self._on_snapshot = shed, on_snapshot
        self.planner = NetworkPlanner(
            self.network,
            trigger_s=file.trigger_s,
            headroom=file.headroom,
            kind=kind or file.kind,
            solver=file.solver,
            objective=file.objective,
            pace=float(cores),
            stages=[(one.name, frozenset([one.name, *one.boxes])) for one in self._stages if one.name in self._boxes],
        )
        check_subjects(spark, self.network, self._schemas, self.planner.subjects)
        _refuse_old_files(file, folder)
        _refuse_other_network(self.network, folder)
        self._plans = BoundPlans(folder, {stage.name: _file_name(stage.name) for stage in self._stages}, drops)
        self._entry, self._entries = nothing_dropped(self.network), 0
        self._told = _biased(self.network)
        #: How many stages write to an output.
        self._ends = Counter(arc.target for stage in self._stages for arc in stage.ends)
        self._lock = threading.RLock()
        self._begun_s: dict[str, float] = {}
        self._fed: dict[str, int] = {}
        self._later: list[Counts] = []  # what stages behind the inputs have counted since the last batch of the inputs
        self._timed: set[str] = set()
        self._progress: dict[str, ProgressFeed] = {}  # by query
        self._late: Counter[str] = Counter()  # rows lost so far, by query
        self._unbound, self._unbound_why = 0, ""  # batches that no plan judged, and why the last of them
        self._uncertain_rows: int | None = None
        self._batches = 0
        self.queries: list[StreamingQuery] = []
        self.snapshots = History()
        self.outputs = Outputs(file.sinks)
        self.errors = 0
        self._stopping = False
        self.plans_shown: dict[str, str] = {}
        self._streams = self._sources(inputs)

    def start(self, *, once: bool = False) -> None:
        """Start all queries; with `once`, work off what is there now, stage after stage, and end."""
        for stage in self._stages:
            query = self._started(stage, once=once)
            self.queries.append(query)
            if once:
                with contextlib.suppress(*SPARK_ERRORS):
                    query.awaitTermination()
                self.refuse_failure()
        if once:
            self._settle()

    @property
    def active(self) -> bool:
        """Whether all queries run."""
        return all(query.isActive for query in self.queries)

    def stop(self) -> None:
        """Stop all queries, those that feed others first."""
        self._stopping = True
        for query in self.queries:
            query.stop()
        self._settle()

    def _settle(self) -> None:
        """What stages have counted after the last batch of the inputs belongs to that batch's snapshot."""
        with self._lock:
            if self.snapshots and self._later:
                self.snapshots.add_rows(sum((Counter(one.arcs) for one in self._later), Counter()))
                self._later = []

    def refuse_failure(self) -> None:
        """Raise an error in one line if a query has failed."""
        for query in self.queries:
            error = None if query.isActive else query.exception()
            if error is not None:
                raise PenstockError(f"query {query.name} failed: {line_of(error)}")

    def table(self, output: str) -> pa.Table | None:
        """What an output with the sink `memory` has got so far."""
        return self.outputs.table(output)

    def _sources(self, inputs: DataFrame) -> dict[str, DataFrame]:
        """The stream of each stage."""
        found: dict[str, DataFrame] = {}
        for stage in self._stages:
            if stage.name in self._boxes:
                box = self._boxes[stage.name]
                feeds = [(self._feed(arc.name), self._schemas[arc.source]) for arc in self.network.into[box.name]]
                for folder, _ in feeds:
                    tidy(folder)
                stream = streams.stateful(self._spark, box, feeds, judged=judged_columns(self.network, box.name))
            else:
                stream = inputs
            found[stage.name] = stream
        return found

    def _feed(self, arc: str) -> Path:
        return self._folder / "feeds" / _file_name(arc)

    def _checkpoint(self, stage: Stage) -> Path:
        return self._folder / "checkpoints" / _file_name(stage.name)

    def _started(self, stage: Stage, *, once: bool) -> StreamingQuery:
        writer = self._streams[stage.name].writeStream.queryName(f"{self._file.name}.{stage.name}")
        writer = writer.option("checkpointLocation", str(self._checkpoint(stage)))
        writer = writer.foreachBatch(lambda rows, batch: self._run_batch(stage, rows, batch))
        trigger = (
            {"availableNow": True} if once else {"processingTime": f"{round(self._file.trigger_s * 1e3)} milliseconds"}
        )
        return writer.trigger(**trigger).start()

    def _run_batch(self, stage: Stage, rows: DataFrame, number: int) -> None:
        begun_s = time.time()
        own_id = batch_id(self._checkpoint(stage), number)
        if number % retention.PURGE_EVERY == 0:
            file_log.shorten(self._checkpoint(stage))  # Spark waits for this batch.
        plan = self._bound(stage, number, own_id)
        batch = Batch(self.network, stage, rows, plan, self.planner.subjects, self._schemas)
        try:
            for arc in stage.ends:
                df = batch.ends[arc.name]
                if arc.name not in self.plans_shown:
                    self.plans_shown[arc.name] = _explained(df)
                if arc.target in self._boxes:
                    fed, count = counted(df)
                    feed(fed, self._feed(arc.name) / _file_name(stage.name), number, own_id, count)
                else:
                    self.outputs.write(arc.target, df, number, stage.name if self._ends[arc.target] > 1 else "")
            snapshot = self._learned(stage, batch, number, plan, begun_s)
        finally:
            batch.close()
        if snapshot is not None and self._on_snapshot is not None:
            self._on_snapshot(snapshot)

    def _learned(self, stage: Stage, batch: Batch, number: int, plan: DropPlan, begun_s: float) -> Snapshot | None:
        """What is to be seen after a batch; planning that fails costs no row."""
        try:
            return self._learn(stage, batch, number, plan, batch.counts(), begun_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next rows must flow
            if not self._stopping:
                self._fail(error)
            return None

    def _bound(self, stage: Stage, number: int, own_id: str) -> DropPlan:
        """The plan of a batch: that of its binding if it was run before, else the newest, bound before it acts."""
        try:
            return self._plans.of(stage.name, number, own_id)
        except ReusedError:
            raise
        except (OSError, PenstockError) as error:
            self._unbound, self._unbound_why = self._unbound + 1, line_of(error)
            self._fail(error)
            return DropPlan(0, 0.0, note="rows flow")

    def _learn(
        self, stage: Stage, laid: Batch, number: int, plan: DropPlan, counts: Counts, begun_s: float
    ) -> Snapshot | None:
        ended_s = time.time()
        with self._lock:
            before_s = self._begun_s.get(stage.name)
            self._begun_s[stage.name] = begun_s
            for arc in stage.ends:
                if arc.target in self._boxes:
                    self._fed[arc.name] = self._fed.get(arc.name, 0) + counts.arcs[arc.name]
            if stage.name in self._boxes:
                self._later.append(counts)
                self._learn_stage(stage, laid, counts, ended_s - begun_s)
                return None
            elapsed_s = begun_s - before_s if before_s else 0.0
            batch = _measured(counts, self._later, plan, elapsed_s, ended_s - begun_s)
            self._later = []
            if sum(counts.came.values()):
                if self._due_for_timing(sum(counts.came.values())):
                    self._calibrate(stage, laid, ended_s - begun_s)
                    # The first batch of a cold JVM says nothing about the pace of the others.
                    batch = replace(batch, cold=not self._batches)
                self._batches += 1
            decision = self.planner.decide(batch, counts.quantiles)
            snapshot = self._snapshot(number, batch, plan, decision, ended_s)
            self.snapshots.append(snapshot)
            if self._shed and decision.changed:
                self._decide(decision)
        return snapshot

    def _learn_stage(self, stage: Stage, laid: Batch, counts: Counts, duration_s: float) -> None:
        """One batch of a stage that a box with a state begins."""
        fed = {arc.name: self._fed.pop(arc.name, 0) for arc in self.network.into[stage.name]}
        if sum(fed.values()):
            self.planner.known.learn_stage(stage.name, counts.arcs | fed, duration_s)
        if sum(counts.came.values()) and stage.name not in self._timed:
            timed = calibration.costs_s(self.network, stage, laid, self._schemas, duration_s)
            self.planner.known.calibrate(timed.costs_s)
            self._timed.add(stage.name)

    def _unbound_batches(self) -> tuple[str, ...]:
        """Batches of this run that kept every row, and may not do so when they are run again."""
        if not self._unbound:
            return ()
        ran = f"{so_many(self._unbound, 'batch', 'batches')} ran without a plan and kept every row"
        return (f"{ran}, the last because: {self._unbound_why}",)

    def _late_rows(self) -> tuple[str, ...]:
        """Rows that came too late for a window or a join, one line a query."""
        for query in self.queries:
            feed = self._progress.setdefault(str(query.name), ProgressFeed(query))
            self._late[str(query.name)] += sum(one.late_rows for one in feed.news().batches)
        told = {name: total for name, total in self._late.items() if total}
        return tuple(
            f"{so_many(total, 'row')} came too late for query {name} and {'is' if total == 1 else 'are'} lost"
            for name, total in told.items()
        )

    def _due_for_timing(self, rows: int) -> bool:
        """Whether boxes are to be timed: at first, now and then, and when there were too few rows the last time."""
        more = self._uncertain_rows is not None and rows >= MANY_MORE * self._uncertain_rows
        return self._batches % CALIBRATE_EVERY == 0 or more

    def _calibrate(self, stage: Stage, laid: Batch, duration_s: float) -> None:
        nothing = DropPlan(0, 0.0)
        timed = calibration.costs_s(self.network, stage, laid, self._schemas, duration_s)
        empty = self._spark.createDataFrame([], laid.head.schema)
        overhead_s = calibration.overhead_s(self.network, stage, empty, nothing, self._schemas)
        self.planner.known.calibrate(timed.costs_s, overhead_s)
        self._uncertain_rows = None if timed.certain else sum(laid.counts().came.values())

    def _decide(self, decision: Decision) -> None:
        """Put the decision into the log; from then on it is in force."""
        self._plans.add(_drops(decision.entry), decision.index)
        self._entry, self._entries = decision.entry, decision.entries

    def _snapshot(self, number: int, batch: Measured, plan: DropPlan, decision: Decision, ended_s: float) -> Snapshot:
        network, span_s = self.planner.known.network, batch.elapsed_s or batch.duration_s or 1.0
        flows = {name: rows / span_s for name, rows in batch.arcs.items()}
        shed = {drop.place: _shed_at(drop.place, batch, network) for drop in plan.drops}
        delivered = self._entry.delivered
        utilities = {one.name: one.loss_tolerance.utility(delivered.get(one.name, 100.0)) for one in network.outputs}
        return Snapshot(
            batch=number,
            time_s=ended_s,
            duration_s=batch.duration_s,
            rows={**batch.arcs, **batch.rows},
            rates={name: rows / span_s for name, rows in batch.rows.items()},
            flows=flows,
            loads={arc.name: flows.get(arc.name, 0.0) * arc.cost for arc in network.arcs},
            load=decision.load,
            capacity=decision.capacity,
            headroom=self._file.headroom,
            drops={drop.place: drop.words for drop in plan.drops},
            shed=shed,
            delivered=delivered,
            utilities=utilities,
            entry=plan.entry,
            entries=self._entries,
            rebuilt=self.planner.rebuilt,
            alarms=(*self._told, *self.planner.alarms, *self._unbound_batches(), *self._late_rows()),
        )

    def _fail(self, error: Exception) -> None:
        """Tell of an error, and let every row through from now on."""
        with self._lock:
            self._let_flow(error)

    def _let_flow(self, error: Exception) -> None:
        self.errors += 1
        self.planner.forget()
        _logger.warning("the network %s caught an error and keeps every row: %s", self._file.name, line_of(error))
        try:
            self._plans.let_flow("rows flow")
        except (OSError, PenstockError) as again:
            _logger.warning("that error cannot be written to its log either: %s", line_of(again))
        self._entry, self._entries = nothing_dropped(self.network), 0


def _with_columns(network: Network, inputs: DataFrame) -> Network:
    """The network with the columns that its inputs turn out to have."""
    schema = inputs.schema
    known = [replace(one, columns=tuple(schema[one.name].dataType.fieldNames())) for one in network.inputs]  # type: ignore[attr-defined]
    return Network(known, network.boxes, network.outputs)


def _file_name(name: str) -> str:
    """A name for a folder: the name itself if that can be one, and else one that no other name has.

    >>> _file_name("inputs"), _file_name("a->b")
    ('inputs', 'a-b-5e00e4c2')
    """
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name)
    return name if plain == name else f"{plain}-{xxhash.xxh32_hexdigest(name.encode())}"


def _refuse_names(network: Network) -> None:
    """Names that Spark, or this run, would take for one another."""
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
    """Files of another run: this one would replace some of them and leave the others."""
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
    """A folder with the checkpoints of another network: state and offsets would not fit."""
    plain = [replace(box, cost=0.0, selectivity=1.0) for box in network.boxes]
    text = repr((sorted(one.name for one in network.inputs), plain))
    note = folder / "network.txt"
    if note.exists() and note.read_text() != text:
        accepted = "the folder of this network, or a new one; inputs or boxes have changed since it was made"
        raise PenstockError.setting("folder", str(folder), accepted)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(text)


def _biased(network: Network) -> tuple[str, ...]:
    """Aggregates that are off when rows are dropped, one line each."""
    return tuple(
        f"boxes.{box.name}: {', '.join(found)} cannot be corrected by weights when rows are dropped"
        for box in network.boxes
        if box.op == "aggregate" and (found := [name for text in box.select.values() for name in unweighted(text)])
    )


def _measured(counts: Counts, later: list[Counts], plan: DropPlan, elapsed_s: float, duration_s: float) -> Measured:
    """One batch of the inputs, with what other stages have counted in the meantime."""
    arcs, leaving, busy_s = dict(counts.arcs), dict(counts.leaving), dict(counts.busy_s)
    for one in later:
        for mine, theirs in ((arcs, one.arcs), (leaving, one.leaving)):
            for name, rows in theirs.items():
                mine[name] = mine.get(name, 0) + rows
        for name, seconds in one.busy_s.items():
            busy_s[name] = busy_s.get(name, 0.0) + seconds
    by_value = frozenset(drop.place for drop in plan.drops if drop.condition)
    return Measured(elapsed_s, duration_s, counts.came, arcs, leaving, busy_s, by_value)


def _drops(entry: Entry) -> tuple[Drop, ...]:
    by_value = {place: one.sql() for place, one in entry.predicates.items()}
    # A condition that no row meets is a share too: Spark would fold it away, and with it what is counted before it.
    keep = entry.keep | {place: 0.0 for place, text in by_value.items() if text in ("false", "")}
    return (
        *(Drop(place, keep=max(share, LEAST_KEPT)) for place, share in keep.items()),
        *(Drop(place, condition=text) for place, text in by_value.items() if place not in keep),
    )


def _shed_at(place: str, batch: Measured, network: Network) -> int:
    if place in batch.rows:
        return batch.rows[place] - batch.leaving.get(place, 0)
    source = next(arc.source for arc in network.arcs if arc.name == place)
    return batch.leaving.get(source, 0) - batch.arcs.get(place, 0)


def _explained(df: DataFrame) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain()
    return text.getvalue()
