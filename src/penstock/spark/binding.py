"""Which plan judges a batch: bound put-if-absent when the batch starts, and the same at every replay.

Runs on an executor, once a micro-batch. Whatever goes wrong in here, rows flow: the batch then keeps everything.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pyspark import TaskContext

from penstock import retention
from penstock.core import backlog
from penstock.core.bucket_costs import BUCKETS
from penstock.core.thresholds import KEEP_ALL, thresholds
from penstock.errors import PenstockError
from penstock.log import BindingLog, PlanLog
from penstock.plan import Backlog, Binding, Costs, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)

#: A plan that sheds acts for so long after it was decided. A living controller renews it; a dead one's runs out.
LEASE_S = 30.0
#: How often an executor deletes what is old, in batches. The guard does so more often.
PURGE_EVERY = 1_000
#: In what unit a control row, which has whole numbers only, says what rows carry: 1 is 10**18 of it.
SIC_UNIT = 1e-18

#: What a control row says in place of a version: no plan is in force; the plan could not be read.
NO_PLAN, UNREADABLE = -1, -2

_KEEP_ALL = [KEEP_ALL] * BUCKETS
#: What stands for the thresholds of a plan and what rows carry when there is no plan.
_NO_TABLE: tuple[list[int], tuple[int, ...]] = (_KEEP_ALL, ())
#: A read that fails is tried once more, so much later.
_RETRY_S = 0.05
#: The newest version seen, by folder: workers live on from batch to batch.
_newest: dict[str, int] = {}

_T = TypeVar("_T")


class Start(NamedTuple):
    """What a gate knows when its query starts: since when it is there, and what is fresh if a backlog is thinned."""

    since_s: float
    fresh_s: float | None = None

    def to_text(self) -> str:
        """As an option of the control table."""
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Start | None:
        """What `to_text` wrote; None if there is nothing."""
        return cls(*json.loads(text)) if text else None


class Batch(NamedTuple):
    """The micro-batch that reads the table."""

    number: int
    query: str


def bindings_of(folder: str | Path, query: str) -> BindingLog:
    """The bindings of a query; one that begins anew, with another identity, binds its batches anew."""
    return BindingLog(Path(folder) / "bindings" / query)


def control_row(folder: str, place: str, start: Start | None = None) -> list[int]:
    """What this task's micro-batch is judged by; in a batch query, by the newest plan.

    The threshold of every bucket, the plan's version, the microseconds it took to find out; then, in microseconds too,
    when the batch was bound and the grace and freshness by which a backlog is thinned, or zeros; then what a row of
    each source carries, in `SIC_UNIT`s, if the plan says so.
    """
    begin_s = time.perf_counter()
    logs = _Logs(folder, place, start)
    version, (limits, sic), bound = _in_force(logs, _batch(), logs.table, _NO_TABLE)
    thin = bound.backlog if bound else None
    times_s = (bound.bound_s, thin.grace_s, thin.fresh_s) if bound and thin else (0.0, 0.0, 0.0)
    return [*limits, version, _us(time.perf_counter() - begin_s), *map(_us, times_s), *sic]


def costs_in_force(folder: str, gate: str, place: str, start: Start | None = None) -> Costs | None:
    """What the rows of this task's micro-batch are dealt by at a place; None if nothing is known.

    The batch is judged by the same plan: `gate` and `start` are what its gate goes by.

    Raises:
        PenstockError: If the batch is bound to a plan that cannot be read. Another task of the batch, or this one the
            last time, may have read it; were rows dealt otherwise now, some would be lost and some doubled.
    """
    logs, batch = _Logs(folder, gate, start), _batch()
    version, costs, _ = _in_force(logs, batch, lambda version: logs.costs(version, place), None)
    if version == UNREADABLE and batch is not None:
        bound = bindings_of(folder, batch.query).get(batch.number)
        if bound is not None and bound.plan_version is not None:
            raise PenstockError(
                f"plan {bound.plan_version}, by which rows of batch {batch.number} are dealt, cannot be read: "
                f"see to {folder} and start the query again"
            )
    return costs


def _us(time_s: float) -> int:
    return round(1e6 * time_s)


def _in_force(
    logs: _Logs, batch: Batch | None, read: Callable[[int], _T], without: _T
) -> tuple[int, _T, Binding | None]:
    """The version of the plan in force, what is read of it, and the batch's binding."""
    for last_try in (False, True):
        try:
            bound = None if batch is None else logs.binding(batch, time.time())
            version = logs.newest_in_force(time.time()) if bound is None else bound.plan_version
            return (NO_PLAN, without, bound) if version is None else (version, read(version), bound)
        except Exception as error:  # noqa: BLE001 - rows must flow whatever happened here
            if not last_try:
                time.sleep(_RETRY_S)
                continue
            _logger.warning(
                "the plans in %s cannot be read, so rows pass as if there were none: %s", logs.folder, error
            )
            if batch is not None:
                logs.bind_open(batch, time.time(), error)
    return UNREADABLE, without, None


class _Logs:
    def __init__(self, folder: str, place: str, start: Start | None) -> None:
        self.folder, self._place, self._start = folder, place, start

    def binding(self, batch: Batch, now_s: float) -> Binding:
        """By what the batch is judged, for good, from now on."""
        bindings = bindings_of(self.folder, batch.query)
        bound = bindings.get(batch.number)
        if bound is None:
            newest = self._newest()
            version = self._in_lease(newest, now_s)
            if version is not None:
                table_thresholds(newest, self._place)  # One that cannot be applied must not be bound.
            # Whole microseconds, as they reach the gate.
            new = Binding(batch.number, batch.query, _us(now_s) / 1e6, version, self._backlog(bindings, batch))
            bindings.add(batch.number, new)
            bound = bindings.get(batch.number)
            self._purge(bindings, batch.number, now_s)
        if bound is None:
            raise PenstockError(f"the binding of batch {batch.number} cannot be read")
        return bound

    def _backlog(self, bindings: BindingLog, batch: Batch) -> Backlog | None:
        """How to thin a backlog: in the first batch that this run of the query binds, if at all."""
        if self._start is None or self._start.fresh_s is None:
            return None
        earlier = [number for number in bindings.versions() if number < batch.number]
        last = bindings.get(earlier[-1]) if earlier else None
        begun = last is not None and last.bound_s >= self._start.since_s
        return None if begun else backlog.rule(self._start.fresh_s)

    def table(self, version: int) -> tuple[list[int], tuple[int, ...]]:
        """The thresholds of a plan, and what rows carry."""
        plan = self._plans().get(version)
        limits = table_thresholds(plan, self._place)
        found = plan.sic_at(self._place) if plan else None
        return limits, tuple(round(sic / SIC_UNIT) for sic in found.sic) if found else ()

    def costs(self, version: int, place: str) -> Costs | None:
        """The costs in a plan."""
        plan = self._plans().get(version)
        if plan is None:
            raise PenstockError("the plan that the batch is bound to cannot be read")
        return plan.costs_at(place)

    def _plans(self) -> PlanLog:
        return PlanLog(Path(self.folder) / "plans")

    def bind_open(self, batch: Batch, now_s: float, error: Exception) -> None:
        """Bind a batch to no plan, so that it keeps every row at a replay too; the note tells the driver why."""
        with suppress(Exception):
            note = " ".join(str(error).split()) or type(error).__name__
            binding = Binding(batch.number, batch.query, now_s, note=note)
            bindings_of(self.folder, batch.query).add(batch.number, binding)

    def newest_in_force(self, now_s: float) -> int | None:
        """The newest version, unless it sheds and its lease has run out."""
        return self._in_lease(self._newest(), now_s)

    def _in_lease(self, plan: Plan | None, now_s: float) -> int | None:
        """The plan's version, unless it sheds and nobody has renewed it for too long."""
        if plan is None or not plan.gates or now_s - plan.decided_s <= LEASE_S:
            return None if plan is None else plan.version
        return plan.version if now_s - self._plans().renewed_s(plan.version) <= LEASE_S else None

    def _purge(self, bindings: BindingLog, batch: int, now_s: float) -> None:
        """Now and then delete what is old: a query goes on binding its batches when its guard has stopped."""
        if batch % PURGE_EVERY == 0:
            with suppress(Exception):
                retention.purge_bindings(bindings, batch, now_s)
                retention.purge_plans(self._plans(), bindings.oldest())

    def _newest(self) -> Plan | None:
        plans = self._plans()
        newest = _newest.get(self.folder, -1)
        if not plans.taken(newest):
            newest = plans.next_version() - 1
        while plans.taken(newest + 1):
            newest += 1
        if newest < 0:
            return None
        _newest[self.folder] = newest
        plan = plans.get(newest)
        if plan is None:
            raise PenstockError(f"plan {newest} cannot be read")
        return plan


def table_thresholds(plan: Plan | None, place: str) -> list[int]:
    """The plan's table at a place, spread over all buckets of the gate."""
    if plan is None:
        raise PenstockError("the plan that the batch is bound to cannot be read")
    table = plan.gate(place)
    if table is None:
        return _KEEP_ALL
    if BUCKETS % table.buckets:
        raise PenstockError.setting("keep", f"{table.buckets} buckets", f"a power of two of them, up to {BUCKETS}")
    limits: list[int] = thresholds(table).tolist()
    return limits * (BUCKETS // table.buckets)


def _batch() -> Batch | None:
    """The micro-batch this task belongs to; None in a batch query."""
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or number is None:
        return None
    return Batch(int(number), context.getLocalProperty("sql.streaming.queryId") or "")
