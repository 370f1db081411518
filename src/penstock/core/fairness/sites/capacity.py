"""The capacity of a site: given as rows a second, or learned from the times of batches.

Each fragment has a capacity model (`core.control.capacity`), and so has the rest of a batch. The time per row is its
cost, and the overheads reduce the work that fits.
"""

import math
from collections.abc import Iterable

from penstock.core.control.capacity import LEAST_SHARE, Capacity, work_per_s
from penstock.core.control.memory import Learned
from penstock.messages.report import Report

#: While it is uncertain whether shedding shortens batches, everything is kept after this many batches, and again
#: after twice as many each time. It is uncertain if the standard error of the overhead is more than this share of the
#: time from batch to batch.
FIRST_TRY, IN_DOUBT = 4, 0.05
#: The share of overhead in the time inside and outside fragments until batches have varied.
FIXED_INSIDE, FIXED_OUTSIDE = 0.5, 0.8


class GivenCapacity:
    """Rows a second, regardless of their cost."""

    parts: dict[str, Learned] = {}  # noqa: RUF012 - nothing is learned
    alarms: tuple[str, ...] = ()

    def __init__(self, rows_per_s: float) -> None:
        self._rows_per_s = rows_per_s

    def cost(self, fragment: str) -> float:  # noqa: ARG002 - all rows are alike
        """A row is one unit of work."""
        return 1.0

    def per_s(self, elapsed_s: float) -> float:  # noqa: ARG002 - it is a rate
        """The rows."""
        return self._rows_per_s

    def tries(self, *, sheds: bool) -> bool:  # noqa: ARG002 - nothing is in doubt
        """Never: nothing is in doubt."""
        return False

    def learn(self, report: Report) -> None:
        """Nothing: the capacity is given."""


class LearnedCapacity:
    """Seconds of work in `busy_share` of the time."""

    def __init__(self, fragments: Iterable[str], busy_share: float) -> None:
        self._busy_share = busy_share
        self._times = {fragment: Capacity(FIXED_INSIDE) for fragment in fragments}
        self._outside = Capacity(FIXED_OUTSIDE)
        self._elapsed_s = self._took_s = 0.0  # of the last batch
        self._shed_for, self._try_after = 0, FIRST_TRY  # batches that shed, and after how many everything is kept

    @property
    def parts(self) -> dict[str, Learned]:
        """What is learned, by name."""
        return {"outside": self._outside, **{f"fragment {name}": one for name, one in self._times.items()}}

    @property
    def alarms(self) -> tuple[str, ...]:
        """An alarm if batches are too long even with shedding."""
        fixed_s, may_s = self._fixed_s, self._busy_share * self._elapsed_s
        if self._took_s <= may_s or fixed_s <= (1.0 - LEAST_SHARE) * may_s:
            return ()
        line = (
            f"batches take {self._took_s:.2f} s of {self._elapsed_s:.2f} s, at least {fixed_s:.2f} s of it without any "
            f"rows, so budget = {self._busy_share:.0%} is not held: give a longer interval, or fewer shuffle "
            "partitions"
        )
        return (line,)

    def cost(self, fragment: str) -> float:
        """Seconds of a row; 0 until they are known."""
        return self._times[fragment].unit_s + self._outside.unit_s if self._times[fragment].batches else 0.0

    def per_s(self, elapsed_s: float) -> float:
        """The time without overheads."""
        self._elapsed_s = elapsed_s
        return work_per_s(self._busy_share, self._fixed_s, self._busy_share * elapsed_s)

    @property
    def _fixed_s(self) -> float:
        """The time of a batch without rows."""
        return sum(one.overhead_s for one in self._times.values() if one.batches) + self._outside.overhead_s

    def tries(self, *, sheds: bool) -> bool:
        """Whether it has been in doubt for long enough."""
        if not sheds:
            self._shed_for, self._try_after = 0, FIRST_TRY
            return False
        self._shed_for += 1
        doubt_s = math.hypot(*(one.doubt_s for one in self._times.values() if one.batches))
        if doubt_s <= IN_DOUBT * self._elapsed_s or self._shed_for < self._try_after:
            return False
        self._shed_for, self._try_after = 0, 2 * self._try_after
        return True

    def learn(self, report: Report) -> None:
        """Learn from the time and rows of each fragment, which are boxes, and from the overhead of the batch."""
        for fragment, box in report.boxes.items():
            if box.rows_in:
                self._times[fragment].learn(box.rows_in, box.busy_s)
        self._took_s = sum(box.busy_s for box in report.boxes.values()) + report.overhead_s
        self._outside.learn(sum(box.rows_in for box in report.boxes.values()), report.overhead_s)


#: The work that fits a site.
SiteCapacity = GivenCapacity | LearnedCapacity
