r"""Quality of service: the utility of an output by the rows it delivers, by their values, and by their delay.

All graphs are piecewise linear. `LossTolerance` gives the utility $U(x)$ when $x$ percent of an output's rows are
delivered. `ValueQos` says which values matter; with a histogram of the values it gives a loss tolerance (Tatbul et al.
2003, 4.3.4): with utility $u_i$ and frequency $f_i$ of interval $i$, lowest utility first,

$$n_i = \frac{u_i f_i}{\sum_j u_j f_j}, \qquad
U\Bigl(100 - 100 \sum_{j \le i} f_j\Bigr) = 1 - \sum_{j \le i} n_j$$

which is concave by construction. `DelayQos` says how utility falls with a row's delay.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from penstock.core.network.intervals import Interval, IntervalSet
from penstock.errors import PenstockError

Point = tuple[float, float]

#: Slopes that differ by less are the same: points are given with few digits.
_SAME_SLOPE = 1e-9
_SAME_PERCENT = 1e-7
_SAME_SHARE = 1e-12
#: Where a graph begins and ends.
_WHOLE = (100.0, 0.0)


@dataclass(frozen=True, slots=True)
class LossTolerance:
    """Utility by the percentage of rows delivered, concave: the more is lost already, the more the next row costs.

    >>> graph = LossTolerance([(100, 1.0), (50, 0.7), (0, 0.0)])
    >>> graph.utility(75), round(graph.loss_per_percent(100), 6), round(graph.loss_per_percent(50), 6)
    (0.85, 0.006, 0.014)
    >>> LossTolerance([(100, 1.0), (50, 0.3), (0, 0.0)])
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: loss_tolerance = [(100, 1.0), (50, 0.3), (0, 0.0)] is not usable: give a concave \
graph, in which each percent lost costs no less than the one before; below 50 it costs less: LossTolerance.envelope, \
or envelope: true in a file, gives the nearest concave one above it
    """

    points: Sequence[Point]  #: percent delivered and utility, from 100 percent down to 0

    def __post_init__(self) -> None:
        """Refuse a graph that is not concave from 100 to 0 percent."""
        points = _points("loss_tolerance", self.points)
        percents = [percent for percent, _ in points]
        if (percents[0], percents[-1]) != _WHOLE or any(low >= high for high, low in pairwise(percents)):
            raise PenstockError.setting(
                "loss_tolerance", self.points, "points from 100 percent down to 0, such as [[100, 1.0], [0, 0.0]]"
            )
        slopes = _slopes(points)
        if any(slope < -_SAME_SLOPE for slope in slopes):
            raise PenstockError.setting("loss_tolerance", self.points, "utilities that do not rise as rows are lost")
        for place, (before, after) in enumerate(pairwise(slopes)):
            if after < before - _SAME_SLOPE:
                raise PenstockError.setting(
                    "loss_tolerance",
                    self.points,
                    "a concave graph, in which each percent lost costs no less than the one before",
                    f"below {points[place + 1][0]:g} it costs less: LossTolerance.envelope, or envelope: true in a "
                    "file, gives the nearest concave one above it",
                )
        object.__setattr__(self, "points", points)

    @classmethod
    def envelope(cls, points: Sequence[Point]) -> Self:
        """The least concave graph that lies on or above these points.

        >>> LossTolerance.envelope([(100, 1.0), (50, 0.3), (0, 0.0)]).points
        ((100.0, 1.0), (0.0, 0.0))
        """
        hull: list[Point] = []
        for point in _points("loss_tolerance", points):
            while len(hull) > 1 and _slopes([hull[-2], hull[-1]])[0] > _slopes([hull[-1], point])[0]:
                hull.pop()
            hull.append(point)
        return cls(hull)

    def utility(self, percent: float) -> float:
        """Utility at this percentage of delivered rows."""
        percent = min(max(percent, 0.0), 100.0)
        (high, high_utility), (low, low_utility) = self._piece(percent)
        return low_utility + (high_utility - low_utility) * (percent - low) / (high - low)

    def loss_per_percent(self, percent: float) -> float:
        """The utility cost of the next percent, at this delivered percentage; 0 at 0."""
        return _slopes(self._piece(percent))[0] if percent > 0.0 else math.inf

    def next_break(self, percent: float) -> float:
        """The next lower percentage at which the graph bends or ends."""
        return self._piece(percent)[1][0]

    def cursor(self, percent: float) -> float:
        """The percentage; rounded to a bend nearby, which sums of floats would miss."""
        return next((bend for bend, _ in self._piece(percent) if abs(bend - percent) < _SAME_PERCENT), percent)

    def _piece(self, percent: float) -> tuple[Point, Point]:
        """The piece below a percentage."""
        place = bisect_right(self.points, -percent, key=lambda point: -point[0])
        place = min(max(place, 1), len(self.points) - 1)
        return self.points[place - 1], self.points[place]


@dataclass(frozen=True, slots=True)
class ValueInterval:
    """Values of one utility; `end_utility` is the utility at the upper end if it changes along the interval."""

    low: float
    high: float
    utility: float
    end_utility: float | None = None


class ValueQos:
    """The utility of an output's values, and their frequency.

    >>> graph = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
    >>> [(percent, round(utility, 4)) for percent, utility in graph.loss_tolerance().points]
    [(100.0, 1.0), (60.0, 0.8824), (0.0, 0.0)]
    >>> graph.kept(80).sql("value"), graph.kept(30).sql("value")
    ('value >= 25', 'value > 75')
    """

    def __init__(
        self, column: str, intervals: Sequence[ValueInterval], histogram: Sequence[float], *, chunks: int = 10
    ) -> None:
        """Values lie in these intervals, with these relative frequencies.

        Args:
            column: The column with the values.
            intervals: Where utility is constant or linear, from low to high, without gaps.
            histogram: Relative frequency of each interval.
            chunks: Into how many equal parts an interval is cut whose utility is not constant; each part then has the
                mean utility of its values.
        """
        self.column = column
        if len(histogram) != len(intervals) or not intervals:
            raise PenstockError.setting("histogram", list(histogram), f"{len(intervals)} frequencies, one an interval")
        if any(not 0.0 <= share < math.inf for share in histogram) or not sum(histogram) > 0.0:
            raise PenstockError.setting("histogram", list(histogram), "frequencies from 0 up, not all of them 0")
        for before, after in pairwise(intervals):
            if before.high != after.low:
                raise PenstockError.setting(
                    "intervals", [after.low, after.high], f"a range that begins at {before.high:g}, where the last ends"
                )
        total = sum(histogram)
        #: The lowest and the highest value of the graph.
        self.ends = (intervals[0].low, intervals[-1].high)
        cut = [
            chunk
            for number, (interval, share) in enumerate(zip(intervals, histogram, strict=True))
            for chunk in _chunks(interval, share / total, chunks, first=number == 0)
        ]
        #: Parts in the order in which they are dropped: lowest utility first, lower values first among equals.
        self.order = sorted(cut, key=lambda chunk: (chunk.utility, chunk.values.low))
        if not sum(chunk.utility * chunk.share for chunk in cut) > 0.0:
            raise PenstockError.setting("utility", 0, "a utility above 0 for values that occur")

    def loss_tolerance(self) -> LossTolerance:
        """The utility of an output that delivers a part of its rows, least useful values dropped first."""
        total = sum(chunk.utility * chunk.share for chunk in self.order)
        points, percent, utility = [(100.0, 1.0)], 100.0, 1.0
        for chunk in self.order:
            percent -= 100.0 * chunk.share
            utility -= chunk.utility * chunk.share / total
            if chunk.share > 0.0:
                points.append((percent, max(utility, 0.0)))
        points[-1] = (0.0, 0.0)
        return LossTolerance(points)

    def kept(self, percent: float) -> IntervalSet:
        """The values that are kept when this percentage of the rows is delivered.

        Values beyond the graph count with the interval at that end.
        """
        dropped, left = IntervalSet(), (100.0 - min(max(percent, 0.0), 100.0)) / 100.0
        for chunk in self.order:
            if left <= _SAME_SHARE:
                break
            dropped |= IntervalSet.of(chunk.lower_part(min(left / chunk.share, 1.0) if chunk.share > 0.0 else 1.0))
            left -= chunk.share
        return ~IntervalSet.of(*(_beyond(part, self.ends) for part in dropped.parts))

    def graded(self) -> list[tuple[IntervalSet, float, float]]:
        """Sets of numbers, each with its utility and share; those beyond the graph count with the interval at that end.

        >>> graph = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
        >>> print(*graph.graded()[0])
        (-inf, 50] 0.2 0.4
        """
        return [(IntervalSet.of(_beyond(one.values, self.ends)), one.utility, one.share) for one in self.order]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Values of one utility, and how often they come."""

    values: Interval
    utility: float
    share: float

    def lower_part(self, share: float) -> Interval:
        """A share of the values from the lower end on; the rest begins like the whole."""
        if share >= 1.0:
            return self.values
        end = self.values.low + share * (self.values.high - self.values.low)
        return Interval(self.values.low, end, self.values.low_open, high_open=not self.values.low_open)


@dataclass(frozen=True, slots=True)
class DelayQos:
    """Utility by a row's delay in seconds.

    >>> graph = DelayQos([(0, 1.0), (2, 1.0), (10, 0.0)])
    >>> graph.utility(6), graph.threshold_s
    (0.5, 2.0)
    """

    points: Sequence[Point]  #: delay and utility, from no delay on

    def __post_init__(self) -> None:
        """Refuse a graph that does not fall with the delay."""
        points = _points("latency", self.points)
        if points[0][0] != 0.0 or any(a[0] >= b[0] or a[1] < b[1] for a, b in pairwise(points)):
            raise PenstockError.setting(
                "latency", self.points, "points from a delay of 0 s on, with utilities that do not rise"
            )
        object.__setattr__(self, "points", points)

    def utility(self, delay_s: float) -> float:
        """Utility of a row this late; the last point holds for all later ones."""
        for (early_s, high), (late_s, low) in pairwise(self.points):
            if delay_s <= late_s:
                return high + (low - high) * (max(delay_s, 0.0) - early_s) / (late_s - early_s)
        return self.points[-1][1]

    @property
    def threshold_s(self) -> float:
        """The longest delay without loss."""
        best = self.points[0][1]
        return max(delay_s for delay_s, utility in self.points if utility == best)


def _beyond(part: Interval, ends: tuple[float, float]) -> Interval:
    low, low_open = (-math.inf, True) if part.low == ends[0] else (part.low, part.low_open)
    high, high_open = (math.inf, True) if part.high == ends[1] and not part.high_open else (part.high, part.high_open)
    return Interval(low, high, low_open, high_open)


def _points(setting: str, given: Sequence[Point]) -> tuple[Point, ...]:
    try:
        points = tuple((float(x), float(y)) for x, y in given)
        fine = len(points) > 1 and all(math.isfinite(x) and 0.0 <= y <= 1.0 for x, y in points)
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise PenstockError.setting(setting, given, "two points or more, each with a utility from 0 to 1")
    return points


def _slopes(points: Sequence[Point]) -> list[float]:
    """The loss per unit from each point to the next lower one."""
    return [(high[1] - low[1]) / (high[0] - low[0]) for high, low in pairwise(points)]


def _chunks(interval: ValueInterval, share: float, parts: int, *, first: bool) -> list[Chunk]:
    """The interval in parts of one utility each; only the first of all values is closed at its lower end."""
    if not (0.0 <= interval.utility <= 1.0 and 0.0 <= (interval.end_utility or 0.0) <= 1.0):
        raise PenstockError.setting("utility", interval.utility, "a utility from 0 to 1")
    end = interval.utility if interval.end_utility is None else interval.end_utility
    count = 1 if end == interval.utility else parts
    width = (interval.high - interval.low) / count
    found = []
    for number in range(count):
        low, high = interval.low + number * width, interval.low + (number + 1) * width
        utility = interval.utility + (end - interval.utility) * (number + 0.5) / count
        found.append(Chunk(Interval(low, high, low_open=not (first and number == 0)), utility, share / count))
    return found
