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
    """A batch is done: its report, new costs to deal rows by, and rows for each offset as far as they are known."""

    now_s: float
    batch: int
    report: Report
    costs: Costs | None = None
    rows_per_offset: float | None = None


class Misread(NamedTuple):
    """A batch ended and the driver could not make a report of it."""

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


Event = Began | BatchEnded | Misread | Passed | Stopped | Stored | Taken | Failed
