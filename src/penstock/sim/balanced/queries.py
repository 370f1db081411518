"""Queries like the study's on virtual time: planners and loops as on Spark, which measure, learn and hold a target.

Six queries share two task slots, with capacity for 30 percent of the work. A row's bucket determines its cost and its
worth; costs of buckets are learned from kept rows. Errors are added to what a planner is given, that is, to reports of
costs or to worths. The results of policies are compared with those with exact knowledge and no other task.
"""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from penstock.core.balanced.planner import ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.fairness.members import Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.messages.plan import Plan
from penstock.messages.report import Report
from penstock.sim.balanced.study import ALIKE, ALPHAS, COSTS, ROWS, Node
from penstock.sim.slots import MOST_SLOTS, SharedQuery, share_slots
from penstock.sim.workload import Floats

#: By `Fair`, and with the policy `Balanced`.
PLANNED = ("random", "balance_sic", *ALPHAS)
SHARING, TARGET_S, OVERHEAD_S, RATE = 6, 4.0, 0.3, 200.0
#: How long a run is, and what of it is not measured; how fine its time is cut.
SECONDS, LEARN_S, STEP_S = 80, 40.0, 0.05
#: Classes of a query's rows, by cost and worth; the class of each bucket: a grade has as many of every cost.
_CLASSES, _KEYS = 2 * len(COSTS), BUCKETS // 2
_CLASS = 2 * (np.arange(BUCKETS) % _KEYS % len(COSTS)) + np.arange(BUCKETS) // _KEYS


class Errors(NamedTuple):
    """Factors on what a planner is given, by class of rows; 1 is the truth."""

    costs: Floats = np.ones(SHARING * _CLASSES)
    worths: Floats = np.ones(SHARING * _CLASSES)


NO_ERRORS = Errors()


class _Worths(NamedTuple):
    """Worths by bucket, as a planner is given them."""

    grid: tuple[int, int]
    utilities: Floats

    def by_bucket(self) -> Floats:
        """The utility of a row of each bucket."""
        return self.utilities


class BalancedPlanner(FairPlanner):
    """The planner of a `Fair` with the policy `Balanced`; what it is given may have errors."""

    def __init__(self, policy: Balanced, errors: Errors, *, worths: bool) -> None:
        """Share by this policy; without `worths` all rows of a query are equal."""
        super().__init__(TARGET_S, policy=ByClass(policy))
        self._errors, self._worths = errors, worths

    def join(self, name: str, terms: Terms) -> None:
        """Add a query, by the worths that are given."""
        given: _Worths | None = None
        if self._worths and terms.worth is not None:
            given = _Worths(terms.worth.grid, terms.worth.by_bucket() * _by_bucket(self._errors.worths)[int(name)])
        super().join(name, replace(terms, worth=given))

    def decide(self, name: str, report: Report, now_s: float) -> Plan | None:
        """Decide by the costs that are reported."""
        costs = BucketCosts.from_bytes(report.cost_sketch or b"")
        costs.work_s *= _by_bucket(self._errors.costs)[int(name)]
        return super().decide(name, replace(report, cost_sketch=costs.to_bytes()), now_s)


def planned(
    policy: str | float, given: Node, errors: Errors = NO_ERRORS, walk: Floats | None = None
) -> list[SharedQuery]:
    """Run the node's queries with the planner of a policy, or of `Balanced` with an alpha.

    With a walk, costs of classes are those of each second.
    """
    planner: FairPlanner
    if policy in ("random", "balance_sic"):
        planner = FairPlanner(TARGET_S, policy="random" if policy == "random" else "balance_sic")
    else:
        alpha = ALPHAS.get(policy, math.inf) if isinstance(policy, str) else policy
        planner = BalancedPlanner(Balanced(alpha=alpha), errors, worths=policy != ALIKE)
    queries = _queries(given, given.classes.costs_s[np.newaxis] if walk is None else walk)
    share_slots(planner, queries, SECONDS if walk is None else len(walk), step_s=STEP_S)
    return queries


def delivered(queries: list[SharedQuery], begin_s: float, end_s: float) -> Floats:
    """What each query delivers in batches that end in this time."""
    return np.array([np.mean([one for at_s, one in query.delivered if begin_s < at_s <= end_s]) for query in queries])


def longest_wait_s(queries: list[SharedQuery], begin_s: float, end_s: float) -> float:
    """Mean wait of the query that waits longest, in the same batches."""
    waits_s = ([wait_s for at_s, _, wait_s in query.done if begin_s < at_s <= end_s] for query in queries)
    return float(max(np.mean(one) for one in waits_s))


def _queries(given: Node, costs: Floats) -> list[SharedQuery]:
    """The queries of a node, whose classes of rows lie in buckets; costs by second."""
    factor = MOST_SLOTS * ROWS / (RATE * given.budget_s)
    worths = given.worths.reshape(SHARING, -1, 2)[:, 0]
    found = []
    for number, (low, high) in enumerate(worths.tolist()):
        own = np.array([factor * _by_bucket(one)[number] for one in costs])
        now, grades = own[0].copy(), Worth("value", [(0, 1, low), (1, 2, high)])
        moved = partial(_move, now, own)
        found.append(SharedQuery(str(number), {"source": RATE}, now, overhead_s=OVERHEAD_S, price=moved, worth=grades))
    return found


def _move(costs_s: Floats, by_second: Floats, now_s: float) -> float:
    """The price of rows when a batch begins is always 1: their costs, by bucket, become those of this second."""
    costs_s[:] = by_second[min(int(now_s), len(by_second) - 1)]
    return 1.0


def _by_bucket(by_class: Floats) -> Floats:
    """By query and bucket."""
    return by_class.reshape(SHARING, _CLASSES)[:, _CLASS]
