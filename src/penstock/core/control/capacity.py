r"""Capacity: how much work fits a batch; one model for guard, fair queries, networks and sites.

A batch with work $W$ takes $T = o + W / p$: an overhead $o$, which shedding does not shorten, and a pace $p$. Work is
in any unit: rows, or seconds of a task. Batches of length $T$ therefore complete

$$p \left(1 - \frac{o}{T}\right)$$

a second. Plans use at least half of the pace, even with a long overhead: batches then take twice their overhead, and
shedding more would gain little.

Queries that share task slots of pace $p$ neither have it alone nor use it all the time. Of $n$ equal queries, each
works for the share $\varphi = 1 - o/T$ of its time, $1 + (n-1)\varphi$ of them work while one does, and together they
complete

$$p\, \frac{n \varphi}{1 + (n - 1) \varphi}$$

a second. For $n = 1$ this is the equation above.

Both numbers change slowly and are only observed together, with noise. A Kalman filter tracks them: each batch moves $o$
and $W / p$ in proportion to the uncertainty of each, and uncertainty grows from batch to batch. If work hardly varies,
only $T$ is tracked and its division is unchanged; if it varies, the division is learned too. `doubt_s` is
the standard error of $o$.

- The first batch of a run includes the start of processes. All of it counts as overhead until the next one ends, and
  none of it afterwards, unless there is a first guess of the pace.
- The second gives no division, so a share of it counts as overhead, with an uncertainty from none to all of it. If it
  took longer than the first and `bounded` is set, the length of the first bounds the overhead. If the time of a batch
  without work is known, it is the minimum overhead, then and later.
- One batch that takes far longer than expected counts in part. A second one in a row indicates another level, and then
  both numbers are uncertain again.
- Neither number is below 0, and the length of the longest batch bounds the overhead.
"""

import math

import numpy as np

from penstock.core.control.memory import Floats, Learned
from penstock.messages.codec import Count, Flag, Number

#: At least this share of a batch is planned for work, if necessary by longer batches.
LEAST_SHARE = 0.5
#: If a target is out of reach even with shedding, this share of the time is for work: with more, batches would take
#: ever longer.
KEEP_UP = 0.8
#: By how much of a batch's time both parts may change from one batch to the next.
CHANGE = 0.05
#: A part that is small now may grow: its change is at least this share of `CHANGE`.
LEAST_CHANGE = 0.2
#: Noise of a batch's time as a share of it: at first, at first if work is in seconds, the range in which it is learned,
#: and how fast.
NOISE, NOISE_OF_SECONDS, LEAST_NOISE, MOST_NOISE, NOISE_GAIN = 0.25, 0.08, 0.05, 0.5, 0.2
#: This factor over the length of the first batch counts as longer.
LONGER = 2.2
#: A batch with an error of more standard errors than this counts in part.
MOST_ERRORS = 3.0
#: The maximum share of overhead in a batch with work, even if one without work took longer.
MOST_OVERHEAD = 0.9


class Capacity(Learned):
    """Overhead and pace, learned batch by batch.

    >>> capacity = Capacity()
    >>> capacity.learn(500, 9.0)  # a cold start
    >>> for rows in (900, 40, 450, 20, 300, 60, 700, 30, 500, 100):
    ...     capacity.learn(rows, 0.4 + 0.005 * rows)
    >>> round(capacity.overhead_s, 1), round(capacity.unit_s, 3)
    (0.4, 0.005)
    >>> round(capacity.per_s(2.0), -1)  # about 200 rows a second, less a fifth of the time
    150.0
    """

    _overhead_share: Number
    _bounded: Flag
    batches: Count  #: learned from
    _empty_s: Number  # time of a batch without work
    _first_s: Number  # time of the first batch
    _longest_s: Number  # time of the longest batch
    _state: Floats  # overhead, and time of a unit of work
    _spread: Floats  # covariance of both
    _work: Number  # of the last batch
    _noise: Number
    _far: Number  # sign of the last batch's error, if it was far off

    def __init__(self, overhead_share: float = 0.5, *, bounded: bool = True, unit_s: float | None = None) -> None:
        """Start without knowledge.

        Args:
            overhead_share: The share of a batch that counts as overhead until more is known.
            bounded: Whether the length of the first batch bounds the overhead.
            unit_s: A first guess of the time per second of work; the first batch then counts as any other. None: work
                is in rows.
        """
        self._overhead_share, self._bounded = overhead_share, bounded
        self.batches = int(unit_s is not None)
        self._empty_s, self._first_s, self._longest_s = 0.0, math.inf, 0.0
        self._state, self._spread = np.array([0.0, unit_s or 0.0]), np.zeros((2, 2))
        self._work, self._noise, self._far = 0.0, NOISE if unit_s is None else NOISE_OF_SECONDS, 0.0

    @property
    def overhead_s(self) -> float:
        """The time of a batch without work."""
        return float(self._state[0])

    @property
    def unit_s(self) -> float:
        """The time per unit of work."""
        return float(self._state[1])

    @property
    def doubt_s(self) -> float:
        """Standard error of the overhead."""
        return math.sqrt(max(float(self._spread[0, 0]), 0.0))

    @property
    def least_unit_s(self) -> float:
        """The time per unit of work, less two standard errors."""
        return max(self.unit_s - 2.0 * math.sqrt(max(float(self._spread[1, 1]), 0.0)), 0.0)

    def expected_s(self, work: float) -> float:
        """The expected time of a batch with this work."""
        return self.overhead_s + self.unit_s * work

    def length_s(self, trigger_s: float) -> float:
        """The interval between batches: that of the trigger, or longer if overhead leaves too little time for work."""
        return max(trigger_s, self.overhead_s / (1.0 - LEAST_SHARE))

    def per_s(self, length_s: float) -> float:
        """Work a second that batches of this length complete, with at least half of the time for work."""
        return work_per_s(1.0 / self.unit_s, self.overhead_s, length_s) if self.unit_s else math.inf

    def calibrate(self, empty_s: float) -> None:
        """Set the time of a batch without work."""
        self._empty_s = empty_s

    def learn(self, work: float, took_s: float) -> None:
        """Learn from a batch."""
        self.batches += 1
        self._work, self._longest_s = work, max(self._longest_s, took_s)
        if self.batches == 1:
            self._first_s = took_s
            self._state[:] = took_s, 0.0
            self._spread[0, 0] = took_s**2
        elif self.batches == 2:  # noqa: PLR2004 - the second
            self._begin(work, took_s)
        else:
            self._follow(work, took_s)

    def doubt(self) -> None:
        """Forget the division of the last batch's time."""
        took_s = self.expected_s(self._work)
        self._spread = self._prior(self._work, took_s, took_s)

    def _begin(self, work: float, took_s: float) -> None:
        bounded = work and self._bounded and took_s > LONGER * self._first_s
        most_s = self._first_s if bounded else took_s
        overhead_s = self._overhead_share * most_s if work else took_s
        if work and self._empty_s:
            overhead_s = min(self._empty_s, MOST_OVERHEAD * took_s)
        self._state = np.array([overhead_s, (took_s - overhead_s) / (work or 1.0)])
        self._spread = self._prior(work, took_s, most_s)

    def _prior(self, work: float, took_s: float, most_s: float) -> np.ndarray:
        """The uncertainty of the division after one batch: overhead between 0 and `most_s`."""
        unit = 1.0 / (work or 1.0)
        apart, noise = most_s * np.array([1.0, -unit]), self._noise * np.array([most_s, took_s * unit])
        found: np.ndarray = (np.outer(apart, apart) + np.outer(noise, noise)) / 4.0
        return found

    def _follow(self, work: float, took_s: float) -> None:
        seen = np.array([1.0, work])
        expected_s = max(float(seen @ self._state), 1e-9)
        self._fade(work, expected_s)
        own = (self._noise * expected_s) ** 2
        error_s = took_s - expected_s
        deviation_s = math.sqrt(max(float(seen @ self._spread @ seen), 0.0) + own)
        far = math.copysign(1.0, error_s) if abs(error_s) > MOST_ERRORS * deviation_s else 0.0
        if far and far == self._far:  # another level
            self._spread = self._prior(work, took_s, took_s)
            deviation_s = math.sqrt(max(float(seen @ self._spread @ seen), 0.0) + own)
        self._far = far
        error_s = max(min(error_s, MOST_ERRORS * deviation_s), -MOST_ERRORS * deviation_s)
        gain = self._spread @ seen / deviation_s**2
        self._spread = self._spread - np.outer(gain, seen @ self._spread)
        self._state = _possible(self._state + gain * error_s, work, self._empty_s, self._longest_s)
        # The product of the errors before and after the update is, on average, the variance of noise.
        left = max(1.0 - float(seen @ gain), 0.0)
        variance = self._noise**2 + NOISE_GAIN * (left * min(error_s / expected_s, 1.0) ** 2 - self._noise**2)
        self._noise = min(max(math.sqrt(variance), LEAST_NOISE), MOST_NOISE)

    def _fade(self, work: float, expected_s: float) -> None:
        """Increase the uncertainty, up to that after a single batch."""
        parts_s = np.maximum(self._state * [1.0, work], LEAST_CHANGE * expected_s)
        change = CHANGE * parts_s / [1.0, work or 1.0]
        self._spread = self._spread + np.diag(change**2)
        most = np.array([expected_s, expected_s / (work or 1.0)]) / 2.0
        over = np.maximum(np.sqrt(np.diag(self._spread)) / np.maximum(most, 1e-12), 1.0)
        self._spread = self._spread / np.outer(over, over)


def work_per_s(pace: float, overhead_s: float, length_s: float, queries: int = 1) -> float:
    """Work a second that batches of this length complete, for queries that share task slots of this pace.

    At least half of the pace is used.

    >>> work_per_s(2.0, 0.5, 2.0), work_per_s(2.0, 3.0, 2.0)
    (1.5, 1.0)
    >>> round(work_per_s(2.0, 0.5, 2.0, queries=4), 3)  # others work while one does not
    1.846
    """
    share = max(1.0 - overhead_s / length_s, 0.0)
    return pace * max(queries * share / (1.0 + (queries - 1) * share), LEAST_SHARE)


def overhead_of(pace: float, per_s: float, length_s: float, queries: int = 1) -> float:
    """The overhead with which batches of this length complete this work a second.

    >>> overhead_of(2.0, 1.5, 2.0), round(overhead_of(2.0, 1.846, 2.0, queries=4), 3)
    (0.5, 0.5)
    """
    used = min(per_s / pace, 1.0)
    return length_s * (1.0 - used / (queries - (queries - 1) * used))


def _possible(state: np.ndarray, work: float, least_s: float, most_s: float) -> np.ndarray:
    """The nearest division with overhead in these bounds, no part below 0, and the same length for this work.

    >>> _possible(np.array([3.0, -0.01]), 100, 0.0, 9.0)
    array([2., 0.])
    """
    length_s = max(float(state @ [1.0, work]), 0.0)
    least_s = min(least_s, MOST_OVERHEAD * length_s)
    overhead_s = min(max(float(state[0]), least_s), length_s, most_s)
    return np.array([overhead_s, (length_s - overhead_s) / work if work else max(float(state[1]), 0.0)])
