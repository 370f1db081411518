r"""Source information content (SIC): the share of its sources that a result is based on, for any query.

A source time window (STW) is longer than the latency from source to result. In it, source $s$ of a query with $|S|$
sources produces $|T_s|$ tuples, all equally important. An operator's output carries the SIC of its input, and a query's
SIC is the SIC of its results (THEMIS, equations 1, 3 and 4):

$$t^s_{SIC} = \frac{1}{|T_s|\,|S|}, \qquad
t^{out}_{SIC} = \frac{\sum_{t \in T_{in}} t_{SIC}}{|T_{out}|}, \qquad
q_{SIC} = \sum_{t \in T^R} t_{SIC}$$

A query that lost nothing has SIC 1, one that lost everything 0. The window slides (section 6). Sums and counts are kept
by slide, and of the slide that is half out of the window half is counted.
"""

import math
from collections import deque

from penstock.core.settings import duration_s, number, whole_number

#: The column in which rows carry it.
SIC = "sic"
#: The paper's window and slide (section 7).
STW_S, SLIDE_S = 10.0, 0.25
#: Times this near to the end of a slide, in slides, lie on it: 1.1 / 0.1 is a little above 11.
_ON_THE_EDGE = 1e-9


def source_sic(tuples_in_window: float, sources: int) -> float:
    """SIC of one tuple of a source with this many in a source time window (equation 1).

    >>> source_sic(tuples_in_window=4, sources=2), source_sic(tuples_in_window=2, sources=2)
    (0.125, 0.25)
    """
    return 1.0 / (number("tuples_in_window", tuples_in_window, math.ulp(0.0)) * whole_number("sources", sources, 1))


class SourceTimeWindow:
    """A sum over the last `stw_s` seconds that slides by `slide_s`: of tuples, or of results' SIC.

    An amount at the end of a slide belongs to that slide, so amounts that come once a slide are counted exactly.

    >>> window = SourceTimeWindow(stw_s=10.0, slide_s=0.5)
    >>> for now_s in range(1, 16):
    ...     window.add(now_s, 4)
    >>> window.total(15.0), window.total(16.0), window.total(30.0)
    (40.0, 36.0, 0.0)
    """

    def __init__(self, stw_s: float = STW_S, slide_s: float = SLIDE_S) -> None:
        self.stw_s = duration_s("stw_s", stw_s)
        self.slide_s = min(duration_s("slide_s", slide_s), self.stw_s)
        self._slides: deque[list[float]] = deque()
        self._sum = 0.0

    def add(self, now_s: float, amount: float) -> None:
        """Count an amount; one that is older than the newest slide counts in its own slide if that is still in."""
        slide = math.ceil(now_s / self.slide_s - _ON_THE_EDGE)
        at = len(self._slides)
        while at and self._slides[at - 1][0] > slide:
            at -= 1
        if at and self._slides[at - 1][0] == slide:
            self._slides[at - 1][1] += amount
        else:
            self._slides.insert(at, [slide, amount])
        self._sum += amount

    def total(self, now_s: float) -> float:
        """The sum over the window that ends now. Time must not decrease: older amounts are forgotten."""
        now = now_s / self.slide_s
        oldest = now - self.stw_s / self.slide_s
        while self._slides and self._slides[0][0] <= oldest + _ON_THE_EDGE:
            self._sum -= self._slides.popleft()[1]
        if not self._slides:
            self._sum = 0.0  # including rounding errors
            return 0.0
        slide, amount = self._slides[0]
        return self._sum - amount * max(oldest - (slide - 1), 0.0)
