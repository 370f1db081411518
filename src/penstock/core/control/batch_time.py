r"""What a batch takes, as a fixed part and a part for each row: only the second becomes shorter when rows are shed.

A batch of $n$ rows takes $T = f + r\,n$. Both numbers change slowly and are seen together only, through noise. A Kalman
filter follows them: each batch moves $f$ and $r\,n$ in proportion to how little is known of each, and what is known
fades from batch to batch. So where rows hardly vary, $T$ is followed and its division stays as it was; where they vary,
the division is learned too. `doubt_s` is the standard error of $f$.

- The first batch of a run is like no other: it starts machines. All of it counts as fixed until the next one ends, and
  nothing of it after that.
- The second says nothing of the division, so a share of it counts as fixed, in doubt from none to all of it. If it
  took longer than the first and `bounded` is set, no more is fixed than the first took in all.
- One batch that takes far longer than expected is believed in part. A second one in a row shows another level, and then
  both numbers are in doubt again.
- Neither number is below 0, and no more is fixed than the longest batch took.
"""

import math

import numpy as np

#: By how much of a batch's time both parts may change from one batch to the next.
CHANGE = 0.05
#: A part that is small now may grow: its change is at least this share of `CHANGE`.
LEAST_CHANGE = 0.2
#: Noise of a batch's time as a share of it: at first, and from which to which it is learned, how fast.
NOISE, LEAST_NOISE, MOST_NOISE, NOISE_GAIN = 0.25, 0.05, 0.5, 0.2
#: So many times as long as the first is longer.
LONGER = 2.2
#: A batch that is off by more standard errors than this is believed in part.
MOST_ERRORS = 3.0


class BatchTime:
    """The two parts of a batch's time, learned batch by batch.

    >>> time = BatchTime()
    >>> time.learn(500, 9.0)  # a cold start
    >>> for rows in (900, 40, 450, 20, 300, 60, 700, 30, 500, 100):
    ...     time.learn(rows, 0.4 + 0.005 * rows)
    >>> round(time.fixed_s, 1), round(time.row_s, 3)
    (0.4, 0.005)
    """

    def __init__(self, fixed_share: float = 0.5, *, bounded: bool = True) -> None:
        """Start knowing nothing; `fixed_share` of a batch counts as fixed as long as there is no more to go by."""
        self._fixed_share, self._bounded = fixed_share, bounded
        self.batches = 0  #: learned from
        self._first_s = math.inf  # what the first batch took
        self._longest_s = 0.0  # what the longest took
        self._state = np.zeros(2)  # fixed part, and time of a row
        self._spread = np.zeros((2, 2))  # covariance of both
        self._rows = 0.0  # of the last batch
        self._noise = NOISE
        self._far = 0.0  # sign of the last batch's error, if it was far off

    @property
    def fixed_s(self) -> float:
        """What a batch takes however few rows it has."""
        return float(self._state[0])

    @property
    def row_s(self) -> float:
        """What each row adds."""
        return float(self._state[1])

    @property
    def doubt_s(self) -> float:
        """Standard error of the fixed part."""
        return math.sqrt(max(float(self._spread[0, 0]), 0.0))

    def expected_s(self, rows: float) -> float:
        """What a batch of so many rows takes."""
        return self.fixed_s + self.row_s * rows

    def learn(self, rows: float, took_s: float) -> None:
        """Take in a batch."""
        self.batches += 1
        self._rows, self._longest_s = rows, max(self._longest_s, took_s)
        if self.batches == 1:
            self._first_s = took_s
            self._state[:] = took_s, 0.0
            self._spread[0, 0] = took_s**2
        elif self.batches == 2:  # noqa: PLR2004 - the second
            self._begin(rows, took_s)
        else:
            self._follow(rows, took_s)

    def doubt(self) -> None:
        """Forget how the time of the last batch divides into the two."""
        took_s = self.expected_s(self._rows)
        self._spread = self._prior(self._rows, took_s, took_s)

    def _begin(self, rows: float, took_s: float) -> None:
        bounded = rows and self._bounded and took_s > LONGER * self._first_s
        most_s = self._first_s if bounded else took_s
        fixed_s = self._fixed_share * most_s if rows else took_s
        self._state = np.array([fixed_s, (took_s - fixed_s) / max(rows, 1.0)])
        self._spread = self._prior(rows, took_s, most_s)

    def _prior(self, rows: float, took_s: float, most_s: float) -> np.ndarray:
        """What is known of the division by one batch alone: nothing, between none and `most_s` of it."""
        per_row = 1.0 / max(rows, 1.0)
        apart, noise = most_s * np.array([1.0, -per_row]), self._noise * np.array([most_s, took_s * per_row])
        found: np.ndarray = (np.outer(apart, apart) + np.outer(noise, noise)) / 4.0
        return found

    def _follow(self, rows: float, took_s: float) -> None:
        seen = np.array([1.0, rows])
        expected_s = max(float(seen @ self._state), 1e-9)
        self._fade(rows, expected_s)
        own = (self._noise * expected_s) ** 2
        error_s = took_s - expected_s
        deviation_s = math.sqrt(max(float(seen @ self._spread @ seen), 0.0) + own)
        far = math.copysign(1.0, error_s) if abs(error_s) > MOST_ERRORS * deviation_s else 0.0
        if far and far == self._far:  # another level
            self._spread = self._prior(rows, took_s, took_s)
            deviation_s = math.sqrt(max(float(seen @ self._spread @ seen), 0.0) + own)
        self._far = far
        error_s = max(min(error_s, MOST_ERRORS * deviation_s), -MOST_ERRORS * deviation_s)
        gain = self._spread @ seen / deviation_s**2
        self._spread = self._spread - np.outer(gain, seen @ self._spread)
        self._state = _possible(self._state + gain * error_s, rows, self._longest_s)
        # What the error was before and what of it is left multiply, on average, to the variance of noise.
        left = max(1.0 - float(seen @ gain), 0.0)
        variance = self._noise**2 + NOISE_GAIN * (left * min(error_s / expected_s, 1.0) ** 2 - self._noise**2)
        self._noise = min(max(math.sqrt(variance), LEAST_NOISE), MOST_NOISE)

    def _fade(self, rows: float, expected_s: float) -> None:
        """Believe the past less, but not less than if nothing but one batch were known."""
        parts_s = np.maximum(self._state * [1.0, rows], LEAST_CHANGE * expected_s)
        change = CHANGE * parts_s / [1.0, max(rows, 1.0)]
        self._spread = self._spread + np.diag(change**2)
        most = np.array([expected_s, expected_s / max(rows, 1.0)]) / 2.0
        over = np.maximum(np.sqrt(np.diag(self._spread)) / np.maximum(most, 1e-12), 1.0)
        self._spread = self._spread / np.outer(over, over)


def _possible(state: np.ndarray, rows: float, most_s: float) -> np.ndarray:
    """The nearest division that has no part below 0, no more fixed than `most_s`, and the same length for so many rows.

    >>> _possible(np.array([3.0, -0.01]), 100, 9.0)
    array([2., 0.])
    """
    length_s = max(float(state @ [1.0, rows]), 0.0)
    fixed_s = min(max(float(state[0]), 0.0), length_s, most_s)
    return np.array([fixed_s, (length_s - fixed_s) / rows if rows else max(float(state[1]), 0.0)])
