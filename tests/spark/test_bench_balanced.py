"""The benchmark of utility across queries: its sums, without Spark at work."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.bench.balanced import CAME, DONE, SHAPES, Effort, ratios, summed_up, utility
from penstock.spark.progress import Progress


def batch(number: int, start_s: float, came: float, done: float | None) -> Progress:
    observed = {f"{CAME}light": {"worth": came}, f"{DONE}light": {"worth": done}}
    return Progress(number, start_s, 1.0, 0.1, 0.9, 10, observed)


def test_utility_counts_batches_that_began_within_the_time() -> None:
    batches = [
        batch(0, 1.0, 100.0, 100.0),
        batch(1, 2.0, 10.0, 4.0),
        batch(2, 3.0, 10.0, None),
        batch(3, 9.0, 5.0, 5.0),
    ]
    assert utility(batches, "light", 2.0, 9.0) == pytest.approx(0.2)
    assert utility(batches, "light", 20.0, 30.0) == 0.0
    assert utility(batches, "unknown", 0.0, 30.0) == 0.0


def test_all_queries_bring_the_same_work_and_together_twice_what_cores_can_do() -> None:
    effort = Effort()
    works = [effort.rate(shape) * shape.cost_s for shape in SHAPES]
    assert works == pytest.approx([4.0 / 3.0] * 3)


def one(mean: float, worst: float) -> dict[str, Any]:
    return {"mean": mean, "worst": worst, "jain": 1.0, "utility": {"light": worst}, "within": 0.5, "wait_s": [1.0, 2.0]}


def test_ratios_are_taken_within_a_repeat() -> None:
    runs = [
        {"random": one(0.4, 0.4), "balance_sic": one(0.4, 0.4), "balanced": one(0.8, 0.8)},
        {"random": one(0.5, 0.5), "balance_sic": one(0.5, 0.0), "balanced": one(0.5, 0.5)},
    ]
    found = ratios(runs)  # type: ignore[arg-type]
    assert found["mean_over_random"] == {"median": 1.5, "min": 1.0, "max": 2.0}
    assert found["worst_over_balance_sic"]["median"] == 2.0  # over nothing there is no ratio
    assert ratios([{"random": one(0.4, 0.4)}])["mean_over_random"] is None
    together = summed_up([run["balanced"] for run in runs])
    assert (together["worst"]["median"], together["windows_within_target"]) == (0.65, 0.5)
