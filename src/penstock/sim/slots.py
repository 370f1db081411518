"""Queries that share task slots on virtual time, with the loops and the common planner of `Fair` on Spark.

Each query runs micro-batches: a batch contains the rows that came during the previous one and is judged by the newest
plan of its query. It waits for its overhead, and then gets its part of the slots until its work is done. Overheads run
side by side; slots are shared evenly among the batches that work. Rows are counted, not distinguished.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from penstock.core.balanced.worth import Worth
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.planner import SOURCE
from penstock.core.fairness.member_planner import MemberPlanner
from penstock.core.fairness.members import Prefer, Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.core.loop.binding import Planned
from penstock.core.loop.events import BatchEnded
from penstock.messages.report import BoxStatistics, Latency, Report
from penstock.sim.driver import Driver
from penstock.sim.workload import Floats

Level = Callable[[float], float]  #: of something, by the time

#: A query has one task for a slot: no batch gets more slots than there are.
STEP_S, MOST_SLOTS = 0.02, 2.0


@dataclass
class SharedQuery:
    """One query, and the results of its batches."""

    name: str
    rates: dict[str, float]  #: rows a second by source
    #: Work of a row: of any, or by bucket, over which the rows of its only source are then spread.
    cost_s: float | Floats
    importance: float = 1.0  #: a query of importance 2 gets twice the share
    overhead_s: float = 0.4  #: what a batch takes besides work
    must_keep: float = 0.0  #: share of rows that must be kept
    prefer: Prefer = "any"  #: which sources are kept first
    measured: bool = True  #: whether the operator is measured
    outside_s: float = 0.0  #: what a row takes behind the operator, in a sink that only this query writes to
    cold_s: float = 0.0  #: how much longer the first batch takes
    lives_s: tuple[float, float] = (0.0, math.inf)  #: when it begins and ends
    noise: float = 0.0  #: how far an overhead may be from `overhead_s`, as a share of it
    level: Level = lambda _now_s: 1.0  #: of rates, by the time
    seed: int = 0  #: of the noise
    price: Level = lambda _now_s: 1.0  #: of costs, by the time
    worth: Worth | None = None  #: what rows are worth by bucket; all alike if not given
    spread: Floats | None = None  #: the share of its rows in each bucket; even if not given
    #: End, share of the rows kept (the mean over sources) and mean wait of each batch.
    done: list[tuple[float, float, float]] = field(default_factory=list)
    #: End and utility of each batch, of what all its rows are worth.
    delivered: list[tuple[float, float]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)  #: of each batch


def share_slots(
    planner: FairPlanner,
    queries: Iterable[SharedQuery],
    seconds: float,
    *,
    slots: Level = lambda _now_s: MOST_SLOTS,
    late: bool = False,
    step_s: float = STEP_S,
) -> None:
    """Run the queries for this time. If plans are `late` they act on the batch after the next."""
    waiting, alive = list(queries), list[_Running]()
    for step in range(round(seconds / step_s)):
        now_s = step * step_s
        for query in [one for one in waiting if one.lives_s[0] <= now_s]:
            waiting.remove(query)
            alive.append(_Running(query, planner, now_s, late=late))
        for one in [one for one in alive if one.query.lives_s[1] <= now_s]:
            alive.remove(one)
            planner.leave(one.query.name)
        working = sum(one.working for one in alive)
        for one in alive:
            one.step(now_s, step_s, min(slots(now_s) / working, MOST_SLOTS) if working else 0.0)


class _Batch:
    """One batch of a query; its rows are counted by class, that is by source or by bucket."""

    def __init__(
        self, query: SharedQuery, number: int, rows: Floats, kept: Floats, *, came_s: float, at_s: float, fixed_s: float
    ) -> None:
        """Begin with rows that came within `came_s`; `fixed_s` is the overhead that does not depend on them."""
        self.number, self.start_s = number, at_s
        self._query, self._came_s, self._rows, self._kept = query, came_s, rows, kept
        self._costs_s = np.broadcast_to(np.asarray(query.cost_s, np.float64), rows.shape)
        self._price = query.price(at_s)
        self._outside_s = query.outside_s * float(kept.sum())
        self._overhead_s = self.overhead_left_s = fixed_s + self._outside_s
        self.work_left_s = self._work_s

    @property
    def _work_s(self) -> float:
        return float(self._kept @ self._costs_s) * self._price

    def ended(self, now_s: float) -> Report:
        """Note the results with the query, its report among them."""
        query, names = self._query, list(self._query.rates)
        rows, kept = ([round(n) for n in _by_source(one, len(names))] for one in (self._rows, self._kept))
        kept = [min(pair) for pair in zip(kept, rows, strict=True)]
        wait_s = (self._came_s + now_s - self.start_s - self._outside_s) / 2.0
        query.done.append((now_s, float((self._kept / np.maximum(self._rows, 1e-9)).mean()), wait_s))
        if query.worth is not None:
            worth = query.worth.by_bucket()[: len(self._rows)]
            query.delivered.append((now_s, float(self._kept @ worth / max(float(self._rows @ worth), 1e-9))))
        overhead_s = min(self._overhead_s, now_s - self.start_s)
        report = Report(
            sequence=self.number + 1,
            start_s=self.start_s,
            end_s=now_s,
            rows_in=sum(rows),
            rows_kept=sum(kept),
            rows_shed={"more": shed} if (shed := sum(rows) - sum(kept)) else {},
            rows_must_keep=int(query.must_keep * sum(rows)),
            busy_s=float(np.dot(kept, self._costs_s)) * self._price
            if len(kept) == len(self._costs_s)
            else self._work_s,
            span_s=now_s - self.start_s - overhead_s,
            overhead_s=overhead_s,
            cost_sketch=self._sketch() if query.measured else None,
            queuing=Latency(sum(kept), wait_s, 2.0 * wait_s),
            boxes={
                name: BoxStatistics(came, passed, 0.0) for name, came, passed in zip(names, rows, kept, strict=True)
            },
        )
        query.reports.append(report)
        return report

    def _sketch(self) -> bytes:
        """What rows cost by bucket, if they are counted so; of classes by source nothing but that it was measured."""
        if len(self._rows) != BUCKETS:
            return b""
        costs = BucketCosts()
        costs.rows += self._kept
        costs.weight += self._rows
        costs.work_s += self._kept * self._costs_s * self._price
        return costs.to_bytes()


class _Running:
    """A query while it runs: rows that wait, and the batch at work."""

    def __init__(self, query: SharedQuery, planner: FairPlanner, now_s: float, *, late: bool) -> None:
        self.query, self._late = query, late
        terms = Terms(tuple(query.rates), query.importance, query.prefer, query.worth)
        planner.join(query.name, terms)
        self._driver = Driver(MemberPlanner(planner, query.name, nullcontext()), now_s, query=query.name)
        self._rng = np.random.default_rng([query.seed, *query.name.encode()])
        rates = np.array(list(query.rates.values()))
        spread = np.full(BUCKETS, 1.0 / BUCKETS) if query.spread is None else query.spread
        self._rates = rates if np.ndim(query.cost_s) == 0 else rates.sum() * spread
        self._waiting = self._rates * 1.0  # a second's
        self._batch = self._begun(0, now_s - 1.0, now_s)

    @property
    def working(self) -> bool:
        """Whether its batch is at work."""
        return self._batch.overhead_left_s <= 0.0 < self._batch.work_left_s

    def step(self, now_s: float, step_s: float, slots: float) -> None:
        self._waiting += self.query.level(now_s) * self._rates * step_s
        batch = self._batch
        if batch.overhead_left_s > 0.0:
            batch.overhead_left_s -= step_s
        elif batch.work_left_s > 0.0:
            batch.work_left_s -= slots * step_s
        else:
            self._end(batch, now_s)
            self._batch = self._begun(batch.number + 1, batch.start_s, now_s)

    def _begun(self, number: int, since_s: float, now_s: float) -> _Batch:
        """The batch of the rows that came since a time, judged by the newest plan."""
        query = self.query
        rows, self._waiting = self._waiting, np.zeros_like(self._rates)
        plan, _ = self._driver.bind(number, Planned(None, now_s, None))
        table = None if plan is None else plan.gate(SOURCE)
        shares = np.ones(1) if table is None else np.asarray(table.keep)
        shares = query.must_keep + (1.0 - query.must_keep) * shares[np.arange(len(rows)) % len(shares)]
        fixed_s = query.overhead_s * (1.0 + query.noise * self._rng.uniform(-1.0, 1.0))
        fixed_s += 0.0 if number else query.cold_s
        return _Batch(query, number, rows, rows * shares, came_s=now_s - since_s, at_s=now_s, fixed_s=fixed_s)

    def _end(self, batch: _Batch, now_s: float) -> None:
        self._driver.pass_time(now_s)
        if self._late:
            self._driver.look()
        report = batch.ended(now_s)
        self._driver.handle(BatchEnded(now_s, report.sequence, report))
        if not self._late:
            self._driver.look()


def _by_source(rows: Floats, sources: int) -> list[float]:
    """Rows of each source: one class each, or all of the only one."""
    return rows.tolist() if len(rows) == sources else [float(rows.sum())]
