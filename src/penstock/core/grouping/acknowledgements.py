"""Acknowledgements: an instance tells each scheduler which of its rows are done, how long they took and what they cost.

A row carries a `Ticket`: who sent it and its number among that scheduler's rows at that instance. Rows are executed in
the order they were sent, so a later number says that all earlier ones are done too: lost, late and repeated reports do
no harm. Only lengths of time are reported, so instances and schedulers need no common clock.
"""

from dataclasses import dataclass

from penstock.core.grouping.machines import LONGEST_S, Done, Send
from penstock.core.settings import number, whole_number


@dataclass(frozen=True, slots=True)
class Ticket:
    """Scheduler to instance, with a row: whose row it is, and which, counted from 1 at each instance."""

    scheduler: int
    number: int


@dataclass(frozen=True, slots=True)
class RowDone:
    """What is told of one row: 20 bytes on the wire (a 4-byte number, two 8-byte lengths of time)."""

    number: int
    sojourn_s: float  #: from being sent until done
    cost_s: float

    def __post_init__(self) -> None:
        """Refuse what would poison every later decision."""
        number("sojourn_s", self.sojourn_s, 0.0, LONGEST_S)
        number("cost_s", self.cost_s, 0.0, LONGEST_S)


@dataclass(frozen=True, slots=True)
class Report:
    """Instance to scheduler: rows done, in order."""

    rows: tuple[RowDone, ...]


class AcknowledgingInstance:
    """Reports every `report_rows` executed rows of a scheduler, and whatever is unreported when it runs idle.

    >>> instance = AcknowledgingInstance(report_rows=2)
    >>> instance.executed(Done(key="a", assigned_s=0.0, finish_s=2.0, cost_s=2.0, waiting=1, request=Ticket(0, 1)))
    []
    >>> instance.executed(Done(key="a", assigned_s=1.0, finish_s=4.0, cost_s=2.0, waiting=1, request=Ticket(0, 2)))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Send(message=Report(rows=(RowDone(number=1, sojourn_s=2.0, cost_s=2.0),
                               RowDone(number=2, sojourn_s=3.0, cost_s=2.0))), scheduler=0)]
    """

    def __init__(self, *, report_rows: int = 1) -> None:
        """Start with nothing to report; one row a report is the quickest."""
        self._report_rows = whole_number("report_rows", report_rows, 1)
        self._unreported: dict[int, list[RowDone]] = {}

    @property
    def memory_bytes(self) -> int:
        """The rows that may be unreported."""
        return 24 * self._report_rows * max(1, len(self._unreported))

    def executed(self, row: Done) -> list[Send]:
        """Note the row; report if enough are noted or nothing is left to do."""
        if not isinstance(row.request, Ticket):
            raise TypeError(f"not a ticket: {row.request!r}")
        mine = self._unreported.setdefault(row.request.scheduler, [])
        mine.append(RowDone(row.request.number, row.finish_s - row.assigned_s, row.cost_s))
        if row.waiting == 0:
            due = sorted(self._unreported)
        elif len(mine) >= self._report_rows:
            due = [row.request.scheduler]
        else:
            due = []
        sends = []
        for scheduler in due:
            if rows := self._unreported[scheduler]:
                sends.append(Send(Report(tuple(rows)), scheduler))
                self._unreported[scheduler] = []
        return sends
