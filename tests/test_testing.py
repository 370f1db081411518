import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.store.logs import PlanLog, PlanStore
from penstock.testing import CrashingPlanLog, ManualClock, MemoryPlanLog, SimulatedCrash, Step


def plan(version: int, note: str = "") -> Plan:
    return Plan(version, "test", decided_s=0.0, salt=0, note=note)


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PlanStore:
    return MemoryPlanLog() if request.param == "memory" else PlanLog(tmp_path)


def test_clock_moves_only_when_told() -> None:
    clock = ManualClock(5)
    assert clock() == clock() == 5.0
    clock.advance(0)
    clock.advance(1.5)
    assert clock() == 6.5
    clock.set(2.0)
    assert clock() == 2.0
    assert ManualClock()() == 0.0


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_clock_refuses_to_advance_by(seconds: float) -> None:
    clock = ManualClock()
    with pytest.raises(PenstockError, match=f"^seconds = {seconds} is not usable: .*$"):
        clock.advance(seconds)
    assert clock() == 0.0


@pytest.mark.parametrize("now_s", [math.nan, math.inf, -math.inf])
def test_clock_refuses_to_be_set_to(now_s: float) -> None:
    with pytest.raises(PenstockError, match=f"^now_s = {now_s} is not usable: give a finite number$"):
        ManualClock(now_s)


def test_both_logs_behave_alike(store: PlanStore) -> None:
    assert (store.versions(), store.latest(), store.get(0), store.next_version()) == ([], None, None, 0)
    assert store.add(4, plan(4))
    assert not store.add(4, plan(4, "late"))
    assert store.add(2, plan(2))
    assert store.versions() == [2, 4]
    assert store.get(4) == store.latest() == plan(4)
    assert list(store.plans()) == [plan(2), plan(4)]
    assert store.next_version() == 5
    assert store.skipped() == []
    with pytest.raises(PenstockError, match=r"^version = 6 is not usable: give the version of the plan, 5$"):
        store.add(6, plan(5))


def test_memory_log_lets_one_thread_win() -> None:
    log = MemoryPlanLog()
    writers, versions = 8, 500
    start = threading.Barrier(writers)

    def write(writer: int) -> list[bool]:
        start.wait()
        return [log.add(version, plan(version, str(writer))) for version in range(versions)]

    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(write, range(writers)))
    for version in range(versions):
        (winner,) = [writer for writer in range(writers) if won[writer][version]]
        assert log.get(version) == plan(version, str(winner))


@pytest.mark.parametrize("step", Step)
def test_crash_leaves_what_a_dead_process_would(step: Step, tmp_path: Path) -> None:
    with pytest.raises(SimulatedCrash, match=f"^{step.value}$"):
        CrashingPlanLog(tmp_path, crash_at=step).add(0, plan(0))
    suffixes = {path.suffix for path in tmp_path.iterdir()}
    assert (".plan" in suffixes) == (step in (Step.AFTER_PUBLISH, Step.AFTER_ALL))
    assert (".tmp" in suffixes) == (step is not Step.AFTER_ALL)


def test_no_fail_safe_swallows_a_crash() -> None:
    assert not issubclass(SimulatedCrash, Exception)
