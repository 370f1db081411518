import math

import pytest

from penstock.core.row.machines import Arrived, Executed
from penstock.errors import PenstockError


@pytest.mark.parametrize("now_s", [math.nan, math.inf, -math.inf, 1e18])
def test_a_row_without_a_usable_time_is_refused_before_it_does_harm(now_s: float) -> None:
    with pytest.raises(PenstockError, match=r"^now_s = .* is not usable: give a moment in seconds"):
        Arrived(now_s=now_s, key="a")


@pytest.mark.parametrize("weight", [0.0, -5.0, math.nan, math.inf, 5e-324, 1e300])
def test_a_row_without_a_usable_weight_is_refused(weight: float) -> None:
    with pytest.raises(PenstockError, match=r"^weight = .* is not usable: give a number from 1e-09 to 1e\+15$"):
        Arrived(now_s=0.0, key="a", weight=weight)


@pytest.mark.parametrize("column", ["arrived_s", "start_s", "finish_s", "cost_s"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_an_executed_row_without_usable_numbers_is_refused(column: str, value: float) -> None:
    numbers = {"arrived_s": 0.0, "start_s": 0.0, "finish_s": 1.0, "cost_s": 1.0} | {column: value}
    with pytest.raises(PenstockError, match=rf"^{column} = .* is not usable"):
        Executed("a", **numbers)


def test_milliseconds_since_1970_are_not_taken_for_seconds() -> None:
    with pytest.raises(PenstockError, match="seconds since 1970"):
        Arrived(now_s=1.76e12, key="a")


@pytest.mark.parametrize("cost_s", [math.nan, math.inf, -1.0])
def test_a_true_cost_that_is_none_is_refused(cost_s: float) -> None:
    with pytest.raises(PenstockError, match=r"^cost_s = .* is not usable"):
        Arrived(now_s=0.0, key="a", cost_s=cost_s)


def test_a_row_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(PenstockError, match="moments in this order"):
        Executed("a", arrived_s=0.0, start_s=3.0, finish_s=2.0, cost_s=1.0)
