"""The guard: what a user puts around a streaming query to hold it to a target."""

from __future__ import annotations

import logging
import time
import uuid
import warnings
from typing import TYPE_CHECKING, Any, Literal, Self

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.config.guard_file import read_guard
from penstock.core.balanced.policy import Balanced
from penstock.core.control.gate import gate_salt
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import BaseLine, FullKnowledge, LoadAware
from penstock.core.control.targets import Throughput
from penstock.core.loop.binding import Start
from penstock.core.settings import one_of
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.spark.grouping.dealing import FromLog, Given
from penstock.spark.guard.admission import Admission
from penstock.spark.guard.batches import PROBE
from penstock.spark.guard.behind_gate import LookBehind
from penstock.spark.guard.checks import (
    check_operator,
    column_names,
    condition,
    guard_key,
    guard_name,
    plain_column_name,
    row_gate_machines,
    usable_policy,
    usable_target,
)
from penstock.spark.guard.controller import Controller
from penstock.spark.guard.misuse import (
    ONE_GATE,
    REMINDER,
    Gate,
    check_checkpoint,
    check_frame,
    refuse_choice,
    warn_of_temporary_folder,
)
from penstock.spark.guard.reading import Dealing, GuardReading
from penstock.spark.lifecycle import Metered, Watcher
from penstock.spark.plans.binding import GateOptions
from penstock.spark.plans.places import on_connect
from penstock.spark.plans.rules import new_number, opened
from penstock.spark.probe.measured import measured, unmeasured
from penstock.spark.quarantine.forward import Forward, prepared, staged
from penstock.spark.quarantine.replay import calm
from penstock.spark.quarantine.rows import SIGN, Place
from penstock.spark.quarantine.second_read import reads, second_read
from penstock.spark.quarantine.shed_account import ShedAccount
from penstock.spark.row_columns import WEIGHT, RowColumns, made_by, passed_on
from penstock.store.recent_reports import Totals
from penstock.store.report_log import Watch

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.core.control.policies import Policy
    from penstock.core.control.targets import Target
    from penstock.messages.plan import Costs
    from penstock.messages.report import Report
    from penstock.spark.fair.sic_columns import SicOfRows
    from penstock.spark.plans.remote import Store
    from penstock.spark.probe.measured import Form
    from penstock.spark.quarantine.rows import Writer

Mode = Literal["enforce", "dry_run", "off"]
Backlog = Literal["keep", "thin"]


#: Who watches which query in this process: a guard's name and its controller, by the query's identity.
_watched: dict[str, tuple[str, Controller]] = {}


class Guard(Watcher, Metered):
    """Holds a streaming query to a target by shedding rows.

    A guard belongs to one query. `admit` is its gate, `measured` runs the expensive operator and measures it, `watch`
    starts the loop that plans for the gate. Plans are kept under the query's checkpoint.

    Attributes:
        name: Name of the guard, part of the names of what it observes.
        mode: `enforce`, `dry_run` (keep all, tag what would be shed) or `off`.
        target: What it holds the query to.
        backlog: What happens to rows that waited while the query was stopped: `keep` or `thin`.
    """

    kind = "guard"

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
            target: What to hold: `MeanQueueLatency`, `MaxLag` or `Throughput`.
            policy: How to choose the rows to shed; `LoadAware()` if not given.
            key: Column or columns that determine a row's cost; a `Balanced` policy may name them instead. Without one,
                all rows are alike.
            arrival: Column with a row's time of arrival (timestamps, or seconds since 1970); if not given, `arrival` or
                `timestamp`.
            keep: Rows that are never shed: a condition in SQL or a column.
            mode: `enforce`, `dry_run` or `off`.
            checkpoint: The query's checkpoint folder, under which plans are kept; with Spark Connect, a path of the
                server's. Without one they are in a temporary folder, deleted at the end of the program.
            row: Column or columns that identify a row: their values determine which rows are shed. If not given,
                Kafka's topic, partition and offset, or all columns.
            weight: Name of the column with each kept row's weight; `weight` if not given. An existing weight is
                multiplied: name its column here, unless its metadata shows that another guard made it.
            name: Name of the guard. Guards of different names hash rows independently.
            row_gate: Also shed rows inside the measured operator if they are too late within their batch. Holds the
                target through bursts to which the gate responds one batch late. Verdicts depend on the clock and may
                differ at a replay. For `MeanQueueLatency` and functions of `form="row"`.
            quarantine: Where shed rows go, each once, with reason, plan and batch: a folder, `table:NAME` or
                `kafka:TOPIC@HOST:PORT`; `penstock.replay` replays them. If not given, they are not stored.
            backlog: What happens to rows that waited while the query was stopped: `keep` treats them like all others;
                with `thin` the first batch keeps fewer of them the older they are, so that it is short.
            fine: The old name of `row_gate`; deprecated.
        """
        super().__init__(checkpoint)
        if fine is not None:
            warnings.warn("fine of Guard is called row_gate now", DeprecationWarning, stacklevel=2)
            row_gate = fine
        self.name = guard_name(name)
        self.mode = one_of("mode", mode, ("enforce", "dry_run", "off"))
        self.backlog = one_of("backlog", backlog, ("keep", "thin"))
        self.target = usable_target(target)
        if self.backlog == "thin" and self.target.fresh_s is None:
            raise PenstockError.setting(
                "backlog", backlog, "'keep' with Throughput", "it does not depend on the age of rows"
            )
        self._policy = LoadAware() if policy is None else usable_policy(policy, row_gate=row_gate)
        if arrival is not None and not isinstance(arrival, str):
            raise PenstockError.setting("arrival", arrival, "the name of a column")
        cost = self._policy.cost_column if isinstance(self._policy, FullKnowledge) else None
        self._columns = RowColumns(
            key=guard_key(key, self._policy),
            row=column_names("row", row),
            arrival=arrival,
            keep=condition(keep),
            cost=cost,
            weight=plain_column_name("weight", WEIGHT if weight is None else weight),
            weight_named=weight is not None,
            worth=self._policy.worth if isinstance(self._policy, Balanced) else None,
        )
        self._columns.refuse_overlap()
        self._seed = int(getattr(self._policy, "seed", 0))
        self._salt = gate_salt(self._seed, self.name)
        # Made here, so that a target this policy cannot hold is refused before a query runs.
        self._policy.planner(self.target)
        self._row_gate = row_gate_machines(row_gate, self.target, self._policy)
        self._types: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self._quarantine = None if quarantine is None else Place.of(quarantine)
        if self._quarantine is not None:
            self._quarantine.refuse_inside(checkpoint)
            if row_gate:
                raise PenstockError(
                    "quarantine cannot be combined with row_gate=True: it does not catch what the row gate sheds"
                )
        self._row: Sequence[str] = ()
        self._grouped: tuple[str, int] | None = None
        self._forward: Forward | None = None
        self._shed: ShedAccount | None = None
        self._session: SparkSession | None = None
        self._gate: GateOptions | None = None
        self._number: int | None = None  # of the rules of a gate behind a grouping
        self._token = uuid.uuid4().hex  # tells this guard's state on a worker from that of any other
        self._metrics = ONE_GATE, f"{PROBE}{self.name}"

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Guard:
        """A guard with the settings of a YAML file."""
        return read_guard(path, cls)

    def admit(self, df: DataFrame) -> DataFrame:
        """The gate, for `DataFrame.transform`: rows that pass, with their weights."""
        self._columns.refuse_own_weight(df)
        self._session = df.sparkSession
        if self.mode == "off" and not self._to_finish(df):
            weighed = df if self._columns.has_weight(df) else df.withColumn(self._columns.weight, F.lit(1.0))
            made = made_by(weighed, self._columns.weight, self.name)
            return second_read(made, df) if self._reads(df) > 1 else made
        check_frame(df, self.name, self._columns.decisive(df))
        if not isinstance(self.target, Throughput) and self._columns.arrival_s(df) is None:
            raise PenstockError(
                "arrival is missing: a latency target needs the column with a row's time of arrival; name one of "
                f"{', '.join(df.columns)}, or add one right behind the source with current_timestamp()"
            )
        return self._gated(df, self._metrics[0], self._number or new_number())

    def _gated(self, df: DataFrame, metric: str, number: int, sic: SicOfRows | None = None) -> DataFrame:
        """The gate of a stream, whose rules have this number."""
        store = self._stored(df.sparkSession)
        admission = Admission(
            name=self.name,
            columns=self._columns,
            salt=self._salt_for(df),
            mode=self.mode,
            number=number,
            metric=metric,
            start=self._start(),
            claim=self._claim_folder,
            quarantine=str(self._shed_folder() or ""),
            writer=lambda: self._quarantine_writer(df),
            reads=self._reads(df),
            shed_first=self._number is None,
        )
        before = self._gate
        admitted, self._gate = admission.admit(df, store, sic)
        self._types = self._columns.types(df)
        if df.isStreaming and self.mode != "off":
            if self._checkpoint is None and self.mode == "enforce" and before is None:
                warn_of_temporary_folder(self.name)
            REMINDER.expect(self._token, Gate(self.name, metric, df.sparkSession))
        return admitted

    def measured(
        self, function: Callable[..., Any], schema: str | StructType, form: Form = "arrow"
    ) -> Callable[[DataFrame], DataFrame]:
        """The user's operator with a probe around it, for `DataFrame.transform`; its results stay as they are.

        Args:
            function: What to run: like that of `mapInArrow` or `mapInPandas`, or a function that takes one row as a
                dictionary and returns a row, several, or None.
            schema: Schema of its results, as in `mapInArrow`.
            form: `arrow`, `pandas` or `row`: which of these it is.
        """
        check_operator(function, form)
        if self._row_gate and form != "row":
            raise PenstockError.setting("form", form, "'row' together with row_gate=True", "it sheds row by row")

        def transform(df: DataFrame) -> DataFrame:
            if self.mode == "off":
                return passed_on(unmeasured(df, function, schema, form), df, self._columns.weight)
            results = measured(
                df,
                function,
                schema,
                form,
                columns=self._columns,
                guard=self._token,
                metric=self._metrics[1],
                row_gate=self._row_gate if self.mode == "enforce" else None,
                apart=self._grouped is not None,
            )
            return passed_on(results, df, self._columns.weight)

        return transform

    def join(self, place: str, partitions: int, key: Sequence[str]) -> tuple[RowColumns, int]:
        """Let a grouping learn from this guard: `grouping.by_cost(guard=...)` calls it.

        Returns:
            The columns that tell rows apart, and the salt of their hash.
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
            return Given(None)
        store = self._stored(df.sparkSession)
        if df.isStreaming:
            return FromLog(self._gate or self._ungated(store), place)
        newest = store.plans().latest()
        return Given(newest.costs_at(place) if newest else None)

    def watch(self, query: StreamingQuery, on_report: Callable[[Report], None] | None = None) -> Self:
        """Start planning for the query; `on_report` is called with each batch's Report."""
        self._refuse_query(query)
        other, controller = _watched.get(str(query.id), ("", None))
        if controller is not None and controller.alive:
            raise PenstockError(
                f"query {query.id} is watched by guard {other!r} already: one guard a query; stop the other first"
            )
        if self.mode == "off":
            self._start_forward()
            return self
        if self._checkpoint is not None:
            check_checkpoint(self._stored(), self.name, query)
        self._claim_folder()
        REMINDER.done(self._token)
        self._shed = ShedAccount(self._shed_folder(), str(query.id), on_report or (lambda _: None))
        heard = LookBehind(query, self._shed, row=self._row, weight=self._columns.weight)
        self._controller = self._made_controller(query, heard)
        for watched in [one for one, (_, controller) in _watched.items() if not controller.alive]:
            del _watched[watched]
        _watched[str(query.id)] = self.name, self._controller
        self._controller.start()
        self._start_forward()
        if not query.isActive:
            logging.getLogger("penstock").warning("query %s has already ended: nothing to guard", query.id)
        return self

    def _made_controller(self, query: StreamingQuery, on_report: Callable[[Report], None]) -> Controller:
        plans = self._stored().plans()
        reports = self._stored().reports(str(query.id))
        reports.write(self._sign(str(query.id)))
        return Controller(
            query,
            self._policy.planner(self.target),
            plans,
            self._stored().bindings(str(query.id)),
            GuardReading(*self._metrics, self.name, dry=self.mode == "dry_run"),
            by_length=not isinstance(self.target, Throughput) and not isinstance(self._policy, BaseLine),
            clock=time.time,
            on_report=on_report,
            dealing=None if self._grouped is None else Dealing(*self._grouped, plans.latest()),
            kept_in=reports,
            salt=self._salt,
            store=self._stored(),
            shed=self._shed.rows if self._shed is not None else lambda _: None,
        )

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms that need an operator, such as a target that cannot be held. As of the last batch."""
        parts = self._forward, self._shed
        own = [part.alarm for part in parts if part is not None and part.alarm is not None]
        return (*(self._controller.alarms if self._controller else ()), *own)

    @property
    def calm(self) -> bool:
        """Whether there is capacity for rows from quarantine: the guard has shed nothing for a while."""
        return calm(self._stored().plans(), time.time())

    def _measured_guards(self) -> list[Guard]:
        return [self]

    @property
    def totals(self) -> Totals:
        """The sums of all Reports since the guard began to watch."""
        return self._controller.totals if self._controller else Totals()

    def stop(self) -> None:
        """Stop planning within seconds; if the query goes on, it keeps every row from now on.

        Rows in quarantine that go to a table or a topic are brought there first, for up to half a minute.
        """
        super().stop()
        forward, self._forward = self._forward, None
        if forward is not None:
            forward.stop()
        self.stop_metrics()

    def _salt_for(self, df: DataFrame) -> int:
        """The salt of the gate's hash, which plans carry from now on; the hashed columns are stored."""
        self._salt = gate_salt(self._seed, self.name, weighted=self._columns.has_weight(df))
        self._row = self._columns.identity(df)
        return self._salt

    def _quarantine_writer(self, df: DataFrame) -> Writer | None:
        """What writes shed rows, once the place for them is known to be usable."""
        if self._quarantine is None or (self.mode != "enforce" and not self._to_finish(df)):
            return None
        refuse_choice(df, self.name, self._columns.identity(df), self._columns.decisive(df))
        return prepared(self._quarantine, df, self._stored(df.sparkSession), self._columns.weight, self.name)

    def _start_forward(self) -> None:
        """Forward shed rows from their folder to a table or a topic."""
        folder = self._shed_folder()
        if self._quarantine is None or folder is None or self._quarantine.kind == "folder" or self._session is None:
            return
        if not (folder / SIGN).exists():  # None has ever been shed.
            return
        if self._forward is None or self._forward.alarm is not None:
            self._forward = Forward(self._session, folder, self._quarantine)

    def _ungated(self, store: Store) -> GateOptions:
        """What a grouping is told in front of the gate: it binds batches, under the rules of the gate to come."""
        self._number = self._number or new_number()
        return GateOptions(str(store.folder), SOURCE, self._claim_folder(), ((self._number, 0),), self._start())

    def _start(self) -> Start:
        rate = self.target.rows_per_s if isinstance(self.target, Throughput) else None
        return Start(time.time(), self.target.fresh_s if self.backlog == "thin" else None, rate)

    def _sign(self, query: str) -> Watch:
        """What readers of its reports must know about this guard."""
        keep = self._columns.keep
        return Watch(
            guard=self.name,
            query=query,
            began_s=time.time(),
            mode=self.mode,
            policy=type(self._policy).__name__,
            target=type(self.target).__name__,
            target_s=getattr(self.target, "limit_s", getattr(self.target, "age_s", None)),
            target_rows_per_s=getattr(self.target, "rows_per_s", None),
            key=self._columns.key,
            key_types=self._types[0],
            row=self._columns.row,
            row_types=self._types[1],
            keep="" if keep is None else str(keep),
            salt=self._salt,
        )

    def _to_finish(self, df: DataFrame) -> bool:
        """Whether Spark may replay a batch that sheds rows into quarantine, although this guard sheds none any more."""
        if self._quarantine is None or not df.isStreaming or on_connect(df.sparkSession):
            return False
        found = opened(self._stored(df.sparkSession).folder, self._metrics[0])
        return any(one.rules is not None and one.rules.mode == "enforce" for one in found)

    def _reads(self, df: DataFrame) -> int:
        """How often the query reads its source."""
        if not df.isStreaming or self._checkpoint is None or on_connect(df.sparkSession):
            return 1
        folder, quarantine = self._stored(df.sparkSession).folder, self._shed_folder()
        sheds = self.mode == "enforce" or self._to_finish(df)
        return reads(folder, self._metrics[0], str(quarantine or ""), sheds=sheds)

    def _shed_folder(self) -> Path | None:
        return None if self._quarantine is None else staged(self._quarantine, self._stored())

    def _claim_folder(self) -> str:
        columns = self._columns
        own = Claim(
            self.name,
            columns.key,
            columns.row,
            columns.cost,
            self._seed,
            value=columns.worth.as_data if columns.worth else None,
        )
        return self._stored().claim(own)
