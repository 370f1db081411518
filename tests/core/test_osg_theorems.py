"""Section 2's example and section 4 of OSG: the greedy bound, its tight example, and the expected estimate.

Theorem 4.2 holds as printed: the makespan of the greedy scheduler is at most 2 - 1/k of the best. It is about rows that
are all there from the start and costs that are known; the example that makes it tight is exact.

Theorem 4.3 holds as printed as well, with three things to know. k there is the number of columns, not of instances. It
is about one hash function, independent for every key. And a sketch of several rows does better than it says: it
answers from the row with the fewest collisions.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.grouping.baselines import FullKnowledge, RoundRobin, SilentInstance
from penstock.core.grouping.machines import Scheduler
from penstock.core.row.cost_sketch import CostSketch
from penstock.sim.osg.queueing import simulate
from penstock.sim.workload import Stream


def exact(instances: int) -> FullKnowledge:
    return FullKnowledge(instances, lambda row, _: row.cost_s or 0.0)


def finish_s(costs_s: list[int], gap_s: float, schedulers: list[Scheduler], instances: int) -> np.ndarray:
    rows = len(costs_s)
    stream = Stream(np.zeros(rows, np.int64), np.array(costs_s, np.float64), np.arange(rows) * gap_s, items=1)
    return simulate(stream, schedulers, [SilentInstance()] * instances)


def makespan_s(costs_s: list[int], instances: int, schedulers: int = 1) -> float:
    """All rows are there at time 0, as in Problem 4.1."""
    return float(finish_s(costs_s, 0.0, [exact(instances) for _ in range(schedulers)], instances).max())


def least_makespan_s(costs_s: list[int], instances: int) -> int:
    """The best of all assignments, by trying them all; the first row may go anywhere."""
    assignments = product(*([range(1)] + [range(instances)] * (len(costs_s) - 1)))
    return min(
        max(sum(cost for cost, at in zip(costs_s, where, strict=True) if at == i) for i in range(instances))
        for where in assignments
    )


# Section 2.


def test_the_worked_example_takes_29_seconds_in_turn_and_21_by_cost() -> None:
    for scheduler, completion_s in ((RoundRobin(2), [10, 1, 18]), (exact(2), [10, 1, 10])):
        taken_s = finish_s([10, 1, 10], 1.0, [scheduler], 2) - np.arange(3)
        assert taken_s.tolist() == completion_s
    assert (sum([10, 1, 18]), sum([10, 1, 10])) == (29, 21)


# Theorem 4.2.


@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 3))
def test_theorem_4_2_greedy_takes_at_most_2_minus_1_over_k_of_the_best(costs_s: list[int], instances: int) -> None:
    assert makespan_s(costs_s, instances) * instances <= (2 * instances - 1) * least_makespan_s(costs_s, instances)


@pytest.mark.parametrize("instances", [1, 2, 3, 5, 11])
def test_the_bound_is_tight(instances: int) -> None:
    """k (k - 1) rows of w/k and then one of w, with w = k: makespan w (2 - 1/k) against w."""
    costs_s = [1] * (instances * (instances - 1)) + [instances]
    assert makespan_s(costs_s, instances) == 2 * instances - 1
    if instances <= 3:
        assert least_makespan_s(costs_s, instances) == instances


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 4))
def test_schedulers_side_by_side_are_worse_by_their_number_at_most(
    costs_s: list[int], instances: int, schedulers: int
) -> None:
    """Each is within 2 - 1/k of the best for its own rows, which is no more than the best for all (section 4.1)."""
    least_s = max(sum(costs_s) / instances, *costs_s)
    bound_s = sum(
        sum(own) / instances + max(own) * (1 - 1 / instances)
        for own in (costs_s[s::schedulers] for s in range(schedulers))
        if own
    )
    assert makespan_s(costs_s, instances, schedulers) <= bound_s + 1e-9
    assert bound_s <= schedulers * (2 - 1 / instances) * least_s + 1e-9


# Theorem 4.3.


def expected_estimate(costs: list[int], v: int, columns: int) -> Fraction:
    """The printed formula: (S - w_v) / (n - 1) - k (S - n w_v) / (n (n - 1)) * (1 - (1 - 1/k)^n)."""
    n, total = len(costs), sum(costs)
    hit = 1 - (1 - Fraction(1, columns)) ** n
    return Fraction(total - costs[v], n - 1) - Fraction(columns * (total - n * costs[v]), n * (n - 1)) * hit


@given(st.lists(st.integers(1, 64), min_size=2, max_size=5), st.integers(1, 4))
def test_theorem_4_3_is_the_mean_over_all_hash_functions(costs: list[int], columns: int) -> None:
    """Every function from keys to columns, each as likely: exactly the printed formula, no correction needed."""
    functions = list(product(range(columns), repeat=len(costs)))
    for v in range(len(costs)):
        estimates = []
        for function in functions:
            together = [cost for cost, column in zip(costs, function, strict=True) if column == function[v]]
            estimates.append(Fraction(sum(together), len(together)))
        assert sum(estimates) / len(estimates) == expected_estimate(costs, v, columns)


@pytest.fixture(scope="module")
def estimates() -> dict[int, np.ndarray]:
    """What sketches with other and other hash functions estimate for 256 keys seen once each, by rows of the sketch."""
    keys, costs = range(256), [key % 64 + 1.0 for key in range(256)]
    found: dict[int, list[np.ndarray]] = {1: [], 4: []}
    for rows, of_seeds in found.items():
        for seed in range(300):
            sketch = CostSketch(rows, columns=54, seed=seed)
            for key, cost in zip(keys, costs, strict=True):
                sketch.update(key, cost)
            of_seeds.append(np.array([sketch.estimate(key) for key in keys]))
    return {rows: np.array(of_seeds) for rows, of_seeds in found.items()}


def test_theorem_4_3_agrees_with_our_hash_functions(estimates: dict[int, np.ndarray]) -> None:
    """Mean over 300 hash functions against the formula, for keys of all costs: within the noise of the mean."""
    costs = [key % 64 + 1 for key in range(256)]
    expected = np.array([float(expected_estimate(costs, v, 54)) for v in range(256)])
    error = estimates[1].mean(axis=0) - expected
    noise = estimates[1].std(axis=0) / np.sqrt(len(estimates[1]))
    assert np.abs(error / noise).max() < 4.5
    assert np.sqrt(np.mean((error / noise) ** 2)) == pytest.approx(1.0, abs=0.2)
    assert expected[0] > 20  # the estimate of the cheapest key: hardly better than the mean of all, 32.5


def test_four_rows_estimate_better_than_theorem_4_3_says_of_one(estimates: dict[int, np.ndarray]) -> None:
    costs = np.arange(256) % 64 + 1.0
    off = {rows: float(np.abs(found.mean(axis=0) - costs).mean()) for rows, found in estimates.items()}
    assert off[4] < 0.9 * off[1]  # nearer by a seventh: 10.9 against 12.7
