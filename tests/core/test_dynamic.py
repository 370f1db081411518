from dataclasses import replace

import pytest
from tests.core.networks import LINE, irregular

from penstock.core.network import roadmap
from penstock.core.network.delay_shedding import DynamicShedder, Plan
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import DelayQos, LossTolerance
from penstock.errors import PenstockError

LATE = DelayQos([(0, 1.0), (2, 1.0), (10, 0.0)])
BENT = LossTolerance([(100, 1.0), (80, 0.9), (0, 0.0)])


def two_outputs() -> Network:
    """A shared box with a chain of two boxes behind it, and a branch that goes straight to its output."""
    return Network(
        [Input("I", 10)],
        [
            Box("shared", "filter", ("I",), 2, 0.5),
            Box("first", "map", ("shared",), 4),
            Box("second", "filter", ("first",), 4, 0.5),
        ],
        [Output("A", "second", BENT, latency=LATE), Output("B", "shared", LINE, latency=LATE)],
    )


def load(network: Network, keep: dict[str, float], rate: float) -> float:
    """Work a second under drops, all inputs at a multiple of their rates."""
    flow, total = dict[str, float](), 0.0
    for name in network.order:
        arcs = network.into[name]
        coming = sum(arc.selectivity * flow[arc.name] for arc in arcs) if arcs else rate * network.rates[name]
        for arc in network.out_of[name]:
            flow[arc.name] = coming * keep.get(name, 1.0) * keep.get(arc.name, 1.0)
            total += arc.cost * flow[arc.name]
    return total


def run(shedder: DynamicShedder, network: Network, rates: list[float]) -> list[tuple[float, Plan]]:
    """Second by second: work that is not done in time makes all rows late."""
    capacity, backlog, keep, found = network.load(), 0.0, dict[str, float](), []
    for rate in rates:
        backlog = max(backlog + load(network, keep, rate) - capacity, 0.0)
        delay_s = backlog / capacity
        plan = shedder.observe({one.name: delay_s for one in network.outputs})
        keep = plan.keep
        found.append((delay_s, plan))
    return found


def test_delays_come_back_under_their_thresholds_and_all_rows_when_the_load_has_gone() -> None:
    network = Network(
        [Input("I", 10)],
        [Box("left", "map", ("I",), 4), Box("right", "map", ("I",), 4)],
        [Output("A", "left", BENT, latency=LATE), Output("B", "right", LINE, latency=LATE)],
    )
    shedder = DynamicShedder(network, step_percent=20)
    seen = run(shedder, network, [1.0] * 5 + [1.8] * 60 + [0.8] * 60)
    delays = [delay_s for delay_s, _ in seen]
    assert all(plan.keep == {} for _, plan in seen[:5])
    assert max(delays) > 2.0
    assert max(delays) < 4.0
    assert max(delays[45:65]) <= 2.0
    assert all(plan.keep for _, plan in seen[45:65])
    assert seen[-1][1] == Plan({}, {"A": 100.0, "B": 100.0}, ())


def test_the_graph_that_falls_least_is_followed_until_it_bends() -> None:
    shedder = DynamicShedder(two_outputs(), step_percent=8)
    late = {"A": 3.0, "B": 3.0}
    steps = [shedder.observe(late).delivered for _ in range(4)]
    assert [step["A"] for step in steps] == pytest.approx([92.0, 84.0, 80.0, 80.0])  # below 80 a percent costs 0.01125
    assert [step["B"] for step in steps] == pytest.approx([100.0, 100.0, 96.0, 88.0])
    fine = {"A": 0.0, "B": 0.0}
    back = [shedder.observe(fine).delivered for _ in range(16)]  # in steps of 2
    assert [step["B"] for step in back[3:7]] == pytest.approx([96.0, 98.0, 100.0, 100.0])
    assert [step["A"] for step in back[4:9]] == pytest.approx([80.0, 80.0, 82.0, 84.0, 86.0])
    assert back[-1] == pytest.approx({"A": 100.0, "B": 100.0})


def test_nothing_more_is_shed_while_delays_fall_fast_enough() -> None:
    shedder = DynamicShedder(two_outputs(), step_percent=5)
    assert shedder.observe({"A": 10.0}).delivered["A"] == 95.0
    assert shedder.observe({"A": 9.0}).delivered["A"] == 95.0
    assert shedder.observe({"A": 8.9}).delivered["A"] == 90.0
    assert shedder.observe({"A": 9.0}).delivered["A"] == 85.0


def test_only_outputs_that_suffer_lose_rows() -> None:
    shedder = DynamicShedder(two_outputs(), step_percent=5)
    plan = shedder.observe({"A": 1.9, "B": 2.1})
    assert (plan.suffering, plan.delivered) == (("B",), {"A": 100.0, "B": 95.0})
    assert plan.keep == {"shared->B": 0.95}


def test_delays_between_relief_and_threshold_change_nothing() -> None:
    shedder = DynamicShedder(two_outputs(), relief=0.5)
    first = shedder.observe({"A": 5.0})
    assert first.delivered == {"A": 90.0, "B": 100.0}
    assert shedder.observe({"A": 2.0, "B": 0.0}).delivered == first.delivered
    assert shedder.observe({"A": 1.0, "B": 1.1}).delivered == first.delivered
    assert shedder.observe({"A": 1.0, "B": 1.0}).delivered == {"A": 92.5, "B": 100.0}


def test_inactive_outputs_and_those_that_get_nothing_are_passed_over() -> None:
    shedder = DynamicShedder(two_outputs(), step_percent=60)
    late = {"A": 9.0, "B": 9.0}
    assert shedder.observe(late, inactive={"A"}).delivered == {"A": 100.0, "B": 40.0}
    assert shedder.observe(late, inactive={"A"}).delivered == {"A": 100.0, "B": 0.0}
    assert shedder.observe(late, inactive={"A"}).delivered == {"A": 100.0, "B": 0.0}
    assert shedder.observe(late).delivered == {"A": 40.0, "B": 0.0}
    assert shedder.observe(late, inactive={"A", "B"}).suffering == ()


def test_a_drop_stands_upstream_or_where_a_long_queue_is() -> None:
    network = two_outputs()
    shedder = DynamicShedder(network, step_percent=5, long_queue_s=2.0)
    late = {"A": 3.0, "B": 0.0}
    assert shedder.observe(late).keep == {"shared->first": 0.95}
    assert shedder.observe(late, {"first->second": 9.0}).keep == {"shared->first": 0.9}
    assert shedder.observe(late, {"first->second": 11.0}).keep == {"first->second": 0.85}
    assert shedder.observe(late, {"first->second": 11.0, "shared->first": 30.0}).keep == {"shared->first": 0.8}
    # A queue before the split holds other outputs' rows too.
    assert shedder.observe({"A": 1.8}, {"I->shared": 500.0}).keep == {"shared->first": 0.8}


def test_a_queue_on_one_branch_of_a_union_takes_the_whole_drop_as_long_as_it_can() -> None:
    network = Network(
        [Input("I", 30), Input("J", 10)],
        [Box("left", "filter", ("I",), 1, 0.5), Box("both", "union", ("left", "J"), 1)],
        [Output("O", "both", LINE, latency=LATE)],
    )
    shedder = DynamicShedder(network, step_percent=30)
    queues = {"J->both": 100.0}  # 10 of the 25 rows a second at the output
    assert shedder.observe({"O": 3.0}, queues).keep == {"J->both": pytest.approx(0.25)}
    assert shedder.observe({"O": 3.0}, queues).keep == {"I": pytest.approx(0.4), "J": pytest.approx(0.4)}
    assert shedder.observe({"O": 1.9}, {"I->left": 100.0}).keep == {"I->left": pytest.approx(0.0)}
    for keep, queue in (({"J->both": 0.25}, 70.0), ({"I": 0.4, "J": 0.4}, 40.0), ({"I->left": 0.0}, 40.0)):
        flow = {"I": 15.0 * keep.get("I", 1.0) * keep.get("I->left", 1.0)}
        flow["J"] = 10.0 * keep.get("J", 1.0) * keep.get("J->both", 1.0)
        assert sum(flow.values()) / 25.0 == pytest.approx(queue / 100.0)


def test_slopes_alone_lose_more_than_the_road_map_on_irregular_networks() -> None:
    lost = []
    for seed in range(4):
        made = irregular(10, seed)
        network = Network(made.inputs, made.boxes, [replace(one, latency=LATE) for one in made.outputs])
        shedder, found, budget = DynamicShedder(network, step_percent=1), roadmap.build(network), 0.4 * network.load()
        keep = dict[str, float]()
        while load(network, keep, 1.0) > budget:
            plan = shedder.observe({one.name: 9.0 for one in network.outputs})
            keep = plan.keep
        by_slope = sum(one.loss_tolerance.utility(plan.delivered[one.name]) for one in network.outputs)
        entry = found.entry(found.find(network.load() - budget, network.rates))
        lost.append(100.0 * (entry.utility - by_slope) / len(network.outputs))
    assert min(lost) > 1.0


def test_settings_that_cannot_be_used_are_refused() -> None:
    network = two_outputs()
    with pytest.raises(PenstockError, match="step_percent = 0 is not usable: give a number above 0 up to 100"):
        DynamicShedder(network, step_percent=0)
    with pytest.raises(PenstockError, match="relief = 2 is not usable"):
        DynamicShedder(network, relief=2)
    blind = Network(network.inputs, network.boxes, [replace(one, latency=None) for one in network.outputs])
    with pytest.raises(PenstockError, match="latency is missing: dynamic shedding needs an output with a delay graph"):
        DynamicShedder(blind)
