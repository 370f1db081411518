"""What is expected of classes that were hardly seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.balanced.worth import Worth
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts, pooled

WORTH = Worth("value", [(0, 0.5, 0.1), (0.5, 1, 1.0)])
GRID = WORTH.keys, len(WORTH.utilities)


def drawn(rng: np.random.Generator, rows: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Buckets and costs of rows whose key decides on the cost and whose worth is a coin's."""
    key = rng.integers(0, len(places), rows)
    return rng.integers(0, 2, rows) * WORTH.keys + places[key], 4.0 ** (key % 3)


def test_a_class_seen_often_speaks_for_itself() -> None:
    costs = BucketCosts()
    buckets = np.repeat([0, 1, WORTH.keys], [1000, 3000, 6000])
    costs.add(buckets, np.repeat([1.0, 9.0, 4.0], [1000, 3000, 6000]), np.ones(10_000))
    found = pooled(costs, *GRID)
    assert found.costs_s[[0, 1, WORTH.keys]] == pytest.approx([1.0, 9.0, 4.0], rel=0.01)
    assert found.shares[[0, 1, WORTH.keys]] == pytest.approx([0.1, 0.3, 0.6], rel=0.01)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(0, 3000), grades=st.integers(1, 5))
def test_shares_are_of_classes_that_can_be_and_add_up(seed: int, rows: int, grades: int) -> None:
    rng = np.random.default_rng(seed)
    keys = BUCKETS >> (grades - 1).bit_length()
    costs = BucketCosts()
    costs.add(rng.integers(0, grades * keys, rows), rng.lognormal(0.0, 1.0, rows), rng.uniform(1.0, 100.0, rows))
    found = pooled(costs, keys, grades)
    assert found.shares.sum() == pytest.approx(1.0)
    assert (found.shares >= 0.0).all()
    assert not found.shares[grades * keys :].any()
    assert found.costs_s.min() >= 0.0
    assert found.costs_s.max() <= (float((costs.work_s / np.maximum(costs.rows, 1.0)).max()) if rows else 0.0) + 1e-9


@pytest.mark.parametrize("rows", [100, 200, 400, 800])
def test_what_keys_bring_that_nobody_saw_is_foreseen(rows: int) -> None:
    rng = np.random.default_rng(rows)
    places = rng.permutation(WORTH.keys)[:300]
    errors = []
    for _ in range(40):
        costs = BucketCosts()
        buckets, costs_s = drawn(rng, rows, places)
        costs.add(buckets, costs_s, np.ones(rows))
        never = costs.rows.reshape(2, -1).sum(axis=0) == 0.0
        expected = pooled(costs, *GRID).shares.reshape(2, -1)[:, never].sum()
        errors.append(expected - never[places].mean())
    assert abs(np.mean(errors)) < 0.1
    assert np.std(errors) < 0.1


def test_few_rows_tell_the_work_of_all() -> None:
    """A budget that is spent by what is expected is spent in truth, about."""
    rng = np.random.default_rng(3)
    places = rng.permutation(WORTH.keys)[:300]
    costs = BucketCosts()
    buckets, costs_s = drawn(rng, 200, places)
    costs.add(buckets, costs_s, np.ones(200))
    found = pooled(costs, *GRID)
    cheap = found.costs_s <= np.median(found.costs_s[found.shares > 0.0])
    after, after_s = drawn(rng, 100_000, places)
    truth_s = float(after_s[cheap[after]].sum()) / 100_000
    assert float(found.shares[cheap] @ found.costs_s[cheap]) == pytest.approx(truth_s, rel=0.4)
