"""What a driver tells the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.messages.plan import Costs, Plan
    from penstock.messages.report import Report


class Began(NamedTuple):
    """The driver watches the query from now on: the store's newest plan, and the last reports of an earlier run."""

    now_s: float
    newest: Plan | None = None
    reports: Sequence[Report] = ()


class BatchEnded(NamedTuple):
    """A batch is done.

    Its report, None if it says nothing; new costs to deal rows by; and how many rows its offsets count, if they do.
    """

    now_s: float
    batch: int
    report: Report | None = None
    costs: Costs | None = None
    offsets: int | None = None


class Misread(NamedTuple):
    """The driver could not find out what happened to the query."""

    now_s: float


class Passed(NamedTuple):
    """Time passes; `idle` says that the query's input has ended."""

    now_s: float
    idle: bool = False


class Stopped(NamedTuple):
    """Nobody will plan any more; the newest plan of the store."""

    now_s: float
    note: str
    newest: Plan | None = None


class Stored(NamedTuple):
    """The store has the plan of this version."""

    version: int


class Taken(NamedTuple):
    """The store has another plan of this version."""

    version: int


class Failed(NamedTuple):
    """The store could not be written; whether it has the plan of this version is not known."""

    version: int


class Renewed(NamedTuple):
    """The plan of this version acts for another lease from that time on."""

    version: int
    now_s: float


Event = Began | BatchEnded | Misread | Passed | Stopped | Stored | Taken | Failed | Renewed
