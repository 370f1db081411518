r"""How many rows to hand to a function at a time, so that costs can be distinguished without slowing it down.

A call on $n$ rows takes about $F + n\,v$: a fixed part and a part for each row. Small slices distinguish costs, but a
vectorised function pays $F$ for each. The sizer tries a few sizes, fits the line, and settles on the smallest slice in
which the fixed part is at most 5 percent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Sizes to try first, the large ones before the small, because a large slice harms no function.
_TRIALS = (64, 16, 4, 1) * 4
#: Calls remembered, and after how many of them another size is tried again.
_REMEMBERED, _TRY_EVERY = 64, 32
#: The most that a call may spend on its fixed part, and the least that a slice may take: a call is not timed for free.
_FIXED_SHARE, _LEAST_S = 0.05, 0.0002


def slice_end(at: int, rows: int, run_ends: Sequence[int]) -> int:
    """The best end of a slice of about this many rows: at the end of a run of equal keys, whose cost is then exact.

    >>> run_ends = [100, 110, 400]  # three runs; there are 400 rows
    >>> [slice_end(at, rows, run_ends) for at, rows in ((0, 64), (0, 40), (100, 64), (399, 64))]
    [100, 40, 164, 400]
    """
    first = bisect_right(run_ends, at)
    if run_ends[first] - at >= rows / 4:
        return run_ends[first] if run_ends[first] - at < 2 * rows else at + rows
    last = run_ends[bisect_right(run_ends, at + rows) - 1]
    return last if last - at >= rows / 4 else min(at + rows, run_ends[-1])


class SliceSizer:
    """Chooses the next slice's size from what calls took so far.

    >>> sizer = SliceSizer()
    >>> for _ in range(40):
    ...     rows = sizer.next_rows()
    ...     sizer.took(rows, 0.001 * rows)  # a function that works row by row, a millisecond each
    >>> sizer.settled_rows
    1
    >>> for _ in range(100):
    ...     rows = sizer.next_rows()
    ...     sizer.took(rows, 0.01 + 0.00001 * rows)  # a vectorised one
    >>> sizer.settled_rows > 10_000
    True
    """

    def __init__(self) -> None:
        """Start with trials."""
        self._calls: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._count = 0
        self.settled_rows = _TRIALS[0]

    def next_rows(self) -> int:
        """The size of the next slice."""
        if self._count < len(_TRIALS):
            return _TRIALS[self._count]
        if self._count % _TRY_EVERY == 0:
            return 4 * self.settled_rows
        return self.settled_rows

    def took(self, rows: int, seconds: float) -> None:
        """Learn from one call."""
        self._calls.append((rows, seconds))
        self._count += 1
        if self._count >= len(_TRIALS):
            self.settled_rows = self._settle()

    def _settle(self) -> int:
        count = len(self._calls)
        mean_rows = sum(rows for rows, _ in self._calls) / count
        mean_s = sum(seconds for _, seconds in self._calls) / count
        spread = sum((rows - mean_rows) ** 2 for rows, _ in self._calls)
        if not spread:
            return self.settled_rows
        per_row_s = sum((rows - mean_rows) * (seconds - mean_s) for rows, seconds in self._calls) / spread
        # A line through scattered points may fall; then a row costs almost nothing.
        per_row_s = max(per_row_s, 1e-9)
        fixed_s = max(mean_s - per_row_s * mean_rows, 0.0)
        least = max(fixed_s * (1.0 - _FIXED_SHARE) / _FIXED_SHARE, _LEAST_S) / per_row_s
        return min(max(math.ceil(least), 1), 1_000_000)
