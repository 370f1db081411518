"""The two parts of a batch's time, told apart through noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.control.capacity import Capacity

TIMES = st.floats(0.0, 1e4)
ROWS = st.integers(0, 10**7)


def learned(
    batches: list[int], *, fixed_s: float, row_s: float, noise: float = 0.0, cold_s: float = 10.0, seed: int = 0
) -> Capacity:
    """What is known after batches of so many rows, the first of which was cold."""
    rng, time = np.random.default_rng(seed), Capacity()
    for number, rows in enumerate(batches):
        took_s = (fixed_s + row_s * rows) * (1.0 + noise * rng.uniform(-1.0, 1.0))
        time.learn(rows, took_s if number else took_s + cold_s)
    return time


@given(batches=st.lists(st.tuples(ROWS, TIMES), max_size=30))
def test_whatever_happens_both_parts_are_numbers_from_zero_up(batches: list[tuple[int, float]]) -> None:
    time = Capacity()
    for rows, took_s in batches:
        time.learn(rows, took_s)
        values = np.array([time.overhead_s, time.unit_s, time.doubt_s, time.expected_s(rows)])
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()
        assert time.overhead_s <= max(one for _, one in batches) * 2.0 + 1e-6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("fixed_s", "row_s"), [(0.4, 0.005), (3.1, 0.0), (0.2, 0.02), (1.0, 0.001)])
def test_both_parts_are_found_if_rows_vary(fixed_s: float, row_s: float, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(20, 600, 40).tolist()
    time = learned(rows, fixed_s=fixed_s, row_s=row_s, noise=0.1, seed=seed)
    whole_s = fixed_s + 300 * row_s
    assert abs(time.overhead_s - fixed_s) < 0.15 * whole_s
    assert abs(time.expected_s(300) - whole_s) < 0.15 * whole_s
    assert time.doubt_s < 0.2 * whole_s


def test_a_cold_first_batch_is_neither_a_cost_of_rows_nor_a_lasting_one() -> None:
    first = learned([300], fixed_s=0.3, row_s=0.001, cold_s=16.0)
    assert (first.unit_s, first.doubt_s) == (0.0, first.overhead_s)
    assert learned([300, 300], fixed_s=0.3, row_s=0.001, cold_s=16.0).expected_s(300) == pytest.approx(0.6)


def test_rows_that_do_not_vary_leave_the_division_in_doubt_and_the_length_certain() -> None:
    time = learned([200] * 20, fixed_s=1.0, row_s=0.005, noise=0.1)
    assert time.expected_s(200) == pytest.approx(2.0, rel=0.1)
    assert time.doubt_s > 0.3


def test_one_batch_far_off_is_believed_in_part_and_two_are_believed() -> None:
    rows = [100, 400, 50, 300, 20, 200] * 3
    time = learned(rows, fixed_s=0.5, row_s=0.002, noise=0.05)
    before_s = time.expected_s(200)
    time.learn(200, 10.0 * before_s)
    assert time.expected_s(200) < 4.0 * before_s
    for _ in range(3):
        time.learn(200, 10.0 * before_s)
    assert time.expected_s(200) > 6.0 * before_s


def test_a_sink_that_becomes_slower_is_followed_within_a_few_batches() -> None:
    rows = [100, 400, 50, 300, 20, 200] * 3
    time = learned(rows, fixed_s=0.5, row_s=0.002, noise=0.05)
    for more in (200, 150, 250, 100, 300, 200):
        time.learn(more, 0.5 + 0.006 * more)
    assert time.expected_s(200) == pytest.approx(1.7, rel=0.15)


def test_doubt_brings_back_what_is_not_known_of_one_batch() -> None:
    time = learned([100, 400, 50, 300, 20, 200] * 3, fixed_s=0.5, row_s=0.002, noise=0.05)
    sure_s, fixed_s = time.doubt_s, time.overhead_s
    time.doubt()
    assert time.doubt_s > 3.0 * sure_s
    assert time.overhead_s == fixed_s
