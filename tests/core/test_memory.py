"""What planners have learned goes through JSON without loss, stays small, and is refused whole if anything is wrong."""

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from penstock.core.balanced.planner import ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.memory import MOST, from_text, to_text
from penstock.core.control.policies import FullKnowledge, LoadAware, RandomShed, Recalling, StrawMan
from penstock.core.control.targets import Deadline, MaxLag, MeanQueueLatency, Target, Throughput
from penstock.core.fairness.members import Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import Latency, Report

SOURCES = ("orders", "clicks")
WORTH = Worth("price", [(0, 50, 0.2), (50, 100, 1.0)])
POLICIES = {
    "any": LoadAware(),
    "cheap": LoadAware(prefer="cheap"),
    "random": RandomShed(),
    "straw_man": StrawMan(mean_cost_s=0.01),
    "full": FullKnowledge(cost_column="cost_s", prefer="cheap"),
    "balanced": Balanced(value=WORTH),
}
TARGETS: dict[str, Target] = {
    "mean": MeanQueueLatency("1 s"),
    "lag": MaxLag("2 s"),
    "rate": Throughput(500),
    "deadline": Deadline(9),
}


class Reports:
    """Batches of a query to which anything may happen."""

    def __init__(self, seed: int, *, measured: bool = True) -> None:
        self.chance, self.measured = random.Random(seed), measured  # noqa: S311 - repeatable on purpose
        self.now_s, self.number, self.rate = 1e9, 0, 400.0

    def next(self) -> Report:
        chance = self.chance
        self.rate *= chance.choice([1.0, 1.0, 1.0, 2.0, 0.5])
        self.rate = min(max(self.rate, 5.0), 5_000.0)
        start_s = self.now_s + chance.choice([0.0, 0.0, 0.3, 30.0])
        rows = int(self.rate * chance.uniform(0.2, 2.0))
        kept = rows if chance.random() < 0.5 else int(rows * chance.random())
        overhead_s, span_s = chance.uniform(0.1, 0.6), kept * chance.uniform(0.002, 0.01)
        self.now_s, self.number = start_s + overhead_s + span_s, self.number + 1
        costs = BucketCosts()
        rng = np.random.default_rng(chance.getrandbits(32))
        costs.add(rng.integers(0, BUCKETS, kept), rng.uniform(0.001, 0.02, kept), rng.uniform(1.0, 4.0, kept))
        wait_s = chance.uniform(0.1, 4.0)
        return Report(
            sequence=self.number,
            start_s=start_s,
            end_s=self.now_s,
            rows_in=rows,
            rows_kept=kept,
            rows_shed={"busy": rows - kept},
            rows_must_keep=min(kept, chance.choice([0, 0, 3])),
            backlog_rows=int(rows * chance.uniform(0.2, 2.0)),
            source_rows_behind=chance.choice([None, 0, rows]),
            busy_s=float(costs.work_s.sum()),
            slots=2,
            span_s=span_s,
            overhead_s=overhead_s,
            delay_s=overhead_s / 2.0,
            lag_s=chance.choice([0.0, 0.1, 1.0]),
            queuing=Latency(kept, wait_s, 2.0 * wait_s) if kept else None,
            cost_sketch=costs.to_bytes() if self.measured else None,
            boxes={name: {"rows_in": rows // 2, "rows_out": kept // 2, "busy_s": 0.0} for name in SOURCES},
        )


def through_json(state: Mapping[str, Any]) -> Mapping[str, Any]:
    return from_text(to_text(json.loads(json.dumps(state))))


def alone(policy: str, target: str = "mean") -> Recalling:
    planner = POLICIES[policy].planner(TARGETS[target])
    assert isinstance(planner, Recalling)
    return planner


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_restored_planner_decides_what_the_first_one_would_have(policy: str, target: str) -> None:
    for seed in range(2):
        reports = Reports(seed, measured=seed % 2 == 0)
        planner: Any = alone(policy, target)
        for _ in range(reports.chance.choice([0, 1, 2, 20])):
            planner.decide(reports.next(), reports.now_s)
        restored: Any = alone(policy, target)
        restored.restore(through_json(planner.save()), reports.now_s)
        for number in range(50):
            report = reports.next()
            assert restored.decide(report, reports.now_s) == planner.decide(report, reports.now_s), (seed, number)
            assert restored.alarms == planner.alarms
        assert restored.save() == planner.save()


def shared(kind: str) -> FairPlanner:
    planner = FairPlanner(1.0) if kind == "fair" else FairPlanner(1.0, policy=ByClass(Balanced(alpha=2)))
    for name in ("a", "b", "c"):
        planner.join(name, Terms(SOURCES))
    return planner


def plans(planner: FairPlanner, reports: Mapping[str, Report]) -> list[Plan | None]:
    return [planner.decide(name, report, report.end_s) for name, report in reports.items()]


@pytest.mark.parametrize("kind", ["fair", "balanced"])
def test_restored_queries_share_work_as_before(kind: str) -> None:
    for seed in range(2):
        planner, queries = shared(kind), {name: Reports(seed + number) for number, name in enumerate("abc")}
        for _ in range(20):
            plans(planner, {name: query.next() for name, query in queries.items()})
        again = shared(kind)
        for name in queries:
            again.restore(name, through_json(planner.save(name)), 2e9)
        for number in range(50):
            reports = {name: query.next() for name, query in queries.items()}
            assert plans(again, reports) == plans(planner, reports), (seed, number)


@pytest.mark.parametrize("policy", ["cheap", "balanced"])
def test_a_memory_does_not_grow_with_batches(policy: str) -> None:
    planner: Any = alone(policy)
    reports, sizes = Reports(1), []
    for _ in range(120):
        planner.decide(reports.next(), reports.now_s)
        sizes.append(len(to_text(planner.save())))
    assert max(sizes[-40:]) <= 1.1 * max(sizes[:80])
    assert 0 < max(sizes) < 48_000 < MOST


def test_a_memory_that_would_be_too_large_is_left_out() -> None:
    assert to_text({"noise": random.Random(0).randbytes(MOST).hex()}) == ""  # noqa: S311 - repeatable on purpose


def changes(state: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    """Every way to make one value of a state a wrong one."""
    found: list[tuple[tuple[str, ...], object]] = []
    for name, value in state.items():
        if isinstance(value, dict):
            found += changes(value, (*path, name))
        found += [((*path, name), wrong) for wrong in ({"x": "y"}, float("nan"), [None])]
    return found


def test_a_damaged_memory_is_refused_and_changes_nothing() -> None:
    planner: Any = alone("cheap")
    reports = Reports(3)
    for _ in range(9):
        planner.decide(reports.next(), reports.now_s)
    state = json.loads(json.dumps(planner.save()))
    other: Any = alone("cheap")
    other.decide(reports.next(), reports.now_s)
    before = other.save()
    wrongs = changes(state)
    assert len(wrongs) > 100
    for path, wrong in [*wrongs, (("known",), {}), (("extra",), 1), (("settings",), "another policy")]:
        damaged = json.loads(json.dumps(state))
        part = damaged
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = wrong
        with pytest.raises(PenstockError):
            other.restore(damaged, reports.now_s)
        assert other.save() == before, path
    other.restore(state, reports.now_s)
    assert other.save() == planner.save()


def test_reports_that_were_learned_from_are_not_learned_from_again() -> None:
    planner: Any = alone("cheap")
    reports = Reports(5)
    known = [reports.next() for _ in range(12)]
    for report in known[:8]:
        planner.decide(report, report.end_s)
    restored: Any = alone("cheap")
    restored.restore(through_json(planner.save()), reports.now_s)
    for report in known[8:]:
        planner.decide(report, report.end_s)
    planned, expected = restored.recall(known, reports.now_s), planner.recall(known, reports.now_s)
    assert planned == expected
    assert restored.save() == planner.save()


@pytest.mark.parametrize("kind", ["fair", "balanced"])
def test_queries_that_are_started_again_share_the_work_that_fits_from_the_first_report_on(kind: str) -> None:
    """Three queries of 400 rows a second each, whose rows wait the longer the more are kept."""

    def report(number: int, kept: float, now_s: float) -> Report:
        rows = int(400 * kept)
        costs = BucketCosts()
        costs.add(np.arange(rows) % BUCKETS, np.full(rows, 0.005), np.full(rows, 1.0 / kept))
        return Report(
            sequence=number,
            start_s=now_s - 1.0,
            end_s=now_s,
            rows_in=400,
            rows_kept=rows,
            rows_shed={"busy": 400 - rows},
            backlog_rows=400,
            busy_s=0.005 * rows,
            span_s=0.8,
            overhead_s=0.2,
            queuing=Latency(rows, 6.0 * kept, 12.0 * kept),
            cost_sketch=costs.to_bytes(),
            boxes={name: {"rows_in": 200, "rows_out": rows // 2, "busy_s": 0.0} for name in SOURCES},
        )

    def shares(planner: FairPlanner, first: int, last: int) -> list[float]:
        found = [1.0, 1.0, 1.0]
        for number in range(first, last):
            for place, name in enumerate("abc"):
                plan = planner.decide(name, report(number, found[place], 1e9 + number), 1e9 + number)
                found[place] = found[place] if plan is None else plan.expected.keep_share if plan.expected else 1.0
        return found

    planner = shared(kind)
    before = shares(planner, 0, 60)
    assert max(before) < 0.8
    restarted, forgetful = shared(kind), shared(kind)
    for name in "abc":
        restarted.restore(name, through_json(planner.save(name)), 1e9 + 70.0)
        assert restarted.recall(name, [], 1e9 + 70.0) is not None
    assert shares(restarted, 71, 72) == pytest.approx(before, rel=0.2)
    first, *_, last = shares(forgetful, 71, 72)
    assert first > 2.0 * last, "without a memory, each learns of the others one by one"
