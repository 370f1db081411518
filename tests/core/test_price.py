import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.price import GAIN, LIMIT, SET_POINT, Price


def dearest_that_passes(price: Price, queuing_s: float) -> float:
    """The relative cost at which the price begins to refuse, found by halving."""
    low, high = 0.0, 1e9
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if price.refuses(middle, queuing_s) else (middle, high)
    return low


def test_price_falls_while_rows_wait_long_and_rises_again_when_they_do_not() -> None:
    price = Price(target_s=1.0)
    seen = []
    for queuing_s in (3.0, 0.0):
        for _ in range(200):
            price.follow(queuing_s)
        seen.append(dearest_that_passes(price, 1.0))
    assert seen[0] < 1.0 < seen[1]


def test_price_moves_by_the_equation() -> None:
    price = Price(target_s=2.0)
    for _ in range(100):
        price.follow(queuing_s=3.0)
    assert dearest_that_passes(price, queuing_s=2.0) == pytest.approx(LIMIT * math.exp(100 * GAIN * (SET_POINT - 1.5)))


def test_price_stands_still_at_the_set_point() -> None:
    price = Price(target_s=1.0)
    for _ in range(100):
        price.follow(2.0)
    before = dearest_that_passes(price, 1.0)
    for _ in range(10_000):
        price.follow(SET_POINT)
    assert dearest_that_passes(price, 1.0) == pytest.approx(before)


def test_a_longer_queue_refuses_more_at_the_same_price() -> None:
    price = Price(target_s=1.0)
    dearest = [dearest_that_passes(price, queuing_s) for queuing_s in (0.1, 0.5, 1.0, 2.0, 4.0)]
    assert dearest == sorted(dearest, reverse=True)
    assert dearest[0] > 5 * dearest[-1]


@given(st.lists(st.floats(0, 1e12), max_size=50))
def test_price_never_falls_so_far_that_cheap_rows_are_refused_for_their_cost(waits_s: list[float]) -> None:
    price = Price(target_s=1.0)
    for wait_s in waits_s:
        price.follow(wait_s)
        # At a queue of exactly the target, the price itself decides.
        assert not price.refuses(0.999 / LIMIT, 1.0)


@pytest.mark.parametrize(("before_s", "after_s", "refused_after"), [(1e6, 0.001, False), (0.0, 2.0, True)])
def test_hours_of_overload_or_calm_are_undone_within_a_bounded_number_of_rows(
    before_s: float, after_s: float, *, refused_after: bool
) -> None:
    price = Price(target_s=1.0)
    for _ in range(100_000):
        price.follow(before_s)
    rows = 0
    while price.refuses(2.0, after_s) is not refused_after:
        price.follow(after_s)
        rows += 1
    assert 0 < rows < 1000


def test_an_operator_with_nothing_to_do_takes_any_row() -> None:
    price = Price(target_s=1.0)
    for _ in range(1000):
        price.follow(1e6)
    assert not price.refuses(1e9, queuing_s=0.0)
