"""What every policy promises, whatever it is made of. A new policy joins by one line in `CASES`."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.core.balanced.policy import Balanced
from penstock.core.control.allotment import LEAST_SHARE
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import (
    BaseLine,
    FullKnowledge,
    LoadAware,
    Machines,
    Policy,
    RandomShed,
    RowPolicy,
    StrawMan,
)
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.row.latency_goals import Maximum, SlidingWindowAverage
from penstock.core.row.machines import Arrived, Drop, Executed, Forward, Operator, Send, Shedder
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import Latency, Report
from penstock.sim.las.queueing import Outcome, simulate
from penstock.sim.workload import Stream, draw_keys, item_costs

TARGET = MeanQueueLatency("50 ms")
ITEMS = 512
ROWS = 4000
DROP_SHARE = 0.5
MEAN_COST_S = 0.00325


@dataclass(frozen=True)
class Case:
    """A policy under contract."""

    name: str
    make: Callable[[int], Policy]  #: from a seed
    seeded: bool = True  #: whether the seed changes which rows are shed one by one
    sampled: bool = False  #: whether weights add up on average and not to the row
    by_row: bool = True  #: whether it also sheds row by row
    blind: bool = False  #: whether it sheds by a fixed share, idle or not, and gives each row the inverse as weight


def load_aware(**settings: object) -> Callable[[int], RowPolicy]:
    return lambda seed: LoadAware(seed=seed, **settings)


#: A window so short that the paper's operator sends its sketch early in these streams.
paper = partial(load_aware, variant="paper", window_rows=128, tolerance=0.2)

CASES = [
    Case("load aware", load_aware()),
    Case("load aware, cheap rows first", load_aware(prefer="cheap"), sampled=True),
    Case("LAS", paper()),
    Case("LAS sending at the first check", paper(sending="first_check")),
    Case("LAS with a sliding window", paper(check=partial(SlidingWindowAverage, rows=64))),
    Case("LAS with a maximum", paper(check=Maximum)),
    Case("straw man", lambda seed: StrawMan(mean_cost_s=MEAN_COST_S, seed=seed), seeded=False),
    Case("full knowledge", lambda seed: FullKnowledge(seed=seed), seeded=False),
    Case("full knowledge, raised", lambda seed: FullKnowledge(epsilon=0.1, seed=seed), seeded=False),
    Case(
        "full knowledge at the gate",
        lambda seed: FullKnowledge(cost_column="cost_s", prefer="cheap", seed=seed),
        seeded=False,
    ),
    Case("balanced", lambda seed: Balanced(value="utility", seed=seed), by_row=False),
    Case("random", lambda seed: RandomShed(seed=seed), by_row=False),
    Case("base line", lambda seed: BaseLine(drop_share=DROP_SHARE, seed=seed), blind=True, sampled=True),
]


#: For what a gate does interval by interval, which every policy can.
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(params=[case for case in CASES if case.by_row], ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def policy(case: Case) -> RowPolicy:
    return case.make(1)


def stream_at(load: float, *, rows: int = ROWS, text_keys: bool = False) -> Stream:
    """Zipf keys with the paper's costs, `load` times as much work as the operator can do."""
    rng = np.random.default_rng(4)
    by_item = item_costs(rng, items=ITEMS)
    keys = draw_keys("zipf-1.0", rows, ITEMS, rng)
    costs_s = by_item[keys]
    arrivals_s = np.arange(rows) * (costs_s.mean() / load)
    return Stream(np.array([f"kéy {key}" for key in keys]) if text_keys else keys, costs_s, arrivals_s, ITEMS)


class Recorded:
    """A shedder that passes rows on with the weights given and notes every verdict."""

    def __init__(self, shedder: Shedder, weights: NDArray[np.float64] | None = None) -> None:
        self.inner = shedder
        self.verdicts: list[Forward | Drop] = []
        self._weights = weights

    def receive(self, message: object) -> None:
        self.inner.receive(message)

    def judge(self, row: Arrived) -> Forward | Drop:
        if self._weights is not None:
            row = replace(row, weight=float(self._weights[row.row]))
        verdict = self.inner.judge(row)
        self.verdicts.append(verdict)
        return verdict


def run(
    policy: RowPolicy,
    stream: Stream,
    *,
    must_keep: NDArray[np.bool_] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> tuple[Outcome, Recorded]:
    machines = policy.machines(TARGET)
    recorded = Recorded(machines.shedder, weights)
    return simulate(stream, recorded, machines.operator, delay_s=0.002, must_keep=must_keep), recorded


# Row by row.


def test_a_seed_decides_everything(case: Case) -> None:
    stream = stream_at(2.0)
    policy = case.make(1)
    verdicts = run(policy, stream)[1].verdicts
    assert run(policy, stream)[1].verdicts == verdicts
    assert run(case.make(1), stream)[1].verdicts == verdicts
    assert (run(case.make(2), stream)[1].verdicts != verdicts) is case.seeded


def test_an_overload_is_shed_with_a_reason_for_every_row_and_the_account_balances(policy: RowPolicy) -> None:
    outcome, recorded = run(policy, stream_at(2.0))
    dropped = [verdict for verdict in recorded.verdicts if isinstance(verdict, Drop)]
    assert all(verdict.reason.strip() for verdict in dropped)
    assert sum(outcome.shed.values()) == len(dropped) == ROWS - outcome.kept.sum()
    assert 0.1 * ROWS < len(dropped) < 0.9 * ROWS


def test_a_must_keep_row_is_never_dropped_even_in_a_tenfold_overload_of_them(policy: RowPolicy) -> None:
    everything, _ = run(policy, stream_at(10.0), must_keep=np.full(ROWS, fill_value=True))
    assert everything.kept.all()
    assert (everything.weights == 1.0).all()
    some = np.random.default_rng(2).random(ROWS) < 0.3
    mixed, _ = run(policy, stream_at(10.0), must_keep=some)
    assert mixed.kept[some].all()
    assert (mixed.weights[some] == 1.0).all()
    assert not mixed.kept.all()


def test_weights_never_shrink_and_add_up_to_the_rows_that_came(case: Case) -> None:
    rng = np.random.default_rng(3)
    weights = rng.integers(1, 9, ROWS).astype(np.float64)
    must_keep = rng.random(ROWS) < 0.1
    outcome, recorded = run(case.make(1), stream_at(2.0), must_keep=must_keep, weights=weights)
    assert np.isfinite(outcome.weights).all()
    assert (outcome.weights[outcome.kept] >= weights[outcome.kept]).all()
    assert not outcome.weights[~outcome.kept].any()
    total = outcome.weights.sum() + recorded.inner.carried_weight
    if case.sampled:
        # Of a row that is kept with probability p and weight w / p the variance is w * w * (1 - p) / p; the largest
        # weights bound p from below.
        variance = np.sum(outcome.weights[outcome.kept & ~must_keep] ** 2)
        assert abs(total - weights.sum()) < 5 * np.sqrt(variance)
    else:
        assert total == weights.sum()


def test_weights_are_fair_to_every_key(case: Case) -> None:
    """The weighted count of a key is its true count, within what chance and the queue's state allow."""
    stream = stream_at(2.0, rows=2 * ROWS)
    runs = [run(case.make(seed), stream)[0] for seed in range(4)]
    for key in range(6):
        mine = stream.keys == key
        counts = [outcome.weights[mine].sum() for outcome in runs]
        deviation = np.sqrt(np.mean([np.sum(outcome.weights[mine] ** 2) for outcome in runs]) / len(runs))
        assert abs(np.mean(counts) - mine.sum()) < 5 * deviation + 0.02 * mine.sum(), key


def test_text_keys_serve_as_well_as_numbers(policy: RowPolicy) -> None:
    numbers, _ = run(policy, stream_at(2.0))
    texts, _ = run(policy, stream_at(2.0, text_keys=True))
    # Not the same rows: other hashes, other collisions.
    assert texts.kept.mean() == pytest.approx(numbers.kept.mean(), abs=0.1)


def test_rows_flow_while_the_operator_is_mostly_idle(case: Case) -> None:
    gap_s = 0.0064 / 0.3  # the dearest row would take 0.3 of it
    stream = stream_at(1.0)
    calm = Stream(stream.keys, stream.costs_s, np.arange(ROWS) * gap_s, ITEMS)
    outcome, recorded = run(case.make(1), calm)
    if not case.blind:
        assert outcome.shed == {}
        assert (outcome.weights == 1.0).all()
        assert recorded.inner.carried_weight == 0.0
    assert np.nanmax(outcome.queuing_s) == 0.0


class Repickled:
    """Machines that are put away and taken out again every hundred rows, as when a task moves."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._events = 0

    def _fresh(self) -> Machines:
        self._events += 1
        if self._events % 100 == 0:
            self._machines = pickle.loads(pickle.dumps(self._machines))  # noqa: S301 - made in the line itself
        return self._machines

    def judge(self, row: Arrived) -> Forward | Drop:
        return self._fresh().shedder.judge(row)

    def receive(self, message: object) -> None:
        self._fresh().shedder.receive(pickle.loads(pickle.dumps(message)))  # noqa: S301 - made in the line itself

    def executed(self, row: Executed) -> list[Send]:
        return self._fresh().operator.executed(row)


def test_policies_and_machines_survive_pickling_in_mid_stream(policy: RowPolicy) -> None:
    twin = pickle.loads(pickle.dumps(policy))  # noqa: S301 - these bytes were made in the line itself
    assert repr(twin) == repr(policy)
    stream = stream_at(2.0, rows=2000)
    plain, _ = run(policy, stream)
    moved = Repickled(twin.machines(TARGET))
    outcome = simulate(stream, moved, moved, delay_s=0.002)
    assert np.array_equal(outcome.queuing_s, plain.queuing_s, equal_nan=True)
    assert np.array_equal(outcome.weights, plain.weights)
    assert outcome.shed == plain.shed


class Line:
    """One operator without a kernel: rows come one after the other, feedback comes at once."""

    def __init__(self, machines: Machines, gap_s: float, cost_s: float) -> None:
        self._shedder: Shedder = machines.shedder
        self._operator: Operator = machines.operator
        self._gap_s, self._cost_s = gap_s, cost_s
        self._now_s = self._end_s = 0.0
        self._rows = 0

    def offer(self, key: int | str) -> None:
        self._now_s += self._gap_s
        self._rows += 1
        verdict = self._shedder.judge(Arrived(self._now_s, key, self._rows, cost_s=self._cost_s))
        if isinstance(verdict, Forward):
            start_s = max(self._now_s, self._end_s)
            self._end_s = start_s + self._cost_s
            row = Executed(key, self._now_s, start_s, self._end_s, self._cost_s, verdict.request)
            for send in self._operator.executed(row):
                self._shedder.receive(send.message)


def sizes(machines: Machines) -> tuple[int, int]:
    return machines.shedder.memory_bytes + machines.operator.memory_bytes, len(pickle.dumps(machines))


def test_memory_does_not_grow_with_the_number_of_keys(policy: RowPolicy) -> None:
    machines = policy.machines(TARGET)
    line = Line(machines, gap_s=0.8 * MEAN_COST_S, cost_s=MEAN_COST_S)
    for key in range(5_000):
        line.offer(key)
    told, pickled = sizes(machines)
    for key in range(5_000, 15_000):
        line.offer(key)
    told_later, pickled_later = sizes(machines)
    assert told_later == told
    assert pickled_later < 1.05 * pickled + 256
    # What a machine says of its size is what it takes, give or take the packing.
    assert pickled_later < 4 * told + 4096


def test_memory_does_not_grow_with_the_length_of_keys(policy: RowPolicy) -> None:
    sizes_of = []
    for padding in ("", "x" * 10_000):
        machines = policy.machines(TARGET)
        line = Line(machines, gap_s=0.8 * MEAN_COST_S, cost_s=MEAN_COST_S)
        for number in range(2_000):
            line.offer(f"{number}{padding}")
        sizes_of.append(sizes(machines)[1])
    assert sizes_of[1] < 1.05 * sizes_of[0] + 256


# Interval by interval.

SECONDS = st.just(0.0) | st.floats(1e-6, 1e3)
KEPT_BY_BUCKET = st.dictionaries(
    st.integers(0, BUCKETS - 1), st.tuples(st.integers(1, 99), st.floats(1e-9, 1e3)), max_size=5
)


def sketch_of(kept: dict[int, tuple[int, float]]) -> bytes:
    costs = BucketCosts()
    for number, (rows, work_s) in kept.items():
        costs.rows[number] = costs.weight[number] = rows
        costs.work_s[number] = work_s
    return costs.to_bytes()


@st.composite
def reports(draw: st.DrawFn) -> Report:
    kept, shed = draw(st.integers(0, 10_000)), draw(st.integers(0, 10_000))
    start_s = draw(st.floats(0, 1e6))
    return Report(
        sequence=draw(st.integers(0, 10**6)),
        start_s=start_s,
        end_s=start_s + draw(SECONDS),
        rows_in=kept + shed,
        rows_kept=kept,
        rows_shed={"earlier": shed} if shed else {},
        rows_must_keep=draw(st.just(0) | st.integers(0, kept)),
        backlog_rows=draw(st.integers(0, 10**6)),
        busy_s=draw(st.just(0.0) | st.floats(1e-9, 1e4)),
        span_s=draw(SECONDS),
        overhead_s=draw(SECONDS),
        delay_s=draw(SECONDS),
        lag_s=draw(SECONDS),
        queuing=draw(st.none() | st.builds(Latency, st.just(kept), SECONDS, SECONDS)),
        cost_sketch=draw(st.none() | KEPT_BY_BUCKET.map(sketch_of)),
    )


@every_case
@given(report=reports(), now_s=st.floats(0, 1e9), seed=st.integers(-(2**63), 2**63 - 1))
def test_every_plan_is_valid_and_a_function_of_the_report(case: Case, report: Report, now_s: float, seed: int) -> None:
    planner = case.make(seed).planner(TARGET)
    plan = planner.decide(report, now_s)
    assert case.make(seed).planner(TARGET).decide(report, now_s) == plan
    # The same again asks for nothing new.
    assert planner.decide(report, now_s) is None
    if plan is None:
        return
    assert (plan.version, plan.decided_s, plan.salt) == (report.sequence + 1, now_s, seed)
    assert plan.policy == case.make(seed).name
    assert Plan.from_json(plan.to_json()) == plan
    for table in plan.gates:
        # A gate that is shut measures nothing.
        assert max(table.keep) >= LEAST_SHARE
        assert all(share == 1.0 or table.reason(number).strip() for number, share in enumerate(table.keep))
    assert plan.expected is not None


@every_case
@pytest.mark.parametrize("rows", [0, 100])
def test_a_report_that_tells_nothing_leaves_the_plan_in_force(case: Case, rows: int) -> None:
    empty = Report(sequence=3, start_s=0.0, end_s=1.0, rows_in=rows, rows_kept=rows, backlog_rows=50)
    assert (case.make(1).planner(TARGET).decide(empty, 1.0) is None) is not case.blind


@every_case
def test_nothing_is_shed_when_nothing_waits(case: Case) -> None:
    calm = Report(sequence=3, start_s=0.0, end_s=1.0, rows_in=100, rows_kept=100, busy_s=0.3)
    plan = case.make(1).planner(TARGET).decide(calm, 1.0)
    gate = plan.gate(SOURCE)
    assert set(gate.keep if gate else (1.0,)) == {1.0 - DROP_SHARE if case.blind else 1.0}


@every_case
def test_an_overload_gets_a_plan_that_sheds(policy: Policy) -> None:
    measured = sketch_of(dict.fromkeys(range(BUCKETS), (1, 0.001)))
    hot = Report(
        sequence=3,
        start_s=0.0,
        end_s=1.0,
        rows_in=1000,
        rows_kept=1000,
        busy_s=1.0,
        backlog_rows=1000,
        cost_sketch=measured,
    )
    assert min(policy.planner(TARGET).decide(hot, 1.0).gate(SOURCE).keep) < 1.0


@pytest.mark.parametrize("policy", [LoadAware(), LoadAware(prefer="cheap"), RandomShed(), Balanced()])
def test_one_long_batch_of_which_nothing_was_measured_sheds_nothing(policy: Policy) -> None:
    """It may be a cold start, or what a batch takes without a row."""
    long = Report(sequence=0, start_s=0.0, end_s=9.0, rows_in=1000, rows_kept=1000, busy_s=8.5, backlog_rows=1000)
    plan = policy.planner(TARGET).decide(long, 9.0)
    assert plan is not None
    assert not plan.gates


# Settings.


@pytest.mark.parametrize(
    ("setting", "make"),
    [
        ("variant", lambda: LoadAware(variant="mine")),
        ("prefer", lambda: LoadAware(prefer="dear")),
        ("prefer", lambda: LoadAware(variant="paper", prefer="cheap")),
        ("sending", lambda: LoadAware(sending="late")),
        ("epsilon", lambda: LoadAware(epsilon=0.0)),
        ("epsilon", lambda: LoadAware(epsilon=0.1)),  # says nothing without variant="paper"
        ("delta", lambda: LoadAware(delta=1.0)),
        ("window_rows", lambda: LoadAware(window_rows=0)),
        ("tolerance", lambda: LoadAware(tolerance=-1.0)),
        ("seed", lambda: LoadAware(seed=2**63)),
        ("mean_cost_s", lambda: StrawMan(mean_cost_s=0.0)),
        ("epsilon", lambda: FullKnowledge(epsilon=-0.5)),
        ("prefer", lambda: FullKnowledge(prefer="dear")),
        ("seed", lambda: RandomShed(seed=2**63)),
        ("drop_share", lambda: BaseLine(drop_share=1.5)),
    ],
)
def test_a_setting_that_means_nothing_is_refused_when_the_policy_is_made(
    setting: str, make: Callable[[], Policy]
) -> None:
    with pytest.raises(PenstockError, match=rf"^{setting} = .* is not usable: give .*$"):
        make()
