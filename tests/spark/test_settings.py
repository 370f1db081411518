"""A guard's settings, from Python and from YAML: right ones are taken, wrong ones are one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import penstock as ps
from penstock import baselines
from penstock.config.guard_file import read_guard

if TYPE_CHECKING:
    from pathlib import Path

TARGET = ps.MeanQueueLatency("2 s")


def test_yaml_says_what_python_says(tmp_path: Path) -> None:
    file = tmp_path / "guard.yaml"
    file.write_text(
        "target:\n  mean_queue_latency: 2 s\npolicy:\n  load_aware:\n    prefer: cheap\nkey: [a, b]\n"
        f"keep: tier = 'gold'\nmode: off\nname: mine\ncheckpoint: {tmp_path / 'checkpoint'}\n"
    )
    assert read_guard(file, dict) == {
        "target": TARGET,
        "policy": ps.LoadAware(prefer="cheap"),
        "key": ["a", "b"],
        "keep": "tier = 'gold'",
        "mode": "off",
        "name": "mine",
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    guard = ps.Guard.from_yaml(file)
    assert (guard.name, guard.mode, guard.folder) == ("mine", "off", tmp_path / "checkpoint" / "penstock")


@pytest.mark.parametrize(
    ("text", "target", "policy"),
    [
        ("target: {max_lag: 3 s}\npolicy: random", ps.MaxLag("3 s"), ps.RandomShed()),
        (
            "target: {throughput: 200}\npolicy: {base_line: {drop_share: 0.5}}",
            ps.Throughput(200),
            baselines.BaseLine(drop_share=0.5),
        ),
        (
            "target: {max_lag: 3 s}\npolicy: {balanced: {alpha: .inf, value: {column: a, intervals: [[0, 1, 0.5]]}}}",
            ps.MaxLag("3 s"),
            ps.Balanced(alpha=float("inf"), value=ps.Worth("a", [(0, 1, 0.5)])),
        ),
        ("target: {deadline: 20 min}", ps.Deadline("20 min"), None),
        ("target: {mean_queue_latency: {limit: 1 s}}", ps.MeanQueueLatency("1 s"), None),
    ],
)
def test_every_target_and_policy_has_a_name(tmp_path: Path, text: str, target: object, policy: object) -> None:
    file = tmp_path / "guard.yaml"
    file.write_text(text)
    found = read_guard(file, dict)
    assert (found["target"], found.get("policy")) == (target, policy)


def test_the_row_gate_was_called_fine(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="fine of Guard is called row_gate now"):
        ps.Guard(TARGET, fine=True)
    file = tmp_path / "guard.yaml"
    file.write_text("target: {mean_queue_latency: 2 s}\nfine: true\n")
    assert read_guard(file, dict)["row_gate"] is True


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("key: a", "line 1, target is missing: give one of mean_queue_latency, max_lag, throughput"),
        ("target:\nkey: a", "line 1, target is missing: give one of mean_queue_latency"),
        ("target: {latency: 2 s}", "line 1, target = 'latency' is not usable: give one of mean_queue_latency"),
        ("key: a\ntarget: {max_lag: -2 s}", "line 2, target.max_lag: age = '-2 s' is not usable"),
        ("target: {deadline: soon}", "line 1, target.deadline: within = 'soon' is not usable"),
        ("target:\n  max_lag:\n    age: -2 s", "line 3, target.max_lag.age = '-2 s' is not usable"),
        (
            "target: {max_lag: 2 s}\npolicy: {load_aware: {prefr: cheap}}",
            "line 2, policy.load_aware.prefr = 'cheap' is not usable: give a key among variant, .*; prefer comes",
        ),
        ("target: {max_lag: 2 s}\npolicy: {load_aware: cheap}", "give the settings of load_aware by their names"),
        ("target: {max_lag: 2 s}\npolicy: straw_man", "line 2, policy.straw_man is incomplete: give mean_cost_s"),
        ("target: {max_lag: 2 s}\nkeys: a", "line 2, keys = 'a' is not usable: give a key among .*; key comes nearest"),
        ("target: {max_lag: 2 s}\n\nmode: on", "line 3, mode = 'on' is not usable: give one of enforce"),
        ("target: {max_lag: 2 s}\nbacklog: thin\ntarget: {throughput: 5}", "line 3, target is there twice"),
        ("target: [", "line 1 is not YAML"),
        ("just text", "line 1 holds no settings"),
        ("", "is empty: give target"),
        (None, "guard file = .* is not usable: give the path of a YAML file"),
    ],
)
def test_wrong_yaml_is_one_line(tmp_path: Path, text: str | None, line: str) -> None:
    file = tmp_path / "guard.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ps.PenstockError, match=line) as caught:
        ps.Guard.from_yaml(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"target": "2 s"}, "target = '2 s' is not usable: give MeanQueueLatency, MaxLag, Throughput or Deadline"),
        ({"policy": "load_aware"}, "policy = 'load_aware' is not usable: give a policy such as"),
        ({"mode": "on"}, "mode = 'on' is not usable: give one of enforce, dry_run, off"),
        ({"key": 7}, "key = 7 is not usable: give the name of a column"),
        ({"key": ["a", ""]}, "key = '' is not usable: give the name of a column"),
        ({"keep": 5}, "keep = 5 is not usable: give a condition in SQL"),
        ({"keep": " "}, "keep = ' ' is not usable: give a condition in SQL"),
        ({"arrival": 5}, "arrival = 5 is not usable: give the name of a column"),
        ({"weight": ""}, "weight = '' is not usable: give the name of a column"),
        ({"weight": "a.b"}, "weight = 'a.b' is not usable: give a name without dots and backticks"),
        ({"weight": "key", "key": "key"}, "weight = 'key' is not usable: give a column of its own, not that of key"),
        ({"name": "my guard"}, "name = 'my guard' is not usable: give a name of letters"),
        ({"checkpoint": "hdfs://h/x"}, "give a folder of a file system that is mounted here, or one in a bucket"),
        ({"checkpoint": "dbfs:/x"}, "checkpoint = 'dbfs:/x' is not usable: give a folder of a file system"),
        ({"checkpoint": "~/x"}, "checkpoint = '~/x' is not usable: give the whole path; ~ is not replaced here"),
        ({"checkpoint": ""}, "checkpoint = '' is not usable: give the path of a folder"),
        ({"policy": baselines.FullKnowledge()}, "cost_column is missing: FullKnowledge needs the column"),
        (
            {"policy": ps.LoadAware(variant="paper")},
            "variant = 'paper' is not usable: give 'penstock', or row_gate=True",
        ),
        ({"row_gate": 1}, "row_gate = 1 is not usable: give True or False"),
        ({"row_gate": True, "target": ps.MaxLag("2 s")}, "give it only together with a target of MeanQueueLatency"),
        ({"row_gate": True, "policy": ps.RandomShed()}, "give it only together with a policy that sheds row by row"),
    ],
)
def test_wrong_settings_are_one_line(settings: dict[str, Any], line: str) -> None:
    given = {"target": TARGET} | settings
    with pytest.raises(ps.PenstockError, match=line) as caught:
        ps.Guard(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", [-2, 0, "-2 s", "soon", None, True])
def test_a_target_that_is_no_time_is_one_line(limit: Any) -> None:
    for target in (ps.MeanQueueLatency, ps.MaxLag, ps.Throughput, ps.Deadline):
        with pytest.raises(ps.PenstockError, match="is not usable: give"):
            target(limit)


def test_the_form_and_the_schema_of_an_operator_are_checked() -> None:
    guard = ps.Guard(TARGET)
    with pytest.raises(ps.PenstockError, match="form = 'polars' is not usable: give one of arrow, pandas, row"):
        guard.measured(lambda rows: rows, "a int", form="polars")  # type: ignore[arg-type]
    with pytest.raises(ps.PenstockError, match="query = None is not usable: give a streaming query"):
        guard.watch(None)  # type: ignore[arg-type]
    with pytest.raises(ps.PenstockError, match="form = 'pandas' is not usable: give 'row' together with row_gate=True"):
        ps.Guard(TARGET, row_gate=True).measured(lambda rows: rows, "a int", form="pandas")
    with pytest.raises(ps.PenstockError, match="function = 7 is not usable"):
        guard.measured(7, "a int")  # type: ignore[arg-type]
