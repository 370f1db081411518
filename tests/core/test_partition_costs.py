"""What a deal goes by: the shape of costs, how slow each partition is, and what stands out."""

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.grouping.partition_costs import DEAD_BAND, PartitionCosts, cost_table
from penstock.messages.plan import Costs, OwnCost

RNG = np.random.default_rng(7)
COSTS_S = RNG.integers(1, 64, BUCKETS) / 1000.0


def batch(
    factors: NDArray[np.float64], rows: int = 200, noise: float = 0.05, rng: np.random.Generator = RNG
) -> dict[int, BucketCosts]:
    """So many rows of random buckets on each partition."""
    found = {}
    for part, factor in enumerate(factors):
        buckets = rng.integers(0, BUCKETS, rows)
        found[part] = BucketCosts()
        found[part].add(buckets, COSTS_S[buckets] * factor * rng.lognormal(0.0, noise, rows), np.ones(rows))
    return found


def after(batches: int, factors: list[float], **given: float) -> PartitionCosts:
    known, rng = PartitionCosts(len(factors)), np.random.default_rng(3)
    for _ in range(batches):
        known.learn(batch(np.array(factors), rng=rng, **given))  # type: ignore[arg-type]
    return known


def test_alike_partitions_are_taken_for_alike() -> None:
    known = after(20, [1.0] * 4)
    assert known.factors == pytest.approx(np.ones(4), abs=0.02)
    table = cost_table(known.costs("a"))
    assert table.mean(axis=0) / table.mean() == pytest.approx(COSTS_S / COSTS_S.mean(), rel=0.15)


def test_a_slow_partition_is_known_after_a_few_batches_and_does_not_distort_the_shape() -> None:
    assert after(1, [1.5, 1.0, 1.0]).factors.tolist() == [1.0] * 3
    few = after(4, [1.5, 1.0, 1.0]).factors
    assert few[0] > 1.3 * few[1:].max()
    known = after(20, [1.5, 1.0, 1.0])
    factors = known.factors
    assert factors[0] / factors[1:] == pytest.approx(np.full(2, 1.5), rel=0.03)
    table = cost_table(known.costs("a"))
    assert table[0] / table[1] == pytest.approx(np.full(BUCKETS, factors[0] / factors[1]), rel=0.01)


def test_a_change_of_speed_is_followed_at_once() -> None:
    known = after(20, [1.05, 1.0, 0.95])
    rng = np.random.default_rng(4)
    known.learn(batch(np.array([0.8, 1.0, 1.25]), rng=rng))
    known.learn(batch(np.array([0.8, 1.0, 1.25]), rng=rng))
    assert known.factors == pytest.approx(np.array([0.8, 1.0, 1.25]), rel=0.06)


def test_what_makes_all_partitions_slower_changes_no_deal() -> None:
    known = after(20, [1.2, 1.0])
    before = cost_table(known.costs("a"))
    in_force = known.costs("a")
    doubled = {part: BucketCosts() for part in range(2)}
    for part, own in batch(np.array([1.2, 1.0])).items():
        doubled[part].merge(own)
        doubled[part].scale_costs(2.0)
    known.learn(doubled)
    now = cost_table(known.costs("a"))
    assert now.mean() / before.mean() == pytest.approx(2.0, rel=0.05)
    assert now[0, 0] / now[1, 0] == pytest.approx(before[0, 0] / before[1, 0], rel=0.03)
    assert known.news(in_force, "a") is None


def test_a_bucket_that_is_cheap_on_one_partition_gets_a_cost_of_its_own() -> None:
    known = PartitionCosts(2)
    for _ in range(20):
        parts = batch(np.ones(2), rows=400)
        for part, cost_s in ((0, 0.001), (1, 0.030)):  # what it needs lies on the first one
            parts[part].add(np.full(40, 9), np.full(40, cost_s), np.ones(40))
        known.learn(parts)
    own = known.costs("a").own
    assert {(one.partition, one.bucket) for one in own} == {(0, 9), (1, 9)}
    by_partition = {one.partition: one.cost_s for one in own}
    assert by_partition[0] < 0.004
    assert by_partition[1] > 0.022


def test_chance_gives_no_bucket_a_cost_of_its_own() -> None:
    assert after(60, [1.0] * 3, noise=0.5).costs("a").own == ()


def test_news_only_if_a_deal_would_differ() -> None:
    known = PartitionCosts(3)
    assert known.news(None, "a") is None
    known = after(30, [1.0, 1.0, 1.1])
    in_force = known.news(None, "a")
    assert in_force is not None
    assert known.news(in_force, "a") is None
    assert known.news(Costs("a", 2, in_force.cost_s), "a") is not None
    other = tuple(cost_s * (1.0 + 6.0 * DEAD_BAND * (number % 2)) for number, cost_s in enumerate(in_force.cost_s))
    assert known.news(Costs("a", 3, other, in_force.factors), "a") is not None
    assert known.news(Costs("a", 3, in_force.cost_s), "a") is not None


def test_a_plan_is_gone_on_from() -> None:
    learned = after(20, [1.5, 1.0, 1.0]).costs("a")
    known = PartitionCosts.of(learned, 3)
    assert cost_table(known.costs("a")) == pytest.approx(cost_table(learned), rel=0.05)
    assert PartitionCosts.of(learned, 2).costs("a").factors == ()
    assert not PartitionCosts.of(None, 3).known


def test_what_was_measured_elsewhere_or_not_at_all_teaches_nothing() -> None:
    known = PartitionCosts(2)
    measured = batch(np.ones(4))
    known.learn({-1: measured[0], 2: measured[1], 3: measured[2]})
    known.learn({0: BucketCosts()})
    known.learn({})
    assert not known.known
    known.learn({1: measured[1]})  # one partition alone: a shape, and no factors
    assert known.known
    assert known.factors.tolist() == [1.0, 1.0]


def test_very_many_partitions_have_factors_only() -> None:
    known = PartitionCosts(5000)
    for _ in range(4):
        known.learn(batch(np.array([2.0] + [1.0] * 9), rows=50))
    costs = known.costs("a")
    assert costs.own == ()
    assert len(costs.factors) == 5000


@pytest.mark.parametrize("factors", [(), (1.07, 0.93), (1.0, 1.5)])
@pytest.mark.parametrize("own", [(), (OwnCost(0, 9, 0.002), OwnCost(1, 3, 0.4))])
def test_nothing_of_a_plan_is_forgotten(factors: tuple[float, ...], own: tuple[OwnCost, ...]) -> None:
    plan = Costs("a", 2, tuple(COSTS_S.tolist()), factors, own)
    known = PartitionCosts.of(plan, 2)
    table, before = (np.broadcast_to(cost_table(one), (2, BUCKETS)) for one in (known.costs("a"), plan))
    assert table == pytest.approx(before, rel=0.002)
    assert known.news(plan, "a") is None
    again = PartitionCosts.of(known.costs("a"), 2)
    assert again.factors == pytest.approx(known.factors, rel=1e-3)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("scatter", "most"), [(0.05, 1.01), (0.2, 1.06)])
def test_noise_is_not_taken_for_slowness(scatter: float, most: float, restarted: bool) -> None:  # noqa: FBT001 - a parameter
    rng, uneven = np.random.default_rng(1), []
    for _ in range(10):
        known = PartitionCosts(8)
        for _ in range(20):
            if restarted:
                known = PartitionCosts.of(known.costs("a") if known.known else None, 8)
            known.learn(batch(rng.lognormal(0.0, scatter, 8), rng=rng))
            speeds = 1.0 / known.factors
            uneven.append(float(speeds.max() / speeds.mean()))
    assert np.mean(uneven) < most


@pytest.mark.parametrize("restarted", [False, True])
def test_a_slow_partition_is_learned_also_by_one_run_after_the_other(restarted: bool) -> None:  # noqa: FBT001 - a parameter
    known, rng = PartitionCosts(4), np.random.default_rng(1)
    for _ in range(10):
        if restarted:
            known = PartitionCosts.of(known.costs("a") if known.known else None, 4)
        known.learn(batch(np.array([1.5, 1.0, 1.0, 1.0]), rng=rng))
    factors = known.factors
    assert factors[0] / factors[1:].mean() == pytest.approx(1.5, rel=0.1)
