"""What one problem for cost, worth and fairness gains over solving one of them, and how much survives estimation.

One node, 20 queries. A row costs 1, 4 or 16 by its content, times a factor of its query's between a quarter and four.
Its value lies in one of two intervals, worth 0.1 to 1.0 each, drawn for each query. The node can do 30 percent of the
work that comes. Nothing but the queries is drawn; what is kept is computed exactly.

The study that the policy was conceived by does not say how factors and worths were drawn. These ranges were chosen
because they come near its numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from penstock.core.control.density import MIN_KEEP, Classes, allot
from penstock.core.control.row_costs import REMEMBER

Floats = NDArray[np.float64]

QUERIES, COSTS, CAPACITY = 20, (1.0, 4.0, 16.0), 0.3
#: The largest factor on a query's costs; the least is its inverse.
FACTOR = 4.0
#: A query's rows in a batch, by which costs are learned.
ROWS = 600.0
LEVELS = 10

POLICIES = ("random", "balance_sic", "utility_alone", "cost_alone", "alpha_0", "alpha_1", "alpha_2", "max_min")
#: Max-min by shares of rows, for worths that are only guessed: it does not look at them.
ALIKE = "max_min_alike"
ALPHAS = {"alpha_0": 0.0, "alpha_1": 1.0, "alpha_2": 2.0, "max_min": math.inf}

#: How exactly the work is held, and how wrong all costs together may be.
_PRECISION, _MOST_TIMES = 1e-6, 1e3


@dataclass(frozen=True)
class Node:
    """Queries on one node."""

    classes: Classes  #: kinds of rows, by query, cost and worth
    query: NDArray[np.int64]  #: the query of each
    worths: Floats  #: what a row of each is worth
    budget_s: float  #: work that the node can do

    def delivered(self, keep: Floats) -> Floats:
        """Utility of each query, as a share of what all its rows are worth."""
        worth = self.classes.rows * self.worths
        found: Floats = np.bincount(self.query, keep * worth) / np.bincount(self.query, worth)
        return found

    def work_s(self, keep: Floats) -> float:
        """What keeping these shares takes."""
        return float(keep @ (self.classes.rows * self.classes.costs_s))


def node(run: int, seed: int, queries: int = QUERIES) -> Node:
    """The queries of a run."""
    rng = np.random.default_rng([seed, 90, run])
    factors = FACTOR ** rng.uniform(-1.0, 1.0, queries)
    worths = rng.integers(1, LEVELS + 1, (queries, 2)) / LEVELS
    query, cost, worth = (part.ravel() for part in np.meshgrid(range(queries), COSTS, range(2), indexing="ij"))
    rows = np.full(len(query), ROWS / len(COSTS) / 2)
    costs_s = cost * factors[query]
    each = worths[query, worth]
    classes = Classes(rows=rows, costs_s=costs_s, utilities=each, query=query)
    return Node(classes, query, each, CAPACITY * float(rows @ costs_s))


def kept(policy: str, given: Node, believed: Classes | None = None, budget_s: float | None = None) -> Floats:
    """What a policy keeps that believes rows to be like this; without a floor, as in the study.

    Args:
        policy: One of `POLICIES`, or `ALIKE`.
        given: What comes.
        believed: What the policy takes it for; the truth if not given.
        budget_s: Believed work that it spends; what the node can do if not given.
    """
    known = given.classes if believed is None else believed
    budget_s = given.budget_s if budget_s is None else budget_s
    match policy:
        # BALANCE-SIC counts rows, and here all queries send as many: each keeps the same share of any kind of them.
        case "random" | "balance_sic":
            return np.full(len(known.rows), min(budget_s / float(known.rows @ known.costs_s), 1.0))
        case "utility_alone":
            return _in_order(-given.worths, known, budget_s)
        case "cost_alone":
            return _in_order(known.costs_s, known, budget_s)
        case "max_min_alike":
            return allot(replace(known, utilities=None), budget_s, alpha=math.inf, min_keep=0.0).keep
        case _:
            return allot(known, budget_s, alpha=ALPHAS[policy], min_keep=0.0).keep


def spread_over_alpha(given: Node, alphas: tuple[float, ...]) -> list[tuple[float, float]]:
    """Mean and worst utility as alpha grows."""
    found = [allot(given.classes, given.budget_s, alpha=alpha, min_keep=0.0).delivered for alpha in alphas]
    return [(float(one.mean()), float(one.min())) for one in found]


def with_noise(given: Node, policy: str, noise: float, rng: np.random.Generator, *, of: str = "costs") -> Floats:
    """Utilities when costs, or utilities, are believed with errors of this size, and work is held by feedback.

    Errors are lognormal with a deviation of `noise`. Spent is what rows truly cost: a loop that measures corrects the
    level of all costs until the work fits, but not the errors of one class against another.
    """
    errors = np.exp(rng.normal(0.0, noise, len(given.classes.rows)))
    known = given.classes
    if of == "costs":
        believed = replace(known, costs_s=known.costs_s * errors)
    else:
        believed = replace(known, utilities=given.worths * errors)
    return given.delivered(_that_fits(given, lambda budget_s: kept(policy, given, believed, budget_s)))


class Drifted(NamedTuple):
    """What policies deliver batch by batch, one row a batch and one column a query."""

    learned: Floats  #: by what was learned of costs
    exact: Floats  #: by what they are


def under_drift(given: Node, policy: str, batches: int, step: float, rng: np.random.Generator) -> Drifted:
    """Utilities in batches in which costs walk, and are learned only from rows that were kept.

    In the middle all costs are permuted among a query's classes: cheap classes may become expensive. A batch's rows
    teach what they cost; of the past, 0.9 is remembered, as in `core.control.forecast`, and each class keeps a
    floor.
    """
    classes = given.classes
    costs_s, seen = classes.costs_s.copy(), classes.rows.copy()
    work_s = seen * costs_s
    learned, exact = np.zeros((batches, QUERIES)), np.zeros((batches, QUERIES))
    for batch in range(batches):
        costs_s = costs_s * np.exp(rng.normal(0.0, step, len(costs_s)))
        if batch == batches // 2:
            costs_s = np.concatenate([rng.permutation(part) for part in costs_s.reshape(QUERIES, -1)])
        budget_s = CAPACITY * float(classes.rows @ costs_s)
        true = replace(given, classes=replace(classes, costs_s=costs_s), budget_s=budget_s)
        believed = replace(classes, costs_s=work_s / seen)

        def keep(budget_s: float, true: Node = true, believed: Classes = believed) -> Floats:
            return np.maximum(kept(policy, true, believed, budget_s), MIN_KEEP)

        shares = _that_fits(true, keep)
        learned[batch], exact[batch] = true.delivered(shares), true.delivered(kept(policy, true))
        measured = shares * classes.rows
        seen, work_s = REMEMBER * seen + measured, REMEMBER * work_s + measured * costs_s
    return Drifted(learned, exact)


def _that_fits(given: Node, keep: Callable[[float], Floats]) -> Floats:
    """Shares whose true work fits, by the largest believed budget for which it does."""

    def over_s(budget_s: float) -> float:
        return given.work_s(keep(budget_s)) - given.budget_s

    low, high = 0.0, given.budget_s
    while over_s(high) < 0.0 and high < _MOST_TIMES * given.budget_s:
        low, high = high, 2.0 * high
    if over_s(low) >= 0.0 or over_s(high) <= 0.0:
        return keep(low if over_s(low) >= 0.0 else high)
    return keep(float(brentq(over_s, low, high, rtol=_PRECISION)))


def _in_order(by: Floats, known: Classes, budget_s: float) -> Floats:
    """Rows in order of a number, those with the same number alike, until the budget is spent."""
    levels, place = np.unique(by, return_inverse=True)
    work_s = np.bincount(place, known.rows * known.costs_s, minlength=len(levels))
    before_s = np.cumsum(work_s) - work_s
    shares: Floats = np.clip((budget_s - before_s) / work_s, 0.0, 1.0)[place]
    return shares
