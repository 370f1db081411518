r"""Sets of values made of intervals: which rows a semantic drop keeps, and as a condition in SQL.

A set is a union of intervals that do not touch. Ends may be open or closed, so that a set and its complement share no
value. Sets are what is pushed upstream: backwards through the inverse of a map, and narrowed by filters.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """All values between two ends.

    >>> print(Interval(0.0, 25.0, high_open=True))
    [0, 25)
    """

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False

    def __post_init__(self) -> None:
        """Refuse ends that are the wrong way round; an end at infinity is open."""
        if math.isnan(self.low) or math.isnan(self.high) or self.low > self.high:
            raise PenstockError.setting("range", [self.low, self.high], "two numbers, the lower one first")
        object.__setattr__(self, "low_open", self.low_open or self.low == -math.inf)
        object.__setattr__(self, "high_open", self.high_open or self.high == math.inf)

    @property
    def empty(self) -> bool:
        """Whether no value lies in it."""
        return self.low == self.high and (self.low_open or self.high_open)

    def __str__(self) -> str:
        """In the usual notation."""
        return f"{'(' if self.low_open else '['}{self.low:g}, {self.high:g}{')' if self.high_open else ']'}"

    def meet(self, other: "Interval") -> "Interval | None":
        """The values in both; None if there are none."""
        low, low_open = max((self.low, self.low_open), (other.low, other.low_open))
        high, high_closed = min((self.high, not self.high_open), (other.high, not other.high_open))
        if low > high:
            return None
        found = Interval(low, high, low_open, not high_closed)
        return None if found.empty else found

    def touches(self, later: "Interval") -> bool:
        """Whether no value lies between it and an interval that begins no lower."""
        return later.low < self.high or (later.low == self.high and not (self.high_open and later.low_open))


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A union of intervals.

    >>> low, high = IntervalSet.of(Interval(0, 10)), IntervalSet.of(Interval(10, 20, low_open=True))
    >>> print(low | high, low & high == IntervalSet(), ~low)
    [0, 20] True (-inf, 0) or (10, inf)
    """

    parts: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, *intervals: Interval) -> Self:
        """The values in any of these."""
        merged: list[Interval] = []
        for part in sorted((one for one in intervals if not one.empty), key=lambda one: (one.low, one.low_open)):
            if merged and merged[-1].touches(part):
                last = merged[-1]
                high, closed = max((last.high, not last.high_open), (part.high, not part.high_open))
                merged[-1] = Interval(last.low, high, last.low_open, not closed)
            else:
                merged.append(part)
        return cls(tuple(merged))

    @classmethod
    def everything(cls) -> Self:
        """All numbers."""
        return cls.of(Interval(-math.inf, math.inf, low_open=True, high_open=True))

    def __or__(self, other: "IntervalSet") -> "IntervalSet":
        """Values in either."""
        return IntervalSet.of(*self.parts, *other.parts)

    def __and__(self, other: "IntervalSet") -> "IntervalSet":
        """Values in both."""
        return IntervalSet.of(*(both for one in self.parts for two in other.parts if (both := one.meet(two))))

    def __invert__(self) -> "IntervalSet":
        """Values in neither."""
        gaps, low, low_open = list[Interval](), -math.inf, True
        for part in self.parts:
            if (low, low_open) != (part.low, part.low_open) and part.low > -math.inf:
                gaps.append(Interval(low, part.low, low_open, not part.low_open))
            low, low_open = part.high, not part.high_open
        if low < math.inf:
            gaps.append(Interval(low, math.inf, low_open, high_open=True))
        return IntervalSet.of(*gaps)

    def __sub__(self, other: "IntervalSet") -> "IntervalSet":
        """Values in this one alone."""
        return self & ~other

    def __str__(self) -> str:
        """In the usual notation."""
        return " or ".join(map(str, self.parts)) or "∅"

    def has(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of the values lie in it."""
        found = np.zeros(len(values), np.bool_)
        for part in self.parts:
            above = values > part.low if part.low_open else values >= part.low
            below = values < part.high if part.high_open else values <= part.high
            found |= above & below
        return found

    def sql(self, column: str) -> str:
        """The condition that a column's value lies in it.

        >>> IntervalSet.of(Interval(25, math.inf, high_open=True)).sql("value")
        'value >= 25'
        """
        return " OR ".join(_condition(part, column) for part in self.parts) or "false"


def union(sets: Iterable[IntervalSet]) -> IntervalSet:
    """Values in any of the sets."""
    return IntervalSet.of(*(part for one in sets for part in one.parts))


def _condition(part: Interval, column: str) -> str:
    if part.low == part.high:
        return f"{column} = {_number(part.low)}"
    ends = []
    if part.low > -math.inf:
        ends.append(f"{column} {'>' if part.low_open else '>='} {_number(part.low)}")
    if part.high < math.inf:
        ends.append(f"{column} {'<' if part.high_open else '<='} {_number(part.high)}")
    if not ends:
        return f"{column} IS NOT NULL"
    return ends[0] if len(ends) == 1 else f"({ends[0]} AND {ends[1]})"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2.0**53 else repr(float(value))
