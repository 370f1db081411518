"""Networks on virtual time: what goes wrong with a machine, and what the planner of Spark's networks holds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.core.networks import example_with_values, in_ms

from penstock.core.control.memory import from_text, to_text
from penstock.core.network.model import Network
from penstock.core.network.planner import Kind, NetworkPlanner
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import Report
from penstock.sim.network_run import Batch, Machine, NetworkRun

if TYPE_CHECKING:
    from penstock.core.network.exact import Objective

USUAL = Machine()
TRIGGER_S, OVERHEAD_S = USUAL.trigger_s, USUAL.overhead_s


def scaled(network: Network, load: float) -> dict[str, float]:
    """Rates at which the load is this multiple of what batches get done."""
    capacity = USUAL.pace * (1.0 - OVERHEAD_S / TRIGGER_S)
    return {name: rate * load * capacity / network.load() for name, rate in network.rates.items()}


@dataclass(frozen=True)
class Scenario:
    """What is wrong with the machine at twice the load, how long batches then take, and how much is done."""

    what: str
    load: float = 2.0
    overhead_s: float = OVERHEAD_S
    empty_s: float = OVERHEAD_S
    noise: float = 0.0
    level: Callable[[int], float] = lambda _batch: 1.0
    mean_s: float = 1.9  #: of a batch, at most
    worked: float = 0.7  #: share of the time, at least


SCENARIOS = [
    Scenario("nothing"),
    Scenario("a quarter too much", load=1.25),
    Scenario("four times as much", load=4.0),
    Scenario("more overhead than measured", overhead_s=0.8, empty_s=0.2, worked=0.5),
    Scenario("less overhead than measured", overhead_s=0.2, empty_s=0.6, worked=0.8),
    Scenario("times vary by 20 percent", noise=0.2),
    Scenario("times vary by 50 percent", noise=0.5, mean_s=2.2, worked=0.67),
    Scenario("slower by half for 20 batches", level=lambda batch: 1.5 if 20 <= batch < 40 else 1.0, worked=0.62),
    Scenario(
        "slower by half, and times vary",
        noise=0.2,
        level=lambda batch: 1.5 if 20 <= batch < 40 else 1.0,
        mean_s=1.95,
        worked=0.6,
    ),
    Scenario("a stall every tenth batch", level=lambda batch: 4.0 if batch % 10 == 9 else 1.0, mean_s=2.4, worked=0.58),
    # Batches are let take up to twice their overhead.
    Scenario("overhead of 70 percent of the trigger", overhead_s=1.4, empty_s=1.2, mean_s=2.8, worked=0.44),
    Scenario("overhead beyond the trigger", overhead_s=2.6, empty_s=2.0, mean_s=4.9, worked=0.43),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.what)
def test_an_overloaded_stage_is_as_long_as_its_trigger_whatever_is_wrong(scenario: Scenario) -> None:
    machine = Machine(overhead_s=scenario.overhead_s, noise=scenario.noise, level=scenario.level)
    done = list[Batch]()
    for seed in range(2 if scenario.noise else 1):
        run = NetworkRun(in_ms(), machine=machine, empty_s=scenario.empty_s, seed=seed)
        run.run(scaled(run.network, scenario.load), 60)
        done += run.done[10:]
    times_s, work_s = np.array([one.duration_s for one in done]), sum(one.work_s for one in done)
    assert times_s.mean() <= scenario.mean_s
    assert work_s / machine.pace / np.maximum(times_s, TRIGGER_S).sum() >= scenario.worked


@pytest.mark.parametrize(
    ("network", "kind"),
    [
        (in_ms(), "random"),
        (in_ms(), "input_uniform"),
        (example_with_values(), "semantic"),
        (example_with_values(), "random"),
    ],
)
def test_twice_the_load_is_back_within_headroom_after_five_batches_and_drops_go_when_it_falls(
    network: Network, kind: Kind
) -> None:
    run = NetworkRun(network, kind)
    run.run(scaled(network, 0.5), 3)
    assert not plan_of(run).drops
    run.run(scaled(network, 2.0), 8)
    assert plan_of(run).drops
    times_s = [one.duration_s for one in run.done]
    assert max(times_s[-4:]) <= TRIGGER_S
    assert times_s[-1] >= 0.6 * TRIGGER_S, "no more is shed than need be"
    run.run(scaled(network, 0.5), 4)
    assert not plan_of(run).drops


def plan_of(run: NetworkRun) -> Plan:
    """The plan that judged the last batch."""
    plan = run.done[-1].plan
    assert plan is not None
    return plan


def test_drops_by_value_follow_the_distribution_of_values() -> None:
    run = NetworkRun(example_with_values(), "semantic")
    run.run(scaled(run.network, 3.0), 8)
    assert any(drop.condition for drop in plan_of(run).drops)
    assert max(one.duration_s for one in run.done[-3:]) <= TRIGGER_S


def test_a_steady_overload_keeps_its_plan() -> None:
    run = NetworkRun(in_ms())
    run.run(scaled(run.network, 2.0), 30)
    assert len({one.plan.version for one in run.done[10:] if one.plan}) <= 5


def test_costs_that_rise_at_once_do_not_shed_everything() -> None:
    network = in_ms()
    dear = Network(network.inputs, [replace(box, cost=3.0 * box.cost) for box in network.boxes], network.outputs)
    run = NetworkRun(network)
    run.run(scaled(network, 1.5), 6)
    run.network = dear
    run.planner.known.calibrate({box.name: box.cost for box in dear.boxes})
    run.run(scaled(network, 1.5), 10)
    times_s = [one.duration_s for one in run.done[-4:]]
    assert max(times_s) <= TRIGGER_S
    assert min(times_s) >= 0.6 * TRIGGER_S


def test_max_min_leaves_no_output_without_rows() -> None:
    network, worst = in_ms(), dict[str, float]()
    objectives: tuple[Objective, ...] = ("sum", "max_min")
    for objective in objectives:
        run = NetworkRun(network, objective=objective)
        run.run(scaled(network, 4.0), 8)
        entry = run.planner.entry
        worst[objective] = min(one.loss_tolerance.utility(entry.delivered[one.name]) for one in network.outputs)
    assert worst["max_min"] > worst["sum"]


def test_the_map_is_made_anew_when_proportions_drift_and_not_before() -> None:
    run = NetworkRun(in_ms())
    rates = scaled(run.network, 2.0)
    run.run(rates, 10)
    steady = run.planner.rebuilt
    run.run({"I1": rates["I1"] * 3.0, "I2": rates["I2"] / 3.0}, 4)
    assert run.planner.rebuilt > steady


def test_what_was_learned_survives_a_restart_and_the_first_batch_drops_as_the_last_did() -> None:
    run = NetworkRun(in_ms())
    run.run({"I1": 400.0, "I2": 400.0}, 12)
    memory = from_text(to_text(run.planner.save()))
    again = NetworkPlanner(in_ms(), trigger_s=TRIGGER_S)
    assert again.recall((), 1.0).drops == ()
    again.restore(memory, 1.0)
    plan = again.recall((), 1.0)
    kept = plan.drop("I1")
    assert kept is not None
    assert kept.keep == pytest.approx(run.planner.last.entry.keep["I1"], rel=0.15)
    assert again.known.rates == run.planner.known.rates
    with pytest.raises(PenstockError, match="settings"):
        NetworkPlanner(in_ms(), trigger_s=TRIGGER_S, kind="input_uniform").restore(memory, 1.0)


def test_with_drops_by_value_all_but_the_distributions_survives_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    run = NetworkRun(example_with_values(), "semantic")
    rates = scaled(run.network, 3.0)
    run.run(rates, 8)
    again = NetworkPlanner(example_with_values(), trigger_s=TRIGGER_S, kind="semantic")
    again.restore(from_text(to_text(run.planner.save())), 1.0)
    assert again.known.rates == run.planner.known.rates
    assert again.known.capacity == run.planner.known.capacity
    assert again.known.network.boxes == run.planner.known.network.boxes
    assert again.recall((), 1.0).drops == (), "no row is dropped by a value that was not measured"
    plans, decide = list[Plan | None](), run.planner.decide

    def both(report: Report, now_s: float) -> Plan | None:
        plan = decide(report, now_s)
        plans.append(again.decide(report, now_s))
        assert again.save() == run.planner.save()
        return plan

    monkeypatch.setattr(run.planner, "decide", both)
    run.run(rates, 8)
    assert plans[0] is not None, "one batch is enough"
    assert any(drop.condition for drop in plans[0].drops)
    assert again.last.load == run.planner.last.load
