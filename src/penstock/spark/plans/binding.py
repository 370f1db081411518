"""Which plan judges a batch: bound put-if-absent when the batch starts, and the same at every replay.

Runs on an executor, once per micro-batch. After an error here the batch keeps every row, and the control row has the
reason. Where that would duplicate or lose rows, the batch fails in one line instead. That is so with a quarantine, in
the gate, and where rows are dealt to partitions.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from pyspark import TaskContext

from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.gate import KEEP_ALL, scaled, thresholds
from penstock.core.loop.binding import Planned, Start
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.plan import Binding, Costs, Plan
from penstock.spark.checkpoint import Checkpoint, offsets_hash, offsets_of, planned, query_id
from penstock.spark.plans import control_row as codes
from penstock.spark.plans.claim import store_id
from penstock.spark.plans.control_row import ControlRow, microseconds
from penstock.store import retention
from penstock.store.binder import Binder
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.place import Place
from penstock.store.remembering import Remembering

_logger = logging.getLogger(__name__)

#: The delay before a failed read or write is retried once.
_RETRY_S = 0.05
#: A plan in a bucket that is younger than this is assumed to be the newest one.
_JUST_MADE_S = 0.5
#: The newest version seen, by folder: workers persist between batches.
_newest: dict[str, int] = {}
#: What workers remember of buckets, where each operation is a request: plans by address and identity, the offsets of
#: the last batches by folder and query, and what a folder is known to belong to.
_plans: dict[tuple[str, str], Remembering] = {}
_offsets: dict[tuple[str, str], dict[int, bytes]] = {}
_owned: set[tuple[str, str]] = set()


class GateOptions(NamedTuple):
    """The options of a gate's control table."""

    folder: str  #: where plans and bindings are
    place: str  #: whose table of a plan it is
    store: str = ""  #: the folder's identity, so that another folder at the same path is not mistaken for it
    rules: tuple[tuple[int, int], ...] = ()  #: numbers of rules, the gate's own first, each with its place in the gate
    start: Start | None = None

    def to_text(self) -> str:
        """As an option of the control table."""
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What `to_text` wrote."""
        folder, place, store, rules, start = json.loads(text)
        given = tuple((number, place) for number, place in rules)
        return cls(folder, place, store, given, None if start is None else Start(*start))


class Batch(NamedTuple):
    """The micro-batch that reads the table."""

    number: int
    query: str


class UnjudgedError(PenstockError):
    """Why a batch cannot be judged; `code` goes into its control row."""

    def __init__(self, code: int, folder: str, more: object = "") -> None:
        told = " ".join(str(more).split())
        super().__init__(codes.WHY[code].format(folder=folder) + (f": {told}" if told else ""))
        self.code = code


def bindings_of(folder: str | os.PathLike[str] | Place, query: str, *, make: bool = True) -> BindingLog:
    """The bindings of a query. A query that starts over, with another identity, binds its batches again."""
    return BindingLog((Place.of(folder) / "bindings" / query).store(make=make))


def control_row(options: GateOptions, batch: Batch | None = None) -> list[int]:
    """The control row of a micro-batch, if none is given of this task's; in a batch query, of the newest plan."""
    begin_s = time.perf_counter()
    batch = _batch() if batch is None else batch
    try:
        found = _judged(options, batch)
    except UnjudgedError as error:
        which = "" if batch is None else f"batch {batch.number} of query {batch.query}: "
        _logger.warning("%s%s", which, error)
        found = ControlRow(error.code)
    return found.to_numbers(time.perf_counter() - begin_s)


def costs_in_force(options: GateOptions, place: str) -> Costs | None:
    """The costs by which rows of this task's micro-batch are dealt at a place; None if none are known.

    The batch is judged by the same plan: `options` are those of its gate.

    Raises:
        PenstockError: If they cannot be read, for example because the plan is unreadable. Other tasks or attempts of
            the batch may have read them; dealing differently now would lose or duplicate rows.
    """
    batch = _batch()
    try:
        _, plan = _in_force(_Logs(options), batch)
    except UnjudgedError as error:
        which = "a batch" if batch is None else f"batch {batch.number}"
        raise PenstockError(f"rows of {which} cannot be dealt as they were: {error}") from None
    return None if plan is None else plan.costs_at(place)


def _judged(options: GateOptions, batch: Batch | None) -> ControlRow:
    logs = _Logs(options)
    bound, plan = _in_force(logs, batch)
    if bound is not None:
        logs.refuse_reused(bound)
    rules = _rules(options, bound)
    thin = bound.backlog if bound else None
    backlog_s = (bound.bound_s, thin.grace_s, thin.fresh_s) if bound and thin else (0.0, 0.0, 0.0)
    share = bound.share if bound else 1.0
    if plan is None:
        row = ControlRow(codes.UNUSABLE if bound and bound.note else codes.NO_PLAN, backlog_s=backlog_s, rules=rules)
        return row._replace(limits=_that_fit(row.limits, share))
    found = plan.sic_at(options.place)
    row = ControlRow(plan.version, backlog_s=backlog_s, rules=rules, sic=found.sic if found else ())
    if batch is not None and plan.query not in ("", batch.query):
        # Its tables and its backlog are not for this query; the SIC of rows is the same.
        return row._replace(version=codes.ANOTHERS, backlog_s=(0.0, 0.0, 0.0))
    return row._replace(limits=_that_fit(table_thresholds(plan, options.place), share))


def _that_fit(limits: Sequence[int], share: float) -> tuple[int, ...]:
    """Thresholds of a batch of which this share fits."""
    return tuple(scaled(np.array(limits, np.int64), share).tolist()) if share < 1.0 else tuple(limits)


def _in_force(logs: "_Logs", batch: Batch | None) -> tuple[Binding | None, Plan | None]:
    """The binding of the batch, if it is one of a stream, and the plan in force."""
    logs.refuse_elsewhere()
    if batch is None:
        try:
            # Unless it sheds and its lease has expired.
            return None, logs.binder("", make=False).newest().acting(time.time())
        except Exception as error:  # noqa: BLE001 - rows must flow after any error here
            raise UnjudgedError(codes.UNREADABLE, logs.options.folder, error) from None
    return logs.binding(batch)


def _rules(options: GateOptions, bound: Binding | None) -> int:
    """The place of the batch's rules among those of the gate."""
    if bound is None or bound.rules is None or not options.rules:
        return 0
    place = dict(options.rules).get(bound.rules)
    if place is None:
        raise UnjudgedError(codes.UNKNOWN_RULES, options.folder)
    return place


class _PlansInBucket(PlanLog):
    """Plans of a bucket, where each look is a request: none is made whose answer does not matter."""

    def taken(self, version: int) -> bool:
        """Whether that number is taken; not asked behind a plan that was just made."""
        return not self._younger(version - 1, _JUST_MADE_S) and super().taken(version)

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was, or is in its lease without that."""
        return 0.0 if self._younger(version, LEASE_S / 2.0) else super().renewed_s(version)

    def _younger(self, version: int, age_s: float) -> bool:
        plan = self.get(version)
        return plan is not None and abs(time.time() - plan.decided_s) < age_s


class _Logs:
    """The logs of a gate, as an executor sees them, for one batch."""

    def __init__(self, options: GateOptions) -> None:
        self.options, self._place = options, Place.of(options.folder)
        self._checkpoint = self._place.parent
        self._offsets: dict[int, bytes] = {}

    def refuse_elsewhere(self) -> None:
        """Refuse a folder that is not the driver's."""
        folder, own = self.options.folder, self.options.store
        if own and (folder, own) not in _owned:
            if store_id(folder) != own:
                raise UnjudgedError(codes.ELSEWHERE, folder)
            if self._place.in_bucket:  # The same address is the same bucket, unlike a path of another disk.
                _owned.add((folder, own))

    def refuse_reused(self, bound: Binding) -> None:
        """Refuse a batch whose number was used before."""
        now = offsets_hash(self._checkpoint, bound.batch, self.offsets) if bound.offsets else ""
        if now and now != bound.offsets:
            raise UnjudgedError(codes.REUSED, self.options.folder)

    def offsets(self, checkpoint: Checkpoint, batch: int) -> bytes:
        """What Spark has planned for a batch, read once."""
        if batch not in self._offsets:
            self._offsets[batch] = offsets_of(checkpoint, batch)
        return self._offsets[batch]

    def binder(self, query: str, *, make: bool = True) -> Binder:
        """What binds the batches of a query."""
        # An executor creates the query's folder only below the driver's own.
        bindings = bindings_of(self._place, query, make=make and not self._place.in_bucket)
        place = self._place / "plans"
        if self._place.in_bucket:
            known = (place.address, self.options.store)
            if known not in _plans:
                _plans[known] = Remembering(place.store(make=False))
            plans: PlanLog = _PlansInBucket(_plans[known])
            bindings = BindingLog(Remembering(bindings.store))
        else:
            plans = PlanLog(place.store(make=False))
        # A query continues to bind its batches after its guard has stopped.
        purge = partial(retention.purge, plans, bindings)
        look = not self._place.in_bucket
        return Binder(plans, bindings, _newest, lambda: time.sleep(_RETRY_S), purge, look=look)

    def binding(self, batch: Batch) -> tuple[Binding, Plan | None]:
        """The binding by which the batch is judged permanently."""
        if self._place.in_bucket:
            known = _offsets.get((self.options.folder, batch.query), {})
            self._offsets = {one: known[one] for one in known if batch.number - 2 <= one < batch.number}
            _offsets[self.options.folder, batch.query] = self._offsets
        try:
            binder = self.binder(batch.query)
            bound = binder.bound(batch.number, lambda: self._new(batch, binder))
            plan = binder.plan(bound.plan_version) if bound is not None and bound.plan_version is not None else None
        except Exception as error:  # noqa: BLE001 - after any error the batch is not bound
            raise UnjudgedError(codes.UNBOUND, self.options.folder, error) from None
        if bound is None:
            raise UnjudgedError(codes.UNREADABLE, self.options.folder, "its binding is damaged")
        if plan is None and bound.plan_version is not None:
            where = f"plan {bound.plan_version} in {self.options.folder}"
            raise UnjudgedError(codes.UNREADABLE, self.options.folder, where)
        return bound, plan

    def _new(self, batch: Batch, binder: Binder) -> Binding:
        options, owner = self.options, self._owner(batch.query)
        start = options.start if owner in (None, batch.query) else None
        bound = binder.new(
            batch.number,
            batch.query,
            microseconds(time.time()) / 1e6,  # as it reaches the gate
            lambda plan: table_thresholds(plan, options.place),
            start,
            lambda: self._planned(batch.number, start) if owner == batch.query else None,
        )
        rules = options.rules[0][0] if options.rules else None
        return replace(bound, rules=rules, offsets=offsets_hash(self._checkpoint, batch.number, self.offsets))

    def _owner(self, query: str) -> str | None:
        """The query in whose checkpoint the folder is; None if it is in none."""
        if (self.options.folder, query) in _owned:
            return query
        owner = query_id(self._checkpoint)
        if owner == query and self._place.in_bucket:
            _owned.add((self.options.folder, query))
        return owner

    def _planned(self, batch: int, start: Start | None) -> Planned | None:
        held = start is not None and start.rows_per_s is not None
        return planned(self._checkpoint, batch, self.offsets, done=held or not self._place.in_bucket)


def table_thresholds(plan: Plan, place: str) -> list[int]:
    """The plan's table at a place, spread over all buckets of the gate."""
    table = plan.gate(place)
    if table is None:
        return [KEEP_ALL] * BUCKETS
    if BUCKETS % table.buckets:
        raise PenstockError.setting("keep", f"{table.buckets} buckets", f"a power of two of them, up to {BUCKETS}")
    limits: list[int] = thresholds(table).tolist()
    return limits * (BUCKETS // table.buckets)


def _batch() -> Batch | None:
    """The micro-batch this task belongs to; None in a batch query."""
    context = TaskContext.get()
    return None if context is None else batch_by(context.getLocalProperty)


def batch_by(properties: Callable[[str], str | None]) -> Batch | None:
    """The micro-batch in Spark's local properties; None if they have none."""
    number = properties("streaming.sql.batchId")
    return None if number is None else Batch(int(number), properties("sql.streaming.queryId") or "")
