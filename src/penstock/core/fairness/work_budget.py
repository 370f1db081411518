r"""The work a second of an application with which the waits of all its queries meet the target.

The capacity of an application is unknown. Its pace is the recent maximum of work done a second, or the pace of
operators while they work if that is higher. The work that batches of length $T$ complete a second then gives the
overhead $o$ of a batch. The overhead gives the work of batches of length $T^*$, in which waits equal the target
(`core.control.capacity`). Queries share task slots, so a line through batches cannot separate pace and overhead: the
length of each batch includes the work of others.

The budget moves half of the way, once a cycle. At $T = T^*$ it stays, even with a wrong pace. If nearly all of the pace
is used, hardly any overhead shows. So while rows wait too long the budget is at most $W \sqrt{T^* / T}$, for the work
$W$ done. Plans may keep more work than the budget, because they select the rows that seem cheapest. The recent ratio of
done to planned work corrects for it.

After a batch that was too long, too many rows wait for the next one. So until batches are short again less is kept: the
share $T^* / T$ of the budget. Otherwise a single long batch would affect many. But if the overhead alone takes longer
than the target, more shedding gains little. Half of the capacity is always used, which makes batches twice as long as
their overhead. While earlier rows still wait, for a few cycles, it may be half of that.

While no wait exceeds the target there is no budget, and it ends when it covers all incoming work.

If no query can hold the target even with shedding, waits do not determine the budget. There is none then, unless more
work comes than capacity.
"""

import math

from penstock.core.control.capacity import KEEP_UP, LEAST_SHARE, overhead_of, work_per_s
from penstock.core.control.memory import Learned
from penstock.core.control.targets import AIM
from penstock.core.settings import duration_s
from penstock.messages.codec import Count, Flag, Number

#: The step of the budget towards its goal.
GAIN = 0.5
#: The decay of the observed capacity per second, because machines may get slower: usually, and while rows wait too long
#: despite shedding.
FORGET_PER_S, FORGET_MISSED_PER_S = 0.003, 0.015
#: While waits are short more is tried, up to this share of the work done, because machines may get faster.
TRY_SHARE = 0.05
#: For a few cycles it may be this share of that, so that waiting rows are processed.
DRAIN_SHARE = 0.5
#: The learning rate of the overshoot of plans, its limits, and the least that counts while waits are short.
OVER_GAIN, LEAST_OVER, MOST_OVER, LEAST_USED = 0.1, 0.5, 2.0, 0.95
#: The tolerance of the goal, because steps of half the way never reach it.
NEARLY = 1.1
#: A slow start is over after this many cycles.
SOME_CYCLES = 4


class WorkBudget(Learned):
    """The work a second that fits.

    >>> budget = WorkBudget(target_s=2.0)
    >>> budget.follow(0.0, wait_s=1.0, cycle_s=1.0, done_per_s=1.2, comes_per_s=1.2, pace_per_s=1.8)
    >>> budget.per_s is None  # no wait is too long
    True
    >>> budget.follow(1.0, wait_s=3.6, cycle_s=3.6, done_per_s=1.8, comes_per_s=3.0, pace_per_s=1.8)
    >>> round(budget.per_s, 3), round(budget.now_per_s, 3)  # twice the wait aimed at: half of the budget, for now
    (1.8, 0.9)
    >>> budget.follow(5.0, wait_s=0.9, cycle_s=0.9, done_per_s=1.2, comes_per_s=3.0, pace_per_s=1.8)
    >>> round(budget.per_s, 3)  # half the wait aimed at, 0.6 below capacity, less done than planned: 0.25 below will do
    1.676
    """

    _capacity: Number
    seen_s: Number  #: when something was learned last
    _moved_s: Number
    _drain: Number
    _low: Count
    _over: Number  # what is done over what was planned
    per_s: Number | None
    in_vain: Flag  #: whether shedding has recently not shortened waits enough
    by_length: Flag | None  #: whether work is measured by the length of batches, or by operators

    def __init__(self, target_s: float, *, acts: bool = True) -> None:
        """Start without a budget; if it does not act, budget and waits do not depend on each other."""
        self._aim_s = AIM * duration_s("target_s", target_s)
        self._acts = acts
        self._capacity = self.seen_s = self._moved_s = 0.0
        self._drain, self._low, self._over = 1.0, 0, 1.0
        self.per_s, self.in_vain, self.by_length = None, False, None

    @property
    def now_per_s(self) -> float | None:
        """The part of the budget that may be used now."""
        if self.per_s is None:
            return None
        least = LEAST_SHARE if self.at_least else LEAST_SHARE * DRAIN_SHARE
        return max(self.per_s * self._drain, least * self._capacity)

    @property
    def at_least(self) -> bool:
        """Whether it has been at its minimum for some cycles."""
        return self.per_s is not None and self._low >= SOME_CYCLES

    def convert(self, rate: float | None) -> None:
        """Convert to another unit of work by this factor; None: the factor is unknown.

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
        """Process measurements.

        Args:
            now_s: The time.
            wait_s: The longest recent wait of any query.
            cycle_s: The longest time from batch to batch.
            done_per_s: Work that was done a second.
            comes_per_s: Work that came a second.
            pace_per_s: Work that operators completed a second while they worked.
            queries: The number that share the slots; 1 if their paces already include the work of others.
            in_vain: Whether shedding shortens no wait enough.
        """
        missed = self.per_s is not None and wait_s * AIM > self._aim_s
        forget = FORGET_MISSED_PER_S if missed else FORGET_PER_S
        remembered = self._capacity * (1.0 - forget) ** max(now_s - self.seen_s, 0.0)
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
            wanted /= max(self._over, LEAST_USED if ratio < 1.0 else 1.0)
            self.per_s, self._moved_s = self.per_s + GAIN * (wanted - self.per_s), now_s
            self._low = self._low + 1 if self.per_s <= NEARLY * LEAST_SHARE * self._capacity else 0
        if self.per_s >= comes_per_s and wait_s <= self._aim_s:
            self.per_s, self._drain = None, 1.0
