"""Helpers for your own tests: a clock you turn by hand, a plan log in memory, and one that crashes on cue."""

import math
import os
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from penstock.errors import PenstockError
from penstock.store.folder import FolderStore
from penstock.store.logs import PlanLog
from penstock.store.memory import MemoryStore


class ManualClock:
    """A clock that moves only when it is set; call it for the time.

    >>> clock = ManualClock(start_s=10.0)
    >>> clock.advance(2.5)
    >>> clock()
    12.5
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self.set(start_s)

    def __call__(self) -> float:
        """The time now, in seconds."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Advance by seconds."""
        if not 0 <= seconds < math.inf:
            raise PenstockError.setting("seconds", seconds, "a finite number from 0 up", "set() can turn back")
        self._now_s += seconds

    def set(self, now_s: float) -> None:
        """Jump to a time, also back, as a wall clock does when it is corrected."""
        if not math.isfinite(now_s):
            raise PenstockError.setting("now_s", now_s, "a finite number")
        self._now_s = float(now_s)


class MemoryPlanLog(PlanLog):
    """A plan log in memory; threads may share it.

    >>> from penstock import Plan
    >>> log = MemoryPlanLog()
    >>> plan = Plan.keep_all(0, "start", decided_s=0.0)
    >>> log.add(0, plan), log.add(0, plan), log.next_version()
    (True, False, 1)
    """

    def __init__(self) -> None:
        super().__init__(MemoryStore())


class Step(Enum):
    """A moment in the writing of a plan at which a process can die."""

    BEFORE_WRITE = "before write"
    AFTER_WRITE = "after write, before sync"
    AFTER_SYNC = "after sync, before publish"
    AFTER_PUBLISH = "after publish, before folder sync"
    AFTER_ALL = "after everything"


class SimulatedCrash(BaseException):
    """The process died here. No `except Exception` catches it."""


class CrashingStore(FolderStore):
    """A store in a folder whose every `create` crashes at one step and leaves behind what a dead process would.

    >>> from tempfile import TemporaryDirectory
    >>> from penstock import Plan
    >>> with TemporaryDirectory() as folder:
    ...     try:
    ...         PlanLog(CrashingStore(folder, Step.AFTER_SYNC)).add(0, Plan.keep_all(0, "start", 0.0))
    ...     except SimulatedCrash as crash:
    ...         print(crash, PlanLog(folder).versions())
    after sync, before publish []
    """

    def __init__(self, folder: str | os.PathLike[str], crash_at: Step) -> None:
        super().__init__(folder)
        self._crash_at = crash_at

    def create(self, name: str, content: bytes) -> bool:
        """Never return: raise `SimulatedCrash` at the chosen step."""
        created = super().create(name, content)
        self._reach(Step.AFTER_ALL)
        return created

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
        published = super()._publish(temp, final)
        self._reach(Step.AFTER_PUBLISH)
        return published

    def _discard(self, temp: Path) -> None:
        if self._crash_at is Step.AFTER_ALL:
            super()._discard(temp)


class CrashingPlanLog(PlanLog):
    """A plan log in a `CrashingStore`."""

    def __init__(self, folder: str | os.PathLike[str], crash_at: Step) -> None:
        super().__init__(CrashingStore(folder, crash_at))
