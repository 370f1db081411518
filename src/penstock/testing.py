"""Helpers for your own tests: a clock you turn by hand, a plan log in memory, and one that crashes on cue."""

import math
import os
import threading
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from penstock.errors import PenstockError
from penstock.log import PlanLog, Skipped
from penstock.plan import Plan


class ManualClock:
    """A clock that stands still until it is told to move; call it for the time.

    >>> clock = ManualClock(start_s=10.0)
    >>> clock.advance(2.5)
    >>> clock()
    12.5
    """

    def __init__(self, start_s: float = 0.0) -> None:
        """Start at this time."""
        self.set(start_s)

    def __call__(self) -> float:
        """The time now, in seconds."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move on by so many seconds."""
        if not 0 <= seconds < math.inf:
            raise PenstockError.setting("seconds", seconds, "a finite number from 0 up", "set() can turn back")
        self._now_s += seconds

    def set(self, now_s: float) -> None:
        """Jump to a time, also back, as a wall clock does when it is corrected."""
        if not math.isfinite(now_s):
            raise PenstockError.setting("now_s", now_s, "a finite number")
        self._now_s = float(now_s)


class MemoryPlanLog:
    """A plan log that lives and dies with its process; threads may share it.

    >>> log = MemoryPlanLog()
    >>> plan = Plan.keep_all(0, "start", decided_s=0.0)
    >>> log.add(0, plan), log.add(0, plan), log.next_version()
    (True, False, 1)
    """

    def __init__(self) -> None:
        """Start empty."""
        self._plans: dict[int, Plan] = {}
        self._lease = -1, 0.0  # which plan was renewed last, and when
        self._lock = threading.Lock()

    def add(self, version: int, plan: Plan) -> bool:
        """Keep the plan and return true; false if that version was already taken."""
        if plan.version != version:
            raise PenstockError.setting("version", version, f"the version of the plan, {plan.version}")
        with self._lock:
            if version in self._plans:
                return False
            self._plans[version] = plan
            return True

    def get(self, version: int) -> Plan | None:
        """The plan of that version; `None` if there is none."""
        return self._plans.get(version)

    def versions(self) -> list[int]:
        """Every version taken, ascending."""
        with self._lock:
            return sorted(self._plans)

    def latest(self) -> Plan | None:
        """The newest plan; `None` if there is none."""
        return self._plans.get(self.next_version() - 1)

    def plans(self) -> Iterator[Plan]:
        """Every plan, oldest first."""
        return iter([self._plans[version] for version in self.versions()])

    def next_version(self) -> int:
        """The version after the newest one taken."""
        return max(self.versions(), default=-1) + 1

    def skipped(self) -> list[Skipped]:
        """Nothing: memory holds no file that could be unreadable."""
        return []

    def renew(self, version: int, now_s: float) -> None:
        """Let the plan of that version act for another lease from now on."""
        self._lease = version, now_s

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was."""
        renewed, renewed_s = self._lease
        return renewed_s if renewed == version else 0.0


class Step(Enum):
    """A moment in the writing of a plan at which a process can die."""

    BEFORE_WRITE = "before write"
    AFTER_WRITE = "after write, before sync"
    AFTER_SYNC = "after sync, before publish"
    AFTER_PUBLISH = "after publish, before folder sync"
    AFTER_ALL = "after everything"


class SimulatedCrash(BaseException):
    """The process died here. No `except Exception` catches it, as none would catch the real thing."""


class CrashingPlanLog(PlanLog):
    """A plan log whose every `add` crashes at one step and leaves behind what a dead process would.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     try:
    ...         CrashingPlanLog(folder, crash_at=Step.AFTER_SYNC).add(0, Plan.keep_all(0, "start", 0.0))
    ...     except SimulatedCrash as crash:
    ...         print(crash, PlanLog(folder).versions())
    after sync, before publish []
    """

    def __init__(self, folder: str | os.PathLike[str], crash_at: Step) -> None:
        """Crash at this step."""
        super().__init__(folder)
        self._crash_at = crash_at

    def add(self, version: int, plan: Plan) -> bool:
        """Never return: raise `SimulatedCrash` at the chosen step."""
        added = super().add(version, plan)
        self._reach(Step.AFTER_ALL)
        return added

    def _reach(self, step: Step) -> None:
        if step is self._crash_at:
            raise SimulatedCrash(step.value)

    def _write(self, file: BinaryIO, content: bytes) -> None:
        self._reach(Step.BEFORE_WRITE)
        super()._write(file, content)
        self._reach(Step.AFTER_WRITE)

    def _sync(self, file: BinaryIO) -> None:
        super()._sync(file)
        self._reach(Step.AFTER_SYNC)

    def _publish(self, temp: Path, final: Path) -> bool:
        added = super()._publish(temp, final)
        self._reach(Step.AFTER_PUBLISH)
        return added

    def _discard(self, temp: Path) -> None:
        if self._crash_at is Step.AFTER_ALL:
            super()._discard(temp)
