r"""The best drops of all, as a linear program.

Rows $x_p$ pass place $p$; of each, $r_{pe}$ reach the split or output $e$ next and cause work $c_p$ on the way. A
branch passes at most the rows that reach its split. Utilities are concave and piecewise linear, so they are sums of
pieces that fill in order. With pieces of length $\ell$ and slope $u$, $F_o$ rows at output $o$ without drops, and a
budget $B$ of work,

$$\max \sum_o \sum_k u_{ok} z_{ok} \quad\text{subject to}\quad \sum_p c_p x_p \le B,
\quad x_b \le \sum_p r_{pe} x_p \text{ for } b \text{ behind } e,
\quad \tfrac{F_o}{100} \sum_k z_{ok} \le \sum_p r_{po} x_p, \quad 0 \le z_{ok} \le \ell_{ok}$$

`max_min` first maximizes the worst output, then the sum. `balanced` maximizes the sum of logarithms of utilities
(proportional fairness): the next row counts twice as much at an output with half the utility. Chords approximate the
logarithm, so that the program stays linear.

A solver's tolerance is absolute. So the program is written in shares. $x_p$ is a share of the rows that pass place $p$
without drops, or of those in the budget if there are fewer. Rows at a split or output are in units of their arrivals,
work in units of the budget. Rates and costs of any size then give the same program.

The reachable utility is concave in $B$, and any mixture of two solutions is feasible. So a road map needs only enough
solutions that the tangents, given by the program's prices, exclude a much better one in between.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from penstock.core.network.drops import Skeleton
from penstock.core.network.model import Network
from penstock.core.settings import one_of
from penstock.errors import PenstockError

Objective = Literal["sum", "balanced", "max_min"]
Floats = NDArray[np.float64]

#: The maximum loss of a mixture of two neighbours, of the mean utility of outputs: three hundredths of a point.
_GAP = 3e-4
#: Programs solved for a road map at most, and for one by max-min or balanced, whose mixtures are judged otherwise.
_MOST_KNOTS, _EVEN_KNOTS = 60, 40
#: A new knot is not nearer to its neighbours than this share of the way.
_NEAREST = 0.1
#: The finest tolerances that the solver takes.
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
#: No share is scaled by less.
_LEAST = 1e-12
#: Where the chords of the logarithm meet, in utility: each is a ninth longer than the one before.
_BENDS = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 65)])


@dataclass(frozen=True)
class Optimum:
    """The best flows within a budget of work."""

    keep: dict[str, float]  #: the keep share of each place; places without a drop are omitted
    delivered: dict[str, float]  #: percent of its rows that each output gets
    utilities: dict[str, float]  #: its utility, by output

    @property
    def utility(self) -> float:
        """Utilities of all outputs, summed."""
        return sum(self.utilities.values())


def best(
    network: Network, budget: float, rates: Mapping[str, float] | None = None, objective: Objective = "sum"
) -> Optimum:
    """The drops that lose the least utility with work of at most `budget` a second.

    >>> from penstock.core.network.model import Box, Input, Output
    >>> from penstock.core.network.qos import LossTolerance
    >>> network = Network(
    ...     [Input("I", 10)],
    ...     [Box("dear", "map", ("I",), 9), Box("cheap", "map", ("I",), 1)],
    ...     [Output("A", "dear", LossTolerance([(100, 1.0), (0, 0.0)])),
    ...      Output("B", "cheap", LossTolerance([(100, 1.0), (0, 0.0)]))],
    ... )
    >>> best(network, budget=55).delivered
    {'A': 50.0, 'B': 100.0}
    """
    one_of("objective", objective, get_args(Objective))
    bones = Skeleton(network, rates)
    program = _Program(bones, objective)
    return _read(bones, program.towards(objective, budget).rows)


def way_down(bones: Skeleton, objective: Objective = "sum") -> Floats:
    """Rows that pass each place, from no drops down to nothing, one row of the array a knot; mixtures are good too."""
    one_of("objective", objective, get_args(Objective))
    program, load = _Program(bones, objective), bones.load
    ends = [_Solution(load, np.array(bones.full[0]), program.whole, 0.0), program.solve(0.0)]
    if objective != "sum":
        budgets = [load * number / _EVEN_KNOTS for number in range(_EVEN_KNOTS - 1, 0, -1)]
        between = [program.towards(objective, budget) for budget in budgets]
        return np.stack([one.rows for one in (ends[0], *between, ends[1])])
    found, most = ends, _GAP * len(bones.network.outputs)
    while len(found) < _MOST_KNOTS:
        room, budget, place = max(
            (*_room(less, more), place) for place, (more, less) in enumerate(pairwise(found), start=1)
        )
        if room <= most:
            break
        found.insert(place, program.solve(budget))
    return np.stack([one.rows for one in found])


@dataclass(frozen=True, slots=True)
class _Solution:
    budget: float
    rows: Floats
    utility: float
    price: float  #: utility for one more unit of work


def _room(less: _Solution, more: _Solution) -> tuple[float, float]:
    """An upper bound of the gain over a mixture, and its budget."""
    width = more.budget - less.budget
    if width <= 0.0:
        return 0.0, more.budget
    chord = (more.utility - less.utility) / width
    rise, fall = max(less.price - chord, 0.0), max(chord - more.price, 0.0)
    if rise + fall <= 0.0:
        return 0.0, more.budget
    share = fall / (rise + fall)
    return share * rise * width, less.budget + width * min(max(share, _NEAREST), 1.0 - _NEAREST)


class _Program:
    """Variables: the rows that pass each place, the pieces of each graph, the worst utility; chords if balanced."""

    def __init__(self, bones: Skeleton, objective: Objective) -> None:
        self._bones = bones
        bends = _BENDS if objective == "balanced" else _BENDS[:0]  # the others do not need them
        outputs = bones.network.outputs
        self._work = np.array(bones.work) * bones.full[0]
        #: The places whose rows reach each end, and their share of its rows without drops.
        self._parts = _parts(bones)
        bounds: list[tuple[float, float | None]] = [(0.0, 1.0 if place.arc is None else None) for place in bones.places]
        self._pieces: list[list[tuple[int, float, float]]] = []  # column, length and worth
        for output in outputs:
            pieces = []
            for (low, bad), (high, good) in pairwise(reversed(tuple(output.loss_tolerance.points))):
                pieces.append((len(bounds), (high - low) / 100.0, good - bad))
                bounds.append((0.0, 1.0))
            self._pieces.append(pieces)
        self._worst = len(bounds)
        bounds.append((0.0, None))
        self._chords = list[int]()
        for _ in outputs if len(bends) else ():
            self._chords.append(len(bounds))
            bounds += [(0.0, length) for length in np.diff(bends).tolist()]
        terms = [(row, *term) for row, line in enumerate(self._lines(len(bends))) for term in line]
        rows, columns, factors = (np.array(part) for part in zip(*terms, strict=True))
        count = 1 + len(self._split()) + (3 if self._chords else 2) * len(outputs)
        self._matrix = coo_array((factors.astype(float), (rows, columns)), shape=(count, len(bounds))).tocsc()
        self._bounds = np.array([(low, np.inf if high is None else high) for low, high in bounds])
        self._limits = np.zeros(count)
        #: Utilities with nothing delivered: no output need be below the worst.
        least = np.array([one.loss_tolerance.utility(0.0) for one in outputs])
        times = 2 if self._chords else 1
        self._limits[count - times * len(outputs) :] = np.tile(least, times)
        self._least = float(least.sum())
        self._goal = np.zeros(len(bounds))
        for column, _, worth in chain(*self._pieces):
            self._goal[column] = -worth
        self.whole = sum(one.loss_tolerance.utility(100.0) for one in outputs)

    def _split(self) -> list[tuple[int, int]]:
        """Places that stand behind a split, and the split."""
        return [(index, end) for index, end in enumerate(self._bones.stands) if end is not None]

    def _lines(self, bends: int) -> Iterator[list[tuple[int, float]]]:
        """The constraints, each as columns and factors: work, splits, outputs, the worst utility, chords."""
        yield list(enumerate(self._work.tolist()))
        for index, end in self._split():
            yield [(index, 1.0), *((feeder, -share) for feeder, share in self._parts[end])]
        for output, pieces in zip(self._bones.network.outputs, self._pieces, strict=True):
            parts = self._parts[self._bones.number[output.name]]
            shortest = max(min(length for _, length, _ in pieces), _LEAST)
            filled = [(column, length / shortest) for column, length, _ in pieces]
            # An output without rows loses nothing.
            yield [*filled, *((feeder, -share / shortest) for feeder, share in parts)] if parts else []
        for pieces in self._pieces:
            yield [*((column, -worth) for column, _, worth in pieces), (self._worst, 1.0)]
        for pieces, first in zip(self._pieces, self._chords, strict=False):
            worths = [(column, -worth) for column, _, worth in pieces]
            yield [*worths, *((first + number, 1.0) for number in range(bends - 1))]

    def towards(self, objective: Objective, budget: float) -> _Solution:
        """The best within the budget, by the sum of utilities or something fairer."""
        if objective != "balanced":
            return self.solve(budget, self.worst(budget) if objective == "max_min" else 0.0)
        # The largest sum of logarithms; the first chord is as steep as the logarithm at its end.
        goal = np.zeros(len(self._goal))
        slopes = np.diff(np.log(np.maximum(_BENDS, _BENDS[1] / math.e))) / np.diff(_BENDS)
        for first in self._chords:
            goal[first : first + len(slopes)] = -slopes
        return self.solve(budget, goal=goal)

    def worst(self, budget: float) -> float:
        """The utility that every output can reach at once."""
        goal = np.zeros(len(self._goal))
        goal[self._worst] = -1.0
        return float(self._solve(goal, budget, 0.0)[0][self._worst])

    def solve(self, budget: float, worst: float = 0.0, goal: Floats | None = None) -> _Solution:
        """The largest sum in which no output is worse off than that, or the best by another goal."""
        found, price = self._solve(self._goal if goal is None else goal, budget, worst * (1.0 - 1e-9))
        return _Solution(budget, self._passing(found), self._least - float(self._goal @ found), price)

    def _most(self, budget: float) -> Floats:
        """The maximum keep share of each place, by the budget and by its incoming rows."""
        most = np.ones(len(self._work))
        np.divide(budget, self._work, out=most, where=self._work > budget)
        return np.maximum(self._within(most), _LEAST)

    def _within(self, shares: Floats) -> Floats:
        """The shares, none above the share that reaches its split."""
        found: list[float] = shares.tolist()
        for parts, branches in zip(self._parts, self._bones.branches, strict=True):
            coming = sum(share * found[one] for one, share in parts)
            for index in branches:
                found[index] = min(found[index], coming)
        return np.array(found)

    def _passing(self, found: Floats) -> Floats:
        """Rows that pass each place, no more than come there."""
        rows: Floats = self._within(np.clip(found[: len(self._work)], 0.0, 1.0)) * self._bones.full[0]
        for index, place in enumerate(self._bones.places):
            if place.arc is None and place.node in self._bones.number:
                # Rows that are admitted but lead nowhere are removed: the program ignores them.
                rows[index] = max(rows[branch] for branch in self._bones.branches[self._bones.number[place.node]])
        return rows

    def _solve(self, goal: Floats, budget: float, worst: float) -> tuple[Floats, float]:
        """The keep shares, the other variables, and the gain of one more unit of work."""
        unit = budget if budget > 0.0 else max(float(self._work.sum()), _LEAST)
        most = np.ones(len(goal))
        most[: len(self._work)] = self._most(unit)
        of_rows = np.ones(len(self._limits))
        of_rows[0] = 1.0 / unit
        for row, (index, _) in enumerate(self._split(), start=1):
            of_rows[row] = 1.0 / most[index]
        limits, bounds = self._limits.copy(), self._bounds / most[:, np.newaxis]
        limits[0], bounds[self._worst, 0] = budget / unit, worst
        steepest = float(np.abs(goal).max()) or 1.0
        matrix = self._matrix.copy()
        matrix.data *= of_rows[matrix.indices]
        matrix.data *= np.repeat(most, np.diff(matrix.indptr))
        found = linprog(
            goal * most / steepest, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs", options=PRECISE
        )
        if found.x is None:
            raise PenstockError(f"the linear program has no solution: {found.message}")
        shares = np.asarray(found.x, np.float64) * most
        if budget <= 0.0:
            shares[: len(self._work)][self._work > 0.0] = 0.0
        return shares, -steepest * float(found.ineqlin.marginals[0]) / unit


def _parts(bones: Skeleton) -> list[list[tuple[int, float]]]:
    """For each end, the places whose rows reach it, and their share of its rows without drops."""
    found: list[list[tuple[int, float]]] = [[] for _ in bones.ends]
    for index, ends in enumerate(bones.reach):
        for end, share in ends:
            if bones.full[1][end] > 0.0:
                found[end].append((index, share * bones.full[0][index] / bones.full[1][end]))
    return found


def _read(bones: Skeleton, rows: Floats) -> Optimum:
    coming, keep = bones.coming(rows).tolist(), {}
    for index, (place, split) in enumerate(zip(bones.places, bones.stands, strict=True)):
        before = bones.rates[place.name] if split is None else coming[split]
        share = min(float(rows[index]) / before, 1.0) if before > 0.0 else 1.0
        if share < 1.0 - 1e-9:
            keep[place.name] = share
    delivered = {name: round(min(percent, 100.0), 9) for name, percent in bones.delivered(coming).items()}
    utilities = {one.name: one.loss_tolerance.utility(delivered[one.name]) for one in bones.network.outputs}
    return Optimum(keep, delivered, utilities)
