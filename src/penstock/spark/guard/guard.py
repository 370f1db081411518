"""The guard: holds a user's streaming query to a target."""

import logging
import os
import time
import uuid
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import penstock.spark.guard.misuse as gate_checks
from penstock.config.guard_file import read_guard
from penstock.core.control.gate import gate_salt
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import Planner, Policy
from penstock.core.control.targets import Target
from penstock.core.loop.binding import Start
from penstock.core.settings import duration_s, one_of
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.messages.plan import Costs
from penstock.messages.report import Report
from penstock.spark.guard.attachment import Attachment, active_queries
from penstock.spark.guard.batches import PROBE
from penstock.spark.guard.behind_gate import LookBehind
from penstock.spark.guard.checks import Control, check_operator, columns_of, guard_name
from penstock.spark.guard.controller import Controller
from penstock.spark.guard.misuse import ONE_GATE, REMINDER, Gate, check_checkpoint, check_frame, every_row_comes
from penstock.spark.guard.reading import Dealing, GuardReading, Reading
from penstock.spark.lifecycle import Metered, Watcher
from penstock.spark.plans.admission import Admission
from penstock.spark.plans.binding import GateOptions, costs_in_force
from penstock.spark.plans.foreach_batch import ForeachBatch, Inside
from penstock.spark.plans.places import on_connect
from penstock.spark.plans.remote import Store
from penstock.spark.plans.rules import new_number
from penstock.spark.plans.sic_columns import SicOfRows
from penstock.spark.probe.measured import Form, measured, unmeasured
from penstock.spark.quarantine.forward import Quarantine
from penstock.spark.quarantine.replay import calm
from penstock.spark.quarantine.rows import Place, Writer
from penstock.spark.quarantine.second_read import reads, second_read
from penstock.spark.quarantine.shed_account import ShedAccount
from penstock.spark.row_columns import RowColumns, made_by, passed_on
from penstock.store.recent_reports import Totals
from penstock.store.report_log import Watch

Mode = Literal["enforce", "dry_run", "off"]
Backlog = Literal["keep", "thin"]

#: How long `attach` waits for its query unless told otherwise.
ATTACH_S = 60.0


#: The watched queries of this process: a guard's name and its controller, by the query's identity.
_watched: dict[str, tuple[str, Controller]] = {}


class Hashed(NamedTuple):
    """What identifies the rows of a stream at the gate."""

    salt: int  #: of the gate's hash: plans carry it from now on
    row: tuple[str, ...]  #: the hashed columns
    types: tuple[tuple[str, ...], tuple[str, ...]]  #: those of the key's columns, and of these


class Parts(NamedTuple):
    """What a guard is made of; the same for each run of its query."""

    name: str
    mode: Mode
    control: Control
    columns: RowColumns
    gate: str  #: the name of its gate's counts; what those names begin with if it has several
    policy: str  #: the name of the policy, for readers of its reports
    sources: tuple[str, ...] = ()  #: by which rows are judged; none: by their keys
    quarantine: Quarantine | None = None


class QueryGuard(Watcher, Metered):
    """What a guard and each query of a `Fair` have in common: one gate or several, a probe, and a watching thread."""

    kind = "guard"

    def __init__(self, checkpoint: str | os.PathLike[str] | None, parts: Parts) -> None:
        """Put the parts together; plans are kept under the checkpoint."""
        super().__init__(checkpoint)
        self.name, self.mode = parts.name, parts.mode
        self._parts = parts
        self._hashed: Hashed | None = None  # of the last stream that was admitted
        self._grouped: tuple[str, int] | None = None
        self._shed: ShedAccount | None = None
        self._attachment: Attachment | None = None
        self._foreach_batch = ForeachBatch()
        self._gate: GateOptions | None = None
        self._number: int | None = None  # of the rules of a gate behind a grouping
        self._token = uuid.uuid4().hex  # identifies this guard's state on a worker

    @property
    def _columns(self) -> RowColumns:
        return self._parts.columns

    @property
    def _probe(self) -> str:
        """The name of the counts of its probe."""
        return f"{PROBE}{self.name}"

    @property
    def target(self) -> Target:
        """Its target."""
        return self._parts.control.target

    @property
    def backlog(self) -> str:
        """What happens to rows that waited while the query was stopped: `keep` or `thin`."""
        return self._parts.control.backlog

    @property
    def _salt(self) -> int:
        """The salt of the gate's hash."""
        return gate_salt(self._parts.control.seed, self.name) if self._hashed is None else self._hashed.salt

    def _unjudged(self, df: DataFrame) -> DataFrame:
        """The rows of a gate that is off, each with its weight."""
        weighed = df if self._columns.has_weight(df) else df.withColumn(self._columns.weight, F.lit(1.0))
        made = made_by(weighed, self._columns.weight, self.name)
        return second_read(made, df) if self._reads(df) > 1 else made

    def _gated(
        self, df: DataFrame, metric: str, number: int, sic: SicOfRows | None = None, inside: Inside | None = None
    ) -> DataFrame:
        """The gate of a stream, whose rules have this number; or of one micro-batch."""
        store, columns = self._stored(df.sparkSession), self._columns
        salt = gate_salt(self._parts.control.seed, self.name, weighted=columns.has_weight(df))
        admission = Admission(
            name=self.name,
            columns=columns,
            salt=salt,
            mode=self.mode,
            number=number if inside is None else inside.number,
            metric=metric,
            start=self._start(df) if inside is None else inside.start,
            claim=self._claim_folder,
            quarantine=str(self._shed_folder() or ""),
            writer=lambda: self._quarantine_writer(df),
            reads=self._reads(df),
            shed_first=self._number is None,
            inside=inside,
        )
        before = self._gate
        admitted, self._gate = admission.admit(df, store, sic)
        self._hashed = Hashed(salt, columns.identity(df), columns.types(df))
        if self._checkpoint is None and self.mode == "enforce" and before is None and (df.isStreaming or inside):
            gate_checks.warn_of_temporary_folder(self.name)
        if df.isStreaming and self.mode != "off":
            REMINDER.expect(self._token, Gate(self.name, metric, df.sparkSession))
        return admitted

    def _start(self, df: DataFrame) -> Start:
        return self._parts.control.start()._replace(counted=df.isStreaming and every_row_comes(df))

    def _inside(self, df: DataFrame) -> Inside | None:
        """The micro-batch, if a function for `foreachBatch` is running in this thread."""
        return self._foreach_batch.of(df, lambda: self._start(df))

    def measured(
        self, function: Callable[..., Any], schema: str | StructType, form: Form = "arrow"
    ) -> Callable[[DataFrame], DataFrame]:
        """The user's operator with a probe around it, for `DataFrame.transform`; its results stay as they are.

        Args:
            function: What to run, like that of `mapInArrow` or `mapInPandas`. Or a function that takes one row as a
                dictionary and returns a row, several, or None.
            schema: Schema of its results, as in `mapInArrow`.
            form: `arrow`, `pandas` or `row`: which of these it is.
        """
        check_operator(function, form)
        if self._parts.control.row_gate and form != "row":
            raise PenstockError.setting("form", form, "'row' together with row_gate=True", "it sheds row by row")

        def transform(df: DataFrame) -> DataFrame:
            if self.mode == "off":
                return passed_on(unmeasured(df, function, schema, form), df, self._columns.weight)
            inside = self._inside(df)
            results = measured(
                df,
                function,
                schema,
                form,
                columns=self._columns,
                guard=self._token,
                metric=self._probe if inside is None else inside.observation(self._probe),
                row_gate=self._parts.control.row_gate if self.mode == "enforce" else None,
                apart=self._grouped is not None,
            )
            return passed_on(results, df, self._columns.weight)

        return transform

    def join(self, place: str, partitions: int, key: Sequence[str]) -> tuple[RowColumns, int]:
        """Let a grouping learn from this guard: `grouping.by_cost(guard=...)` calls it.

        Returns:
            The columns that identify a row, and the salt of their hash.
        """
        if self._columns.cost is not None or not self._columns.key:
            raise PenstockError(f"guard {self.name!r} has no key, so it learns no costs: give it key=")
        if key and tuple(key) != self._columns.key:
            raise PenstockError.setting(
                "key", ", ".join(key), f"the guard's own, {', '.join(self._columns.key)}", "they share a probe"
            )
        if self.watching or (self._grouped is not None and self._grouped != (place, partitions)):
            what = "watches its query already" if self.watching else "has a grouping already"
            raise PenstockError(f"guard {self.name!r} {what}: make one grouping a guard, before it watches")
        self._grouped = place, partitions
        return self._columns, self._salt

    def dealt_by(self, df: DataFrame, place: str) -> Callable[[], Costs | None]:
        """Where a task finds the costs that this guard's grouping deals by."""
        if self.mode == "off":
            return lambda: None
        store = self._stored(df.sparkSession)
        if df.isStreaming:
            return partial(costs_in_force, self._gate or self._ungated(store), place)
        costs = self._newest_costs(place)
        return lambda: costs

    def watch(self, query: StreamingQuery, on_report: Callable[[Report], None] | None = None) -> Self:
        """Start planning for the query; `on_report` is called with each batch's Report."""
        self._refuse_query(query)
        other, controller = _watched.get(str(query.id), ("", None))
        if controller is not None and controller.alive:
            raise PenstockError(
                f"query {query.id} is watched by guard {other!r} already: one guard a query; stop the other first"
            )
        if self.mode == "off":
            self._forward()
            return self
        if self._checkpoint is not None:
            check_checkpoint(self._stored(), self.name, query)
        self._claim_folder()
        REMINDER.done(self._token)
        self._shed = ShedAccount(self._shed_folder(), str(query.id), on_report or (lambda _: None))
        row = () if self._hashed is None else self._hashed.row
        heard = LookBehind(query, self._shed, row=row, weight=self._columns.weight)
        self._controller = self._made_controller(query, heard, self._shed)
        for watched in [one for one, (_, controller) in _watched.items() if not controller.alive]:
            del _watched[watched]
        _watched[str(query.id)] = self.name, self._controller
        self._controller.start()
        self._forward()
        if not query.isActive:
            logging.getLogger("penstock").warning("query %s has already ended: nothing to guard", query.id)
        return self

    def attach(
        self,
        query: str | None = None,
        on_report: Callable[[Report], None] | None = None,
        *,
        timeout: float | str | None = ATTACH_S,
        spark: SparkSession | None = None,
    ) -> Self:
        """Watch a query that other code starts, and each later run of it, until `stop`.

        Args:
            query: Its name, its id, or the id of its run. By a run's id, later runs of the same query are watched too.
                If not given, the query whose function for `foreachBatch` calls `admit`.
            on_report: Called with each batch's Report.
            timeout: How long to wait until the query is active; then an error is raised. None returns at once and waits
                in the background without a limit.
            spark: The session in which the query is started; the active one and the first one if not given.
        """
        if query is not None and (not isinstance(query, str) or not query):
            raise PenstockError.setting(
                "query", query, "the name, id or run id of a query", "watch takes the query itself"
            )
        within_s = None if timeout is None else duration_s("timeout", timeout)
        if self.watching or (self._attachment is not None and self._attachment.alive):
            raise PenstockError(f"{self.kind} {self.name!r} has a query already: stop it first, or make another")
        active = active_queries(spark)
        if self.mode == "off":
            self._forward()
            return self
        found = Attachment(
            lambda: query or self._foreach_batch.query,
            active,
            lambda one: self.watch(one, on_report),
            lambda: self.watching,
        )
        if within_s is not None:
            found.wait(within_s)
        self._attachment = found
        found.start()
        return self

    def _made_controller(
        self, query: StreamingQuery, on_report: Callable[[Report], None], shed: ShedAccount
    ) -> Controller:
        store, identity = self._stored(), str(query.id)
        reports = store.reports(identity)
        reports.write(self._sign(identity))
        planner, reading, on_end = self._planning()
        return Controller(
            query,
            planner,
            store.plans(),
            store.bindings(identity),
            reading,
            by_length=self._parts.control.by_length,
            clock=time.time,
            on_report=on_report,
            on_end=on_end,
            dealing=self._grouped and Dealing(*self._grouped, self._newest_costs(self._grouped[0]), reading.probe),
            kept_in=reports,
            salt=self._salt,
            store=store,
            shed=shed.rows,
            inside=self._foreach_batch.observed,
        )

    @abstractmethod
    def _planning(self) -> tuple[Planner, Reading, Callable[[], None]]:
        """The planner of one run, the reading of its batches, and a function to call at the end."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms that need an operator, such as a target that cannot be held. As of the last batch."""
        parts = self._parts.quarantine, self._shed, self._attachment
        own = [part.alarm for part in parts if part is not None and part.alarm is not None]
        return (*(self._controller.alarms if self._controller else ()), *own)

    @property
    def cores_wanted(self) -> int | None:
        """The cores that would hold the target with nothing shed, as of the last batch; None if unknown."""
        return self._controller.cores_wanted if self._controller else None

    @property
    def calm(self) -> bool:
        """Whether there is capacity for rows from quarantine: the guard has shed nothing for a while."""
        return calm(self._stored().plans(), time.time())

    def _measured_guards(self) -> list["QueryGuard"]:
        return [self]

    @property
    def totals(self) -> Totals:
        """The sums of all Reports since the guard began to watch."""
        return self._controller.totals if self._controller else Totals()

    def stop(self) -> None:
        """Stop planning within seconds; a running query keeps every row from now on.

        Rows in quarantine for a table or a topic are forwarded first, for up to half a minute.
        """
        if self._attachment is not None:
            self._attachment.stop()
        super().stop()
        if self._parts.quarantine is not None:
            self._parts.quarantine.stop()
        self.stop_metrics()

    def _quarantine_writer(self, df: DataFrame) -> Writer | None:
        """The writer of shed rows, for a checked place."""
        if self._parts.quarantine is None or (self.mode != "enforce" and not self._to_finish(df)):
            return None
        gate_checks.refuse_choice(df, self.name, self._columns.identity(df), self._columns.decisive(df))
        return self._parts.quarantine.writer(df, self._stored(df.sparkSession), self._columns.weight, self.name)

    def _forward(self) -> None:
        if self._parts.quarantine is not None:
            self._parts.quarantine.start(self._stored())

    def _ungated(self, store: Store) -> GateOptions:
        """The options of a grouping in front of the gate: it binds batches under the rules of the later gate."""
        self._number = self._number or new_number()
        start = self._parts.control.start()
        return GateOptions(str(store.place), SOURCE, self._claim_folder(), ((self._number, 0),), start)

    def _sign(self, query: str) -> Watch:
        """The record of this guard for readers of its reports."""
        keep, types = self._columns.keep, ((), ()) if self._hashed is None else self._hashed.types
        return Watch(
            guard=self.name,
            query=query,
            began_s=time.time(),
            mode=self.mode,
            policy=self._parts.policy,
            target=type(self.target).__name__,
            target_s=getattr(self.target, "limit_s", getattr(self.target, "age_s", None)),
            target_rows_per_s=getattr(self.target, "rows_per_s", None),
            key=self._columns.key,
            key_types=types[0],
            row=self._columns.row,
            row_types=types[1],
            keep="" if keep is None else str(keep),
            salt=self._salt,
        )

    def _to_finish(self, df: DataFrame) -> bool:
        """Whether Spark may replay a batch that sheds rows into quarantine, although this guard no longer sheds."""
        if self._parts.quarantine is None:
            return False
        return self._parts.quarantine.to_finish(df, self._stored(df.sparkSession), self._parts.gate)

    def _reads(self, df: DataFrame) -> int:
        """How often the query reads its source."""
        if not df.isStreaming or self._checkpoint is None or on_connect(df.sparkSession):
            return 1
        folder, quarantine = self._stored(df.sparkSession).place, self._shed_folder()
        sheds = self.mode == "enforce" or self._to_finish(df)
        return reads(folder, self._parts.gate, str(quarantine or ""), sheds=sheds)

    def _shed_folder(self) -> Path | None:
        return None if self._parts.quarantine is None else self._parts.quarantine.folder(self._stored())

    def _claim_folder(self) -> str:
        """Sign the folder of plans; returns its identity."""
        columns, seed = self._columns, self._parts.control.seed
        value = (columns.worth.column, tuple(columns.worth.intervals)) if columns.worth else None
        claim = Claim(self.name, columns.key, columns.row, columns.cost, seed, self._parts.sources, value)
        return self._stored().claim(claim)


class Guard(QueryGuard):
    """Holds a streaming query to a target by shedding rows.

    A guard belongs to one query. `admit` is its gate, `measured` runs the expensive operator and measures it, `watch`
    starts the loop that plans for the gate. Plans are kept under the query's checkpoint.

    Attributes:
        name: Name of the guard, part of the names of its observations.
        mode: `enforce`, `dry_run` (keep all, tag what would be shed) or `off`.
    """

    def __init__(  # noqa: PLR0913 - each is one setting of a user's
        self,
        target: Target,
        policy: Policy | None = None,
        *,
        key: str | Sequence[str] = (),
        arrival: str | None = None,
        keep: str | Column | None = None,
        mode: Mode = "enforce",
        checkpoint: str | os.PathLike[str] | None = None,
        row: str | Sequence[str] = (),
        weight: str | None = None,
        name: str = "guard",
        row_gate: bool = False,
        quarantine: str | os.PathLike[str] | None = None,
        backlog: Backlog = "keep",
        fine: bool | None = None,
    ) -> None:
        """Set the target, the policy and the columns.

        Args:
            target: What to hold: `MeanQueueLatency`, `MaxLag`, `Throughput` or `Deadline`.
            policy: How to choose the rows to shed; `LoadAware()` if not given.
            key: Column or columns that determine a row's cost; a `Balanced` policy may name them instead. Without one,
                all rows are alike.
            arrival: Column with a row's time of arrival (timestamps, or seconds since 1970). If not given, `arrival` or
                that of the source, such as Kafka's `timestamp` or the time of a file.
            keep: Rows that are never shed: a condition in SQL or a column.
            mode: `enforce`, `dry_run` or `off`.
            checkpoint: The query's checkpoint folder, under which plans are kept, or its address in a bucket; with
                Spark Connect, a path of the server's. Without one they are in a temporary folder, deleted at the end of
                the program.
            row: Column or columns that identify a row: their values determine which rows are shed. If not given,
                those of the source, such as Kafka's topic, partition and offset, or all columns.
            weight: Name of the column with each kept row's weight; `weight` if not given. An existing weight is
                multiplied: name its column here, unless its metadata shows that another guard made it.
            name: Name of the guard. Guards of different names hash rows independently.
            row_gate: Also shed rows inside the measured operator if they are too late within their batch. Holds the
                target through bursts to which the gate responds one batch late. Verdicts depend on the clock and may
                differ at a replay. For `MeanQueueLatency` and functions of `form="row"`.
            quarantine: Where shed rows go, each once, with reason, plan and batch: a folder, `table:NAME` or
                `kafka:TOPIC@HOST:PORT`; `penstock.replay` replays them. If not given, they are not stored.
            backlog: What happens to rows that waited while the query was stopped. `keep` treats them like all others.
                With `thin` the first batch keeps fewer of them the older they are, so that it is short.
            fine: The old name of `row_gate`; deprecated.
        """
        if fine is not None:
            warnings.warn("fine of Guard is called row_gate now", DeprecationWarning, stacklevel=2)
            row_gate = fine
        one_of("mode", mode, ("enforce", "dry_run", "off"))
        control = Control.of(target, policy, backlog, row_gate=row_gate)
        columns = columns_of(control.policy, key=key, row=row, arrival=arrival, keep=keep, weight=weight)
        place = None if quarantine is None else Place.of(quarantine)
        if place is not None:
            place.refuse_inside(checkpoint)
            if row_gate:
                raise PenstockError(
                    "quarantine cannot be combined with row_gate=True: it does not catch what the row gate sheds"
                )
        told, kept = type(control.policy).__name__, place and Quarantine(place)
        super().__init__(checkpoint, Parts(guard_name(name), mode, control, columns, ONE_GATE, told, quarantine=kept))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> "Guard":
        """A guard with the settings of a YAML file."""
        return read_guard(path, cls)

    def admit(self, df: DataFrame) -> DataFrame:
        """The gate, for `DataFrame.transform`: rows that pass, with their weights."""
        self._columns.refuse_own_weight(df)
        if self.mode == "off" and not self._to_finish(df):
            return self._unjudged(df)
        inside = self._inside(df)
        if inside is not None and self._parts.quarantine is not None:
            raise PenstockError(
                "quarantine does not work in foreachBatch: put .transform(guard.admit) in front of writeStream"
            )
        check_frame(df, self.name, self._columns.decisive(df))
        if self.target.fresh_s is not None and self._columns.arrival_s(df) is None:
            raise PenstockError(
                "arrival is missing: a latency target needs the column with a row's time of arrival; name one of "
                f"{', '.join(df.columns)}, or add one right behind the source with current_timestamp()"
            )
        return self._gated(df, ONE_GATE, self._number or new_number(), inside=inside)

    def _planning(self) -> tuple[Planner, Reading, Callable[[], None]]:
        reading = GuardReading(ONE_GATE, self._probe, self.name, dry=self.mode == "dry_run")
        return self._parts.control.policy.planner(self.target), reading, lambda: None
