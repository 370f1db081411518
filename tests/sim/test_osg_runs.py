"""One run of the OSG experiments: its stream, what is measured, and the numbers that grouping is held to."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.sim.osg.runs import ALGORITHMS, ASSOCIATIONS, OsgRun, Setting

SEED = 20_240
#: Figure 11: what instances 1 to 5 multiply costs by, before and after the change.
CHANGE = ((1.05, 1.025, 1.0, 0.975, 0.95), (0.9, 0.95, 1.0, 1.05, 1.1))


def speed_ups(setting: Setting, algorithm: str, *, runs: int = 6) -> list[float]:
    """How many times faster rows are done than with Round-Robin, run by run."""
    found = []
    for number in range(runs):
        run = OsgRun.synthetic(setting, number, SEED)
        in_turn, other = (run.run(name).completion_ms.mean() for name in ("round_robin", algorithm))
        found.append(float(in_turn / other))
    return found


# Streams.


@pytest.fixture(scope="module")
def run() -> OsgRun:
    return OsgRun.synthetic(Setting(over_provisioning=1.05), number=3, seed=SEED)


def test_the_stream_is_the_papers(run: OsgRun) -> None:
    stream = run.stream
    assert (stream.rows, stream.items) == (100_000, 4_096)
    assert set(np.unique(stream.costs_s * 1e3).round(9)) == set(range(1, 65))
    by_item = {int(key): cost_s for key, cost_s in zip(stream.keys, stream.costs_s, strict=True)}
    assert all(by_item[key] == cost_s for key, cost_s in zip(stream.keys.tolist(), stream.costs_s, strict=True))
    assert np.diff(stream.arrivals_s) == pytest.approx(1.05 * stream.mean_cost_s / 5)
    assert np.bincount(stream.keys).argmax() == 0


def test_every_cost_goes_to_as_many_items() -> None:
    run = OsgRun.synthetic(Setting(distribution="uniform", items=256, cost_values=4, most_ms=4.0, rows=50_000), 0)
    costs_ms = (run.stream.costs_s * 1e3).round(9)
    assert {cost: len(set(run.stream.keys[costs_ms == cost])) for cost in (1.0, 2.0, 3.0, 4.0)} == dict.fromkeys(
        (1.0, 2.0, 3.0, 4.0), 64
    )


def test_a_hundred_streams_and_then_the_same_with_other_hash_functions() -> None:
    setting = Setting(rows=1000)
    first, second, again = (OsgRun.synthetic(setting, number, SEED) for number in (0, 1, ASSOCIATIONS))
    assert np.array_equal(first.stream.keys, again.stream.keys)
    assert np.array_equal(first.stream.costs_s, again.stream.costs_s)
    assert first.hash_seed != again.hash_seed
    assert not np.array_equal(first.stream.costs_s, second.stream.costs_s)
    assert not np.array_equal(first.stream.costs_s, OsgRun.synthetic(setting, 0, SEED + 1).stream.costs_s)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_run_gives_the_same_result(algorithm: str) -> None:
    results = [OsgRun.synthetic(Setting(rows=20_000, feedback_ms=20.0), 1, SEED).run(algorithm) for _ in range(2)]
    assert np.array_equal(results[0].completion_ms, results[1].completion_ms)
    assert results[0].run_at == results[1].run_at


def test_a_given_stream_comes_at_the_rate_asked_for_or_at_its_own_gaps() -> None:
    setting = Setting(instances=2, over_provisioning=1.5)
    paced = OsgRun.of_stream(setting, [0, 1, 0], [10.0, 20.0, 30.0], items=2)
    assert paced.stream.arrivals_s.tolist() == pytest.approx([0.0, 0.015, 0.03])
    given = OsgRun.of_stream(setting, [0, 1, 0], [10.0, 20.0, 30.0], gaps_ms=np.array([1.0, 5.0]), items=9, seed=4)
    assert given.stream.arrivals_s.tolist() == pytest.approx([0.0, 0.001, 0.006])
    assert (given.stream.items, given.hash_seed) == (9, 4)


def test_what_is_measured() -> None:
    result = OsgRun.of_stream(Setting(instances=2), [0, 1, 0], [10e3, 1e3, 10e3], items=2, gaps_ms=1e3).run(
        "round_robin"
    )
    assert result.completion_ms.tolist() == [10e3, 1e3, 18e3]
    assert (result.makespan_s, result.throughput_per_s) == (20.0, 0.15)
    assert (result.run_at, result.messages) == ((), 0)


def test_bad_distributions_and_algorithms_are_named(run: OsgRun) -> None:
    with pytest.raises(PenstockError, match="distribution = 'normal'"):
        OsgRun.synthetic(Setting(distribution="normal"), 0)
    with pytest.raises(PenstockError, match="algorithm = 'random' is not usable: give one of round_robin, osg"):
        run.run("random")


# OSG as published.


def test_osg_is_round_robin_until_it_runs_and_then_is_not(run: OsgRun) -> None:
    osg, in_turn = run.run("osg"), run.run("round_robin")
    first = osg.run_at[0]
    assert first > 3 * 1024 * 5
    assert np.array_equal(osg.completion_ms[: first - 30], in_turn.completion_ms[: first - 30])
    assert not np.array_equal(osg.completion_ms, in_turn.completion_ms)
    assert osg.messages < 300


def test_first_check_runs_after_two_windows_and_again_after_a_change() -> None:
    """The paper's RUN at row 10,690 and recovery at 84,912 fit matrices sent at the first check, not equation (1)."""
    setting = Setting(rows=150_000, speeds=CHANGE, first_check=True)
    run_at = np.array(OsgRun.synthetic(setting, 0, SEED).run("osg").run_at)
    assert 10_240 <= run_at[0] < 11_500
    assert 75_000 < run_at[run_at > 75_000][0] < 86_000


def test_osg_is_a_little_better_than_round_robin_at_105_percent() -> None:
    found = speed_ups(Setting(over_provisioning=1.05, feedback_ms=20.0), "osg")
    assert 1.15 < np.mean(found) < 1.35


# Better than the paper: at 105 percent, k = 5, Zipf-1, on streams that nothing was tuned on.


def plus(feedback_ms: float, **settings: object) -> Setting:
    return Setting(over_provisioning=1.05, feedback_ms=feedback_ms, **settings)


def test_reference_values_of_full_knowledge_and_the_shortest_queue() -> None:
    assert np.mean(speed_ups(plus(20.0), "full_knowledge")) == pytest.approx(2.57, abs=0.25)
    assert np.mean(speed_ups(plus(20.0), "jsq")) == pytest.approx(1.82, abs=0.15)
    assert np.mean(speed_ups(plus(500.0), "jsq")) == pytest.approx(1.14, abs=0.08)


@pytest.mark.parametrize(("feedback_ms", "least"), [(20.0, 2.0), (500.0, 1.65)])
def test_ready_time_beats_what_is_asked(feedback_ms: float, least: float) -> None:
    """Asked are 1.75 and 1.5; held to here is what leaves room for another draw of streams."""
    assert np.mean(speed_ups(plus(feedback_ms), "penstock")) > least


@pytest.mark.parametrize("feedback_ms", [0.0, 500.0, 10_000.0])
@pytest.mark.parametrize("over_provisioning", [0.95, 1.0, 1.05, 1.15])
def test_ready_time_never_loses_on_uniform_streams_or_constant_costs(
    feedback_ms: float, over_provisioning: float
) -> None:
    setting = Setting(feedback_ms=feedback_ms, over_provisioning=over_provisioning)
    assert min(speed_ups(replace(setting, distribution="uniform"), "penstock", runs=2)) >= 0.99
    assert min(speed_ups(replace(setting, least_ms=32.5, most_ms=32.5), "penstock", runs=1)) >= 0.999


def test_ready_time_copes_with_instances_that_differ_and_change() -> None:
    setting = Setting(rows=150_000, speeds=CHANGE, over_provisioning=1.05, feedback_ms=500.0)
    ours, exact = (np.mean(speed_ups(setting, name, runs=3)) for name in ("penstock", "full_knowledge"))
    assert ours > 0.6 * exact
    assert ours > 2 * np.mean(speed_ups(setting, "osg", runs=3))


def test_fewer_reports_cost_little() -> None:
    eight = plus(500.0, report_rows=8)
    assert np.mean(speed_ups(eight, "penstock", runs=3)) > 0.93 * np.mean(speed_ups(plus(500.0), "penstock", runs=3))
    result = OsgRun.synthetic(eight, 0, SEED).run("penstock")
    assert result.messages < 0.3 * 100_000


@pytest.mark.parametrize("feedback_ms", [20.0, 500.0])
@pytest.mark.parametrize("distribution", ["zipf-1.0", "uniform"])
def test_several_schedulers_do_better_side_by_side_than_in_turn(feedback_ms: float, distribution: str) -> None:
    setting = plus(feedback_ms, distribution=distribution, schedulers=4)
    assert min(speed_ups(setting, "penstock", runs=3)) > 1.1
