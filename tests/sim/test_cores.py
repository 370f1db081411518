"""Cores wanted, on virtual time: an autoscaler that follows the number ends shedding, and the number does not flap."""

import math
from itertools import pairwise

import pytest
from tests.sim.test_microbatch import CORES, TARGET, USABLE, run, steady, stream, window_means_s

from penstock.core.control.cores import DOWN_S
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MaxLag, Target, Throughput
from penstock.sim.microbatch import Query, Run, simulate

POLICIES = ["any", "cheap", "random"]


def wanted(done: Run, *, after_s: float = 0.0) -> list[int | None]:
    return [report.cores_wanted for report in done.reports if report.start_s >= after_s]


def changes(numbers: list[int | None]) -> int:
    return sum(before != after for before, after in pairwise(numbers))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.5, 1.25, 2.0, 4.0])
def test_the_number_is_what_the_load_needs(load: float, policy: str) -> None:
    found = wanted(steady(policy, load), after_s=30.0)
    needed = CORES * load / USABLE
    assert all(number is not None and 0.95 * needed <= number <= 1.1 * needed + 1.0 for number in found)


@pytest.mark.parametrize("policy", POLICIES)
def test_doubled_cores_end_shedding_within_three_batches(policy: str) -> None:
    before, at_s = run(policy, stream((120, 1.5))), 60.0
    assert set(wanted(before, after_s=20.0)) == {2 * CORES}
    assert all(report.shed_total for report in before.reports if report.start_s >= 20.0)

    after = run(policy, stream((120, 1.5)), query=Query(cores=lambda now_s: CORES if now_s < at_s else 2 * CORES))
    later = [report.shed_total for report in after.reports if report.start_s >= at_s]
    assert not any(later[3:]), later
    assert set(wanted(after, after_s=20.0)) == {2 * CORES}
    assert max(window_means_s(after, after_s=at_s)) <= TARGET.limit_s


def test_one_core_less_than_wanted_is_not_enough() -> None:
    done = run("any", stream((120, 1.5)), query=Query(cores=lambda _: 2 * CORES - 1))
    assert wanted(done)[-1] == 2 * CORES
    assert sum(report.shed_total for report in done.reports if report.start_s >= 20.0)


def test_it_rises_within_a_few_batches_and_falls_once_after_a_while() -> None:
    rise_s, fall_s, end_s = 60.0, 120.0, 120.0 + DOWN_S + 60.0
    done = run("any", stream((rise_s, 0.5), (fall_s - rise_s, 2.0), (end_s - fall_s, 0.5)))
    low, high = math.ceil(0.5 * CORES / USABLE), math.ceil(2.0 * CORES / USABLE)
    rising = [report for report in done.reports if report.start_s >= rise_s]
    assert [report.cores_wanted or 0 for report in rising][6] >= high
    falling = wanted(done, after_s=fall_s)
    assert falling[-1] == low
    held = [report for report in done.reports if fall_s <= report.start_s < fall_s + DOWN_S - 5.0]
    assert all((report.cores_wanted or 0) >= high for report in held)


@pytest.mark.parametrize("load", [1.29, 1.7])  # exactly a number of cores, and well below one
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_does_not_make_it_flap(load: float, seed: int) -> None:
    done = run("any", stream((600, load), seed=seed), query=Query(noise=0.5, late_plans=0.3, seed=seed))
    found = wanted(done, after_s=30.0)
    assert changes(found) <= 3, found  # It falls at most once in 5 minutes.
    assert {number - math.ceil(CORES * load / USABLE) for number in found if number} <= {0, 1}


def test_one_burst_is_no_reason_for_more_cores() -> None:
    done = run("any", stream((60, 0.8), (0.5, 6.0), (60, 0.8)))
    assert max(number or 0 for number in wanted(done, after_s=10.0)) <= math.ceil(1.2 * CORES)


def test_a_source_with_a_limit_wants_cores_for_what_it_hands_out() -> None:
    done = run("any", stream((100, 1.5)), query=Query(rows_per_batch=100_000))
    assert wanted(done)[-1] == 2 * CORES


def test_a_sink_that_is_too_slow_wants_no_number() -> None:
    """No core makes the sink faster."""
    done = run("any", stream((100, 1.0)), query=Query(row_overhead_s=lambda _: 0.02))
    assert wanted(done)[-1] is None


def test_more_cores_do_not_want_more_cores() -> None:
    """Time outside the operator is the same with any number of cores, so the number does not rise with them."""
    sink = {"row_overhead_s": lambda _: 0.0002}
    few = run("any", stream((100, 1.5)), query=Query(**sink))
    many = run("any", stream((100, 1.5)), query=Query(cores=lambda _: 4 * CORES, **sink))
    assert (wanted(many)[-1] or 0) <= (wanted(few)[-1] or 0) + 1


@pytest.mark.parametrize(
    ("target", "query"), [(Throughput(100), Query()), (TARGET, Query(measured=False)), (MaxLag("3 s"), Query())]
)
def test_it_is_known_only_for_latencies_of_measured_operators(target: Target, query: Query) -> None:
    done = simulate(LoadAware().planner(target), stream((60, 1.5)), query)
    assert (wanted(done)[-1] is None) == (not isinstance(target, MaxLag))


@pytest.mark.parametrize("trigger_s", [1.0, 2.0])
def test_the_wanted_number_is_enough_with_a_trigger(trigger_s: float) -> None:
    done = run("any", stream((100, 1.2)), query=Query(trigger_s=trigger_s))
    enough = wanted(done)[-1]
    assert enough is not None
    again = run("any", stream((100, 1.2)), query=Query(trigger_s=trigger_s, cores=lambda _: enough))
    later = [report for report in again.reports if report.start_s >= 20.0]
    assert sum(report.shed_total for report in later) <= 0.001 * sum(report.rows_in for report in later)
