"""Misuses of a guard: refused in one line, or logged once."""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError
from penstock.spark.plan_text import Node, plan_of
from penstock.spark.plans.gate import WOULD_SHED
from penstock.spark.plans.remote import Store
from penstock.spark.progress import Progress
from penstock.spark.row_columns import MADE_BY

_logger = logging.getLogger("penstock")

#: What the names of gates' observed metrics begin with. Spark refuses a query in which two metrics share a name, so all
#: guards share one. Two guards in one query are refused before it runs, and Spark's error has the reason in it.
GATE = "penstock_gate_"
ONE_GATE = f"{GATE}one_guard_per_query"
#: Operators that turn rows into results, by how their names begin.
_RESULTS = {
    "Aggregate": "an aggregation",
    "FlatMapGroups": "a stateful function",
    "TransformWithState": "a stateful function",
}


#: Operators that give as many rows as they take.
_PLAIN = ("Project", "SubqueryAlias", "EventTimeWatermark")
#: Functions that give another value each time, and the name that a column of a plan gets.
_ANEW = re.compile(r"\b(rand|randn|uuid|shuffle|randstr|uniform|monotonically_increasing_id|spark_partition_id)\(")
_NAMED = re.compile(r" AS (\w+)#\d+L?")


def check_frame(df: DataFrame, guard: str, decisive: tuple[str, ...], own: str = "") -> None:
    """Refuse rows that another guard has admitted; warn of a gate that would shed results, or other rows at a replay.

    `decisive` are the columns that decide which rows pass. `own` is how the names of gates begin that may be in front
    of this one.
    """
    if WOULD_SHED in df.columns:
        raise PenstockError(
            f"the stream has a column {WOULD_SHED} already: rename it, the guard's dry run needs the name"
        )
    plan = known_plan(df) if df.isStreaming else None
    if plan is None:
        return
    for node in plan.walk():
        if node.operator == "CollectMetrics" and GATE in node.text and not (own and own in node.text):
            makers = [repr(field.metadata[MADE_BY]) for field in df.schema.fields if MADE_BY in (field.metadata or {})]
            by = f"guard {makers[0]}" if makers else "another guard"
            raise PenstockError(
                f"guard {guard!r} meets rows that {by} has admitted: one guard a query; remove one of them"
            )
    found = next((_result(node) for node in plan.walk() if _result(node) and _streams(node)), None)
    if found is not None:
        _logger.warning(
            "guard %r is behind %s, so it sheds results, not rows: put .transform(guard.admit) in front of it",
            guard,
            found,
        )
    changing = sorted(set(decisive) & {name for node in plan.walk() for name in _nondeterministic(node)})
    if changing:
        _logger.warning(
            "guard %r chooses rows by %s, whose value changes when a batch is rerun: set row to columns of the source "
            "that identify rows",
            guard,
            ", ".join(changing),
        )


def refuse_choice(df: DataFrame, guard: str, row: tuple[str, ...], decisive: tuple[str, ...]) -> None:
    """Refuse a quarantine behind an operator that may choose other rows when the source is read the second time.

    Of duplicates Spark takes the first that a task meets. A gate that identifies rows by columns that differ between
    them may keep one of them and shed the other, or neither.
    """
    plan = known_plan(df)
    for node in plan.walk() if plan is not None else ():
        if not node.operator.startswith("Deduplicate") or "more fields" in node.text:  # Spark shows 25 at most.
            continue
        by = set(node.columns)
        if {one.strip("`") for one in row} - by:
            raise PenstockError.setting(
                "row",
                ", ".join(row) or None,
                f"{', '.join(node.columns)}, as dropDuplicates has in front of the gate",
                "with a quarantine the source is read twice, and the second read may keep another duplicate",
            )
        others = sorted({one.strip("`") for one in decisive} - by)
        if others:
            _logger.warning(
                "guard %r has a quarantine and uses %s, which must be equal for all duplicates that dropDuplicates by "
                "%s removes: with a quarantine the source is read twice",
                guard,
                ", ".join(others),
                ", ".join(node.columns),
            )


def every_row_comes(df: DataFrame) -> bool:
    """Whether every row of one source comes to this frame, so that the source's offsets count the frame's rows."""
    plan = known_plan(df)
    return plan is not None and all(
        node.operator in _PLAIN or (node.operator.startswith("Streaming") and not node.children) for node in plan.walk()
    )


def is_gate_of(guard: str | None, counts: Mapping[str, Any] | None) -> bool:
    """Whether a gate's counts are those of this guard; a gate that no row came to does not say whose it is."""
    return counts is not None and counts.get("guard") in (None, guard)


def warn_of_temporary_folder(guard: str) -> None:
    """Warn that plans are lost at the end of the program."""
    _logger.warning(
        "guard %r has no checkpoint, so its plans are in a temporary folder: a batch rerun after a restart may keep "
        "other rows; set checkpoint to the checkpoint folder of the query",
        guard,
    )


def check_checkpoint(store: Store, guard: str, query: StreamingQuery) -> None:
    """Refuse the checkpoint of another query, and warn of a folder that is no query's."""
    folder, owner = str(store.place.parent), store.query_id()
    if owner is not None and owner != str(query.id):
        raise PenstockError.setting(
            "checkpoint", folder, f"the checkpoint folder of query {query.id}", f"this one is of query {owner}"
        )
    if owner is None:
        _logger.warning(
            "checkpoint = %r of guard %r is not the checkpoint folder of query %s: give the folder of "
            "checkpointLocation, so that plans and offsets are stored and deleted together",
            folder,
            guard,
            query.id,
        )


def known_plan(explainable: Any) -> Node | None:  # noqa: ANN401 - a data frame or a streaming query
    """The plan, or None if Spark cannot explain it; Spark then reports the error itself."""
    with suppress(PySparkException):
        return plan_of(explainable)
    return None


def _result(node: Node) -> str | None:
    return next((what for name, what in _RESULTS.items() if node.operator.startswith(name)), None)


def _nondeterministic(node: Node) -> Iterator[str]:
    """Names of the columns of a projection that a function like `uuid` makes."""
    if node.operator == "Project":
        begin = 0
        for named in _NAMED.finditer(node.text):
            if _ANEW.search(node.text, begin, named.start()):
                yield named[1]
            begin = named.end()


def _streams(node: Node) -> bool:
    """Whether rows of a stream come to the operator: an aggregate may be part of a table that a stream is joined to."""
    return any(one.operator.startswith("Streaming") for one in node.walk())


#: After this time a query that uses a guard's gate without being watched is logged; time between two checks.
UNWATCHED_S, LOOK_S = 30.0, 5.0


class Gate(NamedTuple):
    """A gate in a data frame."""

    guard: str  #: name of its guard
    metric: str  #: what it observes in a batch that passes it
    spark: SparkSession  #: the session of its data frame


class Reminder:
    """Checks the running queries, in one thread for all guards, until each guard watches or was logged."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gates: dict[str, Gate] = {}  # by guard
        self._since_s: dict[str, dict[str, float]] = {}  # by guard and query: when it was first seen unwatched
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def expect(self, token: str, gate: Gate) -> None:
        """Wait for the guard with this token to watch."""
        with self._lock:
            self._gates[token] = gate
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-reminder", daemon=True)
                self._thread.start()

    def done(self, token: str) -> None:
        """The guard watches, or need not."""
        with self._lock:
            self._gates.pop(token, None)
            self._since_s.pop(token, None)

    def look(self) -> None:
        """Look at all running queries once."""
        with self._lock:
            gates = dict(self._gates)
        for token, gate in gates.items():
            try:
                self._look_for(token, gate)
            except Exception:  # noqa: BLE001 - a session that has ended; after any error, the reminder is optional
                self.done(token)

    def _look_for(self, token: str, gate: Gate) -> None:
        for query in gate.spark.streams.active:
            last = query.lastProgress
            if last is None or not is_gate_of(gate.guard, Progress.of(last).observed.get(gate.metric)):
                continue
            since_s = self._since_s.setdefault(token, {}).setdefault(str(query.id), self._clock())
            if self._clock() - since_s >= UNWATCHED_S:
                _logger.warning(
                    "query %s uses the gate of guard %r but is not watched, so nothing is planned or reported: call "
                    "guard.watch(query)",
                    query.id,
                    gate.guard,
                )
                self.done(token)
                return

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with self._lock:
                if not self._gates:
                    self._thread = None
                    return
            self.look()


REMINDER = Reminder()
