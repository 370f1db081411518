"""What one problem for cost, worth and fairness gains over solving one of them, with exact knowledge.

One node, 20 queries. A row costs 1, 4 or 16 by its content, times a factor of its query's between a quarter and four.
Its value lies in one of two intervals, worth 0.1 to 1.0 each, drawn for each query. The node can do 30 percent of the
work that comes. Nothing but the queries is drawn; what is kept is computed exactly, for policies that know all costs
and worths. `queries` runs the planner of Spark on such queries.

The study that the policy was conceived by does not say how factors and worths were drawn. These ranges were chosen
because they come near its numbers.
"""

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.control.density import Allotment, Classes, allot
from penstock.sim.workload import Floats, Ints

QUERIES, COSTS, CAPACITY = 20, (1.0, 4.0, 16.0), 0.3
#: The largest factor on a query's costs; the least is its inverse.
FACTOR = 4.0
#: A query's rows.
ROWS = 600.0
LEVELS = 10

POLICIES = ("random", "balance_sic", "utility_alone", "cost_alone", "alpha_0", "alpha_1", "alpha_2", "max_min")
#: Policies without a planner on Spark: what they deliver is always computed with exact knowledge.
EXACT = ("utility_alone", "cost_alone")
#: Max-min by shares of rows, for worths that are only guessed: it does not look at them.
ALIKE = "max_min_alike"
ALPHAS = {"alpha_0": 0.0, "alpha_1": 1.0, "alpha_2": 2.0, "max_min": math.inf}


@dataclass(frozen=True)
class Node:
    """Queries on one node."""

    classes: Classes  #: kinds of rows, by query, cost and worth
    query: Ints  #: the query of each
    worths: Floats  #: what a row of each is worth
    budget_s: float  #: work that the node can do

    def delivered(self, keep: Floats) -> Floats:
        """Utility of each query, as a share of what all its rows are worth."""
        worth = self.classes.rows * self.worths
        found: Floats = np.bincount(self.query, keep * worth) / np.bincount(self.query, worth)
        return found


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


def kept(policy: str, given: Node) -> Floats:
    """What a policy of `POLICIES` keeps that knows costs and worths exactly; without a floor, as in the study."""
    known, budget_s = given.classes, given.budget_s
    match policy:
        # BALANCE-SIC counts rows, and here all queries send as many: each keeps the same share of any kind of them.
        case "random" | "balance_sic":
            return np.full(len(known.rows), min(budget_s / float(known.rows @ known.costs_s), 1.0))
        case "utility_alone":
            return _in_order(-given.worths, known, budget_s)
        case "cost_alone":
            return _in_order(known.costs_s, known, budget_s)
        case _:
            return best(given, ALPHAS[policy]).keep


def best(given: Node, alpha: float) -> Allotment:
    """The optimum for an alpha, with exact knowledge and no floor: what planners are compared with."""
    return allot(given.classes, given.budget_s, alpha=alpha, min_keep=0.0)


def walk(given: Node, seconds: int, step: float, rng: np.random.Generator) -> Floats:
    """Costs of classes by second, which walk by `step`, the deviation of their logarithm.

    In the middle all costs are permuted among a query's classes: cheap classes may become expensive. All work together
    stays the same.
    """
    costs_s, found = given.classes.costs_s, []
    work_s = float(given.classes.rows @ costs_s)
    for second in range(seconds):
        costs_s = costs_s * np.exp(rng.normal(0.0, step, len(costs_s)))
        if second == seconds // 2:
            queries = costs_s.reshape(int(given.query.max()) + 1, -1)
            costs_s = np.concatenate([rng.permutation(part) for part in queries])
        costs_s = costs_s * work_s / float(given.classes.rows @ costs_s)
        found.append(costs_s)
    return np.array(found)


def _in_order(by: Floats, known: Classes, budget_s: float) -> Floats:
    """Rows in order of a number, those with the same number alike, until the budget is spent."""
    levels, place = np.unique(by, return_inverse=True)
    work_s = np.bincount(place, known.rows * known.costs_s, minlength=len(levels))
    before_s = np.cumsum(work_s) - work_s
    shares: Floats = np.clip((budget_s - before_s) / work_s, 0.0, 1.0)[place]
    return shares
