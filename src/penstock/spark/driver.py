"""The driver of a loop on Spark: it carries the loop's instructions out on the logs under a query's checkpoint."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.core.loop.events import Began, Event, Failed, Renewed, Stopped, Stored, Taken
from penstock.core.loop.instructions import Purge, Renew, Tell, Write
from penstock.errors import PenstockError
from penstock.store import retention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.loop.instructions import Instruction
    from penstock.core.loop.machine import Loop
    from penstock.messages.plan import Plan
    from penstock.messages.report import Report
    from penstock.spark.plans.places import Bindings, Plans


class Driver:
    """One loop and its logs; events may come from several threads."""

    def __init__(
        self,
        loop: Loop,
        plans: Plans,
        bindings: Bindings,
        clock: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        """Let the loop write into these logs; `tell` warns of what hurts nothing yet."""
        self.loop, self.plans, self.bindings = loop, plans, bindings
        self._clock, self._tell = clock, tell
        self._lock = threading.RLock()

    def begin(self, reports: Sequence[Report]) -> None:
        """Go on from the newest plan of the log, with what an earlier run reported."""
        self.handle(Began(self._clock(), self.plans.latest(), reports))

    def stop(self, note: str) -> None:
        """Keep every row from now on."""
        self.handle(Stopped(self._clock(), note, self.plans.latest()))

    def handle(self, event: Event) -> None:
        """Carry out what follows from an event.

        Raises:
            Exception: What the loop or a log has met, after everything else is done.
        """
        met: Exception | None = None
        with self._lock:
            todo = self.loop.handle(event)
            while todo:
                try:
                    more = self._carry_out(todo[0])
                except Exception as error:  # noqa: BLE001 - raised below, once the other instructions are carried out
                    met = error
                    more = self.loop.handle(Failed(todo[0].plan.version)) if isinstance(todo[0], Write) else []
                todo = [*more, *todo[1:]]
        if met is not None:
            raise met

    def _carry_out(self, instruction: Instruction) -> list[Instruction]:
        match instruction:
            case Write(plan):
                stored = self.plans.add(plan.version, plan)
                return self.loop.handle((Stored if stored else Taken)(plan.version))
            case Renew(version, now_s):
                self.plans.renew(version, now_s)
                return self.loop.handle(Renewed(version, now_s))
            case Purge(batch, now_s):
                self._purge(batch, now_s)
            case Tell(line):
                self._tell(line)
        return []

    def _purge(self, batch: int, now_s: float) -> None:
        """Delete the bindings of batches long done, and the plans that only they needed."""
        try:
            retention.purge_bindings(self.bindings, batch, now_s)
            retention.purge_plans(self.plans, self.bindings.oldest())
        except (OSError, PenstockError) as error:
            self._tell(f"old plans and bindings cannot be deleted: {error}")

    def plan(self, version: int) -> Plan | None:
        """The plan of that version; None if it is gone."""
        in_force = self.loop.in_force
        return in_force if in_force is not None and in_force.version == version else self.plans.get(version)
