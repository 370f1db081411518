"""Schedules of faults: no promise is broken under any of them, and code that breaks one is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.loop.binding import Newest
from penstock.core.loop.events import BatchEnded, Failed, Misread, Stopped, Stored, Taken
from penstock.core.loop.instructions import Renew, Write
from penstock.core.loop.machine import Loop
from penstock.sim import chaos
from penstock.sim.chaos import BrokenPromise, Kinds
from penstock.store.binder import Binder
from penstock.store.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.loop.events import Event
    from penstock.core.loop.instructions import Instruction
    from penstock.messages.plan import Binding, Plan

SCHEDULES = 10_000


def test_no_promise_is_broken_under_ten_thousand_schedules_of_faults() -> None:
    found = chaos.run_all(SCHEDULES, seed=0)
    assert found.broken == {}
    assert found.batches > SCHEDULES


# Code that breaks a promise, each in its own way.


class ActsBeforeItIsDurable(Loop):
    def _write(self, plan: Plan | None) -> list[Instruction]:
        found = super()._write(plan)
        for one in found:
            if isinstance(one, Write):
                self.in_force = one.plan
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


class KeepsDropsInDoubt(Loop):
    def _misread(self, event: Misread) -> list[Instruction]:
        del event
        self._understands = False
        return []


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
        del version
        return self.newest().plan


class OverwritesPlans(Driver):
    def _added(self, plan: Plan) -> Stored | Taken:
        self.plans.remove(plan.version)  # type: ignore[attr-defined]
        return super()._added(plan)


def purges_too_much(plans: Any, bindings: Any, batch: int, now_s: float) -> None:
    del batch, now_s
    plans.purge(plans.next_version() - 1)
    bindings.purge(bindings.next_version() - 1)


BROKEN = [
    *(Kinds(loop=one) for one in (ActsBeforeItIsDurable, BelievesEveryWrite, RenewsWhatItDoesNotUnderstand)),
    *(Kinds(loop=one) for one in (KeepsDropsInDoubt, StopsWithoutAWord, ShedsWhenStopped, NeverPurges)),
    *(Kinds(binder=one) for one in (BindsAgain, BelievesItsOwnBinding, ForgetsLeases, TakesTheNewestPlanEachTime)),
    Kinds(driver=OverwritesPlans),
    Kinds(purge=purges_too_much),
]


@pytest.mark.parametrize("kinds", BROKEN, ids=lambda kinds: str(vars(kinds)))
def test_code_that_breaks_a_promise_is_found(kinds: Kinds) -> None:
    for seed in range(1_000):
        try:
            chaos.run(seed, kinds)
        except BrokenPromise:
            return
    pytest.fail("no schedule finds it")


def test_a_broken_promise_comes_with_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int) -> int:
        if seed == 7:
            raise BrokenPromise("a plan never changes")
        return 1

    monkeypatch.setattr(chaos, "run", broken)
    found = CliRunner().invoke(app, ["bench", "chaos", "--schedules", "10", "--jobs", "1"])
    assert found.exit_code == 1
    assert "a plan never changes" in found.output
    assert "penstock bench chaos --schedules 1 --seed 7" in found.output
