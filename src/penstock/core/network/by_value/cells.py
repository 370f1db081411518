r"""Cells: sets of values that every output and filter downstream treats alike, with their shares of rows.

Cells are the atoms of the common partition of all sets that matter at a place. A partly dropped cell loses its lower
values: with a keep share $q$, values from $\text{high} - q\,(\text{high} - \text{low})$ on remain. The outputs' graphs
limit an unbounded cell.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from penstock.core.network.intervals import Interval, IntervalSet

#: Shares this close to 0 or 1 are none or all.
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Cell:
    """A set of values, and the share of a place's rows that have them."""

    values: IntervalSet
    share: float


@dataclass(frozen=True, slots=True)
class Judged:
    """An expression over the columns at a place, and the cells of its values."""

    subject: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Predicate:
    """What a semantic drop keeps: rows of an origin for which the subject lies in its set.

    >>> high, low = IntervalSet.of(Interval(75, math.inf, low_open=True)), IntervalSet.of(Interval(-math.inf, 5))
    >>> Predicate("value", {"I1": high, "I2": high}).sql()
    'value > 75'
    >>> Predicate("value", {"I1": high, "I2": low | high}).sql()
    "(penstock_input = 'I1' AND (value > 75)) OR (penstock_input = 'I2' AND (value <= 5 OR value > 75))"

    Rows of other inputs are all kept:

    >>> Predicate("value", {"I1": high}, others=frozenset({"I2"})).sql()
    "(penstock_input = 'I1' AND (value > 75)) OR penstock_input IN ('I2')"
    """

    subject: str  #: an expression over the columns at the place
    #: The sets, by input that rows come from. Rows out of a join come from the side that has the value.
    kept: Mapping[str, IntervalSet]
    others: frozenset[str] = frozenset()  #: inputs whose rows also reach the place, and are not judged there

    def sql(self, origin_column: str = "penstock_input") -> str:
        """The condition on a row; `origin_column` has the name of the input that it comes from."""
        sets = set(self.kept.values())
        if len(sets) == 1 and not self.others:
            return self._condition(sets.pop())
        told = [
            f"({origin_column} = {_text(origin)} AND ({self._condition(values)}))"
            for origin, values in self.kept.items()
            if values.parts
        ]
        if self.others:
            told.append(f"{origin_column} IN ({', '.join(map(_text, sorted(self.others)))})")
        return " OR ".join(told) or "false"

    def _condition(self, values: IntervalSet) -> str:
        return "true" if values == IntervalSet.everything() else values.sql(self.subject)


def atoms(sets: Iterable[IntervalSet]) -> tuple[IntervalSet, ...]:
    """All numbers cut wherever one of the sets begins or ends, from low to high.

    >>> print(*atoms([IntervalSet.of(Interval(0, 10)), IntervalSet.of(Interval(10, 20))]), sep="; ")
    (-inf, 0); [0, 10); [10, 10]; (10, 20]; (20, inf)
    """
    cuts = {(-math.inf, True), (math.inf, False)}  # before a number, or behind it
    for part in (part for one in sets for part in one.parts):
        cuts |= {(part.low, part.low_open), (part.high, not part.high_open)}
    ordered = sorted(cuts)
    return tuple(
        IntervalSet.of(Interval(low, high, behind_low, not behind_high))
        for (low, behind_low), (high, behind_high) in pairwise(ordered)
    )


@dataclass(frozen=True, slots=True)
class Hull:
    """The assumed range of values, which an unbounded cell needs."""

    low: float
    high: float

    def length(self, values: IntervalSet) -> float:
        """How long a set is."""
        return sum(max(min(part.high, self.high) - max(part.low, self.low), 0.0) for part in values.parts)

    def fraction(self, values: IntervalSet, inside: IntervalSet) -> float:
        """The share of a set that lies in another."""
        if not (values - inside).parts:
            return 1.0
        both = values & inside
        whole = self.length(values)
        return self.length(both) / whole if both.parts and whole > 0.0 else 0.5 * bool(both.parts)

    def upper(self, values: IntervalSet, share: float) -> IntervalSet:
        """The upper part of a set, which begins as the whole did.

        >>> hull = Hull(0.0, 100.0)
        >>> print(hull.upper(IntervalSet.of(Interval(-math.inf, 50)), 0.5))
        [25, 50]
        >>> print(hull.upper(IntervalSet.of(Interval(50, math.inf, low_open=True)), 0.5))
        (75, inf)
        """
        whole = self.length(values)
        if share >= 1.0 - _SAME or (whole == 0.0 and share >= 0.5):  # noqa: PLR2004 - the nearer of all and none
            return values
        if share <= _SAME or not 0.0 < whole < math.inf:
            return IntervalSet()
        left = (1.0 - share) * whole
        for part in values.parts:
            low, high = max(part.low, self.low), min(part.high, self.high)
            if left < high - low:
                closed = not part.low_open or part.low < self.low
                cut = float(f"{low + left:.12g}")  # sums of floats have no more exact digits
                return values & IntervalSet.of(Interval(cut, math.inf, low_open=not closed))
            left -= max(high - low, 0.0)
        return IntervalSet()


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
