"""The plan that judges a batch, and how much of the batch fits: decided once, when the batch starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.control import backlog
from penstock.core.control.batch_size import saved_up_s, share_that_fits
from penstock.core.loop.leases import LEASE_S
from penstock.messages.plan import Fits

if TYPE_CHECKING:
    from penstock.messages.plan import Backlog, Plan

#: How long a gate uses the settings it was made with. A guard should watch its query by then.
START_S = 120.0
#: If a rate is held, the first batch of a run may hold the rows since its gate was made, up to this many seconds.
FIRST_S = 10.0


class Start(NamedTuple):
    """What a gate knows when its query starts, before there is a plan."""

    since_s: float  #: when the gate was made
    fresh_s: float | None = None  #: the age up to which rows are fresh, if a backlog is thinned
    rows_per_s: float | None = None  #: the rate to hold, if the target is one
    counted: bool = False  #: whether every row of the source comes to the gate, so that offsets count the gate's rows


class Planned(NamedTuple):
    """A batch before it runs, as Spark has planned it."""

    rows: int | None  #: the number of rows; None if the source does not report it
    planned_s: float  #: when Spark planned it, by the driver's clock
    before_s: float | None  #: when Spark planned the batch before it; None if there was none
    earlier_s: float | None = None  #: when Spark planned the one before that; None if there was none
    done_s: float | None = None  #: when the batch before it was done; None if that is not known


class Newest(NamedTuple):
    """The newest plan when a batch starts.

    >>> from penstock.messages.plan import KeepTable, Plan
    >>> shedding = Plan(0, "random", 100.0, 0, gates=(KeepTable("source", (0.5,), ("over capacity",)),))
    >>> Newest(shedding).acting(110.0) == shedding, Newest(shedding).acting(200.0)
    (True, None)
    """

    plan: Plan | None
    renewed_s: float = 0.0  #: when it was last renewed; 0 if it never was

    def acting(self, now_s: float) -> Plan | None:
        """The plan, unless it sheds and its lease has expired."""
        return self.plan if self.plan is None or not self.plan.gates or self.in_lease(now_s) else None

    def in_lease(self, now_s: float) -> bool:
        """Whether it was decided or renewed within a lease.

        A time further ahead than a lease is from a wrong clock, so it does not show whether a loop runs.
        """
        return (
            self.plan is not None and min(abs(now_s - one) for one in (self.plan.decided_s, self.renewed_s)) <= LEASE_S
        )

    def for_query(self, query: str) -> Plan | None:
        """The plan, if it is for this query."""
        return self.plan if self.plan is not None and self.plan.query in ("", query) else None


def thinned(start: Start | None, last_bound_s: float | None) -> Backlog | None:
    """The rule to thin a backlog, for the first batch that this run binds; None for any other batch.

    `last_bound_s` is when the batch before was bound, None if there was none.
    """
    if start is None or start.fresh_s is None or (last_bound_s is not None and last_bound_s >= start.since_s):
        return None
    return backlog.rule(start.fresh_s)


def share(start: Start | None, query: str, newest: Newest, batch: Planned | None, now_s: float) -> float:
    """The share of a batch that fits by the newest plan; 1 if the source does not report the number of rows."""
    ratio = _rows_per_offset(start, query, newest)
    if start is None or ratio is None or batch is None or not batch.rows:
        return 1.0
    first = batch.before_s is None or batch.before_s < start.since_s
    fits = _fits(start, query, newest, now_s, first=first)
    if fits is None or (batch.before_s is None and fits.rows is not None):
        return 1.0
    if fits.rows is None and first:
        over_s = min(batch.planned_s - start.since_s, FIRST_S)
        if over_s <= 0.0:  # An earlier run has planned it.
            over_s = FIRST_S
    else:
        over_s = _over_s(batch, start.since_s, held=fits.rows is None)
    # The clock was set back: the time is unknown.
    return share_that_fits(fits, ratio * batch.rows, over_s) if over_s > 0.0 else 1.0


def _rows_per_offset(start: Start | None, query: str, newest: Newest) -> float | None:
    """Rows at the gate per row that offsets count, as learned, or 1 if they are the same rows; None if unknown."""
    plan = newest.for_query(query)
    if plan is not None and plan.rows_per_offset is not None:
        return plan.rows_per_offset
    return 1.0 if start is not None and start.counted else None


def _fits(start: Start, query: str, newest: Newest, now_s: float, *, first: bool) -> Fits | None:
    """How many rows fit: by the newest plan, or by the settings that the gate was made with.

    For the first batch of a run, only the plan of the last run is known.
    """
    if start.rows_per_s is not None and first:
        return Fits(start.rows_per_s)
    plan = newest.for_query(query)
    if plan is not None:
        in_lease = newest.in_lease(now_s)
        if plan.fits is None:
            if plan.decided_s >= start.since_s:
                return None  # The guard has made a plan, or was stopped.
        elif first:
            return None if plan.fits.rows is None else _since_an_outage(plan, in_lease=in_lease)
        elif in_lease:
            return plan.fits
    return Fits(start.rows_per_s) if start.rows_per_s is not None and now_s - start.since_s <= START_S else None


def _over_s(batch: Planned, since_s: float, *, held: bool) -> float:
    """The time in which the rows of a batch came; if a rate is held, the part of it that counts."""
    before_s = batch.before_s or 0.0
    if not held:
        return batch.planned_s - before_s
    # The query may have been stopped before this run.
    usual_s = before_s - batch.earlier_s if batch.earlier_s is not None and batch.earlier_s >= since_s else None
    done_s = min(max(batch.done_s or before_s, before_s), batch.planned_s)
    return saved_up_s(done_s - before_s, batch.planned_s - done_s, usual_s)


def _since_an_outage(plan: Plan, *, in_lease: bool) -> Fits | None:
    """How many rows fit the first batch that a run plans.

    Its rows came while nothing ran. So the sustainable rate is the one without gates: a plan that sheds more would let
    a longer outage pass whole. The gates themselves shed only in their lease; each row is more work after it.
    """
    if plan.fits is None or not plan.gates:
        return plan.fits
    kept = plan.expected.keep_share if plan.expected else 1.0
    rows = plan.fits.rows if plan.fits.rows is None or in_lease else kept * plan.fits.rows
    return replace(plan.fits, rows_per_s=kept * plan.fits.rows_per_s, rows=rows)
