"""Penstock's own grouping: what the scheduler believes of its instances, and what it does with each report."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.grouping import ready_time
from penstock.core.grouping.baselines import JoinShortestQueue
from penstock.core.grouping.machines import Done, Received, Send
from penstock.core.grouping.ready_time import (
    WIDEST_PACE,
    AcknowledgingInstance,
    Pace,
    ReadyTimeScheduler,
    Report,
    RowDone,
    Ticket,
)
from penstock.core.row.machines import Arrived
from penstock.errors import PenstockError
from penstock.sim.osg.queueing import simulate
from penstock.sim.workload import Stream


def send(scheduler: ReadyTimeScheduler, keys: str, now_s: float) -> list[int]:
    return [scheduler.assign(Arrived(now_s=now_s, key=key)).instance for key in keys]


def done(scheduler: ReadyTimeScheduler, now_s: float, instance: int, *rows: tuple[int, float, float]) -> None:
    """Rows as (number, sojourn, cost)."""
    scheduler.receive(Received(now_s, instance, Report(tuple(RowDone(*row) for row in rows))))


def taught(instances: int = 2) -> ReadyTimeScheduler:
    """A scheduler that knows: `a` costs 10 s, `b` 1 s; all instances free since time 10, reports take no time."""
    scheduler = ReadyTimeScheduler(instances)
    send(scheduler, "ab" + "b" * (instances - 2), 0.0)
    for instance in range(1, instances):
        done(scheduler, 1.0, instance, (1, 1.0, 1.0))
    done(scheduler, 10.0, 0, (1, 10.0, 10.0))
    return scheduler


# Where rows go.


def test_before_anything_is_known_rows_go_in_turn() -> None:
    assert send(ReadyTimeScheduler(3), "aaaaa", 0.0) == [0, 1, 2, 0, 1]


def test_equal_rows_at_idle_instances_go_to_the_one_not_used_for_longest() -> None:
    scheduler = taught(3)
    chosen = [send(scheduler, "b", now_s)[0] for now_s in (20.0, 30.0, 40.0, 50.0)]
    assert chosen == [0, 1, 2, 0]


def test_rows_go_where_work_is_done_first() -> None:
    assert send(taught(), "abbbbbbbbbbb", 10.0) == [0] + [1] * 10 + [0]


def test_a_key_never_seen_costs_the_mean() -> None:
    # Mean of a and b: 5.5 s, so five rows of 1 s fit beside it.
    assert send(taught(), "zbbbbbbb", 10.0) == [0, 1, 1, 1, 1, 1, 1, 0]


def test_a_report_replaces_what_was_expected_of_the_rows_it_tells_of() -> None:
    scheduler = taught()
    assert send(scheduler, "ab", 10.0) == [0, 1]
    done(scheduler, 11.0, 0, (2, 1.0, 1.0))  # a row of a was done after 1 s, not 10
    assert send(scheduler, "b", 11.5) == [0]


def test_work_that_waits_behind_a_late_row_moves_with_it() -> None:
    scheduler = taught()
    assert send(scheduler, "bb", 10.0) == [0, 1]
    assert send(scheduler, "bb", 10.0) == [0, 1]
    done(scheduler, 14.0, 0, (2, 4.0, 4.0))  # instance 0 is 3 s late and has one more row to go
    done(scheduler, 14.0, 1, (2, 1.0, 1.0), (3, 2.0, 1.0))
    assert send(scheduler, "bb", 14.0) == [1, 0]  # free at 14 and at 15


def test_silence_says_that_a_row_is_still_being_executed() -> None:
    """Reports take no time here, so an instance silent for 100 s is still at its first row, and two more wait there."""
    scheduler = taught()
    assert send(scheduler, "bbbbbb", 10.0) == [0, 1, 0, 1, 0, 1]
    for number in range(2, 5):
        done(scheduler, 9.0 + number, 1, (number, number - 1.0, 1.0))
    assert send(scheduler, "bb", 110.0) == [1, 1]
    assert send(scheduler, "b", 110.0) == [0]  # as much work now waits on either


def test_silence_is_read_in_the_light_of_how_long_reports_take() -> None:
    scheduler = ReadyTimeScheduler(2)
    send(scheduler, "bb", 0.0)
    for instance in range(2):
        done(scheduler, 51.0, instance, (1, 1.0, 1.0))  # 50 s on their way
    assert send(scheduler, "bbbbbb", 60.0) == [0, 1, 0, 1, 0, 1]
    # 20 s later all may well be done: no instance is worse than the other, whatever was reported of one.
    assert send(scheduler, "bb", 80.0) == [0, 1]


# Reports that are lost, late or repeated.


def test_a_repeated_or_late_report_changes_nothing() -> None:
    told, told_twice = taught(), taught()
    for scheduler in (told, told_twice):
        send(scheduler, "abab", 10.0)
        done(scheduler, 12.0, 1, (2, 1.0, 1.0), (3, 2.0, 1.0))
    done(told_twice, 30.0, 1, (2, 1.0, 1.0))
    done(told_twice, 30.0, 1, (3, 2.0, 1.0))
    assert told.memory_bytes == told_twice.memory_bytes
    assert send(told, "abababab", 12.0) == send(told_twice, "abababab", 12.0)


def test_a_later_report_tells_that_lost_ones_are_done_too() -> None:
    scheduler = taught()
    before = scheduler.memory_bytes
    send(scheduler, "bbbbbb", 10.0)
    assert scheduler.memory_bytes == before + 6 * 64
    done(scheduler, 13.0, 0, (4, 3.0, 1.0))
    assert scheduler.memory_bytes == before + 3 * 64


def test_a_report_of_a_row_never_sent_is_passed_over() -> None:
    scheduler = taught()
    done(scheduler, 11.0, 0, (99, 1.0, 1.0))
    assert send(scheduler, "ab", 11.0) == [0, 1]


def test_memory_is_bounded_when_no_report_ever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_time, "REMEMBERED_ROWS", 4)
    scheduler = ReadyTimeScheduler(2)
    assert send(scheduler, "ab" * 50, 0.0) == [0, 1] * 50
    # 512 places of 32 bytes, a sketch of 4 x 54 pairs, 10 numbers an instance, and 4 rows on their way to each.
    assert scheduler.memory_bytes == 512 * 32 + 4 * 54 * 16 + 2 * 80 + 8 * 64


# Instances that differ, and schedulers that share.


def constant_stream(rows: int, cost_s: float, gap_s: float) -> Stream:
    return Stream(np.zeros(rows, np.int64), np.full(rows, cost_s), np.arange(rows) * gap_s, items=1)


def test_an_instance_half_as_fast_gets_half_as_many_rows() -> None:
    scheduler = ReadyTimeScheduler(2)
    chosen = []
    assign = scheduler.assign

    def noted(row: Arrived) -> object:
        assigned = assign(row)
        chosen.append(assigned.instance)
        return assigned

    scheduler.assign = noted  # type: ignore[method-assign]
    stream = constant_stream(3000, 1.0, 0.7)
    simulate(stream, [scheduler], [AcknowledgingInstance() for _ in range(2)], speeds=np.array([[2.0, 1.0]]))
    assert np.mean(np.array(chosen[1000:]) == 0) == pytest.approx(1 / 3, abs=0.01)


def test_rows_of_other_schedulers_are_allowed_for() -> None:
    """Two schedulers with ten times the way of a row between sending and report: still better than in turn."""
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 8, 6000)
    costs_s = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0])[keys]
    stream = Stream(keys, costs_s, np.arange(6000) * costs_s.mean() / 4 * 1.05, items=8)
    schedulers = [ReadyTimeScheduler(4, scheduler=s) for s in range(2)]
    finish_s = simulate(stream, schedulers, [AcknowledgingInstance() for _ in range(4)], delay_s=40.0)
    in_turn_s = np.concatenate([_queue(stream, i) for i in range(4)])
    assert (finish_s - stream.arrivals_s).mean() < 0.75 * in_turn_s.mean()


def _queue(stream: Stream, instance: int) -> np.ndarray:
    """Completion times of the rows that two round-robin schedulers side by side send to an instance."""
    mine = (np.arange(stream.rows) // 2) % 4 == instance
    end_s, taken_s = 0.0, []
    for now_s, cost_s in zip(stream.arrivals_s[mine], stream.costs_s[mine], strict=True):
        end_s = max(end_s, now_s) + cost_s
        taken_s.append(end_s - now_s)
    return np.array(taken_s)


# Pace.


def test_a_difference_within_the_noise_is_no_difference() -> None:
    pace, rng = Pace(), np.random.default_rng(1)
    factors = []
    for cost_s in rng.uniform(1.0, 64.0, 20_000):
        pace.learn(32.5, float(cost_s))
        factors.append(pace.factor)
    factors = factors[100:]
    assert np.mean(np.array(factors) == 1.0) > 0.95
    assert max(abs(factor - 1.0) for factor in factors) < 0.05


def test_a_real_difference_shows_and_a_change_is_followed() -> None:
    pace, rng = Pace(), np.random.default_rng(2)
    for truth, least, most in ((1.3, 1.2, 1.33), (0.7, 0.67, 0.8)):
        for cost_s in rng.uniform(1.0, 64.0, 5000):
            pace.learn(32.5, truth * float(cost_s))
        assert least < pace.factor < most


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6)), max_size=30))
def test_the_pace_is_always_a_usable_factor(rows: list[tuple[float, float]]) -> None:
    pace = Pace()
    for expected_s, cost_s in rows:
        pace.learn(expected_s, cost_s)
        assert 1.0 / WIDEST_PACE <= pace.factor <= WIDEST_PACE


# Acknowledgements.


def test_an_idle_instance_reports_what_is_left_to_every_scheduler() -> None:
    instance = AcknowledgingInstance(report_rows=10)
    rows = [Done("a", 0.0, 1.0, 1.0, 1, Ticket(1, 1)), Done("a", 0.0, 2.0, 1.0, 0, Ticket(0, 1))]
    first, second = (instance.executed(row) for row in rows)
    assert first == []
    assert second == [Send(Report((RowDone(1, 2.0, 1.0),)), 0), Send(Report((RowDone(1, 1.0, 1.0),)), 1)]
    assert instance.executed(Done("a", 2.0, 3.0, 1.0, 0, Ticket(0, 2))) == [Send(Report((RowDone(2, 1.0, 1.0),)), 0)]


def test_the_shortest_queue_counts_by_the_highest_number_reported() -> None:
    scheduler = JoinShortestQueue(2)
    assert [scheduler.assign(Arrived(now_s=0.0, key=1)).instance for _ in range(6)] == [0, 1, 0, 1, 0, 1]
    scheduler.receive(Received(1.0, 1, Report((RowDone(2, 1.0, 1.0),))))  # and so is the first, whose report is lost
    scheduler.receive(Received(1.0, 1, Report((RowDone(1, 1.0, 1.0),))))
    assert [scheduler.assign(Arrived(now_s=1.0, key=1)).instance for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("scheduler", [ReadyTimeScheduler(1), JoinShortestQueue(1)])
def test_what_is_no_report_is_refused(scheduler: ReadyTimeScheduler | JoinShortestQueue) -> None:
    with pytest.raises(TypeError, match="not a report"):
        scheduler.receive(Received(0.0, 0, "hello"))
    with pytest.raises(TypeError, match="not a ticket"):
        AcknowledgingInstance().executed(Done(1, 0.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ReadyTimeScheduler(0), "instances = 0 is not usable: give a whole number from 1 up"),
        (lambda: AcknowledgingInstance(report_rows=0), "report_rows = 0"),
        (lambda: RowDone(1, float("inf"), 1.0), "sojourn_s = inf"),
        (lambda: RowDone(1, 1.0, -1.0), "cost_s = -1.0"),
    ],
)
def test_bad_settings_are_named(make: object, said: str) -> None:
    with pytest.raises(PenstockError, match=said):
        make()
