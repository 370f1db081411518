"""What the values of rows are at the places where they are judged, learned from quantiles of batch after batch.

Quantiles come from before the drop of their place, so what is dropped there does not distort them. A cell's share is
read from them as from a distribution function, linear between two quantiles, and averaged over the last batches.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.core import semantic
from penstock.core.intervals import Interval, IntervalSet
from penstock.core.network import Network
from penstock.core.semantic import Cell, Judged

#: Batches over which shares are averaged.
BATCHES = 5


class Histograms:
    """The distribution of each place's subject."""

    def __init__(self, network: Network) -> None:
        """Know what the outputs' own histograms say, until something is measured."""
        self._judged = semantic.estimated(network)
        self._seen = {place: deque[list[float]](maxlen=BATCHES) for place in self._judged}

    @property
    def subjects(self) -> dict[str, str]:
        """Whose distribution is to be measured, by place."""
        return {place: judged.subject for place, judged in self._judged.items()}

    def learn(self, quantiles: Mapping[str, Sequence[float]]) -> None:
        """Take in the quantiles of a batch, in equal steps from the least to the greatest value."""
        for place, values in quantiles.items():
            if place in self._seen and len(values) > 1 and all(math.isfinite(value) for value in values):
                self._seen[place].append(list(values))

    @property
    def judged(self) -> dict[str, Judged]:
        """The cells of each place with the shares that were learned."""
        return {place: self._measured(place, judged) for place, judged in self._judged.items()}

    def _measured(self, place: str, judged: Judged) -> Judged:
        seen = self._seen[place]
        if not seen:
            return judged
        shares = [np.mean([share(cell.values, values) for values in seen]) for cell in judged.cells]
        total = float(sum(shares))
        if not total:
            return judged
        cells = [Cell(cell.values, float(one) / total) for cell, one in zip(judged.cells, shares, strict=True)]
        return Judged(judged.subject, tuple(cells))


def share(values: IntervalSet, quantiles: Sequence[float]) -> float:
    """The share of rows whose value lies in a set.

    >>> share(IntervalSet.of(Interval(0, 25)), [0.0, 50.0, 100.0])
    0.25
    >>> share(IntervalSet.of(Interval(3, 3)), [3.0, 3.0, 9.0])  # half of all rows have the value 3
    0.5
    """
    return float(sum(_below(part.high, quantiles, open_=part.high_open) - _below(part.low, quantiles, open_=not part.low_open)
                     for part in values.parts))


def _below(value: float, quantiles: Sequence[float], *, open_: bool) -> float:
    """The share of rows with a lower value; of those with the value itself too, if not open."""
    last = len(quantiles) - 1
    first, behind = np.searchsorted(quantiles, value, "left"), np.searchsorted(quantiles, value, "right")
    if first < behind:  # It is a quantile, or several: a lump of equal values.
        return float((first if open_ else behind - 1) / last)
    if first == 0:
        return 0.0
    if first > last:
        return 1.0
    low, high = quantiles[first - 1], quantiles[first]
    return float((first - 1 + (value - low) / (high - low)) / last)
