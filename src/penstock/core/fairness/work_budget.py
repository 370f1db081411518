r"""How much work a second an application is given, so that rows of all its queries wait no longer than the target.

Nobody tells the capacity of an application. Its pace is the most work that was done a second recently, or the pace of
operators while they work if that is higher. With it, what is done a second by batches of the length $T$ says what the
overhead $o$ of a batch is, and that says what batches of the length $T^*$ get done, in which rows wait as long as they
should (`core.control.capacity`). Queries share task slots, so a line through batches would not tell pace and overhead
apart: the work of others is in the length of each.

The budget goes half way there, once a cycle. Where $T = T^*$ it stays, whatever is wrong with the pace. Where nearly
all of the pace is used, hardly any overhead shows, so while rows wait too long the budget is $W \sqrt{T^* / T}$ at
most, for work $W$ that is done. And plans may let through more work than they were given, because they choose the rows
that seem to cost least: what was done over what was planned, recently, is allowed for.

A batch that was too long lets too much wait for the next one, so until batches are short again less is kept: the share
$T^* / T$ of the budget. Without it a single long batch would be felt for many. But where the overhead alone takes
longer than the target, to shed more is to win little: half of the capacity is always given, which makes batches twice
as long as their overhead. While rows that came before still wait, for a few cycles, it may be half of that.

As long as no wait exceeds the target there is no budget, and it ends when it covers all that comes.

If no query can hold the target however much is shed, waits say nothing about the budget. There is none then, unless
more work comes than can be done.
"""

import math

from penstock.core.control.capacity import KEEP_UP, LEAST_SHARE, overhead_of, work_per_s
from penstock.core.control.memory import Learned
from penstock.core.control.targets import AIM
from penstock.core.settings import duration_s
from penstock.messages.codec import Count, Flag, Number

#: How far the budget goes at a time to where it should be.
GAIN = 0.5
#: The capacity that was seen is believed a little less every second: machines may get slower.
FORGET_PER_S = 0.003
#: While waits are short more is tried, up to this share of what is done: machines may get faster.
TRY_SHARE = 0.05
#: For a few cycles it may be this share of that, so that waiting rows are processed.
DRAIN_SHARE = 0.5
#: How fast it is learned by how much plans overshoot, and how far that may go.
OVER_GAIN, LEAST_OVER, MOST_OVER = 0.1, 0.5, 2.0
#: Half way at a time it never comes there quite.
NEARLY = 1.1
#: A slow start is over after so many cycles.
SOME_CYCLES = 4


class WorkBudget(Learned):
    """The work a second that fits.

    >>> budget = WorkBudget(target_s=2.0)
    >>> budget.follow(0.0, wait_s=1.0, cycle_s=1.0, done_per_s=1.2, comes_per_s=1.2, pace_per_s=1.8)
    >>> budget.per_s is None  # nobody waits too long
    True
    >>> budget.follow(1.0, wait_s=3.6, cycle_s=3.6, done_per_s=1.8, comes_per_s=3.0, pace_per_s=1.8)
    >>> round(budget.per_s, 3), round(budget.now_per_s, 3)  # twice the wait aimed at: half of the budget, for now
    (1.8, 0.9)
    >>> budget.follow(5.0, wait_s=0.9, cycle_s=0.9, done_per_s=1.2, comes_per_s=3.0, pace_per_s=1.8)
    >>> round(budget.per_s, 3)  # half the wait aimed at, 0.6 below capacity: 0.3 below will do, and half way there
    1.65
    """

    _capacity: Number
    seen_s: Number  #: when something was learned last
    _moved_s: Number
    _drain: Number
    _low: Count
    _over: Number  # what is done over what was planned
    per_s: Number | None
    in_vain: Flag  #: whether shedding has recently not made waits short enough
    by_length: Flag | None  #: whether work is told by the length of batches, or by operators

    def __init__(self, target_s: float, *, acts: bool = True) -> None:
        """Start without a budget; if it does not act, waits do not follow from it, nor it from waits."""
        self._aim_s = AIM * duration_s("target_s", target_s)
        self._acts = acts
        self._capacity = self.seen_s = self._moved_s = 0.0
        self._drain, self._low, self._over = 1.0, 0, 1.0
        self.per_s, self.in_vain, self.by_length = None, False, None

    @property
    def now_per_s(self) -> float | None:
        """What of the budget may be kept at the moment."""
        if self.per_s is None:
            return None
        least = LEAST_SHARE if self.at_least else LEAST_SHARE * DRAIN_SHARE
        return max(self.per_s * self._drain, least * self._capacity)

    @property
    def at_least(self) -> bool:
        """Whether it has been, for some cycles, down to what is always given however long rows wait."""
        return self.per_s is not None and self._low >= SOME_CYCLES

    def convert(self, rate: float | None) -> None:
        """From now on work is told in another unit, of which there are so many to one; None: nobody knows how many.

        >>> budget = WorkBudget(target_s=2.0)
        >>> budget.follow(1.0, wait_s=3.6, cycle_s=1.8, done_per_s=1.8, comes_per_s=3.0, pace_per_s=1.8)
        >>> budget.convert(0.5)
        >>> round(budget.per_s, 3)
        0.9
        """
        if rate is None:
            self._capacity, self._drain, self.per_s = 0.0, 1.0, None
            return
        self._capacity *= rate
        self.per_s = None if self.per_s is None else self.per_s * rate

    def follow(
        self,
        now_s: float,
        *,
        wait_s: float,
        cycle_s: float,
        done_per_s: float,
        comes_per_s: float,
        pace_per_s: float,
        queries: int = 1,
        in_vain: bool = False,
    ) -> None:
        """Process how it goes.

        Args:
            now_s: The time.
            wait_s: The longest recent wait of any query.
            cycle_s: The longest time from batch to batch.
            done_per_s: Work that was done a second.
            comes_per_s: Work that came a second.
            pace_per_s: Work that operators got done a second while they worked.
            queries: How many share the slots; 1 if their paces tell already what others leave them.
            in_vain: Whether shedding makes no wait short enough.
        """
        remembered = self._capacity * (1.0 - FORGET_PER_S) ** max(now_s - self.seen_s, 0.0)
        self._capacity, self.seen_s = max(remembered, done_per_s, pace_per_s), now_s
        self.in_vain = in_vain
        if in_vain:
            most_per_s = KEEP_UP * self._capacity
            self.per_s, self._drain, self._low = most_per_s if comes_per_s > most_per_s else None, 1.0, 0
            return
        if self.per_s is None:
            if wait_s * AIM <= self._aim_s or done_per_s <= 0.0:
                return
            self.per_s, self._moved_s = max(done_per_s, LEAST_SHARE * self._capacity), now_s
        if not self._acts:
            self.per_s = self._capacity if wait_s * AIM > self._aim_s else None
            return
        self._drain = min(self._aim_s / max(cycle_s, 1e-9), 1.0)
        if now_s - self._moved_s >= cycle_s:
            ratio = wait_s / self._aim_s
            overhead_s = overhead_of(self._capacity, done_per_s, wait_s, queries)
            wanted = work_per_s(self._capacity, overhead_s, self._aim_s, queries)
            if ratio > 1.0:
                wanted = max(min(wanted, done_per_s / math.sqrt(ratio)), LEAST_SHARE * self._capacity)
            else:
                wanted = max(wanted, done_per_s * (1.0 + TRY_SHARE * (1.0 - ratio)))
            planned = self.now_per_s or done_per_s
            if planned > 0.0:
                self._over += OVER_GAIN * (min(max(done_per_s / planned, LEAST_OVER), MOST_OVER) - self._over)
            wanted /= max(self._over, 1.0)
            self.per_s, self._moved_s = self.per_s + GAIN * (wanted - self.per_s), now_s
            self._low = self._low + 1 if self.per_s <= NEARLY * LEAST_SHARE * self._capacity else 0
        if self.per_s >= comes_per_s and wait_s <= self._aim_s:
            self.per_s, self._drain = None, 1.0
