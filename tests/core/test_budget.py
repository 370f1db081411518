from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.latency_budget import DEBT_ROWS, DEPTH_ROWS, MARGIN, PATIENCE, PATIENCE_ROWS, LatencyBudget
from penstock.errors import PenstockError

TARGET_S = 2.0
AIM_S = TARGET_S * MARGIN
ROUNDING = 1e-9


class Offered(NamedTuple):
    queuing_s: float


class Measured(NamedTuple):
    error_s: float


OFFERS = st.floats(0, 60).map(Offered)
MEASUREMENTS = st.floats(-200, 200).map(Measured)
HISTORIES = st.lists(OFFERS | MEASUREMENTS, max_size=60)


def play(budget: LatencyBudget, history: list[Offered | Measured]) -> list[float]:
    """Waits of the rows that were not refused, as predicted."""
    passed = []
    for event in history:
        if isinstance(event, Measured):
            budget.correct(event.error_s)
        elif not budget.refuses(event.queuing_s):
            budget.record(event.queuing_s)
            passed.append(event.queuing_s)
    return passed


@given(HISTORIES, st.lists(OFFERS, min_size=1, max_size=60))
def test_any_stretch_exceeds_the_target_by_at_most_the_depth_of_the_budget(
    before: list[Offered | Measured], stretch: list[Offered | Measured]
) -> None:
    """The average over n rows let through is at most tau + b tau / n, whatever happened before them."""
    budget = LatencyBudget(TARGET_S)
    play(budget, before)
    passed = play(budget, stretch)
    assert sum(passed) <= AIM_S * (len(passed) + DEPTH_ROWS) + ROUNDING


@given(st.lists(OFFERS | st.floats(-10, 10).map(Measured), max_size=80), st.integers(0, 80))
def test_waiting_actually_measured_keeps_to_the_same_bound_once_debts_are_paid(
    history: list[Offered | Measured], start: int
) -> None:
    budget = LatencyBudget(TARGET_S)
    play(budget, history[:start])
    booked_s = 0.0
    rows = 0
    for event in history[start:]:
        passed = play(budget, [event])
        rows += len(passed)
        booked_s += sum(passed) + (event.error_s if isinstance(event, Measured) else 0.0)
        if not budget.refuses(AIM_S):  # no debt
            assert booked_s <= AIM_S * (rows + DEPTH_ROWS) + ROUNDING


@given(st.lists(OFFERS, max_size=60), st.floats(0, 60))
def test_without_debt_a_row_passes_exactly_when_the_budget_can_pay(
    history: list[Offered | Measured], wait_s: float
) -> None:
    budget = LatencyBudget(TARGET_S)
    slack_s = AIM_S * DEPTH_ROWS
    for passed_s in play(budget, history):
        slack_s = min(slack_s + AIM_S - passed_s, AIM_S * DEPTH_ROWS)
    if abs(wait_s - AIM_S - slack_s) > ROUNDING:
        assert budget.refuses(wait_s) is (wait_s > AIM_S + slack_s)


@given(st.lists(st.floats(-1e12, 1e12) | st.just(float("inf")), max_size=20))
def test_no_history_of_corrections_refuses_a_row_that_need_not_wait(errors_s: list[float]) -> None:
    budget = LatencyBudget(TARGET_S)
    for error_s in errors_s:
        budget.correct(error_s)
        assert not budget.refuses(0.0)
        # Nor one that waits but a little: patience has a floor because debt has a bottom.
        assert not budget.refuses(0.999 * TARGET_S * PATIENCE * PATIENCE_ROWS / (PATIENCE_ROWS + DEBT_ROWS))


def test_in_debt_every_row_that_passes_pays_back() -> None:
    budget = LatencyBudget(TARGET_S)
    budget.correct(AIM_S * (DEPTH_ROWS + 10.0))
    rows = 0
    while budget.refuses(AIM_S):
        wait_s = max(0.01 * step * TARGET_S for step in range(100) if not budget.refuses(0.01 * step * TARGET_S))
        assert wait_s < AIM_S
        budget.record(wait_s)
        rows += 1
        assert rows < 1000


def test_the_deeper_the_debt_the_shorter_the_waits_that_pass() -> None:
    longest = []
    for debt_rows in (1.0, 10.0, 100.0, 1000.0, 10_000.0):
        budget = LatencyBudget(TARGET_S)
        budget.correct(AIM_S * (DEPTH_ROWS + debt_rows))
        longest.append(max(step for step in range(1000) if not budget.refuses(0.001 * step * TARGET_S)))
    assert longest == sorted(longest, reverse=True)
    assert longest[0] > 800
    assert longest[-1] == pytest.approx(longest[-2], abs=2)  # beyond the bottom, debt is forgiven


@given(st.floats(0, 1e15))
def test_an_hour_of_stall_is_forgiven_within_a_bounded_number_of_rows(error_s: float) -> None:
    budget = LatencyBudget(TARGET_S)
    budget.correct(error_s)
    for _ in range(int(DEBT_ROWS) + 1):
        budget.record(0.0)
    assert not budget.refuses(AIM_S)


def test_credit_has_a_brim() -> None:
    budget = LatencyBudget(TARGET_S)
    for _ in range(1000):
        budget.record(0.0)
        budget.correct(-1e6)
    assert not budget.refuses(AIM_S * (1.0 + DEPTH_ROWS) - ROUNDING)
    assert budget.refuses(AIM_S * (1.0 + DEPTH_ROWS) + ROUNDING)


@pytest.mark.parametrize("target_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_target_that_is_no_duration_is_refused(target_s: float) -> None:
    with pytest.raises(
        PenstockError, match=r"^target_s = .* is not usable: give seconds above 0, or text like '200 ms' or '2 s'$"
    ):
        LatencyBudget(target_s)
