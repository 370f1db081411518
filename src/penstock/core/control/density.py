r"""Utility per unit of work, fair across queries: keep shares of all classes of rows under overload.

Rows of a class $i$ belong to one query and one source, cost $w_i$ and are worth $u_i$. A query's utility is the share
of its sources' worth that is kept, each source counting alike as in THEMIS (section 4):

$$U_q = \frac{1}{|S_q|} \sum_{s \in S_q} \frac{\sum_{i \in s} k_i\, n_i u_i}{\sum_{i \in s} n_i u_i}$$

Of all keep shares $m \le k_i \le 1$ whose work $\sum k_i n_i w_i$ fits the budget, `allot` finds those that maximise
$\sum_q \omega_q\, U_q^{1-\alpha} / (1-\alpha)$ (the logarithm for $\alpha = 1$). This is the sum of utilities for
$\alpha = 0$, the lowest utility for $\alpha = \infty$, and compromises in between.

Inside a query, work goes to the classes with the highest density $d_i$, utility per second of work. So its utility is a
concave line with slopes $d_1 > d_2 > \dots$, and $\omega_q U_q^{-\alpha} d_i$, the gain of another second, falls along
it. At the optimum that is one number $\lambda$ for all queries. With the water level $t = \lambda^{-1/\alpha}$ and
$g_i = (\omega_q d_i)^{1/\alpha}$, the class that begins at utility $a_i$ and ends at $b_i$ is filled until
$\min(\max(t\,g_i, a_i), b_i)$. So the work is a line in $t$ between the knots $a_i / g_i$ and $b_i / g_i$. One sort by
density and a search over knots find $t$ exactly. For $\alpha = \infty$, $g_i = \omega_q$; for $\alpha = 0$ all classes
are filled by falling $\omega_q d_i$.

Classes of one query with the same density get the same share, so that no key is favoured by its number.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.settings import number
from penstock.errors import PenstockError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: No class is shed entirely: weights could not correct it, and its cost would not be learned again.
MIN_KEEP = 0.01
#: Relative differences of densities below this are rounding errors.
_ALIKE = 1e-9
#: An alpha below this counts as 0, because floats cannot distinguish its water levels.
_LEAST_ALPHA = 1e-6
#: Replaces 0 in logarithms.
_LEAST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Kinds of rows, one entry of each array a kind."""

    rows: Floats  #: rows that come
    costs_s: Floats  #: work of one row
    #: Worth of a row; only ratios within a source matter. Equal if not given.
    utilities: Floats | None = None
    query: Ints | None = None  #: number of the query that the rows belong to, from 0; one query if not given
    source: Ints | None = None  #: number of the source, within the query or over all; one a query if not given
    must_rows: Floats | None = None  #: number of must-keep rows
    weights: Floats | None = None  #: importance of each query
    #: The total worth for each query, in the unit of `utilities`, if it includes more than these rows, such as earlier
    #: rows or rows elsewhere. Sources do not matter then: utilities are, for example, SIC.
    whole: Floats | None = None
    held: Floats | None = None  #: utility that each query has from before or elsewhere, as a share of the whole

    def __post_init__(self) -> None:
        """Refuse arrays of other lengths, and numbers that are no amounts."""
        for name in ("rows", "costs_s", "utilities", "must_rows", "weights", "whole", "held"):
            values = getattr(self, name)
            if values is not None and not (np.isfinite(values).all() and (np.asarray(values) >= 0.0).all()):
                raise PenstockError.setting(name, _odd(values), "finite numbers from 0 up")
        for name in ("costs_s", "utilities", "query", "source", "must_rows"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.rows):
                raise PenstockError.setting(name, f"{len(values)} entries", f"{len(self.rows)}, one for each of rows")
        if self.query is not None and len(self.query) and int(self.query.min()) < 0:
            raise PenstockError.setting("query", int(self.query.min()), "numbers of queries from 0 up")
        for name in ("weights", "whole"):
            values = getattr(self, name)
            if values is not None and (len(values) < self.queries or (np.asarray(values) <= 0.0).any()):
                raise PenstockError.setting(name, _odd(values), f"{self.queries} numbers above 0, one a query")
        if self.held is not None and len(self.held) < self.queries:
            raise PenstockError.setting("held", f"{len(self.held)} entries", f"{self.queries}, one a query")

    @property
    def queries(self) -> int:
        """How many queries there are."""
        if self.query is None:
            return 1
        return int(self.query.max()) + 1 if len(self.query) else 0


class Allotment(NamedTuple):
    """What to keep."""

    keep: Floats  #: share of each class's rows to keep, of those that may be shed
    delivered: Floats  #: utility of each query, as a share of the worth of all its rows; 1 if they have no worth
    work_s: float  #: work of kept rows; above the budget only if that of must-keep rows is


def allot(classes: Classes, budget_s: float, *, alpha: float = 1.0, min_keep: float = MIN_KEEP) -> Allotment:
    """The keep shares that are best for the queries, each with its utility, within a budget of work.

    >>> two = Classes(rows=np.array([10.0, 10.0, 10.0]), costs_s=np.array([1.0, 4.0, 4.0]), query=np.array([0, 0, 1]))
    >>> allot(two, 45.0, alpha=0.0, min_keep=0.0).keep.round(3).tolist()  # work goes where it brings most
    [1.0, 0.0, 0.875]
    >>> allot(two, 45.0, alpha=math.inf, min_keep=0.0).delivered.round(3).tolist()  # no query falls behind
    [0.625, 0.625]

    Args:
        classes: Incoming rows.
        budget_s: Work that fits. Must-keep rows and floors come first, even if they alone exceed it.
        alpha: 0 for the highest mean, 1 for proportional fairness, infinity for the highest lowest utility. Up to
            infinity a query's utility counts times its weight; at infinity it is held in proportion to the weight.
        min_keep: The least share that is kept of any class.
    """
    alpha = math.inf if alpha == math.inf else number("alpha", alpha, 0.0)
    min_keep = number("min_keep", min_keep, 0.0, 1.0)
    if math.isnan(budget_s):
        raise PenstockError.setting("budget_s", budget_s, "a number")
    worths, query = _worths(classes), _query(classes)
    must = np.zeros(len(classes.rows)) if classes.must_rows is None else np.minimum(classes.must_rows, classes.rows)
    loose = classes.rows - must
    lines = _Lines.of(query, loose * (1.0 - min_keep), classes.costs_s, worths, classes.weights)
    floor = must + min_keep * loose
    # A row without cost is kept with any budget.
    before = np.zeros(classes.queries) if classes.held is None else np.asarray(classes.held[: classes.queries])
    held = before + _by_query(classes, worths * np.where(classes.costs_s > 0.0, floor, classes.rows))
    room_s = max(budget_s - float(floor @ classes.costs_s), 0.0)
    filled = lines.filled(held, room_s, alpha)
    keep = min_keep + (1.0 - min_keep) * lines.spread(filled, len(loose))
    kept = must + loose * keep
    delivered = before + _by_query(classes, worths * kept)
    if classes.whole is None:
        delivered = np.where(_by_query(classes, worths * classes.rows) > 0.0, np.minimum(delivered, 1.0), 1.0)
    return Allotment(keep, delivered, float(kept @ classes.costs_s))


class _Lines(NamedTuple):
    """The queries' concave lines: pieces in order of query and falling density, alike classes in one piece."""

    order: Ints  #: classes that cost something, by query and falling density
    piece: Ints  #: the piece of each of them
    query: Ints  #: of each piece
    density: Floats  #: utility per second of each piece
    work_s: Floats  #: work that each piece takes if it is kept whole
    weight: Floats  #: of the query of each piece

    @classmethod
    def of(cls, query: Ints, rows: Floats, costs_s: Floats, worths: Floats, weights: Floats | None) -> "_Lines":
        costly = np.flatnonzero(costs_s > 0.0)
        with np.errstate(over="ignore"):
            densities = worths[costly] / costs_s[costly]
            if not (np.isfinite(densities).all() and np.isfinite(rows @ costs_s)):
                raise PenstockError("costs_s and utilities lie too many magnitudes apart: give them in other units")
        # Two sorts by one key each are faster than one by two: queries are small numbers, sorted by their digits.
        by_density = np.argsort(-densities)
        small = query.astype(np.uint16) if query.size and query.max() < 2**16 else query
        by_query = by_density[np.argsort(small[costly][by_density], kind="stable")]
        order, density = costly[by_query], densities[by_query]
        owner = query[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(owner) != 0) | (density[1:] < density[:-1] * (1.0 - _ALIKE))
        starts = np.flatnonzero(new)
        work_s = np.add.reduceat(rows[order] * costs_s[order], starts) if len(starts) else np.zeros(0)
        weight = np.ones(len(starts)) if weights is None else np.asarray(weights, np.float64)[owner[starts]]
        return cls(order, np.cumsum(new) - 1, owner[starts], density[starts], work_s, weight)

    def spread(self, filled: Floats, classes: int) -> Floats:
        """Shares of pieces as shares of classes; classes without cost are kept whole."""
        shares = np.ones(classes)
        shares[self.order] = filled[self.piece]
        return shares

    def filled(self, held: Floats, room_s: float, alpha: float) -> Floats:
        """The fill of each piece, given the utility that queries already have."""
        if float(self.work_s.sum()) <= room_s:
            return np.ones(len(self.work_s))
        worth = self.density > 0.0
        filled = np.zeros(len(worth))
        if room_s == 0.0:
            return filled
        useful_s = float(self.work_s[worth].sum())
        if useful_s <= room_s:  # Rows without worth share the remaining budget equally.
            filled[worth] = 1.0
            filled[~worth] = min((room_s - useful_s) / float(self.work_s[~worth].sum()), 1.0)
            return filled
        useful = _Lines(
            self.order, self.piece, self.query[worth], self.density[worth], self.work_s[worth], self.weight[worth]
        )
        filled[worth] = useful._by_density(room_s) if alpha < _LEAST_ALPHA else useful._by_level(held, room_s, alpha)
        return filled

    def ends(self, held: Floats) -> tuple[Floats, Floats]:
        """The utility that its query has before and after each piece."""
        first = np.ones(len(self.query), np.bool_)
        first[1:] = np.diff(self.query) != 0
        own = np.cumsum(first) - 1
        gains = self.density * self.work_s
        # Each query is summed relative to its own total, or a large one would lose the digits of a small one.
        whole = np.add.reduceat(gains, np.flatnonzero(first))[own]
        gained = np.cumsum(np.divide(gains, whole, out=np.zeros(len(gains)), where=whole > 0.0))
        before = np.concatenate([[0.0], gained[:-1]])
        base = before[first][own]
        start = held[self.query]
        return start + whole * np.maximum(before - base, 0.0), start + whole * (gained - base)

    def _by_density(self, room_s: float) -> Floats:
        """The knapsack: all classes above one density, and a part of those at it."""
        value = self.weight * self.density
        order = np.argsort(-value)
        new = np.ones(len(order), np.bool_)
        new[1:] = value[order][1:] < value[order][:-1] * (1.0 - _ALIKE)
        pool = np.cumsum(new) - 1
        work_s = np.add.reduceat(self.work_s[order], np.flatnonzero(new))
        before_s = np.concatenate([[0.0], np.cumsum(work_s)[:-1]])
        filled = np.empty(len(order))
        filled[order] = _parts(room_s - before_s, work_s)[pool]
        return filled

    def _by_level(self, held: Floats, room_s: float, alpha: float) -> Floats:
        """The water level at which the room is used up, in logarithms: for a low alpha it spans many magnitudes."""
        slopes = _Slopes.of(self, held, alpha)
        used = self.work_s > 0.0
        under, over = -math.inf, float(slopes.last[used].max())
        done_s, left = 0.0, np.flatnonzero(used)
        while True:
            knots = np.concatenate([slopes.first[left], slopes.last[left]])
            knots = knots[(knots > under) & (knots < over)]
            if not knots.size:
                break
            middle = float(np.partition(knots, knots.size // 2)[knots.size // 2])
            work_s = slopes.shares(left, middle) * self.work_s[left]
            if done_s + float(work_s.sum()) < room_s:
                under = middle
                whole = slopes.last[left] <= middle
                done_s += float(work_s[whole].sum())
                left = left[~whole]
            else:
                over = middle
                left = left[(slopes.first[left] < middle) | (slopes.last[left] <= middle)]
        filled = (slopes.last <= under).astype(np.float64)
        # No knot lies between: the level crosses one piece of a query at most, and work is a line in the level. A piece
        # whose utility is too small against its query's total fills at one level, after all others there.
        steep = slopes.first[left] >= over
        crossed, steps = left[~steep], left[steep]
        low, high = slopes.shares(crossed, under), slopes.shares(crossed, over)
        start_s, width_s = float(low @ self.work_s[crossed]), float((high - low) @ self.work_s[crossed])
        rest_s = room_s - done_s - start_s
        part = min(max(rest_s / width_s, 0.0), 1.0) if width_s > 0.0 else 1.0
        filled[crossed] = low + part * (high - low)
        if steps.size:
            filled[steps] = min(max(rest_s - width_s, 0.0) / float(self.work_s[steps].sum()), 1.0)
        # Unexpected rows take no work; they are kept if the level is above them.
        bottom = np.exp(under - over)
        level = over + math.log(max(bottom + part * (1.0 - bottom), _LEAST))
        filled[~used] = slopes.first[~used] <= level
        return filled


class _Slopes(NamedTuple):
    """Where the level meets each piece: its share is 0 at the first level, 1 at the last, a line in between."""

    begin: Floats  #: utility of its query before the piece
    rise: Floats  #: what the piece adds
    gain: Floats  #: logarithm of the utility that its query has at level 1
    first: Floats  #: logarithms of levels
    last: Floats

    @classmethod
    def of(cls, lines: _Lines, held: Floats, alpha: float) -> "_Slopes":
        begin, end = lines.ends(held)
        gain = np.log(lines.weight) if alpha == math.inf else (np.log(lines.weight) + np.log(lines.density)) / alpha
        with np.errstate(divide="ignore"):  # The logarithm of no utility is minus infinity, and right.
            first, last = np.log(begin) - gain, np.log(end) - gain
        return cls(begin, lines.density * lines.work_s, gain, first, last)

    def shares(self, pieces: Ints, level: float) -> Floats:
        """How far pieces are filled at a level, given as its logarithm; those that take no work do not count."""
        inside = (self.first[pieces] < level) & (level < self.last[pieces])
        shares = (self.last[pieces] <= level).astype(np.float64)
        within = pieces[inside]
        shares[inside] = np.clip((np.exp(self.gain[within] + level) - self.begin[within]) / self.rise[within], 0.0, 1.0)
        return shares


def _parts(room: Floats, amounts: Floats) -> Floats:
    """The part of each amount that fits; an amount of 0 fits while capacity is left."""
    parts = (room > 0.0).astype(np.float64)
    return np.divide(np.clip(room, 0.0, amounts), amounts, out=parts, where=amounts > 0.0)


def _by_query(classes: Classes, amounts: Floats) -> Floats:
    sums: Floats = np.bincount(_query(classes), amounts, minlength=classes.queries).astype(np.float64)
    return sums


def _query(classes: Classes) -> Ints:
    return np.zeros(len(classes.rows), np.int64) if classes.query is None else np.asarray(classes.query, np.int64)


def _worths(classes: Classes) -> Floats:
    """What a row adds to its query's utility: its share of its source's worth, over the number of sources."""
    query, rows = _query(classes), np.asarray(classes.rows, np.float64)
    utilities = np.ones(len(rows)) if classes.utilities is None else np.asarray(classes.utilities, np.float64)
    if classes.whole is not None:
        return utilities / np.asarray(classes.whole, np.float64)[query]
    if classes.source is None:
        whole = _by_query(classes, rows * utilities)[query]
        return np.divide(utilities, whole, out=np.zeros(len(rows)), where=whole > 0.0)
    pair = query * (int(classes.source.max(initial=0)) + 1) + classes.source
    _, owner = np.unique(pair, return_inverse=True)
    of_source: Floats = np.bincount(owner, rows * utilities).astype(np.float64)
    of_query = np.zeros(len(of_source), np.int64)
    of_query[owner] = query
    sources = np.bincount(of_query, of_source > 0.0, minlength=classes.queries)  # a source without worth does not count
    whole = of_source[owner] * sources[query]
    return np.divide(utilities, whole, out=np.zeros(len(rows)), where=whole > 0.0)


def _odd(values: Any) -> float:  # noqa: ANN401 - an array, or what was given in its place
    """The first number that is none, for a message; else the least."""
    listed = np.asarray(values, np.float64)
    wrong = listed[~np.isfinite(listed)]
    return float(wrong[0] if len(wrong) else listed.min(initial=0.0))
