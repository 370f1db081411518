"""The queries of THEMIS, Table 1: real results, merged over fragments, and their distance from perfect ones."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.sim.themis.correlation import OVERLOADS, correlation_run
from penstock.sim.themis.data import DATASETS, recorded_traces, synthetic_traces, values
from penstock.sim.themis.queries import QUERIES, kendall_distance

TRACES = synthetic_traces(0)


def whole(query: str, *fragments: np.ndarray) -> object:
    asked = QUERIES[query]
    return asked.result([asked.partial(one, np.ones(one.shape, np.bool_)) for one in fragments])


def drawn(sources: int, tuples: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(50.0, 10.0, (sources, tuples))


def test_aggregates_are_those_of_numpy() -> None:
    tuples = drawn(1)
    assert whole("avg", tuples) == pytest.approx(tuples.mean())
    assert whole("max", tuples) == tuples.max()
    assert whole("count", tuples) == (tuples >= 50.0).sum()
    pair = drawn(2)
    assert whole("cov", pair) == pytest.approx(np.cov(pair)[0, 1])


@pytest.mark.parametrize("query", ["avg_all", "max", "count", "cov"])
def test_fragments_together_give_what_one_would(query: str) -> None:
    tuples = drawn(QUERIES[query].sources, 60)
    assert whole(query, *np.split(tuples, 3, axis=1)) == pytest.approx(whole(query, tuples))


def test_the_top_are_the_idlest_nodes_with_memory_to_spare() -> None:
    busy = np.array([30.0, 10.0, 50.0, 20.0, 40.0, 60.0, 5.0, 70.0, 80.0, 90.0])
    free_kb = np.where(busy == 5.0, 99_000.0, 200_000.0)
    nodes = np.repeat(np.concatenate([busy, free_kb])[:, None], 3, axis=1)
    assert whole("top_5", nodes) == [1, 3, 0, 4, 2]
    idle = np.repeat(np.concatenate([np.ones(10), np.full(10, 200_000.0)])[:, None], 3, axis=1)
    assert whole("top_5", nodes, idle) == [10, 11, 12, 13, 14]


def test_nothing_kept_gives_no_result_but_a_count_of_zero() -> None:
    for query, asked in QUERIES.items():
        tuples = np.full((asked.sources, 4), 60.0)
        empty = asked.result([asked.partial(tuples, np.zeros(tuples.shape, np.bool_))])
        assert empty == (0.0 if query == "count" else None), query


def test_a_covariance_pairs_only_tuples_of_which_both_were_kept() -> None:
    pair = drawn(2, 6)
    kept = np.array([[True, True, True, False, True, True], [True, False, True, True, True, True]])
    both = [0, 2, 4, 5]
    asked = QUERIES["cov"]
    assert asked.result([asked.partial(pair, kept)]) == pytest.approx(np.cov(pair[:, both])[0, 1])


@pytest.mark.parametrize(
    ("one", "other", "pairs"),
    [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 2, 3], [3, 2, 1], 3),
        ([1, 2, 3], [4, 5, 6], 9),
        ([1, 2, 3], [1, 2, 4], 1),  # 3 against 4; nobody knows of 3 before 2 or after in the other list
        ([1, 2, 3], [4, 1, 2], 3),  # 4 is before 1 and 2, which have no 4 behind them, and against 3
        ([1, 2, 3], [], 0),
    ],
)
def test_kendalls_distance_counts_pairs_in_opposite_order(one: list[int], other: list[int], pairs: int) -> None:
    assert kendall_distance(one, other, 3) == pytest.approx(pairs / 9)
    assert kendall_distance(other, one, 3) == pytest.approx(pairs / 9)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("dataset", DATASETS)
def test_errors_are_none_without_shedding_and_fewer_the_more_is_kept(query: str, dataset: str) -> None:
    found = correlation_run(0, query=query, dataset=dataset, traces=TRACES, seed=1, seconds=4)
    assert len(found) == len(OVERLOADS)
    assert [point.sic for point in found] == pytest.approx([OVERLOADS[0] / one for one in OVERLOADS], abs=0.03)
    errors = [point.error for point in found]
    if not math.isnan(errors[0]):  # machines that never reach 50 percent have nothing to count
        assert errors[0] == 0.0
        assert errors[-1] > errors[2] > 0.0 or query == "max"
        assert errors[-1] > 0.0


def test_a_count_misses_what_was_shed() -> None:
    found = correlation_run(0, query="count", dataset="uniform", traces=TRACES, seed=1, seconds=4)
    assert [point.error for point in found] == pytest.approx([1.0 - point.sic for point in found], abs=0.05)


def test_runs_repeat_and_differ() -> None:
    def one(run: int, seed: int) -> object:
        return correlation_run(run, query="avg", dataset="planetlab", traces=TRACES, seed=seed, seconds=2)

    assert one(0, 1) == one(0, 1)
    assert one(0, 1) != one(1, 1)
    assert one(0, 1) != one(0, 2)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Twelve machines, readings in turn, machine 3 always at 30 percent."""
    rows = range(12 * 8)
    columns = {
        "node": [f"host-{row % 12:02}" for row in rows],
        "cpu": [10 * (row % 12) for row in rows],
        "free_kb": [1000.0 * (row % 12) for row in rows],
        "words": ["busy"] * len(rows),
        "gaps": [None, *(float(row) for row in rows[1:])],
    }
    pq.write_table(pa.table(columns), tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def test_a_recorded_trace_is_read_machine_by_machine(trace: Path) -> None:
    read = recorded_traces(trace, "node", "cpu", "free_kb", seed=0)
    assert [one.tolist() for one in read.cpu] == [[10.0 * machine] * 8 for machine in range(12)]
    assert read.free_kb[3].tolist() == [3000.0] * 8
    assert len(recorded_traces(trace, "node", "cpu", None, seed=0).free_kb) == 12
    nodes = values("planetlab", read, "nodes", (20, 30), np.random.default_rng(0))
    assert (nodes[:10] * 100.0 == nodes[10:]).all()  # the memory of the same machines


@pytest.mark.parametrize(
    ("node", "cpu", "words"),
    [
        ("host", "cpu", ("column", "'host'", "node, cpu")),
        ("node", "words", ("'words'", "numbers")),
        ("node", "gaps", ("'gaps'", "missing")),
        ("words", "cpu", ("--data", "at least 10 nodes", "'words'")),
    ],
)
def test_a_trace_that_cannot_be_used_is_refused(trace: Path, node: str, cpu: str, words: tuple[str, ...]) -> None:
    with pytest.raises(PenstockError) as refused:
        recorded_traces(trace, node, cpu, None, seed=0)
    assert [word for word in words if word not in str(refused.value)] == []
