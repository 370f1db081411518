"""What a task deals by: the same at every try, whatever happens to the log in between."""

import time
from pathlib import Path

import pytest

import penstock as ps
from penstock.log import PlanLog
from penstock.plan import Costs, KeepTable, Plan
from penstock.spark import binding
from penstock.spark.binding import LEASE_S, Batch, GateOptions, bindings_of, control_row, costs_in_force

COSTS = Costs("deal", 2, (1.0,))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a query in its third batch."""
    monkeypatch.setattr(binding, "_batch", lambda: Batch(3, "query"))
    monkeypatch.setattr(binding, "_RETRY_S", 0.0)
    return str(tmp_path)


def plans(folder: str) -> PlanLog:
    return PlanLog(Path(folder) / "plans")


def add(folder: str, costs: Costs) -> None:
    version = plans(folder).next_version()
    plans(folder).add(version, Plan(version, "by_cost", 0.0, 0, costs=(costs,)))


def in_force(folder: str) -> Costs | None:
    return costs_in_force(GateOptions(folder, "deal"), "deal")


def files(folder: str) -> list[Path]:
    return [path for path in (Path(folder) / "plans").rglob("*") if path.is_file()]


def test_later_plans_change_nothing_for_a_batch(folder: str) -> None:
    assert in_force(folder) is None
    add(folder, COSTS)
    assert in_force(folder) is None


def test_a_plan_that_cannot_be_read_any_more_fails_the_task_rather_than_dealing_otherwise(folder: str) -> None:
    add(folder, COSTS)
    assert in_force(folder) == COSTS
    for path in files(folder):
        path.write_text("{")
    with pytest.raises(ps.PenstockError, match=r"batch 3 cannot be dealt as they were: .* not be read: plan 0 in "):
        in_force(folder)


def test_a_plan_that_could_never_be_read_is_no_plan_for_good(folder: str) -> None:
    add(folder, COSTS)
    (path,) = files(folder)
    whole = path.read_bytes()
    path.write_text("{")
    assert in_force(folder) is None
    path.write_bytes(whole)
    assert in_force(folder) is None


def test_a_folder_made_anew_is_read_anew(folder: str) -> None:
    add(folder, COSTS)
    assert in_force(folder) == COSTS
    for path in files(folder):
        path.unlink()
    other = Costs("deal", 2, (9.0,))
    add(folder, other)
    assert in_force(folder) == other


def bind(folder: str, number: int, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The version of the plan that a batch is bound to."""
    monkeypatch.setattr(binding, "_batch", lambda: Batch(number, "query"))
    control_row(GateOptions(folder, "source"))
    bound = bindings_of(folder, "query").get(number)
    assert bound is not None
    return bound.plan_version


def test_a_plan_that_sheds_acts_as_long_as_its_lease_is_renewed(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, log = time.time(), plans(folder)
    table = KeepTable("source", (0.5,), ("over capacity",))
    log.add(0, Plan(0, "random", now_s - 10 * LEASE_S, 0, gates=(table,)))
    assert bind(folder, 1, monkeypatch) is None
    log.renew(0, now_s)
    assert bind(folder, 2, monkeypatch) == 0
    log.renew(7, now_s)  # another plan's
    assert bind(folder, 3, monkeypatch) is None
    log.renew(0, now_s - 2 * LEASE_S)
    assert bind(folder, 4, monkeypatch) is None
    (log.folder / ".lease").write_bytes(b"torn")
    assert bind(folder, 5, monkeypatch) is None
    assert bind(folder, 2, monkeypatch) == 0  # a replay
    assert log.skipped() == []


def test_a_query_whose_guard_has_stopped_deletes_old_bindings_itself(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.retention.BATCHES", 20)
    monkeypatch.setattr(binding, "PURGE_EVERY", 10)
    for version in range(3):
        plans(folder).add(version, Plan(version, "random", 0.0, 0))
    for number in range(95):
        assert bind(folder, number, monkeypatch) == 2
    assert bindings_of(folder, "query").versions() == list(range(70, 95))
    assert plans(folder).versions() == [2]
