"""The plans of a process that plans and runs batches itself, a network or a site, and the bindings of these batches."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

from penstock.core.loop.events import BatchEnded, Stopped
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.messages.plan import Binding, Plan
from penstock.store import retention
from penstock.store.binder import Binder, is_another
from penstock.store.driver import Driver
from penstock.store.logs import BindingLog, PlanLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock.core.control.policies import Planner
    from penstock.core.loop.events import Event
    from penstock.messages.report import Report
    from penstock.store.logs import Entries
    from penstock.store.retention import Keep

#: Batches whose accounts a site keeps: a reader that was down needs the accounts of its senders.
ACCOUNTS = 10_000


class DropLog(PlanLog):
    """Plans of a network by version."""

    _word = "drops"


class ReusedError(PenstockError):
    """The batch number was used before, for other rows."""

    def __init__(self, stage: str, batch: int) -> None:
        super().__init__(
            f"batch {batch} of {stage} is not the batch of that number that was run before, because Spark's checkpoint "
            "was deleted or changed: rows would be lost or replaced; start over in another folder (--folder)"
        )


class OwnPlans:
    """The loop of a process that plans and runs batches itself. Drops have no lease, so it sends no `Passed`."""

    def __init__(self, driver: Driver, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._driver, self._tell, self._clock = driver, tell, clock
        driver.begin(())

    @property
    def newest(self) -> Plan | None:
        """The plan in force."""
        return self._driver.loop.in_force

    def handle(self, event: Event) -> None:
        """Carry out what follows from an event."""
        self._driver.handle(event)

    def note(self, event: Event) -> None:
        """Carry out what follows from an event; an error is logged, because it must not stop a batch."""
        try:
            self._driver.handle(event)
        except Exception as error:  # noqa: BLE001 - after any error rows pass
            self._tell(f"a plan cannot be made or written: {_line(error)}")

    def stop(self) -> None:
        """Write a last plan that keeps every row, with what was learned."""
        self.note(Stopped(self._clock(), "stopped"))


class BoundPlans(OwnPlans):
    """The loop of a network, and the bindings of its stages: a batch is bound before it runs."""

    def __init__(
        self,
        plans: PlanLog,
        bindings: Mapping[str, BindingLog],
        loop: Loop,
        *,
        tell: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
        keep: Keep | None = None,
    ) -> None:
        """Continue with the plans and the bindings, by stage, of these logs; `tell` logs a warning."""
        self._plans, self._bindings, self._keep = plans, bindings, keep
        self._binders = {name: Binder(plans, log) for name, log in bindings.items()}
        #: By stage: the version of the plan that each batch is bound to, as far as it was read.
        self._versions: dict[str, dict[int, int | None]] = {name: {} for name in bindings}
        self._lock = threading.Lock()
        super().__init__(Driver(loop, plans, clock, self._purge, tell), tell, clock)

    @classmethod
    def below(
        cls,
        folder: Path,
        stages: Mapping[str, str],
        planner: Planner,
        *,
        tell: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Continue with the plans in this folder; `stages` have names of files."""
        bindings = {name: BindingLog(folder / "bindings" / file) for name, file in stages.items()}
        return cls(DropLog(folder / "plans"), bindings, Loop(planner, ""), tell=tell, clock=clock)

    def of(self, stage: str, batch: int, batch_id: str = "") -> Plan:
        """The plan of a batch: that of its binding if it was run before, else the newest, bound before it acts.

        `batch_id` distinguishes batches of the same number.

        Raises:
            ReusedError: If the number was bound before, for another batch.
            PenstockError: If its plan is missing, or a log cannot be read or written.
        """
        acting = self._driver.loop.acting
        version = None if acting is None else acting.version
        new = Binding(batch, stage, self._clock(), version, offsets=batch_id)
        bound = self._binders[stage].bound(batch, lambda: new)
        if bound is None:
            raise PenstockError(f"the binding of batch {batch} cannot be read, so it keeps every row")
        if is_another(bound.offsets, batch_id):
            raise ReusedError(stage, batch)
        with self._lock:
            self._versions[stage][batch] = bound.plan_version
        plan = _judging(bound, self._driver)
        if plan is None:
            raise PenstockError(f"plan {bound.plan_version} is missing, so batch {batch} keeps every row")
        return plan

    def bound_s(self, stage: str, batch: int) -> float | None:
        """When a batch was bound, which may be in an earlier run; None if that is unknown."""
        bound = self._bindings[stage].get(batch)
        return None if bound is None else bound.bound_s

    def _purge(self, batch: int, now_s: float) -> None:
        """Delete old bindings, and plans that no binding of any stage needs."""
        del batch  # Each stage has its own numbers.
        with self._lock:
            for stage, log in self._bindings.items():
                if taken := log.versions():
                    first = retention.oldest_kept(log, taken[-1], now_s, keep=self._keep)
                    log.purge(first)
                    self._versions[stage] = {one: self._version(stage, one) for one in taken if one >= first}
            needed = {version or 0 for bound in self._versions.values() for version in bound.values()}
        most = retention.NEWEST_PLANS if self._keep is None else self._keep.newest_plans
        self._plans.retain(needed, self._plans.next_version() - 1 - most)

    def _version(self, stage: str, batch: int) -> int | None:
        """The version that a batch is bound to; raises if that cannot be read, because its plan may be needed."""
        if batch not in self._versions[stage]:
            bound = self._bindings[stage].get(batch)
            if bound is None:
                raise PenstockError(f"the binding of batch {batch} of {stage} cannot be read")
            return bound.plan_version
        return self._versions[stage][batch]


class SitePlanLog(PlanLog):
    """Plans of a site, of one epoch."""

    _word = "siteplan"


class SitePlans(OwnPlans):
    """The loop of a site, and the bindings of its batches: each has its own plan, so a replay keeps the same rows."""

    def __init__(
        self,
        plans: PlanLog,
        bindings: BindingLog,
        accounts: Entries[Any],
        loop: Loop,
        *,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        keep: Keep | None = None,
    ) -> None:
        """Continue with the plans, bindings and accounts of these logs; `tell` logs a warning."""
        self._plans, self._bindings, self._accounts, self._keep = plans, bindings, accounts, keep
        self._binder = Binder(plans, bindings)
        super().__init__(Driver(loop, plans, clock, self._purge, tell), tell, clock)
        found = (plans.get(version) for version in reversed(plans.versions()))
        #: When an earlier run planned a batch last; None if it planned none. The plan of a stop is for no batch.
        self.last_s = next((plan.decided_s for plan in found if plan is not None and plan.elapsed_s), None)

    def of(self, batch: int, batch_id: str, came: Callable[[], Report], unplanned: Callable[[Exception], None]) -> Plan:
        """The plan of a batch: the one of its first attempt, or a new one by what `came`; both are durable.

        `batch_id` distinguishes batches of the same number. `unplanned` is told why a batch has no plan and keeps every
        row; it may raise instead.

        Raises:
            PenstockError: If the batch is another than that of the first attempt, or its plan cannot be read.
        """
        bound = self._binder.bound(batch, lambda: self._new(batch, batch_id, came, unplanned))
        if bound is not None and is_another(bound.offsets, batch_id):
            raise PenstockError(
                f"batch {batch} is not the batch of that number that was run before, because the site's checkpoint was "
                "changed: rows sent would not be read; delete the checkpoint to start over"
            )
        plan = None if bound is None else _judging(bound, self._driver)
        if plan is None:
            raise PenstockError(
                f"the plan of batch {batch} in {self._plans.folder} cannot be read, and rows already sent under it "
                "could differ: delete its file there, and its binding, to plan the batch again"
            )
        return plan

    def bound(self, batch: int) -> bool:
        """Whether a batch was bound before."""
        return self._bindings.taken(batch)

    def learn(self, report: Report) -> None:
        """Learn from a batch that has run; an error is logged."""
        self.note(BatchEnded(self._clock(), report.sequence, report))

    def _new(
        self, batch: int, batch_id: str, came: Callable[[], Report], unplanned: Callable[[Exception], None]
    ) -> Binding:
        now_s, version, note = self._clock(), None, ""
        arrivals = came()
        try:
            self._driver.handle(BatchEnded(now_s, batch, arrivals))
            version = None if self._driver.loop.in_force is None else self._driver.loop.in_force.version
        except Exception as error:  # noqa: BLE001 - after any error rows pass unless `unplanned` refuses that
            unplanned(error)
            note = _line(error)
        return Binding(batch, "", now_s, version, note=note, offsets=batch_id)

    def _purge(self, batch: int, now_s: float) -> None:
        """Delete old plans, bindings and accounts."""
        retention.purge(self._plans, self._bindings, batch, now_s, self._keep)
        most = ACCOUNTS if self._keep is None else self._keep.batches
        self._accounts.purge(retention.oldest_kept(self._accounts, batch, now_s, most, self._keep))


def _judging(bound: Binding, driver: Driver) -> Plan | None:
    """The plan that a batch is bound to; `None` if it cannot be read."""
    if bound.plan_version is None:
        return Plan.keep_all(0, "rows flow", bound.bound_s)
    return driver.plan(bound.plan_version)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
