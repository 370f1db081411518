"""What a task deals by: the same at every try, whatever happens to the log in between."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.log import PlanLog
from penstock.plan import Costs, Plan
from penstock.spark import binding
from penstock.spark.binding import Batch, costs_in_force

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
    return costs_in_force(folder, "deal", "deal")


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
    with pytest.raises(ps.PenstockError, match="plan 0, by which rows of batch 3 are dealt, cannot be read: see to"):
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
