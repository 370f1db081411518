r"""CHECK: would admitting a row with queuing latency q violate the latency goal?

The paper makes this check exchangeable (LAS, section 3.2). A check sees only queuing latencies: `refuses(q)` asks,
`record(q)` records an admitted row.
"""

from array import array
from typing import Protocol

from penstock.core.settings import duration_s, whole_number


class Check(Protocol):
    """A goal on queuing latencies."""

    @property
    def reason(self) -> str:
        """Why a row refused by this check was dropped."""

    def refuses(self, queuing_s: float) -> bool:
        """Whether a row that would wait this long must be dropped."""

    def record(self, queuing_s: float) -> None:
        """Count an admitted row."""


class RunningAverage:
    r"""The paper's goal: the average over all admitted rows stays at or below the target.

    A row is refused when $(Q + q) / (\ell + 1) > \tau$, with Q the sum of the latencies of the $\ell$ rows admitted
    before it. The printed listing tests Q / l before adding, which never leaves the dropping state; this code follows
    the text.

    >>> check = RunningAverage(target_s=2.0)
    >>> check.refuses(3.0)
    True
    >>> check.record(1.0)
    >>> check.refuses(3.0)
    False
    """

    reason = "average queuing latency over target"

    def __init__(self, target_s: float) -> None:
        self.target_s = duration_s("target_s", target_s)
        self._total_s = 0.0
        self._rows = 0

    def refuses(self, queuing_s: float) -> bool:
        """Whether the average would pass the target."""
        return (self._total_s + queuing_s) / (self._rows + 1) > self.target_s

    def record(self, queuing_s: float) -> None:
        """Add a row to the average."""
        self._total_s += queuing_s
        self._rows += 1


class SlidingWindowAverage:
    """The average over the last `rows` admitted rows stays at or below the target.

    Unlike the running average it does not save credit in calm hours for one burst.

    >>> check = SlidingWindowAverage(target_s=2.0, rows=2)
    >>> for latency in (0.0, 0.0, 4.0):
    ...     check.record(latency)
    >>> check.refuses(0.5), check.refuses(0.0)  # the window holds 0 and 4; a new row pushes the 0 out
    (True, False)
    """

    reason = "windowed average queuing latency over target"

    def __init__(self, target_s: float, rows: int) -> None:
        self.target_s = duration_s("target_s", target_s)
        self.rows = whole_number("rows", rows, 1)
        self._window = array("d")
        self._next = 0
        self._total_s = 0.0

    def refuses(self, queuing_s: float) -> bool:
        """Whether the window's average would pass the target with this row in it."""
        if len(self._window) < self.rows:
            return (self._total_s + queuing_s) / (len(self._window) + 1) > self.target_s
        oldest_s = self._window[self._next]
        return (self._total_s - oldest_s + queuing_s) / self.rows > self.target_s

    def record(self, queuing_s: float) -> None:
        """Put a row into the window; the oldest leaves a full one."""
        if len(self._window) < self.rows:
            self._window.append(queuing_s)
            self._total_s += queuing_s
            return
        self._total_s += queuing_s - self._window[self._next]
        self._window[self._next] = queuing_s
        self._next = (self._next + 1) % self.rows
        if self._next == 0:
            self._total_s = sum(self._window)  # once a round, so that rounding errors do not accumulate


class Maximum:
    """No row waits longer than the target.

    >>> Maximum(target_s=2.0).refuses(2.1)
    True
    """

    reason = "queuing latency over target"

    def __init__(self, target_s: float) -> None:
        self.target_s = duration_s("target_s", target_s)

    def refuses(self, queuing_s: float) -> bool:
        """Whether this row would wait too long."""
        return queuing_s > self.target_s

    def record(self, queuing_s: float) -> None:
        """Nothing to remember."""
