"""The compiled loops against the readable machines: the same rows dropped, the same latencies to the last bit."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.hashing import HashFamily, unit_interval, xxhash64, xxhash64_ints
from penstock.core.row import cost_model, cost_sketch, latency_budget, load_aware, price
from penstock.core.row.baselines import BaseLineShedder, SilentOperator, full_knowledge, straw_man
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.las import LasOperator, LasShedder, ShedderState
from penstock.core.row.latency_goals import RunningAverage
from penstock.core.row.load_aware import LoadAwareOperator, LoadAwareShedder
from penstock.core.row.machines import Arrived, Drop, Forward
from penstock.sim.las import compiled as fast
from penstock.sim.las.compiled import Tuning, load_aware_loop
from penstock.sim.las.queueing import simulate
from penstock.sim.workload import Stream, arrivals, draw_keys, item_costs, phases

ROWS, ITEMS, SEED = 5000, 1024, 7
TARGET_S = 0.0064


def coins(rows: int, seed: int = SEED) -> np.ndarray:
    return np.array([unit_interval(xxhash64(row, seed)) for row in range(rows)])


def generated(distribution: str, under_provisioning: float) -> Stream:
    rng = np.random.default_rng(SEED)
    by_item = item_costs(rng, items=ITEMS)
    keys = draw_keys(distribution, ROWS, ITEMS, rng)
    costs_s = by_item[keys]
    return Stream(keys, costs_s, arrivals(ROWS, (1.0 - under_provisioning) * costs_s.mean()), ITEMS)


STREAMS = {
    "uniform, u 0.25": partial(generated, "uniform", 0.25),
    "zipf-1.0, u 0.9": partial(generated, "zipf-1.0", 0.9),
    "zipf-1.0, u 0.25": partial(generated, "zipf-1.0", 0.25),
    "zipf-1.0, u -0.1": partial(generated, "zipf-1.0", -0.1),
    "zipf-3.0, u 0.25": partial(generated, "zipf-3.0", 0.25),
    "phases": partial(phases, SEED, phase_rows=1200),
}


@pytest.fixture(scope="module", params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    return STREAMS[request.param]()


def assert_same(quick: np.ndarray, readable: np.ndarray) -> None:
    assert np.array_equal(np.isnan(quick), np.isnan(readable))
    assert np.array_equal(quick, readable, equal_nan=True)


# The algorithms, each on both paths.


def check_base_line(stream: Stream, drop_share: float, calm_rows: int) -> None:
    shedder = BaseLineShedder(drop_share=drop_share, seed=SEED, calm_rows=calm_rows)
    readable = simulate(stream, shedder, SilentOperator()).queuing_s
    quick = fast.base_line(stream.arrivals_s, stream.costs_s, coins(stream.rows), drop_share, calm_rows)
    assert_same(quick, readable)


def check_straw_man(stream: Stream, target_s: float, mean_cost_s: float, calm_rows: int) -> None:
    shedder = straw_man(RunningAverage(target_s), mean_cost_s, calm_rows=calm_rows)
    readable = simulate(stream, shedder, SilentOperator()).queuing_s
    added_s = np.full(stream.rows, mean_cost_s)
    assert_same(fast.predictive(stream.arrivals_s, stream.costs_s, added_s, target_s, calm_rows), readable)


def check_full_knowledge(stream: Stream, target_s: float, epsilon: float, calm_rows: int) -> None:
    shedder = full_knowledge(RunningAverage(target_s), epsilon=epsilon, calm_rows=calm_rows)
    readable = simulate(stream, shedder, SilentOperator()).queuing_s
    added_s = stream.costs_s * (1.0 + epsilon)
    assert_same(fast.predictive(stream.arrivals_s, stream.costs_s, added_s, target_s, calm_rows), readable)


@dataclass(frozen=True)
class Las:
    """The settings of one run of LAS."""

    target_s: float = TARGET_S
    rows: int = 4
    columns: int = 54
    epsilon: float = 0.05
    window_rows: int = 64
    tolerance: float = 0.2
    first_check: bool = False
    delay_s: float = 0.0

    @classmethod
    def sized(cls, epsilon: float, **settings: float) -> "Las":
        sketch = CostSketch.sized(epsilon, 0.1)
        return cls(rows=sketch.rows, columns=sketch.columns, epsilon=epsilon, **settings)

    def quick(self, stream: Stream, *, stop_after_nop: bool = False) -> tuple[np.ndarray, int]:
        family = HashFamily(self.rows, self.columns, SEED)
        return fast.las(
            stream.keys,
            stream.costs_s,
            stream.arrivals_s,
            family.columns_of_many(np.arange(stream.items)),
            self.columns,
            self.window_rows,
            self.tolerance,
            self.first_check,
            1.0 + self.epsilon,
            self.target_s,
            self.delay_s,
            stop_after_nop,
        )


class CountsNop(LasShedder):
    """LAS that counts the rows it lets through before it knows anything."""

    nop_rows = 0

    def judge(self, row: Arrived) -> Forward | Drop:
        self.nop_rows += self.state is ShedderState.NOP
        return super().judge(row)


def check_las(stream: Stream, las: Las) -> tuple[int, int]:
    shedder = CountsNop(RunningAverage(las.target_s), epsilon=las.epsilon)
    operator = LasOperator(
        CostSketch(las.rows, las.columns, SEED),
        window_rows=las.window_rows,
        tolerance=las.tolerance,
        first_check=las.first_check,
    )
    readable = simulate(stream, shedder, operator, delay_s=las.delay_s).queuing_s
    quick, nop_rows = las.quick(stream)
    assert_same(quick, readable)
    assert nop_rows == shedder.nop_rows
    assert las.quick(stream, stop_after_nop=True)[1] == nop_rows
    return nop_rows, int(np.isnan(readable).sum())


def check_load_aware(
    stream: Stream, *, target_s: float, prefer_cheap: bool, delay_s: float, tuning: Tuning | None = None
) -> int:
    shedder = LoadAwareShedder(target_s, prefer="cheap" if prefer_cheap else "any", seed=SEED)
    readable = simulate(stream, shedder, LoadAwareOperator(), delay_s=delay_s).queuing_s
    family = HashFamily(cost_model.SKETCH_ROWS, cost_model.SKETCH_COLUMNS, SEED)
    quick = load_aware_loop(
        stream.keys,
        stream.costs_s,
        stream.arrivals_s,
        family.columns_of_many(xxhash64_ints(np.arange(stream.items))),
        coins(stream.rows),
        target_s,
        prefer_cheap,
        delay_s,
        tuning or Tuning(),
    )
    assert_same(quick, readable)
    return int(np.isnan(readable).sum())


# Generated streams.


@pytest.mark.parametrize("calm_rows", [0, 777])
def test_base_line_is_the_same(stream: Stream, calm_rows: int) -> None:
    check_base_line(stream, 0.25, calm_rows)


@pytest.mark.parametrize("calm_rows", [0, 777])
def test_straw_man_is_the_same(stream: Stream, calm_rows: int) -> None:
    check_straw_man(stream, TARGET_S, stream.mean_cost_s, calm_rows)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize("calm_rows", [0, 777])
def test_full_knowledge_is_the_same(stream: Stream, epsilon: float, calm_rows: int) -> None:
    check_full_knowledge(stream, TARGET_S, epsilon, calm_rows)


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
@pytest.mark.parametrize("first_check", [False, True])
def test_las_is_the_same(stream: Stream, delay_s: float, *, first_check: bool) -> None:
    nop_rows, _ = check_las(stream, Las(first_check=first_check, delay_s=delay_s))
    assert nop_rows < stream.rows


@pytest.mark.parametrize("epsilon", [0.5, 0.01])
def test_las_is_the_same_for_small_and_large_sketches(epsilon: float) -> None:
    for name in ("zipf-1.0, u 0.25", "phases"):
        nop_rows, dropped = check_las(STREAMS[name](), Las.sized(epsilon, tolerance=0.4))
        assert nop_rows < ROWS
        assert dropped > 0


def test_las_with_the_papers_own_window_is_the_same() -> None:
    stream = phases(SEED, phase_rows=2000)
    nop_rows, dropped = check_las(stream, Las.sized(0.05, window_rows=1024, tolerance=0.05))
    assert nop_rows < stream.rows
    assert dropped > 0


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
@pytest.mark.parametrize("prefer_cheap", [False, True])
def test_load_aware_is_the_same(stream: Stream, delay_s: float, *, prefer_cheap: bool) -> None:
    check_load_aware(stream, target_s=TARGET_S, prefer_cheap=prefer_cheap, delay_s=delay_s)


@pytest.mark.parametrize("prefer_cheap", [False, True])
def test_load_aware_is_the_same_for_a_loose_target(*, prefer_cheap: bool) -> None:
    stream = phases(SEED, phase_rows=1200)
    assert check_load_aware(stream, target_s=0.064, prefer_cheap=prefer_cheap, delay_s=0.001) > 0


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Tuning:
    """Both paths forget every fourth row, so that long runs fit into a short test."""
    monkeypatch.setattr(cost_model, "FORGET_EVERY", 4)
    return Tuning(forget_every=4)


def test_load_aware_is_the_same_once_old_keys_have_faded_from_the_sketch(forgetful: Tuning) -> None:
    """A key seen once leaves the sketch after 124 steps of forgetting: 127,000 rows, unless forgetting is hurried."""
    items = 1000
    cells = HashFamily(cost_model.SKETCH_ROWS, cost_model.SKETCH_COLUMNS, SEED).columns_of_many(
        xxhash64_ints(np.arange(items))
    )[0]
    # Key 0 keeps a cell for itself but loses its place among the frequent keys.
    strangers = np.flatnonzero(cells != cells[0])[:200]
    keys = np.concatenate([[0], np.repeat(strangers, 6), [0], np.repeat(strangers[:1], 50)])
    costs_s = np.where(keys == 0, 0.05, 0.001)
    stream = Stream(keys, costs_s, np.arange(len(keys)) * 0.0009, items)
    assert check_load_aware(stream, target_s=0.002, prefer_cheap=False, delay_s=0.0, tuning=forgetful) > 0


# Streams made to hit ties: rows that come together, rows that cost nothing, completions at the moment of an arrival.

TINY = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 1.0, 1.0, 2.0, 7.0]), st.sampled_from([0.0, 0.0, 1.0, 3.0])),
    max_size=60,
).map(
    lambda rows: Stream(
        np.array([key for key, _, _ in rows], np.int64),
        np.array([cost_s for _, cost_s, _ in rows], np.float64),
        np.cumsum([gap_s for _, _, gap_s in rows]).astype(np.float64),
        items=6,
    )
)
TARGETS_S = st.sampled_from([0.5, 1.0, 3.0])
DELAYS_S = st.sampled_from([0.0, 1.0, 4.0])


@given(TINY, st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5))
def test_base_line_is_the_same_in_every_tie(stream: Stream, drop_share: float, calm_rows: int) -> None:
    check_base_line(stream, drop_share, calm_rows)


@given(TINY, TARGETS_S, st.sampled_from([0.0, 0.5]), st.integers(0, 5))
def test_predictive_is_the_same_in_every_tie(stream: Stream, target_s: float, epsilon: float, calm_rows: int) -> None:
    check_full_knowledge(stream, target_s, epsilon, calm_rows)
    check_straw_man(stream, target_s, 1.0 + epsilon, calm_rows)


LAS = st.builds(
    Las,
    target_s=TARGETS_S,
    rows=st.just(2),
    columns=st.just(3),
    epsilon=st.just(0.25),
    window_rows=st.integers(1, 4),
    tolerance=st.sampled_from([0.0, 0.25, 1.0]),
    first_check=st.booleans(),
    delay_s=DELAYS_S,
)


@given(TINY, LAS)
def test_las_is_the_same_in_every_tie(stream: Stream, las: Las) -> None:
    check_las(stream, las)


@given(stream=TINY, target_s=TARGETS_S, delay_s=DELAYS_S, prefer_cheap=st.booleans())
def test_load_aware_is_the_same_in_every_tie(
    stream: Stream, target_s: float, delay_s: float, *, prefer_cheap: bool
) -> None:
    check_load_aware(stream, target_s=target_s, prefer_cheap=prefer_cheap, delay_s=delay_s)


# Tuning.


def test_tuning_stands_for_the_constants_of_the_core_by_name() -> None:
    constants = {
        name.lower(): value
        for module in (load_aware, latency_budget, cost_model, price)
        for name, value in vars(module).items()
        if name.isupper()
    }
    constants["forgotten"] = cost_sketch.FORGOTTEN
    assert {name: constants[name] for name in Tuning._fields} == Tuning()._asdict()
    # Those without a place in it are fixed by the arguments, or bind only when messages are lost.
    assert set(constants) - set(Tuning._fields) == {"sketch_rows", "unreported_rows"}


def test_tuning_changes_what_the_loop_does() -> None:
    stream = STREAMS["zipf-1.0, u 0.25"]()
    with pytest.raises(AssertionError):
        check_load_aware(stream, target_s=TARGET_S, prefer_cheap=False, delay_s=0.0, tuning=Tuning(margin=0.5))
