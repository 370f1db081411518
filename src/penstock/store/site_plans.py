"""The plans of a site: each batch is bound to its own plan before it runs, so a replay keeps the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from penstock.core.loop.events import BatchEnded
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.messages.plan import BY_BATCH, Binding, Plan
from penstock.store import retention
from penstock.store.binder import Binder, is_another
from penstock.store.driver import Driver
from penstock.store.logs import BindingLog, PlanLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.core.loop.machine import Decides
    from penstock.messages.report import Report
    from penstock.store.retention import Entries, Keep

#: Batches whose accounts are kept: a reader that was down needs the accounts of its senders.
ACCOUNTS = 10_000


class SitePlanLog(PlanLog):
    """Plans of a site, of one epoch."""

    _word = "siteplan"


class SitePlans:
    """The loop of a site, and the bindings of its batches."""

    def __init__(
        self,
        plans: PlanLog,
        bindings: BindingLog,
        accounts: Entries,
        loop: Loop,
        *,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        keep: Keep | None = None,
    ) -> None:
        """Continue with the plans, bindings and accounts of these logs; `tell` logs a warning."""
        self.plans, self._bindings, self._accounts = plans, bindings, accounts
        self._clock, self._keep = clock, keep
        self._binder = Binder(plans, bindings)
        self._driver = Driver(loop, plans, clock, self._purge, tell)
        self._driver.begin(())
        newest = plans.latest()
        #: When the last plan of an earlier run was decided; None if there is none.
        self.last_s = None if newest is None else newest.decided_s

    @classmethod
    def below(
        cls,
        folder: Path,
        epoch: int,
        planner: Decides,
        accounts: Entries,
        *,
        clock: Callable[[], float],
        tell: Callable[[str], None],
    ) -> Self:
        """Continue with the plans of this epoch in this folder."""
        plans = SitePlanLog(folder / "plans" / f"{epoch:018d}")
        bindings = BindingLog(folder / "bindings" / f"{epoch:018d}")
        return cls(plans, bindings, accounts, Loop(planner, ""), clock=clock, tell=tell)

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
        if bound is not None and bound.plan_version is None:
            return Plan.keep_all(0, "rows flow", bound.bound_s)
        plan = None if bound is None or bound.plan_version is None else self._driver.plan(bound.plan_version)
        if plan is None:
            raise PenstockError(
                f"the plan of batch {batch} in {self.plans.folder} cannot be read, and rows already sent under it "
                "could differ: delete its file there, and its binding, to plan the batch again"
            )
        return plan

    def bound(self, batch: int) -> bool:
        """Whether a batch was bound before, or planned for by an earlier release."""
        return self._bindings.taken(batch) or self._planned_by_number(batch)

    def _planned_by_number(self, batch: int) -> bool:
        """Whether an earlier release has planned for the batch: the plan of a batch had its number then."""
        plan = self.plans.get(batch)
        return plan is not None and plan.query == BY_BATCH

    def _new(
        self, batch: int, batch_id: str, came: Callable[[], Report], unplanned: Callable[[Exception], None]
    ) -> Binding:
        now_s, version, note = self._clock(), None, ""
        if self._planned_by_number(batch):
            version = batch
        else:
            arrivals = came()
            try:
                self._driver.handle(BatchEnded(now_s, batch, arrivals))
                version = None if self._driver.loop.in_force is None else self._driver.loop.in_force.version
            except Exception as error:  # noqa: BLE001 - after any error rows pass unless `unplanned` refuses that
                unplanned(error)
                note = " ".join(str(error).split()) or type(error).__name__
        return Binding(batch, "", now_s, version, note=note, offsets=batch_id)

    def _purge(self, batch: int, now_s: float) -> None:
        """Delete old plans, bindings and accounts."""
        retention.purge(self.plans, self._bindings, batch, now_s, self._keep)
        most = ACCOUNTS if self._keep is None else self._keep.batches
        self._accounts.purge(retention.oldest_kept(self._accounts, batch, now_s, most, self._keep))
