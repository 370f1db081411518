import copy
import math
import pickle
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.cost_sketch import CostSketch
from penstock.errors import PenstockError

KEYS = st.integers(-5, 40)
COSTS = st.floats(0, 1e9)
STREAM = st.lists(st.tuples(KEYS, COSTS), max_size=60)
SHAPE = st.tuples(st.integers(1, 5), st.integers(1, 30), st.integers(0, 9))
BAD_COSTS = [math.nan, math.inf, -math.inf, -1e-9]


def filled(stream: list[tuple[int, float]], shape: tuple[int, int, int] = (4, 54, 0)) -> CostSketch:
    sketch = CostSketch(*shape)
    for key, cost in stream:
        sketch.update(key, cost)
    return sketch


def estimates_of(sketch: CostSketch, keys: Iterable[int]) -> np.ndarray:
    return np.array([sketch.estimate(key) for key in keys])


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "columns"),
    [(0.05, 0.1, 4, 54), (0.7, 0.25, 2, 4), (math.e, 0.999, 1, 1), (1, 0.5, 1, 3), (0.001, 0.1, 4, 2718)],
)
def test_the_size_follows_the_wanted_precision(epsilon: float, delta: float, rows: int, columns: int) -> None:
    sketch = CostSketch.sized(epsilon, delta, seed=3)
    assert (sketch.rows, sketch.columns, sketch.seed) == (rows, columns, 3)
    assert sketch.nbytes == 2 * 8 * rows * columns


@pytest.mark.parametrize("epsilon", [0, -1, 2.72, math.nan, math.inf])
def test_epsilon_out_of_range_is_refused(epsilon: float) -> None:
    with pytest.raises(PenstockError, match="epsilon"):
        CostSketch.sized(epsilon, 0.1)


@pytest.mark.parametrize("delta", [0, 1, -1, 2, math.nan])
def test_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(PenstockError, match="delta"):
        CostSketch.sized(0.05, delta)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-12])
def test_a_sketch_too_large_for_memory_is_refused(epsilon: float) -> None:
    with pytest.raises(PenstockError, match=r"at most|would not fit"):
        CostSketch.sized(epsilon, 0.1)


def test_an_empty_sketch_knows_nothing() -> None:
    sketch = CostSketch(4, 54)
    assert sketch.estimate("a") == sketch.mean == sketch.count == 0
    assert sketch.relative_error(sketch.snapshot()) == 0
    assert not sketch.snapshot().any()


def test_the_row_of_smallest_frequency_decides_and_the_first_of_equals() -> None:
    sketch = CostSketch(2, 2, seed=4)
    columns = {key: tuple(sketch.family.columns_of(key)) for key in range(40)}
    key = 0
    beside_in_row_0 = next(k for k, c in columns.items() if c[0] == columns[key][0] and c[1] != columns[key][1])
    beside_in_row_1 = next(k for k, c in columns.items() if c[0] != columns[key][0] and c[1] == columns[key][1])
    sketch.update(key, 1)
    sketch.update(beside_in_row_0, 3)
    assert sketch.estimate(key) == 1
    sketch.update(beside_in_row_1, 7)
    assert sketch.estimate(key) == 2
    sketch.update(beside_in_row_0, 5)
    assert sketch.estimate(key) == 4


@given(STREAM, st.lists(KEYS))
def test_with_room_for_every_key_the_sketch_is_exact(stream: list[tuple[int, float]], asked: list[int]) -> None:
    sketch = filled(stream, (2, 2**20, 1))
    costs = defaultdict(list)
    for key, cost in stream:
        costs[key].append(cost)
    mean = sum(cost for _, cost in stream) / len(stream) if stream else 0
    for key in asked:
        expected = sum(costs[key]) / len(costs[key]) if costs[key] else mean
        assert sketch.estimate(key) == pytest.approx(expected, rel=1e-12)


@given(STREAM, SHAPE, st.lists(KEYS, min_size=1))
def test_estimates_lie_between_the_least_and_the_greatest_cost(
    stream: list[tuple[int, float]], shape: tuple[int, int, int], asked: list[int]
) -> None:
    sketch = filled(stream, shape)
    costs = [cost for _, cost in stream] or [0.0]
    estimates = estimates_of(sketch, asked)
    assert (estimates >= min(costs) * (1 - 1e-12)).all()
    assert (estimates <= max(costs) * (1 + 1e-12)).all()


@given(STREAM, SHAPE)
def test_frequencies_never_undercount(stream: list[tuple[int, float]], shape: tuple[int, int, int]) -> None:
    sketch = filled(stream, shape)
    keys = [key for key, _ in stream]
    for key in keys:
        seen = sketch.frequency[range(sketch.rows), sketch.family.columns_of(key)]
        assert seen.min() >= keys.count(key)
    assert sketch.frequency.sum(axis=1).tolist() == [len(stream)] * sketch.rows
    assert sketch.work.sum(axis=1) == pytest.approx([sketch.total_cost] * sketch.rows)


@pytest.mark.parametrize("cost", BAD_COSTS)
def test_an_impossible_cost_changes_nothing(cost: float) -> None:
    sketch = filled([(1, 2.0)])
    before = copy.copy(sketch)
    with pytest.raises(PenstockError, match="finite"):
        sketch.update(1, cost)
    assert sketch == before


def test_a_refused_key_or_sum_changes_nothing() -> None:
    sketch = filled([(1, 1e250)])
    before = copy.copy(sketch)
    for attempt in (
        lambda: sketch.update(object(), 1.0),
        lambda: sketch.update(1, 1e250),
        lambda: sketch.scale_costs(2),
    ):
        with pytest.raises(PenstockError):
            attempt()
    assert sketch == before


def test_relative_error_by_hand() -> None:
    sketch = CostSketch(1, 2)
    left, right = (next(k for k in range(99) if sketch.family.columns_of(k)[0] == column) for column in (0, 1))
    sketch.update(left, 4)
    before = sketch.snapshot()
    assert before.tolist() == [[4, 0]]
    assert sketch.relative_error(before) == 0
    sketch.update(left, 6)
    sketch.update(right, 3)
    assert sketch.snapshot().tolist() == [[5, 3]]
    assert sketch.relative_error(before) == (1 + 3) / 4
    assert sketch.relative_error(np.zeros((1, 2))) == math.inf
    sketch.reset()
    assert sketch.relative_error(before) == 1


def test_a_snapshot_of_another_shape_is_refused() -> None:
    with pytest.raises(PenstockError, match="snapshot"):
        CostSketch(1, 2).relative_error(np.zeros((2, 1)))


@given(STREAM, SHAPE, st.floats(1e-3, 1e3))
def test_scaling_the_costs_scales_the_estimates(
    stream: list[tuple[int, float]], shape: tuple[int, int, int], factor: float
) -> None:
    sketch = filled(stream, shape)
    keys = range(-5, 45)
    expected = estimates_of(sketch, keys) * factor
    sketch.scale_costs(factor)
    assert estimates_of(sketch, keys) == pytest.approx(expected)
    assert sketch.count == len(stream)


@given(STREAM, SHAPE, st.floats(1e-3, 1))
def test_decay_keeps_the_estimates_and_weighs_new_rows_more(
    stream: list[tuple[int, float]], shape: tuple[int, int, int], factor: float
) -> None:
    sketch = filled(stream, shape)
    keys = range(-5, 45)
    expected = estimates_of(sketch, keys)
    sketch.decay(factor)
    assert estimates_of(sketch, keys) == pytest.approx(expected)
    assert sketch.count == pytest.approx(len(stream) * factor)
    sketch.update(0, 5.0)
    assert sketch.mean == pytest.approx((sum(c for _, c in stream) * factor + 5) / (len(stream) * factor + 1))


def test_what_has_decayed_away_is_forgotten() -> None:
    sketch = filled([(1, 3.0)])
    for _ in range(2000):
        sketch.decay(0.5)
        assert sketch.estimate(1) in (3, 0)
    assert sketch == CostSketch(4, 54)
    sketch = filled([(1, 3.0)])
    sketch.decay(1e-9)
    sketch.update(2, 8.0)
    sketch.decay(1e-4)
    assert (sketch.estimate(1), sketch.estimate(2)) == (sketch.mean, 8)
    sketch.decay(0)
    assert sketch == CostSketch(4, 54)


@pytest.mark.parametrize("factor", BAD_COSTS)
def test_an_impossible_factor_is_refused(factor: float) -> None:
    with pytest.raises(PenstockError, match="factor"):
        CostSketch(1, 1).scale_costs(factor)
    with pytest.raises(PenstockError, match="factor"):
        CostSketch(1, 1).decay(factor)
    with pytest.raises(PenstockError, match="factor"):
        CostSketch(1, 1).decay(1.01)


@given(st.lists(st.tuples(KEYS, st.floats(0, 1e250 / 64)), max_size=60), st.floats(0, 1), st.floats(0, 1e9))
def test_no_history_makes_a_nan_or_a_negative_estimate(
    stream: list[tuple[int, float]], decay: float, scale: float
) -> None:
    sketch = CostSketch(2, 8)
    for key, cost in stream:
        sketch.update(key, cost)
        sketch.decay(decay)
    if sketch.total_cost * scale < 1e249:
        sketch.scale_costs(scale)
    for values in (estimates_of(sketch, range(50)), sketch.snapshot()):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    assert math.isfinite(sketch.relative_error(np.ones((2, 8))))


@given(STREAM, SHAPE)
def test_pickling_and_copying_lose_nothing(stream: list[tuple[int, float]], shape: tuple[int, int, int]) -> None:
    sketch = filled(stream, shape)
    sketch.decay(0.7)
    for twin in (
        pickle.loads(pickle.dumps(sketch)),  # noqa: S301 - these bytes were made in the line itself
        copy.copy(sketch),
        copy.deepcopy(sketch),
    ):
        assert twin == sketch
        twin.update(1, 1.0)
        assert twin != sketch


def test_sketches_are_compared_by_what_they_saw() -> None:
    assert filled([(1, 2.0)]) == filled([(1, 2.0)])
    assert filled([(1, 2.0)]) != filled([(1, 3.0)])
    assert filled([(1, 2.0)]) != filled([(2, 2.0)])
    assert CostSketch(1, 1) != CostSketch(1, 1, seed=1)
    assert CostSketch(1, 1) != 0
    with pytest.raises(TypeError):
        hash(CostSketch(1, 1))


def test_the_matrices_are_live_but_read_only() -> None:
    sketch = CostSketch(1, 1)
    frequency, work = sketch.frequency, sketch.work
    sketch.update("a", 2.5)
    assert (frequency.item(), work.item()) == (1, 2.5)
    for matrix in (frequency, work):
        with pytest.raises(ValueError, match="read-only"):
            matrix[:] = 0
