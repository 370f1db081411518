"""`penstock site` as far as it goes without Spark: its mistakes, and the account over several sites."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.federation.account import ACCOUNT, AccountLog, BatchAccount, FragmentCount, InputCount
from penstock.federation.parcel import Parcel

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from penstock.cli import main; main()", "site"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)


def write(folder: Path, site: str, inputs: dict[str, InputCount], fragments: dict[str, FragmentCount]) -> Path:
    entry = BatchAccount(site, 1, 0, 0.0, 1.0, inputs, fragments, inputs, fragments, {}, {}, {})
    assert AccountLog(folder / site / ACCOUNT / f"{1:018d}").add(0, entry)
    return folder / site


@pytest.mark.parametrize(("read", "status", "told"), [(5, 0, "The account balances."), (4, 1, "DOES NOT BALANCE")])
def test_the_account_over_sites_is_shown_and_its_status_says_whether_it_balances(
    tmp_path: Path, read: int, status: int, told: str
) -> None:
    mark = Parcel("west", "part", 1, 0, 0, 1, 5, 0.1).key
    west = write(tmp_path, "west", {"part.cpu": InputCount(1000, 600, 400)}, {"part": FragmentCount("avg", 5, (5,))})
    north = write(
        tmp_path,
        "north",
        {"root.part": InputCount(read, read, 0, "west.part", mark)},
        {"root": FragmentCount("avg", 1)},
    )
    result = run("--account", west, "--account", north, "--json", tmp_path / "found.json")

    assert result.returncode == status, result.stderr
    assert told in result.stdout
    assert "1,000" in result.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["balances"] is (status == 0)
    assert found["links"]["west.part -> north.root.part"]["lost"] == 5 - read


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("site: west\n")
    for arguments, told in (
        ((), "give either a site file, or --account"),
        ((tmp_path / "none.yaml",), "site file = "),
        ((tmp_path / "site.yaml",), "site.yaml, line 1, sites is missing"),
        (("--account", tmp_path), "give the folder of a site that has run a batch"),
        ((tmp_path / "site.yaml", "--conf", "jars=a"), "--conf = 'jars=a' is not usable: give a setting as spark"),
    ):
        result = run(*arguments)
        assert result.returncode == 2
        assert result.stderr.startswith("penstock: ")
        assert told in result.stderr
        assert result.stderr.count("\n") == 1
