"""Which plan judges a batch: bound put-if-absent when the batch starts, and the same at every replay.

Runs on an executor, once a micro-batch. If something goes wrong in here, rows flow: the batch then keeps everything,
and the control row says why. Where that would double or lose rows, the batch fails in one line instead: with a
quarantine, in the gate, and where rows are dealt to partitions.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from pyspark import TaskContext

from penstock.core.control import backlog
from penstock.core.control.batch_size import saved_up_s, share_that_fits
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.gate import KEEP_ALL, scaled, thresholds
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.plan import Backlog, Binding, Costs, Fits, Plan
from penstock.spark.checkpoint import offsets_hash, planned, query_id
from penstock.spark.plans.claim import store_id
from penstock.spark.plans.control_row import (
    ANOTHERS,
    ELSEWHERE,
    NO_PLAN,
    REUSED,
    UNBOUND,
    UNKNOWN_RULES,
    UNREADABLE,
    UNUSABLE,
    WHY,
    ControlRow,
    microseconds,
)
from penstock.store import retention
from penstock.store.logs import BindingLog, PlanLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.spark.checkpoint import Planned

_logger = logging.getLogger(__name__)

#: How long a gate acts on what it was told when it was made, in which time a guard should watch its query.
START_S = 120.0
#: Where a rate is held, the first batch of a run may hold the rows of the time since its gate was made, up to this.
FIRST_S = 10.0
#: How often an executor deletes what is old, in batches. The guard does so more often.
PURGE_EVERY = 1_000
#: A read or write that fails is tried once more, so much later.
_RETRY_S = 0.05
#: The newest version seen, by folder: workers live on from batch to batch.
_newest: dict[str, int] = {}

_T = TypeVar("_T")


class Start(NamedTuple):
    """What a gate knows when its query starts, before there is a plan."""

    since_s: float  #: since when it is there
    fresh_s: float | None = None  #: what is fresh, if a backlog is thinned
    rows_per_s: float | None = None  #: the rate to hold, if the target is one
    counted: bool = False  #: whether every row of the source comes to the gate, so that offsets count the gate's rows


class GateOptions(NamedTuple):
    """What the control table of a gate is told when the gate is made."""

    folder: str  #: where plans and bindings are
    place: str  #: whose table of a plan it is
    store: str = ""  #: the folder's identity, so that another one under the same path is not taken for it
    rules: tuple[tuple[int, int], ...] = ()  #: numbers of rules, the gate's own first, each with its place in the gate
    start: Start | None = None

    def to_text(self) -> str:
        """As an option of the control table."""
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> GateOptions:
        """What `to_text` wrote."""
        folder, place, store, rules, start = json.loads(text)
        given = tuple((number, place) for number, place in rules)
        return cls(folder, place, store, given, None if start is None else Start(*start))


class Batch(NamedTuple):
    """The micro-batch that reads the table."""

    number: int
    query: str


class UnjudgedError(PenstockError):
    """Why a batch cannot be judged as it should be; `code` is what its control row says then."""

    def __init__(self, code: int, folder: str, more: object = "") -> None:
        """With what more is known."""
        told = " ".join(str(more).split())
        super().__init__(WHY[code].format(folder=folder) + (f": {told}" if told else ""))
        self.code = code


def bindings_of(folder: str | Path, query: str, *, make: bool = True) -> BindingLog:
    """The bindings of a query; one that begins anew, with another identity, binds its batches anew."""
    return BindingLog(Path(folder) / "bindings" / query, make=make)


def control_row(options: GateOptions) -> list[int]:
    """What this task's micro-batch is judged by; in a batch query, by the newest plan."""
    begin_s = time.perf_counter()
    batch = _batch()
    try:
        found = _judged(options, batch)
    except UnjudgedError as error:
        which = "" if batch is None else f"batch {batch.number} of query {batch.query}: "
        _logger.warning("%s%s", which, error)
        found = ControlRow(error.code)
    return found.to_numbers(time.perf_counter() - begin_s)


def costs_in_force(options: GateOptions, place: str) -> Costs | None:
    """What the rows of this task's micro-batch are dealt by at a place; None if nothing is known.

    The batch is judged by the same plan: `options` are those of its gate.

    Raises:
        PenstockError: If that cannot be known, as when the plan can no longer be read. Another task of the batch, or
            this one the last time, may have known it; were rows dealt otherwise now, some would be lost, some doubled.
    """
    batch = _batch()
    try:
        _, plan = _in_force(options, batch)
    except UnjudgedError as error:
        which = "a batch" if batch is None else f"batch {batch.number}"
        raise PenstockError(f"rows of {which} cannot be dealt as they were: {error}") from None
    return None if plan is None else plan.costs_at(place)


def _judged(options: GateOptions, batch: Batch | None) -> ControlRow:
    bound, plan = _in_force(options, batch)
    if bound is not None:
        _refuse_reused(options, bound)
    rules = _rules(options, bound)
    thin = bound.backlog if bound else None
    backlog_s = (bound.bound_s, thin.grace_s, thin.fresh_s) if bound and thin else (0.0, 0.0, 0.0)
    share = bound.share if bound else 1.0
    if plan is None:
        row = ControlRow(UNUSABLE if bound and bound.note else NO_PLAN, backlog_s=backlog_s, rules=rules)
        return row._replace(limits=_that_fit(row.limits, share))
    found = plan.sic_at(options.place)
    row = ControlRow(plan.version, backlog_s=backlog_s, rules=rules, sic=found.sic if found else ())
    if batch is not None and plan.query not in ("", batch.query):
        # Its tables are not for this query, nor is a backlog; what rows carry is the same.
        return row._replace(version=ANOTHERS, backlog_s=(0.0, 0.0, 0.0))
    return row._replace(limits=_that_fit(table_thresholds(plan, options.place), share))


def _that_fit(limits: Sequence[int], share: float) -> tuple[int, ...]:
    """Thresholds of a batch of which this share fits."""
    return tuple(scaled(np.array(limits, np.int64), share).tolist()) if share < 1.0 else tuple(limits)


def _in_force(options: GateOptions, batch: Batch | None) -> tuple[Binding | None, Plan | None]:
    """The binding of the batch, if it is one of a stream, and the plan in force."""
    if options.store and store_id(Path(options.folder)) != options.store:
        raise UnjudgedError(ELSEWHERE, options.folder)
    logs = _Logs(options)
    if batch is None:
        try:
            return None, _twice(lambda: logs.newest_in_force(time.time()))
        except Exception as error:  # noqa: BLE001 - rows must flow whatever happened here
            raise UnjudgedError(UNREADABLE, options.folder, error) from None
    bound = logs.binding(batch)
    return bound, None if bound.plan_version is None else logs.plan(bound.plan_version)


def _refuse_reused(options: GateOptions, bound: Binding) -> None:
    now = offsets_hash(Path(options.folder).parent, bound.batch) if bound.offsets else ""
    if now and now != bound.offsets:
        raise UnjudgedError(REUSED, options.folder)


def _rules(options: GateOptions, bound: Binding | None) -> int:
    """The place of the batch's rules among those of the gate."""
    if bound is None or bound.rules is None or not options.rules:
        return 0
    place = dict(options.rules).get(bound.rules)
    if place is None:
        raise UnjudgedError(UNKNOWN_RULES, options.folder)
    return place


class _Logs:
    def __init__(self, options: GateOptions) -> None:
        self._options = options

    def binding(self, batch: Batch) -> Binding:
        """By what the batch is judged, for good, from now on."""
        try:
            # Below the driver's own folder: only there, an executor makes one for the query.
            bindings = bindings_of(self._options.folder, batch.query)
            bound = bindings.get(batch.number)
            if bound is None:
                new = self._new(batch, bindings, time.time())
                _twice(lambda: bindings.add(batch.number, new))
                bound = bindings.get(batch.number)
                self._purge(bindings, new)
        except Exception as error:  # noqa: BLE001 - whatever it is, the batch is not bound
            raise UnjudgedError(UNBOUND, self._options.folder, error) from None
        if bound is None:
            raise UnjudgedError(UNREADABLE, self._options.folder, "its binding is damaged")
        return bound

    def _new(self, batch: Batch, bindings: BindingLog, now_s: float) -> Binding:
        """To the newest plan; to none if it cannot be used, so that the batch keeps every row at a replay too."""
        thin: Backlog | None = None
        share = 1.0
        try:
            newest, note = _twice(self._newest), ""  # Read once: the guard may write another one meanwhile.
            plan = self._acting(newest, now_s)
            if plan is not None:
                table_thresholds(plan, self._options.place)
            thin = self._backlog(bindings, batch)
            share = self._share(batch, newest, now_s)
        except Exception as error:  # noqa: BLE001 - rows must flow whatever happened here
            plan, note = None, " ".join(str(error).split()) or type(error).__name__
            _logger.warning("the plans in %s cannot be read, so rows pass: %s", self._options.folder, note)
        return Binding(
            batch.number,
            batch.query,
            microseconds(now_s) / 1e6,  # as it reaches the gate
            None if plan is None else plan.version,
            thin,
            note,
            rules=self._options.rules[0][0] if self._options.rules else None,
            offsets=offsets_hash(Path(self._options.folder).parent, batch.number),
            share=share,
        )

    def _share(self, batch: Batch, newest: Plan | None, now_s: float) -> float:
        """What of the batch fits by the newest plan; all of it if its source does not say how many rows it has."""
        start, checkpoint = self._options.start, Path(self._options.folder).parent
        ratio = self._rows_per_offset(batch, newest)
        counts = ratio is not None and query_id(checkpoint) == batch.query
        found = planned(checkpoint, batch.number) if counts else None
        if start is None or ratio is None or found is None or not found.rows:
            return 1.0
        first = found.before_s is None or found.before_s < start.since_s
        fits = self._fits(batch, start, newest, now_s, first=first)
        if fits is None or (found.before_s is None and fits.rows is not None):
            return 1.0
        if fits.rows is None and first:
            over_s = min(found.planned_s - start.since_s, FIRST_S)
            if over_s <= 0.0:  # An earlier run has planned it.
                over_s = FIRST_S
        else:
            over_s = _over_s(found, start.since_s, held=fits.rows is None)
        # A clock that was set back says nothing of the time.
        return share_that_fits(fits, ratio * found.rows, over_s) if over_s > 0.0 else 1.0

    def _rows_per_offset(self, batch: Batch, newest: Plan | None) -> float | None:
        """Rows of the gate for each that offsets count: as learned, or one if nothing lies between; None if unknown."""
        if newest is not None and newest.query in ("", batch.query) and newest.rows_per_offset is not None:
            return newest.rows_per_offset
        return 1.0 if self._options.start is not None and self._options.start.counted else None

    def _fits(self, batch: Batch, start: Start, plan: Plan | None, now_s: float, *, first: bool) -> Fits | None:
        """Up to how many rows the batch fits: by the newest plan, or as the gate was told when it was made.

        In the first batch of a run, what the last run found is all that is known.
        """
        if start.rows_per_s is not None and first:
            return Fits(start.rows_per_s)
        if plan is not None and plan.query in ("", batch.query):
            in_lease = self._in_lease(plan, now_s)
            if plan.fits is None:
                if plan.decided_s >= start.since_s:
                    return None  # The guard has made a plan, or was stopped.
            elif first:
                return None if plan.fits.rows is None else _without_gates(plan, in_lease=in_lease)
            elif in_lease:
                return plan.fits
        return Fits(start.rows_per_s) if start.rows_per_s is not None and now_s - start.since_s <= START_S else None

    def _backlog(self, bindings: BindingLog, batch: Batch) -> Backlog | None:
        """How to thin a backlog: in the first batch that this run of the query binds, if at all."""
        start, owner = self._options.start, query_id(Path(self._options.folder).parent)
        if start is None or start.fresh_s is None or owner not in (None, batch.query):
            return None
        earlier = [number for number in bindings.versions() if number < batch.number]
        last = bindings.get(earlier[-1]) if earlier else None
        begun = last is not None and last.bound_s >= start.since_s
        return None if begun else backlog.rule(start.fresh_s)

    def _purge(self, bindings: BindingLog, new: Binding) -> None:
        """Now and then delete what is old: a query goes on binding its batches when its guard has stopped."""
        if new.batch % PURGE_EVERY == 0:
            with suppress(Exception):
                retention.purge_bindings(bindings, new.batch, new.bound_s)
                retention.purge_plans(self._plans(), bindings.oldest())

    def plan(self, version: int) -> Plan:
        """The plan that the batch is bound to."""
        plans = self._plans()
        plan = plans.get(version)
        if plan is None:
            time.sleep(_RETRY_S)
            plan = plans.get(version)
        if plan is None:
            raise UnjudgedError(UNREADABLE, self._options.folder, f"plan {version} in {self._options.folder}")
        return plan

    def newest_in_force(self, now_s: float) -> Plan | None:
        """The newest plan, unless it sheds and nobody has renewed it for too long."""
        return self._acting(self._newest(), now_s)

    def _acting(self, newest: Plan | None, now_s: float) -> Plan | None:
        return newest if newest is None or not newest.gates or self._in_lease(newest, now_s) else None

    def _in_lease(self, plan: Plan, now_s: float) -> bool:
        return now_s - max(plan.decided_s, self._plans().renewed_s(plan.version)) <= LEASE_S

    def _newest(self) -> Plan | None:
        plans = self._plans()
        newest = _newest.get(self._options.folder, -1)
        if not plans.taken(newest):
            newest = plans.next_version() - 1
        while plans.taken(newest + 1):
            newest += 1
        if newest < 0:
            return None
        _newest[self._options.folder] = newest
        plan = plans.get(newest)
        if plan is None:
            raise PenstockError(f"plan {newest} cannot be read")
        return plan

    def _plans(self) -> PlanLog:
        return PlanLog(Path(self._options.folder) / "plans", make=False)


def _over_s(found: Planned, since_s: float, *, held: bool) -> float:
    """The time in which a batch came in; where a rate is held, as far as it counts."""
    before_s = found.before_s or 0.0
    if not held:
        return found.planned_s - before_s
    # Before this run the query may have been stopped for long.
    usual_s = before_s - found.earlier_s if found.earlier_s is not None and found.earlier_s >= since_s else None
    done_s = min(max(found.done_s or before_s, before_s), found.planned_s)
    return saved_up_s(done_s - before_s, found.planned_s - done_s, usual_s)


def _without_gates(plan: Plan, *, in_lease: bool) -> Fits | None:
    """Up to how many rows fit a plan whose gates act only within its lease: without them each batch is more work."""
    if plan.fits is None or in_lease or not plan.gates:
        return plan.fits
    share = plan.expected.keep_share if plan.expected else 1.0
    rows = None if plan.fits.rows is None else share * plan.fits.rows
    return Fits(share * plan.fits.rows_per_s, rows)


def _twice(attempt: Callable[[], _T]) -> _T:
    try:
        return attempt()
    except Exception:  # noqa: BLE001 - what it was is told if it is met again
        time.sleep(_RETRY_S)
        return attempt()


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
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or number is None:
        return None
    return Batch(int(number), context.getLocalProperty("sql.streaming.queryId") or "")
