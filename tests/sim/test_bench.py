"""The simulator's speed: enough for the paper's 5,000 runs, and reported so that the numbers fit together."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.bench.simulator import ALGORITHMS, PAPER_RUNS, bench_sim
from penstock.sim.parallel import BATCH
from penstock.sim.workload import ROWS

RUNS = 32
#: Enough for two processes to have work.
FEW_RUNS = 2 * BATCH
COMMAND = "from penstock.cli.main import main; main()"
finished: list[int] = []


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return bench_sim(RUNS, 1, finished.append)


def test_numbers_of_a_bench_fit_together(result: dict[str, Any]) -> None:
    whole = result["whole_runs"]
    assert whole["decisions_per_s_per_core"] == pytest.approx(RUNS * len(ALGORITHMS) * ROWS / whole["seconds"])
    assert whole["seconds_for_paper_runs"] == pytest.approx(whole["seconds"] / RUNS * PAPER_RUNS)
    assert sum(finished) == 2 * RUNS


def test_every_algorithm_is_timed_alone(result: dict[str, Any]) -> None:
    assert [row["algorithm"] for row in result["rows"]] == [*ALGORITHMS, "penstock"]
    for row in result["rows"]:
        rate = row["decisions_per_s_per_core"]
        assert 0 < rate["min"] <= rate["mean"] <= rate["max"]


def test_the_papers_runs_of_a_point_fit_in_three_minutes_on_two_cores(result: dict[str, Any]) -> None:
    assert result["whole_runs"]["seconds_for_paper_runs"] / 2 < 180


def test_two_processes_stay_under_a_gigabyte(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    command = [
        sys.executable,
        "-c",
        COMMAND,
        "bench",
        "sim",
        "--runs",
        str(FEW_RUNS),
        "--jobs",
        "2",
        "--json",
        str(file),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    result = json.loads(file.read_text())
    assert result["parameters"]["jobs"] == 2
    assert 50 < result["whole_runs"]["peak_memory_mib"] < 1024
