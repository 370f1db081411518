r"""How fast a stage of a network gets its work done.

A batch with work $W$ takes $o + W / P$: overhead $o$, and pace $P$ as the last batches had it. The overhead is that of a
batch without rows, if that was measured; when batches of different size were seen, a line through them may say that it
is more. Started every $T$ seconds, batches get $C = P\,(1 - o / T)$ done a second. If all costs are off by one factor,
$P$ is off by the same, and the forecast holds.
"""

from collections import deque

import numpy as np

#: Batches that are remembered.
BATCHES = 6
#: However long the overhead, so much of a batch's time counts as left for work.
LEAST_SHARE = 0.1
#: A batch that works less than this share of its time is mostly overhead: nothing is learned of the pace.
WORTH_TIMING = 0.2
#: Batches tell overhead and pace apart if the largest of them is so many times as much work as the smallest.
APART = 1.3
#: However the line lies, no more than this share of the shortest batch is overhead; without a line, this much is.
MOST_OVERHEAD, UNKNOWN_OVERHEAD = 0.9, 0.5


class StagePace:
    """The pace of one stage.

    >>> stage = StagePace(trigger_s=2.0)
    >>> stage.calibrate(0.4)
    >>> stage.learn(work_s=2.0, took_s=1.4)
    >>> round(stage.pace, 6), round(stage.capacity, 6)
    (2.0, 1.6)
    """

    def __init__(self, trigger_s: float, guess: float = 1.0) -> None:
        """Begin with a guess of the pace, in seconds of work a second."""
        self._trigger_s, self._guess = trigger_s, guess
        self._timed = deque[tuple[float, float]](maxlen=BATCHES)
        self._empty_s: float | None = None

    def calibrate(self, empty_s: float) -> None:
        """A batch without rows takes so long."""
        self._empty_s = empty_s
        self._timed.clear()

    def learn(self, work_s: float, took_s: float) -> None:
        """Take in a batch."""
        if work_s > 0.0:
            self._timed.append((work_s, took_s))

    @property
    def overhead_s(self) -> float:
        """How long a batch takes apart from its work."""
        shortest_s = min((took for _, took in self._timed), default=0.0)
        empty_s = UNKNOWN_OVERHEAD * shortest_s if self._empty_s is None else self._empty_s
        work_s = [work for work, _ in self._timed]
        if not work_s or max(work_s) < APART * min(work_s):
            return empty_s
        slope, start = np.polyfit(work_s, [took for _, took in self._timed], 1)
        return float(max(min(start, MOST_OVERHEAD * shortest_s), empty_s)) if slope > 0.0 else empty_s

    @property
    def pace(self) -> float:
        """Seconds of work that get done in a second."""
        overhead_s = self.overhead_s
        paces = [work / (took - overhead_s) for work, took in self._timed if took - overhead_s > WORTH_TIMING * took]
        return float(np.median(paces)) if paces else self._guess

    @property
    def capacity(self) -> float:
        """Work a second that batches get done, overhead taken off."""
        return self.pace * max(1.0 - self.overhead_s / self._trigger_s, LEAST_SHARE)
