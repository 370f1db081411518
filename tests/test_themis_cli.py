"""`penstock reproduce themis` as a user meets it: a small run, a recorded trace, and mistakes."""

import csv
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command import Command, Result, in_process

from penstock.sim.themis import figures as themis
from penstock.sim.themis.correlation import correlation_run

THEMIS = ("reproduce", "themis")
SMALL = (*THEMIS, "--figure", "7", "--runs", "1", "--jobs", "1")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setattr(themis, "correlation_run", partial(correlation_run, seconds=2))
    return in_process(monkeypatch, capfd)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Twelve machines, 20 readings each."""
    rows = range(12 * 20)
    columns = {
        "node": [f"host-{row % 12}" for row in rows],
        "machine": [f"m{row % 10}" for row in rows],
        "cpu": [float(row % 97) for row in rows],
        "words": ["busy"] * len(rows),
    }
    pq.write_table(pa.table(columns), tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def assert_refused(result: Result, *words: str) -> None:
    """One line that names what was wrong, exit status 2, and not a word on standard output."""
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith("penstock: ")
    assert [word for word in words if word not in result.err] == []


def test_a_small_run_writes_its_files_and_tells_its_claims(run: Command, tmp_path: Path) -> None:
    out, json_file = tmp_path / "out", tmp_path / "7.json"
    result = run(*SMALL, "--seed", "3", "--out", out, "--json", json_file)
    assert (result.status, result.err) == (0, "")
    assert {path.name for path in out.iterdir()} == {f"themis-7.{kind}" for kind in ("csv", "json", "md", "png")}
    data = json.loads(json_file.read_text())
    assert (data["paper"], data["figure"], data["parameters"]["planetlab"]) == ("themis", "7", "synthetic")
    rows = list(csv.DictReader((out / "themis-7.csv").read_text().splitlines()))
    assert list(rows[0]) == ["query", "dataset", "queries", "shedder", "sic", "error"]
    assert len(rows) == len(data["rows"])
    assert "THEMIS, figure 7" in result.out
    assert "penstock reproduce themis --figure 7 --runs 1 --seed 3" in (out / "themis-7.md").read_text()


def test_recorded_traces_take_the_place_of_synthetic_ones(run: Command, trace: Path, tmp_path: Path) -> None:
    for more in ((), ("--node", "machine")):
        result = run(*SMALL, "--data", trace, *more, "--json", tmp_path / "7.json")
        assert (result.status, result.err) == (0, "")
        assert json.loads((tmp_path / "7.json").read_text())["parameters"]["planetlab"] == str(trace)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--figure", "5"), ("--figure", "'5'", ", ".join(themis.FIGURES))),
        (("--runs", "0"), ("--runs", "'0'", "from 1 up")),
        (("--figure", "7", "--node", "host"), ("--node", "--data")),
        (("--figure", "10", "--data", "x.parquet"), ("--data", "x.parquet", "--figure 6 or --figure 7")),
        (("--figure", "6", "--data", "none.csv"), ("data", "none.csv", "existing CSV file")),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(run: Command, given: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_refused(run(*THEMIS, *given), *words)


def test_a_column_that_is_not_there_is_told(run: Command, trace: Path) -> None:
    assert_refused(run(*SMALL, "--data", trace, "--cpu", "load"), "column", "'load'", "node, machine, cpu, words")
    assert_refused(run(*SMALL, "--data", trace, "--cpu", "words"), "'words'", "numbers")
