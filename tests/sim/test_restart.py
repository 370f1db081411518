"""A guarded query is killed in the middle of an overload and started again: loop and planner on virtual time."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.sim.test_microbatch import LIMIT_S, POLICIES, TARGET, stream

from penstock.core.control.policies import LoadAware, Planner
from penstock.core.control.targets import Target, Throughput
from penstock.messages.plan import Binding
from penstock.messages.report import Report
from penstock.sim.driver import Earlier, Unfinished
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.workload import Stream

KILLED_S = 50.0
#: As many reports as a guard finds in its journal.
REPORTS = 20


@cache
def started_again(
    policy: str, query: Query, outage_s: float, *, memory: bool, reports: bool = True, replay: bool = False
) -> list[Report]:
    """The batches after a kill in an overload: between two batches, or in the middle of one, which is left out."""
    before, planner = before_kill(policy, query, outage_s), POLICIES[policy].planner(TARGET)
    return resumed(before, planner, query, outage_s, memory=memory, reports=reports, replay=replay)[replay:]


@cache
def before_kill(policy: str, query: Query, outage_s: float) -> Run:
    """The run that is killed: the same one, whatever the next one finds of it."""
    rows = stream((KILLED_S + outage_s + 30.0, 2.0))
    return simulate(POLICIES[policy].planner(TARGET), rows, replace(query, killed_s=KILLED_S))


def killed(
    planner: Callable[[], Planner],
    rows: Stream,
    query: Query,
    outage_s: float,
    *,
    replay: bool = True,
    next_query: Query | None = None,
) -> list[Report]:
    """The batches of the next run, if a run is killed between two batches or, to `replay` it, in the middle of one."""
    before = simulate(planner(), rows, replace(query, killed_s=KILLED_S))
    return resumed(before, planner(), next_query or query, outage_s, replay=replay)


def resumed(
    before: Run,
    planner: Planner,
    query: Query,
    outage_s: float,
    *,
    memory: bool = True,
    reports: bool = True,
    replay: bool = True,
) -> list[Report]:
    """The batches of a run that follows another one, with what it finds of that."""
    rows, finished = before.stream, before.reports[:-1] if replay else before.reports
    unfinished = before.reports[-1] if replay else None
    plans = [plan for plan in before.plans if not unfinished or plan.version <= (unfinished.plan_version or 0)]
    newest, done = plans[-1], sum(report.rows_in for report in finished)
    earlier = Earlier(newest if memory else replace(newest, memory=""), finished[-REPORTS:] if reports else [])
    last = finished[-1:]
    if unfinished:
        bound = Binding(len(last), "simulated", unfinished.start_s, newest.version)
        earlier = earlier._replace(unfinished=Unfinished(bound, unfinished.rows_in))
    query = replace(query, first_start_s=(unfinished or last[0]).end_s + outage_s)
    rest = Stream(rows.keys[done:], rows.costs_s[done:], rows.arrivals_s[done:], rows.items)
    return simulate(planner, rest, query, earlier=earlier, last=last).reports[1:]


def waits_s(reports: list[Report]) -> list[float]:
    """Mean waits of batches, but for the last: what comes after the stream's end is no load."""
    return [report.queuing.mean_s for report in reports[:-1] if report.queuing]


@pytest.mark.parametrize("reports", [True, False], ids=["reports", "no reports"])
@pytest.mark.parametrize("outage_s", [5.0, 60.0])
@pytest.mark.parametrize("measured", [True, False], ids=["measured", "unmeasured"])
@pytest.mark.parametrize("policy", ["any", "cheap"])
@pytest.mark.parametrize("replay", [False, True], ids=["", "replay"])
def test_the_target_is_held_from_the_second_batch_on(
    policy: str, outage_s: float, *, measured: bool, reports: bool, replay: bool
) -> None:
    """Besides the replay: that batch was planned and bound by the killed run. The first new one has what waited."""
    query = Query(measured=measured, cold_s=5.0 if replay else 0.0)
    first_s, *others_s = waits_s(started_again(policy, query, outage_s, memory=True, reports=reports, replay=replay))
    assert len(others_s) > 10
    assert max(others_s) <= LIMIT_S
    without_s = waits_s(started_again(policy, query, outage_s, memory=False, reports=reports, replay=replay))
    assert first_s <= 1.01 * without_s[0], "what waits is cut to what fits, as by reports alone, or better"


@pytest.mark.parametrize("policy", ["any", "cheap"])
@pytest.mark.parametrize(("measured", "reports"), [(False, True), (True, False)])
def test_without_its_memory_a_query_misses_the_target_for_long(policy: str, *, measured: bool, reports: bool) -> None:
    """Batches that were all alike do not tell again what of them is fixed; and on Connect no reports are kept."""
    after = started_again(policy, Query(measured=measured), 60.0, memory=False, reports=reports)
    assert after[1].queuing is not None
    assert after[1].queuing.mean_s > 20.0 * LIMIT_S


def even(rows_per_s: float, burst: int, cost_s: float, end_s: float = 150.0) -> Stream:
    """Rows of one cost, in bursts of this many."""
    bursts = int(end_s * rows_per_s / burst)
    arrivals_s = ((np.arange(bursts)[:, None] + 0.5) * (burst / rows_per_s) + np.linspace(0.0, 0.01, burst)).ravel()
    keys = np.arange(len(arrivals_s)) % 64
    return Stream(keys, np.full(len(keys), cost_s), arrivals_s, 64)


@pytest.mark.parametrize("replay", [True, False], ids=["replay", "stop"])
@pytest.mark.parametrize("burst", [1, 50])
@pytest.mark.parametrize("target", [TARGET, Throughput(500)], ids=["wait", "rate"])
def test_what_waits_after_an_outage_is_kept_if_there_is_no_overload(
    target: Target, burst: int, *, replay: bool
) -> None:
    rows = even(rows_per_s=50.0, burst=burst, cost_s=0.004)
    after = killed(lambda: LoadAware().planner(target), rows, Query(), 60.0, replay=replay)
    assert max(report.rows_in for report in after) > 2_500
    assert sum(report.shed_total for report in after) == 0


def test_what_waits_behind_a_replay_is_expected_at_the_rate_of_several_batches() -> None:
    """The last batch before the kill had nearly all rows of a burst, so its own rate is three times the mean."""
    rows = even(rows_per_s=50.0, burst=50, cost_s=0.02)
    _, behind, *_ = killed(lambda: LoadAware().planner(TARGET), rows, Query(cold_s=3.0), 60.0)
    assert (behind.rows_in > 3_000, behind.shed_total) == (True, 0)


def test_the_rows_of_a_replay_show_an_overload_that_began_right_before_the_kill() -> None:
    rows = stream((KILLED_S - 2.0, 0.5), (100.0, 2.0))
    after = killed(lambda: LoadAware().planner(TARGET), rows, Query(cold_s=3.0, counted=False), 60.0)
    assert max(waits_s(after)[2:]) <= LIMIT_S


@pytest.mark.parametrize("replay", [True, False], ids=["replay", "stop"])
def test_rows_that_waited_for_the_start_at_a_source_with_a_limit_are_not_taken_for_rows_that_come_late(
    *, replay: bool
) -> None:
    rows = stream((KILLED_S + 200.0, 1.3))
    query = Query(rows_per_batch=2_000, counted=False)
    after = killed(lambda: LoadAware().planner(TARGET), rows, query, 30.0, replay=replay)
    assert waits_s(after)[0] > 10.0 * LIMIT_S
    assert min(waits_s(after)[-5:]) <= LIMIT_S


def test_a_trigger_of_the_run_before_is_forgotten() -> None:
    rows, query = stream((KILLED_S + 60.0, 2.0)), Query(trigger_s=10.0)
    planner = lambda: LoadAware().planner(TARGET)  # noqa: E731 - one of two arguments
    after = killed(planner, rows, query, 5.0, replay=False, next_query=replace(query, trigger_s=0.5))
    assert max(waits_s(after)[3:]) <= LIMIT_S
