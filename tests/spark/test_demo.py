"""The demo: the arithmetic of its report on made-up runs, and the command as a user meets it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql")

from rich.console import Console

from penstock.cli.dashboard import board, state
from penstock.cli.main import main
from penstock.demo import page as demo_page
from penstock.demo import report as demo_report
from penstock.demo import view as demo_view
from penstock.demo.both_runs import _interrupts
from penstock.demo.kept_log import KeptLog
from penstock.demo.result import Outcome, exact, windows, workload_facts
from penstock.demo.run import Run
from penstock.demo.workload import RESULTS, Workload, enrich
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import Latency, Report
from penstock.output import write_files
from penstock.store.logs import PlanLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.spark.conftest import Small

REASON = "costly <keys>"
BATCH_ROWS = 1_000
BATCHES = 4
WAIT_S = 240.0
#: The demo as a user meets it, but rows keep a slot and no core, as other tests want the cores.
WAITING = """
import sys, time
from penstock.cli.main import main
from penstock.demo import run

def waits(row):
    import time
    taken_s = time.time()
    time.sleep(row["cost_ms"] / 1e3)
    return {name: row[name] for name in ("row", "key", "value", "weight")} | {"taken_s": taken_s}

run.enrich = waits
"""
#: One that runs to its end, in a process whose JVM others have used: it warms up less.
SHORT = f"""{WAITING}
import contextlib, io, os, tempfile
from penstock.spark.session import standard_error_to

run._WARM_UP_BATCHES, run._WARM_UP_ROWS = 1, 20
os.chdir(folder)
os.environ["COLUMNS"], tempfile.tempdir = "80", str(folder / "temporary")
options = "--seconds 10 --target 1s --seed 1 --out pages --json all.json"
sys.argv = ["penstock", "demo", *options.split()]
try:
    with contextlib.redirect_stdout(io.StringIO()) as out, standard_error_to(folder / "complaints"):
        main()
except SystemExit as end:
    result = dict(status=end.code, out=out.getvalue())
os.chdir("/")
tempfile.tempdir = None
"""
#: One that is stopped: it does not warm up.
STOPPED = [sys.executable, "-c", f"{WAITING}run.Run.warm_up = lambda *_: None\nmain()", "demo"]


def report(sequence: int, kept: int, rows_in: int = BATCH_ROWS, wait_s: float = 1.5) -> Report:
    shed = {REASON: rows_in - kept} if kept < rows_in else {}
    return Report(
        sequence=sequence,
        start_s=1000.0 + 2 * sequence,
        end_s=1002.0 + 2 * sequence,
        rows_in=rows_in,
        rows_kept=kept,
        rows_shed=shed,
        plan_version=sequence,
        busy_s=0.002 * kept,
        queuing=Latency(kept, wait_s, 2 * wait_s),
    )


def made_up(name: str, *, keep_every: int = 1) -> Run:
    """A run that took up each row 1.5 s after its arrival and kept every n-th, and all that must be kept."""
    run = Run(name, "enforce" if keep_every > 1 else "dry_run", Workload(seconds=12.0, target_s=2.0, seed=1))
    run.start_s = 1000.0
    rows = np.arange(BATCHES * BATCH_ROWS)
    must_keep = run.workload.must_keep(run.workload.rows(len(rows))["key"].to_numpy())
    kept = rows[must_keep | (rows % keep_every == 0)]
    taken_s = run.start_s + run.workload.profile.arrival_s(kept) + 1.5
    weights = np.where(must_keep[kept], 1.0, float(keep_every))
    run.rows = pa.table({"row": kept, "weight": weights, "taken_s": taken_s})
    run.reports = [report(batch, int((kept // BATCH_ROWS == batch).sum())) for batch in range(BATCHES)]
    return run


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    runs = [made_up("unguarded"), made_up("guarded", keep_every=4)]
    facts = [Outcome(run).facts() for run in runs]
    return {"seconds": 12.0, "target_s": 2.0, "workload": workload_facts(runs[0].workload), "runs": facts}


def test_the_stream_is_calm_and_then_twice_what_the_cores_can_do() -> None:
    workload = Workload(seconds=40.0, target_s=2.0, seed=3)
    overload_work = workload.profile.rows_per_s[1] * workload.mean_cost_ms / 1e3
    assert overload_work == pytest.approx(4.0, rel=0.001)
    assert workload.profile.rows_by(10.0) == pytest.approx(10.0 * workload.capacity / 2.0, rel=0.001)


def test_the_operator_takes_what_the_row_costs_and_says_when_it_began() -> None:
    row = {"row": 1, "key": 2, "value": 0.5, "weight": 4.0, "cost_ms": 20.0}
    before_s = time.time()
    found = enrich(row)
    assert time.time() - before_s >= 0.019
    assert 0.0 <= found["taken_s"] - before_s < 1.0
    assert list(found) == [column.split()[0] for column in RESULTS.split(", ")]


def test_rows_count_in_the_window_in_which_they_were_taken_up() -> None:
    found = windows(np.array([0.0, 9.9, 10.0, 12.1]), np.array([1.0, 3.0, 5.0, 9.0]), 12.0)
    assert [(one["start_s"], one["end_s"], one["rows"]) for one in found] == [(0.0, 10.0, 2), (10.0, 12.0, 1)]
    assert [one["mean_wait_s"] for one in found] == [2.0, 5.0]


def test_a_window_without_rows_has_no_latency() -> None:
    assert windows(np.array([]), np.array([]), 10.0)[0]["mean_wait_s"] is None


@pytest.mark.parametrize(
    ("kept_rows", "is_exact"),
    [((0, 1, 4), True), ((0, 4, 5), False), ((0, 0, 4), False), ((0, 1), False), ((0, 1, 4, 5), False)],
)
def test_an_account_is_exact_only_if_every_batch_agrees_with_the_results(
    kept_rows: tuple[int, ...],
    is_exact: bool,  # noqa: FBT001 - a parameter
) -> None:
    reports = [report(0, 2, rows_in=3), report(1, 1, rows_in=3)]
    assert exact(reports, np.array(kept_rows)) is is_exact


def test_the_account_adds_up_in_every_table(result: dict[str, Any]) -> None:
    for run in result["runs"]:
        account = run["account"]
        assert account["exact"]
        assert account["rows_in"] == account["kept"] + sum(account["shed"].values()) == BATCHES * BATCH_ROWS
        assert account["must_keep_kept"] == account["must_keep_in"] > 0
        for table in ("by_cost", "keys", "batches"):
            assert sum(one["rows_in"] for one in run[table]) == account["rows_in"]
            assert sum(one["kept"] for one in run[table]) == account["kept"]
        assert [one for one in run["keys"] if one["must_keep"] and one["kept"] < one["rows_in"]] == []


def test_weights_give_the_truth_back_within_their_error(result: dict[str, Any]) -> None:
    unguarded, guarded = result["runs"]
    for answer in unguarded["answers"]:
        assert [answer["weighted"], answer["plain"]] == pytest.approx([answer["truth"]] * 2)
        assert answer["standard_error"] == 0.0
    for answer in guarded["answers"]:
        assert abs(answer["weighted"] - answer["truth"]) < 4.0 * answer["standard_error"]


def test_keys_are_listed_by_rows_shed(result: dict[str, Any]) -> None:
    shed = [one["rows_in"] - one["kept"] for one in result["runs"][1]["keys"]]
    assert shed == sorted(shed, reverse=True)
    assert shed[0] > 0


def test_latency_is_that_of_the_rows(result: dict[str, Any]) -> None:
    for run in result["runs"]:
        means = [one["mean_wait_s"] for one in (*run["windows"], *run["seconds"]) if one["mean_wait_s"] is not None]
        assert means == pytest.approx([1.5] * len(means), abs=0.001)


def shown(result: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=80)
    demo_report.show(console, result)
    return console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO


def test_the_terminal_shows_all_tables_on_80_columns(result: dict[str, Any]) -> None:
    text = shown(result)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for table in demo_report.tables(result):
        assert table.title in text
    assert REASON in text


def test_a_latency_above_the_target_is_marked(result: dict[str, Any]) -> None:
    low = result | {"target_s": 1.0}
    assert "!" not in demo_report.latency(result).rows[0][1]
    assert demo_report.latency(low).rows[0][1].startswith("!")
    assert all(": 0 of" in sentence for sentence in demo_report.verdicts(low))


def test_a_machine_too_slow_for_the_demo_is_told(result: dict[str, Any]) -> None:
    assert demo_report.notes(result) == []
    *others, guarded = result["runs"]
    slow = guarded | {"alarms": ["batches take 11.0 s"], "batches": [guarded["batches"][0] | {"end_s": 11.0}]}
    told = demo_report.notes(result | {"target_s": 1.0, "runs": [*others, slow]})
    assert told[0] == "The guard says: batches take 11.0 s"
    assert "The longest batch took 11.0 s, in which each core worked on rows for 0.3 s;" in told[1]
    assert len(told) == 2
    words = " ".join(shown(result | {"target_s": 1.0, "runs": [*others, slow]}).split())
    assert all(line in words for line in told)
    assert "The guard says" in demo_page.page(result | {"target_s": 1.0, "runs": [*others, slow]}, "m", "c").decode()


def test_only_the_unguarded_run_holds_rows_back_at_the_source(result: dict[str, Any]) -> None:
    """A guard cannot shed what a limit keeps from it."""
    assert made_up("guarded", keep_every=4).rows_per_batch is None
    assert made_up("unguarded").rows_per_batch == result["workload"]["rows_per_batch"]
    assert "12 s each and until the batch that then ran had ended (8 s and 8 s)" in demo_report.introduction(result)


def test_the_log_of_the_guarded_run_is_kept_for_the_dashboard(tmp_path: Path) -> None:
    out = tmp_path / "my out"
    for versions in (2, 1):  # the second demo must not show plans of the first
        log = PlanLog(tmp_path / f"{versions}" / "penstock" / "plans")
        for version in range(versions):
            log.add(version, Plan.keep_all(version, "start", decided_s=float(version)))
        (log.folder.parent / "guard.json").write_text("{}")
        kept = KeptLog(out)
        files = kept.taken_from(tmp_path / f"{versions}")
        kept.clear()
        write_files(files)
    with board([kept.checkpoint], sample=False) as page:
        (seen,) = state(page)
    assert len(seen["decisions"]) == 1
    assert kept.command == f"penstock dashboard '{out / 'checkpoint'}'"
    (out / "checkpoint" / "offsets").mkdir()
    with pytest.raises(PenstockError, match=r"give another folder; .* is not of a demo: it has offsets"):
        KeptLog(out)


def test_the_page_needs_no_other_file_and_escapes_text(result: dict[str, Any]) -> None:
    page = demo_page.page(result, "a <machine>", "penstock demo --seed '<'").decode()
    for words in ("costly &lt;keys&gt;", "a &lt;machine&gt;", "--seed &#x27;&lt;&#x27;"):
        assert words in page
    assert page.count("data:image/png;base64,") == len(demo_page.plots(result))
    assert "http" not in page
    assert "<script" not in page


@pytest.mark.parametrize("batches", [0, 1, BATCHES])
def test_the_view_tells_the_state_of_a_run(batches: int) -> None:
    run = made_up("guarded", keep_every=4)
    run.reports = run.reports[:batches]
    run.start_s, run.alarms = time.time() - 6.0, ("keep is too wide",)
    console = Console(file=io.StringIO(), width=100)
    console.print(demo_view.panel(run))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    for words in (f"rows in {batches * BATCH_ROWS:,} = kept", "backlog", "keep is too wide", "200%"):
        assert words in text
    latency = "latency 1.50 s (target 2 s)" if batches else "no rows yet"
    assert latency in demo_view.line(run)


def test_without_pyspark_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.extras.find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["penstock", "demo"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capfd.readouterr().err == "penstock: pyspark is missing: run pip install 'penstock[spark]'\n"
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_a_ctrl_c_led_to_is_a_ctrl_c() -> None:
    late = RuntimeError("the call to the JVM failed")
    late.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), _interrupts():
        raise late
    with pytest.raises(ZeroDivisionError), _interrupts():
        raise ZeroDivisionError


def test_a_ctrl_c_that_nobody_heard_is_heard_at_the_next_look() -> None:
    before = signal.getsignal(signal.SIGINT)
    with _interrupts() as refuse_interrupted:
        refuse_interrupted()
        with pytest.raises(KeyboardInterrupt):  # as if it had met a finalizer
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            refuse_interrupted()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files of its own, which must be empty in the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("temporary")
def test_a_short_demo_accounts_for_every_row(small: Small, tmp_path: Path) -> None:
    done = small(SHORT)
    assert (done["status"], (tmp_path / "complaints").read_text()) == (0, "")
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {
        "demo.html",
        "demo.png",
        "demo.json",
        "checkpoint",
    }
    assert done["out"].splitlines()[-1] == "To inspect the guarded run: penstock dashboard pages/checkpoint"
    text = (tmp_path / "all.json").read_text()
    assert text == (tmp_path / "pages" / "demo.json").read_text()
    data = json.loads(text)
    assert (data["seed"], data["target_s"], data["seconds"]) == (1, 1.0, 10.0)
    unguarded, guarded = data["runs"]
    for run in (unguarded, guarded):
        account = run["account"]
        assert account["exact"]
        assert account["rows_in"] == account["kept"] + sum(account["shed"].values()) > 0
        assert account["must_keep_kept"] == account["must_keep_in"] > 0
        assert run["windows"][0]["rows"] > 0
        assert run["errors"] == 0
    assert unguarded["account"]["shed"] == {}
    # On a machine that is busy with something else, a batch alone takes longer than the target: then that is told.
    assert guarded["account"]["kept"] < guarded["account"]["rows_in"] or guarded["alarms"]
    assert guarded["end_s"] >= data["seconds"]
    with board([tmp_path / "pages" / "checkpoint"], sample=False) as shown:
        (page,) = state(shown)
    assert len(page["points"]) >= guarded["account"]["batches"]
    for words in ("Warming up", "The account", "guarded  10 s: latency", data["machine"]["processor"]):
        assert words in " ".join(done["out"].split()) or words in done["out"]


def test_ctrl_c_stops_the_demo_and_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*STOPPED, "--seconds", "600", "--out", "pages"],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "80", "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stdout:
            if line.startswith("unguarded"):
                break
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=WAIT_S) == 130
        assert process.stderr.read() == "penstock: stopped\n"
    assert not (tmp_path / "pages").exists()
