import numpy as np
import pytest

from penstock.core.bucket_costs import BUCKETS, BucketCosts
from penstock.core.knowledge import LEAST_WORK, Knowledge
from penstock.core.target import MeanQueueLatency
from penstock.report import Latency, Report

TARGET = MeanQueueLatency("2 s")
OVERHEAD_S, DELAY_S, SPAN_S = 0.4, 0.2, 1.2
LENGTH_S = OVERHEAD_S + SPAN_S


def sketch(costs_s: dict[int, float], rows: int = 10) -> bytes:
    costs = BucketCosts()
    for bucket, cost_s in costs_s.items():
        costs.rows[bucket] = costs.weight[bucket] = rows
        costs.work_s[bucket] = rows * cost_s
    return costs.to_bytes()


def batch(number: int, start_s: float | None = None, length_s: float = LENGTH_S, **changed: object) -> Report:
    """A batch of a run of batches without a pause."""
    start_s = number * LENGTH_S if start_s is None else start_s
    plain = {"rows_in": 100, "rows_kept": 100, "busy_s": 2.0 * SPAN_S, "slots": 2, "span_s": SPAN_S}
    plain |= {"overhead_s": OVERHEAD_S, "delay_s": DELAY_S, "backlog_rows": 100}
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
    assert known.surprise == pytest.approx(22.0 / 13.0)
    assert known.costs.mean_s == pytest.approx(2.15, rel=0.1)
    assert known.costs.costs_s()[2] < 3.0


def test_a_batch_that_measures_nothing_halves_what_is_believed() -> None:
    shut = batch(1, rows_kept=0, rows_shed={"dear": 100}, busy_s=0.0, span_s=0.0)
    known = after(batch(0, cost_sketch=sketch({1: 1.0})), shut, shut)
    assert known.costs.costs_s()[1] == pytest.approx(0.25)


def test_without_measurements_by_key_every_bucket_is_alike() -> None:
    known = after(batch(0))
    assert np.ptp(known.costs.costs_s()) == 0.0
    assert known.costs.mean_s == pytest.approx(0.024)
    assert known.next_rows().sum() > 0.0
    assert known.next_rows() == pytest.approx(known.next_rows().sum() / BUCKETS)


def test_capacity_is_what_the_last_batch_got_done() -> None:
    assert after(batch(0)).capacity == pytest.approx(2.0)
    assert after(batch(0), batch(1, busy_s=1.2)).capacity == pytest.approx(1.0)
    # Without a span, tasks are taken to have worked all the time.
    assert after(batch(0, span_s=0.0, slots=3)).capacity == pytest.approx(3.0)


def test_one_strange_batch_does_not_change_the_overhead() -> None:
    usual = [batch(number) for number in range(1, 5)]
    assert after(batch(0, overhead_s=12.0, delay_s=11.0), *usual).steady[:2] == pytest.approx((DELAY_S, OVERHEAD_S))


def test_rows_that_wait_longer_than_the_equation_says_leave_less_time_for_work() -> None:
    fair_s = (LENGTH_S + SPAN_S) / 2.0 + DELAY_S
    spans_s = []
    for excess_s in (-0.3, 0.0, 0.3):
        waited = Latency(100, mean_s=fair_s + excess_s, max_s=5.0)
        known = after(*(batch(number, queuing=waited) for number in range(4)))
        spans_s.append(known.span_s(known.steady))
    assert spans_s[0] == pytest.approx(spans_s[1])
    assert spans_s[2] == pytest.approx(spans_s[1] - 0.3)


def test_a_query_that_stands_still_waits_for_its_trigger_and_collects_rows_all_the_while() -> None:
    known = after(*(batch(number, start_s=3.0 * number) for number in range(4)))
    assert known.interval_s == pytest.approx(3.0)
    assert known.pace.cycle_s == pytest.approx(3.0)
    assert known.next_rows().sum() == pytest.approx(100 * 3.0 / LENGTH_S)
    assert known.span_s(known.pace) >= LEAST_WORK * 3.0
    # One hour without rows is no trigger.
    assert after(*(batch(number) for number in range(4)), batch(4, start_s=3600.0)).interval_s == 0.0


def test_a_source_that_hands_out_less_than_it_has_goes_on_doing_so() -> None:
    capped = after(batch(0, lag_s=1.0), batch(1, length_s=3.0, lag_s=1.0, backlog_rows=190))
    assert capped.next_rows().sum() == pytest.approx(100)
    keeps_up = after(batch(0), batch(1, length_s=3.0, backlog_rows=190))
    assert keeps_up.next_rows().sum() > 130


def test_nothing_is_known_at_first() -> None:
    known = Knowledge(TARGET)
    assert not known.costs.known
    assert not known.next_rows().any()
    assert known.pace.overhead_s == known.interval_s == 0.0


def test_rows_that_never_come_to_the_operator_bring_no_work() -> None:
    known = after(batch(0, cost_sketch=sketch({1: 0.2}, rows=10)))  # a filter behind the gate lets one in ten through
    assert known.reach == pytest.approx(0.1)
    known.learn(batch(1, cost_sketch=b""))
    assert known.costs.costs_s()[1] == pytest.approx(0.2)
