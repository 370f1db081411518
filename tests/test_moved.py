"""Modules still import by the names that they had before."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from penstock.moved import MOVED

ROOMS = {
    "penstock.cli": "penstock.cli.main",
    "penstock.core.answers": "penstock.core.answers.estimates",
    "penstock.core.balanced": "penstock.core.balanced.policy",
    "penstock.core.network": "penstock.core.network.model",
    "penstock.sim.whatif": "penstock.sim.whatif.replay",
    "penstock.spark.fair": "penstock.spark.fair.fair",
    "penstock.spark.grouping": "penstock.spark.grouping.grouping",
    "penstock.spark.guard": "penstock.spark.guard.guard",
    "penstock.spark.probe": "penstock.spark.probe.probe",
    "penstock.spark.quarantine": "penstock.spark.quarantine.rows",
}


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


def test_the_changelog_has_every_move() -> None:
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
    for old, new in (MOVED | ROOMS).items():
        assert f"| `{old}` | `{new}` |" in text
