"""A guarded query is killed in the middle of an overload and started again: loop and planner on virtual time."""

from dataclasses import replace

import pytest
from tests.sim.test_microbatch import LIMIT_S, POLICIES, TARGET, stream

from penstock.core.control.policies import Planner
from penstock.core.loop.events import BatchEnded, Began, Stored
from penstock.core.loop.instructions import Instruction, Write
from penstock.core.loop.machine import Loop
from penstock.messages.plan import Plan
from penstock.messages.report import Report
from penstock.sim.microbatch import Query, simulate
from penstock.sim.workload import Stream

KILLED_S = 50.0
#: As many reports as a guard finds in its journal.
REPORTS = 20


class Looped:
    """A planner in its loop, whose store takes every plan."""

    def __init__(self, planner: Planner) -> None:
        self._planner, self._loop = planner, Loop(planner, "query")

    @property
    def in_force(self) -> Plan | None:
        return self._loop.in_force

    @property
    def alarms(self) -> tuple[str, ...]:
        return self._loop.alarms

    def begin(self, now_s: float, newest: Plan | None, reports: list[Report]) -> None:
        self._carry_out(self._loop.handle(Began(now_s, newest, reports)))

    def decide(self, report: Report, now_s: float) -> Plan | None:
        before = self.in_force
        self._carry_out(self._loop.handle(BatchEnded(now_s, report.sequence, report)))
        return self.in_force if self.in_force is not before else None

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        return self._planner.release(version, now_s, note)

    def _carry_out(self, todo: list[Instruction]) -> None:
        for one in todo:
            if isinstance(one, Write):
                self._loop.handle(Stored(one.plan.version))


def started_again(policy: str, query: Query, outage_s: float, *, memory: bool, reports: bool = True) -> list[Report]:
    """The batches after a kill."""
    rows = stream((KILLED_S + outage_s + 30.0, 2.0))
    first = Looped(POLICIES[policy].planner(TARGET))
    before = simulate(first, rows, replace(query, killed_s=KILLED_S)).reports
    newest = first.in_force
    assert newest is not None
    assert newest.gates
    start_s, done = before[-1].end_s + outage_s, sum(report.rows_in for report in before)
    second = Looped(POLICIES[policy].planner(TARGET))
    second.begin(start_s, newest if memory else replace(newest, memory=""), before[-REPORTS:] if reports else [])
    rest = Stream(rows.keys[done:], rows.costs_s[done:], rows.arrivals_s[done:], rows.items)
    query = replace(query, first_start_s=start_s)
    return simulate(second, rest, query, earlier=(before[-1:], second.in_force)).reports[1:]


def waits_s(reports: list[Report]) -> list[float]:
    """Mean waits of batches, but for the last: what comes after the stream's end is no load."""
    return [report.queuing.mean_s for report in reports[:-1] if report.queuing]


@pytest.mark.parametrize("reports", [True, False], ids=["reports", "no reports"])
@pytest.mark.parametrize("outage_s", [5.0, 60.0])
@pytest.mark.parametrize("measured", [True, False], ids=["measured", "unmeasured"])
@pytest.mark.parametrize("policy", ["any", "cheap"])
def test_the_target_is_held_from_the_second_batch_on(
    policy: str, outage_s: float, *, measured: bool, reports: bool
) -> None:
    query = Query(measured=measured)
    first_s, *others_s = waits_s(started_again(policy, query, outage_s, memory=True, reports=reports))
    assert len(others_s) > 10
    assert max(others_s) <= LIMIT_S
    without_s = waits_s(started_again(policy, query, outage_s, memory=False, reports=reports))
    assert first_s <= 1.01 * without_s[0], "what waits is cut to what fits, as by reports alone, or better"


@pytest.mark.parametrize("policy", ["any", "cheap"])
@pytest.mark.parametrize(("measured", "reports"), [(False, True), (True, False)])
def test_without_its_memory_a_query_misses_the_target_for_long(policy: str, *, measured: bool, reports: bool) -> None:
    """Batches that were all alike do not tell again what of them is fixed; and on Connect no reports are kept."""
    after = started_again(policy, Query(measured=measured), 60.0, memory=False, reports=reports)
    assert after[1].queuing is not None
    assert after[1].queuing.mean_s > 20.0 * LIMIT_S
