"""The compiled loops of grouping against the readable machines: every row done at the same moment, to the last bit."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.grouping import ready_time
from penstock.core.grouping.baselines import FullKnowledge, JoinShortestQueue, RoundRobin, SilentInstance
from penstock.core.grouping.machines import Assign, Done, Instance, Received, Scheduler, Send
from penstock.core.grouping.osg import OsgInstance, OsgScheduler, SchedulerState
from penstock.core.grouping.ready_time import AcknowledgingInstance, ReadyTimeScheduler
from penstock.core.hashing import HashFamily, xxhash64_ints
from penstock.core.row import cost_sketch
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.machines import Arrived
from penstock.sim.osg import compiled as fast_osg
from penstock.sim.osg.compiled_ready_time import Tuning, ready_time_loop
from penstock.sim.osg.queueing import simulate
from penstock.sim.workload import Stream, arrivals, draw_keys, item_costs

ROWS, ITEMS, SEED = 3000, 1024, 7
TWO_SPEEDS = np.array([[1.05, 1.0, 0.95], [0.9, 1.0, 1.5]])


def generated(distribution: str, over_provisioning: float, instances: int) -> Stream:
    rng = np.random.default_rng(SEED)
    by_item = item_costs(rng, items=ITEMS)
    keys = draw_keys(distribution, ROWS, ITEMS, rng)
    costs_s = by_item[keys]
    return Stream(keys, costs_s, arrivals(ROWS, costs_s.mean() / instances * over_provisioning), ITEMS)


@dataclass(frozen=True)
class Case:
    """How one stream is grouped."""

    speeds: np.ndarray
    schedulers: int = 1
    delay_s: float = 0.0

    @property
    def instances(self) -> int:
        return self.speeds.shape[1]

    def readable(self, stream: Stream, schedulers: list[Scheduler], instances: list[Instance]) -> np.ndarray:
        return simulate(stream, schedulers, instances, speeds=self.speeds, delay_s=self.delay_s)


# The algorithms, each on both paths.


def check_round_robin(stream: Stream, case: Case) -> None:
    schedulers = [RoundRobin(case.instances) for _ in range(case.schedulers)]
    readable = case.readable(stream, schedulers, [SilentInstance()] * case.instances)
    quick = fast_osg.round_robin(stream.arrivals_s, stream.costs_s, case.speeds, case.schedulers)
    assert np.array_equal(quick, readable)


def check_full_knowledge(stream: Stream, case: Case, *, clamp: bool) -> None:
    def cost_s(row: Arrived, instance: int) -> float:
        return row.cost_s * case.speeds[row.row * len(case.speeds) // stream.rows, instance]

    schedulers = [FullKnowledge(case.instances, cost_s, clamp=clamp) for _ in range(case.schedulers)]
    readable = case.readable(stream, schedulers, [SilentInstance()] * case.instances)
    quick = fast_osg.full_knowledge(stream.arrivals_s, stream.costs_s, case.speeds, case.schedulers, clamp)
    assert np.array_equal(quick, readable)


def check_jsq(stream: Stream, case: Case) -> None:
    schedulers = [JoinShortestQueue(case.instances, scheduler=s) for s in range(case.schedulers)]
    readable = case.readable(stream, schedulers, [AcknowledgingInstance() for _ in range(case.instances)])
    quick = fast_osg.jsq(stream.arrivals_s, stream.costs_s, case.speeds, case.schedulers, case.delay_s)
    assert np.array_equal(quick, readable)


@dataclass
class Seen:
    """What a run of the readable machines went through while rows arrived."""

    rows: int  #: how many will arrive
    arrived: int = 0
    messages: int = 0
    run_at: list[int] = field(default_factory=list)


class WatchedScheduler(OsgScheduler):
    """OSG that notes before which row it enters RUN."""

    def __init__(self, seen: Seen, instances: int, **settings: Any) -> None:
        super().__init__(instances, **settings)
        self._seen = seen

    def assign(self, row: Arrived) -> Assign:
        self._seen.arrived += 1
        return super().assign(row)

    def receive(self, event: Received) -> None:
        before = self.state
        super().receive(event)
        if (
            self.state is SchedulerState.RUN
            and before is not SchedulerState.RUN
            and self._seen.arrived < self._seen.rows
        ):
            self._seen.run_at.append(self._seen.arrived)


class WatchedInstance(OsgInstance):
    """An instance of OSG that counts what it sends while rows arrive."""

    def __init__(self, seen: Seen, schedulers: int, osg: "Osg") -> None:
        super().__init__(
            CostSketch(osg.rows, osg.columns, SEED),
            window_rows=osg.window_rows,
            tolerance=osg.tolerance,
            first_check=osg.first_check,
        )
        self._seen, self._schedulers = seen, schedulers

    def executed(self, row: Done) -> list[Send]:
        sends = super().executed(row)
        if self._seen.arrived < self._seen.rows:
            self._seen.messages += sum(self._schedulers if send.scheduler is None else 1 for send in sends)
        return sends


@dataclass(frozen=True)
class Osg:
    """The settings of one run of OSG."""

    rows: int = 4
    columns: int = 54
    window_rows: int = 64
    tolerance: float = 0.2
    first_check: bool = False
    clamp: bool = False


def check_osg(stream: Stream, case: Case, osg: Osg) -> list[int]:
    seen = Seen(stream.rows)
    schedulers = [WatchedScheduler(seen, case.instances, scheduler=s, clamp=osg.clamp) for s in range(case.schedulers)]
    instances = [WatchedInstance(seen, case.schedulers, osg) for _ in range(case.instances)]
    readable = case.readable(stream, schedulers, instances)
    family = HashFamily(osg.rows, osg.columns, SEED)
    quick, run_at, messages = fast_osg.osg(
        stream.keys,
        stream.arrivals_s,
        stream.costs_s,
        case.speeds,
        family.columns_of_many(np.arange(stream.items)),
        osg.columns,
        osg.window_rows,
        osg.tolerance,
        osg.first_check,
        osg.clamp,
        case.schedulers,
        case.delay_s,
    )
    assert np.array_equal(quick, readable)
    assert run_at.tolist() == seen.run_at
    assert messages == seen.messages
    return seen.run_at


def check_ready_time(stream: Stream, case: Case, *, report_rows: int = 1, tuning: Tuning | None = None) -> int:
    schedulers = [ReadyTimeScheduler(case.instances, scheduler=s, seed=SEED) for s in range(case.schedulers)]
    instances = [AcknowledgingInstance(report_rows=report_rows) for _ in range(case.instances)]
    readable = case.readable(stream, schedulers, instances)
    family = HashFamily(ready_time.SKETCH_ROWS, ready_time.SKETCH_COLUMNS, SEED)
    quick, reports = ready_time_loop(
        stream.keys,
        stream.arrivals_s,
        stream.costs_s,
        case.speeds,
        family.columns_of_many(xxhash64_ints(np.arange(stream.items))),
        case.schedulers,
        report_rows,
        case.delay_s,
        tuning or Tuning(),
    )
    assert np.array_equal(quick, readable)
    return reports


# Generated streams.

CASES = {
    "five alike": Case(np.ones((1, 5))),
    "five alike, reports take 20 ms": Case(np.ones((1, 5)), delay_s=0.02),
    "three that differ and change": Case(TWO_SPEEDS, delay_s=0.005),
    "three schedulers": Case(np.ones((1, 4)), schedulers=3, delay_s=0.005),
    "one": Case(np.ones((1, 1))),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def stream_for(case: Case, *, distribution: str = "zipf-1.0", over_provisioning: float = 1.05) -> Stream:
    return generated(distribution, over_provisioning, case.instances)


def test_the_baselines_are_the_same(case: Case) -> None:
    stream = stream_for(case)
    check_round_robin(stream, case)
    check_jsq(stream, case)
    for clamp in (False, True):
        check_full_knowledge(stream, case, clamp=clamp)


@pytest.mark.parametrize("osg", [Osg(), Osg(clamp=True, first_check=True)], ids=["as printed", "other readings"])
def test_osg_is_the_same(case: Case, osg: Osg) -> None:
    assert len(check_osg(stream_for(case), case, osg)) > 1  # synchronised again and again


@pytest.mark.parametrize("distribution", ["zipf-1.0", "uniform"])
def test_ready_time_is_the_same(case: Case, distribution: str) -> None:
    check_ready_time(stream_for(case, distribution=distribution), case)


def test_ready_time_is_the_same_with_fewer_reports() -> None:
    case = CASES["three schedulers"]
    stream = stream_for(case, over_provisioning=0.98)
    assert check_ready_time(stream, case, report_rows=8) < 0.5 * check_ready_time(stream, case)


def test_ready_time_is_the_same_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few places, few rows remembered, and a past that fades: what takes a long stream otherwise."""
    for name, value in {"HEAVY_PLACES": 8, "FORGET_EVERY": 4, "REMEMBERED_ROWS": 5}.items():
        monkeypatch.setattr(ready_time, name, value)
    tuning = Tuning(heavy_places=8, forget_every=4, remembered_rows=5)
    check_ready_time(stream_for(CASES["five alike"], over_provisioning=0.9), CASES["five alike"], tuning=tuning)


def test_the_loop_does_what_its_tuning_says() -> None:
    case = CASES["five alike"]
    with pytest.raises(AssertionError):
        check_ready_time(stream_for(case), case, tuning=Tuning(heavy_places=8))


def test_tuning_stands_for_the_constants_of_the_core_by_name() -> None:
    constants = {name.lower(): value for name, value in vars(ready_time).items() if name.isupper()}
    constants["forgotten"] = cost_sketch.FORGOTTEN
    assert {name: constants[name] for name in Tuning._fields} == Tuning()._asdict()


# Streams made to hit ties: rows that come together, rows that cost nothing, completions at the moment of an arrival.

TINY = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 1.0, 1.0, 2.0, 7.0]), st.sampled_from([0.0, 0.0, 1.0, 3.0])),
    min_size=1,
    max_size=60,
).map(
    lambda rows: Stream(
        np.array([key for key, _, _ in rows], np.int64),
        np.array([cost_s for _, cost_s, _ in rows], np.float64),
        np.cumsum([gap_s for _, _, gap_s in rows]).astype(np.float64),
        items=6,
    )
)
TINY_CASES = st.builds(
    Case,
    speeds=st.sampled_from([np.ones((1, 1)), np.ones((1, 3)), np.array([[1.0, 2.0], [2.0, 1.0]])]),
    schedulers=st.integers(1, 3),
    delay_s=st.sampled_from([0.0, 1.0, 4.0]),
)
TINY_OSG = st.builds(
    Osg,
    rows=st.just(2),
    columns=st.just(3),
    window_rows=st.integers(1, 4),
    tolerance=st.sampled_from([0.0, 0.25, 1.0]),
    first_check=st.booleans(),
    clamp=st.booleans(),
)


@given(TINY, TINY_CASES, st.booleans())
def test_the_baselines_are_the_same_in_every_tie(stream: Stream, case: Case, clamp: bool) -> None:  # noqa: FBT001
    check_round_robin(stream, case)
    check_jsq(stream, case)
    check_full_knowledge(stream, case, clamp=clamp)


@given(TINY, TINY_CASES, TINY_OSG)
def test_osg_is_the_same_in_every_tie(stream: Stream, case: Case, osg: Osg) -> None:
    check_osg(stream, case, osg)


@given(TINY, TINY_CASES, st.integers(1, 3))
def test_ready_time_is_the_same_in_every_tie(stream: Stream, case: Case, report_rows: int) -> None:
    check_ready_time(stream, case, report_rows=report_rows)
