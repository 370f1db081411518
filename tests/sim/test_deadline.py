"""A backlog that must be worked off by a deadline, as with `trigger(availableNow=True)`: the loop on virtual time."""

from dataclasses import replace

import numpy as np
import pytest
from tests.sim.test_microbatch import CORES, POLICIES, Costs, capacity_rows_per_s, costs_by_key, run, stream

from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.targets import Deadline, Target
from penstock.messages.plan import Plan
from penstock.sim.driver import Earlier
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.workload import Stream

#: Rows came for this long before the query started.
CAME_S = 1000.0
WITHIN_S = 100.0
TARGET = Deadline(WITHIN_S)
BATCHES = 40


def backlog(load: float, costs_s: Costs | None = None) -> Stream:
    """Rows that take this many times as long as the deadline allows, if batches had no overhead."""
    return stream((CAME_S, load * WITHIN_S / CAME_S), costs_s=costs_s)


def in_parts(rows: Stream, **changed: object) -> Query:
    """A query that finds all of them, and reads them in parts."""
    query = Query(first_start_s=CAME_S, rows_per_batch=rows.rows // BATCHES, overhead_s=0.25)
    return replace(query, **changed)  # type: ignore[arg-type]


def took_s(done: Run) -> float:
    return done.reports[-1].end_s - CAME_S


def weight(done: Run) -> float:
    return sum(float(BucketCosts.from_bytes(report.cost_sketch or b"").weight.sum()) for report in done.reports)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_backlog_that_fits_is_kept_whole(policy: str) -> None:
    rows = backlog(0.7)
    done = run(policy, rows, target=TARGET, query=in_parts(rows))
    assert done.kept.all()
    assert took_s(done) <= WITHIN_S


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [1.2, 2.0, 5.0])
def test_a_backlog_that_is_too_large_is_worked_off_in_time_and_the_time_is_used(load: float, policy: str) -> None:
    rows = backlog(load)
    done = run(policy, rows, target=TARGET, query=in_parts(rows))
    assert 0.85 * WITHIN_S <= took_s(done) <= WITHIN_S
    assert not any(done.alarms)
    if policy == "any":
        assert weight(done) == pytest.approx(rows.rows, rel=0.03)
        # A batch or two are kept whole before costs are known; later ones lose alike, until the reserve is left over.
        shares = [report.rows_kept / report.rows_in for report in done.reports[3:-10]]
        assert max(shares) - min(shares) <= 0.25


def dearer(arrivals_s: np.ndarray, keys: np.ndarray) -> np.ndarray:
    return costs_by_key()[keys] * np.where(arrivals_s >= CAME_S / 2.0, 3.0, 1.0)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.8, 2.0])
def test_costs_that_rise_in_the_middle_do_not_break_the_deadline(load: float, policy: str) -> None:
    rows = backlog(load, dearer)
    done = run(policy, rows, target=TARGET, query=in_parts(rows))
    assert took_s(done) <= WITHIN_S
    assert done.kept.mean() >= 0.8 / (2.0 * load)


def test_rows_that_must_be_kept_are_kept_and_paid_for_by_the_others() -> None:
    rows = backlog(2.0)
    must_keep = rows.keys % 5 == 0
    done = run("any", rows, target=TARGET, must_keep=must_keep, query=in_parts(rows))
    assert done.kept[must_keep].all()
    assert not done.kept[~must_keep].all()
    assert took_s(done) <= WITHIN_S


def test_too_many_rows_that_must_be_kept_are_told_and_flow() -> None:
    rows = backlog(3.0)
    must_keep = rows.keys % 5 != 0
    done = run("any", rows, target=TARGET, must_keep=must_keep, query=in_parts(rows))
    assert done.kept[must_keep].all()
    assert took_s(done) > WITHIN_S
    told = [line for lines in done.alarms for line in lines]
    assert any("keep matches" in line and "so the deadline is missed" in line for line in told)
    assert any("is missed: " in line and "rows are left" in line for line in told)


def test_a_lost_core_does_not_break_the_deadline() -> None:
    rows = backlog(1.2)
    query = in_parts(rows, cores=lambda now_s: CORES if now_s < CAME_S + 30.0 else 1)
    assert took_s(run("any", rows, target=TARGET, query=query)) <= WITHIN_S


def test_without_a_count_of_rows_the_age_of_rows_tells_how_many_are_left() -> None:
    rows = backlog(2.0)
    done = run("any", rows, target=TARGET, query=in_parts(rows, counted=False))
    assert all(report.batches_behind is None for report in done.reports)
    assert 0.8 * WITHIN_S <= took_s(done) <= WITHIN_S


def test_if_nothing_tells_how_many_are_left_every_row_is_kept_and_that_is_told() -> None:
    rows = backlog(2.0)
    at_once = Stream(rows.keys, rows.costs_s, np.full(rows.rows, CAME_S), rows.items)
    done = run("any", at_once, target=TARGET, query=in_parts(rows, counted=False))
    assert done.kept.all()
    assert any("cannot be planned" in line for line in done.alarms[5])


@pytest.mark.parametrize("measured", [True, False])
def test_a_sink_that_takes_the_time_is_planned_for(*, measured: bool) -> None:
    rows = backlog(1.0)
    row_s = 0.5 / capacity_rows_per_s()
    query = in_parts(rows, row_overhead_s=lambda _: row_s, measured=measured)
    done = run("any", rows, target=TARGET, query=query)
    assert 0.7 * WITHIN_S <= took_s(done) <= WITHIN_S


def test_one_batch_is_not_planned_the_first_time_and_is_told() -> None:
    rows = backlog(2.0)
    done = run("any", rows, target=TARGET, query=in_parts(rows, rows_per_batch=None))
    assert done.kept.all()
    assert len(done.reports) == 1
    assert "read fewer rows per batch" in done.alarms[-1][-1]


def second_run(target: Target, newest: Plan, rows: Stream, last: Run) -> Run:
    query = Query(first_start_s=CAME_S)
    earlier = Earlier(newest, last.reports[-20:])
    return simulate(POLICIES["any"].planner(target), rows, query, earlier=earlier, last=last.reports[-1:])


@pytest.mark.parametrize("load", [0.5, 2.0])
def test_one_batch_of_the_next_run_is_cut_to_what_fits(load: float) -> None:
    """What the last run learned is in its plan; a backlog in one batch is then cut before it runs."""
    earlier = stream((100, 0.5))
    before = run("any", earlier, target=TARGET, query=Query(first_start_s=100.0, rows_per_batch=earlier.rows // 20))
    rows = backlog(load)
    done = second_run(TARGET, before.plans[-1], rows, before)
    assert len(done.reports) == 2
    assert done.reports[-1].duration_s <= WITHIN_S
    assert done.kept.all() == (load < 1.0)
    assert load < 1.0 or done.reports[-1].duration_s >= 0.8 * WITHIN_S


def test_a_query_that_goes_on_after_its_backlog_keeps_every_row() -> None:
    """A deadline for a query without an end, by mistake: nothing is left at the source, so nothing is shed."""
    done = run("any", stream((300, 0.5)), target=TARGET)
    assert done.kept.all()


def test_cores_wanted_are_those_for_the_deadline() -> None:
    rows = backlog(3.0)
    wanted = run("any", rows, target=TARGET, query=in_parts(rows)).reports[10].cores_wanted
    assert wanted is not None
    assert 3 * CORES <= wanted <= 5 * CORES
    done = run("any", rows, target=TARGET, query=in_parts(rows, cores=lambda _: wanted))
    assert done.kept.all()
    assert took_s(done) <= WITHIN_S
