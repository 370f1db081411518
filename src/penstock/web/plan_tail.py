"""Follows a plan log that another process writes, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.store.logs import PlanLog

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.messages.plan import Plan

#: How many of the newest plans are read from a new log.
MOST_PLANS = 300


class PlanTail:
    """The plans of a log, and at each call the new ones.

    `restarts` counts how often the log was deleted and rewritten.
    """

    def __init__(self, folder: Path) -> None:
        """Follow the log in this folder."""
        self.log = PlanLog(folder, make=False)  # a deleted folder must not be created again
        self.restarts = 0
        self._last: tuple[int, int] | None = None  # version, and what the system calls its file

    def news(self) -> list[Plan]:
        """Plans since the last call, oldest first; raises `PenstockError` if the folder cannot be read."""
        versions = self.log.versions()
        if self._last is not None and self._file(self._last[0]) != self._last[1]:
            self.restarts += 1
            self._last = None
        seen = -1 if self._last is None else self._last[0]
        new = [version for version in versions if version > seen][-MOST_PLANS:]
        if new and (file := self._file(new[-1])) is not None:
            self._last = new[-1], file
        return [plan for version in new if (plan := self.log.get(version))]

    def _file(self, version: int) -> int | None:
        try:
            return (self.log.folder / f"{version:020d}.plan").stat().st_ino
        except OSError:
            return None
