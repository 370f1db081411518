import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.control.targets import AIM, Deadline, MaxLag, MeanQueueLatency, Pace, Throughput
from penstock.errors import PenstockError
from penstock.messages.report import Latency, Report

SECONDS = st.floats(0.0, 10.0)
PACES = st.builds(Pace, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, st.just(1.0))


def mean_wait_s(pace: Pace, cycle_s: float, span_s: float) -> float:
    return (cycle_s + pace.window_s + span_s) / 2.0 + pace.delay_s + pace.lag_s + pace.error_s


def longest_wait_s(pace: Pace, cycle_s: float, span_s: float) -> float:
    return cycle_s + pace.window_s + span_s + pace.delay_s + pace.lag_s + pace.error_s


@pytest.mark.parametrize(
    ("target", "limit_s", "wait_s"),
    [(MeanQueueLatency(30.0), 30.0, mean_wait_s), (MaxLag(60.0), 60.0, longest_wait_s)],
    ids=["mean", "longest"],
)
@given(pace=PACES)
def test_the_span_allowed_uses_up_the_target_for_the_next_batch_or_for_all_that_follow(
    target: MeanQueueLatency | MaxLag, limit_s: float, wait_s: object, pace: Pace
) -> None:
    span_s = target.allowance(pace).span_s
    next_s = wait_s(pace, pace.cycle_s, span_s)
    steady_s = wait_s(pace, pace.overhead_s + span_s, span_s)
    assert max(next_s, steady_s) == pytest.approx(AIM * limit_s)


@pytest.mark.parametrize("target", [MeanQueueLatency("2 s"), MaxLag("2 s")])
@given(pace=PACES)
def test_a_target_below_the_floor_allows_no_work(target: MeanQueueLatency | MaxLag, pace: Pace) -> None:
    assert (target.allowance(pace).span_s < 0.0) == (target.wait_s(pace, 0.0) > AIM * 2.0)


@pytest.mark.parametrize("target", [MeanQueueLatency("2 s"), MaxLag("2 s")])
@given(pace=PACES, within=st.floats(0.0, 1.0))
def test_work_that_rows_do_not_wait_for_leaves_room_for_more_of_it(
    target: MeanQueueLatency | MaxLag, pace: Pace, within: float
) -> None:
    """With no cycle behind it, a batch of the length allowed has the wait that is aimed at."""
    pace = pace._replace(cycle_s=0.0, within=within)
    span_s = target.allowance(pace).span_s
    if span_s >= 0.0:
        assert target.wait_s(pace, span_s) == pytest.approx(AIM * 2.0)
        assert span_s >= target.allowance(pace._replace(within=1.0)).span_s - 1e-9


def report(**changed: object) -> Report:
    plain = {"sequence": 1, "start_s": 2.0, "end_s": 4.0, "rows_in": 100, "rows_kept": 100, "span_s": 1.5}
    return Report(**plain | {"delay_s": 0.2, "lag_s": 0.1} | changed)


def test_what_rows_waited_longer_than_the_equation_says() -> None:
    waited = report(queuing=Latency(100, mean_s=2.5, max_s=4.0))
    assert MeanQueueLatency("2 s").excess_s(waited, cycle_s=2.0) == pytest.approx(2.5 - 1.0 - 0.75 - 0.2 - 0.1)
    assert MaxLag("2 s").excess_s(waited, cycle_s=2.0) == pytest.approx(4.0 - 2.0 - 1.5 - 0.2 - 0.1)
    assert MeanQueueLatency("2 s").ratio(waited) == pytest.approx(1.25)
    assert MaxLag("2 s").ratio(waited) == pytest.approx(2.0)


def test_what_was_not_measured_is_not_judged() -> None:
    for target in (MeanQueueLatency("2 s"), MaxLag("2 s")):
        assert target.excess_s(report(), cycle_s=2.0) is None
        assert target.ratio(report()) is None


def test_a_rate_bounds_rows_and_not_work() -> None:
    target = Throughput(500)
    assert target.allowance(Pace(0.1, 0.2, 3.0, 0.0, 0.0)) == (math.inf, AIM * 1500.0, 1500.0)
    assert target.ratio(report()) is None
    assert target.excess_s(report(), 2.0) is None
    assert target.wait_s(Pace(0.1, 0.2, 3.0, 0.0, 0.0), 1.0) is None


@given(pace=PACES, elapsed_s=st.floats(0.0, 200.0), batches=st.floats(0.01, 100.0))
def test_batches_that_take_what_a_deadline_allows_end_in_time(pace: Pace, elapsed_s: float, batches: float) -> None:
    target = Deadline(100.0)
    span_s = target.allowance(pace._replace(elapsed_s=elapsed_s, batches_left=batches)).span_s
    assert (span_s > 0.0) == (AIM * (100.0 - elapsed_s) > math.ceil(max(batches, 1.0)) * pace.overhead_s)
    if span_s > 0.0:
        assert elapsed_s + math.ceil(batches) * pace.overhead_s + batches * span_s <= 100.0


def test_a_deadline_allows_any_work_if_nothing_is_left_or_that_is_unknown() -> None:
    pace = Pace(0.1, 0.2, 3.0, 0.0, 0.0, elapsed_s=1000.0)
    assert all(Deadline(1.0).allowance(pace._replace(batches_left=left)).span_s == math.inf for left in (None, 0.0))
    assert (Deadline(1.0).ratio(report()), Deadline(1.0).excess_s(report(), 2.0)) == (None, None)
    assert Deadline(1.0).wait_s(pace, 1.0) is None
    assert Deadline(1.0).fresh_s is None


@pytest.mark.parametrize(
    ("setting", "make"),
    [
        ("limit", lambda: MeanQueueLatency("soon")),
        ("limit", lambda: MeanQueueLatency(0.0)),
        ("age", lambda: MaxLag(math.nan)),
        ("within", lambda: Deadline("tomorrow")),
        ("within", lambda: Deadline(-1)),
        ("rows_per_s", lambda: Throughput(0.0)),
        ("rows_per_s", lambda: Throughput(math.inf)),
    ],
)
def test_a_target_that_means_nothing_is_refused(setting: str, make: object) -> None:
    with pytest.raises(PenstockError, match=rf"^{setting} = .* is not usable: give .*$"):
        make()
