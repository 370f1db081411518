r"""How fast a stage of a network gets its work done.

A batch with work $W$ takes $\ell\,(o + W / P)$: overhead $o$, pace $P$, and a level $\ell$. Overhead and pace are a
line through many batches, drawn by medians, if those differ enough in work; else the overhead is that of a batch
without rows and the pace is what the batches had. The level is how long the last few batches took against the line: a
machine that gets slower does so for everything, at once.

Started every $T$ seconds, batches get $C = (P / \ell)(1 - \ell o / T)$ done a second. If all costs are off by one
factor, $P$ is off by the same, and the forecast holds. Where the overhead is more than half of $T$, batches are let
take longer, twice the overhead: shedding cannot shorten it, and would shed in vain.
"""

from collections import deque

import numpy as np
from scipy.stats import theilslopes

#: Batches through which the line is drawn, and those of which the level is taken.
LINE_BATCHES, LEVEL_BATCHES = 30, 4
#: Batches tell overhead and pace apart if the largest of them is so many times as much work as the smallest.
APART = 1.5
#: However the line lies, no more than this share of the shortest batch is overhead; without a line, this much is.
MOST_OVERHEAD, UNKNOWN_OVERHEAD = 0.9, 0.5
#: At least this share of the time is left for work, if need be by longer batches.
LEAST_SHARE = 0.5


class StagePace:
    """The pace of one stage.

    >>> stage = StagePace(trigger_s=2.0)
    >>> stage.calibrate(0.4)
    >>> stage.learn(work_s=2.0, took_s=1.4)
    >>> round(stage.capacity, 6), stage.period_s
    (1.6, 2.0)
    """

    def __init__(self, trigger_s: float, guess: float = 1.0) -> None:
        """Begin with a guess of the pace, in seconds of work a second."""
        self._trigger_s, self._guess = trigger_s, guess
        self._timed = deque[tuple[float, float]](maxlen=LINE_BATCHES)
        self._empty_s: float | None = None

    def calibrate(self, empty_s: float) -> None:
        """A batch without rows takes so long."""
        self._empty_s = empty_s

    def learn(self, work_s: float, took_s: float) -> None:
        """Take in a batch."""
        if work_s > 0.0 and took_s > 0.0:
            self._timed.append((work_s, took_s))

    def _line(self) -> tuple[float, float]:
        """Overhead and pace, at the level of many batches."""
        if not self._timed:
            return self._empty_s or 0.0, self._guess
        work_s, took_s = np.array(self._timed).T
        shortest_s = float(took_s.min())
        overhead_s = UNKNOWN_OVERHEAD * shortest_s if self._empty_s is None else self._empty_s
        overhead_s = min(overhead_s, MOST_OVERHEAD * shortest_s)
        if work_s.max() >= APART * work_s.min():
            slope, start, *_ = theilslopes(took_s, work_s)
            if slope > 0.0:
                overhead_s = max(min(float(start), MOST_OVERHEAD * shortest_s), overhead_s)
        return overhead_s, float(np.median(work_s / (took_s - overhead_s)))

    def _at_level(self) -> tuple[float, float]:
        """Overhead and pace, as the last few batches had them."""
        overhead_s, pace = self._line()
        recent = list(self._timed)[-LEVEL_BATCHES:]
        level = float(np.median([took / (overhead_s + work / pace) for work, took in recent])) if recent else 1.0
        return level * overhead_s, pace / level

    @property
    def overhead_s(self) -> float:
        """How long a batch takes apart from its work."""
        return self._at_level()[0]

    @property
    def period_s(self) -> float:
        """How often batches can start: as the trigger says, or less often where overhead leaves too little time."""
        return max(self._trigger_s, self.overhead_s / (1.0 - LEAST_SHARE))

    @property
    def capacity(self) -> float:
        """Work a second that batches get done, overhead taken off."""
        overhead_s, pace = self._at_level()
        return pace * (1.0 - overhead_s / self.period_s)
