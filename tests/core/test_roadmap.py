import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.networks import LINE, figure_4, irregular

from penstock.core.exact import best
from penstock.core.network import Box, Input, Network, Output
from penstock.core.roadmap import RoadMap, build
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


@pytest.mark.parametrize("placement", ["single", "group"])
@pytest.mark.parametrize("sharing", [0.0, 0.3])
def test_every_entry_says_what_its_drops_do(sharing: float, placement: str) -> None:
    network = irregular(6, seed=1, sharing=sharing)
    roadmap = build(network, step=0.1, placement=placement)  # type: ignore[arg-type]
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
    assert optimum - 1e-6 <= loss(build(network)) <= optimum + 0.3
    assert loss(build(network, placement="group")) > optimum


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
    with pytest.raises(PenstockError, match="objective = 'min' is not usable: give one of sum, max_min"):
        best(FIGURE_4, 100.0, objective="min")  # type: ignore[arg-type]
