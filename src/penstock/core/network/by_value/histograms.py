"""The distribution of values at the places where rows are judged, learned from quantiles of each batch.

Quantiles are measured in front of the drop of their place, so its drops do not distort them. A cell's share is read
from them as from a distribution function, linear between two quantiles, and averaged over the last batches.
"""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.core.network.by_value import roadmap as semantic
from penstock.core.network.by_value.cells import Cell, Judged, atoms
from penstock.core.network.intervals import Interval, IntervalSet
from penstock.core.network.model import Network

#: Batches over which shares are averaged.
BATCHES = 5
#: Cells are cut at every n-th quantile; within a cell values are assumed to be spread evenly.
STEP = 5
#: Quantiles have moved if the mean change is this share of their range.
MOVED = 0.01


class Histograms:
    """The distribution of each place's subject."""

    def __init__(self, network: Network) -> None:
        self._judged = semantic.estimated(network)
        self._seen = {place: deque[list[float]](maxlen=BATCHES) for place in self._judged}
        self._used: dict[str, tuple[float, ...]] = {}

    @property
    def subjects(self) -> dict[str, str]:
        """The expressions to measure, by place."""
        return {place: judged.subject for place, judged in self._judged.items()}

    def learn(self, quantiles: Mapping[str, Sequence[float]]) -> None:
        """Process the quantiles of a batch, in equal steps from the least to the greatest value."""
        for place, values in quantiles.items():
            if place in self._seen and len(values) > 1 and all(math.isfinite(value) for value in values):
                self._seen[place].append(list(values))

    def judged(self) -> dict[str, Judged]:
        """The cells of each place with the shares that were learned, cut finer where many rows are."""
        self._used = {place: self._mean(place) for place in self._seen}
        return {place: self._measured(judged, self._used[place]) for place, judged in self._judged.items()}

    def moved(self) -> bool:
        """Whether the distributions have moved since `judged` was last asked for."""
        return any(self._moved(self._used.get(place), self._mean(place)) for place in self._seen)

    def _mean(self, place: str) -> tuple[float, ...]:
        return tuple(np.mean(self._seen[place], axis=0).tolist()) if self._seen[place] else ()

    @staticmethod
    def _moved(before: tuple[float, ...] | None, now: tuple[float, ...]) -> bool:
        if not before or not now:
            return bool(before) != bool(now)
        range_ = max(before[-1] - before[0], now[-1] - now[0])
        return bool(np.abs(np.subtract(before, now)).mean() > MOVED * range_)

    @staticmethod
    def _measured(judged: Judged, quantiles: tuple[float, ...]) -> Judged:
        if not quantiles:
            return judged
        cuts = [IntervalSet.of(Interval(-math.inf, value)) for value in quantiles[STEP:-STEP:STEP]]
        values = atoms([*(cell.values for cell in judged.cells), *cuts])
        shares = [share(one, quantiles) for one in values]
        total = sum(shares)
        cells = [Cell(one, part / total) for one, part in zip(values, shares, strict=True)] if total > 0.0 else []
        return Judged(judged.subject, tuple(cells)) if cells else judged


def share(values: IntervalSet, quantiles: Sequence[float]) -> float:
    """The share of rows whose value lies in a set.

    >>> share(IntervalSet.of(Interval(0, 25)), [0.0, 50.0, 100.0])
    0.25
    >>> share(IntervalSet.of(Interval(3, 3)), [3.0, 3.0, 9.0])  # half of all rows have the value 3
    0.5
    """
    found = 0.0
    for part in values.parts:
        below = _below(part.low, quantiles, open_=not part.low_open)
        found += _below(part.high, quantiles, open_=part.high_open) - below
    return found


def _below(value: float, quantiles: Sequence[float], *, open_: bool) -> float:
    """The share of rows with a lower value; of those with the value itself too, if not open."""
    last = len(quantiles) - 1
    first, behind = bisect_left(quantiles, value), bisect_right(quantiles, value)
    if first < behind:  # It equals one or several quantiles: many equal values.
        return float((first if open_ else behind - 1) / last)
    if first == 0:
        return 0.0
    if first > last:
        return 1.0
    low, high = quantiles[first - 1], quantiles[first]
    return float((first - 1 + (value - low) / (high - low)) / last)
