r"""The pace of an instance: the factor by which rows cost more, or less, there than elsewhere.

The ratio of what rows did cost to what they were expected to is noisy, and a false difference between equal instances
does harm for as long as reports are on their way. So only what lies beyond `STANDARD_ERRORS` standard errors counts:

$$q = \frac{\sum w}{\sum \hat w}, \qquad e = \frac{\sqrt{\sum (w - q\,\hat w)^2}}{\sum \hat w}, \qquad
\text{pace} = 1 + \operatorname{sign}(q-1)\,\max(|q-1| - 3e,\ 0)$$

All sums forget: each row weighs `MEMORY` times as much as the one after it.
"""

import math

#: Weight of a row against the next one: about the last thousand rows count.
MEMORY = 0.999
#: A difference smaller than so many standard errors is taken for noise.
STANDARD_ERRORS = 3.0
#: No instance is taken to be slower, or faster, than the others by more than this factor.
WIDEST = 1000.0


class Pace:
    """How much slower than the estimates an instance is.

    >>> pace = Pace()
    >>> for _ in range(100):
    ...     pace.learn(expected_s=2.0, cost_s=3.0)
    >>> round(pace.factor, 2)
    1.49
    """

    __slots__ = ("_cost_s", "_expected_s", "_squares", "factor")

    def __init__(self) -> None:
        """As fast as the others until shown otherwise."""
        self.factor = 1.0
        self._expected_s = 0.0
        self._cost_s = 0.0
        self._squares = 0.0

    def learn(self, expected_s: float, cost_s: float) -> None:
        """A row expected to cost `expected_s` at an average instance cost `cost_s` here."""
        error = cost_s - self._ratio() * expected_s
        self._squares = self._squares * MEMORY + error * error
        self._expected_s = self._expected_s * MEMORY + expected_s
        self._cost_s = self._cost_s * MEMORY + cost_s
        if self._expected_s > 0.0:
            beyond = self._ratio() - 1.0
            noise = STANDARD_ERRORS * math.sqrt(self._squares) / self._expected_s
            self.factor = 1.0 + math.copysign(max(abs(beyond) - noise, 0.0), beyond)

    def _ratio(self) -> float:
        if self._expected_s <= 0.0:
            return 1.0
        return min(max(self._cost_s / self._expected_s, 1.0 / WIDEST), WIDEST)
