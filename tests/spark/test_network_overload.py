"""A network driven to twice what it can do: how fast it comes back, what it loses, and that drops go again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock.config.network_file import load
from penstock.core.rate_profile import RateProfile

pytest.importorskip("pyspark")

from penstock.spark.network.run import NetworkRun
from penstock.spark.source import Population

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from penstock.core.network.planner import Kind
    from penstock.views.network.snapshot import Snapshot

TRIGGER_S = 1.5
CALM_S, OVERLOAD_S = 7.0, 26.0
#: The overload must be forgotten so long after its end; a busy machine takes longer to work off its last batches.
AFTER_S = 30.0
#: Rows a second, calm and overloaded. A row costs a millisecond of a task, of which there are two: capacity is about
#: 1.5 seconds of work a second, and 2.9 come in.
RATES = {"I1": (300, 1150), "I2": (350, 1750)}
SEEDS = {"I1": 1, "I2": 2}
#: From when on losses are counted: the plan is found by then.
SETTLED_S = CALM_S + 4.0 * TRIGGER_S
#: And until when: what comes then is worked off four seconds later.
COUNTED_S = CALM_S + OVERLOAD_S - 12.0
NETWORK = f"""
trigger: {TRIGGER_S} s
inputs:
  I1: {{format: penstock, options: {{phases: "PHASES1", seed: {SEEDS["I1"]}}}}}
  I2: {{format: penstock, options: {{phases: "PHASES2", seed: {SEEDS["I2"]}}}}}
boxes:
  work:  {{op: map, from: I1, select: {{slept: "java_method('java.lang.Thread', 'sleep', 1L)"}}}}
  top:   {{op: filter, from: work, where: "value > 0.3"}}
  other: {{op: map, from: I2, select: {{slept: "java_method('java.lang.Thread', 'sleep', 1L)"}}}}
outputs:
  O1: {{from: work, to: {{format: memory}}, value: {{column: value, intervals: [{{range: [0, 0.5], utility: 0.1}}, {{range: [0.5, 1], utility: 1.0}}]}}}}
  O2: {{from: top, to: {{format: memory}}, value: {{column: value, intervals: [{{range: [0, 0.8], utility: 0.1}}, {{range: [0.8, 1], utility: 1.0}}]}}}}
  O3: {{from: other, to: {{format: memory}}, value: {{column: value, intervals: [{{range: [0, 0.6], utility: 0.1}}, {{range: [0.6, 1], utility: 1.0}}]}}}}
"""  # noqa: E501 - a file as users write it
BENDS, FROM, ABOVE = {"O1": 0.5, "O2": 0.8, "O3": 0.6}, {"O1": "I1", "O2": "I1", "O3": "I2"}, {"O2": 0.3}


def phases(name: str) -> str:
    calm, high = RATES[name]
    return f"{CALM_S:g} s: {calm}, {OVERLOAD_S:g} s: {high}, 1000 s: {calm}"


def worth(output: str, values: NDArray[np.float64]) -> float:
    passed = values[values > ABOVE.get(output, -1.0)]
    return float(np.where(passed > BENDS[output], 1.0, 0.1).sum())


def driven(spark: SparkSession, folder: Path, kind: Kind, seconds: float, after_s: float = 0.0) -> NetworkRun:
    """A run of so many seconds, and then up to so many more until nothing is dropped."""
    path = folder / "net.yaml"
    path.write_text(NETWORK.replace("PHASES1", phases("I1")).replace("PHASES2", phases("I2")))
    run = NetworkRun(spark, load(path, complete=False, runnable=True), folder / "run", kind=kind)
    run.start()
    begun_s = time.monotonic()
    try:
        while run.active and time.monotonic() - begun_s < seconds:
            time.sleep(0.1)
        while run.active and time.monotonic() - begun_s < seconds + after_s and run.snapshots[-1].drops:
            time.sleep(0.1)
        run.refuse_failure()
    finally:
        run.stop()
    assert run.errors == 0
    return run


def warmed(folder: Path) -> Path:
    """A folder for a run that only warms Spark up: the first batches of a cold one take longer than all the calm."""
    (folder / "warm").mkdir()
    return folder / "warm"


def lost(run: NetworkRun) -> float:
    """Value utility lost while overloaded and settled, in percent, over all outputs alike."""
    losses = []
    for output, source in FROM.items():
        table = run.table(output)
        assert table is not None
        profile = RateProfile.phases(phases(source))
        first, last = profile.rows_by(SETTLED_S), profile.rows_by(COUNTED_S)
        whole = Population(seed=SEEDS[source]).batch(np.arange(first, last), np.zeros(last - first, np.int64))
        rows = table["row"].to_numpy()
        delivered = table["value"].to_numpy()[(rows >= first) & (rows < last)]
        losses.append(1.0 - worth(output, delivered) / worth(output, whole["value"].to_numpy()))
    return 100.0 * float(np.mean(losses))


def carried(snapshot: Snapshot) -> float:
    return sum(snapshot.loads.values())


def test_twice_the_load_is_back_under_headroom_after_five_batches_with_the_least_useful_rows_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    losses = {}
    driven(spark, warmed(tmp_path), "random", 5.0)
    for kind in ("semantic", "random"):
        seconds, after_s = (CALM_S + OVERLOAD_S, AFTER_S) if kind == "semantic" else (COUNTED_S + 4.0, 0.0)
        (tmp_path / kind).mkdir()
        run = driven(spark, tmp_path / kind, kind, seconds, after_s)
        losses[kind] = lost(run)
        if kind != "semantic":
            continue
        overloaded = [one for one in run.snapshots if sum(one.rates.values()) > 2000.0]
        back = overloaded[5:]
        assert len(back) >= 2
        assert np.mean([bool(one.drops) for one in back]) >= 0.8  # a batch that something else delays looks calm
        assert np.median([one.load / (one.headroom * one.capacity) for one in back]) > 1.5
        assert np.median([carried(one) / (one.headroom * one.capacity) for one in back]) <= 1.05
        assert np.median([one.duration_s for one in back]) <= 1.2 * TRIGGER_S
        assert run.snapshots[-1].drops == {}  # and whole again
        assert all(text.startswith("keeps ") for one in back for text in one.drops.values())
    assert losses["semantic"] < losses["random"], losses
