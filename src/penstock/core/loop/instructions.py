"""Instructions: the output of the loop for its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.messages.plan import Plan


class Write(NamedTuple):
    """Create the plan in the store and answer `Stored`, `Taken` or `Failed`."""

    plan: Plan


class Renew(NamedTuple):
    """Let the plan of this version act for another lease from now on, and answer `Renewed`."""

    version: int
    now_s: float


class Purge(NamedTuple):
    """Delete entries older than the retention, counted back from this batch."""

    batch: int
    now_s: float


class Tell(NamedTuple):
    """Warn in one line."""

    line: str


Instruction = Write | Renew | Purge | Tell
