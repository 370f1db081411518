"""Queries that share an application, on virtual time: shares are fair, targets hold, and nothing is shed in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.slots import TARGET_S, Query, mixed, run, sic

from penstock.core.control.planner import RECALLED, SOURCE
from penstock.core.fairness.by_source import ALIKE, UNFAIR
from penstock.core.fairness.jain import jain
from penstock.core.fairness.members import SharedKnowledge, Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.core.fairness.work_budget import WorkBudget
from penstock.messages.report import Latency, Report


@pytest.mark.parametrize("measured", [True, False])
def test_overloaded_queries_rest_on_equal_shares_and_hold_the_target(measured: bool) -> None:  # noqa: FBT001 - a parameter
    queries = mixed()
    for query in queries:
        query.measured = measured
    run(queries, 90.0)
    shares = [sic(query, 30.0) for query in queries]
    assert jain(shares) >= 0.999
    assert min(shares) >= 0.3
    for query in queries:
        waits = [wait_s for end_s, _, wait_s in query.done if end_s > 30.0]
        assert sum(waits) / len(waits) <= TARGET_S
        assert max(waits) <= 1.5 * TARGET_S


def test_what_piled_up_before_the_first_plan_is_worked_off_soon() -> None:
    queries = [Query(name, {"a": rate}, 4.0 / 3.0 / rate, overhead_s=0.8) for name, rate in (("x", 200.0), ("y", 50.0))]
    queries.append(Query("z", {"a": 100.0}, 4.0 / 3.0 / 100.0, overhead_s=0.8))
    run(queries, 60.0, late=True)
    for query in queries:
        assert max(wait_s for _, _, wait_s in query.done) > 3.0 * TARGET_S
        later = [wait_s for end_s, _, wait_s in query.done if end_s > 35.0]
        assert sum(later) / len(later) <= 0.75 * TARGET_S
        assert max(later) <= 1.25 * TARGET_S, "of a single batch, with plans that are late"


def test_sources_that_bring_more_for_their_work_lift_everybody() -> None:
    alike, greedy = mixed(), mixed()
    for query in greedy[:2]:
        query.prefer = "sic"
    for queries in (alike, greedy):
        run(queries, 90.0)
    assert jain([sic(query, 30.0) for query in greedy]) >= 0.995
    assert min(sic(query, 30.0) for query in greedy) > 1.1 * max(sic(query, 30.0) for query in alike)


def test_a_weight_of_two_is_given_twice_the_share() -> None:
    queries = mixed()
    queries[0].importance = 2.0
    run(queries, 60.0)
    others = [sic(query, 30.0) for query in queries[1:]]
    assert sic(queries[0], 30.0) == pytest.approx(2.0 * max(others), rel=0.1)


def test_rows_that_must_be_kept_count_and_the_rest_makes_up_for_the_others() -> None:
    queries = mixed()
    queries[1].must_keep = 0.3
    run(queries, 60.0)
    assert jain([sic(query, 30.0) for query in queries]) >= 0.995


@pytest.mark.parametrize("policy", ["balance_sic", "balanced"])
@pytest.mark.parametrize("rows_per_s", [20.0, 90.0])
def test_fixed_batch_time_beyond_the_target_is_no_reason_to_shed(rows_per_s: float, policy: str) -> None:
    queries = [Query(name, {"a": rows_per_s}, 0.002, overhead_s=4.0, measured=False) for name in ("x", "y")]
    planner = run(queries, 120.0, policy=policy)
    for query in queries:
        assert sic(query, 0.0) >= 0.85
        assert all(share == pytest.approx(1.0, abs=0.02) for end_s, share, _ in query.done if end_s > 40.0)
    assert any("is out of reach" in alarm for alarm in planner.alarms("x"))


def test_work_behind_the_measured_operator_is_shed_for() -> None:
    queries = [Query(name, {"a": 400.0}, 0.0001, outside_s=0.005, overhead_s=0.2) for name in ("x", "y")]
    run(queries, 90.0)
    for query in queries:
        waits = [wait_s for end_s, _, wait_s in query.done if end_s > 50.0]
        assert max(waits) <= TARGET_S
        assert 0.35 <= sic(query, 50.0) <= 0.5


def test_a_query_that_cannot_keep_up_is_held_though_its_target_is_out_of_reach() -> None:
    queries = [Query(name, {"a": 400.0}, 0.005, overhead_s=4.0, measured=False) for name in ("x", "y")]
    run(queries, 240.0)
    for query in queries:
        assert max(wait_s for end_s, _, wait_s in query.done if end_s > 120.0) <= 30.0


def test_a_calm_application_sheds_nothing() -> None:
    queries = mixed()
    planner = run(queries, 30.0, capacity=8.0)
    assert planner.budget.per_s is None
    assert all(share == pytest.approx(1.0) for query in queries for _, share, _ in query.done)


def test_shedding_ends_with_the_overload() -> None:
    queries = mixed()
    for query in queries:
        query.level = lambda now_s: 0.25 if now_s > 40.0 else 1.0
    planner = run(queries, 120.0)
    assert planner.budget.per_s is None
    assert all(query.done[-1][1] == pytest.approx(1.0) for query in queries)


def test_the_same_share_for_all_is_told_by_another_reason() -> None:
    for policy, reason in (("balance_sic", UNFAIR), ("random", ALIKE)):
        queries = mixed()
        planner = run(queries, 30.0, policy=policy)
        for query in queries:
            plan = planner.plan(query.name)
            assert plan is not None
            assert plan.policy == policy
            assert plan.gate(SOURCE).reasons == (reason,)


def test_a_query_that_stands_still_takes_no_part_and_keeps_all_that_comes_next() -> None:
    queries = mixed()
    planner = run(queries, 60.0)
    now_s = 60.0
    released = planner.release("avg_all", 0, now_s, "no input")
    assert released is not None
    assert not released.gates
    assert released.sic_at(SOURCE) is not None
    assert planner.release("avg_all", 0, now_s, "no input") is None
    kept = sum(planner.plan("top_5").gate(SOURCE).keep)
    for number in range(3):
        report = replace(queries[1].reports[-1], start_s=now_s + number - 1.0, end_s=now_s + number)
        plan = planner.decide("top_5", report, now_s + number)
        if plan is not None and plan.gate(SOURCE):
            kept = max(kept, sum(plan.gate(SOURCE).keep))
    assert kept > sum(planner.plan("cov").gate(SOURCE).keep)


def test_more_must_be_kept_than_fits_is_an_alarm() -> None:
    queries = mixed()
    for query in queries:
        query.must_keep = 0.9
    planner = run(queries, 60.0)
    alarms = planner.alarms("avg_all")
    assert len(alarms) == 1
    assert "'avg_all'" in alarms[0]
    assert "narrow keep" in alarms[0]


def test_a_dry_run_plans_for_what_was_done() -> None:
    budget = WorkBudget(2.0, acts=False)
    for second in range(20):  # waits grow, because nothing is shed
        budget.follow(float(second), wait_s=1.0 + second, cycle_s=1.0, done_per_s=1.8, comes_per_s=4.0, pace_per_s=1.8)
    assert budget.now_per_s == pytest.approx(1.8, rel=0.1)
    budget.follow(30.0, wait_s=1.0, cycle_s=1.0, done_per_s=1.0, comes_per_s=1.0, pace_per_s=1.8)
    assert budget.now_per_s is None


def test_a_slow_start_is_no_reason_to_shed_all() -> None:
    """A first batch that took half a minute for two rows says nothing about capacity, and rows of it are dear."""
    planner = FairPlanner(TARGET_S)
    planner.join("cold", Terms(("a",)))
    boxes = {"a": {"rows_in": 2, "rows_out": 2, "busy_s": 0.0}}
    cold = Report(
        sequence=0,
        start_s=0.0,
        end_s=30.0,
        rows_in=2,
        rows_kept=2,
        busy_s=0.02,
        span_s=0.01,
        backlog_rows=3000,
        cost_sketch=b"",
        queuing=Latency(2, 25.0, 25.0),
        boxes=boxes,
    )
    plan = planner.decide("cold", cold, 30.0)
    assert plan is not None
    # A hundred rows of 0.01 s a second come, and two can be done at a time.
    assert plan.gate(SOURCE) is None or plan.gate(SOURCE).keep[0] >= 0.4


def batch(number: int, start_s: float, end_s: float, rows: int, **more: object) -> Report:
    """A batch of one source, of which all rows are kept and take 10 ms each."""
    given = {
        "rows_kept": rows,
        "busy_s": 0.01 * rows,
        "span_s": end_s - start_s,
        "cost_sketch": b"",
        "boxes": {"a": {"rows_in": rows, "rows_out": rows, "busy_s": 0.0}},
    }
    given |= more
    overhead_s = max(end_s - start_s - given["span_s"], 0.0)
    return Report(sequence=number, start_s=start_s, end_s=end_s, rows_in=rows, overhead_s=overhead_s, **given)


def overloaded(planner: FairPlanner, name: str, seconds: int = 40, ahead_s: float = 0.0) -> list[float]:
    """Batches of 4 s, without shedding; the shares that plans give, as the clock here tells the time."""
    shares = []
    for number in range(seconds // 4):
        start_s = 4.0 * number
        plan = planner.decide(name, batch(number, start_s, start_s + 4.0, 400), start_s + 4.0 + ahead_s)
        if plan is not None:
            shares.append(plan.gate(SOURCE).keep[0] if plan.gate(SOURCE) else 1.0)
    return shares


def test_a_query_that_waits_for_its_trigger_is_no_reason_to_shed() -> None:
    planner = FairPlanner(TARGET_S)
    planner.join("hourly", Terms(("a",)))
    for number in range(6):
        start_s = 30.0 * number
        waited = Latency(100, 15.5, 31.0)  # half of the time between two triggers, and half of the batch
        report = batch(number, start_s, start_s + 1.0, 100, queuing=waited, span_s=1.0)
        plan = planner.decide("hourly", report, start_s + 1.0)
        assert plan is None or not plan.gates
    assert planner.budget.per_s is None
    (alarm,) = planner.alarms("hourly")
    assert "query 'hourly': mean wait 15.50 s, most of it before the batch starts" in alarm
    assert "\n" not in alarm


def test_rows_that_wait_for_work_after_a_pause_are_a_reason_to_shed() -> None:
    planner = FairPlanner(TARGET_S)
    planner.join("bursts", Terms(("a",)))
    for number in range(6):
        start_s = 15.0 * number
        waited = Latency(500, 5.1, 10.0)  # all came just before the batch, which takes 10 s
        plan = planner.decide(
            "bursts", batch(number, start_s, start_s + 10.0, 500, queuing=waited, span_s=10.0), start_s + 10.0
        )
    assert planner.budget.per_s is not None
    assert plan is None or plan.gates


def test_a_clock_ahead_of_that_of_batches_stops_no_plan() -> None:
    planner = FairPlanner(TARGET_S)
    planner.join("one", Terms(("a",)))
    planner.join("other", Terms(("a",)))
    shares = overloaded(planner, "one", ahead_s=3600.0)
    assert shares[-1] < 1.0


def test_a_query_that_runs_again_is_given_a_plan_again() -> None:
    planner = FairPlanner(TARGET_S)
    planner.join("one", Terms(("a",)))
    overloaded(planner, "one")
    last = batch(99, 40.0, 44.0, 400)
    planner.decide("one", last, 44.0)
    planner.join("one", Terms(("a",)))
    assert planner.plan("one") is None
    assert planner.decide("one", batch(100, 48.0, 52.0, 400, backlog_rows=400), 52.0) is not None


def test_a_query_that_has_ended_leaves_its_work_to_the_others() -> None:
    planner = FairPlanner(TARGET_S)
    for name in ("one", "other"):
        planner.join(name, Terms(("a",)))
    for number in range(10):
        start_s = 4.0 * number
        for name in ("one", "other"):
            planner.decide(name, batch(number, start_s, start_s + 4.0, 400), start_s + 4.0)
    both = planner.plan("one").gate(SOURCE).keep[0]
    planner.leave("other")
    alone = planner.decide("one", batch(10, 40.0, 44.0, 400), 44.0)
    assert alone is not None
    assert alone.gate(SOURCE) is None or alone.gate(SOURCE).keep[0] > 1.2 * both


def test_work_told_in_another_unit_is_the_same_work() -> None:
    """A query comes that has no operator to tell of its work: by length of batches, eight slots do the work of one."""
    planner = FairPlanner(TARGET_S)
    planner.join("told", Terms(("a",)))
    for number in range(10):
        start_s = 4.0 * number
        planner.decide("told", batch(number, start_s, start_s + 4.0, 400, busy_s=32.0, span_s=4.0), start_s + 4.0)
    before = planner.plan("told").gate(SOURCE).keep[0]
    planner.join("untold", Terms(("a",)))
    for number in range(3):
        start_s = 40.0 + number
        planner.decide("untold", batch(number, start_s, start_s + 0.5, 1, cost_sketch=None), start_s + 0.5)
    planner.decide("told", batch(10, 41.0, 45.0, 400, busy_s=32.0, span_s=4.0), 45.0)
    assert planner.plan("told").gate(SOURCE).keep[0] == pytest.approx(before, rel=0.3)


def test_after_standing_still_the_second_batch_tells_the_rate() -> None:
    known = SharedKnowledge(("a",), window_s=10.0)
    for number in range(4):
        known.learn(batch(number, 2.0 * number, 2.0 * number + 1.0, 10))
    known.learn(batch(4, 1000.0, 1002.0, 200))
    known.learn(batch(5, 1002.0, 1004.0, 200))
    assert known.rates["a"] > 5.0
    known.learn(batch(6, 1004.0, 1006.0, 200))
    known.learn(batch(7, 1006.0, 1008.0, 200))
    assert known.rates == {"a": 100.0}


def test_batches_of_which_nothing_is_kept_leave_the_cost_known() -> None:
    known = SharedKnowledge(("a",), window_s=10.0)
    for number in range(3):
        known.learn(batch(number, 2.0 * number, 2.0 * number + 1.0, 10))
    for number in range(3, 20):
        known.learn(
            batch(
                number,
                2.0 * number,
                2.0 * number + 1.0,
                10,
                rows_kept=0,
                rows_shed={"more": 10},
                busy_s=0.0,
                cost_sketch=None,
            )
        )
    assert known.measured
    assert known.cost_s == pytest.approx(0.01)


def test_rows_that_are_old_when_they_come_are_an_alarm_and_no_reason_to_shed() -> None:
    planner = FairPlanner(TARGET_S)
    planner.join("old", Terms(("a",)))
    for number in range(30):
        start_s, waited = 1.0 * number, Latency(150, 900.0, 901.0)
        report = batch(number, start_s, start_s + 1.0, 150, busy_s=1.5, span_s=0.75, queuing=waited)
        plan = planner.decide("old", report, start_s + 1.0)
        assert plan is None or not plan.gates
    (alarm,) = planner.alarms("old")
    assert alarm.startswith("query 'old': target = ")
    assert "is out of reach, so no rows are shed: rows are 899 s old when their batch starts" in alarm
    assert "\n" not in alarm


@pytest.mark.parametrize("measured", [True, False])
def test_plans_say_how_many_rows_of_a_batch_fit_also_by_the_reports_of_an_earlier_run(measured: bool) -> None:  # noqa: FBT001 - a parameter
    query = Query("x", {"a": 400.0}, 0.005, measured=measured)
    before = run([query], 40.0, capacity=1.0).plan("x")
    assert before is not None
    assert before.gates
    again = FairPlanner(TARGET_S)
    again.join("x", Terms(("a",)))
    plan = again.recall("x", query.reports, 100.0)
    assert plan is not None
    assert (plan.gates, plan.note) == ((), RECALLED)
    # 0.9 of the target, less the overhead of 0.4 s, at 5 ms a row.
    assert plan.fits.rows == pytest.approx((0.9 * TARGET_S - 0.4) / 0.005, rel=0.25)
    assert plan.fits.rows_per_s == pytest.approx(200.0, rel=0.1)
    share = before.expected.keep_share
    assert before.fits.rows_per_s == pytest.approx(200.0 / share, rel=0.2)
    assert plan.sic_at(SOURCE) is not None, "rows carry what they carried before"
    assert again.members["x"].known.present(119.0), "the others reckon with it until it reports"
    assert not again.members["x"].known.present(121.0)
    again.join("x", Terms(("a",)))
    assert again.recall("x", [], 100.0) is None


def test_a_target_that_is_missed_for_long_is_an_alarm_whatever_the_reason() -> None:
    planner = FairPlanner(TARGET_S, acts=False)
    planner.join("slow", Terms(("a",)))
    for number in range(12):
        start_s = 4.0 * number
        report = batch(number, start_s, start_s + 4.0, 400, queuing=Latency(400, 4.0, 8.0))
        planner.decide("slow", report, start_s + 4.0)
        assert number > 3 or not planner.alarms("slow")
    (alarm,) = planner.alarms("slow")
    assert alarm.startswith("query 'slow': the mean wait exceeds the 2 s target in 12 batches in a row, 4.00 s in")


def test_rows_of_a_replay_came_at_the_mean_rate_of_the_run_before() -> None:
    """Its last batch had a burst."""
    known = SharedKnowledge(("a",), window_s=10.0)

    def learn(start_s: float, rows: int, **more: float) -> dict[str, float]:
        boxes = {"a": {"rows_in": rows, "rows_out": rows, "busy_s": 0.0}}
        times = {"start_s": start_s, "end_s": start_s + 1.0}
        known.learn(Report(sequence=0, rows_in=rows, rows_kept=rows, boxes=boxes, **times, **more))
        return known.rates

    *_, before = (learn(float(number), rows) for number, rows in enumerate((100, 100, 100, 700)))
    known.pause(60.0)
    assert learn(60.0, 50, backlog_rows=9_999, replayed_s=56.0) == pytest.approx(before)
