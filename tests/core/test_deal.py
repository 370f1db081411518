"""Dealing rows to partitions: the rule step by step, its bound, and what it must not depend on."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.core.grouping.deal import deal, pour
from penstock.core.hashing import xxhash64_ints

#: Costs and loads in quarters, whose sums are exact.
QUARTERS = st.integers(1, 40).map(lambda number: number / 4)
KEYS = st.lists(st.integers(0, 9), min_size=1, max_size=40)
HASHES = xxhash64_ints(np.arange(10)).astype(np.int64)


def one_by_one(loads: list[float], costs: list[float], rows: int) -> list[int]:
    """Each row to the partition that would finish it first, the first among equals."""
    counts = [0] * len(loads)
    for _ in range(rows):
        done = [load + (count + 1) * cost for load, count, cost in zip(loads, counts, costs, strict=True)]
        counts[done.index(min(done))] += 1
    return counts


def makespan(dealt: NDArray[np.int32], costs: NDArray[np.float64], partitions: int) -> float:
    return float(np.bincount(dealt, costs, minlength=partitions).max())


@given(st.lists(st.tuples(QUARTERS, QUARTERS), min_size=1, max_size=6), st.integers(0, 60))
def test_pouring_is_the_rule_row_by_row(places: list[tuple[float, float]], rows: int) -> None:
    loads, costs = map(list, zip(*places, strict=True))
    assert pour(loads, costs, rows) == one_by_one(loads, costs, rows)


@given(KEYS, st.integers(1, 5), st.integers(0, 7), st.randoms(use_true_random=False))
def test_a_task_run_again_deals_alike_whatever_the_order_of_its_rows(
    keys: list[int], partitions: int, start: int, random: object
) -> None:
    strata, hashes = HASHES[keys], np.arange(len(keys))
    costs = np.arange(1024.0)
    dealt = deal(strata, hashes, costs, partitions, start)
    order = np.arange(len(keys))
    random.shuffle(order)  # type: ignore[attr-defined]  # Hypothesis' own generator
    assert np.array_equal(deal(strata[order], hashes[order], costs, partitions, start), dealt[order])


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=7),
    st.integers(2, 3),
    st.integers(0, 2),
)
def test_the_makespan_stays_within_grahams_bound(costs: list[int], partitions: int, start: int) -> None:
    by_row = np.array(costs, np.float64)
    best = min(
        makespan(np.array(way, np.int32), by_row, partitions) for way in product(range(partitions), repeat=len(costs))
    )
    # Costs are strata of their own, as of a user who knows them.
    dealt = deal(np.array(costs), np.arange(len(costs)), np.arange(16.0), partitions, start)
    assert makespan(dealt, by_row, partitions) <= (4 / 3 - 1 / (3 * partitions)) * best + 1e-9


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.lists(st.integers(1, 4), min_size=2, max_size=3))
def test_the_makespan_on_unequal_partitions_stays_within_twice_the_best(costs: list[int], slow: list[int]) -> None:
    by_row, factors = np.array(costs, np.float64), np.array(slow, np.float64)

    def longest(dealt: NDArray[np.int32]) -> float:
        return float((np.bincount(dealt, by_row, minlength=len(slow)) * factors).max())

    best = min(longest(np.array(way, np.int32)) for way in product(range(len(slow)), repeat=len(costs)))
    dealt = deal(np.array(costs), np.arange(len(costs)), np.outer(factors, np.arange(16.0)), len(slow))
    assert longest(dealt) <= 2 * best + 1e-9


@pytest.mark.parametrize("costs", [np.ones(1), np.full(1024, 0.1), np.zeros(1024)])
@given(keys=KEYS, partitions=st.integers(1, 5), start=st.integers(0, 7))
def test_rows_that_cost_alike_are_dealt_as_round_robin_does(
    costs: NDArray[np.float64], keys: list[int], partitions: int, start: int
) -> None:
    dealt = deal(HASHES[keys], np.arange(len(keys)), costs, partitions, start)
    counts = np.bincount(dealt, minlength=partitions)
    assert counts.max() - counts.min() <= 1
    assert counts.sum() == len(keys)
    assert dealt.min() >= 0


def test_keys_that_share_a_bucket_are_spread_each_for_itself() -> None:
    strata = np.repeat([5, 5 + 1024, 5 + 2048], 40)
    dealt = deal(strata, np.random.default_rng(1).permutation(120), np.ones(1024), 4)
    for stratum in np.unique(strata):
        assert np.bincount(dealt[strata == stratum], minlength=4).tolist() == [10] * 4


def test_what_several_tasks_have_left_over_does_not_pile_up() -> None:
    one_row = np.array([7]), np.array([0]), np.ones(1), 4
    assert [int(deal(*one_row, start)[0]) for start in range(5)] == [0, 1, 2, 3, 0]


def test_a_partition_that_is_slower_gets_less() -> None:
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 1024, 3000)
    costs = rng.uniform(1.0, 64.0, 1024)
    factors = np.array([1.5, 1.0, 1.0])
    dealt = deal(keys, np.arange(3000), np.outer(factors, costs), 3)
    loads = np.bincount(dealt, costs[keys]) * factors
    assert loads.max() / loads.min() < 1.001


def test_no_rows_and_one_partition() -> None:
    none = np.array([], np.int64)
    assert deal(none, none, np.ones(1024), 4).tolist() == []
    assert deal(np.array([1, 2]), np.array([1, 2]), np.ones(1024), 1).tolist() == [0, 0]


def test_a_huge_batch_is_dealt_to_within_a_row() -> None:
    rng = np.random.default_rng(3)
    strata, hashes = rng.integers(-(2**63), 2**63 - 1, (2, 1_000_000))
    costs = rng.uniform(1.0, 64.0, 1024)
    loads = np.bincount(deal(strata, hashes, costs, 64), costs[strata & 1023])
    assert loads.max() - loads.min() < 64.0


@pytest.mark.parametrize("tiny", [0.0, 1e-12])
def test_rows_that_cost_next_to_nothing_are_not_piled_on_one_partition(tiny: float) -> None:
    costs = np.full(1024, tiny)
    costs[0] = 1.0
    dealt = deal(np.arange(400), np.arange(400), costs, 4)
    assert np.bincount(dealt).tolist() == [100] * 4
