"""The machine that decides which plan is in force, from the first batch of a query to the last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.control.batch_size import OffsetRatio
from penstock.core.control.policies import Planner, Recalling, Sizing, memory_of, restore
from penstock.core.loop.events import BatchEnded, Began, Event, Misread, Passed, Stopped
from penstock.core.loop.instructions import Instruction, Purge, Renew, Tell, Write
from penstock.core.loop.leases import LEASE_S
from penstock.core.loop.versions import Versions
from penstock.messages.plan import Plan

if TYPE_CHECKING:
    from penstock.messages.plan import Costs

#: Every this many batches old plans and bindings are deleted, and a plan is written again with what was learned since.
PURGE_EVERY = 50


class PurgeSchedule:
    """When old plans and bindings are deleted: at the first batch, and periodically after it."""

    def __init__(self, every: int | None = None) -> None:
        """Purge once in `every` batches, by default `PURGE_EVERY`."""
        self._every = every
        self._last: int | None = None  # the batch of the last purge

    def is_due(self, batch: int) -> bool:
        """Whether enough batches have ended since the last purge."""
        return self._last is not None and batch - self._last >= (self._every or PURGE_EVERY)

    def purge(self, batch: int) -> bool:
        """Whether to purge at the end of this batch; if so, it counts as the last purge."""
        if self._last is not None and not self.is_due(batch):
            return False
        self._last = batch
        return True


class Loop:
    """The loop of one query.

    If in doubt, rows pass: the loop renews a plan that sheds only while it can interpret every batch. The last plan
    of a stopped loop keeps every row.
    """

    def __init__(
        self,
        planner: Planner,
        query: str,
        *,
        salt: int | None = None,
        costs: Costs | None = None,
        held_at_start: bool = False,
        purge_every: int | None = None,
    ) -> None:
        """Plan for this query.

        `salt` is the seed of the gate's hash and replaces the policy's. `costs` are the costs that rows are dealt by.
        `held_at_start` says that the gate sheds before it finds a plan of this run. `purge_every` replaces
        `PURGE_EVERY`.
        """
        self._planner, self._query, self._salt = planner, query, salt
        self._learner = planner if isinstance(planner, Recalling) else None
        self._costs, self._ratio = costs, OffsetRatio(None)
        self._versions, self._purges = Versions(), PurgeSchedule(purge_every)
        self._held_since_s = 0.0 if held_at_start else None
        self._understands = True
        self._stopped = False

    @property
    def in_force(self) -> Plan | None:
        """The newest plan that is known to be in the store."""
        return self._versions.in_force

    @property
    def renewed_s(self) -> float:
        """When that plan was decided or last renewed."""
        return self._versions.renewed_s

    @property
    def newest(self) -> Plan | None:
        """The plan that the planner decided last: the store may not have it yet."""
        return self._versions.unwritten or self.in_force

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms, as of the last report."""
        return self._planner.alarms

    @property
    def cores_wanted(self) -> int | None:
        """The cores that would hold the target with nothing shed, as of the last report; None if unknown."""
        return self._planner.cores_wanted if isinstance(self._planner, Sizing) else None

    @property
    def acting(self) -> Plan | None:
        """The plan for the next batch of a query that this process runs; None, so that rows pass, if in doubt.

        Drops have no lease. A loop that cannot interpret an event may be unable to write their end.
        """
        return self.in_force if self._understands or self.in_force is None or not self.in_force.drops else None

    def handle(self, event: Event) -> list[Instruction]:
        """The instructions that follow from an event."""
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
                again = self._versions.unwritten if self._versions.answer(event) else None
                return [] if again is None else [Write(again)]

    def _begin(self, event: Began) -> list[Instruction]:
        if self._held_since_s is not None:
            self._held_since_s = event.now_s
        self._versions.follow(event.newest)
        if event.newest is not None and event.newest.query == self._query:
            self._ratio = OffsetRatio(event.newest.rows_per_offset)
        if self.in_force is not None or self._learner is None:
            return []
        told = restore(self._learner, event.newest, self._query, event.now_s)
        return [*([Tell(told)] if told else []), *self._write(self._learner.recall(event.reports, event.now_s))]

    def _plan(self, event: BatchEnded) -> list[Instruction]:
        decided = None
        if event.report is not None:
            self._understands = False
            self._ratio.learn(event.rows, event.offsets)
            decided = self._planner.decide(event.report, event.now_s)
        self._understands = True
        if event.costs is not None:
            self._costs = event.costs
            decided = decided or self._again(event.now_s, "costs learned")
        plan = self.newest
        if decided is None and plan is not None and plan.fits and self._ratio.differs(plan.rows_per_offset):
            decided = self._again(event.now_s, "rows for each offset learned")
        if (
            decided is None
            and plan is not None
            and self._purges.is_due(event.batch)
            and plan.memory != memory_of(self._learner)
        ):
            decided = self._again(event.now_s, plan.note)  # An old plan, with the newly learned state.
        return self._try_again(event.now_s) if decided is None else self._write(decided)

    def _again(self, now_s: float, note: str) -> Plan:
        """The newest plan, decided again for other changes."""
        return replace(self.newest or Plan.keep_all(0, "by_cost", now_s), decided_s=now_s, note=note)

    def _purge(self, event: BatchEnded) -> list[Instruction]:
        return [Purge(event.batch, event.now_s)] if self._purges.purge(event.batch) else []

    def _misread(self, event: Misread) -> list[Instruction]:
        """If in doubt, rows pass: a lease expires, and a plan with drops, which has none, is replaced."""
        self._understands = False
        if self.in_force is None or not self.in_force.drops:
            return self._try_again(event.now_s)
        released = self._planner.release(0, event.now_s, "rows flow")
        return self._write(released or Plan(0, self.in_force.policy, event.now_s, 0, note="rows flow"))

    def _try_again(self, now_s: float) -> list[Instruction]:
        """Write a plan that could not be written; one that sheds only while the loop can interpret every batch."""
        plan = self._versions.unwritten
        if plan is None or (plan.sheds and not self._understands):
            return []
        return self._write(replace(plan, decided_s=now_s))

    def _pass(self, event: Passed) -> list[Instruction]:
        plan = self.in_force
        if event.idle and plan is not None and plan.gates:
            # The gate of a past overload must not shed the next row. A planner that ignores load releases nothing, and
            # its plan stays in force.
            released = self._planner.release(0, event.now_s, "no input")
            if released is not None:
                return self._write(replace(released, costs=plan.costs))
        if self._versions.unwritten is not None:
            return self._try_again(event.now_s)
        # In doubt the loop does not renew: the lease expires, and rows pass.
        if plan is None or not (
            self._understands and plan.leased and abs(event.now_s - self.renewed_s) > LEASE_S / 3.0
        ):
            return []
        return [Renew(plan.version, event.now_s)]

    def _stop(self, event: Stopped) -> list[Instruction]:
        """Keep every row from now on, regardless of the planner: planning has ended."""
        self._stopped, self._versions.unwritten = True, None
        self._versions.follow(event.newest)
        known = [plan for plan in (event.newest, self.in_force) if plan is not None]  # The store may be unreadable.
        newest = max(known, key=lambda plan: plan.version, default=Plan.keep_all(0, "start", 0.0))
        held = self._held_since_s is not None and newest.decided_s < self._held_since_s
        if not (held or newest.sheds):
            return []
        released = self._planner.release(0, event.now_s, event.note)
        released = released or Plan(0, newest.policy, event.now_s, newest.salt, note=event.note)
        return self._write(replace(released, costs=newest.costs, fits=None))

    def _write(self, plan: Plan | None) -> list[Instruction]:
        if plan is None or (self._stopped and plan.sheds):
            return []
        written = self._versions.unwritten = replace(
            plan,
            version=self._versions.next,
            query=self._query,
            salt=plan.salt if self._salt is None else self._salt,
            costs=plan.costs if self._costs is None else (self._costs,),
            rows_per_offset=self._ratio.value,
            memory=memory_of(self._learner),
        )
        return [Write(written)]
