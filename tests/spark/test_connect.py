"""A guarded query from a client that has only `pyspark-client` and shares no file system with the Connect server."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.components import pyspark_client

from penstock.messages.report import Report
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.report_log import End, Watch, journal_path, line_of
from penstock.web.board import Board

if TYPE_CHECKING:
    from tests.conftest import Server

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("connect_client.py")


def client_python(folder: Path) -> Path:
    """A virtual environment with Penstock, what it needs and `pyspark-client`, but without Spark.

    Packages that this environment has too are linked rather than fetched again.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    client = pyspark_client()
    for path in (*client.iterdir(), ROOT / "src" / "penstock"):
        (site / path.name).symlink_to(path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["connect"]]
    (own,) = client.glob("pyspark_client-*.dist-info")
    wanted += Distribution.at(own).requires or []
    seen = {"pyspark-client"}
    while wanted:
        name = re.split(r"[\s;<>=!~\[(]", wanted.pop(), maxsplit=1)[0].lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # not needed on this platform
            continue
        wanted += [one for one in found.requires or [] if "extra ==" not in one]
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def folders(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The server's and the client's."""
    return server.folder, tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def found(server: Server, folders: tuple[Path, Path]) -> dict[str, Any]:
    """What the client saw."""
    _, client = folders
    python = client_python(client / "venv")
    work = client / "work"
    work.mkdir()
    result = subprocess.run(
        [python, SCRIPT, server.address, server.folder],
        cwd=work,
        env={"PATH": str(python.parent), "HOME": str(work), "TMPDIR": str(work)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    seen: dict[str, Any] = json.loads(result.stdout)
    return seen


pytestmark = pytest.mark.usefixtures("java")


def test_the_client_has_no_spark_and_touches_no_file_of_the_server(
    found: dict[str, Any], folders: tuple[Path, Path]
) -> None:
    _, client = folders
    assert found["pyspark"].startswith(str(client))
    assert (found["jars"], found["java"]) == (False, None)
    assert found["hook_works"]
    assert found["touched"] == []


def test_plans_reach_the_gate_and_reports_come_back(found: dict[str, Any]) -> None:
    run = found["run"]
    assert run["content"], [(one["rows_in"], one["rows_kept"], one["queuing"]) for one in run["reports"]]
    assert run["errors"] == 0
    shed = 0
    for report in run["reports"]:
        assert report["rows_in"] == report["rows_kept"] + sum(report["rows_shed"].values())
        shed += sum(report["rows_shed"].values())
    assert shed == sum(run["shed"].values()) > 0
    judged_by = [report["plan_version"] for report in run["reports"]]
    assert set(judged_by[-3:]) <= set(run["versions"])
    assert run["sheds"] > 0


def test_plans_and_bindings_lie_on_the_server_alone(found: dict[str, Any], folders: tuple[Path, Path]) -> None:
    server, client = folders
    run = found["run"]
    own = server / "checkpoint" / "penstock"
    assert run["folder"] == str(own)
    plans, bindings = PlanLog(own / "plans"), BindingLog(own / "bindings" / run["query"])
    assert plans.versions() == run["versions"]
    assert run["skipped"] == plans.skipped() == []
    bound = {binding.batch: binding.plan_version for binding in bindings.entries()}
    for report in run["reports"]:
        assert bound[report["sequence"]] == report["plan_version"]
    left_behind = {path.name for path in (client / "work").rglob("*")}
    assert not {name for name in left_behind if "penstock" in name or name.endswith((".plan", ".binding"))}


def test_reports_travel_with_plans_and_the_dashboard_shows_them(
    found: dict[str, Any], folders: tuple[Path, Path]
) -> None:
    """Each once, and hardly any by a request of its own."""
    run, (server, _) = found["run"], folders
    journal = journal_path(server / "checkpoint" / "penstock", run["query"])
    lines = [line_of(text) for text in journal.read_text().splitlines()]
    stored = [line for line in lines if isinstance(line, Report)]
    told = [(one["sequence"], one["rows_in"], one["plan_version"]) for one in run["reports"]]
    assert [(one.sequence, one.rows_in, one.plan_version) for one in stored] == told
    assert (type(lines[0]), type(lines[-1])) == (Watch, End)
    riding = {name: sum(count for one, count, _ in run["requests"] if one == name) for name, *_ in run["requests"]}
    assert sum(riding.values()) == len(lines)
    assert riding["add"] >= len(stored) / 2, riding
    board = Board([server / "checkpoint"])
    board.look()
    (shown,) = board.news({})
    assert shown["head"]["rows_in"] == sum(one["rows_in"] for one in run["reports"])
    assert shown["head"]["rows_shed"] == run["shed"]
    assert shown["head"]["state"] == "ended"


def test_a_stopped_guard_lets_go(found: dict[str, Any]) -> None:
    run = found["run"]
    assert (run["newest"]["note"], run["newest"]["gates"]) == ("the guard was stopped", [])
    assert run["newest"]["version"] == run["versions"][-1]
    assert run["stopping_s"] < 10.0


def test_what_the_server_cannot_do_is_one_line(found: dict[str, Any], folders: tuple[Path, Path]) -> None:
    server, _ = folders
    unwritable, relative, missing = found["refusals"]
    assert unwritable == (
        f"checkpoint = '{server}/server.log/checkpoint' is not usable: give a folder that can be written; "
        "the system says: Not a directory"
    )
    assert relative == (
        "checkpoint = 'checkpoint' is not usable: give the whole path of a folder on the server of Connect"
    )
    assert missing.startswith("penstock is missing on the Spark Connect server: install it in the Python of")
    assert not (server / "never").exists()
