"""`penstock reproduce osg` as a user meets it: a small run, and mistakes."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command import Command, Result, in_process

from penstock.sim.osg import figures as osg

OSG = ("reproduce", "osg")
SMALL = (*OSG, "--figure", "13", "--runs", "1", "--jobs", "1")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(monkeypatch, capfd)


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A small recorded stream with good columns and bad ones."""
    rows = 2_000
    columns = {
        "key": [f"@{row % 7}" for row in range(rows)],
        "author": [row % 11 for row in range(rows)],
        "cost_ms": [1.0 + row % 7 for row in range(rows)],
        "negative_ms": [-1.0] * rows,
        "gaps": [None, *range(1, rows)],
        "words": ["dear"] * rows,
    }
    pq.write_table(pa.table(columns), tmp_path / "stream.parquet")
    return tmp_path / "stream.parquet"


def assert_refused(result: Result, *words: str) -> None:
    """One line that names what was wrong, exit status 2, and not a word on standard output."""
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith("penstock: ")
    assert [word for word in words if word not in result.err] == []


def test_a_small_run_writes_its_files_and_tells_its_claims(run: Command, tmp_path: Path) -> None:
    out, json_file = tmp_path / "out", tmp_path / "13.json"
    result = run(*SMALL, "--rows", "2000", "--seed", "3", "--out", out, "--json", json_file)
    assert (result.status, result.err) == (0, "")
    assert {path.name for path in out.iterdir()} == {"osg-13.csv", "osg-13.json", "osg-13.md", "osg-13.png"}
    data = json.loads(json_file.read_text())
    assert (data["paper"], data["figure"]) == ("osg", "13")
    assert data["parameters"]["rows"] == 2_000
    assert data["parameters"]["rows_of_the_paper"] == 500_000
    rows = list(csv.DictReader((out / "osg-13.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        "k",
        "algorithm",
        *(f"{column}_{part}" for column in ("completion_ms", "speed_up") for part in ("mean", "min", "max")),
        "throughput_per_s",
    ]
    assert len(rows) == len(data["rows"]) == 9 * 5
    assert result.out.count(" yes ") + result.out.count(" no ") == len(data["claims"])
    assert "OSG, figure 13" in result.out
    page = (out / "osg-13.md").read_text()
    assert page.startswith("# OSG: what the paper says, what was measured")
    assert "penstock reproduce osg --figure 13 --runs 1 --seed 3 --rows 2000" in page


def test_a_recorded_stream_has_key_and_cost_ms_unless_others_are_named(
    run: Command, stream: Path, tmp_path: Path
) -> None:
    def parameters(*more: str) -> dict[str, object]:
        result = run(*SMALL, "--data", stream, *more, "--json", tmp_path / "13.json")
        assert (result.status, result.err) == (0, "")
        found = json.loads((tmp_path / "13.json").read_text())["parameters"]
        assert isinstance(found, dict)
        return found

    plain = parameters()
    assert (plain["data"], plain["key"], plain["cost"]) == (str(stream), "key", "cost_ms")
    assert (plain["rows"], plain["distinct_keys"], plain["max_cost_ms"]) == (2_000, 7, 7.0)
    assert parameters("--key", "author")["distinct_keys"] == 11
    bare = tmp_path / "bare.csv"
    bare.write_text("author\n" + "\n".join(str(row % 5) for row in range(1000)) + "\n")
    result = run(
        *OSG, "--figure", "14", "--runs", "1", "--data", bare, "--key", "author", "--json", tmp_path / "b.json"
    )
    assert (result.status, result.err) == (0, "")
    fitted = json.loads((tmp_path / "b.json").read_text())["parameters"]
    assert (fitted["distinct_keys"], fitted["cost"]) == (5, None)
    assert fitted["max_cost_ms"] <= 70.0


def test_figure_12_is_said_to_be_elsewhere(run: Command) -> None:
    assert_refused(run(*OSG, "--figure", "12"), "--figure", "12", "penstock bench grouping --figure-12", "Spark")


def test_figure_12_is_one_run(run: Command) -> None:
    assert_refused(run("bench", "grouping", "--figure-12", "--repeats", "2"), "--repeats", "2", "without --figure-12")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--figure", "3"), ("--figure", "'3'", ", ".join(osg.FIGURES))),
        (("--figure", ""), ("--figure", "4, 5, 6")),
        (("--runs", "0"), ("--runs", "'0'", "from 1 up")),
        (("--seed", "-1"), ("--seed", "'-1'")),
        (("--figure", "13", "--rows", "10"), ("--rows", "'10'", "from 1000 up")),
        (("--figure", "9", "--rows", "1000"), ("--rows", "1000", "--figure 13 or --figure 14")),
        (("--figure", "13", "--key", "user"), ("--key", "--data")),
        (("--figure", "13", "--cost", "ms"), ("--cost", "--data")),
        (("--figure", "9", "--data", "x.parquet"), ("--data", "x.parquet", "--figure 13 or --figure 14")),
        (("--data", "x.parquet"), ("--data", "x.parquet", "--figure 13 or --figure 14")),
        (("--figure", "13", "--data", "none.parquet"), ("data", "none.parquet", "existing Parquet file")),
        (("--figure", "13", "--data", "none.csv"), ("data", "none.csv", "existing CSV file")),
        (("--figure", "13", "--data", "x.csv", "--rows", "1000"), ("--rows", "1000", "--data")),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(run: Command, given: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_refused(run(*OSG, *given), *words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--key", "who"), ("column", "'who'", "key, author, cost_ms")),
        (("--cost", "much"), ("column", "'much'", "key, author, cost_ms")),
        (("--cost", "negative_ms"), ("negative_ms", "from 0 ms up")),
        (("--cost", "words"), ("words", "milliseconds")),
        (("--key", "gaps"), ("gaps", "1 nulls")),
    ],
    ids=" ".join,
)
def test_bad_columns_are_one_line(run: Command, stream: Path, given: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_refused(run(*SMALL, "--data", stream, *given), *words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("broken.parquet", b"not Parquet", ("readable Parquet file",)),
        ("broken.csv", b"key,cost_ms\na,1\nb\n", ("readable CSV file",)),
        ("empty.csv", b"", ("readable CSV file",)),
        ("none.csv", b"key,cost_ms\n", ("no rows",)),
    ],
)
def test_bad_files_are_one_line(
    run: Command, tmp_path: Path, name: str, content: bytes, words: tuple[str, ...]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert_refused(run(*SMALL, "--data", tmp_path / name), name, *words)
