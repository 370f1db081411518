import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.cost_model import HEAVY_PLACES, CostModel
from penstock.errors import PenstockError

KEYS = st.integers(-3, 300) | st.text(max_size=3)
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.floats(0, 1e6)), max_size=20), max_size=40)
BATCH_ROWS = 16


def learn_all(model: CostModel, keys: list[int], costs: np.ndarray) -> None:
    for start in range(0, len(keys), BATCH_ROWS):
        batch = keys[start : start + BATCH_ROWS]
        model.learn(batch, costs[batch].tolist())


def zipf_keys(rows: int, seed: int) -> list[int]:
    return (np.minimum(np.random.default_rng(seed).zipf(1.4, rows), 2000) - 1).tolist()


@pytest.fixture(scope="module")
def costs() -> np.ndarray:
    return np.random.default_rng(3).integers(1, 64, 2000) / 10_000


def test_nothing_is_known_before_the_first_batch() -> None:
    model = CostModel()
    model.learn([], [])
    assert (model.estimate("a"), model.mean) == (0.0, 0.0)


def test_estimates_of_frequent_keys_are_exact_when_every_key_is_known() -> None:
    model = CostModel()
    known = {f"key {number}": 0.001 * (number + 1) for number in range(HEAVY_PLACES)}
    model.learn(list(known), list(known.values()))
    for _ in range(50):
        model.learn(list(known), list(known.values()))
    for key, cost in known.items():
        assert model.estimate(key) == pytest.approx(cost, rel=1e-9)


def test_estimates_of_frequent_keys_hold_while_strangers_pass_through(costs: np.ndarray) -> None:
    model = CostModel(seed=5)
    learn_all(model, zipf_keys(16_000, seed=5), costs)
    wrong = [abs(model.estimate(key) / costs[key] - 1.0) for key in range(20)]
    # Not exact: rows of unseen keys move the drift factor, and with it every estimate.
    assert max(wrong) < 0.1
    assert float(np.median(wrong)) < 0.05


def test_an_unseen_key_is_taken_to_cost_the_mean(costs: np.ndarray) -> None:
    model = CostModel(seed=5)
    learn_all(model, list(range(2)) * 400, costs)
    assert model.estimate("never seen") == pytest.approx((costs[0] + costs[1]) / 2, rel=0.02)
    assert model.mean == pytest.approx((costs[0] + costs[1]) / 2, rel=0.02)


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_change_of_all_costs_at_once_is_followed_within_twenty_batches(costs: np.ndarray, factor: float) -> None:
    model = CostModel(seed=5)
    learn_all(model, zipf_keys(8000, seed=6), costs)
    learn_all(model, zipf_keys(20 * BATCH_ROWS, seed=7), costs * factor)
    seen = np.median([model.estimate(key) / costs[key] for key in range(20)])
    assert seen == pytest.approx(factor, rel=0.2)
    learn_all(model, zipf_keys(4000, seed=8), costs * factor)
    assert np.median([model.estimate(key) / costs[key] for key in range(20)]) == pytest.approx(factor, rel=0.05)


def test_a_change_of_one_key_is_learned_by_forgetting(costs: np.ndarray) -> None:
    model = CostModel(seed=5)
    learn_all(model, zipf_keys(8000, seed=6), costs)
    changed = costs.copy()
    changed[0] = costs[0] * 8
    learn_all(model, zipf_keys(16_000, seed=7), changed)
    assert model.estimate(0) == pytest.approx(changed[0], rel=0.1)
    assert model.estimate(1) == pytest.approx(changed[1], rel=0.1)


@given(BATCHES)
def test_no_history_makes_an_estimate_negative_or_nan(batches: list[list[tuple[int | str, float]]]) -> None:
    model = CostModel()
    before = model.memory_bytes
    for batch in batches:
        model.learn([key for key, _ in batch], [cost for _, cost in batch])
        for key in ["unseen", *(key for key, _ in batch)]:
            estimate = model.estimate(key)
            assert math.isfinite(estimate)
            assert estimate >= 0.0
        assert math.isfinite(model.mean)
    assert model.memory_bytes == before


def test_free_rows_after_dear_ones_are_followed_down_and_back_up() -> None:
    model = CostModel()
    for cost in (1.0, 0.0, 1.0):
        for _ in range(3000):
            model.learn(["a"] * 4, [cost] * 4)
        assert model.estimate("a") == pytest.approx(cost, abs=0.05)


def test_one_batch_moves_all_estimates_by_a_bounded_factor() -> None:
    model = CostModel()
    model.learn(["a"] * 1000, [1.0] * 1000)
    model.learn(["b"], [1e6])
    assert 1.0 < model.estimate("a") < 1.2


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_a_batch_that_is_refused_leaves_no_trace(cost: float) -> None:
    """A clock that was set back makes a negative cost."""
    model = CostModel()
    model.learn(["a", "b"], [1.0, 3.0])
    with pytest.raises(PenstockError, match=r"^cost = .* is not usable: give a finite number from 0 up$"):
        model.learn(["a", "b"], [cost, 3.0])
    assert [model.estimate(key) for key in ("a", "b", "unseen")] == [1.0, 3.0, 2.0]


def test_as_many_costs_as_keys_are_needed() -> None:
    with pytest.raises(ValueError, match="zip"):
        CostModel().learn(["a", "b"], [1.0])
