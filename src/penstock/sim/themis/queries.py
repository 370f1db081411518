r"""The queries of THEMIS, Table 1, on the tuples of one second, and how far a degraded result is from the perfect one.

A fragment turns its tuples into a partial result; partial results of all fragments are merged, in any order, and give
the result. With no tuples there is none, but a count of nothing is 0.

The error of a number is $|\tilde r - r| / |r|$. That of a list of the top k is Kendall's distance. It counts pairs that
the two lists put in opposite order, where one that is in a list comes before one that is not. A pair that is in one
list only counts 0 (penalty 0 of Fagin, Kumar and Sivakumar). So the most is $k^2$, by which it is divided.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kept = NDArray[np.bool_]

#: COUNT counts values from here up.
COUNTED_FROM = 50.0
#: TOP-5: the number of nodes, and their minimum free memory.
TOP = 5
LEAST_FREE_KB = 100_000.0


@dataclass(frozen=True)
class Query:
    """A query of Table 1."""

    streams: str  #: values that a fragment sees: of one source, of several, of two, or of nodes' CPU and memory
    sources: int  #: of one fragment
    #: from values and which of them were kept, sources by tuples, to a partial result
    partial: Callable[[Floats, Kept], Any]
    result: Callable[[Sequence[Any]], Any]  #: from partial results to a result; None if there is none
    #: from a degraded result and the perfect one to an error; None if it is undefined
    distance: Callable[[Any, Any], float | None]


def relative_error(degraded: float | None, perfect: float | None) -> float | None:
    """Relative distance of a number from the perfect one.

    >>> relative_error(45.0, 50.0), relative_error(None, 50.0)
    (0.1, None)
    """
    if degraded is None or not perfect:
        return None
    return abs(degraded - perfect) / abs(perfect)


def kendall_distance(one: Sequence[int], other: Sequence[int], k: int = TOP) -> float:
    """Kendall's distance between two lists of the top k, from 0 to 1.

    >>> kendall_distance([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]), kendall_distance([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    (0.0, 1.0)
    >>> kendall_distance([1, 2, 3, 4, 5], [2, 1, 3, 4, 5]), kendall_distance([1, 2, 3, 4, 5], [1, 2, 3, 4])
    (0.04, 0.0)
    """
    place, elsewhere = ({node: at for at, node in enumerate(ranking)} for ranking in (one, other))
    return sum(_opposite(place, elsewhere, *pair) for pair in combinations(sorted({*one, *other}), 2)) / k**2


def _opposite(one: dict[int, int], other: dict[int, int], first: int, second: int) -> bool:
    """Whether the lists disagree on which of a pair comes first; a list knows nothing of a pair that is not in it."""
    orders = []
    for ranking in (one, other):
        if first not in ranking and second not in ranking:
            return False
        orders.append(ranking.get(first, math.inf) < ranking.get(second, math.inf))
    return orders[0] != orders[1]


def _sum(values: Floats, kept: Kept) -> tuple[float, int]:
    return float(values[kept].sum()), int(kept.sum())


def _mean(partials: Iterable[tuple[float, int]]) -> float | None:
    totals = np.sum(list(partials), axis=0)
    return float(totals[0] / totals[1]) if totals[1] else None


def _largest(values: Floats, kept: Kept) -> float | None:
    return float(values[kept].max()) if kept.any() else None


def _largest_of(partials: Iterable[float | None]) -> float | None:
    return max((one for one in partials if one is not None), default=None)


def _high(values: Floats, kept: Kept) -> int:
    return int((values[kept] >= COUNTED_FROM).sum())


def _node_means(values: Floats, kept: Kept) -> list[tuple[float, int]]:
    """The best nodes of a fragment: of CPU streams (the first half) joined with memory (the second)."""
    count = np.maximum(kept.sum(axis=1), 1)
    means = np.where(kept.any(axis=1), (values * kept).sum(axis=1) / count, np.nan)
    cpu, free_kb = np.split(means, 2)
    joined = np.flatnonzero(~np.isnan(cpu) & (np.nan_to_num(free_kb, nan=-1.0) >= LEAST_FREE_KB))
    return sorted((float(cpu[node]), int(node)) for node in joined)[:TOP]


def _top(partials: Sequence[list[tuple[float, int]]]) -> list[int] | None:
    """Nodes with the most CPU to spare, those that use the least; nodes are numbered on from fragment to fragment."""
    ranked = sorted((busy, at * TOP * 2 + node) for at, fragment in enumerate(partials) for busy, node in fragment)
    return [node for _, node in ranked[:TOP]] or None


def _moments(values: Floats, kept: Kept) -> Floats:
    """Count and sums for pairs of which both tuples were kept."""
    both = kept.all(axis=0)
    x, y = values[0][both], values[1][both]
    return np.array([len(x), x.sum(), y.sum(), (x * y).sum()])


def _covariance(partials: Sequence[Floats]) -> float | None:
    pairs, x, y, product = np.sum(partials, axis=0)
    return float((product - x * y / pairs) / (pairs - 1)) if pairs > 1 else None


def _difference(degraded: float | None, perfect: float | None) -> float | None:
    return None if degraded is None or perfect is None else degraded - perfect


def _list_distance(degraded: list[int] | None, perfect: list[int] | None) -> float | None:
    return kendall_distance(degraded or [], perfect) if perfect else None


QUERIES = {
    "avg": Query("one", 1, _sum, _mean, relative_error),
    "max": Query("one", 1, _largest, _largest_of, relative_error),
    "count": Query("one", 1, _high, lambda partials: float(sum(partials)), relative_error),
    "avg_all": Query("many", 10, _sum, _mean, relative_error),
    "top_5": Query("nodes", 20, _node_means, _top, _list_distance),
    "cov": Query("pair", 2, _moments, _covariance, _difference),
}
