"""One run of the LAS experiments: what its stream looks like and what is measured over it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from penstock.sim import workload
from penstock.sim.las.runs import ALGORITHMS, ASSOCIATIONS, LasRun, Setting, measure, synthetic_run

NAN = math.nan
SEED = 5
LAS = ("las", "las_first_check")
OWN = ("penstock", "penstock_prefer_cheap")
EVERY = (*ALGORITHMS, "las_first_check", "penstock_prefer_cheap")


@pytest.fixture(scope="module")
def run() -> LasRun:
    return synthetic_run(Setting(), run=0, seed=SEED)


def gaps_s(run: LasRun) -> np.ndarray:
    return np.diff(run.stream.arrivals_s)


def test_latency_is_the_mean_over_kept_rows_and_drops_are_counted() -> None:
    measured = measure(np.array([0.0, NAN, 3.0, NAN]))
    assert measured.queuing_s == 1.5
    assert (measured.dropped, measured.rows, measured.dropped_ratio) == (2, 4, 0.5)


def test_a_stretch_without_a_kept_row_has_no_latency() -> None:
    measured = measure(np.full(3, NAN))
    assert math.isnan(measured.queuing_s)
    assert measured.dropped_ratio == 1.0


def test_an_empty_stretch_drops_nothing() -> None:
    measured = measure(np.array([]))
    assert math.isnan(measured.queuing_s)
    assert measured.dropped_ratio == 0.0


def test_the_default_point_is_the_papers() -> None:
    setting = Setting()
    assert (setting.under_provisioning, setting.distribution, setting.target_s) == (0.25, "zipf-1.0", 0.0064)
    assert (setting.epsilon, setting.delta, setting.window_rows, setting.tolerance) == (0.05, 0.1, 1024, 0.05)
    assert setting.delay_s == 0


def test_the_stream_is_the_papers(run: LasRun) -> None:
    assert run.stream.rows == 32_768
    assert run.stream.items == 4_096
    assert set(run.stream.costs_s.round(6)) <= set(np.linspace(0.0001, 0.0064, 64).round(6))


def test_rows_come_at_ninety_percent_of_capacity_until_las_leaves_nop_and_then_too_fast(run: LasRun) -> None:
    gaps = gaps_s(run)
    assert run.calm_rows > 0
    assert gaps[: run.calm_rows] == pytest.approx(run.stream.mean_cost_s / 0.9)
    assert gaps[run.calm_rows :] == pytest.approx(0.75 * run.stream.mean_cost_s)


@pytest.mark.parametrize("under_provisioning", [0.9, 0.0, -0.1])
def test_under_provisioning_sets_the_gap_between_rows(under_provisioning: float) -> None:
    run = synthetic_run(Setting(under_provisioning=under_provisioning), run=0, seed=SEED)
    assert gaps_s(run)[run.calm_rows :] == pytest.approx((1 - under_provisioning) * run.stream.mean_cost_s)


def test_the_comparison_begins_when_las_has_left_nop_on_the_stream_it_is_compared_on(run: LasRun) -> None:
    assert run.nop_rows() == run.calm_rows
    assert not np.isnan(run.queuing_s("las")[: run.calm_rows]).any()


@pytest.mark.parametrize("algorithm", ["base_line", "straw_man", "full_knowledge", "full_knowledge_eps"])
def test_an_algorithm_of_the_paper_drops_only_after_nop(run: LasRun, algorithm: str) -> None:
    dropped = np.flatnonzero(np.isnan(run.queuing_s(algorithm)))
    assert len(dropped)
    assert dropped.min() >= run.calm_rows


def test_without_a_calm_start_the_overload_is_there_from_the_first_row() -> None:
    run = synthetic_run(Setting(calm_start=False), run=0, seed=SEED)
    assert run.calm_rows == 0
    assert gaps_s(run) == pytest.approx(0.75 * run.stream.mean_cost_s)


def test_both_stretches_are_measured(run: LasRun) -> None:
    result = run.results(("base_line",))["base_line"]
    queuing_s = run.queuing_s("base_line")
    assert result.after_nop == measure(queuing_s[run.calm_rows :])
    assert result.whole_stream == measure(queuing_s)
    assert result.after_nop.rows == result.whole_stream.rows - run.calm_rows
    assert result.after_nop.dropped_ratio > result.whole_stream.dropped_ratio


@pytest.mark.parametrize("algorithm", EVERY)
def test_the_same_run_gives_the_same_verdicts(run: LasRun, algorithm: str) -> None:
    again = synthetic_run(Setting(), run=0, seed=SEED)
    assert_array_equal(run.queuing_s(algorithm), again.queuing_s(algorithm))


@pytest.mark.parametrize(("number", "seed"), [(1, SEED), (0, SEED + 1)])
def test_another_run_or_seed_is_another_stream(run: LasRun, number: int, seed: int) -> None:
    other = synthetic_run(Setting(), run=number, seed=seed)
    assert (other.stream.keys != run.stream.keys).any()
    assert (other.stream.costs_s != run.stream.costs_s).any()


def test_after_a_hundred_runs_costs_repeat_but_the_order_of_rows_does_not(run: LasRun) -> None:
    later = synthetic_run(Setting(), run=ASSOCIATIONS, seed=SEED)
    costs = dict(zip(run.stream.keys.tolist(), run.stream.costs_s.tolist(), strict=True))
    shared = [key in costs for key in later.stream.keys.tolist()]
    assert sum(shared) > 0.9 * len(shared)
    assert [costs[key] for key in later.stream.keys[shared].tolist()] == later.stream.costs_s[shared].tolist()
    assert (later.stream.keys != run.stream.keys).any()


@pytest.mark.parametrize("number", range(5))
def test_full_knowledge_keeps_the_average_at_or_below_the_target(number: int) -> None:
    setting = Setting()
    results = synthetic_run(setting, number, SEED).results(("full_knowledge", "full_knowledge_eps"))
    exact, with_factor = results["full_knowledge"].after_nop, results["full_knowledge_eps"].after_nop
    assert exact.queuing_s <= setting.target_s * (1 + 1e-9)
    assert with_factor.queuing_s < exact.queuing_s
    assert with_factor.dropped > exact.dropped


@pytest.mark.parametrize("algorithm", OWN)
def test_a_wider_target_lets_more_rows_through(run: LasRun, algorithm: str) -> None:
    wide = LasRun(run.stream, replace(run.setting, target_s=0.5), SEED, calm_rows=run.calm_rows)
    dropped = {one: one.results((algorithm,))[algorithm].after_nop.dropped for one in (run, wide)}
    assert dropped[wide] < dropped[run]


def test_base_line_drops_nothing_where_capacity_is_ample() -> None:
    run = synthetic_run(Setting(under_provisioning=-0.1), run=0, seed=SEED)
    assert run.results(("base_line",))["base_line"].whole_stream.dropped == 0


def test_straw_man_believes_the_mean_it_is_told(run: LasRun) -> None:
    told_little = LasRun(run.stream, run.setting, SEED, known_mean_s=run.stream.mean_cost_s / 2)
    assert told_little.results(("straw_man",))["straw_man"].whole_stream.dropped == 0


@pytest.mark.parametrize("algorithm", LAS)
def test_a_finer_sketch_changes_what_las_does(run: LasRun, algorithm: str) -> None:
    fine = LasRun(run.stream, replace(run.setting, epsilon=0.005), SEED, calm_rows=run.calm_rows)
    assert not np.array_equal(fine.queuing_s(algorithm), run.queuing_s(algorithm), equal_nan=True)


def test_an_unknown_algorithm_is_named(run: LasRun) -> None:
    with pytest.raises(ValueError, match="round_robin"):
        run.queuing_s("round_robin")


def test_a_recorded_stream_of_one_row_can_be_run() -> None:
    stream = workload.Stream(np.array([0]), np.array([0.001]), workload.arrivals(1, 0.001), 1)
    for name, result in LasRun(stream, Setting(), SEED).results(EVERY).items():
        # Base Line tosses a coin even for this row.
        assert result.whole_stream.queuing_s == 0.0 or name == "base_line"
