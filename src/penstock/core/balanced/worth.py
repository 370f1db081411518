r"""The worth of rows by one of their values, in the few grades that fit a gate's table.

The gate looks up a row by its bucket, so a bucket must determine both cost and worth of a row. Of $B$ buckets,
each of $G$ grades (rounded up to a power of two) gets $B/G$, and the key's hash chooses among those:

$$b = \tfrac{B}{G}\,\text{grade} + \mathrm{pmod}\bigl(\mathrm{xxhash64}(\text{key}),\, \tfrac{B}{G}\bigr)$$

So a plan keeps its form, and costs are learned for each key and grade separately.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.network.qos import ValueQos
from penstock.errors import PenstockError

#: Utilities that a column of utilities is rounded to: from 0 to 1 in equal steps.
LEVELS = 16
#: More grades would leave too few buckets to distinguish keys.
MOST_GRADES = 64


@dataclass(frozen=True)
class Worth:
    """The utility of a row, by the interval that one of its values lies in.

    Values beyond the intervals count with the first or last of them; a missing value counts as the least useful.

    >>> worth = Worth("price", [(0, 50, 0.2), (50, 100, 1.0)])
    >>> worth.utilities, worth.grade(np.array([-3.0, 50.0, 50.1, np.nan])).tolist()
    ((0.2, 1.0), [0, 0, 1, 0])
    >>> Worth("utility").grade(np.array([0.0, 0.001, 0.55, 1.0])).tolist()  # the column holds utilities: in 16 steps
    [0, 1, 8, 15]

    Attributes:
        column: The column with the values.
        intervals: Low end, high end and utility, from low to high, without gaps; each but the first is open at its low
            end. If there are none, the column holds the utility itself, from 0 to 1; values beyond count as 0 or 1.
    """

    column: str
    intervals: Sequence[tuple[float, float, float]] = ()
    ends: tuple[float, ...] = field(default=(), init=False, repr=False, compare=False)  #: between two grades
    utilities: tuple[float, ...] = field(default=(), init=False, repr=False, compare=False)  #: of each grade

    def __post_init__(self) -> None:
        """Refuse intervals that leave gaps, and utilities that are none."""
        if not isinstance(self.column, str) or not self.column:
            raise PenstockError.setting("value", self.column, "the name of a column")
        if isinstance(self.intervals, str) or not isinstance(self.intervals, Sequence):
            raise PenstockError.setting("intervals", self.intervals, "a list such as [(0, 50, 0.2), (50, 100, 1.0)]")
        intervals = tuple(_interval(one) for one in self.intervals)
        for before, after in pairwise(intervals):
            if before[1] != after[0]:
                raise PenstockError.setting(
                    "intervals", list(after[:2]), f"a range that begins at {before[1]!r}, where the last ends"
                )
        if len(intervals) > MOST_GRADES:
            raise PenstockError.setting("intervals", len(intervals), f"at most {MOST_GRADES} intervals")
        if intervals and not any(utility for _, _, utility in intervals):
            raise PenstockError.setting("intervals", list(intervals), "a utility above 0 for some values")
        steps = tuple(number / (LEVELS - 1) for number in range(LEVELS))
        middles = tuple((low + high) / 2.0 for low, high in pairwise(steps))
        # A row with a small positive worth is never rounded to zero.
        rounded = (0.0, *middles[1:])
        object.__setattr__(self, "intervals", intervals)
        object.__setattr__(self, "ends", tuple(high for _, high, _ in intervals[:-1]) if intervals else rounded)
        object.__setattr__(self, "utilities", tuple(one[2] for one in intervals) if intervals else steps)

    @classmethod
    def of(cls, given: Any) -> Self | None:  # noqa: ANN401 - a user's value
        """From what a user gives as value: a column of utilities, a graph, or its parts by name as in a file.

        >>> Worth.of({"column": "price", "intervals": [[0, 50, 0.2], [50, 100, 1.0]]}).column
        'price'
        """
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, ValueQos):
            parts = sorted(given.order, key=lambda part: part.values.low)
            return cls(given.column, [(part.values.low, part.values.high, part.utility) for part in parts])
        if isinstance(given, Mapping) and set(given) <= {"column", "intervals"} and "column" in given:
            return cls(given["column"], given.get("intervals") or ())
        raise PenstockError.setting(
            "value", given, "a column of utilities from 0 to 1, or Worth('price', [(0, 50, 0.2), (50, 100, 1.0)])"
        )

    @property
    def keys(self) -> int:
        """Buckets of each grade, for keys."""
        return BUCKETS >> (len(self.utilities) - 1).bit_length()

    @property
    def grid(self) -> tuple[int, int]:
        """Places for keys, and grades."""
        return self.keys, len(self.utilities)

    @property
    def missing(self) -> int:
        """The grade of a row without a value."""
        return self.utilities.index(min(self.utilities))

    def grade(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The grade of each value."""
        graded = np.searchsorted(np.asarray(self.ends), values, side="left")
        return np.where(np.isnan(values), self.missing, graded).astype(np.int64)

    def strata(self, key_hashes: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Hashes of keys whose low bits, which select the bucket, also have the grade."""
        graded: NDArray[np.int64] = key_hashes & ~np.int64(BUCKETS - self.keys) | self.grade(values) * self.keys
        return graded

    def by_bucket(self) -> NDArray[np.float64]:
        """The utility of a row of each bucket; 0 for buckets that no row has."""
        each = np.zeros(BUCKETS)
        each[: len(self.utilities) * self.keys] = np.repeat(self.utilities, self.keys)
        return each


def _interval(given: object) -> tuple[float, float, float]:
    try:
        low, high, utility = (float(part) for part in given)  # type: ignore[attr-defined]  # refused below if it is none
    except (TypeError, ValueError, OverflowError):
        low, high, utility = math.nan, math.nan, math.nan
    if not (low < high and 0.0 <= utility <= 1.0):
        told = "a list of low end, high end and a utility from 0 to 1, as [(0, 50, 0.2), (50, 100, 1.0)]"
        raise PenstockError.setting("intervals", given, told)
    return low, high, utility
