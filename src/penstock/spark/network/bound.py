"""The plans of a network on disk, and which batch of which stage was judged by which of them."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.messages.drop_plan import Drop, DropPlan
from penstock.messages.plan import Binding
from penstock.spark.checkpoint import is_another
from penstock.store import retention
from penstock.store.logs import BindingLog, Log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

#: The newest plans, which a batch may be about to be bound to.
NEWEST_PLANS = 10


class DropLog(Log[DropPlan]):
    """Plans by version."""

    _kind, _word, _number, _time = DropPlan, "drops", "version", "decided_s"


class ReusedError(PenstockError):
    """The number of a batch was used before, for other rows."""

    def __init__(self, stage: str, batch: int) -> None:
        """Say whose it is, and what to do."""
        super().__init__(
            f"batch {batch} of {stage} is not the batch of that number that was run before, because Spark's checkpoint "
            "was deleted or changed: rows would be lost or replaced; start over in another folder (--folder)"
        )


class BoundPlans:
    """Plans that batches are bound to before they run, so that a replay drops the same rows.

    Attributes:
        newest: The plan in force.
    """

    def __init__(
        self,
        folder: Path,
        stages: Mapping[str, str],
        drops: tuple[Drop, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Go on with the plans in this folder, from these drops on; `stages` have names of files."""
        self._plans, self._clock = DropLog(folder / "plans"), clock
        self._bindings = {name: BindingLog(folder / "bindings" / file) for name, file in stages.items()}
        #: By stage: the version of the plan that each batch is bound to.
        self._versions = {
            name: {one.batch: one.plan_version or 0 for one in log.entries()} for name, log in self._bindings.items()
        }
        self._lock = threading.Lock()
        self.newest = DropPlan(self._plans.next_version(), clock(), drops, note="start")
        self._plans.add(self.newest.version, self.newest)

    def add(self, drops: tuple[Drop, ...] = (), entry: int = 0, note: str = "") -> None:
        """Put a plan into the log; from then on it is in force."""
        version = self.newest.version + 1
        while not self._plans.add(version, plan := DropPlan(version, self._clock(), drops, entry, note)):
            version += 1
        self.newest = plan

    def let_flow(self, note: str) -> None:
        """Keep every row from now on, whether that can be put into the log or not."""
        try:
            self.add(note=note)
        except (OSError, PenstockError):
            self.newest = DropPlan(self.newest.version + 1, self._clock(), note=note)
            raise

    def of(self, stage: str, batch: int, batch_id: str = "") -> DropPlan:
        """The plan of a batch: that of its binding if it was run before, else the newest, bound before it acts.

        `batch_id` tells the batch from another one of the same number.

        Raises:
            ReusedError: If the number was bound before, for another batch.
            PenstockError: If its plan is gone, or a log cannot be read or written.
        """
        log = self._bindings[stage]
        bound = log.get(batch)
        if bound is None:
            newest = self.newest
            if not log.add(batch, Binding(batch, stage, self._clock(), newest.version, offsets=batch_id)):
                raise PenstockError(f"the binding of batch {batch} cannot be read, so it keeps every row")
            self._remember(stage, batch, newest.version)
            return newest
        if is_another(bound.offsets, batch_id):
            raise ReusedError(stage, batch)
        plan = self._plans.get(bound.plan_version or 0)
        if plan is None:
            raise PenstockError(f"plan {bound.plan_version} is missing, so batch {batch} keeps every row")
        return plan

    def _remember(self, stage: str, batch: int, version: int) -> None:
        with self._lock:
            self._versions[stage][batch] = version
            if batch % retention.PURGE_EVERY == 0:
                with suppress(OSError, PenstockError):  # The batch is bound, and runs.
                    self._purge(stage, batch)

    def _purge(self, stage: str, batch: int) -> None:
        """Delete bindings of batches long done, and plans that no binding of any stage needs."""
        log, now_s = self._bindings[stage], self._clock()
        first = retention.oldest_kept(log, batch, now_s)
        log.purge(first)
        self._versions[stage] = {one: plan for one, plan in self._versions[stage].items() if one >= first}
        needed = {plan for bound in self._versions.values() for plan in bound.values()}
        self._plans.retain(needed, self.newest.version - NEWEST_PLANS)
