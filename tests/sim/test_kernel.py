from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.sim.kernel import Kernel


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=50))
def test_ties_run_by_priority_and_then_in_the_order_they_were_scheduled(due: list[tuple[int, int]]) -> None:
    kernel, seen = Kernel(), []
    for number, (time_s, priority) in enumerate(due):
        kernel.at(float(time_s), partial(seen.append, number), priority=priority)
    kernel.run()
    assert seen == sorted(range(len(due)), key=lambda number: (*due[number], number))


def test_time_stands_at_the_action_that_runs() -> None:
    kernel, times = Kernel(), []
    for time_s in (3.0, 1.0, 2.0):
        kernel.at(time_s, lambda: times.append(kernel.now_s))
    assert kernel.now_s == 0.0
    kernel.run()
    assert times == [1.0, 2.0, 3.0]
    assert kernel.now_s == 3.0


def test_an_action_may_schedule_another_for_the_same_moment() -> None:
    kernel, seen = Kernel(), []

    def first() -> None:
        seen.append("first")
        kernel.at(kernel.now_s, lambda: seen.append("urgent"), priority=0)

    kernel.at(1.0, first, priority=1)
    kernel.at(1.0, lambda: seen.append("last"), priority=2)
    kernel.run()
    assert seen == ["first", "urgent", "last"]


@pytest.mark.parametrize("time_s", [4.999, -1.0, float("nan")])
def test_the_past_is_refused(time_s: float) -> None:
    kernel = Kernel()
    kernel.at(5.0, lambda: None)
    kernel.run()
    with pytest.raises(PenstockError, match=r"^time_s = .* is not usable: give a time from now \(5.0 s\) on$"):
        kernel.at(time_s, lambda: None)


def test_run_until_stops_before_what_lies_beyond_and_goes_on_from_there() -> None:
    kernel, seen = Kernel(), []
    for time_s in (1.0, 2.0, 3.0):
        kernel.at(time_s, partial(seen.append, time_s))
    kernel.run(until_s=0.5)
    assert seen == []
    kernel.run(until_s=2.0)
    assert seen == [1.0, 2.0]
    kernel.at(2.5, partial(seen.append, 2.5))
    kernel.run()
    assert seen == [1.0, 2.0, 2.5, 3.0]


def test_nothing_scheduled_is_no_trouble() -> None:
    kernel = Kernel()
    kernel.run()
    assert kernel.now_s == 0.0
