"""A guarded query is killed in the middle of an overload and started again: loop and planner on virtual time."""

from dataclasses import replace

import pytest
from tests.sim.test_microbatch import LIMIT_S, POLICIES, TARGET, stream

from penstock.messages.plan import Binding
from penstock.messages.report import Report
from penstock.sim.driver import Earlier, Unfinished
from penstock.sim.microbatch import Query, simulate
from penstock.sim.workload import Stream

KILLED_S = 50.0
#: As many reports as a guard finds in its journal.
REPORTS = 20


def started_again(
    policy: str, query: Query, outage_s: float, *, memory: bool, reports: bool = True, replay: bool = False
) -> list[Report]:
    """The batches after a kill: between two batches, or in the middle of one, which is the first that is left out."""
    rows = stream((KILLED_S + outage_s + 30.0, 2.0))
    before = simulate(POLICIES[policy].planner(TARGET), rows, replace(query, killed_s=KILLED_S))
    unfinished = before.reports.pop() if replay else None
    plans = [plan for plan in before.plans if not unfinished or plan.version <= (unfinished.plan_version or 0)]
    newest, done = plans[-1], sum(report.rows_in for report in before.reports)
    assert newest.gates
    earlier = Earlier(newest if memory else replace(newest, memory=""), before.reports[-REPORTS:] if reports else [])
    last = before.reports[-1:]
    if unfinished:
        bound = Binding(len(last), "simulated", unfinished.start_s, newest.version)
        earlier = earlier._replace(unfinished=Unfinished(bound, unfinished.rows_in))
    query = replace(query, first_start_s=(unfinished or last[0]).end_s + outage_s)
    rest = Stream(rows.keys[done:], rows.costs_s[done:], rows.arrivals_s[done:], rows.items)
    return simulate(POLICIES[policy].planner(TARGET), rest, query, earlier=earlier, last=last).reports[1 + replay :]


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
