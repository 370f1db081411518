"""A road map that is built anew when it no longer fits: soon enough to lose half a point at most, and not before."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests.core.networks import LINE, irregular

from penstock.core.network.drops import Skeleton
from penstock.core.network.map_upkeep import Keeper
from penstock.core.network.model import Network
from penstock.core.network.roadmap import RoadMap, build

EXCESSES = (0.18, 0.35, 0.5, 0.65, 0.75, 0.85)


def utility(network: Network, rates: Mapping[str, float], keep: Mapping[str, float]) -> float:
    """In percent of what is there to be had."""
    _, delivered = Skeleton(network, rates).under(keep)
    graphs = {one.name: one.loss_tolerance for one in network.outputs}
    return 100.0 * sum(graphs[name].utility(percent) for name, percent in delivered.items()) / len(graphs)


def lost(keeper: Keeper[RoadMap], network: Network, rates: Mapping[str, float]) -> float:
    """What the kept map loses against a fresh one at the worst excess."""
    load, fresh = network.load(rates), build(network, rates)
    worst = -np.inf
    for share in EXCESSES:
        best = utility(network, rates, fresh.entry(fresh.find(share * load, rates)).keep)
        index = keeper.find(share * load, network, rates)
        worst = max(worst, best - utility(network, rates, keeper.map(network, rates).entry(index).keep))
    return float(worst)


@pytest.mark.parametrize(("seed", "sharing", "steps"), [(0, 0.0, 15), (1, 0.0, 15), (0, 0.3, 5), (1, 0.3, 5)])
def test_a_kept_map_loses_half_a_point_at_most_while_rates_wander_off_and_a_stale_one_loses_more(
    seed: int, sharing: float, steps: int
) -> None:
    rng = np.random.default_rng(seed)
    network = irregular(10, seed, sharing)
    rates, kept, first = network.rates, Keeper(build, network), build(network)
    stale = Keeper(lambda *_: first, network)
    for spread in [*[0.007] * steps, 0.5]:
        rates = {name: rate * float(np.exp(rng.normal(0.0, spread))) for name, rate in rates.items()}
        assert lost(kept, network, rates) <= 0.5
    assert 1 < kept.built <= steps
    assert lost(stale, network, rates) > 2.0


@pytest.mark.parametrize("seed", range(3))
def test_a_kept_map_loses_half_a_point_at_most_while_costs_and_selectivities_wander_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = irregular(10, seed)
    kept = Keeper(build, network)
    for _ in range(12):
        boxes = [
            replace(
                box,
                cost=box.cost * float(np.exp(rng.normal(0.0, 0.005))),
                selectivity=min(1.0, box.selectivity * float(np.exp(rng.normal(0.0, 0.005)))),  # type: ignore[operator]
            )
            for box in network.boxes
        ]
        network = Network(network.inputs, boxes, network.outputs)
        assert lost(kept, network, network.rates) <= 0.5
    assert 1 < kept.built < 13


def test_more_rows_and_dearer_ones_in_the_same_proportions_are_no_drift() -> None:
    network = irregular(6, 0, sharing=0.3)
    keeper = Keeper(build, network)
    double = {name: 2.0 * rate for name, rate in network.rates.items()}
    dearer = Network(network.inputs, [replace(box, cost=3.0 * box.cost) for box in network.boxes], network.outputs)
    assert keeper.drift(network, double) == pytest.approx(0.0, abs=1e-12)
    assert keeper.drift(dearer, double) == pytest.approx(0.0, abs=1e-12)
    assert keeper.map(dearer, double) is keeper.map(network, network.rates)
    assert keeper.built == 1
    # Half of six times the work is the same entry as half of the work.
    assert keeper.find(0.5 * dearer.load(double), dearer, double) == keeper.find(
        0.5 * network.load(), network, network.rates
    )


def test_a_cost_a_selectivity_or_a_graph_that_changes_alone_is_noticed() -> None:
    network = irregular(4, 0)
    tail = next(number for number, box in enumerate(network.boxes) if box.name == "tail0.0")

    def with_box(**changes: float) -> Network:
        boxes = list(network.boxes)
        boxes[tail] = replace(boxes[tail], **changes)  # type: ignore[arg-type]
        return Network(network.inputs, boxes, network.outputs)

    head = next(number for number, box in enumerate(network.boxes) if box.name == "head0.0")
    fewer = list(network.boxes)
    fewer[head] = replace(fewer[head], selectivity=0.1)
    graphs = [replace(network.outputs[0], loss_tolerance=LINE), *network.outputs[1:]]
    for other in (
        with_box(cost=3.0 * network.boxes[tail].cost),
        Network(network.inputs, fewer, network.outputs),
        Network(network.inputs, network.boxes, graphs),
    ):
        keeper = Keeper(build, network)
        assert keeper.drift(other, network.rates) > 0.005
        first = keeper.map(network, network.rates)
        assert keeper.map(other, network.rates) is not first
        assert keeper.drift(other, network.rates) == 0.0


def test_an_input_that_was_silent_is_noticed_when_it_speaks() -> None:
    network = irregular(4, 0)
    silent = dict(network.rates, **{"I0.0": 0.0})
    keeper = Keeper(build, network)
    keeper.map(network, silent)
    assert keeper.drift(network, silent) == 0.0
    assert keeper.drift(network, network.rates) > 0.005


def test_any_map_can_be_kept() -> None:
    """All that is asked of a map is that it can be looked up."""

    class Last:
        def __init__(self, network: Network, rates: Mapping[str, float]) -> None:
            self.made_for = network, dict(rates)

        def find(self, excess: float, rates: Mapping[str, float], cursor: int = 0) -> int:
            return round(excess / 1e-3) + cursor + len(rates)

    network = irregular(2, 0)
    keeper = Keeper(Last, network)
    assert keeper.find(5e-3, network, network.rates, 1) == 5 + 1 + len(network.inputs)
    other = dict(network.rates, **{"I0.0": 99.0})
    assert keeper.map(network, other).made_for == (network, other)
