"""Overhead and pace of batches, told apart through noise, and the work that fits."""

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


def paced(overhead_s: float, pace: float, works: list[float], *, empty_s: float = 0.0) -> Capacity:
    """Batches of a stage, with work in seconds of a task and a first guess of its pace."""
    capacity = Capacity(unit_s=1.0)
    capacity.calibrate(empty_s)
    for work_s in works:
        capacity.learn(work_s, overhead_s + work_s / pace)
    return capacity


def test_nothing_known_is_the_guess_and_half_of_the_only_batch_is_overhead() -> None:
    assert Capacity(unit_s=1.0 / 3.0).per_s(2.0) == pytest.approx(3.0)
    assert paced(1.0, 2.0, [2.0]).overhead_s == pytest.approx(1.0)
    assert Capacity().per_s(2.0) == np.inf, "nothing says that rows take any time"


def test_batches_of_one_size_are_taken_to_have_the_overhead_of_a_batch_without_work() -> None:
    capacity = paced(0.8, 1.5, [3.0] * 5, empty_s=0.5)
    assert capacity.overhead_s == pytest.approx(0.5)
    assert capacity.expected_s(3.0) == pytest.approx(0.8 + 3.0 / 1.5), "right for that size all the same"


def test_overhead_is_no_less_than_a_batch_without_work_takes() -> None:
    assert paced(0.2, 1.5, [3.0, 1.0, 2.0, 1.5] * 3, empty_s=0.6).overhead_s >= 0.6 - 1e-9


def test_batches_of_different_size_tell_overhead_and_pace_apart() -> None:
    capacity = paced(0.8, 1.5, [3.0, 1.0, 2.0, 1.5] * 3, empty_s=0.2)
    assert capacity.overhead_s == pytest.approx(0.8, abs=0.1)
    assert capacity.per_s(4.0) == pytest.approx(1.5 * (1.0 - 0.8 / 4.0), rel=0.05)


def test_a_stall_does_not_bend_the_line() -> None:
    capacity = paced(0.8, 1.5, [3.0, 1.0, 2.0, 1.5, 1.0, 2.5, 3.0] * 2, empty_s=0.2)
    before = capacity.per_s(4.0)
    capacity.learn(1.0, 9.0)
    assert capacity.per_s(4.0) == pytest.approx(before, rel=0.15)


def test_a_slower_machine_shows_within_a_few_batches() -> None:
    capacity = paced(0.4, 2.0, [3.0, 1.0, 2.0] * 3, empty_s=0.4)
    before = capacity.per_s(4.0)
    for work_s in (2.0, 1.0, 3.0):
        capacity.learn(work_s, 2.0 * (0.4 + work_s / 2.0))
    assert capacity.per_s(4.0) < 0.6 * before


def test_overhead_beyond_the_trigger_makes_batches_longer_and_does_not_shed_everything() -> None:
    capacity, works, rate = Capacity(unit_s=1.0), [2.0, 1.0], 1.0
    capacity.calibrate(0.3)
    for _ in range(40):
        took_s = 1.2 + works[-1] / 2.0
        capacity.learn(works[-1], took_s)
        works.append(min(rate, 0.9 * capacity.per_s(1.0)) * max(1.0, took_s))
    assert capacity.length_s(1.0) == pytest.approx(2.4, rel=0.15)
    assert works[-1] > 0.5 * rate * took_s
