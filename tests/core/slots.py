"""Four queries that share two task slots, on virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.core.balanced.planner import ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.fairness.planner import FairPlanner
from penstock.sim.slots import SharedQuery as Query
from penstock.sim.slots import share_slots

Level = Callable[[float], float]  # of something, by the time

TARGET_S = 2.0


def run(
    queries: list[Query],
    seconds: float,
    *,
    capacity: float | Level = 2.0,
    policy: str = "balance_sic",
    late: bool = False,
) -> FairPlanner:
    balanced = FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=math.inf)))
    planner = balanced if policy == "balanced" else FairPlanner(TARGET_S, policy=policy)  # type: ignore[arg-type]
    slots = capacity if callable(capacity) else lambda _now_s: capacity
    share_slots(planner, queries, seconds, slots=slots, late=late)
    return planner


def mixed() -> list[Query]:
    """Four queries with different rates, costs and numbers of sources: 4 s of work a second, capacity for 2."""
    return [
        Query("avg_all", {"a": 200.0, "b": 50.0}, 0.004),
        Query("top_5", {"cpu": 100.0, "memory": 25.0}, 0.008),
        Query("cov", {"x": 60.0, "y": 60.0}, 0.01, overhead_s=0.6),
        Query("count", {"a": 400.0}, 0.002),
    ]


def sic(query: Query, after_s: float) -> float:
    found = [share for end_s, share, _ in query.done if end_s > after_s]
    return sum(found) / len(found)
