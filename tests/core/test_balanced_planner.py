"""Queries that share an application by utility, on virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock.core.balanced.planner import POOR_SHARED, ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.density import Classes, allot
from penstock.core.control.planner import SOURCE
from penstock.core.fairness.members import Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.messages.report import Latency, Report

TARGET_S, STEP_S, CAPACITY = 2.0, 0.05, 2.0
WORTH = Worth("value", [(0, 1, 0.1), (1, 2, 1.0)])


@dataclass
class Query:
    """Micro-batches of one query whose rows cost 2, 8 or 32 ms times a factor, by bucket; half are worth a tenth."""

    name: str
    rate: float
    factor: float
    overhead_s: float = 0.3
    keep: np.ndarray = field(default_factory=lambda: np.ones(BUCKETS))
    waiting_s: float = 1.0  #: time whose rows wait
    start_s: float = -1.0
    came_s: float = 0.0
    left_s: float = 0.0
    overhead_left_s: float = 0.0
    number: int = 0
    waits_s: list[tuple[float, float]] = field(default_factory=list)
    delivered: list[tuple[float, float]] = field(default_factory=list)

    @property
    def costs_s(self) -> np.ndarray:
        return self.factor * 0.002 * 4.0 ** (np.arange(BUCKETS) % 3)

    @property
    def rows(self) -> np.ndarray:
        """That came for the batch, by bucket; two grades of 512 buckets each."""
        return np.full(BUCKETS, self.rate * self.came_s / BUCKETS)

    def begin(self, now_s: float) -> None:
        self.came_s, self.start_s, self.waiting_s = self.waiting_s, now_s, 0.0
        self.left_s = float((self.rows * self.keep) @ self.costs_s)
        self.overhead_left_s = self.overhead_s

    def report(self, now_s: float) -> Report:
        self.number += 1
        kept = self.rows * self.keep
        costs = BucketCosts()
        costs.rows += kept
        costs.weight += self.rows
        costs.work_s += kept * self.costs_s
        wait_s = (self.came_s + now_s - self.start_s) / 2.0
        worth = WORTH.by_bucket()
        self.waits_s.append((now_s, wait_s))
        self.delivered.append((now_s, float(self.keep @ worth / worth.sum())))
        rows, rows_kept = round(self.rows.sum()), min(round(kept.sum()), round(self.rows.sum()))
        return Report(
            sequence=self.number,
            start_s=self.start_s,
            end_s=now_s,
            rows_in=rows,
            rows_kept=rows_kept,
            rows_shed={"more": rows - rows_kept} if rows > rows_kept else {},
            busy_s=float(kept @ self.costs_s),
            span_s=max(now_s - self.start_s - self.overhead_s, STEP_S),
            cost_sketch=costs.to_bytes(),
            queuing=Latency(max(rows_kept, 1), wait_s, 2.0 * wait_s),
            boxes={"source": {"rows_in": rows, "rows_out": rows_kept, "busy_s": 0.0}},
        )


def run(queries: list[Query], planner: FairPlanner, seconds: float) -> None:
    for query in queries:
        query.begin(0.0)
    for step in range(round(seconds / STEP_S)):
        now_s = step * STEP_S
        working = [query for query in queries if query.overhead_left_s <= 0.0 and query.left_s > 0.0]
        for query in queries:
            query.waiting_s += STEP_S
            if query.overhead_left_s > 0.0:
                query.overhead_left_s -= STEP_S
            elif query.left_s > 0.0:
                query.left_s -= CAPACITY / len(working) * STEP_S
            else:
                plan = planner.decide(query.name, query.report(now_s), now_s)
                if plan is not None:
                    table = plan.gate(SOURCE)
                    query.keep = np.resize(np.asarray(table.keep), BUCKETS) if table else np.ones(BUCKETS)
                query.begin(now_s)


def three() -> list[Query]:
    """Together twice the work that can be done."""
    return [Query("a", 120.0, 0.5), Query("b", 80.0, 1.0), Query("c", 50.0, 3.0)]


def joined(planner: FairPlanner, queries: list[Query]) -> FairPlanner:
    for query in queries:
        planner.join(query.name, Terms(("source",), worth=WORTH))
    return planner


def mean(pairs: list[tuple[float, float]], after_s: float) -> float:
    return float(np.mean([value for at_s, value in pairs if at_s > after_s]))


def utilities(queries: list[Query]) -> list[float]:
    return [mean(query.delivered, 40.0) for query in queries]


def test_it_delivers_more_to_all_than_equal_shares_of_sources() -> None:
    balanced, fair = three(), three()
    run(balanced, joined(FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha="inf"))), balanced), 120.0)
    run(fair, joined(FairPlanner(TARGET_S), fair), 120.0)
    assert min(utilities(balanced)) > 1.5 * min(utilities(fair))
    assert max(utilities(balanced)) - min(utilities(balanced)) < 0.1
    for query in (*balanced, *fair):
        assert mean(query.waits_s, 40.0) <= TARGET_S


def test_alpha_decides_between_the_mean_and_the_worst() -> None:
    found = {}
    for alpha in (0.0, 1.0, "inf"):
        queries = three()
        run(queries, joined(FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=alpha))), queries), 120.0)
        found[alpha] = utilities(queries)
    assert min(found[0.0]) <= min(found[1.0]) + 0.02 <= min(found["inf"]) + 0.04
    assert np.mean(found[0.0]) >= np.mean(found["inf"])


def test_plans_are_those_of_the_exact_problem_and_keep_floors() -> None:
    queries = three()
    planner = joined(FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=1.0, min_keep=0.02))), queries)
    run(queries, planner, 60.0)
    tables = [planner.plan(query.name).gate(SOURCE) for query in queries]
    assert all(table is not None and table.reasons == (POOR_SHARED,) for table in tables)
    assert min(min(table.keep) for table in tables) >= 0.02
    rows = np.concatenate([np.full(BUCKETS, query.rate / BUCKETS) for query in queries])
    costs_s = np.concatenate([query.costs_s for query in queries])
    worth, query = np.tile(WORTH.by_bucket(), 3), np.repeat(np.arange(3), BUCKETS)
    spent = sum(
        float(np.asarray(t.keep) @ (q.rate / BUCKETS * q.costs_s)) for t, q in zip(tables, queries, strict=True)
    )
    classes = Classes(rows=rows, costs_s=costs_s, utilities=worth, query=query)
    best = allot(classes, spent, alpha=1.0, min_keep=0.02).delivered
    assert [
        float(np.asarray(table.keep) @ worth[:BUCKETS] / worth[:BUCKETS].sum()) for table in tables
    ] == pytest.approx(best.tolist(), abs=0.08)


def test_nothing_is_shed_when_everything_fits() -> None:
    queries = [Query("a", 20.0, 0.5), Query("b", 10.0, 1.0)]
    planner = joined(FairPlanner(TARGET_S, policy=ByClass(Balanced())), queries)
    run(queries, planner, 40.0)
    assert [planner.plan(query.name).gates for query in queries] == [(), ()]
    assert planner.plan("a").policy == "balanced"


def test_an_overload_is_held_back_before_all_its_classes_were_seen() -> None:
    """252 rows of 600 classes: those that were not among them bring most of what comes next."""
    rng = np.random.default_rng(0)
    places, rate = rng.permutation(WORTH.keys)[:300], 63.0

    def drawn(rows: int) -> tuple[np.ndarray, np.ndarray]:
        key = rng.integers(0, 300, rows)
        return rng.integers(0, 2, rows) * WORTH.keys + places[key], 0.006 * 4.0 ** (key % 3)

    planner = joined(FairPlanner(TARGET_S, policy=ByClass(Balanced())), [Query("heavy", rate, 1.0)])
    for number, (start_s, end_s) in enumerate(((0.0, 2.0), (2.0, 5.0))):
        rows = round(2.0 * rate)
        costs = BucketCosts()
        buckets, costs_s = drawn(rows)
        costs.add(buckets, costs_s, np.ones(rows))
        report = Report(
            sequence=number,
            start_s=start_s,
            end_s=end_s,
            rows_in=rows,
            rows_kept=rows,
            busy_s=float(costs_s.sum()),
            span_s=float(costs_s.sum()) / CAPACITY,
            cost_sketch=costs.to_bytes(),
            queuing=Latency(rows, 2.5, 5.0),
            boxes={"source": {"rows_in": rows, "rows_out": rows, "busy_s": 0.0}},
        )
        plan = planner.decide("heavy", report, end_s)
    assert plan is not None
    buckets, costs_s = drawn(100_000)
    kept_per_s = rate * float(np.asarray(plan.gate(SOURCE).keep)[buckets] @ costs_s) / 100_000
    assert kept_per_s == pytest.approx(planner.budget.now_per_s, rel=0.3)


class Keyless(Query):
    """Nothing tells its rows apart: all are in one bucket, and cost the same."""

    @property
    def rows(self) -> np.ndarray:
        rows = np.zeros(BUCKETS)
        rows[0] = self.rate * self.came_s
        return rows


def test_without_key_and_value_the_poorest_is_as_rich_as_by_equal_shares_of_sources() -> None:
    kept = []
    for planner in (FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha="inf"))), FairPlanner(TARGET_S)):
        queries = [Keyless("a", 500.0, 1.0), Keyless("b", 250.0, 2.0), Keyless("c", 250.0, 4.0)]
        for query, importance in zip(queries, (1.0, 1.0, 2.0), strict=True):
            planner.join(query.name, Terms(("source",), importance))
        run(queries, planner, 90.0)
        kept.append([planner.plan(query.name).gate(SOURCE).keep[0] for query in queries])
    balanced, fair = kept
    assert balanced == pytest.approx(fair, rel=0.1)
    assert balanced[2] == pytest.approx(2.0 * balanced[0], rel=0.05)


def test_a_query_whose_rows_are_all_worth_nothing_is_not_starved() -> None:
    """A column that is null, or of another scale: its rows are taken for alike."""
    queries = [Keyless("a", 500.0, 1.0), Keyless("b", 500.0, 1.0), Keyless("c", 500.0, 1.0)]
    planner = FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha="inf")))
    for query, worth in zip(queries, (None, None, Worth("value", [(0, 1, 0.0), (1, 2, 1.0)])), strict=True):
        planner.join(query.name, Terms(("source",), worth=worth))
    run(queries, planner, 60.0)
    kept = [planner.plan(query.name).gate(SOURCE).keep[0] for query in queries]
    assert kept[2] == pytest.approx(kept[0], rel=0.15)
