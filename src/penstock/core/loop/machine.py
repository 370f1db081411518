"""The machine that decides which plan is in force, from the first batch of a query to the last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.control.policies import Recalling
from penstock.core.loop.events import (
    BatchEnded,
    Began,
    Event,
    Failed,
    Misread,
    Passed,
    Stopped,
    Stored,
    Taken,
)
from penstock.core.loop.instructions import Instruction, Purge, Renew, Write
from penstock.core.loop.leases import LEASE_S
from penstock.messages.plan import Plan

if TYPE_CHECKING:
    from penstock.core.control.policies import Planner
    from penstock.messages.plan import Costs

#: How often old plans and bindings are deleted, in batches.
PURGE_EVERY = 50


class Loop:
    """One query's loop.

    Rows flow when in doubt: a plan that sheds is renewed only as long as the loop understands every batch, and the last
    instruction of a loop that is stopped is a plan that keeps everything.
    """

    def __init__(self, planner: Planner, query: str, salt: int | None = None) -> None:
        """Plan for this query; `salt` is that of the gate's coins, whatever the policy's seed."""
        self._planner, self._query, self._salt = planner, query, salt
        self.in_force: Plan | None = None
        self._unwritten: Plan | None = None  # decided, and not known to be in the store
        self._renewed_s = 0.0
        self._costs: Costs | None = None
        self._rows_per_offset: float | None = None
        self._purged: int | None = None
        self._understands = True
        self._next = 0  # the version to try next
        self._stopped = False

    def handle(self, event: Event) -> list[Instruction]:
        """What follows from an event."""
        match event:
            case Began():
                return self._begin(event)
            case BatchEnded():
                return self._plan(event)
            case Misread():
                self._understands = False
                return []
            case Passed():
                return self._pass(event)
            case Stopped():
                return self._stop(event)
            case Stored(version) | Taken(version) | Failed(version):
                return self._answered(event, version)

    def _begin(self, event: Began) -> list[Instruction]:
        if event.newest is not None:
            self._next = event.newest.version + 1
            if event.newest.query == self._query:
                self._rows_per_offset = event.newest.rows_per_offset
        if not isinstance(self._planner, Recalling):
            return []
        return self._write(self._planner.recall(event.reports, event.now_s))

    def _plan(self, event: BatchEnded) -> list[Instruction]:
        self._understands = True
        decided = self._planner.decide(event.report, event.now_s)
        if event.costs is not None:
            self._costs = event.costs
            decided = decided or self._again(event.now_s, "costs learned")
        if event.rows_per_offset is not None and event.rows_per_offset != self._rows_per_offset:
            self._rows_per_offset = event.rows_per_offset
            if decided is None and self.in_force is not None and self.in_force.fits:
                decided = self._again(event.now_s, "rows for each offset learned")
        found = self._write(decided)
        if self._purged is None or event.batch - self._purged >= PURGE_EVERY:
            self._purged = event.batch
            found.append(Purge(event.batch, event.now_s))
        return found

    def _again(self, now_s: float, note: str) -> Plan:
        """The plan in force, decided anew for what else has changed."""
        return replace(self.in_force or Plan.keep_all(0, "by_cost", now_s), decided_s=now_s, note=note)

    def _pass(self, event: Passed) -> list[Instruction]:
        if self._unwritten is not None:
            return self._write(replace(self._unwritten, decided_s=event.now_s))
        plan = self.in_force
        if plan is None:
            return []
        if event.idle and plan.gates:
            released = self._planner.release(0, event.now_s, "no input")
            if released is not None:
                return self._write(replace(released, costs=plan.costs))
        # A loop that does not understand what happens does not renew: the lease runs out, and rows flow.
        if self._understands and plan.leased and event.now_s - self._renewed_s > LEASE_S / 3.0:
            self._renewed_s = event.now_s
            return [Renew(plan.version, event.now_s)]
        return []

    def _stop(self, event: Stopped) -> list[Instruction]:
        self._stopped, self._unwritten = True, None
        newest = event.newest or Plan.keep_all(0, "start", 0.0)
        self._next = max(self._next, newest.version + 1) if event.newest else self._next
        if not newest.leased:
            return []
        released = self._planner.release(0, event.now_s, event.note)
        released = released or Plan(0, newest.policy, event.now_s, newest.salt, note=event.note)
        return self._write(replace(released, costs=newest.costs, fits=None))

    def _write(self, plan: Plan | None) -> list[Instruction]:
        if plan is None or (plan.gates and self._stopped):
            return []
        self._unwritten = replace(
            plan,
            query=self._query,
            salt=plan.salt if self._salt is None else self._salt,
            costs=plan.costs if self._costs is None else (self._costs,),
            rows_per_offset=self._rows_per_offset,
        )
        return [Write(replace(self._unwritten, version=self._next))]

    def _answered(self, event: Stored | Taken | Failed, version: int) -> list[Instruction]:
        if self._unwritten is None or version != self._next or isinstance(event, Failed):
            return []  # after a failure it is tried again when time passes
        self._next = version + 1
        if isinstance(event, Taken):
            return [Write(replace(self._unwritten, version=self._next))]
        self.in_force, self._renewed_s = replace(self._unwritten, version=version), self._unwritten.decided_s
        self._unwritten = None
        return []
