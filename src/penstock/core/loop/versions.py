"""The versions of a query's plans: a plan is written until the store answers, and is in force once it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.loop.events import Failed, Renewed, Stored, Taken

if TYPE_CHECKING:
    from penstock.messages.plan import Plan


class Versions:
    """The plan to write and the plan in force. No version is used twice, by this loop or by another one.

    >>> from penstock.messages.plan import Plan
    >>> versions = Versions()
    >>> versions.unwritten = Plan.keep_all(versions.next, "by hand", 1.0)
    >>> versions.answer(Taken(0, newest=6)), versions.unwritten.version
    (True, 7)
    >>> versions.answer(Stored(7)), versions.in_force.version, versions.next
    (False, 7, 8)

    Attributes:
        next: The version to try next.
        unwritten: The plan that is decided, and not known to be in the store.
        in_force: The newest plan that is known to be in the store.
        renewed_s: When that plan was decided or last renewed.
    """

    def __init__(self) -> None:
        self.next = 0
        self.unwritten: Plan | None = None
        self.in_force: Plan | None = None
        self.renewed_s = 0.0

    def follow(self, newest: Plan | None) -> None:
        """Continue behind the newest plan of the store."""
        if newest is not None:
            self.next = max(self.next, newest.version + 1)

    def answer(self, event: Stored | Taken | Failed | Renewed) -> bool:
        """Process an answer of the store; returns whether the plan is to be written again, as a later version."""
        version = event.version
        if isinstance(event, Renewed):
            if self.in_force is not None and self.in_force.version == version:
                self.renewed_s = event.now_s
            return False
        if self.unwritten is None or version != self.next or isinstance(event, Failed):
            return False  # After a failure the loop tries again at a later event.
        self.next = version + 1
        if isinstance(event, Taken):
            self.next = max(version, event.newest) + 1
            self.unwritten = replace(self.unwritten, version=self.next)
            return True
        self.in_force, self.renewed_s = self.unwritten, self.unwritten.decided_s
        self.unwritten = None
        return False
