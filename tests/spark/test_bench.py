"""The benchmarks run, small, and their results have the parts that the documentation names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("pyspark")

from penstock.bench.gate import half_table
from penstock.bench.grouping import Made, Series, gone_by
from penstock.bench.latency import all_runs, window_latency_s
from penstock.messages.plan import Plan
from penstock.messages.report import Latency, Report
from penstock.sim import grains

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Small


def test_gate(small: Small, tmp_path: Path) -> None:
    found = small(
        "import contextlib, io, json, os, sys\n"
        "from penstock.cli.main import main\n"
        "os.chdir(folder)\n"
        "sys.argv = 'penstock bench gate --rows 100000 --repeats 2 --json result.json'.split()\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    main()\n"
        "os.chdir('/')\n"
        "assert 'Measured on' in out.getvalue(), out.getvalue()\n"
        "result = json.loads((folder / 'result.json').read_text())\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert found["ratio"] == pytest.approx(sum(found["ratio_spread"][part] for part in ("min", "max")) / 2)
    assert found["kept_share"]["gate"] == pytest.approx(0.5, abs=0.02)
    assert found["rows_per_s"].keys() == {"gate", "sample", "everything"}
    assert "machine" in found


def test_idle(small: Small) -> None:
    found = small(
        "from penstock.bench import idle\n"
        "idle.ROWS_PER_BATCH, idle.SHORT_BATCH_ROWS, idle.WARM_BATCHES = 100, 50, 0\n"
        "idle.BATCHES, idle.WARM_UPS = 1, 0\n"
        "idle.MANY_BATCHES, idle.MANY_WARM_UPS, idle.COST_MS, idle.LOOK_S = 1, 0, 0.1, 0.05\n"
        "result = idle.bench_idle(folder, 1, lambda: None)"
    )
    assert found["rows_shed"] == 0
    assert found["ratio"] > 0
    assert found["short_batches"]["ratio"] > 0
    assert found["control_table_ms"].keys() == {"median", "min", "max"}


def test_latency(small: Small) -> None:
    found = small(
        "from penstock.bench import latency, workload\n"
        "def waits(row):\n"  # other tests want the cores
        "    import time\n"
        "    time.sleep(row['cost_ms'] / 1000.0)\n"
        "    return {name: row[name] for name in ('row', 'key', 'weight')}\n"
        "latency.busy, workload._MEAN_ROWS, latency.WINDOW_S = waits, 20_000, 2.0\n"
        "effort = latency.Effort(\n"
        "    warm_s=0.0, overloads=(1.0,), learn_s=0.0, measure_s=2.0, policies=('las',)\n"  # it warms up unguarded
        ")\n"
        "result = latency.bench_latency(folder, effort, lambda: None)"
    )
    (las,) = found["rows"]
    assert (las["policy"], las["overload"]) == ("las", 1.0)
    # So short a run may end before the guard knows what rows cost, but not before its first batch has ended.
    assert 0 < las["kept"] <= las["rows_in"]
    (latency_s,) = las["queuing_latency_s"]
    assert latency_s > 0.0
    assert las["kept_spread"] == {"median": las["kept"], "min": las["kept"], "max": las["kept"]}
    assert 0.0 <= las["windows_within_target"] <= 1.0


def test_grouping_and_figure_12(small: Small) -> None:
    found = small(
        "from unittest import mock\n"
        "from pyspark.sql import SparkSession\n"
        "from penstock.bench import grouping\n"
        # Each slot has Python workers of its own, whose start takes longer than these rows.
        "grouping.UNIT_MS, grouping.SLOTS, grouping.READERS = 0.05, 2, 1\n"
        "grouping.SPEEDS = ((1.05, 0.95), (0.90, 1.10))\n"
        "cases = (grouping.Case(2, slow=3.0), grouping.Case(2, 'busy', batch=True))\n"
        "effort = grouping.Effort(repeats=1, learn=0, batches=2, rows=40, cases=cases)\n"
        "with mock.patch.object(SparkSession, 'stop'):\n"  # the next one goes on with its session
        "    result = grouping.bench_grouping(folder / 'a', effort, lambda: None)\n"
        "grouping.WARM_ROWS = 0\n"
        "result['12'] = grouping.bench_series(folder / 'b', grouping.Series(600, 100), lambda: None)\n"
    )
    assert [(row["job"], row["way"]) for row in found["rows"]] == [
        (job, way) for job in ("stream", "batch") for way in ("round_robin", "by_cost", "full_knowledge")
    ]
    for row in found["rows"]:
        for name in ("stage_s", "completion_mean_s", "completion_p99_s", "batch_s"):
            assert row[name]["median"] > 0.0
            assert row["speed_up"][name].keys() == {"median", "min", "max"}
        assert row["stage_s"]["median"] <= row["batch_s"]["median"]
    series = found["12"]
    assert [row["algorithm"] for row in series["rows"]] == ["round_robin"] * 6 + ["by_cost"] * 6
    for one in (row["completion_ms"] for row in series["rows"]):
        assert 0.0 < one["min"] <= one["mean"] <= one["max"]
    assert len(series["run_at"]) == len(series["speed_up"]) == 2


def test_costs_are_gone_by_again_when_they_were_measured_after_the_change() -> None:
    def report(sequence: int, end_s: float, plan: int | None) -> Report:
        return Report(sequence=sequence, start_s=0.0, end_s=end_s, rows_in=1, rows_kept=1, plan_version=plan)

    plans = [Plan.keep_all(0, "by_cost", 1.5), Plan.keep_all(1, "by_cost", 3.5)]
    # Batch 2 is the first after the change, batch 3 began before the plan made of it.
    reports = [report(0, 1.0, None), report(1, 2.0, 0), report(2, 3.0, 0), report(3, 4.0, 0), report(4, 5.0, 1)]
    made = Made(np.array([]), {batch: 10 * batch for batch in range(5)}, reports, plans)
    assert gone_by(made, Series(rows=40)) == (10, 40)
    assert gone_by(made, Series(rows=100)) == (10, None)
    assert gone_by(Made(np.array([]), {}), Series(rows=40)) == (None, None)


def test_repeats_add_up_to_all_windows_and_the_median_run() -> None:
    runs = [{"within": 1, "kept": kept, "rows_in": 100, "queuing_latency_s": [1.0, None]} for kept in (30, 10, 50)]
    assert all_runs(runs) == {
        "windows_within_target": 0.5,
        "kept": 30,
        "kept_spread": {"median": 30, "min": 10, "max": 50},
        "rows_in": 100,
        "queuing_latency_s": [1.0, None] * 3,
    }


def test_grains(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(grains.SCENARIOS) * 3 == grains.GRAIN_RUNS
    twice, burst_of_load, *_ = grains.SCENARIOS
    phases = ((24.0, 0.8), (5.0, 10.0), (12.0, 0.8))
    shorter = (replace(twice, phases=((32.0, 2.0),)), replace(burst_of_load, phases=phases))
    monkeypatch.setattr(grains, "SCENARIOS", shorter)
    found = grains.bench_grains(0, lambda: None)
    by_name = {(row["scenario"], row["grain"]): row for row in found["rows"]}
    assert len(by_name) == 6
    burst = "ten times the load for 5 s"
    assert by_name[burst, "gate"]["worst_window_s"] > 2.0 > by_name[burst, "both"]["worst_window_s"]
    assert by_name["twice the load", "both"]["shed_by_the_machine"] < 0.01


def test_half_of_the_rows_pass_the_benchmarks_table() -> None:
    keep = half_table().keep
    assert sum(keep) / len(keep) == pytest.approx(0.5)
    assert len(set(keep)) > 2


def test_a_window_takes_the_part_of_each_batch_that_lies_in_it() -> None:
    def batch(start_s: float, mean_s: float) -> Report:
        return Report(
            sequence=0,
            start_s=start_s,
            end_s=start_s + 5.0,
            rows_in=100,
            rows_kept=100,
            delay_s=1.0,
            span_s=4.0,
            queuing=Latency(100, mean_s, mean_s),
        )

    reports = [batch(0.0, 1.0), batch(6.0, 3.0)]  # rows are taken up from 1 to 5 and from 7 to 11
    assert window_latency_s(reports, 0.0, 6.0) == 1.0
    assert window_latency_s(reports, 3.0, 8.0) == pytest.approx((50 * 1.0 + 25 * 3.0) / 75)
    assert window_latency_s(reports, 11.0, 20.0) is None
