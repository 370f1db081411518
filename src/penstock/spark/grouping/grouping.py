"""Grouping by cost: rows dealt to exactly k partitions so that all of them are done at the same time."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.core.control.bucket_costs import class_costs_s
from penstock.core.control.planner import NoGate
from penstock.core.grouping.partition_costs import PartitionCosts
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.messages.plan import Costs, Plan
from penstock.messages.report import Report
from penstock.spark.grouping.dealing import dealer
from penstock.spark.guard.batches import PROBE
from penstock.spark.guard.checks import check_operator, column_name, column_names, guard_name
from penstock.spark.guard.controller import Controller
from penstock.spark.guard.guard import QueryGuard
from penstock.spark.guard.reading import Dealing, GuardReading
from penstock.spark.lifecycle import Watcher
from penstock.spark.plans.binding import GateOptions, costs_in_force
from penstock.spark.plans.places import on_connect
from penstock.spark.probe.measured import Form, measured
from penstock.spark.probe.meter import TaskSums
from penstock.spark.progress import costs_of_tasks
from penstock.spark.row_columns import RowColumns
from penstock.spark.version import DIRECT_PARTITIONS, arrow_function, require
from penstock.store.logs import PlanStore
from penstock.store.place import Place

#: How long `learn` waits for what an action has measured: Spark hands it over a moment after the action.
LEARN_S = 30.0
MOST_PARTITIONS = 100_000
_PARTITION = "__penstock_partition"
#: Rows are dealt as they are: no column has weights, regardless of its name.
_NO_WEIGHT = "__penstock_no_weight"


class Grouping(Watcher):
    """Deals rows to partitions by what rows of their key have cost, for `DataFrame.transform`; also named `by_cost`.

    Attributes:
        name: Its name: the place in a plan under which costs are kept.
        partitions: How many there are.
    """

    kind = "grouping"

    def __init__(
        self,
        key: str | Sequence[str] = (),
        partitions: int | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        row: str | Sequence[str] = (),
        name: str = "grouping",
        guard: QueryGuard | None = None,
        cost: str | None = None,
        factors: Sequence[float] = (),
    ) -> None:
        """Set the key and the number of partitions.

        Args:
            key: Column or columns that determine a row's cost.
            partitions: How many partitions there are to be, as many as tasks can run at once.
            checkpoint: Folder under which what was learned is kept: the query's checkpoint; with Spark Connect, a path
                of the server's. Without one it is in a temporary folder, deleted at the end of the program.
            row: Column or columns that identify a row: the partition of equal rows depends on their values. If not
                given, Kafka's topic, partition and offset, or else all columns. They must identify all rows: if Spark
                runs a task again, rows that are equal in them may change places.
            name: Name of the grouping.
            guard: A guard of the same query, with the same key: its probe measures, and its plans carry the costs. Put
                the grouping between its `admit` and its `measured`.
            cost: Column with each row's true cost in seconds, in place of a key: nothing has to be learned then.
            factors: With `cost`, how many times as long each partition takes; if not given, they are alike.
        """
        super().__init__(checkpoint)
        self.name = guard_name(name)
        self.partitions = _partitions(partitions)
        self._guard = guard
        factors = _factors(factors)
        self._exact = None if cost is None else self._known_costs(column_name("cost", cost), key, factors)
        if factors and cost is None:
            raise PenstockError.setting("factors", factors, "it together with cost", "otherwise they are learned")
        own = RowColumns(
            key=() if key in ((), "") else column_names("key", key),
            row=() if row in ((), "") else column_names("row", row),
            arrival=None,
            keep=None,
            cost=cost,
            weight=_NO_WEIGHT,
            cost_setting="cost",
        )
        if guard is not None:
            self._columns, self._salt = self._joined(guard, own, checkpoint)
        elif not own.key and cost is None:
            raise PenstockError("key is missing: name the column or columns that a row's cost depends on")
        else:
            self._columns, self._salt = own, 0
        self._observation: Any = None
        self._probe = f"{PROBE}{self.name}"

    def _known_costs(self, cost: str, key: object, factors: Sequence[float]) -> Costs:
        if key:
            raise PenstockError.setting("cost", cost, "either key or cost", "a row's true cost needs no key")
        if self._guard is not None:
            raise PenstockError.setting("cost", cost, "it without a guard", "a guard learns costs by key")
        return Costs(self.name, self.partitions, tuple(class_costs_s().tolist()), factors)  # type: ignore[arg-type]  # it makes a tuple of them, or refuses

    def _joined(self, guard: QueryGuard, own: RowColumns, checkpoint: object) -> tuple[RowColumns, int]:
        """The columns of the guard's, and its salt."""
        if not hasattr(guard, "dealt_by"):
            raise PenstockError.setting("guard", guard, "a Guard")
        if own.row or checkpoint is not None:
            setting, given = ("row", own.row) if own.row else ("checkpoint", checkpoint)
            raise PenstockError.setting(setting, given, "it to the guard", "the grouping takes the guard's")
        return guard.join(self.name, self.partitions, own.key)

    def __call__(self, df: DataFrame) -> DataFrame:
        """The same rows in this many partitions."""
        if hasattr(df, "sparkSession"):
            require("grouping by cost", DIRECT_PARTITIONS, df.sparkSession.version)
        if not hasattr(df, "repartitionById"):
            raise PenstockError.setting("df", df, "a data frame of Spark 4.1 or later")
        if any(name.lower() == _PARTITION for name in df.columns):
            raise PenstockError(f"the data frame has a column {_PARTITION} already: rename it, the grouping needs it")
        stratum, row_hash = self._columns.stratum(df), self._columns.coin(df, self._salt)
        deals = arrow_function(dealer(self.partitions, self._costs(df)), "int")
        dealt = df.withColumn(_PARTITION, deals(stratum, row_hash))
        return dealt.repartitionById(self.partitions, F.col(_PARTITION)).drop(_PARTITION)

    def _costs(self, df: DataFrame) -> Callable[[], Costs | None]:
        """Where a task finds the costs: a batch has no later plan to wait for and takes the newest one there is now."""
        costs = self._exact
        if costs is None and self._guard is not None:
            return self._guard.dealt_by(df, self.name)
        if costs is None:
            store = self._stored(df.sparkSession)
            identity = self._claim()
            if df.isStreaming:
                return partial(costs_in_force, GateOptions(str(store.place), self.name, identity), self.name)
            costs = self._newest_costs(self.name)
        return lambda: costs

    def measured(
        self, function: Callable[..., Any], schema: str | StructType, form: Form = "arrow"
    ) -> Callable[[DataFrame], DataFrame]:
        """The user's operator with a probe around it, for `DataFrame.transform`: see `Guard.measured`.

        In a stream, `watch` learns from it; in a batch, `learn`.
        """
        if self._guard is not None:
            return self._guard.measured(function, schema, form)
        check_operator(function, form)

        def transform(df: DataFrame) -> DataFrame:
            observed: Any = self._probe
            if not df.isStreaming:
                observed = self._observation = _observation(df.sparkSession)
            return measured(
                df,
                function,
                schema,
                form,
                columns=self._columns,
                guard=self._probe,
                metric=observed,
                row_gate=None,
                apart=True,
            )

        return transform

    def watch(self, query: StreamingQuery, on_report: Callable[[Report], None] | None = None) -> Self:
        """Start learning from the query; `on_report` is called with each batch's Report."""
        self._refuse_query(query)
        if self._guard is not None:
            raise PenstockError("the grouping's guard learns for it: call the guard's watch")
        if self._exact is not None:
            return self  # There is nothing to learn.
        self._claim()
        self._controller = Controller(
            query,
            NoGate(),
            self._stored().plans(),
            self._stored().bindings(str(query.id)),
            GuardReading(None, self._probe),
            by_length=False,
            clock=time.time,
            on_report=on_report or (lambda _: None),
            dealing=Dealing(self.name, self.partitions, self._newest_costs(self.name), self._probe),
        )
        self._controller.start()
        return self

    def learn(self, timeout_s: float = LEARN_S) -> Costs | None:
        """Learn from the first action on a batch that `measured` was part of; call it after that action.

        Returns:
            What rows are dealt by from now on; None if no row was measured.
        """
        if self._guard is not None or self._exact is not None:
            why = "its guard learns for it, from a stream" if self._guard is not None else "cost says what rows cost"
            raise PenstockError(f"grouping {self.name!r} cannot learn from a batch: {why}")
        if self._observation is None:
            raise PenstockError("nothing was measured in a batch: put .transform(grouping.measured(...)) into it first")
        tasks = _within(self._observation, timeout_s)
        if tasks is None:
            raise PenstockError("nothing was measured yet: run an action on the measured data frame, then learn")
        self._observation = None  # What was learned once is not learned again.
        if not tasks:
            return None
        plans = self._stored().plans()
        known = PartitionCosts.of(self._newest_costs(self.name), self.partitions)
        known.learn(costs_of_tasks(map(TaskSums.from_text, tasks)))
        if not known.known:
            return None
        costs, now_s = known.costs(self.name), time.time()
        plan = Plan(0, "by_cost", now_s, self._salt, costs=(costs,), note="learned from a batch")
        version = plans.next_version()
        while not plans.add(version, replace(plan, version=version)):
            version += 1
        return costs

    @property
    def folder(self) -> Path | Place:
        """Where what was learned is kept; with Spark Connect, on the server."""
        return self._guard.folder if self._guard is not None else super().folder

    def plans(self) -> PlanStore:
        """The log of its plans, which carry the costs."""
        return self._guard.plans() if self._guard is not None else super().plans()

    def _claim(self) -> str:
        return self._stored().claim(Claim(self.name, self._columns.key, self._columns.row, seed=self._salt))


#: Called as a function: `df.transform(grouping.by_cost(key="user_id", partitions=8))`.
by_cost = Grouping


def _factors(given: object) -> tuple[float, ...]:
    try:
        return tuple(given)  # type: ignore[arg-type]  # other values are refused
    except TypeError:
        raise PenstockError.setting("factors", given, "a number for each partition") from None


def _partitions(given: object) -> int:
    if given is None:
        raise PenstockError("partitions is missing: say how many there are to be, such as the number of cores")
    if not isinstance(given, Integral) or isinstance(given, bool) or not 1 <= int(given) <= MOST_PARTITIONS:
        raise PenstockError.setting(
            "partitions", given, f"a whole number from 1 to {MOST_PARTITIONS:,}, such as the number of cores"
        )
    return int(given)


def _observation(spark: SparkSession) -> Any:  # noqa: ANN401 - of classic Spark or of Connect
    if on_connect(spark):
        from pyspark.sql.connect.observation import Observation  # noqa: PLC0415 - Connect need not be installed

        return Observation()
    from pyspark.sql import Observation as ClassicObservation  # noqa: PLC0415 - a client of Connect has none

    return ClassicObservation()


def _within(observation: Any, timeout_s: float) -> list[str] | None:  # noqa: ANN401 - of classic Spark or of Connect
    """What was observed; None if nothing was. Spark would wait for ever for an action that was never run."""
    found: list[list[str]] = []
    failed: list[Exception] = []

    def wait() -> None:
        try:
            observed = observation.get
            if "tasks" in observed:  # Connect gives nothing, at once, where classic Spark waits.
                found.append(list(observed["tasks"] or ()))
        except Exception as error:  # noqa: BLE001 - every error is logged
            failed.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join(timeout_s)
    if failed:
        raise PenstockError(f"what was measured cannot be read: {' '.join(str(failed[0]).split())[:300]}")
    return found[0] if found else None
