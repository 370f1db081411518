"""The machine that decides which plan is in force, from the first batch of a query to the last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.core.control.batch_size import OffsetRatio
from penstock.core.control.policies import Recalling, memory_of, restore
from penstock.core.loop.events import (
    BatchEnded,
    Began,
    Event,
    Failed,
    Misread,
    Passed,
    Renewed,
    Stopped,
    Stored,
    Taken,
)
from penstock.core.loop.instructions import Instruction, Purge, Renew, Tell, Write
from penstock.core.loop.leases import LEASE_S
from penstock.messages.plan import Plan

if TYPE_CHECKING:
    from penstock.messages.plan import Costs

#: How often old plans and bindings are deleted, in batches, and a plan is written again with what was learned since.
PURGE_EVERY = 50


R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Decides(Protocol[R_contra]):
    """What the loop asks of a planner."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """What needs an operator, one line each, as of the last report."""

    def decide(self, report: R_contra, now_s: float, /) -> Plan | None:
        """The plan from now on, or None to go on with the one in force."""

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything, or None if none is needed."""


class Loop(Generic[R]):
    """One query's loop.

    Rows flow when in doubt: a plan that sheds is renewed only as long as the loop understands every batch, and the last
    instruction of a loop that is stopped is a plan that keeps everything.

    Attributes:
        in_force: The newest plan that is known to be in the store.
        renewed_s: When that was decided or last renewed.
    """

    def __init__(
        self,
        planner: Decides[R],
        query: str,
        *,
        salt: int | None = None,
        costs: Costs | None = None,
        held_at_start: bool = False,
    ) -> None:
        """Plan for this query.

        `salt` is that of the gate's coins, whatever the policy's seed. `costs` are what rows are dealt by so far.
        `held_at_start` says that the gate sheds before there is a plan, until it finds one of this run.
        """
        self._planner, self._query, self._salt = planner, query, salt
        self._costs, self._ratio = costs, OffsetRatio(None)
        self._unwritten: Plan | None = None  # decided, and not known to be in the store
        self._held_since_s = 0.0 if held_at_start else None
        self._purged: int | None = None
        self._understands = True
        self._next = 0  # the version to try next
        self._stopped = False
        self.in_force: Plan | None = None
        self.renewed_s = 0.0

    @property
    def alarms(self) -> tuple[str, ...]:
        """What needs an operator, as of the last report."""
        return self._planner.alarms

    def handle(self, event: Event) -> list[Instruction]:
        """What follows from an event."""
        match event:
            case Began():
                return self._begin(event)
            case BatchEnded():
                return [*self._plan(event), *self._purge(event)]
            case Misread():
                return self._misread(event)
            case Passed():
                return self._pass(event)
            case Stopped():
                return self._stop(event)
            case _:
                return self._answered(event)

    def _begin(self, event: Began) -> list[Instruction]:
        if self._held_since_s is not None:
            self._held_since_s = event.now_s
        if event.newest is not None:
            self._next = event.newest.version + 1
            if event.newest.query == self._query:
                self._ratio = OffsetRatio(event.newest.rows_per_offset)
        if self.in_force is not None or not isinstance(self._planner, Recalling):
            return []
        told = restore(self._planner, event.newest, self._query, event.now_s)
        return [*([Tell(told)] if told else []), *self._write(self._planner.recall(event.reports, event.now_s))]

    def _plan(self, event: BatchEnded[R]) -> list[Instruction]:
        if event.report is None:
            self._understands = True
            return []
        self._understands = False
        self._ratio.learn(event.rows, event.offsets)
        decided = self._planner.decide(event.report, event.now_s)
        self._understands = True
        if event.costs is not None:
            self._costs = event.costs
            decided = decided or self._again(event.now_s, "costs learned")
        plan = self.in_force
        if decided is None and plan is not None and plan.fits and self._ratio.differs(plan.rows_per_offset):
            decided = self._again(event.now_s, "rows for each offset learned")
        if (
            decided is None
            and plan is not None
            and self._is_due(event.batch)
            and plan.memory != memory_of(self._planner)
        ):
            decided = self._again(event.now_s, plan.note)  # It has been in force for long: with what was learned since.
        return self._try_again(event.now_s) if decided is None else self._write(decided)

    def _again(self, now_s: float, note: str) -> Plan:
        """The plan in force, decided again for other changes."""
        return replace(self.in_force or Plan.keep_all(0, "by_cost", now_s), decided_s=now_s, note=note)

    def _is_due(self, batch: int) -> bool:
        """Whether so many batches have ended that it is time to tidy up."""
        return self._purged is not None and batch - self._purged >= PURGE_EVERY

    def _purge(self, event: BatchEnded[R]) -> list[Instruction]:
        if self._purged is not None and not self._is_due(event.batch):
            return []
        self._purged = event.batch
        return [Purge(event.batch, event.now_s)]

    def _misread(self, event: Misread) -> list[Instruction]:
        """Rows flow when in doubt: a lease runs out, and drops, which have none, are taken back."""
        self._understands = False
        if self.in_force is None or not self.in_force.drops:
            return self._try_again(event.now_s)
        released = self._planner.release(0, event.now_s, "rows flow")
        return self._write(released or Plan(0, self.in_force.policy, event.now_s, 0, note="rows flow"))

    def _try_again(self, now_s: float) -> list[Instruction]:
        """Write what could not be written; what sheds only as long as the loop understands what happens."""
        plan = self._unwritten
        if plan is None or ((plan.leased or plan.drops) and not self._understands):
            return []
        return self._write(replace(plan, decided_s=now_s))

    def _pass(self, event: Passed) -> list[Instruction]:
        plan = self.in_force
        if event.idle and plan is not None and plan.gates:
            # The next row to come must not meet the gate of an overload long gone. A planner that does not go by load
            # releases nothing: its plan stays in force.
            released = self._planner.release(0, event.now_s, "no input")
            if released is not None:
                return self._write(replace(released, costs=plan.costs))
        if self._unwritten is not None:
            return self._try_again(event.now_s)
        # A loop that does not understand what happens does not renew: the lease runs out, and rows flow.
        if plan is None or not (self._understands and plan.leased and event.now_s - self.renewed_s > LEASE_S / 3.0):
            return []
        return [Renew(plan.version, event.now_s)]

    def _stop(self, event: Stopped) -> list[Instruction]:
        """Keep every row from now on, whatever the planner says: nobody will plan any more."""
        self._stopped, self._unwritten = True, None
        if event.newest is not None:
            self._next = max(self._next, event.newest.version + 1)
        newest = event.newest or Plan.keep_all(0, "start", 0.0)
        held = self._held_since_s is not None and newest.decided_s < self._held_since_s
        if not (held or newest.leased):
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
            rows_per_offset=self._ratio.value,
            memory=memory_of(self._planner),
        )
        return [Write(replace(self._unwritten, version=self._next))]

    def _answered(self, event: Stored | Taken | Failed | Renewed) -> list[Instruction]:
        version = event.version
        if isinstance(event, Renewed):
            if self.in_force is not None and self.in_force.version == version:
                self.renewed_s = event.now_s
            return []
        if self._unwritten is None or version != self._next or isinstance(event, Failed):
            return []  # after a failure it is tried again when time passes
        self._next = version + 1
        if isinstance(event, Taken):
            self._next = max(version, event.newest) + 1
            return [Write(replace(self._unwritten, version=self._next))]
        self.in_force, self.renewed_s = replace(self._unwritten, version=version), self._unwritten.decided_s
        self._unwritten = None
        return []
