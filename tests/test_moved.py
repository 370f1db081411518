"""Modules still import by the names that they had before."""

import re
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from penstock.moved import MOVED, RENAMED
from penstock.store.logs import PlanLog

CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()

ROOMS = {
    "penstock.cli": "penstock.cli.main",
    "penstock.core.answers": "penstock.core.answers.estimates",
    "penstock.core.balanced": "penstock.core.balanced.policy",
    "penstock.core.grouping": "penstock.core.grouping.machines",
    "penstock.core.network": "penstock.core.network.model",
    "penstock.sim.whatif": "penstock.sim.whatif.replay",
    "penstock.spark.fair": "penstock.spark.fair.fair",
    "penstock.spark.grouping": "penstock.spark.grouping.grouping",
    "penstock.spark.guard": "penstock.spark.guard.guard",
    "penstock.spark.probe": "penstock.spark.probe.probe",
    "penstock.spark.quarantine": "penstock.spark.quarantine.rows",
}
#: Modules of the references of 0.1.0 and of the last commit before modules moved, each with its public names.
OLD = {
    module: names
    for module, *names in map(str.split, (Path(__file__).parent / "data" / "old_names.txt").read_text().splitlines())
}
#: What each point under Removed names.
REMOVED = [
    set(re.findall(r"`([\w.]+)`", point))
    for point in CHANGELOG.partition("### Removed\n")[2].partition("\n### ")[0].split("\n- ")
]


@pytest.mark.parametrize(("old", "new"), (MOVED | ROOMS).items())
def test_old_names_give_what_is_in_the_new_ones(old: str, new: str) -> None:
    home = import_module(new)
    name = next(name for name, value in vars(home).items() if getattr(value, "__module__", None) == new)
    with pytest.warns(DeprecationWarning, match=f"{old}.{name} is in {new} now"):
        assert getattr(import_module(old), name) is getattr(home, name)
    assert not hasattr(import_module(old), "nothing_of_the_kind")


def test_from_import_works_and_warns_once_a_name() -> None:
    code = "from penstock.plan import Plan; from penstock.core.balance import balance_sic; print(Plan.__module__)"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "penstock.messages.plan\n"
    assert done.stderr.count("DeprecationWarning") == 2


@pytest.mark.parametrize("module", OLD)
def test_a_name_of_an_old_reference_imports_or_is_named_as_removed(module: str) -> None:
    try:
        home = import_module(module)
    except ModuleNotFoundError:
        assert any(module in named for named in REMOVED), f"{module} is neither there nor under Removed"
        return
    moved = module in MOVED | ROOMS
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = {name for name in OLD[module] if hasattr(home, name)}
        assert not moved or [name for name in found if isinstance(getattr(home, name), ModuleType)] == []
    told = {str(one.message).split()[0] for one in warned if one.category is DeprecationWarning}
    assert not moved or told == {f"{module}.{name}" for name in found}
    removed = {name for name in OLD[module] if any({module, name} <= named for named in REMOVED)}
    assert set(OLD[module]) - found <= removed


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_name_that_changed_its_module_gives_what_it_is_now(old: str, new: str) -> None:
    (module, _, own), (home, _, name) = old.rpartition("."), new.rpartition(".")
    with pytest.warns(DeprecationWarning, match=home):
        assert getattr(import_module(module), own) is getattr(import_module(home), name)


def test_a_function_stays_when_the_old_module_of_its_name_is_imported() -> None:
    code = (
        "from penstock.network_file.load import NetworkFile, load\n"
        "from penstock.network_file import load as same\n"
        "assert same is load\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_changelog_has_every_move() -> None:
    for old, new in (MOVED | ROOMS | RENAMED).items():
        assert f"| `{old}` | `{new}` |" in CHANGELOG


def test_all_names_of_an_old_module_can_be_imported_at_once() -> None:
    found: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        exec("from penstock.log import *", found)  # noqa: S102 - a star is not allowed in a function
    assert found["PlanLog"] is PlanLog
    assert "_logger" not in found
