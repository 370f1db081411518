import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.networks import LINE, figure_4, irregular, of_all_sizes

from penstock.core.control.density import Classes, allot
from penstock.core.network.drops import Shedding, Skeleton
from penstock.core.network.exact import Objective, best
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import LossTolerance
from penstock.core.network.roadmap import RoadMap, build
from penstock.errors import PenstockError

FIGURE_4 = figure_4()
ROADMAP = build(FIGURE_4)
RATES = np.array(list(FIGURE_4.rates.values()))


def recomputed(network: Network, keep: dict[str, float]) -> tuple[float, dict[str, float]]:
    """Load and percentages delivered under drops, row by row along the network, without the road map's book-keeping."""
    full, flow, leaving = network.flows(), dict[str, float](), dict[str, float]()
    for name in network.order:
        arcs = network.into[name]
        leaving[name] = sum(arc.selectivity * flow[arc.name] for arc in arcs) if arcs else network.rates[name]
        leaving[name] *= keep.get(name, 1.0)
        for arc in network.out_of[name]:
            flow[arc.name] = leaving[name] * keep.get(arc.name, 1.0)
    load = sum(arc.cost * flow[arc.name] for arc in network.arcs)
    into = {one.name: network.into[one.name][0].name for one in network.outputs}
    return load, {name: 100.0 * flow[arc] / full[arc] for name, arc in into.items()}


@pytest.mark.parametrize(
    "how",
    [
        {"solver": "greedy"},
        {"solver": "greedy", "placement": "group"},
        {"solver": "exact"},
        {"solver": "exact", "objective": "max_min"},
        {"solver": "exact", "objective": "balanced"},
    ],
)
@pytest.mark.parametrize("sharing", [0.0, 0.3])
def test_every_entry_says_what_its_drops_do(sharing: float, how: dict[str, Any]) -> None:
    network = irregular(6, seed=1, sharing=sharing)
    roadmap = build(network, step=0.1, **how)
    rates = np.array(list(network.rates.values()))
    graphs = {one.name: one.loss_tolerance for one in network.outputs}
    for index in range(len(roadmap)):
        entry = roadmap.entry(index)
        load, delivered = recomputed(network, entry.keep)
        assert network.load() - roadmap.savings[index] @ rates == pytest.approx(load, abs=1e-6 * network.load())
        assert entry.delivered == pytest.approx(delivered, abs=1e-5)
        assert entry.utility == pytest.approx(sum(graphs[name].utility(delivered[name]) for name in delivered))


def test_it_begins_with_nothing_dropped_and_ends_with_everything() -> None:
    first, last = ROADMAP.entry(0), ROADMAP.entry(len(ROADMAP) - 1)
    assert (first.keep, first.utility) == ({}, 2.0)
    assert set(last.delivered.values()) == {0.0}
    assert ROADMAP.savings[-1] @ RATES == pytest.approx(640.0)
    assert (np.diff(ROADMAP.savings @ RATES) > -1e-9).all()
    assert (np.diff(ROADMAP.utility) < 1e-9).all()
    assert ROADMAP.places == ("I1", "I2", "b1->b2", "b1->b4")


@given(st.floats(0.0, 700.0), st.integers(0, len(ROADMAP) - 1), st.floats(1.0, 30.0), st.floats(1.0, 30.0))
def test_the_entry_found_is_the_first_that_saves_enough_wherever_the_cursor_stands(
    excess: float, cursor: int, rate_1: float, rate_2: float
) -> None:
    found = ROADMAP.find(excess, {"I1": rate_1, "I2": rate_2}, cursor)
    savings = ROADMAP.savings @ np.array([rate_1, rate_2])
    if savings.max() >= excess:
        assert savings[found] >= excess * (1.0 - 1e-9)
        assert found == 0 or savings[found - 1] < excess
    else:
        assert found == len(ROADMAP) - 1


def test_a_drop_above_another_one_makes_that_smaller() -> None:
    """Drop k at A where B already drops l > k: B then drops what is left to l."""
    network = Network(
        [Input("I", 10)],
        [Box("a", "map", ("I",), 1), Box("b", "map", ("a",), 1), Box("c", "map", ("a",), 1)],
        [Output("B", "b", LINE), Output("C", "c", LINE)],
    )
    roadmap = build(network, step=0.1)
    keeps = [roadmap.entry(index) for index in range(len(roadmap))]
    for entry in keeps:
        for output, arc in (("B", "a->b"), ("C", "a->c")):
            through = entry.keep.get("I", 1.0) * entry.keep.get(arc, 1.0)
            assert 100.0 * through == pytest.approx(entry.delivered[output], abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_greedy_road_map_is_next_to_the_optimum_and_beats_drops_alike_on_all_inputs_of_a_query(
    seed: int, share: float
) -> None:
    network = irregular(10, seed)
    load = network.load()

    def loss(roadmap: RoadMap) -> float:
        return 100.0 * (1.0 - roadmap.utility[roadmap.find(share * load, network.rates)] / len(network.outputs))

    optimum = 100.0 * (1.0 - best(network, (1.0 - share) * load).utility / len(network.outputs))
    assert optimum - 1e-6 <= loss(build(network, solver="greedy")) <= optimum + 0.3
    assert loss(build(network, placement="group")) > optimum


@pytest.mark.parametrize("seed", range(6))
def test_where_queries_share_rows_the_map_is_next_to_the_optimum_and_the_greedy_way_may_not_be(seed: int) -> None:
    network = irregular(10, seed, sharing=0.3)
    load, gaps = network.load(), dict[str, list[float]](auto=[], greedy=[])
    for solver, found in gaps.items():
        roadmap = build(network, solver=solver)  # type: ignore[arg-type]
        for share in np.linspace(0.05, 0.95, 10):
            entry = roadmap.find(share * load, network.rates)
            optimum = best(network, (1.0 - share) * load).utility
            found.append(100.0 * (optimum - roadmap.utility[entry]) / len(network.outputs))
    assert -1e-6 <= min(gaps["auto"]) <= max(gaps["auto"]) <= 0.3
    assert max(gaps["greedy"]) > max(gaps["auto"])


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_the_exact_solver_is_never_below_the_greedy_one_whatever_the_size_of_rates_and_costs(
    seed: int, *, narrow: bool
) -> None:
    """Rates and costs from 1e-9 to 1e9, selectivities down to 1e-9; `narrow`: a millionth of a percent may count."""
    network = of_all_sizes(seed, narrow=narrow)
    bones, greedy = Skeleton(network), build(network, solver="greedy", step=0.1)
    for share in (1e-6, 0.1, 0.5, 0.9, 0.9999):
        entry = greedy.entry(greedy.find(share * network.load(), network.rates))
        budget, _ = bones.under(entry.keep)
        optimum = best(network, budget)
        assert optimum.utility >= entry.utility - 1e-7
        assert bones.under(optimum.keep)[0] <= budget * (1.0 + 1e-7)


def test_an_output_of_few_rows_is_not_shut_off() -> None:
    """Alerts of one row in ten billion, beside a dear output, at twice the load that fits."""
    network = Network(
        [Input("I", 1000)],
        [
            Box("parse", "map", ("I",), 1e-3),
            Box("alert", "filter", ("parse",), 1e-5, 1e-10),
            Box("report", "map", ("parse",), 1e-3),
        ],
        [Output("alerts", "alert", LINE), Output("reports", "report", LINE)],
    )
    optimum = best(network, 0.5 * network.load())
    greedy = build(network, solver="greedy")
    entry = greedy.entry(greedy.find(0.5 * network.load(), network.rates))
    assert optimum.utility >= entry.utility > 0.9
    for objective in ("balanced", "max_min"):
        fair = best(network, 0.5 * network.load(), objective=objective).delivered
        assert fair["alerts"] >= fair["reports"] > 0.0


@pytest.mark.parametrize("objective", ["sum", "balanced", "max_min"])
def test_the_best_drops_do_not_depend_on_units(objective: Objective) -> None:
    network = irregular(5, seed=3, sharing=0.3)
    shares = []
    for rate, cost in ((1.0, 1.0), (1e-9, 1.0), (1e9, 1e9), (1e-9, 1e-9)):
        scaled = Network(
            [Input(one.name, one.rate * rate) for one in network.inputs],
            [replace(box, cost=box.cost * cost) for box in network.boxes],
            network.outputs,
        )
        shares.append(best(scaled, 0.4 * scaled.load(), objective=objective).utility)
    assert shares == pytest.approx([shares[0]] * 4, abs=1e-6)


@pytest.mark.parametrize("solver", ["greedy", "exact"])
def test_savings_grow_and_utility_falls_along_the_map(solver: str) -> None:
    network = irregular(10, 3, sharing=0.3)
    roadmap = build(network, solver=solver)  # type: ignore[arg-type]
    savings = roadmap.savings @ np.array(list(network.rates.values()))
    assert savings[0] == pytest.approx(0.0, abs=1e-6 * network.load())
    assert savings[-1] == pytest.approx(network.load())
    assert 0.0 < np.diff(savings).min() <= np.diff(savings).max() <= 0.0011 * network.load()
    assert (np.diff(roadmap.utility) < 1e-9).all()


def test_a_map_by_max_min_lifts_the_worst_query_at_every_load() -> None:
    network = irregular(8, 0)
    graphs = {one.name: one.loss_tolerance for one in network.outputs}

    def worst(roadmap: RoadMap, share: float) -> float:
        entry = roadmap.entry(roadmap.find(share * network.load(), network.rates))
        return min(graphs[name].utility(percent) for name, percent in entry.delivered.items())

    by_sum, by_worst = build(network), build(network, objective="max_min")
    for share in (0.3, 0.5, 0.7, 0.9):
        budget = (1.0 - share) * network.load()
        best_worst = min(best(network, budget, objective="max_min").utilities.values())
        assert worst(by_sum, share) < worst(by_worst, share)
        assert worst(by_worst, share) == pytest.approx(best_worst, abs=0.01)


def test_balanced_is_proportional_fairness() -> None:
    """Without sharing it is what `core.control.density` finds for alpha 1, up to the chords of the logarithm."""
    rates, costs = [10.0, 20.0, 5.0, 40.0], [1.0, 2.0, 30.0, 4.0]
    network = Network(
        [Input(f"I{number}", rate) for number, rate in enumerate(rates)],
        [Box(f"b{number}", "map", (f"I{number}",), cost) for number, cost in enumerate(costs)],
        [Output(f"O{number}", f"b{number}", LINE) for number in range(4)],
    )
    classes = Classes(rows=np.array(rates), costs_s=np.array(costs), query=np.arange(4))
    for share in (0.1, 0.3, 0.6, 0.9):
        budget = share * network.load()
        found = best(network, budget, objective="balanced").utilities
        expected = allot(classes, budget, alpha=1.0, min_keep=0.0).delivered
        assert list(found.values()) == pytest.approx(expected.tolist(), rel=0.08)
        assert sum(np.log(list(found.values()))) >= sum(np.log(expected)) - 0.01


def test_a_balanced_map_lies_between_sum_and_max_min() -> None:
    network = irregular(8, 0, sharing=0.3)
    graphs = {one.name: one.loss_tolerance for one in network.outputs}
    maps = {objective: build(network, objective=objective) for objective in ("sum", "balanced", "max_min")}
    for share in (0.5, 0.7, 0.9):
        found = {}
        for objective, made in maps.items():
            entry = made.entry(made.find(share * network.load(), network.rates))
            found[objective] = [graphs[name].utility(percent) for name, percent in entry.delivered.items()]
        total = [sum(found[one]) for one in maps]
        assert total[0] >= total[1] - 0.02 >= total[2] - 0.04
        assert min(found["sum"]) - 0.01 <= min(found["balanced"]) <= min(found["max_min"]) + 0.01
        logs = {one: sum(np.log(np.maximum(values, 1e-3))) for one, values in found.items()}
        assert logs["balanced"] >= max(logs.values()) - 0.05


def test_a_branch_that_has_a_drop_of_its_own_no_longer_counts_upstream_of_it() -> None:
    """Once `b` is shed alone, the next row at the input costs what `c` loses and saves what `a` and `c` do with it."""
    network = Network(
        [Input("I", 10)],
        [Box("a", "map", ("I",), 1), Box("b", "map", ("a",), 9), Box("c", "map", ("a",), 1)],
        [Output("B", "b", LossTolerance([(100, 1.0), (50, 1.0), (0, 0.0)])), Output("C", "c", LINE)],
    )
    state = Shedding(Skeleton(network))
    assert state.ratio([0]) == pytest.approx((0.0 + 0.1) / 11.0)
    changed = state.take([1])
    assert 0 in changed
    assert state.ratio([0]) == pytest.approx(0.1 / 2.0)


def test_a_map_of_a_thousand_boxes_is_built_in_less_than_a_second_and_read_in_100_microseconds() -> None:
    network = irregular(100, 0)
    assert len(network.boxes) == 1000
    _ = network.order, network.coefficients
    took = []
    for _ in range(3):
        started = time.process_time()
        roadmap = build(network)
        took.append(time.process_time() - started)
    assert min(took) < 1.0
    rates, load, looks = network.rates, network.load(), []
    for share in np.linspace(0.0, 1.0, 101).tolist():
        started = time.process_time()
        roadmap.find(share * load, rates, cursor=len(roadmap) // 2)
        looks.append(time.process_time() - started)
    assert float(np.median(looks)) < 100e-6


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_feasible_and_max_min_lifts_the_worst_query(seed: int) -> None:
    network = irregular(8, seed, sharing=0.3)
    budget = 0.3 * network.load()
    by_sum, by_worst = best(network, budget), best(network, budget, objective="max_min")
    for found in (by_sum, by_worst):
        load, delivered = recomputed(network, found.keep)
        assert load <= budget * (1.0 + 1e-6)
        assert delivered == pytest.approx(found.delivered, abs=1e-4)
    assert min(by_worst.utilities.values()) > min(by_sum.utilities.values())
    assert by_worst.utility <= by_sum.utility + 1e-6


def test_settings_that_make_no_road_map_are_refused() -> None:
    with pytest.raises(PenstockError, match=r"step = 0\.02 is not usable: give a share above 0\.2, drop cost over"):
        build(FIGURE_4, drop_cost=1.0)
    with pytest.raises(PenstockError, match="placement = 'all' is not usable: give one of single, group"):
        build(FIGURE_4, placement="all")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="solver = 'best' is not usable: give one of auto, greedy, exact"):
        build(FIGURE_4, solver="best")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="objective = 'mean' is not usable: give one of sum, balanced, max_min"):
        build(FIGURE_4, objective="mean")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="objective = 'min' is not usable: give one of sum, balanced, max_min"):
        best(FIGURE_4, 100.0, objective="min")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", [{"solver": "greedy"}, {"placement": "group"}, {"solver": "exact"}])
def test_silent_inputs_free_boxes_and_filters_that_pass_nothing_make_a_map_all_the_same(
    seed: int, how: dict[str, Any]
) -> None:
    rng = np.random.default_rng(seed)
    network = irregular(4, seed, sharing=0.3)
    boxes = [
        replace(
            box,
            cost=0.0 if rng.random() < 0.2 else box.cost,
            selectivity=0.0 if rng.random() < 0.1 else box.selectivity,
        )
        for box in network.boxes
    ]
    network = Network(network.inputs, boxes, network.outputs)
    rates = {name: 0.0 if seed == 0 or rng.random() < 0.2 else rate for name, rate in network.rates.items()}
    roadmap, bones = build(network, rates, **how), Skeleton(network, rates)
    for index in range(0, len(roadmap), 10):
        entry = roadmap.entry(index)
        load, delivered = bones.under(entry.keep)
        saved = sum(rates[name] * entry.savings[name] for name in rates)
        assert bones.load - saved == pytest.approx(load, abs=1e-6 * bones.load)
        assert entry.delivered == pytest.approx(delivered, abs=1e-4)
