r"""When a node is overloaded and how many tuples it can take: the overload detector and its cost model.

The cost model averages what a tuple takes over the calls so far (THEMIS, section 6; an exponential moving average is
our reading of "moving average"). In a call that processed $n$ tuples in $b$ busy seconds,

$$\hat w \leftarrow \hat w + \alpha \left(\tfrac{b}{n} - \hat w\right), \qquad c = \frac{\text{interval}}{\hat w}$$

and $c$ is the threshold of the input buffer: with more than $c$ tuples in it, the excess is shed.
"""

from penstock.core.settings import duration_s, number, whole_number

#: Weight of the newest call: the average is over about the last five.
ALPHA = 0.2


class TupleCost:
    """A moving average of the time a tuple takes, learned from busy time and tuples processed.

    Calls that processed nothing teach nothing. The first one is taken as it is.

    >>> cost = TupleCost(alpha=0.5)
    >>> cost.learn(tuples=100, busy_s=0.2)
    >>> cost.learn(tuples=100, busy_s=0.4)
    >>> cost.mean_s
    0.003
    """

    def __init__(self, alpha: float = ALPHA) -> None:
        """Start knowing nothing: `mean_s` is None."""
        self._alpha = number("alpha", alpha, 1e-6, 1.0)
        self.mean_s: float | None = None

    def learn(self, tuples: int, busy_s: float) -> None:
        """Take in the tuples processed since the last call, and the time they kept the node busy."""
        if tuples <= 0 or busy_s <= 0.0:
            return
        taken_s = busy_s / tuples
        self.mean_s = taken_s if self.mean_s is None else self.mean_s + self._alpha * (taken_s - self.mean_s)

    def capacity(self, interval_s: float) -> int | None:
        """Tuples that can be processed in an interval, at least one; None as long as nothing was measured.

        A node that keeps nothing measures nothing: after one call as slow as a first one often is, it would never keep
        anything again.

        >>> cost = TupleCost()
        >>> cost.capacity(0.25)
        >>> cost.learn(tuples=100, busy_s=0.2)
        >>> cost.capacity(0.25)
        125
        """
        return None if self.mean_s is None else max(int(duration_s("interval_s", interval_s) / self.mean_s), 1)


class OverloadDetector:
    """Says how many of the tuples in an input buffer are too many.

    As long as the cost of a tuple is unknown, none is: without knowledge tuples flow.

    >>> detector = OverloadDetector(interval_s=0.25)
    >>> detector.excess(buffered=1000)
    0
    >>> detector.learn(tuples=100, busy_s=0.2)
    >>> detector.threshold, detector.excess(buffered=1000), detector.excess(buffered=100)
    (125, 875, 0)
    """

    def __init__(self, interval_s: float, alpha: float = ALPHA) -> None:
        """For a shedder that is called every `interval_s`."""
        self._interval_s = duration_s("interval_s", interval_s)
        self.cost = TupleCost(alpha)

    def learn(self, tuples: int, busy_s: float) -> None:
        """Take in what was processed since the last call."""
        self.cost.learn(tuples, busy_s)

    @property
    def threshold(self) -> int | None:
        """Tuples of the input buffer that can be processed until the next call (the paper's c)."""
        return self.cost.capacity(self._interval_s)

    def excess(self, buffered: int) -> int:
        """Tuples beyond the threshold."""
        threshold = self.threshold
        return 0 if threshold is None else max(whole_number("buffered", buffered, 0) - threshold, 0)
