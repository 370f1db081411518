"""The loop on virtual time: what follows from each event."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from penstock.core.control.memory import from_text, to_text
from penstock.core.loop.events import BatchEnded, Began, Event, Failed, Misread, Passed, Renewed, Stopped, Stored, Taken
from penstock.core.loop.instructions import Purge, Renew, Tell, Write
from penstock.core.loop.leases import LEASE_S
from penstock.core.loop.machine import PURGE_EVERY, Loop, PurgeSchedule
from penstock.core.loop.versions import Versions
from penstock.errors import PenstockError
from penstock.messages.plan import Costs, Drop, Fits, KeepTable, Plan
from penstock.messages.report import Report

REPORT = Report(sequence=0, start_s=0.0, end_s=1.0, rows_in=10, rows_kept=10)
SHEDDING = (KeepTable("source", (0.5,), ("over capacity",)),)


class Scripted:
    """A planner that decides what it was told to."""

    alarms = ()

    def __init__(self, *decisions: Plan | None) -> None:
        self.decisions = list(decisions)

    def decide(self, report: Report, now_s: float) -> Plan | None:
        del report
        plan = self.decisions.pop(0) if self.decisions else None
        return plan and replace(plan, decided_s=now_s)

    def save(self) -> dict[str, int]:
        return {"left": len(self.decisions)}

    def restore(self, state: Mapping[str, int], now_s: float) -> None:
        del now_s
        if state["left"] > len(self.decisions):
            raise PenstockError("so many are not there")
        self.decisions = self.decisions[len(self.decisions) - state["left"] :]

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan | None:
        return Plan(0, "recalled", now_s, 0, fits=Fits(5.0, 10.0)) if reports else None

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        return Plan(version, "scripted", now_s, 0, note=note)


def plan(*, sheds: bool) -> Plan:
    return Plan(0, "scripted", 0.0, 1, gates=SHEDDING if sheds else ())


def shedding_loop() -> Loop:
    """A loop whose first plan sheds and is stored as version 0."""
    loop = Loop(Scripted(plan(sheds=True)), "query", salt=7)
    (written, _) = loop.handle(BatchEnded(10.0, 0, REPORT))
    assert isinstance(written, Write)
    assert loop.in_force is None, "a plan is in the store before it acts"
    assert loop.handle(Stored(0)) == []
    assert loop.in_force == written.plan
    return loop


def test_a_plan_names_its_query_and_its_salt() -> None:
    loop = shedding_loop()
    assert loop.in_force is not None
    assert (loop.in_force.query, loop.in_force.salt, loop.in_force.version) == ("query", 7, 0)


def test_a_version_that_is_taken_is_passed_over() -> None:
    loop = Loop(Scripted(plan(sheds=True)), "query")
    loop.handle(Began(0.0, newest=Plan.keep_all(4, "earlier", 0.0)))
    assert loop.handle(BatchEnded(1.0, 0, REPORT))[0].plan.version == 5  # type: ignore[union-attr]
    (again,) = loop.handle(Taken(5))
    assert isinstance(again, Write)
    assert again.plan.version == 6
    loop.handle(Stored(6))
    assert loop.in_force == again.plan


def test_what_could_not_be_written_is_tried_again_with_a_new_date() -> None:
    loop = Loop(Scripted(plan(sheds=True)), "query")
    loop.handle(BatchEnded(1.0, 0, REPORT))
    assert loop.handle(Failed(0)) == []
    assert loop.in_force is None
    (again,) = loop.handle(Passed(3.0))
    assert isinstance(again, Write)
    assert (again.plan.version, again.plan.decided_s) == (0, 3.0)


def test_a_lease_is_renewed_only_by_who_understands_every_batch() -> None:
    loop = shedding_loop()
    assert loop.handle(Passed(10.0 + LEASE_S / 3.0)) == []
    assert loop.handle(Passed(21.0)) == [Renew(0, 21.0)]
    loop.handle(Misread(22.0))
    assert loop.handle(Passed(40.0)) == []
    loop.handle(BatchEnded(41.0, 1, REPORT))
    assert loop.handle(Passed(42.0)) == [Renew(0, 42.0)]


@pytest.mark.parametrize("end", [Passed(12.0, idle=True), Stopped(12.0, "over", replace(plan(sheds=True), version=0))])
def test_when_input_or_planning_ends_every_row_is_kept(end: Event) -> None:
    loop = shedding_loop()
    (written,) = loop.handle(end)
    assert isinstance(written, Write)
    assert (written.plan.gates, written.plan.version) == ((), 1)


def test_a_stopped_loop_writes_no_plan_that_sheds() -> None:
    loop = Loop(Scripted(plan(sheds=True)), "query")
    assert loop.handle(Stopped(1.0, "over")) == []
    assert [type(one) for one in loop.handle(BatchEnded(2.0, 0, REPORT))] == [Purge]


def test_costs_and_the_ratio_of_offsets_reach_the_next_plan() -> None:
    costs = Costs("deal", 2, (1.0,))
    loop = Loop(Scripted(), "query")
    (written, _) = loop.handle(BatchEnded(1.0, 0, REPORT, costs=costs, rows=10, offsets=20))
    assert isinstance(written, Write)
    assert (written.plan.costs, written.plan.rows_per_offset, written.plan.gates) == ((costs,), 0.5, ())


def test_an_earlier_run_is_learned_from() -> None:
    loop = Loop(Scripted(), "query")
    (written,) = loop.handle(Began(1.0, reports=[REPORT]))
    assert isinstance(written, Write)
    assert written.plan.fits == Fits(5.0, 10.0)


def test_a_planner_goes_on_from_what_the_newest_plan_of_its_query_remembers() -> None:
    first = Scripted(plan(sheds=True), None, plan(sheds=False))
    (written, _) = Loop(first, "query").handle(BatchEnded(1.0, 0, REPORT))
    assert isinstance(written, Write)
    for query, left in (("query", 2), ("another", 3)):
        second = Scripted(plan(sheds=True), None, plan(sheds=False))
        Loop(second, query).handle(Began(2.0, newest=written.plan))
        assert len(second.decisions) == left


@pytest.mark.parametrize("memory", ["torn", to_text({"left": 9})])
def test_a_memory_that_cannot_be_used_is_told_in_one_line_and_reports_are_learned_from(memory: str) -> None:
    newest = replace(plan(sheds=True), query="query", memory=memory)
    told, written = Loop(Scripted(), "query").handle(Began(2.0, newest=newest, reports=[REPORT]))
    assert isinstance(told, Tell)
    assert "\n" not in told.line
    assert isinstance(written, Write)
    assert written.plan.fits == Fits(5.0, 10.0)


def test_a_plan_that_stays_in_force_is_written_again_with_what_was_learned_since() -> None:
    loop = Loop(Scripted(plan(sheds=True), *[None] * 200), "query")
    writes = []
    for batch in range(3 * PURGE_EVERY):
        for one in loop.handle(BatchEnded(1.0 + batch, batch, REPORT)):
            if isinstance(one, Write):
                writes.append((batch, from_text(one.plan.memory)["left"], one.plan.gates))
                loop.handle(Stored(one.plan.version))
    assert writes == [(0, 200, SHEDDING), (PURGE_EVERY, 150, SHEDDING), (2 * PURGE_EVERY, 100, SHEDDING)]


def test_batches_without_rows_do_not_keep_a_plan_from_being_written_again() -> None:
    loop = Loop(Scripted(plan(sheds=True), *[None] * 200), "query")
    writes = 0
    for batch in range(3 * PURGE_EVERY):
        for one in loop.handle(BatchEnded(1.0 + batch, batch, REPORT if batch % 2 else None)):
            if isinstance(one, Write):
                writes += 1
                loop.handle(Stored(one.plan.version))
    assert writes == 3


def test_old_plans_are_purged_now_and_then() -> None:
    loop = Loop(Scripted(), "query")
    purged = [batch for batch in range(3 * PURGE_EVERY) if loop.handle(BatchEnded(1.0, batch, REPORT))]
    assert purged == [0, PURGE_EVERY, 2 * PURGE_EVERY]


def test_drops_which_have_no_lease_are_taken_back_when_nobody_understands_what_happens() -> None:
    drops = Plan(0, "scripted", 0.0, 1, drops=(Drop("I", keep=0.5),))
    loop = Loop(Scripted(drops), "query")
    loop.handle(BatchEnded(1.0, 0, REPORT))
    assert loop.handle(Misread(2.0)) == [], "nor are drops written then"
    assert loop.handle(Passed(3.0)) == []
    loop.handle(BatchEnded(4.0, 1, REPORT))
    loop.handle(Stored(0))
    (written,) = loop.handle(Misread(5.0))
    assert isinstance(written, Write)
    assert (written.plan.drops, written.plan.version) == ((), 1)


def test_in_doubt_no_batch_is_bound_to_drops_even_if_their_end_cannot_be_written() -> None:
    drops = Plan(0, "scripted", 0.0, 1, drops=(Drop("I", keep=0.5),))
    loop = Loop(Scripted(drops), "query")
    loop.handle(BatchEnded(1.0, 0, REPORT))
    loop.handle(Stored(0))
    assert loop.acting == loop.in_force
    (written,) = loop.handle(Misread(5.0))
    assert isinstance(written, Write)
    loop.handle(Failed(1))
    assert loop.acting is None


def test_a_decision_that_could_not_be_written_survives_new_costs() -> None:
    shares = [Plan(0, "scripted", 0.0, 1, gates=(KeepTable("source", (keep,), ("more",)),)) for keep in (0.5, 0.25)]
    loop = Loop(Scripted(*shares), "query")
    loop.handle(BatchEnded(1.0, 0, REPORT))
    loop.handle(Stored(0))
    loop.handle(BatchEnded(2.0, 1, REPORT))
    loop.handle(Failed(1))
    (written,) = loop.handle(BatchEnded(3.0, 2, REPORT, costs=Costs("deal", 2, (1.0,))))
    assert isinstance(written, Write)
    assert written.plan.gates[0].keep == (0.25,), "the planner believes that this one is in force"


@pytest.mark.parametrize("later_s", [-600.0, 600.0])
def test_a_lease_is_renewed_after_the_clock_has_jumped(later_s: float) -> None:
    loop = shedding_loop()
    assert loop.handle(Passed(10.0 + later_s)) == [Renew(0, 10.0 + later_s)]


@pytest.mark.parametrize("more", [{"gates": SHEDDING}, {"fits": Fits(5.0, 10.0)}, {"drops": (Drop("I", keep=0.5),)}])
def test_a_loop_that_is_stopped_writes_nothing_that_may_shed(more: Mapping[str, object]) -> None:
    loop = Loop(Scripted(replace(plan(sheds=False), **more)), "query")  # type: ignore[arg-type]
    loop.handle(Stopped(1.0, "over"))
    assert [type(one) for one in loop.handle(BatchEnded(2.0, 0, REPORT))] == [Purge]


def test_a_loop_is_stopped_by_what_it_knows_if_the_store_cannot_be_read() -> None:
    (written,) = shedding_loop().handle(Stopped(12.0, "over"))
    assert isinstance(written, Write)
    assert not written.plan.sheds


def test_a_version_that_others_have_long_passed_is_not_used() -> None:
    loop = Loop(Scripted(plan(sheds=True)), "query")
    loop.handle(BatchEnded(1.0, 0, REPORT))
    (again,) = loop.handle(Taken(0, newest=7))
    assert isinstance(again, Write)
    assert again.plan.version == 8


def test_an_answer_about_another_version_changes_nothing() -> None:
    versions = Versions()
    versions.follow(Plan.keep_all(3, "earlier", 0.0))
    versions.unwritten = Plan.keep_all(versions.next, "by hand", 5.0)
    for event in (Stored(3), Taken(3, newest=9), Failed(4), Renewed(4, 9.0)):
        assert not versions.answer(event)
        assert (versions.next, versions.unwritten.version, versions.in_force, versions.renewed_s) == (4, 4, None, 0.0)
    versions.answer(Stored(4))
    versions.answer(Renewed(3, 9.0))
    assert (versions.unwritten, versions.renewed_s) == (None, 5.0)
    versions.answer(Renewed(4, 9.0))
    assert versions.renewed_s == 9.0


def test_versions_never_go_back() -> None:
    versions = Versions()
    for version, following in ((3, 4), (1, 4), (4, 5)):
        versions.follow(Plan.keep_all(version, "earlier", 0.0))
        assert versions.next == following


def test_a_schedule_purges_at_the_first_batch_and_after_every_so_many() -> None:
    schedule = PurgeSchedule(3)
    assert not schedule.is_due(7), "nothing was purged yet, so nothing is written again"
    assert [batch for batch in (7, 8, 9, 10, 14, 16, 17) if schedule.purge(batch)] == [7, 10, 14, 17]
