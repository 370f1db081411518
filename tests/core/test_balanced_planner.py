"""Queries that share an application by utility, on virtual time."""

from __future__ import annotations

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
from penstock.sim.slots import SharedQuery, share_slots

TARGET_S, STEP_S, CAPACITY = 2.0, 0.05, 2.0
WORTH = Worth("value", [(0, 1, 0.1), (1, 2, 1.0)])


def query(name: str, rate: float, factor: float) -> SharedQuery:
    """Rows cost 2, 8 or 32 ms times a factor, by bucket; half are worth a tenth."""
    costs_s = factor * 0.002 * 4.0 ** (np.arange(BUCKETS) % 3)
    return SharedQuery(name, {"source": rate}, costs_s, overhead_s=0.3, worth=WORTH)


def run(queries: list[SharedQuery], planner: FairPlanner, seconds: float) -> None:
    share_slots(planner, queries, seconds, slots=lambda _now_s: CAPACITY, step_s=STEP_S)


def three() -> list[SharedQuery]:
    """Together twice the work that can be done."""
    return [query("a", 120.0, 0.5), query("b", 80.0, 1.0), query("c", 50.0, 3.0)]


def mean(pairs: list[tuple[float, float]], after_s: float) -> float:
    return float(np.mean([value for at_s, value in pairs if at_s > after_s]))


def utilities(queries: list[SharedQuery]) -> list[float]:
    return [mean(one.delivered, 40.0) for one in queries]


def test_it_delivers_more_to_all_than_equal_shares_of_sources() -> None:
    balanced, fair = three(), three()
    run(balanced, FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha="inf"))), 120.0)
    run(fair, FairPlanner(TARGET_S), 120.0)
    assert min(utilities(balanced)) > 1.5 * min(utilities(fair))
    assert max(utilities(balanced)) - min(utilities(balanced)) < 0.1
    for one in (*balanced, *fair):
        assert mean([(end_s, wait_s) for end_s, _, wait_s in one.done], 40.0) <= TARGET_S


def test_alpha_decides_between_the_mean_and_the_worst() -> None:
    found = {}
    for alpha in (0.0, 1.0, "inf"):
        queries = three()
        run(queries, FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=alpha))), 120.0)
        found[alpha] = utilities(queries)
    assert min(found[0.0]) <= min(found[1.0]) + 0.02 <= min(found["inf"]) + 0.04
    assert np.mean(found[0.0]) >= np.mean(found["inf"])


def test_plans_are_those_of_the_exact_problem_and_keep_floors() -> None:
    queries = three()
    planner = FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha=1.0, min_keep=0.02)))
    run(queries, planner, 60.0)
    tables = [planner.plan(one.name).gate(SOURCE) for one in queries]
    assert all(table is not None and table.reasons == (POOR_SHARED,) for table in tables)
    assert min(min(table.keep) for table in tables) >= 0.02
    rows = np.concatenate([np.full(BUCKETS, one.rates["source"] / BUCKETS) for one in queries])
    costs_s = np.concatenate([one.cost_s for one in queries])
    worth, owner = np.tile(WORTH.by_bucket(), 3), np.repeat(np.arange(3), BUCKETS)
    spent = sum(
        float(np.asarray(t.keep) @ (q.rates["source"] / BUCKETS * q.cost_s))
        for t, q in zip(tables, queries, strict=True)
    )
    classes = Classes(rows=rows, costs_s=costs_s, utilities=worth, query=owner)
    best = allot(classes, spent, alpha=1.0, min_keep=0.02).delivered
    assert [
        float(np.asarray(table.keep) @ worth[:BUCKETS] / worth[:BUCKETS].sum()) for table in tables
    ] == pytest.approx(best.tolist(), abs=0.08)


def test_nothing_is_shed_when_everything_fits() -> None:
    queries = [query("a", 20.0, 0.5), query("b", 10.0, 1.0)]
    planner = FairPlanner(TARGET_S, policy=ByClass(Balanced()))
    run(queries, planner, 40.0)
    assert [planner.plan(one.name).gates for one in queries] == [(), ()]
    assert planner.plan("a").policy == "balanced"


def test_an_overload_is_held_back_before_all_its_classes_were_seen() -> None:
    """252 rows of 600 classes: those that were not among them bring most of what comes next."""
    rng = np.random.default_rng(0)
    places, rate = rng.permutation(WORTH.keys)[:300], 63.0

    def drawn(rows: int) -> tuple[np.ndarray, np.ndarray]:
        key = rng.integers(0, 300, rows)
        return rng.integers(0, 2, rows) * WORTH.keys + places[key], 0.006 * 4.0 ** (key % 3)

    planner = FairPlanner(TARGET_S, policy=ByClass(Balanced()))
    planner.join("heavy", Terms(("source",), worth=WORTH))
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


def keyless(name: str, rate: float, factor: float, importance: float = 1.0, worth: Worth | None = None) -> SharedQuery:
    """Nothing tells its rows apart: all are in one bucket, and cost the same."""
    costs_s, spread = np.full(BUCKETS, 0.002 * factor), np.eye(1, BUCKETS)[0]
    return SharedQuery(name, {"source": rate}, costs_s, importance, overhead_s=0.3, worth=worth, spread=spread)


def test_without_key_and_value_the_poorest_is_as_rich_as_by_equal_shares_of_sources() -> None:
    kept = []
    for planner in (FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha="inf"))), FairPlanner(TARGET_S)):
        queries = [keyless("a", 500.0, 1.0), keyless("b", 250.0, 2.0), keyless("c", 250.0, 4.0, 2.0)]
        run(queries, planner, 90.0)
        kept.append([planner.plan(one.name).gate(SOURCE).keep[0] for one in queries])
    balanced, fair = kept
    assert balanced == pytest.approx(fair, rel=0.1)
    assert balanced[2] == pytest.approx(2.0 * balanced[0], rel=0.05)


def test_a_query_whose_rows_are_all_worth_nothing_is_not_starved() -> None:
    """A column that is null, or of another scale: its rows are taken for alike."""
    nothing = Worth("value", [(0, 1, 0.0), (1, 2, 1.0)])
    queries = [keyless("a", 500.0, 1.0), keyless("b", 500.0, 1.0), keyless("c", 500.0, 1.0, worth=nothing)]
    planner = FairPlanner(TARGET_S, policy=ByClass(Balanced(alpha="inf")))
    run(queries, planner, 60.0)
    kept = [planner.plan(one.name).gate(SOURCE).keep[0] for one in queries]
    assert kept[2] == pytest.approx(kept[0], rel=0.15)
