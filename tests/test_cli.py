"""The `penstock` command as a user meets it: mistakes, help, Ctrl-C, and the files and tables of a good run."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from tests.command import Command, Result, in_process

import penstock
from penstock.cli.main import app
from penstock.sim.las import figures as las

SCRIPT = 'from penstock.cli.main import main\n\nif __name__ == "__main__":\n    main()\n'
LAS = ("reproduce", "las")
FIGURE_7 = (*LAS, "--figure", "7")
WAIT_S = 240.0
ROWS = 3_000


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(monkeypatch, capfd)


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    """The command as a program of its own, as pip would install it."""
    path = tmp_path / "penstock"
    path.write_text(SCRIPT)
    return [sys.executable, str(path)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A small recorded stream with columns of every kind, good and bad."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 40, ROWS)
    costs = rng.choice([1.0, 5.0, 25.0], 40)[kinds]
    path = tmp_path / "stream.parquet"
    columns = {
        "who": [f"@{kind}" for kind in kinds],
        "number": kinds,
        "cost_ms": costs,
        "whole_ms": costs.astype(int),
        "gaps": [None, *(f"@{kind}" for kind in kinds[1:])],
        "negative_ms": [-1.0, *costs[1:]],
        "missing_ms": [None, *costs[1:]],
        "free_ms": np.zeros(ROWS),
        "tags": [[str(kind)] for kind in kinds],
        "place": [{"x": kind} for kind in kinds],
    }
    pq.write_table(pa.table(columns), path)
    return path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=no_constant)


def assert_refused(result: Result, *words: str) -> None:
    """One line that names what was wrong, exit status 2, and not a word on standard output."""
    assert result.status == 2
    assert result.out == ""
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    assert result.err.startswith("penstock: ")
    for word in words:
        assert word in result.err


# Mistakes.

BAD_USE: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    ((*LAS, "--figure", "9"), ("--figure", "9", "4, 5, 6, 7, eps, plus")),
    ((*LAS, "--figure", ""), ("--figure",)),
    ((*LAS, "--runs", "0"), ("--runs", "0", "from 1 up")),
    ((*LAS, "--runs", "-3"), ("--runs", "-3", "from 1 up")),
    ((*LAS, "--runs", "1.5"), ("--runs", "1.5")),
    ((*LAS, "--runs", "many"), ("--runs", "many")),
    ((*LAS, "--runs", ""), ("--runs",)),
    ((*LAS, "--eps", "0"), ("--eps", "0", "from 0.0001")),
    ((*LAS, "--eps", "nan"), ("--eps", "nan", "from 0.0001")),
    ((*LAS, "--eps", "-0.05"), ("--eps", "-0.05", "from 0.0001")),
    ((*LAS, "--eps", "inf"), ("--eps", "inf", "2.718")),
    ((*LAS, "--eps", "3"), ("--eps", "3", "2.718")),
    ((*LAS, "--eps", "small"), ("--eps", "small")),
    ((*LAS, "--eps", "1e-12"), ("--eps", "1e-12")),
    ((*LAS, "--jobs", "-1"), ("--jobs", "-1", "from 0 up")),
    ((*LAS, "--seed", "-1"), ("--seed", "-1", "from 0 to")),
    ((*LAS, "--figure", "6", "--runs", "1", "--seed", "99999999999999999999"), ("--seed", "'99999999999999999999'")),
    ((*LAS, "--cost", "cost_ms"), ("--cost", "--data")),
    ((*LAS, "--key", "who"), ("--data", "--key")),
    ((*LAS, "--figure"), ("--figure",)),
    ((*LAS, "--fast"), ("--fast",)),
    ((*LAS, "now"), ("now",)),
    (("reproduce", "spark"), ("spark",)),
    (("rewind",), ("rewind",)),
    (("--quiet",), ("--quiet",)),
]


@pytest.mark.parametrize(("arguments", "words"), BAD_USE, ids=lambda value: " ".join(value[-2:]))
def test_a_mistake_is_one_line_that_names_it_and_writes_nothing(
    run: Command, out: Path, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    if arguments[: len(LAS)] == LAS:
        arguments = (*LAS, "--out", str(out), "--json", str(out / "all.json"), *arguments[len(LAS) :])
    assert_refused(run(*arguments), *words)
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--seed", "-1"),
        ("demo", "--seed", "x"),
        ("demo", "--runs", "1"),
        ("demo", "--seconds", "5"),
        ("demo", "--seconds", "nan"),
        ("demo", "--target", "0 s"),
        ("demo", "--target", "soon"),
        ("bench", "sim", "--runs", "0"),
        ("bench", "sim", "--jobs", "-1"),
        ("bench", "spark"),
    ],
    ids=" ".join,
)
def test_a_mistake_in_another_command_is_one_line_too(run: Command, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    json_file = ("--json", str(tmp_path / "a.json")) if "spark" not in arguments else ()
    assert_refused(run(*arguments, *json_file))
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("--key", "whom"), ("whom", "who, number")),
        (("--key", "gaps"), ("gaps", "1 null")),
        (("--key", "tags"), ("tags",)),
        (("--key", "place"), ("place",)),
        (("--key", "who", "--cost", "who"), ("who", "string", "milliseconds")),
        (("--key", "who", "--cost", "negative_ms"), ("negative_ms", "negative")),
        (("--key", "who", "--cost", "missing_ms"), ("missing_ms", "null")),
        (("--key", "who", "--cost", "free_ms"), ("free_ms", "zero")),
        (("--key", "who", "--cost", "price"), ("price", "cost_ms")),
        ((), ("--data", "--key")),
    ],
    ids=" ".join,
)
def test_a_column_that_cannot_be_used_is_named(
    run: Command, out: Path, stream: Path, columns: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(run(*FIGURE_7, "--data", stream, *columns, "--out", out), *words)
    assert not out.exists() or files(out) == set()


def test_a_data_file_that_is_missing_is_named(run: Command, out: Path, tmp_path: Path) -> None:
    result = run(*FIGURE_7, "--data", tmp_path / "none.parquet", "--key", "who", "--out", out)
    assert_refused(result, "none.parquet", "existing")
    assert files(tmp_path) == set()


def test_a_data_file_that_is_not_parquet_is_named(run: Command, out: Path, tmp_path: Path) -> None:
    (tmp_path / "stream.txt").write_text("who,cost_ms\n@1,5\n" * 100)
    assert_refused(
        run(*FIGURE_7, "--data", tmp_path / "stream.txt", "--key", "who", "--out", out), "stream.txt", "Parquet"
    )
    assert files(tmp_path) == {"stream.txt"}


def test_a_folder_is_no_data_file(run: Command, tmp_path: Path) -> None:
    assert_refused(run(*FIGURE_7, "--data", tmp_path, "--key", "who"), str(tmp_path))


def test_a_stream_without_rows_is_refused(run: Command, out: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    assert_refused(
        run(*FIGURE_7, "--data", tmp_path / "empty.parquet", "--key", "who", "--out", out), "empty.parquet", "no rows"
    )
    assert files(tmp_path) == {"empty.parquet"}


def test_data_is_refused_for_a_figure_that_does_not_read_it(run: Command, stream: Path) -> None:
    assert_refused(run(*LAS, "--figure", "5", "--data", stream, "--key", "who"), "--data", "--figure 7")


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(run: Command, tmp_path: Path, option: str) -> None:
    (tmp_path / "plain").touch()
    # So many runs would take hours.
    assert_refused(run(*LAS, "--runs", "1000000000", option, tmp_path / "plain" / "results"), option, "plain", "writ")
    assert files(tmp_path) == {"plain"}


@pytest.mark.parametrize("command", [LAS, ("demo",), ("bench", "sim")], ids=" ".join)
def test_a_folder_is_refused_as_json_file(run: Command, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert_refused(run(*command, "--json", tmp_path), "--json", str(tmp_path), "folder")
    assert files(tmp_path) == set()


def test_a_file_whose_place_is_taken_by_a_folder_leaves_the_others_unwritten(run: Command, out: Path) -> None:
    (out / "las-7.png").mkdir(parents=True)
    assert_refused(run(*FIGURE_7, "--out", out), "las-7.png")
    assert files(out) == set()


def test_the_largest_seed_works_and_the_next_is_named_as_it_was_given(run: Command) -> None:
    assert run(*LAS, "--figure", "6", "--runs", "1", "--seed", "2147483647").status == 0
    assert_refused(run(*LAS, "--figure", "6", "--runs", "1", "--seed", "2147483648"), "--seed", "'2147483648'")


def test_a_mistake_is_one_line_for_the_installed_command_too(script: list[str], out: Path) -> None:
    command = [*script, *LAS, "--runs", "0", "--out", str(out)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WAIT_S)
    assert_refused(Result(result.returncode, result.stdout, result.stderr), "--runs")


# Ctrl-C.


def group(leader: int) -> Iterator[Path]:
    """Processes of the group that are still running, as folders of /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, process_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == leader and state not in "ZX":
                yield folder


def wait_until(fact: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < deadline
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.01)


def interrupted(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=WAIT_S)
    wait_until(lambda: not any(group(process.pid)), process)
    return Result(process.returncode, out, err)


@pytest.fixture
def long_run(script: list[str], out: Path) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(jobs: int) -> subprocess.Popen[str]:
        command = [*script, *LAS, "--figure", "5", "--runs", "5000", "--out", str(out), "--jobs", str(jobs)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


def assert_stopped(result: Result, out: Path) -> None:
    assert result.status == 130
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.startswith("penstock: ")
    assert result.err.count("\n") == 1
    assert files(out) == set()


@needs_proc
def test_ctrl_c_ends_a_run_with_one_line_and_leaves_nothing(
    long_run: Callable[[int], subprocess.Popen[str]], out: Path
) -> None:
    process = long_run(1)

    def is_at_work() -> bool:
        """Whether it has computed for longer than it takes to start."""
        times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) > 3 * os.sysconf("SC_CLK_TCK")

    wait_until(is_at_work, process)
    process.send_signal(signal.SIGINT)
    assert_stopped(interrupted(process), out)


@needs_proc
def test_ctrl_c_in_a_terminal_reaches_every_process_and_is_one_line_all_the_same(
    long_run: Callable[[int], subprocess.Popen[str]], out: Path
) -> None:
    process = long_run(2)

    def workers_are_starting() -> bool:
        for folder in group(process.pid):
            with suppress(OSError):
                # Until it has become a worker, a new process looks like the one that started it.
                if "spawn_main" in (folder / "cmdline").read_text() and "llvmlite" in (folder / "maps").read_text():
                    return True
        return False

    wait_until(workers_are_starting, process)
    os.killpg(process.pid, signal.SIGINT)
    assert_stopped(interrupted(process), out)


# Help.


def commands(command: Any, name: str = "penstock") -> Iterator[tuple[str, Any]]:
    yield name, command
    for part in getattr(command, "commands", ()):
        below = command.resolve_command(typer.Context(command), [part])[1]
        yield from commands(below, f"{name} {part}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_the_documented_ones() -> None:
    assert set(COMMANDS) == {
        "penstock",
        "penstock reproduce",
        "penstock reproduce las",
        "penstock reproduce aurora",
        "penstock reproduce osg",
        "penstock reproduce themis",
        "penstock reproduce plus",
        "penstock bench",
        "penstock bench sim",
        "penstock bench grains",
        "penstock bench answers",
        "penstock bench roadmap",
        "penstock bench density",
        "penstock bench balanced",
        "penstock bench balance",
        "penstock bench grouping",
        "penstock bench fair",
        "penstock bench chaos",
        "penstock bench growth",
        "penstock bench gate",
        "penstock bench idle",
        "penstock bench latency",
        "penstock bench store",
        "penstock bench federation",
        "penstock dashboard",
        "penstock demo",
        "penstock replay",
        "penstock roadmap",
        "penstock run",
        "penstock site",
        "penstock whatif",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_explained(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert [option.name for option in command.params if not option.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_option_whole_on_80_columns(run: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*name.split()[1:], "--help")
    assert result.status == 0
    assert result.err == ""
    assert "…" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    for option in COMMANDS[name].params:
        assert all(spelling in result.out for spelling in option.opts)


def test_reproduce_las_has_the_documented_options() -> None:
    spellings = {spelling for option in COMMANDS["penstock reproduce las"].params for spelling in option.opts}
    assert spellings >= {"--figure", "--runs", "--seed", "--out", "--json", "--jobs", "--data", "--key"}


def test_reproduce_aurora_has_the_documented_options() -> None:
    spellings = {spelling for option in COMMANDS["penstock reproduce aurora"].params for spelling in option.opts}
    assert spellings == {"--figure", "--runs", "--seed", "--out", "--json", "--jobs"}


def test_reproduce_osg_has_the_documented_options() -> None:
    spellings = {spelling for option in COMMANDS["penstock reproduce osg"].params for spelling in option.opts}
    assert spellings >= {"--figure", "--runs", "--seed", "--data", "--json", "--out"}


def test_reproduce_themis_has_the_documented_options() -> None:
    spellings = {spelling for option in COMMANDS["penstock reproduce themis"].params for spelling in option.opts}
    assert spellings >= {"--figure", "--runs", "--seed", "--data", "--json", "--out"}


@pytest.mark.parametrize("arguments", [(), ("reproduce",), ("bench",)], ids=" ".join)
def test_a_command_without_what_to_do_shows_its_help(run: Command, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.status == 2
    assert "Usage:" in result.out + result.err
    assert "Commands" in result.out + result.err


def test_the_version_is_told(run: Command) -> None:
    assert run("--version") == Result(0, f"penstock {penstock.__version__}\n", "")


# Good runs.


def words_of(text: str) -> str:
    """The text of a table, without its lines."""
    return " ".join("".join(" " if character in "│┃━─┏┓┡┩╇┳└┘┴├┤┼" else character for character in text).split())


def assert_is_png(content: bytes) -> None:
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert len(content) > 10_000


def test_a_figure_is_written_as_csv_png_and_json_and_its_claims_are_told(
    run: Command, out: Path, tmp_path: Path
) -> None:
    json_file = tmp_path / "deep" / "down" / "las.json"
    result = run(*LAS, "--figure", "5", "--runs", "2", "--seed", "3", "--out", out, "--json", json_file)
    assert (result.status, result.err) == (0, "")
    assert files(out) >= {"las-5.csv", "las-5.json", "las-5.png"}
    data = read_json(json_file)
    assert read_json(out / "las-5.json") == data
    assert (data["paper"], data["figure"], data["parameters"]["runs"], data["parameters"]["seed"]) == ("las", "5", 2, 3)
    assert data["machine"]["cores"] >= 1
    rows = list(csv.DictReader((out / "las-5.csv").read_text().splitlines()))
    assert [row["algorithm"] for row in rows] == [row["algorithm"] for row in data["rows"]]
    assert [float(row["queuing_latency_ms_mean"]) for row in rows] == [
        row["queuing_latency_ms"]["mean"] for row in data["rows"]
    ]
    assert_is_png((out / "las-5.png").read_bytes())
    assert "claim paper says measured holds" in words_of(result.out)
    assert result.out.count(" yes ") + result.out.count(" no ") == len(data["claims"])
    for path in [json_file, *out.iterdir()]:
        assert f"Wrote {path}\n" in result.out


def test_files_of_an_earlier_run_are_replaced_and_others_left(run: Command, out: Path) -> None:
    out.mkdir()
    for name in ("las-7.csv", "las-7.json", "las-7.png", "notes.txt"):
        (out / name).write_text("before")
    assert run(*FIGURE_7, "--out", out).status == 0
    assert_is_png((out / "las-7.png").read_bytes())
    assert read_json(out / "las-7.json")["figure"] == "7"
    assert (out / "las-7.csv").read_text().startswith("window,algorithm,")
    assert (out / "notes.txt").read_text() == "before"
    assert not [name for name in files(out) if name.startswith(".")]


def test_every_figure_is_made_if_none_is_named(run: Command, out: Path, tmp_path: Path) -> None:
    result = run(*LAS, "--runs", "1", "--jobs", "1", "--out", out, "--json", tmp_path / "all.json")
    assert (result.status, result.err) == (0, "")
    assert [figure["figure"] for figure in read_json(tmp_path / "all.json")] == list(las.FIGURES)
    assert files(out) >= {f"las-{name}.{kind}" for name in las.FIGURES for kind in ("csv", "json", "png")}
    assert all(f"LAS, figure {name}" in result.out for name in las.FIGURES)


def test_a_figure_of_aurora_is_written_and_its_claims_are_told(run: Command, out: Path, tmp_path: Path) -> None:
    given = ("--figure", "12", "--runs", "1", "--seed", "3", "--jobs", "1")
    result = run("reproduce", "aurora", *given, "--out", out, "--json", tmp_path / "12.json")
    assert (result.status, result.err) == (0, "")
    assert files(out) == {"aurora-12.csv", "aurora-12.json", "aurora-12.png", "aurora-12.md"}
    data = read_json(tmp_path / "12.json")
    assert (data["paper"], data["figure"], data["parameters"]["seed"]) == ("aurora", "12", 3)
    assert "Aurora, figure 12" in result.out
    assert_is_png((out / "aurora-12.png").read_bytes())
    page = (out / "aurora-12.md").read_text()
    assert page.startswith("# Aurora: what the paper says")
    assert "penstock reproduce aurora --figure 12 --runs 1 --seed 3" in page


def test_a_figure_that_aurora_does_not_have_is_refused(run: Command) -> None:
    result = run("reproduce", "aurora", "--figure", "7")
    assert_refused(result, "--figure", "7", "one of 9, 10, 11, 12, plus")


def test_the_bench_of_allotments_tells_its_times(run: Command, tmp_path: Path) -> None:
    result = run("bench", "density", "--classes", "500", "--repeats", "1", "--json", tmp_path / "bench.json")
    assert (result.status, result.err) == (0, "")
    data = read_json(tmp_path / "bench.json")
    assert (data["bench"], data["parameters"]["classes"], len(data["rows"])) == ("density", 500, 8)
    assert data["slowest_ms"] == max(row["ms"]["median"] for row in data["rows"])
    few = run("bench", "density", "--classes", "10", "--repeats", "1")  # fewer than there are queries
    assert (few.status, few.err) == (0, "")
    assert_refused(run("bench", "density", "--classes", "0"), "--classes", "'0'", "from 1 to 10000000")


def test_the_bench_of_road_maps_tells_its_times(run: Command, tmp_path: Path) -> None:
    result = run("bench", "roadmap", "--boxes", "40", "--repeats", "1", "--json", tmp_path / "bench.json")
    assert (result.status, result.err) == (0, "")
    data = read_json(tmp_path / "bench.json")
    assert (data["bench"], data["parameters"]["boxes"], len(data["rows"])) == ("roadmap", 40, 4)
    assert data["machine"]["processor"] in words_of(result.out)
    for words in ("entries", "build s", "parameters, boxes: 40"):
        assert words in words_of(result.out)
    assert_refused(run("bench", "roadmap", "--boxes", "9"), "--boxes", "'9'", "from 10 to 20000")


def test_the_bench_of_fair_shedding_tells_its_times(run: Command, tmp_path: Path) -> None:
    result = run("bench", "balance", "--fragments", "50", "--repeats", "2", "--json", tmp_path / "bench.json")
    assert (result.status, result.err) == (0, "")
    data = read_json(tmp_path / "bench.json")
    assert (data["bench"], data["parameters"]["fragments"], len(data["rows"])) == ("balance", 50, 6)
    assert data["machine"]["processor"] in words_of(result.out)
    for words in ("shedder penstock", "balance_sic(...), cold", "parameters, fragments: 50"):
        assert words in words_of(result.out)
    assert_refused(run("bench", "balance", "--fragments", "0"), "--fragments", "'0'", "from 1 to 1000000")


def test_nothing_is_written_unless_asked_for_and_tables_fit_80_columns(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*FIGURE_7)
    assert result.status == 0
    assert "Wrote" not in result.out
    assert files(tmp_path) == set()
    assert "…" not in result.out
    assert "Knowledge's" in words_of(result.out).split()
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize("key", ["who", "number"])
def test_a_recorded_stream_is_read_by_its_key_column(run: Command, stream: Path, tmp_path: Path, key: str) -> None:
    result = run(*FIGURE_7, "--data", stream, "--key", key, "--json", tmp_path / "7.json")
    assert (result.status, result.err) == (0, "")
    parameters = read_json(tmp_path / "7.json")["parameters"]
    assert (parameters["rows"], parameters["distinct_keys"]) == (ROWS, 40)
    assert parameters["max_cost_ms"] <= 25.0


def test_json_on_standard_output_has_it_for_itself(script: list[str], stream: Path) -> None:
    for place in ("-", "/dev/stdout"):
        command = [*script, *FIGURE_7, "--data", str(stream), "--key", "number", "--json", place]
        result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S)
        assert json.loads(result.stdout)["figure"] == "7"
        assert "paper says" in result.stderr


def test_arrivals_of_a_recorded_stream_are_kept(run: Command, tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {
        "key": [1, 2, 3, 4],
        "cost_ms": [10.0, 10.0, 10.0, 10.0],
        "at": [start, start, start, start + timedelta(seconds=60)],
        "at_s": [100.0, 100.0, 100.0, 160.0],
        "back": [3, 2, 1, 0],
        "words": ["a", "b", "c", "d"],
    }
    pq.write_table(pa.table(columns), tmp_path / "stream.parquet")
    given = (*FIGURE_7, "--data", tmp_path / "stream.parquet", "--key", "key", "--cost", "cost_ms")
    for column in ("at", "at_s"):
        assert run(*given, "--arrival", column, "--json", tmp_path / "a.json").status == 0
        rows = json.loads((tmp_path / "a.json").read_text())["rows"]
        # Three rows of 10 ms at once wait 0, 10 and 20 ms; the fourth comes a minute later and does not wait.
        assert [one["queuing_latency_ms"] for one in rows if one["algorithm"] == "straw_man"] == [pytest.approx(7.5)]
    assert_refused(run(*given, "--arrival", "back"), "back", "ascending")
    assert_refused(run(*given, "--arrival", "words"), "words", "timestamps or seconds")


@pytest.mark.parametrize("cost", ["cost_ms", "whole_ms"])
def test_costs_of_a_recorded_stream_are_milliseconds(run: Command, stream: Path, tmp_path: Path, cost: str) -> None:
    result = run(*FIGURE_7, "--data", stream, "--key", "who", "--cost", cost, "--json", tmp_path / "7.json")
    assert (result.status, result.err) == (0, "")
    expected = pq.read_table(stream).column("cost_ms").to_numpy()
    parameters = read_json(tmp_path / "7.json")["parameters"]
    assert parameters["mean_cost_ms"] == pytest.approx(expected.mean())
    assert parameters["max_cost_ms"] == pytest.approx(expected.max())


@pytest.mark.parametrize("name", ["a[red].json", "a:smile:.json", "two words.json"])
def test_a_file_is_told_by_the_name_it_has(run: Command, stream: Path, tmp_path: Path, name: str) -> None:
    result = run(*FIGURE_7, "--data", stream, "--key", "number", "--json", tmp_path / name)
    assert result.status == 0
    assert f"Wrote {tmp_path / name}\n" in result.out
    assert files(tmp_path) == {name, stream.name}


def test_a_page_of_claims_says_how_it_can_be_made_again(run: Command, out: Path) -> None:
    assert run(*FIGURE_7, "--seed", "4", "--eps", "0.1", "--out", out).status == 0
    page = (out / "las-7.md").read_text()
    for words in ("penstock reproduce las", "--figure 7", "--seed 4", "--eps 0.1"):
        assert words in page


def test_the_bench_tells_speed_memory_and_machine(run: Command, tmp_path: Path) -> None:
    result = run("bench", "sim", "--runs", "2", "--jobs", "1", "--json", tmp_path / "bench.json")
    assert (result.status, result.err) == (0, "")
    data = read_json(tmp_path / "bench.json")
    assert [row["algorithm"] for row in data["rows"]] == ["base_line", "straw_man", "las", "full_knowledge", "penstock"]
    assert data["parameters"]["runs"] == 2
    assert set(data["whole_runs"]) == {
        "seconds",
        "decisions_per_s_per_core",
        "seconds_for_paper_runs",
        "peak_memory_mib",
    }
    assert data["machine"]["processor"] in words_of(result.out)
    for words in ("decisions per s per core", "seconds for paper runs", "peak memory"):
        assert words in words_of(result.out)
