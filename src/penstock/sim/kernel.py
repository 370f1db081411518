"""The simulator's kernel: one heap of actions on virtual time, with ties broken the same way every time.

Actions due at the same moment run by priority, lowest first, and among equals in the order they were scheduled.
"""

import heapq
from collections.abc import Callable
from itertools import count

from penstock.errors import PenstockError

Action = Callable[[], None]


class Kernel:
    """Virtual time.

    >>> kernel, seen = Kernel(), []
    >>> kernel.at(2.0, lambda: seen.append("late"))
    >>> kernel.at(1.0, lambda: seen.append("second"), priority=1)
    >>> kernel.at(1.0, lambda: seen.append("first"), priority=0)
    >>> kernel.run()
    >>> seen, kernel.now_s
    (['first', 'second', 'late'], 2.0)
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, int, Action]] = []
        self._order = count()

    def at(self, time_s: float, action: Action, *, priority: int = 0) -> None:
        """Schedule an action; the past is refused."""
        if not time_s >= self.now_s:
            raise PenstockError.setting("time_s", time_s, f"a time from now ({self.now_s} s) on")
        heapq.heappush(self._heap, (time_s, priority, next(self._order), action))

    def run(self, until_s: float = float("inf")) -> None:
        """Run actions in order until none is left or the next one lies beyond `until_s`; now is the last one's time."""
        while self._heap and self._heap[0][0] <= until_s:
            self.now_s, _, _, action = heapq.heappop(self._heap)
            action()
