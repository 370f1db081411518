"""What a long run leaves behind: the parts of the benchmark on their own, and all of it with small numbers."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from penstock.bench import growth
from penstock.bench.growth import FLAT, PARTS, Guarded, World, bench_growth, kept_below, ram_disk
from penstock.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Batches that are kept, and how often old ones are deleted.
KEPT, EVERY = 40, 4


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory: thousands of files are synced."""
    with tempfile.TemporaryDirectory(dir=ram_disk()) as folder:
        yield Path(folder)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep less, so that few batches are many."""
    for module in ("store.retention", "spark.quarantine.forwarded"):
        monkeypatch.setattr(f"penstock.{module}.BATCHES", KEPT)
        monkeypatch.setattr(f"penstock.{module}.PURGE_EVERY", EVERY)
        monkeypatch.setattr(f"penstock.{module}.LEAST_BATCHES", 10)
    monkeypatch.setattr("penstock.core.loop.machine.PURGE_EVERY", EVERY)
    monkeypatch.setattr("penstock.store.retention.NEWEST_PLANS", 1)
    monkeypatch.setattr("penstock.store.retention.NEWEST_PLANS", 1)
    monkeypatch.setattr("penstock.store.bound_plans.ACCOUNTS", KEPT)


@pytest.mark.usefixtures("few")
def test_files_beside_a_query_do_not_grow_with_its_batches(folder: Path) -> None:
    before_s = time.time()
    world = World(folder)
    try:
        world.run(KEPT)
        first = {name: kept_below(folder / name) for name in PARTS}
        world.run(3 * KEPT)
        last = {name: kept_below(folder / name) for name in PARTS}
        kept = world.kept()
    finally:
        world.close()
    assert time.time() - before_s < 600.0, "the clock is the real one again"
    for name in PARTS:
        assert first[name]["files"] >= KEPT
        assert last[name]["files"] <= (1.0 + FLAT + 0.1) * first[name]["files"], name  # fewer batches, coarser steps
        assert last[name]["bytes"] <= (1.0 + FLAT + 0.1) * first[name]["bytes"], name
    assert kept["accounts"] <= KEPT + EVERY + 1
    assert kept["journals"] > 0
    assert kept["memory_mib"] > 10.0


def test_a_guard_of_the_benchmark_does_what_a_guard_does(folder: Path) -> None:
    world = World(folder)
    try:
        world.run(8)
        part = world.parts["guard"]
        assert isinstance(part, Guarded)
        assert part.controller.errors == 0
        assert part.controller.totals.rows_in == 8 * 3000
        assert part.controller.reports[-1].plan_version is not None
        assert part.controller.reports[-1].cost_sketch is not None
    finally:
        world.close()


def test_the_benchmark_compares_runs_of_different_age(folder: Path) -> None:
    steps: list[int] = []
    found = bench_growth(folder, (10, 20), timed=4, done=lambda: steps.append(1))
    assert len(steps) == 3
    assert [row["batches"] for row in found["rows"]] == [10, 20]
    assert all(row["files"] > 0 and row["ms"] > 0.0 and row["memory_mib"] > 10.0 for row in found["rows"])
    assert {name for row in found["rows"] for name in row["parts"]} == set(PARTS)
    claims = {claim["claim"].split(":")[0]: claim for claim in found["claims"]}
    assert claims["files"]["measured"] == pytest.approx(found["rows"][1]["files"] / found["rows"][0]["files"])
    assert not claims["files"]["holds"]  # so young, both still fill up
    assert claims["bytes of a journal"]["holds"]


def test_the_command_shows_what_it_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = {"files": 2000, "bytes": 5_000_000, "ms": 4.0}
    row = {
        "batches": 10,
        "files": 8000,
        "bytes": 2e7,
        "memory_mib": 140.0,
        "ms": 16.0,
        "parts": dict.fromkeys(PARTS, part),
    }
    claim = {"claim": "files: flat", "goal": 1.1, "measured": 1.2, "holds": False}
    ages: list[Any] = []

    def measured(folder: Path, given: Any, _: int, done: Any) -> dict[str, Any]:
        assert folder.is_dir()
        ages.extend(given)
        done()
        return {"rows": [row], "claims": [claim]}

    monkeypatch.setattr(growth, "bench_growth", measured)
    monkeypatch.setattr("sys.argv", ["penstock", "bench", "growth", "--batches", "200000"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert ages == [2_000, 20_000, 200_000]
    out = capsys.readouterr().out
    assert "8,000" in out
    assert re.search(r"files: flat +│ 1.1 +│ 1.2 +│ NO", out)


def test_a_run_that_is_too_young_to_compare_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["penstock", "bench", "growth", "--batches", "99999"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert "give a whole number from 100000 to 10000000" in " ".join(capsys.readouterr().err.split())
