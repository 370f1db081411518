"""`penstock whatif` on recorded logs of Spark: every form they come in, what it prints and writes, and the mistakes."""

import base64
import gzip
import io
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from tests.command import Command, in_process

from penstock.cli.whatif import Answer, show
from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.targets import MeanQueueLatency
from penstock.sim.whatif.plot import _STYLE
from penstock.sim.whatif.recorded import Batch, Keys, recorded
from penstock.sim.whatif.replay import Outcome
from penstock.spark.probe.meter import TaskSums
from penstock.spark.progress_file import read

ROOT = Path(__file__).parents[1]
#: What `query.recentProgress` gave of a query that took in twice what it could do.
CLASSIC = ROOT / "examples" / "whatif" / "progress.jsonl"
#: The same of another query, from a client of Spark Connect.
CONNECT = ROOT / "tests" / "data" / "connect-progress.jsonl"
#: The event log of the first query: its first line, and those of its last six batches.
EVENTS = ROOT / "tests" / "data" / "event-log.jsonl"


@pytest.fixture
def whatif(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return in_process(monkeypatch, capfd, "whatif")


def test_a_recorded_overload_would_have_been_held(whatif: Command, tmp_path: Path) -> None:
    result = whatif(CLASSIC, "--target", "2s", "--out", tmp_path / "o", "--json", tmp_path / "facts.json")

    assert result.status == 0, result.err
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert (tmp_path / "o" / "whatif.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "o" / "whatif.json").read_text()) == facts
    policies = {one["policy"]: one for one in facts["policies"]}
    nothing, ours = policies["nothing"], policies["load_aware"]
    assert nothing["shed_rows"] == 0
    assert nothing["latency_s"]["mean"] > 3 * facts["target_s"]
    assert nothing["whole_mean_s"] == pytest.approx(facts["query"]["mean_wait_s"], rel=0.05)
    assert ours["latency_s"]["mean"] <= facts["target_s"]
    assert 0.3 < ours["shed_share"] < 0.6
    assert ours["latency_s"]["mean"] <= ours["latency_s"]["p95"] <= ours["latency_s"]["max"]
    page = (ROOT / "docs" / "whatif.md").read_text()
    for name, one in policies.items():
        assert re.search(rf"{name}\s+│ {one['shed_share']:.1%}", result.out), name
        latency = " | ".join(f"{one['latency_s'][each]:.2f}" for each in ("mean", "p95", "max"))
        assert f"| {name} | {one['shed_share']:.1%} | {latency} |" in page
    for note in ("assumed: rows of a batch cost alike", "assumed: the rows of a batch came evenly", "checked: "):
        assert note in result.out


def test_the_spread_of_costs_is_an_assumption_that_can_be_given(whatif: Command, tmp_path: Path) -> None:
    result = whatif(CLASSIC, "--target", "2 s", "--spread", "64", "--json", tmp_path / "facts.json")

    assert result.status == 0, result.err
    shed = {one["policy"]: one["shed_share"] for one in json.loads((tmp_path / "facts.json").read_text())["policies"]}
    assert shed["load_aware, cheap"] < 0.8 * shed["load_aware"]
    assert "assumed: Zipf-1 keys" in result.out


def test_what_a_guard_costs_can_be_given_and_a_quarantine_costs_more(whatif: Command, tmp_path: Path) -> None:
    shed = []
    for given, note in (
        ((), "assumed: a guard takes 50 ms a batch"),
        (("--guard-overhead", "300 ms"), "assumed: a guard takes 300 ms a batch"),
        (("--quarantine",), "assumed: a guard with a quarantine takes 250 ms a batch"),
    ):
        result = whatif(CLASSIC, "--target", "2 s", *given, "--json", tmp_path / "facts.json")
        assert result.status == 0, result.err
        assert note in result.out
        assert "left out: the first 2 batches, in which the query was warming up" in result.out
        facts = json.loads((tmp_path / "facts.json").read_text())
        shed.append(next(one["shed_share"] for one in facts["policies"] if one["policy"] == "load_aware"))
    assert shed[0] + 0.03 < min(shed[1:])


def same(path: Path) -> list[tuple[int, int, float]]:
    return [(one.batch, one.rows, one.duration_s) for one in read(path).progress]


def test_every_form_of_a_log_reads_the_same(tmp_path: Path) -> None:
    expected = same(CLASSIC)
    objects = [json.loads(line) for line in CLASSIC.read_text().splitlines()]
    forms = {
        "array": json.dumps(objects),
        "texts": json.dumps([json.dumps(one) for one in objects]),
        "pretty": "\n".join(json.dumps(one, indent=2) for one in objects),
        "windows": CLASSIC.read_text().replace("\n", "\r\n"),
        "listener": "\n".join(json.dumps({"progress": one}) for one in objects),
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        assert same(tmp_path / name) == expected, name
    (tmp_path / "packed.gz").write_bytes(gzip.compress(CLASSIC.read_bytes()))
    assert same(tmp_path / "packed.gz") == expected


def test_what_was_recorded_twice_counts_once(tmp_path: Path) -> None:
    """As when `recentProgress` is added to a file every minute."""
    lines = CLASSIC.read_text().splitlines()
    (tmp_path / "log").write_text("\n".join([*lines[:9], *lines[4:]]))
    assert same(tmp_path / "log") == same(CLASSIC)


def test_an_event_log_is_read_whole_rolled_or_packed(tmp_path: Path) -> None:
    expected = same(CLASSIC)[-6:]
    assert same(EVENTS) == expected
    lines = EVENTS.read_text().splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "appstatus_local-1").touch()
    for number, part in ((2, lines[4:7]), (10, lines[7:]), (1, lines[:4])):
        with pa.CompressedOutputStream(str(folder / f"events_{number}_local-1.zstd"), "zstd") as file:
            file.write("".join(part if number == 1 else [lines[0], *part]).encode())
    assert same(folder) == expected


def test_progress_of_connect_has_its_rows(whatif: Command) -> None:
    assert [rows for _, rows, _ in same(CONNECT)] == [0, 1386, 6765]
    result = whatif(CONNECT, "--target", "2s")
    assert result.status == 0, result.err
    assert "doubtful: 2 batches are few" in result.out


def two_queries(path: Path) -> Path:
    text = CLASSIC.read_text()
    (name,) = {json.loads(line)["id"] for line in text.splitlines()}
    other = text.replace(name, "the-other").replace('"name": null', '"name": "enrich"')
    path.write_text(text + other)
    return path


def test_of_several_queries_one_is_chosen_by_name(whatif: Command, tmp_path: Path) -> None:
    log = two_queries(tmp_path / "log.jsonl")
    assert len(read(log, "enrich").progress) == len(read(CLASSIC).progress)
    result = whatif(log, "--target", "2s")
    assert result.status == 2
    assert "--query = None is not usable: give one of the queries in" in result.err
    assert "enrich" in result.err


#: A log that cannot be used, and what is said of it.
MISTAKES = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "is empty"),
    "no-progress": (b'{"a": 1}\n[2]\n', "holds no progress"),
    "broken": (b'{"id": "05', "line 1: no JSON"),
    "half": (b'{"batchId": 3, "timestamp": "yesterday"}', "line 1: a progress that cannot be read"),
    "binary": (b"\x00\xff\xfe\x80", "is no text"),
    "cut.gz": (gzip.compress(CLASSIC.read_bytes())[:200], "reading failed"),
    "one": (CLASSIC.read_bytes().splitlines()[3], "1 batch with rows"),
    "idle": (CLASSIC.read_bytes().splitlines()[0], "0 batches with rows"),
}


def test_what_cannot_be_read_is_left_out_and_told(whatif: Command, tmp_path: Path) -> None:
    """A line torn in the midst of a letter, as a crash leaves it; lines that are no JSON; a progress that is none."""
    lines = CLASSIC.read_bytes().splitlines(keepends=True)
    wrong = [
        b'{"id": "05\n',
        b"hello\n",
        b'{"batchId": 3, "timestamp": "yesterday"}\n',
        '{"name": "\u00e9'.encode()[:-1],
    ]
    (tmp_path / "log").write_bytes(b"".join([*lines[:4], *wrong[:3], *lines[4:], wrong[3]]))

    found = read(tmp_path / "log")

    assert same(tmp_path / "log") == same(CLASSIC)
    assert [place.partition(":")[0] for place in found.unread] == ["line 5", "line 7", f"line {len(lines) + 4}"]
    result = whatif(tmp_path / "log", "--target", "2s")
    assert result.status == 0, result.err
    assert "- skipped: 3 parts of the log that cannot be read, the first: line 5: no JSON" in result.out


def test_torn_events_and_measures_cost_a_batch_each(whatif: Command, tmp_path: Path) -> None:
    events = EVENTS.read_text().splitlines()
    events[-1] = events[-1][:-20]
    (tmp_path / "events").write_text("\n".join(events))
    assert same(tmp_path / "events") == same(EVENTS)[:-1]

    lines = [json.loads(line) for line in CLASSIC.read_text().splitlines()]
    lines[4]["observedMetrics"] = {"penstock_probe_guard": {"tasks": ["nonsense"]}}
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))
    result = whatif(tmp_path / "log", "--target", "2s")
    assert result.status == 0, result.err
    assert "skipped: 1 part of the log that cannot be read: measures of a guard that" in result.out


def test_a_name_cannot_move_the_cursor_of_a_terminal(whatif: Command, tmp_path: Path) -> None:
    named = CLASSIC.read_text().replace('"name": null', r'"name": "a\u001b[31m$b\n$"')
    (tmp_path / "log").write_text(named)
    result = whatif(tmp_path / "log", "--target", "2s", "--query", "a?[31m$b?$", "--out", tmp_path / "o")
    assert result.status == 0, result.err
    assert "query a?[31m$b?$:" in result.out
    assert "\x1b" not in result.out + (tmp_path / "o" / "whatif.json").read_text()
    two_queries(tmp_path / "two")
    (tmp_path / "two").write_text(named + (tmp_path / "two").read_text())
    assert "\x1b" not in whatif(tmp_path / "two", "--target", "2s").err


def test_the_table_fits_80_columns() -> None:
    latency_s = {"mean": 1234.56, "p95": 1234.56, "max": 9999.99}
    facts = {"latency_s": latency_s, "shed_share": 1.0, "windows_within_target": 1.0, "alarms": []}
    outcomes = [Outcome(name, facts, []) for name in ("nothing", "load_aware, cheap")]
    query = recorded([Batch(float(start), 1.0, 1.0, 10, 10, None) for start in range(4)], Keys.alike())
    console = Console(file=io.StringIO(), width=80)
    show(console, Answer("log", MeanQueueLatency(2.0), query, outcomes, []))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert "…" not in text
    assert "100.0%" in text


def test_an_alarm_of_several_policies_is_said_once() -> None:
    latency_s = {"mean": 1.0, "p95": 1.0, "max": 1.0}
    facts = {"latency_s": latency_s, "shed_share": 0.0, "windows_within_target": 1.0}
    alarms = {"nothing": [], "random": ["out of reach"], "straw_man": ["out of reach", "another"]}
    outcomes = [Outcome(name, facts | {"alarms": own}, []) for name, own in alarms.items()]
    query = recorded([Batch(float(start), 1.0, 1.0, 10, 10, None) for start in range(4)], Keys.alike())
    console = Console(file=io.StringIO(), width=80)
    show(console, Answer("log", MeanQueueLatency(2.0), query, outcomes, []))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert text.endswith("- alarm, random, straw_man: out of reach\n- alarm, straw_man: another\n")


def test_a_trigger_that_was_given_is_not_said_to_be_found(whatif: Command) -> None:
    assert "- given: a trigger every 10 s" in whatif(CLASSIC, "--target", "2s", "--trigger", "10 s").out


def test_lines_of_the_picture_can_be_told_apart() -> None:
    """Also where two policies come out alike: no two have the same dashes and the same marker."""
    looks = [(str(style["linestyle"]), style["marker"], style.get("linewidth")) for style in _STYLE.values()]
    assert len(set(looks)) == len(looks)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_log_that_cannot_be_used_is_one_line(name: str, whatif: Command, tmp_path: Path) -> None:
    data, said = MISTAKES[name]
    (tmp_path / name).write_bytes(data)

    result = whatif(tmp_path / name, "--target", "2s")

    assert result.status == 2
    assert said in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((CLASSIC,), "--target"),
        ((CLASSIC, "--target", "soon"), "such as 2 s"),
        ((CLASSIC, "--target", "0s"), "such as 2 s"),
        ((CLASSIC, "--target", "2s", "--spread", "0.5"), "a number from 1"),
        ((CLASSIC, "--target", "2s", "--query", "nobody"), "one of the queries"),
        ((ROOT / "nowhere.jsonl", "--target", "2s"), "reading failed: No such file"),
        ((ROOT / "tests", "--target", "2s"), "the folder of an event log"),
    ],
)
def test_a_mistake_in_the_use_is_one_line(arguments: tuple[object, ...], said: str, whatif: Command) -> None:
    result = whatif(*arguments)

    assert result.status == 2
    assert said in result.err
    assert result.err.count("\n") == 1


def test_a_log_of_real_time_mode_is_refused(whatif: Command, tmp_path: Path) -> None:
    progress = json.loads(CLASSIC.read_text().splitlines()[3])
    progress["sources"][0] |= {"endOffset": {"topic": {"0": 9}}, "latestOffset": {"topic": {"0": 5}}}
    (tmp_path / "log").write_text(json.dumps(progress))

    assert "real-time mode" in whatif(tmp_path / "log", "--target", "2s").err


@pytest.mark.parametrize(
    "measured",
    [{"penstock_probe_guard": {"tasks": ["nonsense"]}}, {"penstock_gate_guard": {"shed_0": "many"}}],
    ids=["probe", "gate"],
)
def test_measures_that_cannot_be_read_are_one_line(whatif: Command, tmp_path: Path, measured: object) -> None:
    lines = [json.loads(line) | {"observedMetrics": measured} for line in CLASSIC.read_text().splitlines()]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))

    result = whatif(tmp_path / "log", "--target", "2s")

    assert result.status == 2
    assert "measures of a guard that cannot be read" in result.err
    assert result.err.count("\n") == 1


def test_batches_of_one_moment_are_no_trace(whatif: Command, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in CLASSIC.read_text().splitlines()]
    for line in lines:
        line["timestamp"] = lines[0]["timestamp"]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))

    assert whatif(tmp_path / "log", "--target", "2s").status == 0


def test_a_guarded_log_has_its_own_costs_by_key(whatif: Command, tmp_path: Path) -> None:
    """Half of the rows are of a key that costs nine times what the other does; the guard shed a quarter of them."""
    lines = []
    for line in CLASSIC.read_text().splitlines():
        progress = json.loads(line)
        rows, start_s = progress["numInputRows"], 1.8e9
        kept = rows - rows // 4
        measured = BucketCosts()
        measured.add(np.array([3, 5]), np.array([0.001, 0.009]), np.array([1.0, 1.0]))
        measured.rows *= kept / 2
        measured.weight *= rows / 2
        measured.work_s *= kept / 2
        packed = base64.b64encode(zlib.compress(measured.to_bytes())).decode()
        task = TaskSums(kept, kept * 0.005, start_s, start_s + 1, 0.0, 0, 0.0, None, None, packed)
        progress["observedMetrics"] = {
            "penstock_gate_guard": {"rows_in": rows, "plan": 1, "shed_0": rows - kept},
            "penstock_probe_guard": {"tasks": [task.to_text()]},
        }
        lines.append(json.dumps(progress))
    (tmp_path / "guarded.jsonl").write_text("\n".join(lines))

    result = whatif(tmp_path / "guarded.jsonl", "--target", "2s", "--json", tmp_path / "facts.json")

    assert result.status == 0, result.err
    assert "cost by key: as a guard measured it" in result.out
    shed = {one["policy"]: one["shed_share"] for one in json.loads((tmp_path / "facts.json").read_text())["policies"]}
    assert shed["load_aware, cheap"] < 0.8 * shed["load_aware"]
    assert shed["load_aware"] > 0.5  # rows that were shed bring their work back
