"""`penstock site` as far as it goes without Spark: its mistakes, and the account over several sites."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest
from rich.console import Console
from tests.command import Command, Result, in_process

from penstock.cli import site as cli_site
from penstock.federation.account import (
    ACCOUNT,
    AccountLog,
    BatchAccount,
    site_report,
)
from penstock.federation.parcel import Parcel
from penstock.messages.plan import QueryShare
from penstock.messages.report import BoxStatistics, PlaceRows
from penstock.spark.site.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.site_file import SiteFile

COMMAND = [sys.executable, "-c", "from penstock.cli.main import main; main()", "site"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(monkeypatch, capfd, "site")


def write(folder: Path, site: str, inputs: dict[str, PlaceRows], fragments: dict[str, BoxStatistics]) -> Path:
    report = site_report(0, 0.0, 1.0, inputs, fragments)
    entry = BatchAccount(site, 1, report, report)
    assert AccountLog(folder / site / ACCOUNT / f"{1:018d}").add(0, entry)
    return folder / site


@pytest.mark.parametrize(("read", "status", "told"), [(5, 0, "The account balances."), (4, 1, "DOES NOT BALANCE")])
def test_the_account_over_sites_is_shown_and_its_status_says_whether_it_balances(
    run: Command, tmp_path: Path, read: int, status: int, told: str
) -> None:
    mark = Parcel("west", "part", 1, 0, 0, 1, 5, 0.1).key
    west = write(
        tmp_path, "west", {"part.cpu": PlaceRows(1000, 600)}, {"part": BoxStatistics(1, 5, 0.0, "avg", parts=(5,))}
    )
    north = write(
        tmp_path,
        "north",
        {"root.part": PlaceRows(read, read, sender="west.part", mark=mark)},
        {"root": BoxStatistics(1, 1, 0.0, "avg")},
    )
    result = run("--account", west, "--account", north, "--json", tmp_path / "found.json")

    assert result.status == status, result.err
    assert told in result.out
    assert "1,000" in result.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["balances"] is (status == 0)
    assert found["links"]["west.part -> north.root.part"]["lost"] == 5 - read


def assert_refused(result: Result, told: str) -> None:
    assert result.status == 2
    assert result.err.startswith("penstock: ")
    assert told in result.err
    assert result.err.count("\n") == 1


def test_mistakes_are_one_line(run: Command, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("site: west\n")
    for arguments, told in (
        ((), "give either a site file, or --account"),
        ((tmp_path / "none.yaml",), "site file = "),
        ((tmp_path / "site.yaml",), "site.yaml, line 1, sites is missing"),
        (("--account", tmp_path), "give the folder of a site that has run a batch"),
        (("--account", tmp_path, "--dashboard"), "--dashboard shows a site that runs: give a site file"),
        ((tmp_path / "site.yaml", "--conf", "jars=a"), "--conf = 'jars=a' is not usable: give a setting as spark"),
    ):
        assert_refused(run(*arguments), told)


def test_a_mistake_is_one_line_for_a_process_of_its_own_too(tmp_path: Path) -> None:
    command = [*COMMAND, str(tmp_path / "none.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert_refused(Result(result.returncode, result.stdout, result.stderr), "site file = ")


SITE = """\
site: west
sites: [west, north]
transport: {folder: bus}
folder: west
capacity: 100
queries:
  avg: {sources: 1}
fragments:
  part:
    query: avg
    inputs: {cpu: {format: rate}}
    sql: SELECT count(*) AS n FROM cpu
    to: {format: memory}
"""


def test_the_page_beside_shows_the_site_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from penstock.cli import dashboard as cli_dashboard  # noqa: PLC0415 - what the command does
    from penstock.spark import session  # noqa: PLC0415 - needs Spark
    from penstock.spark.site import run as site_run  # noqa: PLC0415

    (tmp_path / "west.yaml").write_text(SITE)
    console, shown = Console(file=io.StringIO(), width=200), list[Any]()

    class NoSpark:
        def stop(self) -> None:
            """Nothing was started."""

    class OneBatch:
        """A site whose first batch ends as it starts."""

        errors, active, accounts, batches = 0, False, (), 0
        exchange = type("Silent", (), {"updates": type("Unheard", (), {"measured": dict}), "counts": {}})()

        def __init__(self, _: Any, file: SiteFile, folder: Path, **__: Any) -> None:
            self.file, self.folder = file, folder

        def start(self) -> None:
            report = replace(site_report(0, 1.7e9, 2.0, {"part.cpu": PlaceRows(1000, 600)}), sic={"avg": 0.6})
            one = BatchAccount("west", 1, report, report, (QueryShare("avg", 0.6, 0.6),))
            ledger = Ledger(self.file, self.folder, 1)
            ledger.begin()
            ledger.log.add(0, one)
            ledger.close(one, ())
            (address,) = re.findall(r"Dashboard: (\S+)", console.file.getvalue())
            shown.extend(httpx.get(f"{address}api/state").json()["logs"])
            asked = httpx.get(f"{address}api/why", params={"id": shown[0]["id"]})
            assert asked.status_code == 400, "a site goes by no key"

        def refuse_failure(self) -> None:
            """It has not failed."""

        def stop(self) -> None:
            """It has ended."""

    monkeypatch.setattr(cli_site.signal, "signal", lambda *_: None)
    monkeypatch.setattr(session, "local_session", lambda *_, **__: NoSpark())
    monkeypatch.setattr(site_run, "SiteRun", OneBatch)
    cli_site.run(
        tmp_path / "west.yaml",
        cli_site.Settings(batches=1),
        console,
        lambda folder: cli_dashboard.beside(console, folder, wanted=True),
    )

    (log,) = shown
    head = log["head"]
    assert (log["kind"], head["guard"], head["rows_in"], head["rows_kept"]) == ("site", "west", 1000, 600)
    assert head["rows_shed"] == {"beyond its share: part.cpu": 400}
    assert log["points"][-1]["sic"] == {"avg": 0.6}
    assert head["target"] == "at most 100 rows a second"
