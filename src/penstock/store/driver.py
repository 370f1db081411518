"""The driver of a loop: carries out its instructions on logs, on Spark and on virtual time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.core.loop.events import Began, Event, Failed, Renewed, Stopped, Stored, Taken
from penstock.core.loop.instructions import Purge, Renew, Tell, Write
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.loop.instructions import Instruction
    from penstock.core.loop.machine import Loop
    from penstock.messages.plan import Plan
    from penstock.messages.report import Report
    from penstock.store.logs import PlanStore


class Driver:
    """One loop and its logs; events may come from several threads."""

    def __init__(
        self,
        loop: Loop,
        plans: PlanStore,
        clock: Callable[[], float],
        purge: Callable[[int, float], None],
        tell: Callable[[str], None],
    ) -> None:
        """Let the loop write into this log.

        `purge` deletes entries older than the retention, counted back from a batch and a time. `tell` logs a warning.
        """
        self.loop, self.plans = loop, plans
        self._clock, self._purge, self._tell = clock, purge, tell
        self._lock = threading.RLock()
        self._reports: Sequence[Report] = ()
        self._begun = False

    def begin(self, reports: Sequence[Report]) -> None:
        """Continue from the newest plan of the log and the reports of an earlier run.

        If the log cannot be read, nothing is written until it can.
        """
        with self._lock:
            self._reports = reports
            began = Began(self._clock(), self.plans.latest(), reports)
            self._begun = True
            self.handle(began)

    def stop(self, note: str) -> None:
        """Keep every row from now on; the loop is stopped even if the log cannot be read."""
        newest, met = None, None
        try:
            newest = self.plans.latest()
        except (OSError, PenstockError) as error:
            met = error
        self.handle(Stopped(self._clock(), note, newest))
        if met is not None:
            raise met

    def handle(self, event: Event) -> None:
        """Carry out what follows from an event.

        Raises:
            Exception: The last error of the loop or a log, after all other instructions are carried out.
        """
        met: Exception | None = None
        with self._lock:
            if not (self._begun or isinstance(event, Stopped)):
                self.begin(self._reports)
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
                return self.loop.handle(self._added(plan))
            case Renew(version, now_s):
                self.plans.renew(version, now_s)
                return self.loop.handle(Renewed(version, now_s))
            case Purge(batch, now_s):
                try:
                    self._purge(batch, now_s)
                except (OSError, PenstockError) as error:
                    self._tell(f"old plans and bindings cannot be deleted: {error}")
            case Tell(line):
                self._tell(line)
        return []

    def _added(self, plan: Plan) -> Stored | Taken:
        version = plan.version
        # Another driver may have written, and deleted, plans from this version on. A version is never used twice.
        unused = version and self.plans.get(version - 1) is not None
        if not unused and (after := self.plans.next_version()) > version:
            return Taken(version, after - 1)
        return Stored(version) if self.plans.add(version, plan) else Taken(version)

    def plan(self, version: int) -> Plan | None:
        """The plan of that version; None if it is gone."""
        in_force = self.loop.in_force
        return in_force if in_force is not None and in_force.version == version else self.plans.get(version)
