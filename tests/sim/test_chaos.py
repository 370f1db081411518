"""Schedules of faults: no promise is broken under any of them, and code that breaks one is found."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.fairness.member_planner import MemberPlanner
from penstock.core.fairness.planner import FairPlanner
from penstock.core.loop.binding import Newest
from penstock.core.loop.events import BatchEnded, Began, Failed, Misread, Passed, Stopped, Stored, Taken
from penstock.core.loop.instructions import Renew, Write
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.federation.exchange import Inbox
from penstock.sim import chaos
from penstock.sim.chaos import BrokenPromise, Kinds, schedules
from penstock.store import retention
from penstock.store.binder import Binder
from penstock.store.bound_plans import BoundPlans, SitePlans
from penstock.store.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.core.fairness.members import Terms
    from penstock.core.loop.events import Event
    from penstock.core.loop.instructions import Instruction
    from penstock.federation.parcel import Parcel
    from penstock.messages.plan import Binding, Plan
    from penstock.messages.report import Report

SCHEDULES = 10_000
#: What must happen in so many schedules, and at least how often.
EXERCISED = {
    "batch run": 100_000,
    "batch replayed": 10_000,
    "late attempt of an earlier batch": 1_000,
    "query died before commit": 10_000,
    "two binders at once": 1_000,
    "binder killed": 1_000,
    "process died before create of bindings": 100,
    "process died after create of bindings": 100,
    "process died before create of plans": 100,
    "process died after create of plans": 100,
    "process died before read of plans": 100,
    "planning process restarted": 100,
    "planning process hung": 500,
    "process that runs batches restarted": 100,
    "second driver on a checkpoint": 1_000,
    "clock set back": 1_000,
    "clock set ahead": 100,
    "store read-only for a while": 1_000,
    "create refused": 1_000,
    "read refused": 1_000,
    "replace refused": 100,
    "remove refused": 100,
    "listing refused": 1_000,
    "look-up refused": 500,
    "replace done late": 100,
    "replace done, answer lost": 100,
    "remove done late": 100,
    "remove done, answer lost": 100,
    "create done late": 1_000,
    "create done, answer lost": 1_000,
    "write torn": 100,
    **{f"{word} {fault}": 200 for word in ("Write", "Purge") for fault in ("lost", "late", "twice")},
    **{f"Renew {fault}": 20 for fault in ("lost", "late", "twice")},
    "process died after Write": 100,
    "process died after Renew": 20,
    "process died after Purge": 5,
    "planner failed": 1_000,
    "progress lost": 1_000,
    "progress unreadable": 1_000,
    "input idle": 1_000,
    "event after stop": 1_000,
    "all planning processes died": 500,
    "shedding plan of a learning planner": 200,
    "batch cut to what fits": 1_000,
    "backlog thinned": 1_000,
    "one query of a Fair restarted": 200,
    "link resent": 100,
    "link late": 1_000,
    "long schedule": 50,
}


def test_no_promise_is_broken_under_ten_thousand_schedules_of_faults() -> None:
    found = chaos.run_all(SCHEDULES, seed=0, jobs=1)  # beside other tests there is no second core to gain
    assert found.broken == {}
    assert {what: found.counts[what] for what, least in EXERCISED.items() if found.counts[what] < least} == {}


# Code that breaks a promise, each in its own way.


class ActsBeforeItIsDurable(Loop):
    def _write(self, plan: Plan | None) -> list[Instruction]:
        found = super()._write(plan)
        for one in found:
            if isinstance(one, Write):
                self._versions.in_force = one.plan
        return found


class BelievesEveryWrite(Loop):
    def handle(self, event: Event) -> list[Instruction]:
        return super().handle(Stored(event.version) if isinstance(event, Taken | Failed) else event)


class RenewsWhatItDoesNotUnderstand(Loop):
    def handle(self, event: Event) -> list[Instruction]:
        found = super().handle(event)
        self._understands = True
        if isinstance(event, Misread) and self.in_force is not None and self.in_force.leased:
            found.append(Renew(self.in_force.version, event.now_s))
        return found


class StopsWithoutAWord(Loop):
    def _stop(self, event: Stopped) -> list[Instruction]:
        del event
        return []


class ShedsWhenStopped(Loop):
    def _stop(self, event: Stopped) -> list[Instruction]:
        found = super()._stop(event)
        gates = () if event.newest is None else event.newest.gates
        return [Write(replace(one.plan, gates=gates)) for one in found if isinstance(one, Write)]


class NeverPurges(Loop):
    def _purge(self, event: BatchEnded) -> list[Instruction]:
        del event
        return []


class NeverTriesAgain(Loop):
    def _try_again(self, now_s: float) -> list[Instruction]:
        del now_s
        return []


class IgnoresIdleInput(Loop):
    def _pass(self, event: Passed) -> list[Instruction]:
        return super()._pass(event._replace(idle=False))


class NeverRenews(Loop):
    def _pass(self, event: Passed) -> list[Instruction]:
        return [one for one in super()._pass(event) if not isinstance(one, Renew)]


class ForgetsCosts(Loop):
    def _write(self, plan: Plan | None) -> list[Instruction]:
        self._costs = None
        return super()._write(plan)


class ShedsAfterStop(Loop):
    def _stop(self, event: Stopped) -> list[Instruction]:
        found = super()._stop(event)
        self._stopped = False
        return found


class WritesInDoubt(Loop):
    def _try_again(self, now_s: float) -> list[Instruction]:
        plan = self._versions.unwritten
        return [] if plan is None else self._write(replace(plan, decided_s=now_s))


class RestoresNothing(Loop):
    def _begin(self, event: Began) -> list[Instruction]:
        return super()._begin(event._replace(newest=event.newest and replace(event.newest, memory="")))


class SavesNothing(Loop):
    def _write(self, plan: Plan | None) -> list[Instruction]:
        found = [Write(replace(one.plan, memory="")) for one in super()._write(plan) if isinstance(one, Write)]
        for one in found:
            self._versions.unwritten = one.plan
        return [*found]


class DealsSharesAnew(Binder):
    """A replay is cut to what fits now."""

    def bound(self, batch: int, new: Callable[[], Binding]) -> Binding | None:
        found = super().bound(batch, new)
        return found and replace(found, share=new().share)


class BindsAgain(Binder):
    """What was bound before is forgotten."""

    def bound(self, batch: int, new: Callable[[], Binding]) -> Binding | None:
        made = new()
        self._bindings.remove(batch)
        self._bindings.add(batch, made)
        return made


class BelievesItsOwnBinding(Binder):
    """Another task may have been first."""

    def bound(self, batch: int, new: Callable[[], Binding]) -> Binding | None:
        if (found := self._bindings.get(batch)) is not None:
            return found
        made = new()
        self._bindings.add(batch, made)
        return made


class ForgetsLeases(Binder):
    def _newest(self) -> Newest:
        plan, _ = super()._newest()
        return Newest(plan and replace(plan, gates=()))


class TakesTheNewestPlanEachTime(Binder):
    def plan(self, version: int) -> Plan | None:
        with suppress(PenstockError):
            return self.newest().plan
        return super().plan(version)


class OverwritesPlans(Driver):
    def _added(self, plan: Plan) -> Stored | Taken:
        self.plans.remove(plan.version)  # type: ignore[attr-defined]
        return super()._added(plan)


def purges_no_plans(plans: Any, bindings: Any, batch: int, now_s: float, keep: Any = None) -> None:
    del plans
    bindings.purge(retention.oldest_kept(bindings, batch, now_s, keep=keep))


def purges_too_much(plans: Any, bindings: Any, batch: int, now_s: float, keep: object = None) -> None:
    del batch, now_s, keep
    plans.purge(plans.next_version() - 1)
    bindings.purge(bindings.next_version() - 1)


# Only the queries of a Fair find these.


class AsksForAnother(MemberPlanner):
    def decide(self, report: Report, now_s: float) -> Plan | None:
        self._planner.decide(self._name, report, now_s)
        other = next(iter(self._planner.members))
        return self._planner.decide(other, report, now_s)


class NeverLeaves(MemberPlanner):
    def leave(self) -> None:
        pass


class BelievesItsLastRun(FairPlanner):
    """The plan of the last run is not in force any more."""

    def recall(self, name: str, reports: Sequence[Report], now_s: float) -> Plan | None:
        before = self.members[name].in_force.plan
        found = super().recall(name, reports, now_s)
        self.members[name].in_force.plan = before
        return found


class BeginsAllAnew(FairPlanner):
    """A query that restarts must not disturb the others."""

    def join(self, name: str, terms: Terms) -> None:
        others = {one: member.terms for one, member in self.members.items() if one != name}
        for one, own in {**others, name: terms}.items():
            super().join(one, own)


# Only networks find these.


class PurgesByOneStage(BoundPlans):
    def _purge(self, batch: int, now_s: float) -> None:
        super()._purge(batch, now_s)
        retention.purge(self._plans, self._bindings["inputs"], batch, now_s, self._keep)


class BindsToDropsInDoubt(Loop):
    @property
    def acting(self) -> Plan | None:
        return self.in_force


# Only sites find these.


class PlansEachAttempt(SitePlans):
    def of(self, batch: int, batch_id: str, came: Callable[[], Any], unplanned: Callable[[Exception], None]) -> Plan:
        plan = super().of(batch, batch_id, came, unplanned)
        self._new(batch, batch_id, came, unplanned)
        return self._driver.loop.in_force or plan


class TakesPartsTwice(Inbox):
    def take(self, parcel: Parcel, lines: Sequence[str]) -> bool:
        super().take(parcel, lines)
        self._store.replace(f"{parcel.key}{len(self._store.names())}.json", b'{"row":{"a":"again"}}')
        return True


class ForgetsTooEarly(Inbox):
    def forget(self, up_to: str) -> None:
        super().forget(max([up_to, self.mark]))


class MarksBeforeItStores(Inbox):
    """A part that could not be stored counts as stored."""

    def take(self, parcel: Parcel, lines: Sequence[str]) -> bool:
        try:
            return super().take(parcel, lines)
        finally:
            self.mark = max(self.mark, parcel.key)


#: What is broken, and the schedules that find it.
BROKEN = [
    *((Kinds(loop=one), "guard") for one in (ActsBeforeItIsDurable, BelievesEveryWrite, StopsWithoutAWord)),
    *((Kinds(loop=one), "guard") for one in (RenewsWhatItDoesNotUnderstand, ShedsWhenStopped, NeverPurges)),
    *((Kinds(binder=one), "guard") for one in (BindsAgain, BelievesItsOwnBinding, ForgetsLeases)),
    (Kinds(binder=TakesTheNewestPlanEachTime), "guard"),
    (Kinds(driver=OverwritesPlans), "guard"),
    *((Kinds(purge=one), "guard") for one in (purges_too_much, purges_no_plans)),
    *((Kinds(loop=one), "guard") for one in (NeverTriesAgain, IgnoresIdleInput, NeverRenews, ForgetsCosts)),
    *((Kinds(loop=one), "guard") for one in (ShedsAfterStop, WritesInDoubt, RestoresNothing, SavesNothing)),
    (Kinds(binder=DealsSharesAnew), "guard"),
    *((Kinds(member=one), "Fair") for one in (AsksForAnother, NeverLeaves)),
    *((Kinds(fair=one), "Fair") for one in (BelievesItsLastRun, BeginsAllAnew)),
    *((Kinds(loop=one), "network") for one in (BindsToDropsInDoubt, StopsWithoutAWord)),
    (Kinds(stages=PurgesByOneStage), "network"),
    (Kinds(site=PlansEachAttempt), "site"),
    *((Kinds(inbox=one), "site") for one in (TakesPartsTwice, ForgetsTooEarly, MarksBeforeItStores)),
]


def name_of(value: object) -> str:
    """The broken part, or the name of the schedules."""
    if not isinstance(value, Kinds):
        return str(value)
    return next(one.__name__ for name, one in vars(value).items() if one is not getattr(Kinds, name))


#: Promises that these parts break, where another one might be noticed first.
BREAKS = {
    "purges_no_plans": "plans do not grow with batches",
    "NeverTriesAgain": "what is decided is written",
    "IgnoresIdleInput": "the first row after a pause is kept",
    "NeverRenews": "a plan acts as long as its loop runs",
    "ForgetsCosts": "a plan carries the costs that rows are dealt by",
    "ShedsAfterStop": "a stopped loop sheds nothing",
    "RestoresNothing": "a planner that starts knows what the last one has learned",
    "SavesNothing": "a plan carries what its planner has learned",
    "TakesTheNewestPlanEachTime": "rows in = kept + shed",
}


#: Schedules that find what others do not. They come first: the search takes seconds otherwise.
FOUND_AT = {
    "BeginsAllAnew": 4758,
    "NeverTriesAgain": 854,
    "WritesInDoubt": 453,
    "NeverPurges": 180,
    "purges_no_plans": 180,
}


@pytest.mark.parametrize(("kinds", "found_by"), BROKEN, ids=name_of)
def test_code_that_breaks_a_promise_is_found(kinds: Kinds, found_by: str) -> None:
    for seed in (FOUND_AT.get(name_of(kinds), 0), *range(SCHEDULES)):
        if schedules.what(seed) == found_by:
            try:
                chaos.run(seed, kinds)
            except BrokenPromise as broken:
                if str(broken) == BREAKS.get(name_of(kinds), str(broken)):
                    return
    pytest.fail("no schedule finds it")


def test_a_schedule_is_repeated_by_its_seed() -> None:
    for seed in range(20):
        assert chaos.run(seed) == chaos.run(seed)


@pytest.mark.parametrize("found_by", ["guard", "network", "Fair", "site"])
def test_the_command_of_a_broken_promise_repeats_it(monkeypatch: pytest.MonkeyPatch, found_by: str) -> None:
    kinds = next(kinds for kinds, by in BROKEN if by == found_by)
    run = schedules.run
    monkeypatch.setattr(schedules, "run", lambda seed: run(seed, kinds))
    broken = (found for seed in range(SCHEDULES) if schedules.what(seed) == found_by and (found := broken_at(seed)))
    told = next(broken)
    _, _, command = told.partition("Repeat it with: penstock ")
    assert broken_by(command.split()) == told


def broken_at(seed: int) -> str:
    """What the command tells of a schedule that breaks a promise; empty if it breaks none."""
    return broken_by(chaos.command(seed).split()[1:]) if isinstance(schedules.tried(seed), str) else ""


def broken_by(given: Sequence[str]) -> str:
    """The line with which the command tells of a broken promise."""
    found = CliRunner().invoke(app, [*given, "--jobs", "1"])
    return next(line for line in found.output.splitlines() if line.startswith("Broken: "))


def test_a_broken_promise_comes_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(seed: int) -> Counter[str]:
        if seed == 7:
            raise BrokenPromise("a plan never changes")
        return Counter({"batch run": 1})

    monkeypatch.setattr(schedules, "run", broken)
    given = ["bench", "chaos", "--schedules", "10", "--jobs", "1", "--json", str(tmp_path / "found.json")]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 1
    assert "a plan never changes" in found.output
    assert "penstock bench chaos --schedules 1 --seed 7" in found.output
    result: Mapping[str, Any] = json.loads((tmp_path / "found.json").read_text())
    assert result["counts"] == {"batch run": 9}
    assert result["broken"] == {"7": "a plan never changes"}
