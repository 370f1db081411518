r"""Source information content (SIC): how much of its sources a result rests on, whatever the query computes.

A source time window (STW) is longer than a tuple's way from source to result. In it, source $s$ of a query with
$|S|$ sources makes $|T_s|$ tuples, all equally important. An operator that takes in tuples at once and puts some out
passes on what it took in, and a query's SIC is what comes out at its end (THEMIS, equations 1, 3 and 4):

$$t^s_{SIC} = \frac{1}{|T_s|\,|S|}, \qquad
t^{out}_{SIC} = \frac{\sum_{t \in T_{in}} t_{SIC}}{|T_{out}|}, \qquad
q_{SIC} = \sum_{t \in T^R} t_{SIC}$$

A query that lost nothing has SIC 1, one that lost everything 0. The window slides (section 6): sums and counts are kept
by slide, and of the slide that is half out of the window half is counted.
"""

import math
from collections import deque
from collections.abc import Hashable, Iterable

from penstock.core.settings import duration_s, number, whole_number
from penstock.errors import PenstockError

#: The paper's window and slide (section 7).
STW_S, SLIDE_S = 10.0, 0.25
#: Times this near to the end of a slide, in slides, lie on it: 1.1 / 0.1 is a little above 11.
_ON_THE_EDGE = 1e-9


def source_sic(tuples_in_window: float, sources: int) -> float:
    """SIC of one tuple of a source that makes so many in a source time window (equation 1).

    >>> source_sic(tuples_in_window=4, sources=2), source_sic(tuples_in_window=2, sources=2)
    (0.125, 0.25)
    """
    return 1.0 / (number("tuples_in_window", tuples_in_window, math.ulp(0.0)) * whole_number("sources", sources, 1))


def derived_sic(inputs: Iterable[float], outputs: int) -> float:
    """SIC of each tuple that an operator puts out for tuples it took in at once (equation 3).

    Without outputs there is none to carry it: what went in is lost to the result, as in a filter that drops all.

    >>> derived_sic([0.125] * 4, outputs=2)
    0.25
    """
    return sum(inputs) / outputs if whole_number("outputs", outputs, 0) else 0.0


def query_sic(results: Iterable[float]) -> float:
    """SIC of a query: the sum over its result tuples of a source time window (equation 4).

    >>> query_sic([0.5, 0.5])
    1.0
    """
    return sum(results)


class SourceTimeWindow:
    """A sum over the last `stw_s` seconds that slides by `slide_s`: of tuples, or of results' SIC.

    An amount at the end of a slide belongs to that slide, so amounts that come once a slide are counted exactly.

    >>> window = SourceTimeWindow(stw_s=10.0, slide_s=0.5)
    >>> for now_s in range(1, 16):
    ...     window.add(now_s, 4)
    >>> window.total(15.0), window.total(16.0), window.total(30.0)
    (40.0, 36.0, 0.0)
    """

    def __init__(self, stw_s: float = STW_S, slide_s: float = SLIDE_S, *, start_s: float | None = None) -> None:
        """Start empty at `start_s`; if that is not told, with the slide of the first amount."""
        self.stw_s = duration_s("stw_s", stw_s)
        self.slide_s = min(duration_s("slide_s", slide_s), self.stw_s)
        self._start_s = start_s
        self._slides: deque[list[float]] = deque()
        self._sum = 0.0

    def add(self, now_s: float, amount: float) -> None:
        """Count an amount; one that is older than the newest slide counts in its own slide if that is still in."""
        slide = self._slide(now_s)
        if self._start_s is None:
            self._start_s = (slide - 1) * self.slide_s
        at = len(self._slides)
        while at and self._slides[at - 1][0] > slide:
            at -= 1
        if at and self._slides[at - 1][0] == slide:
            self._slides[at - 1][1] += amount
        else:
            self._slides.insert(at, [slide, amount])
        self._sum += amount

    def total(self, now_s: float) -> float:
        """The sum over the window that ends now. Time only goes on: what has left the window is forgotten."""
        now = now_s / self.slide_s
        oldest = now - self.stw_s / self.slide_s
        while self._slides and self._slides[0][0] <= oldest + _ON_THE_EDGE:
            self._sum -= self._slides.popleft()[1]
        if not self._slides:
            self._sum = 0.0  # and with it what rounding has left
            return 0.0
        slide, amount = self._slides[0]
        return self._sum - amount * max(oldest - (slide - 1), 0.0)

    def scaled(self, now_s: float) -> float:
        """The sum that a full window would have: before one has passed, `total` by `stw_s` over the time passed.

        >>> window = SourceTimeWindow(stw_s=10.0, slide_s=0.5, start_s=0.0)
        >>> window.add(1.0, 4)
        >>> window.scaled(1.0), window.scaled(4.0)
        (40.0, 10.0)
        """
        total = self.total(now_s)
        if self._start_s is None:
            return total
        elapsed_s = max(now_s - self._start_s, self.slide_s)
        return total * max(self.stw_s / elapsed_s, 1.0)

    def _slide(self, now_s: float) -> int:
        return math.ceil(now_s / self.slide_s - _ON_THE_EDGE)


class SourceRates:
    """What a tuple of each source of one query is worth, from the tuples counted so far (section 6).

    Rates are neither told nor constant: a source's tuples in a window are those of the last one, and before a full
    one has passed, those seen scaled up.

    >>> rates = SourceRates(sources=2, stw_s=10.0, slide_s=0.5, start_s=0.0)
    >>> for now_s in range(1, 6):
    ...     rates.add("slow", now_s, 1)
    ...     rates.add("fast", now_s, 4)
    >>> rates.tuples("fast", 5.0), rates.sic("slow", 5.0), rates.sic("fast", 5.0)
    (40.0, 0.05, 0.0125)
    """

    def __init__(
        self, sources: int, stw_s: float = STW_S, slide_s: float = SLIDE_S, *, start_s: float | None = None
    ) -> None:
        """For a query with so many sources, of which this node may see only some."""
        self.sources = whole_number("sources", sources, 1)
        self._window = (stw_s, slide_s, start_s)
        self._counts: dict[Hashable, SourceTimeWindow] = {}

    def add(self, source: Hashable, now_s: float, tuples: float) -> None:
        """Count tuples of a source, those that will be shed included."""
        if source not in self._counts:
            stw_s, slide_s, start_s = self._window
            self._counts[source] = SourceTimeWindow(stw_s, slide_s, start_s=start_s)
        self._counts[source].add(now_s, tuples)

    def tuples(self, source: Hashable, now_s: float) -> float:
        """Tuples that the source makes in a source time window; 0 for one never seen or silent for a window."""
        count = self._counts.get(source)
        return count.scaled(now_s) if count else 0.0

    def sic(self, source: Hashable, now_s: float) -> float:
        """SIC of one tuple of the source, 0 as long as it makes none."""
        tuples = self.tuples(source, now_s)
        return source_sic(tuples, self.sources) if tuples > 0.0 else 0.0


class OperatorWindow:
    """A window of an operator that slides: each input's SIC is shared equally by the windows it is in (section 6).

    A window of `range_s` that ends every `slide_s` sees an input about `range_s / slide_s` times. Each time its share
    is passed on, so over all windows outputs carry what came in, no more. With `slide_s = range_s` it tumbles.

    >>> window = OperatorWindow(range_s=2.0, slide_s=1.0)
    >>> window.add(0.5, 0.25)
    >>> window.add(1.5, 0.25)
    >>> [(ends_s, sic) for ends_s, sic in window.close(3.0)]
    [(1.0, 0.125), (2.0, 0.25), (3.0, 0.125)]
    """

    def __init__(self, range_s: float, slide_s: float | None = None) -> None:
        """Windows end at whole multiples of the slide, which is no longer than they are."""
        self.range_s = duration_s("range_s", range_s)
        self.slide_s = self.range_s if slide_s is None else duration_s("slide_s", slide_s)
        if self.slide_s > self.range_s:
            raise PenstockError.setting("slide_s", slide_s, f"seconds up to range_s, {self.range_s:g}")
        self._sums: dict[int, float] = {}

    def add(self, now_s: float, sic: float) -> None:
        """Take in an input, which counts in every window (end - range, end] that it lies in."""
        first = math.ceil(now_s / self.slide_s - _ON_THE_EDGE)
        behind = math.ceil((now_s + self.range_s) / self.slide_s - _ON_THE_EDGE)
        windows = range(first, behind)
        for end in windows:
            self._sums[end] = self._sums.get(end, 0.0) + sic / len(windows)

    def close(self, now_s: float) -> list[tuple[float, float]]:
        """Windows that have ended by now, oldest first: the end of each, and the SIC its outputs share."""
        ended = sorted(end for end in self._sums if end * self.slide_s <= now_s + _ON_THE_EDGE * self.slide_s)
        return [(end * self.slide_s, self._sums.pop(end)) for end in ended]
