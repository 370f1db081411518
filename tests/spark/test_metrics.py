"""The guard's metrics: what they say, what Prometheus' own checker says of them, and who may ask."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark")

from tests.spark.metered import Watched, batch

import penstock as ps
from penstock.spark.guard.prometheus import GuardMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator


DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def guard() -> Iterator[Watched]:
    made = Watched(ps.MeanQueueLatency("2 s"), name="mine")
    yield made
    made.stop()


def metrics(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_counters_gauges_and_summaries_say_what_the_reports_say(guard: Watched) -> None:
    guard.reports = (batch(0), batch(1))
    found = metrics(guard.serve_metrics(port=0))
    own = '{guard="mine"}'
    assert found[f"penstock_rows_in_total{own}"] == 200
    assert found[f"penstock_rows_kept_total{own}"] == 140
    assert found['penstock_rows_shed_total{guard="mine",reason="over capacity"}'] == 40
    assert found['penstock_rows_shed_total{guard="mine",reason="a \\"quoted\\" reason"}'] == 20
    assert found[f"penstock_rows_must_keep_total{own}"] == 10
    assert found[f"penstock_batches_total{own}"] == 2
    assert found[f"penstock_batches_missing_total{own}"] == 0
    assert found[f"penstock_queuing_latency_seconds_count{own}"] == 140
    assert found[f"penstock_queuing_latency_seconds_sum{own}"] == pytest.approx(70.0)
    assert found[f"penstock_control_table_seconds_sum{own}"] == pytest.approx(0.004)
    assert found[f"penstock_target_seconds{own}"] == 2.0
    assert found[f"penstock_backlog_rows{own}"] == 40
    assert found[f"penstock_backlog_age_seconds{own}"] == 1.5
    assert found[f"penstock_source_rows_behind{own}"] == 7
    assert found[f"penstock_plan_version{own}"] == 1
    assert found[f"penstock_controller_errors_total{own}"] == 0
    assert found[f"penstock_watching{own}"] == 0
    assert not any("cores_wanted" in name for name in found)  # It is not known.


def test_cores_wanted_are_a_gauge(guard: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "cores_wanted", 5)
    assert metrics(guard.serve_metrics(port=0))['penstock_cores_wanted{guard="mine"}'] == 5


def test_before_the_first_batch_there_is_no_backlog_and_no_plan_to_tell_of(guard: Watched) -> None:
    found = metrics(guard.serve_metrics(port=0))
    assert found['penstock_rows_in_total{guard="mine"}'] == 0
    assert not any("plan_version" in name or "backlog" in name or "behind" in name for name in found)


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        (ps.MaxLag("3 s"), "penstock_target_seconds", 3.0),
        (ps.Throughput(500), "penstock_target_rows_per_second", 500.0),
    ],
)
def test_each_target_has_its_unit(target: object, name: str, value: float) -> None:
    guard = Watched(target, name="mine")  # type: ignore[arg-type]
    assert metrics(guard.serve_metrics(port=0))[f'{name}{{guard="mine"}}'] == value
    guard.stop()


def test_prometheus_finds_nothing_to_mend(guard: Watched, promtool: Path) -> None:
    guard.reports = (batch(0),)
    with urlopen(f"http://127.0.0.1:{guard.serve_metrics(port=0)}/metrics", timeout=10) as answer:
        text = answer.read()
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_stopped_guard_answers_no_more(guard: Watched) -> None:
    port = guard.serve_metrics(port=0)
    guard.stop()
    with pytest.raises(URLError):
        metrics(port)


@pytest.mark.parametrize("port", [-1, 70_000, "9464", None, True])
def test_a_port_that_is_none_is_one_line(guard: Watched, port: object) -> None:
    with pytest.raises(ps.PenstockError, match=r"^port = .* is not usable: give a port from 1 to 65535"):
        guard.serve_metrics(port=port)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_one_line(guard: Watched) -> None:
    taken = guard.serve_metrics(port=0)
    other = Watched(ps.MeanQueueLatency("2 s"))
    with pytest.raises(ps.PenstockError, match=rf"^port = {taken} is not usable: give a port that is free"):
        other.serve_metrics(port=taken)


def test_the_page_and_the_dashboard_name_what_there_is(guard: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "cores_wanted", 5)
    guard.reports = (batch(0, rows_would_shed={"over capacity": 1}, sic={"query": 0.5}),)
    there = {family.name for one in (guard, _rate_guard()) for family in GuardMetrics(lambda one=one: [one]).collect()}
    page = set(re.findall(r"`(penstock_\w+)`", (DOCS / "metrics.md").read_text()))
    assert {name.removesuffix("_total") for name in page} == there
    expressions = [
        target["expr"]
        for panel in json.loads((DOCS / "grafana.json").read_text())["panels"]
        for target in panel["targets"]
    ]
    used = set(re.findall(r"penstock_\w+", " ".join(expressions) + (DOCS / "alerts.yaml").read_text()))
    assert {re.sub("_(total|sum|count)$", "", name) for name in used} <= there


def test_prometheus_understands_the_alerts(promtool: Path, tmp_path: Path) -> None:
    (alerts,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "metrics.md").read_text(), re.DOTALL)
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups:\n  - name: penstock\n    rules:\n" + textwrap.indent(alerts, "      "))
    checked = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS: 2 rules found" in checked.stdout


def test_prometheus_understands_the_rules_to_copy(promtool: Path) -> None:
    rules = DOCS / "alerts.yaml"
    checked = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS: 5 rules found" in checked.stdout


def test_the_alert_for_a_missed_target_fires(promtool: Path, tmp_path: Path) -> None:
    """By what a guard counts: rows that wait 3 s, at a target of 2 s."""
    own = '{guard="mine"}'
    (tmp_path / "test.yaml").write_text(
        textwrap.dedent(f"""
            rule_files: [{DOCS / "alerts.yaml"}]
            tests:
              - interval: 1m
                input_series:
                  - {{series: 'penstock_queuing_latency_seconds_sum{own}', values: '0+3000x20'}}
                  - {{series: 'penstock_queuing_latency_seconds_count{own}', values: '0+1000x20'}}
                  - {{series: 'penstock_target_seconds{own}', values: '2x20'}}
                alert_rule_test:
                  - eval_time: 15m
                    alertname: PenstockTargetMissed
                    exp_alerts:
                      - exp_labels: {{guard: mine}}
                        exp_annotations: {{summary: 'mine: the mean wait exceeds the target'}}
            """)
    )
    tested = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def _rate_guard() -> ps.Guard:
    return ps.Guard(ps.Throughput(5))
