from dataclasses import replace

import numpy as np
import pytest

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.forecast import LEAST_WORK, Knowledge
from penstock.core.control.targets import MeanQueueLatency
from penstock.messages.report import Latency, Report

TARGET = MeanQueueLatency("2 s")
OVERHEAD_S, DELAY_S, SPAN_S = 0.4, 0.2, 1.2
LENGTH_S = OVERHEAD_S + SPAN_S


def sketch(costs_s: dict[int, float], rows: int = 10) -> bytes:
    costs = BucketCosts()
    for bucket, cost_s in costs_s.items():
        costs.rows[bucket] = costs.weight[bucket] = rows
        costs.work_s[bucket] = rows * cost_s
    return costs.to_bytes()


EVERY_BUCKET = sketch(dict.fromkeys(range(100), 0.024), rows=1)


def batch(number: int, start_s: float | None = None, length_s: float = LENGTH_S, **changed: object) -> Report:
    """A batch of a run of batches without a pause."""
    start_s = number * LENGTH_S if start_s is None else start_s
    plain = {"rows_in": 100, "rows_kept": 100, "busy_s": 2.0 * SPAN_S, "slots": 2, "span_s": SPAN_S}
    plain |= {"overhead_s": OVERHEAD_S, "delay_s": DELAY_S, "backlog_rows": 100, "cost_sketch": EVERY_BUCKET}
    return Report(**plain | {"sequence": number, "start_s": start_s, "end_s": start_s + length_s} | changed)


def after(*reports: Report) -> Knowledge:
    known = Knowledge(TARGET)
    for report in reports:
        known.learn(report)
    return known


def test_the_shape_of_costs_is_remembered_and_their_level_is_the_last_batch_s() -> None:
    known = after(batch(0, cost_sketch=sketch({1: 1.0, 2: 3.0})), batch(1, cost_sketch=sketch({1: 2.0})))
    assert known.costs.costs_s()[[1, 2]] == pytest.approx([2.0, 6.0])


def test_rows_kept_for_being_cheap_surprise_and_leave_the_level_alone() -> None:
    """Two buckets were taken for 1 s and 3 s; both cost 2 s. Of the second only one row in ten is kept."""
    fresh = BucketCosts()
    fresh.rows[[1, 2]], fresh.weight[[1, 2]], fresh.work_s[[1, 2]] = (10, 1), (10, 10), (20.0, 2.0)
    known = after(batch(0, cost_sketch=sketch({1: 1.0, 2: 3.0})), batch(1, cost_sketch=fresh.to_bytes()))
    assert known.costs.surprise == pytest.approx(22.0 / 13.0)
    assert known.costs.mean_s == pytest.approx(2.15, rel=0.1)
    assert known.costs.costs_s()[2] < 3.0


def test_a_batch_that_measures_nothing_halves_what_is_believed() -> None:
    shut = batch(1, rows_kept=0, rows_shed={"dear": 100}, busy_s=0.0, span_s=0.0)
    known = after(batch(0, cost_sketch=sketch({1: 1.0})), shut, shut)
    assert known.costs.costs_s()[1] == pytest.approx(0.25)


def test_without_measurements_every_bucket_is_alike_and_half_of_a_batch_counts_as_fixed() -> None:
    known = after(unmeasured(0, rows=100, length_s=9.0), unmeasured(1, rows=100, length_s=2.0))
    assert np.ptp(known.costs.costs_s()) == 0.0
    assert known.costs.mean_s == pytest.approx(0.01)
    assert known.fixed_s == pytest.approx(1.0)
    assert known.next_rows().sum() > 0.0
    assert known.next_rows() == pytest.approx(known.next_rows().sum() / BUCKETS)


def unmeasured(number: int, rows: int, length_s: float, start_s: float | None = None, **changed: object) -> Report:
    """A batch of which only its length is known."""
    start_s = 10.0 * number if start_s is None else start_s
    return batch(
        number,
        start_s,
        length_s,
        **{"rows_in": rows, "rows_kept": rows, "slots": 1, "cost_sketch": None, "delay_s": 0.1}
        | {"busy_s": length_s - 0.1, "span_s": length_s - 0.1, "overhead_s": 0.1}
        | changed,
    )


def in_a_row(*batches: tuple[int, float]) -> Knowledge:
    """What is known after batches of so many rows that take so long, each right after the other."""
    known, start_s = Knowledge(TARGET), 0.0
    for number, (rows, length_s) in enumerate(batches):
        known.learn(unmeasured(number, rows, length_s, start_s))
        start_s += length_s
    return known


def test_what_a_batch_takes_however_few_rows_it_has_is_no_cost_of_rows() -> None:
    known = in_a_row((500, 9.0), (400, 1.4), (100, 1.1), (300, 1.3), (50, 1.05), (350, 1.35))
    assert known.fixed_s == pytest.approx(1.0, abs=0.1)
    assert known.costs.mean_s == pytest.approx(0.001, rel=0.5)
    assert not known.out_of_reach


def test_a_fixed_part_longer_than_the_target_puts_it_out_of_reach_once_it_is_sure() -> None:
    assert not in_a_row((500, 9.0), (400, 3.1)).out_of_reach  # It may be all rows.
    assert not in_a_row((500, 9.0), (400, 3.1), (390, 3.0)).out_of_reach
    sure = in_a_row((500, 9.0), (400, 3.1), (200, 3.0), (100, 3.1), (50, 3.0))
    assert sure.out_of_reach
    assert sure.span_s(sure.pace) > sure.next_rows().sum() * sure.costs.mean_s  # so everything is kept
    growing = in_a_row((500, 9.0), (400, 4.0), (200, 2.0), (100, 1.0), (50, 0.6))
    assert not growing.out_of_reach


def test_while_it_is_in_doubt_what_is_fixed_a_batch_may_be_half_as_large_as_the_smallest() -> None:
    known = in_a_row((500, 30.0), (4000, 20.0))
    assert known.span_s(known.pace) / known.costs.mean_s == pytest.approx(2000.0)


def test_no_more_is_in_doubt_than_a_first_batch_of_few_rows_took() -> None:
    for first_s, second_s in ((2.0, 20.0), (2.0, 4.0)):
        known = in_a_row((1, first_s), (4000, second_s))
        assert known.span_s(known.pace) <= TARGET.limit_s / 2.0
        assert known.fixed_s <= first_s


def test_a_target_that_every_batch_misses_is_missed_for_long_after_ten_seconds() -> None:
    known, start_s = Knowledge(TARGET), 0.0
    for number in range(12):
        known.learn(replace(unmeasured(number, 100, 1.5, start_s), queuing=Latency(100, 2.1, 4.0)))
        start_s += 1.5
        assert known.history.misses_for_long == (number >= 6)
    known.learn(replace(unmeasured(12, 100, 1.5, start_s), queuing=Latency(100, 1.9, 4.0)))
    assert not known.history.misses_for_long


def test_batches_that_become_much_longer_show_that_a_target_may_be_in_reach_after_all() -> None:
    batches = [(500, 9.0), (400, 3.1), (200, 3.0), (100, 3.1), (50, 3.0)]
    assert in_a_row(*batches, (400, 3.2)).out_of_reach
    assert not in_a_row(*batches, (400, 6.2)).out_of_reach


def test_a_sink_that_takes_time_for_each_row_is_work_and_its_rows_do_not_wait_for_it_in_their_batch() -> None:
    """5 ms a row behind an operator of 12 ms a row: at two cores, 6 ms of a batch's time."""
    known = Knowledge(TARGET)
    for number, rows in enumerate((50, 400, 100, 200, 300, 50, 250, 400, 20)):
        work = {"busy_s": 0.012 * rows, "span_s": 0.006 * rows, "overhead_s": 0.4 + 0.005 * rows}
        work["cost_sketch"] = sketch({1: 0.012}, rows=rows)
        known.learn(batch(number, 10.0 * number, 0.4 + 0.011 * rows, rows_in=rows, rows_kept=rows, **work))
    assert known.fixed_s == pytest.approx(0.4, abs=0.15)
    assert known.outside_s == pytest.approx(2.0 * 0.005, rel=0.15)
    assert known.steady.within == pytest.approx(6.0 / 11.0, rel=0.1)


def test_a_trigger_longer_than_the_target_is_seen_at_the_second_batch() -> None:
    waited = Latency(100, mean_s=30.0, max_s=60.0)
    assert not after(batch(0, start_s=0.0)).out_of_reach
    assert after(batch(0, start_s=0.0), batch(1, start_s=60.0, queuing=waited)).out_of_reach
    # Where rows seldom come, none waits for a trigger.
    seldom = Latency(1, mean_s=0.2, max_s=0.2)
    assert not after(batch(0, start_s=0.0), batch(1, start_s=60.0, queuing=seldom)).out_of_reach


def test_rows_that_are_old_when_they_come_are_seen_at_the_first_batch() -> None:
    assert after(batch(0, lag_s=3600.0)).out_of_reach
    assert not after(batch(0, lag_s=0.5)).out_of_reach
    assert after(*(batch(number, lag_s=3600.0 + number) for number in range(5))).out_of_reach
    assert after(batch(0), batch(1, lag_s=3600.0, source_rows_behind=0)).out_of_reach
    # A source that holds rows back is read sooner if less is kept.
    assert not after(*(batch(number, lag_s=600.0 * number) for number in range(5))).out_of_reach
    assert not after(batch(0, lag_s=3600.0, source_rows_behind=1_000_000)).out_of_reach


def test_the_first_batch_of_the_next_run_is_cold_again() -> None:
    known = in_a_row((500, 9.0), (400, 1.4), (100, 1.1), (300, 1.3), (50, 1.05))
    fixed_s = known.fixed_s
    known.history.pause()
    known.learn(unmeasured(0, rows=300, length_s=12.0, start_s=1000.0))
    assert known.fixed_s == fixed_s
    known.learn(unmeasured(1, rows=300, length_s=1.3, start_s=1012.0))
    assert known.fixed_s == pytest.approx(fixed_s, rel=0.1)


def test_one_cold_batch_puts_nothing_out_of_reach() -> None:
    assert not after(batch(0, overhead_s=16.0, delay_s=12.0, length_s=17.2)).out_of_reach
    assert not in_a_row((300, 16.0)).out_of_reach
    assert in_a_row((300, 16.0)).costs.mean_s == 0.0  # and is no cost of rows


def test_capacity_is_what_the_last_batch_got_done() -> None:
    assert after(batch(0)).capacity == pytest.approx(2.0)
    assert after(batch(0), batch(1, busy_s=1.2)).capacity == pytest.approx(1.0)
    # Where nothing is measured, a batch is one piece of work.
    assert after(unmeasured(0, rows=100, length_s=3.0)).capacity == pytest.approx(1.0)
    # Without a span, tasks are taken to have worked all the time.
    assert after(batch(0, span_s=0.0, slots=3)).capacity == pytest.approx(3.0)


def test_one_strange_batch_does_not_change_the_overhead() -> None:
    usual = [batch(number, rows_in=rows, rows_kept=rows) for number, rows in enumerate((100, 300, 60, 20), start=1)]
    steady = after(batch(0, overhead_s=12.0, delay_s=11.0), *usual).steady
    assert steady[:2] == pytest.approx((DELAY_S, OVERHEAD_S), rel=0.05)


def test_rows_that_wait_longer_than_the_equation_says_leave_less_time_for_work() -> None:
    fair_s = (LENGTH_S + SPAN_S) / 2.0 + DELAY_S
    spans_s = []
    for excess_s in (-0.3, 0.0, 0.3):
        waited = Latency(100, mean_s=fair_s + excess_s, max_s=5.0)
        known = after(*(batch(number, queuing=waited) for number in range(4)))
        spans_s.append(known.span_s(known.steady))
    assert spans_s[0] == pytest.approx(spans_s[1])
    assert spans_s[2] == pytest.approx(spans_s[1] - 0.3, abs=0.02)


def test_a_query_that_stands_still_waits_for_its_trigger_and_collects_rows_all_the_while() -> None:
    known = after(*(batch(number, start_s=3.0 * number) for number in range(4)))
    assert known.history.interval_s == pytest.approx(3.0)
    assert known.pace.cycle_s == pytest.approx(3.0)
    assert known.next_rows().sum() == pytest.approx(100 * 3.0 / LENGTH_S)
    assert known.span_s(known.pace) >= LEAST_WORK * 3.0
    # One hour without rows is no trigger.
    assert after(*(batch(number) for number in range(4)), batch(4, start_s=3600.0)).history.interval_s == 0.0


def test_a_source_that_hands_out_less_than_it_has_goes_on_doing_so() -> None:
    capped = after(batch(0, lag_s=1.0), batch(1, length_s=3.0, lag_s=1.0, backlog_rows=190))
    assert capped.next_rows().sum() == pytest.approx(100)
    keeps_up = after(batch(0), batch(1, length_s=3.0, backlog_rows=190))
    assert keeps_up.next_rows().sum() > 130


def test_nothing_is_known_at_first() -> None:
    known = Knowledge(TARGET)
    assert not known.costs.known
    assert not known.next_rows().any()
    assert known.pace.overhead_s == known.history.interval_s == 0.0


def test_rows_that_never_come_to_the_operator_bring_no_work() -> None:
    known = after(batch(0, cost_sketch=sketch({1: 0.2}, rows=10)))  # a filter behind the gate lets one in ten through
    assert known.costs.reach == pytest.approx(0.1)
    known.learn(batch(1, cost_sketch=b""))
    assert known.costs.costs_s()[1] == pytest.approx(0.2)


def test_a_run_that_was_killed_right_after_its_replay_does_not_change_the_rate_of_rows() -> None:
    """Nothing came before its only batch, and the arrivals of that one are a burst."""
    known = after(*(batch(number) for number in range(5)))
    for start_s in (60.0, 120.0):
        known.history.pause()
        known.learn(batch(5, start_s=start_s, backlog_rows=100_000, replayed_s=start_s - 5.0 * LENGTH_S))
    assert known.history.rows_per_s == pytest.approx(100.0 / LENGTH_S)
    assert known.next_rows().sum() == pytest.approx((120.0 - 4.0 * LENGTH_S) * 100.0 / LENGTH_S)


def test_rows_of_a_replay_in_the_journal_did_not_come_while_nothing_ran() -> None:
    known = after(*(batch(number) for number in range(5)), batch(5, start_s=3_600.0, replayed_s=3_600.0 - 5 * LENGTH_S))
    assert known.history.rows_per_s == pytest.approx(100.0 / LENGTH_S)


@pytest.mark.parametrize(("pause_s", "lateness_s"), [(1.0, 10.0), (0.0, 0.0)], ids=["idle", "busy"])
def test_rows_come_later_than_in_the_run_before_if_the_query_waits_for_them(pause_s: float, lateness_s: float) -> None:
    """A query that never waits may be behind a source with a limit, which holds rows back that come in time."""
    known = after(*(batch(number) for number in range(5)))
    known.history.pause()
    for number in range(5):
        start_s, rows = 60.0 + number * (LENGTH_S + pause_s), 100 + 5 * number
        late = {"rows_in": rows, "rows_kept": rows, "lag_s": 10.0, "queuing": Latency(rows, 11.0, 12.0)}
        known.learn(batch(number, start_s=start_s, **late))
    assert known.history.lateness_s == lateness_s
    assert known.out_of_reach == (lateness_s > 0.0)
