"""Queries that share task slots, on virtual time, with a planner in their loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock.core.balanced.planner import ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.control.planner import SOURCE
from penstock.core.fairness.members import Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.messages.report import Latency, Report

Level = Callable[[float], float]  # of something, by the time

STEP_S = 0.02
TARGET_S = 2.0


@dataclass
class Query:
    """Micro-batches of one query: each takes in what came while the one before it ran."""

    name: str
    rates: dict[str, float]
    cost_s: float
    importance: float = 1.0
    overhead_s: float = 0.4
    must_keep: float = 0.0
    prefer: str = "any"
    measured: bool = True
    outside_s: float = 0.0  # a row's time behind the operator, in a sink that only this query writes to
    cold_s: float = 0.0  # how much longer its first batch takes
    lives_s: tuple[float, float] = (0.0, math.inf)  # when it begins and ends
    noise: float = 0.0  # how far an overhead may be from the mean, as a share of it
    level: Level = lambda _now_s: 1.0  # of rates
    seed: int = 0
    price: Level = lambda _now_s: 1.0  # of costs
    shares: list[float] = field(default_factory=list)
    next_shares: list[float] = field(default_factory=list)
    waiting: dict[str, float] = field(default_factory=dict)
    done: list[tuple[float, float, float]] = field(default_factory=list)  # end, SIC, mean wait
    number: int = 0
    start_s: float = 0.0
    came_s: float = 0.0
    left_s: float = 0.0
    overhead_left_s: float = 0.0
    batch_cost_s: float = 0.0
    fixed_s: float = 0.0
    rows: dict[str, float] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, *self.name.encode()])

    def begin(self, now_s: float) -> None:
        self.came_s, self.start_s = now_s - self.start_s, now_s
        self.rows, self.waiting = self.waiting, dict.fromkeys(self.rates, 0.0)
        shares = [self.must_keep + (1.0 - self.must_keep) * share for share in self.shares]
        self.kept = {name: rows * share for (name, rows), share in zip(self.rows.items(), shares, strict=True)}
        self.batch_cost_s = self.cost_s * self.price(now_s)
        self.left_s = sum(self.kept.values()) * self.batch_cost_s
        self.fixed_s = self.overhead_s * (1.0 + self.noise * self.rng.uniform(-1.0, 1.0))
        self.fixed_s += 0.0 if self.number else self.cold_s
        self.overhead_left_s = self.fixed_s + self.outside_s * sum(self.kept.values())

    def report(self, now_s: float) -> Report:
        rows = {name: round(rows) for name, rows in self.rows.items()}
        kept = {name: min(round(self.kept[name]), rows[name]) for name in rows}
        self.number += 1
        outside_s = self.outside_s * sum(self.kept.values())
        wait_s = (self.came_s + now_s - self.start_s - outside_s) / 2.0
        share = sum(self.kept[name] / max(self.rows[name], 1e-9) for name in rows) / len(rows)
        self.done.append((now_s, share, wait_s))
        overhead_s = min(self.fixed_s + outside_s, now_s - self.start_s)
        return Report(
            sequence=self.number,
            start_s=self.start_s,
            end_s=now_s,
            rows_in=sum(rows.values()),
            rows_kept=sum(kept.values()),
            rows_shed={"more": shed} if (shed := sum(rows.values()) - sum(kept.values())) else {},
            rows_must_keep=int(self.must_keep * sum(rows.values())),
            busy_s=sum(kept.values()) * self.batch_cost_s,
            span_s=now_s - self.start_s - overhead_s,
            overhead_s=overhead_s,
            cost_sketch=b"" if self.measured else None,
            queuing=Latency(sum(kept.values()), wait_s, 2.0 * wait_s),
            boxes={name: {"rows_in": rows[name], "rows_out": kept[name], "busy_s": 0.0} for name in rows},
        )


def run(
    queries: list[Query],
    seconds: float,
    *,
    capacity: float | Level = 2.0,
    policy: str = "balance_sic",
    late: bool = False,
) -> FairPlanner:
    """Batches share the slots evenly while they work; what they spend on planning they spend side by side.

    If plans are late they act on the batch after the next, as with a query that starts the next one at once.
    """
    balanced = FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=math.inf)))
    planner = balanced if policy == "balanced" else FairPlanner(TARGET_S, policy=policy)  # type: ignore[arg-type]
    slots = capacity if callable(capacity) else lambda _now_s: capacity
    waiting, alive = list(queries), list[Query]()
    for step in range(round(seconds / STEP_S)):
        now_s = step * STEP_S
        for query in [one for one in waiting if one.lives_s[0] <= now_s]:
            waiting.remove(query)
            alive.append(query)
            planner.join(query.name, Terms(tuple(query.rates), query.importance, query.prefer))  # type: ignore[arg-type]
            query.shares = query.next_shares = [1.0] * len(query.rates)
            query.waiting = {name: rate * 1.0 for name, rate in query.rates.items()}
            query.start_s = now_s - 1.0
            query.begin(now_s)
        for query in [one for one in alive if one.lives_s[1] <= now_s]:
            alive.remove(query)
            planner.leave(query.name)
        working = [query for query in alive if query.overhead_left_s <= 0.0 and query.left_s > 0.0]
        for query in alive:
            for name, rate in query.rates.items():
                query.waiting[name] += query.level(now_s) * rate * STEP_S
            if query.overhead_left_s > 0.0:
                query.overhead_left_s -= STEP_S
            elif query.left_s > 0.0:
                query.left_s -= min(slots(now_s) / len(working), 2.0) * STEP_S
            else:
                plan = planner.decide(query.name, query.report(now_s), now_s)
                query.shares = query.next_shares
                if plan is not None:
                    table = plan.gate(SOURCE)
                    query.next_shares = list(table.keep[: len(query.rates)]) if table else [1.0] * len(query.rates)
                if not late:
                    query.shares = query.next_shares
                query.begin(now_s)
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
