"""Events: the input of the loop from its driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.messages.plan import Costs, Plan
    from penstock.messages.report import Report


class Began(NamedTuple):
    """The driver begins to watch the query, with the store's newest plan and the last reports of an earlier run."""

    now_s: float
    newest: Plan | None = None
    reports: Sequence[Report] = ()


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """A batch has ended; a site, which plans by the rows that came, also says so before a batch runs."""

    now_s: float  #: the time
    batch: int  #: its number
    report: Report | None = None  #: its measurements, for the planner; None if it has none
    costs: Costs | None = None  #: new costs to deal rows by, if there are any
    rows: int = 0  #: rows that came to the gate
    offsets: int | None = None  #: rows that the batch has by its offsets; None if these do not count rows


class Misread(NamedTuple):
    """The driver could not read the query's progress."""

    now_s: float


class Passed(NamedTuple):
    """Time passes; `idle` says that the query's input has ended."""

    now_s: float
    idle: bool = False


class Stopped(NamedTuple):
    """Planning ends; `newest` is the store's newest plan, None if there is none or it cannot be read."""

    now_s: float
    note: str
    newest: Plan | None = None


class Stored(NamedTuple):
    """The store has the plan of this version."""

    version: int


class Taken(NamedTuple):
    """The store has, or had, another plan of this version; `newest` is its newest version as far as is known."""

    version: int
    newest: int = 0


class Failed(NamedTuple):
    """The write failed; whether the store has the plan of this version is unknown."""

    version: int


class Renewed(NamedTuple):
    """The plan of this version acts for another lease from that time on."""

    version: int
    now_s: float


Event = Began | BatchEnded | Misread | Passed | Stopped | Stored | Taken | Failed | Renewed
