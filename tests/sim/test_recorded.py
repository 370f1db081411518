"""A recorded query as a stream: what is known of it is found again, and its replay is what the stream itself gives."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.core.control.policies import BaseLine, LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.errors import PenstockError
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.whatif.recorded import MOST_ROWS, Batch, Keys, Recorded, costs, found_trigger_s, recorded
from penstock.sim.whatif.replay import NOTHING, GuardCost, what_if
from penstock.sim.workload import Stream

TARGET = MeanQueueLatency("2 s")
COST_S = 0.002


def stream(*phases: tuple[float, float]) -> Stream:
    """Rows of one cost; phases of a length and a load."""
    arrivals_s, start_s = [np.zeros(0)], 0.0
    for length_s, load in phases:
        arrivals_s.append(start_s + (np.arange(int(length_s * load / COST_S)) + 1.0) * COST_S / load)
        start_s += length_s
    times_s = np.concatenate(arrivals_s)
    return Stream(np.arange(len(times_s)) % 1024, np.full(len(times_s), COST_S), times_s, 1024)


def log_of(run: Run, *, at_s: float = 1_800_000_000.0) -> list[Batch]:
    """What Spark would have written of a run."""
    return [Batch(at_s + one.start_s, one.duration_s, one.span_s, one.rows_in, one.rows_kept) for one in run.reports]


QUERY = Query(cores=lambda _now_s: 1, overhead_s=0.4, delay_share=1.0)
OVERLOAD = (20.0, 0.6), (15.0, 1.6), (30.0, 0.4)


def unguarded(query: Query = QUERY) -> Run:
    return simulate(BaseLine(drop_share=0.0).planner(TARGET), stream(*OVERLOAD), query)


def test_overhead_and_cost_are_found_again() -> None:
    overhead_s, costs_s = costs(log_of(unguarded()))

    assert overhead_s == pytest.approx(0.4, rel=0.15)
    assert float(np.median(costs_s)) == pytest.approx(COST_S, rel=0.1)


def test_a_slow_first_batch_does_not_bend_the_line() -> None:
    batches = log_of(unguarded())
    batches[0] = replace(batches[0], duration_s=batches[0].duration_s + 30.0)

    assert costs(batches)[0] == pytest.approx(0.4, rel=0.2)


@pytest.mark.parametrize("trigger_s", [0.0, 2.0])
def test_the_replay_of_a_log_is_what_the_stream_itself_gives(trigger_s: float) -> None:
    query = replace(QUERY, trigger_s=trigger_s)
    found = recorded(log_of(unguarded(query)), Keys.alike())
    replayed = {one.policy: one.facts for one in what_if(found, TARGET, GuardCost(0.0))}
    guarded = simulate(LoadAware().planner(TARGET), stream(*OVERLOAD), query)

    assert found.trigger_s == trigger_s
    bare = unguarded(query)
    assert replayed[NOTHING]["latency_s"]["mean"] == pytest.approx(float(np.nanmean(bare.waits_s)), rel=0.05)
    assert found.mean_wait_s == pytest.approx(float(np.nanmean(bare.waits_s)), rel=0.05)
    assert replayed["load_aware"]["shed_share"] == pytest.approx(float((~guarded.kept).mean()), abs=0.03)
    assert replayed["load_aware"]["latency_s"]["mean"] == pytest.approx(float(np.nanmean(guarded.waits_s)), rel=0.1)


def test_the_warm_up_of_a_log_is_left_out() -> None:
    """A first batch that took 8 s longer, and what piled up behind it, say nothing of a query that runs."""
    warm = recorded(log_of(unguarded()), Keys.alike())
    cold = recorded(log_of(unguarded(replace(QUERY, cold_s=8.0))), Keys.alike())

    assert (warm.cold, cold.cold) == (0, 1)
    assert cold.overhead_s == pytest.approx(warm.overhead_s, rel=0.2)
    assert cold.load == pytest.approx(warm.load, rel=0.2)
    found = [{one.policy: one.facts for one in what_if(query, TARGET)} for query in (warm, cold)]
    first, second = (one["load_aware"] for one in found)
    assert second["shed_rows"] == pytest.approx(first["shed_rows"], rel=0.2)
    # What has piled up by the second batch is a backlog: it is kept and worked off, in the first window.
    assert first["windows_within_target"] == 1.0
    assert 0.8 < second["windows_within_target"] < 1.0
    assert second["latency_s"]["mean"] < TARGET.limit_s


@pytest.mark.parametrize("cost", [GuardCost(0.2), GuardCost().quarantined])
def test_what_a_guard_and_its_quarantine_cost_is_replayed(cost: GuardCost) -> None:
    found = recorded(log_of(unguarded()), Keys.alike())
    replayed = {one.policy: one.facts for one in what_if(found, TARGET, cost)}
    query = replace(QUERY, overhead_s=QUERY.overhead_s + cost.batch_s, read_s=cost.row_s)
    guarded = simulate(LoadAware().planner(TARGET), stream(*OVERLOAD), query)
    free = {one.policy: one.facts for one in what_if(found, TARGET, GuardCost(0.0))}

    assert replayed["load_aware"]["shed_share"] == pytest.approx(float((~guarded.kept).mean()), abs=0.05)
    assert replayed["load_aware"]["latency_s"]["mean"] == pytest.approx(float(np.nanmean(guarded.waits_s)), rel=0.15)
    assert replayed["load_aware"]["shed_share"] > free["load_aware"]["shed_share"] + 0.03
    assert replayed[NOTHING] == free[NOTHING]


def test_a_calm_log_sheds_nothing_under_any_policy_that_has_a_target() -> None:
    calm = simulate(BaseLine(drop_share=0.0).planner(TARGET), stream((60.0, 0.3)), QUERY)

    for one in what_if(recorded(log_of(calm), Keys.alike()), TARGET):
        assert one.facts["shed_rows"] == 0, one.policy


def test_where_costs_differ_by_key_the_cheap_ones_save_rows() -> None:
    found = recorded(log_of(unguarded()), Keys.spread(64.0, seed=0))
    shed = {one.policy: one.facts["shed_share"] for one in what_if(found, TARGET, GuardCost(0.0))}

    assert shed["load_aware, cheap"] < 0.8 * shed["load_aware"]


def test_keys_do_not_change_the_work_of_a_batch() -> None:
    batches = log_of(unguarded())
    alike, spread = (recorded(batches, keys).stream.costs_s.sum() for keys in (Keys.alike(), Keys.spread(64.0, 0)))

    assert spread == pytest.approx(alike, rel=1e-9)
    assert alike == pytest.approx(sum(one.duration_s for one in batches) - 0.4 * len(batches), rel=0.05)


def capped_log() -> list[Batch]:
    """1,500 rows a second come, a batch hands out 1,000 and takes 1 s."""
    return [Batch(1e9 + number, 1.0, 0.9, 1000, 1000, behind=500 * (number + 1)) for number in range(30)]


def test_rows_that_a_limit_held_back_are_in_the_replay() -> None:
    found = recorded(capped_log(), Keys.alike())

    assert found.cap_rows == 1000
    assert found.stream.rows == 30 * 1000 + 30 * 500
    rate = np.diff(np.searchsorted(found.stream.arrivals_s, found.first_start_s + np.arange(1.0, 29.0)))
    assert set(rate.tolist()) == {1500}


def test_a_guarded_log_counts_work_by_the_rows_that_were_worked_on() -> None:
    all_rows, half = (
        [
            Batch(1e9 + 2.0 * n, 0.5 + 0.001 * rows, 1.0, rows * every, rows)
            for n, rows in enumerate((500, 900, 700, 1100))
        ]
        for every in (1, 2)
    )
    assert costs(half)[1].tolist() == costs(all_rows)[1].tolist()


def test_batches_of_one_size_take_their_overhead_from_what_spark_calls_it() -> None:
    overhead_s, costs_s = costs([Batch(1e9 + n, 1.0, 0.8, 100, 100) for n in range(5)])

    assert (round(overhead_s, 9), costs_s.round(9).tolist()) == (0.2, [0.008] * 5)


def test_batches_that_do_not_grow_with_their_rows_are_refused() -> None:
    with pytest.raises(PenstockError, match="do not take longer"):
        costs([Batch(1e9 + n, 2.0 - 0.001 * rows, 1.0, rows, rows) for n, rows in enumerate((100, 500, 1000))])


@pytest.mark.parametrize("batches", [[], [Batch(1e9, 1.0, 0.8, 100, 100)]])
def test_fewer_than_two_batches_are_refused(batches: list[Batch]) -> None:
    with pytest.raises(PenstockError, match="give two at least"):
        recorded(batches, Keys.alike())


def test_a_query_that_waits_for_rows_has_no_trigger() -> None:
    starts_s = 1e9 + np.cumsum([1.3, 0.7, 2.9, 1.1, 0.6, 3.3])

    assert found_trigger_s([Batch(float(start_s), 0.2, 0.1, 5, 5) for start_s in starts_s]) == 0.0


def test_many_rows_are_simulated_by_fewer() -> None:
    batches = [
        Batch(1e9 + 10.0 * n, 0.5 + 4e-6 * rows, 1.0, rows, rows) for n, rows in enumerate((10**6, 2 * 10**6) * 3)
    ]
    found: Recorded = recorded(batches, Keys.alike())

    assert found.rows_each == 18
    assert found.stream.rows <= MOST_ROWS
    assert found.stream.costs_s.sum() == pytest.approx(4e-6 * 9 * 10**6, rel=0.01)
