"""Queries like the study's on virtual time: planners and loops as on Spark, which measure, learn and hold a target.

Six queries share two task slots, with capacity for 30 percent of the work. A row's bucket determines its cost and its
worth; costs of buckets are learned from kept rows. The results of policies are compared with those with exact knowledge
and no other task.
"""

from typing import NamedTuple

import numpy as np

from penstock.core.balanced.planner import ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.fairness.jain import jain
from penstock.core.fairness.planner import FairPlanner
from penstock.sim.balanced.study import ALPHAS, CAPACITY, Node
from penstock.sim.slots import MOST_SLOTS, SharedQuery, share_slots

#: By `Fair`, and with the policy `Balanced`.
PLANNED = ("random", "balance_sic", *ALPHAS)
SHARING, TARGET_S, OVERHEAD_S, RATE = 6, 4.0, 0.3, 200.0
#: How long a run is, and what of it is not measured; how fine its time is cut.
SECONDS, LEARN_S, STEP_S = 80.0, 40.0, 0.05


class Delivered(NamedTuple):
    """What a planner reached."""

    mean: float  #: utility of all queries
    worst: float  #: of the one that has least
    jain: float
    wait_s: float  #: mean wait of the query that waits longest


def planned(policy: str, given: Node) -> Delivered:
    """Run the node's queries with a planner."""
    queries = _queries(given)
    alpha = ALPHAS.get(policy)
    if alpha is None:
        planner = FairPlanner(TARGET_S, policy="random" if policy == "random" else "balance_sic")
    else:
        planner = FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=alpha)))
    share_slots(planner, queries, SECONDS, step_s=STEP_S)
    utilities = np.array([np.mean([one for end_s, one in query.delivered if end_s > LEARN_S]) for query in queries])
    waits_s = [np.mean([wait_s for end_s, _, wait_s in query.done if end_s > LEARN_S]) for query in queries]
    return Delivered(float(utilities.mean()), float(utilities.min()), jain(utilities), float(max(waits_s)))


def _queries(given: Node) -> list[SharedQuery]:
    """The queries of a node, whose classes of rows lie in buckets: each grade has as many of every cost."""
    worths, costs = (part.reshape(SHARING, -1, 2) for part in (given.worths, given.classes.costs_s))
    factor = MOST_SLOTS / CAPACITY / (RATE * float(costs.mean(axis=(1, 2)).sum()))
    grades = [Worth("value", [(0, 1, float(low)), (1, 2, float(high))]) for low, high in worths[:, 0]]
    place = np.arange(BUCKETS) % grades[0].keys % costs.shape[1]
    return [
        SharedQuery(str(number), {"source": RATE}, factor * costs[number, place, 0], overhead_s=OVERHEAD_S, worth=worth)
        for number, worth in enumerate(grades)
    ]
