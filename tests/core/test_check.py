from collections import deque
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.latency_goals import Check, Maximum, RunningAverage, SlidingWindowAverage
from penstock.errors import PenstockError

LATENCIES = st.lists(st.integers(0, 50).map(float), max_size=80)


def test_running_average_counts_the_row_itself_as_the_text_of_the_paper_says() -> None:
    check = RunningAverage(target_s=2.0)
    assert check.refuses(2.1)
    assert not check.refuses(2.0)
    check.record(1.0)
    # (1 + q) / 2 > 2 only beyond q = 3; the printed listing would look at 1 / 1 and let anything through.
    assert not check.refuses(3.0)
    assert check.refuses(3.1)


def test_running_average_leaves_the_dropping_state_when_the_queue_is_short_again() -> None:
    check = RunningAverage(target_s=2.0)
    check.record(4.0)
    assert check.refuses(0.1)
    assert not check.refuses(0.0)


@given(LATENCIES, st.integers(1, 20))
def test_running_average_of_rows_not_refused_never_exceeds_the_target(latencies: list[float], target_s: int) -> None:
    check = RunningAverage(float(target_s))
    passed = []
    for latency in latencies:
        expected = Fraction(sum(map(int, passed)) + int(latency), len(passed) + 1) > target_s
        assert check.refuses(latency) is expected
        if not expected:
            check.record(latency)
            passed.append(latency)
            assert sum(passed) <= target_s * len(passed)


def test_running_average_pays_for_rows_recorded_against_its_will() -> None:
    check = RunningAverage(target_s=1.0)
    for _ in range(3):
        check.record(3.0)
    zeros = 0
    while check.refuses(1.0):
        check.record(0.0)
        zeros += 1
    assert zeros == 6


@given(LATENCIES, st.integers(1, 7), st.integers(1, 20))
def test_sliding_window_agrees_with_a_plain_window(latencies: list[float], rows: int, target_s: int) -> None:
    check = SlidingWindowAverage(float(target_s), rows)
    window: deque[float] = deque(maxlen=rows)
    for latency in latencies:
        newest = [*window, latency][-rows:]
        assert check.refuses(latency) is (sum(newest) / len(newest) > target_s)
        # Refused or not: a must-keep row is recorded either way.
        check.record(latency)
        window.append(latency)


def test_sliding_window_stays_right_after_many_wraps() -> None:
    check = SlidingWindowAverage(target_s=1.0, rows=3)
    # A tenth is no binary fraction, so every step rounds; the huge one would leave its rounding error behind.
    for step in range(100_000):
        check.record(1e12 if step == 50_000 else 0.1 * (step % 7))
    for latency in (1.0, 1.0, 1.0):
        check.record(latency)
    assert not check.refuses(1.0 - 1e-9)
    assert check.refuses(1.0 + 1e-9)


def test_sliding_window_does_not_save_up_credit_in_calm_hours() -> None:
    window, running = SlidingWindowAverage(1.0, rows=10), RunningAverage(1.0)
    for _ in range(1000):
        window.record(0.0)
        running.record(0.0)
    assert window.refuses(11.0)
    assert not running.refuses(11.0)


def test_maximum_looks_at_the_row_alone() -> None:
    check = Maximum(target_s=2.0)
    for latency in (50.0, 0.0):
        check.record(latency)
        assert not check.refuses(2.0)
        assert check.refuses(2.000001)


@pytest.mark.parametrize("target_s", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [RunningAverage, Maximum, lambda target_s: SlidingWindowAverage(target_s, 8)])
def test_a_target_that_is_no_duration_is_refused_in_one_line(make: type[RunningAverage], target_s: float) -> None:
    with pytest.raises(
        PenstockError, match=r"^target_s = .* is not usable: give seconds above 0, or text like '200 ms' or '2 s'$"
    ):
        make(target_s)


@pytest.mark.parametrize("rows", [0, -3])
def test_a_window_without_rows_is_refused(rows: int) -> None:
    with pytest.raises(PenstockError, match=rf"^rows = {rows} is not usable: give a whole number from 1 up$"):
        SlidingWindowAverage(1.0, rows)


def test_each_goal_names_its_own_reason() -> None:
    checks: list[Check] = [RunningAverage(1.0), SlidingWindowAverage(1.0, 2), Maximum(1.0)]
    reasons = {check.reason for check in checks}
    assert len(reasons) == 3
    assert all(reasons)
