r"""Cores wanted: the cores that would hold the target with nothing shed, for those who add and remove them.

$\lambda$ rows arrive a second, and each is $w$ seconds of work of the measured operator. A core does $e$ seconds of it
a second. The target allows a work span $S$ in batches of length $C$ (`core.control.targets`), of which each row takes
$u$ outside the operator. So $c$ cores are enough if

$$\lambda C \left(\frac{w}{e c} + u\right) \le S, \qquad c = \frac{\lambda C w}{e\,(S - \lambda C u)}$$

With a deadline, $\lambda C$ are the rows of the next batch. Time outside the operator may be that of a sink, so no core
shortens it. If it alone exceeds $S$, cores do not help.

New cores take minutes to start, and cost money. So the number follows an overload quickly and a lull slowly, as the
autoscaler of Kubernetes does. It rises if `UP_BATCHES` batches in a row need more. It falls to the highest number
of the last `DOWN_S` seconds.
"""

import math
from collections import deque

from penstock.core.control.forecast import Knowledge

#: Batches in a row that must need more cores: one may be a burst.
UP_BATCHES = 2
#: The time after which the number falls, in seconds. A removed core that is missed soon after is started again.
DOWN_S = 300.0


class CoresWanted:
    """The number of cores wanted, batch by batch.

    >>> wanted = CoresWanted()
    >>> for now_s, needed in ((0.0, 2.5), (1.0, 2.5), (2.0, 7.2), (3.0, 2.5), (4.0, 6.5), (5.0, 6.2), (6.0, 1.0)):
    ...     wanted.learn(needed, now_s)
    >>> wanted.cores
    7
    >>> wanted.learn(1.0, 5.0 + DOWN_S)
    >>> wanted.cores
    7
    >>> wanted.learn(1.0, 5.1 + DOWN_S)
    >>> wanted.cores
    1
    """

    def __init__(self) -> None:
        self._needed = deque[float](maxlen=UP_BATCHES)
        self._highest = deque[tuple[float, int]]()  # times and numbers; each number is lower than the one before

    def learn(self, needed: float | None, now_s: float) -> None:
        """Process what one batch needs; None if that is unknown, or if cores do not help."""
        if needed is None:
            self._needed.clear()
            self._highest.clear()
            return
        self._needed.append(needed)
        if len(self._needed) < UP_BATCHES:
            return
        cores = max(math.ceil(min(self._needed)), 1)
        while self._highest and self._highest[-1][1] <= cores:
            self._highest.pop()
        self._highest.append((now_s, cores))
        while self._highest[0][0] < now_s - DOWN_S:
            self._highest.popleft()

    @property
    def cores(self) -> int | None:
        """The number; None if it is unknown."""
        return self._highest[0][1] if self._highest else None


def cores_needed(known: Knowledge, row_work_s: float) -> float | None:
    """The cores that would hold the target, if a row is this much work of the operator; None if unknown."""
    last, rows_per_s = known.history.last, known.history.rows_per_s
    # Until then the part of a batch that no core shortens is too uncertain.
    if last is None or not known.measured or not known.settled or not rows_per_s:
        return None
    # More cores also end the wait of rows that a limited source holds back.
    steady = known.steady._replace(lag_s=known.history.lateness_s)
    span_s = known.span_s(steady)
    rows = rows_per_s * max(steady.overhead_s + span_s, steady.cycle_s)
    if known.by_deadline:
        rows = float(known.next_rows().sum())
    # Many more rows arrive than are kept, so errors of the time that each takes outside the operator would multiply.
    left_s = span_s - rows * known.least_outside_s
    if not 0.0 < left_s < math.inf:
        return None
    return rows * row_work_s * last.slots / (known.capacity * left_s)
