"""The base of everything the page follows: a growing list of points, a changing head, and the updates of both.

A reader receives what it has not seen, as its `Cursor` says. If the log was replaced, it receives everything again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

#: Points that are kept and shown.
MOST_POINTS = 3000
MOST_DECISIONS = 300


@dataclass
class Cursor:
    """How much of a log a reader has seen."""

    generation: int = -1
    points: int = 0
    decisions: int = 0
    revision: int = -1


class Growing:
    """The newest entries of a list that only grows, and how many there were in all.

    >>> numbers = Growing(most=2)
    >>> for number in range(3):
    ...     numbers.add({"n": number})
    >>> numbers.since(0), numbers.since(2), numbers.count
    ([{'n': 1}, {'n': 2}], [{'n': 2}], 3)
    """

    def __init__(self, most: int) -> None:
        self.kept: deque[Json] = deque(maxlen=most)
        self.count = 0

    def add(self, one: Json) -> None:
        """Add one."""
        self.kept.append(one)
        self.count += 1

    def since(self, seen: int) -> list[Json]:
        """The entries added after the first `count`, as far as they are kept."""
        new = min(self.count - seen, len(self.kept))
        return list(self.kept)[len(self.kept) - new :] if new > 0 else []


class Followed:
    """A log that the page shows, updated by `look`.

    Attributes:
        name: What to call it.
        points: One for each batch.
        decisions: What was decided, newest last.
        generation: How often the log was replaced.
    """

    kind = ""

    def __init__(self, identity: str, name: str, folder: Path) -> None:
        self.identity, self.name, self.folder = identity, name, folder
        self.shown_as = str(folder)  #: the folder as the user named it
        self.generation = 0
        self._head: Json = {}
        self._revision = 0
        self._forget()

    def _forget(self) -> None:
        """Reset all state."""
        self.points, self.decisions = Growing(MOST_POINTS), Growing(MOST_DECISIONS)
        self._gone = ""  # why the log cannot be read

    def look(self, now_s: float) -> None:
        """Poll for updates."""
        try:
            self._follow()
            self._gone = ""
        except (OSError, ValueError):
            self._gone = f"The log {self.folder} is missing or cannot be read. The page shows the last known state."
        if (head := self._shown(now_s)) != self._head:
            self._head = head
            self._revision += 1

    def _follow(self) -> None:
        """Read what is new."""
        raise NotImplementedError

    def _shown(self, now_s: float) -> Json:
        """The part of the state that is not a growing list."""
        raise NotImplementedError

    def news(self, cursor: Cursor) -> Json | None:
        """The updates since the cursor, which advances; `None` if there are none."""
        reset = cursor.generation != self.generation
        if reset:
            cursor.generation, cursor.points, cursor.decisions, cursor.revision = self.generation, 0, 0, -1
        seen = cursor.points, cursor.decisions, cursor.revision
        now = self.points.count, self.decisions.count, self._revision
        if seen == now:
            return None
        cursor.points, cursor.decisions, cursor.revision = now
        return {
            "id": self.identity,
            "kind": self.kind,
            "name": self.name,
            "reset": reset,
            "head": self._head,
            "points": self.points.since(seen[0]),
            "decisions": self.decisions.since(seen[1]),
        }
