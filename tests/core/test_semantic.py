import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.judged_rows import NETWORKS, chain, fan_out, filter_box, graph, map_box, measured, run
from tests.core.networks import LINE, figure_4

from penstock.core.network import roadmap
from penstock.core.network.by_value.roadmap import Cell, Judged, SemanticRoadMap, bounds, build, estimated, subjects
from penstock.core.network.exact import best
from penstock.core.network.intervals import Interval, IntervalSet
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import ValueInterval, ValueQos
from penstock.errors import PenstockError

EXAMPLE = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
MAPS = {name: build(network, judged=measured(network), step=0.005) for name, network in NETWORKS.items()}
RATES = NETWORKS["fan_out"].rates


def saved(found: roadmap.RoadMap, network: Network) -> np.ndarray:
    return found.savings @ np.array([network.rates[name] for name in found.inputs])


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_fare_under_every_entry_as_it_says(name: str) -> None:
    network, found = NETWORKS[name], MAPS[name]
    whole = run(network)
    savings = saved(found, network)
    assert found.copy.network.load() == pytest.approx(whole.load, rel=1e-3)
    for index in [*range(0, len(found), 13), len(found) - 1]:
        entry = found.entry(index)
        under = run(network, entry)
        assert whole.load - under.load == pytest.approx(savings[index], abs=2e-3 * whole.load)
        utility = 0.0
        for output in network.outputs:
            percent = 100.0 * under.count(output.name) / whole.count(output.name)
            assert entry.delivered[output.name] == pytest.approx(percent, abs=0.2)
            utility += percent / 100.0 if output.value is None else under.worth(output) / whole.worth(output)
        assert entry.utility == pytest.approx(utility, abs=2e-3 * len(network.outputs))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(3))
def test_drops_of_one_cell_at_several_places_one_below_the_other_take_what_they_say(name: str, seed: int) -> None:
    network, found = NETWORKS[name], MAPS[name]
    shares = np.random.default_rng(seed).uniform(0.3, 1.0, len(found.copy.spots))
    at_random = {spot.place: share for spot, share in zip(found.copy.spots, shares, strict=True) if spot.label is None}
    under = run(network, roadmap.Entry({}, at_random, {}, 0.0, found.cuts.predicates(shares)))
    kept = {spot.arc: share for spot, share in zip(found.copy.spots, shares, strict=True)}
    copy, flow = found.copy.network, dict[str, float]()
    for node in copy.order:
        arcs = copy.into[node]
        leaving = sum(arc.selectivity * flow[arc.name] for arc in arcs) if arcs else copy.rates[node]
        for arc in copy.out_of[node]:
            flow[arc.name] = leaving * kept.get(node, 1.0) * kept.get(arc.name, 1.0)
    for output, parts in found.copy.outputs.items():
        rows = sum(flow[copy.into[part][0].name] for part in parts)
        assert under.count(output) == pytest.approx(rows, abs=4e-3 * sum(parts.values()))


@pytest.mark.parametrize("name", NETWORKS)
def test_entries_shed_more_and_more_until_nothing_is_worth_anything(name: str) -> None:
    network, found = NETWORKS[name], MAPS[name]
    assert (np.diff(saved(found, network)) > -1e-9).all()
    assert (np.diff(found.utility) < 1e-9).all()
    first = found.entry(0)
    assert (first.keep, first.predicates) == ({}, {})
    assert first.utility == pytest.approx(len(network.outputs))
    assert saved(found, network)[-1] == pytest.approx(network.load(), rel=1e-2)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("share", [0.15, 0.3, 0.5, 0.7, 0.9])
def test_the_road_map_is_next_to_the_best_drops_of_all(name: str, share: float) -> None:
    network, found = NETWORKS[name], MAPS[name]
    load = found.copy.network.load()
    optimum = best(found.copy.network, (1.0 - share) * load).utility / len(network.outputs)
    entry = found.entry(found.find(share * load, network.rates))
    assert optimum - 0.01 <= entry.utility / len(network.outputs) <= optimum + 1e-6


@pytest.mark.parametrize("name", NETWORKS)
def test_drops_by_value_lose_no_more_than_random_ones_that_save_as_much(name: str) -> None:
    network, found = NETWORKS[name], MAPS[name]
    random, whole, gained = roadmap.build(network, step=0.02), run(network), []
    for index in range(0, len(random), 5):
        under = run(network, random.entry(index))
        utility = sum(under.worth(one) / whole.worth(one) for one in network.outputs)
        entry = found.find(whole.load - under.load, network.rates)
        gained.append((found.utility[entry] - utility) / len(network.outputs))
    assert min(gained) > -0.005
    assert max(gained) > 0.05


@given(st.floats(0.0, 200.0), st.integers(0, 10_000), st.floats(1.0, 20.0), st.floats(1.0, 20.0))
def test_the_entry_found_saves_enough_wherever_the_cursor_stands(
    excess: float, cursor: int, rate_a: float, rate_b: float
) -> None:
    found = MAPS["fan_out"]
    index = found.find(excess, {"A": rate_a, "B": rate_b}, cursor)
    savings = found.savings @ np.array([rate_a, rate_b])
    assert index == found.find(excess, {"A": rate_a, "B": rate_b})
    assert savings[index] >= min(excess, savings[-1]) * (1.0 - 1e-9)


def single(output: Output, *boxes: Box) -> Network:
    return Network([Input("I", 10)], boxes, [output])


def keeping(found: SemanticRoadMap, percent: float, output: str = "O") -> roadmap.Entry:
    """The entry that delivers so many percent of an output's rows."""
    column = found.outputs.index(output)
    return found.entry(int(np.argmin(np.abs(found.delivered[:, column] - percent))))


def test_the_example_of_the_paper() -> None:
    found = build(single(Output("O", "work", LINE, EXAMPLE), Box("work", "map", ("I",), 10)))
    assert keeping(found, 80).predicates["I"].sql() == "value >= 25"
    assert keeping(found, 30).predicates["I"].sql() == "value > 75"
    assert keeping(found, 60).predicates["I"].sql() == "value > 50"
    assert keeping(found, 0).predicates["I"].sql() == "false"
    assert keeping(found, 60).utility == pytest.approx(0.8824, abs=1e-4)


def test_values_that_no_filter_lets_through_are_dropped_first_and_cost_nothing() -> None:
    found = MAPS["chain"]
    free = found.entry(found.find(0.2 * 10 * 4, {"I": 10}))
    assert free.predicates["I"].sql() == "value > 20"
    assert (free.utility, free.delivered) == (pytest.approx(1.0), {"O": pytest.approx(100.0)})


def test_values_that_never_came_are_dropped_in_their_turn() -> None:
    network = chain()
    cells = [Cell(one, share) for one, share in zip(bounds(network, "I"), (0.5, 0.0, 0.5), strict=True)]
    found = build(network, judged={"I": Judged("value", tuple(cells))})
    assert keeping(found, 99).predicates["I"].kept["I"].parts[0].low >= 50.0
    assert build(network, judged={"I": Judged("value", ())}).entry(0).utility == pytest.approx(1.0)


def test_where_outputs_judge_alike_an_input_is_judged_and_else_its_branches() -> None:
    assert subjects(NETWORKS["fan_out"]) == {"A": "value", "B": "value"}
    assert subjects(NETWORKS["forward"]) == {"I": "ABS(value - other)"}
    assert subjects(NETWORKS["mixed"]) == {"high->one": "value", "high->two": "other"}
    assert subjects(figure_4()) == {}
    assert set(MAPS["mixed"].places) == {"I", "high->three"}
    assert MAPS["fan_out"].places == ()
    assert [str(one) for one in bounds(NETWORKS["fan_out"], "B")] == [
        "(-inf, 30]",
        "(30, 40)",
        "[40, 55)",
        "[55, 80)",
        "[80, inf)",
    ]


def test_behind_a_union_rows_are_kept_by_the_input_they_come_from() -> None:
    places = {place for index in range(len(MAPS["fan_out"])) for place in MAPS["fan_out"].entry(index).predicates}
    assert {"A", "B"} < places
    assert places - {"A", "B"} <= {"high->scale", "high->turn", "high->Q"}
    both = [
        entry for index in range(len(MAPS["fan_out"])) if len((entry := MAPS["fan_out"].entry(index)).predicates) > 2
    ]
    assert any(
        len(set(entry.predicates["high->scale"].kept.values())) == 2
        for entry in both
        if "high->scale" in entry.predicates
    )


def test_a_network_judged_by_number_alone_has_the_random_road_map() -> None:
    semantic, random = build(figure_4()), roadmap.build(figure_4(), solver="greedy")
    assert semantic.utility == pytest.approx(random.utility)
    assert semantic.entry(40) == random.entry(40)


def test_a_join_is_judged_on_the_side_that_has_the_value() -> None:
    network = Network(
        [Input("A", 10), Input("B", 10)],
        [
            filter_box("hot", "A", "value > 40", 0.6),
            Box("pairs", "join", ("hot", "B"), 5.0, {"hot": 0.5, "B": 0.2}, on=("key",)),
            map_box("one", "pairs", "value * 2", cost=9.0),
            map_box("two", "pairs", "value", cost=1.0),
        ],
        [Output("O", "one", LINE, graph(0.1, 140.0, (0.0, 200.0))), Output("P", "two", LINE, graph(0.8, 60.0))],
    )
    found = build(network, judged={"A": Judged("value", even(network, "A"))})
    assert subjects(network) == {"A": "value"}
    assert found.places == ("B",)
    assert found.copy.network.load() == pytest.approx(network.load())
    # What comes of B's rows has values as A's rows have them, of which 20, 10 and 30 percent pass the filter.
    rows = np.array([rows for rows in found.copy.outputs["P"].values() if rows > 1e-6])
    assert rows / rows.sum() == pytest.approx(np.array([2, 1, 3]) / 6)
    assert found.entry(0).utility == pytest.approx(2.0)
    assert found.savings[-1] @ [10, 10] == pytest.approx(network.load())
    entries = [found.entry(index) for index in range(len(found))]
    assert any("pairs->one" in entry.predicates for entry in entries)
    assert all(
        set(entry.predicates["pairs->one"].kept) == {"A"} for entry in entries if "pairs->one" in entry.predicates
    )


def even(network: Network, place: str) -> tuple[Cell, ...]:
    values = (np.arange(1000) + 0.5) / 10.0
    return tuple(Cell(one, float(one.has(values).mean())) for one in bounds(network, place))


def test_a_join_on_the_value_is_judged_on_both_sides_and_not_behind() -> None:
    network = Network(
        [Input("A", 10), Input("B", 10)],
        [
            Box("pairs", "join", ("A", "B"), 5.0, 0.5, on=("value",)),
            map_box("one", "pairs", "value * 2"),
            map_box("two", "pairs", "value"),
        ],
        [Output("O", "one", LINE, graph(0.1, 140.0, (0.0, 200.0))), Output("P", "two", LINE, graph(0.8, 60.0))],
    )
    found = build(network)
    assert subjects(network) == {"A": "value", "B": "value"}
    assert {place for index in range(len(found)) for place in found.entry(index).predicates} == {"A", "B"}


def test_rows_of_one_input_that_come_changed_in_two_ways_are_not_told_apart_behind_a_union() -> None:
    network = Network(
        [Input("I", 10)],
        [
            map_box("up", "I", "value + 50"),
            map_box("down", "I", "value - 50"),
            Box("all", "union", ("up", "down"), 1.0),
            map_box("one", "all", "value"),
            map_box("two", "all", "value"),
        ],
        [Output("O", "one", LINE, graph(0.1, 50.0)), Output("P", "two", LINE, graph(0.8, 60.0))],
    )
    found = build(network)
    assert {place for index in range(len(found)) for place in found.entry(index).predicates} <= {
        "I",
        "I->up",
        "I->down",
    }
    assert saved(found, network)[-1] == pytest.approx(network.load())


def test_cells_are_estimated_from_histograms_and_selectivities() -> None:
    cells = estimated(single(Output("O", "high", LINE, EXAMPLE), filter_box("high", "I", "value > 10", 0.5)))["I"].cells
    assert [str(cell.values) for cell in cells] == ["(-inf, 10]", "(10, 50]", "(50, inf)"]
    assert [cell.share for cell in cells] == pytest.approx([0.5, 0.2, 0.3])


def test_each_filter_on_the_way_says_how_many_rows_it_stops() -> None:
    network = single(
        Output("O", "higher", LINE, EXAMPLE),
        filter_box("high", "I", "value > 10", 0.4),
        filter_box("higher", "high", "value > 30", 0.5),
    )
    assert [cell.share for cell in estimated(network)["I"].cells] == pytest.approx([0.6, 0.2, 0.08, 0.12])


def test_histograms_that_disagree_are_averaged() -> None:
    other = ValueQos("value", [ValueInterval(0, 50, 0.7), ValueInterval(50, 100, 1.0)], histogram=[0.8, 0.2])
    network = Network([Input("I", 10)], [], [Output("O", "I", LINE, EXAMPLE), Output("P", "I", LINE, other)])
    assert [cell.share for cell in estimated(network)["I"].cells] == pytest.approx([0.6, 0.4])


@pytest.mark.parametrize("name", ["chain", "fan_out"])
def test_estimates_meet_the_selectivities_that_hold(name: str) -> None:
    network = NETWORKS[name]
    # The histograms that hold, in the stead of those that were made up.
    arrived = run(network)
    outputs = []
    for one in network.outputs:
        assert one.value is not None
        parts = [
            ValueInterval(one.value.ends[0], bend(one), lowest(one)),
            ValueInterval(bend(one), one.value.ends[1], 1.0),
        ]
        below = sum(float(rows.weight[rows.columns["value"] <= bend(one)].sum()) for rows in arrived.arrived(one.name))
        counted = [below, arrived.count(one.name) - below]
        outputs.append(replace(one, value=ValueQos("value", parts, counted)))
    known = Network(network.inputs, network.boxes, outputs)
    copy = build(known).copy.network
    assert copy.load() == pytest.approx(network.load(), rel=0.05)


def bend(output: Output) -> float:
    assert output.value is not None
    return output.value.order[0].values.high


def lowest(output: Output) -> float:
    assert output.value is not None
    return output.value.order[0].utility


def test_a_filter_that_asks_for_more_than_the_value_lets_a_part_of_its_cells_through() -> None:
    network = single(
        Output("O", "high", LINE, EXAMPLE),
        filter_box("high", "I", "value > 50 AND other > 50", 0.25),
    )
    cells = (
        Cell(IntervalSet.of(Interval(-math.inf, 50)), 0.5),
        Cell(IntervalSet.of(Interval(50, math.inf, low_open=True)), 0.5),
    )
    found = build(network, judged={"I": Judged("value", cells)})
    free = found.entry(found.find(0.5 * 10 * 4, {"I": 10}))
    assert (free.predicates["I"].sql(), free.utility) == ("value > 50", pytest.approx(1.0))
    assert sum(found.copy.outputs["O"].values()) == pytest.approx(2.5)


def test_what_cannot_be_used_is_refused() -> None:
    network = fan_out()
    with pytest.raises(PenstockError, match=r"judged = \['C'\] is not usable: give places .*: A, B"):
        build(network, judged={"C": Judged("value", ())})
    cells = (Cell(IntervalSet.everything(), 1.0),)
    with pytest.raises(PenstockError, match="judged at A = 'other' is not usable: give cells of value"):
        build(network, judged={"A": Judged("other", cells)})
    with pytest.raises(
        PenstockError, match="place = 'I' is not usable: give one where rows are judged by value: high->one"
    ):
        bounds(NETWORKS["mixed"], "I")
    with pytest.raises(PenstockError, match="place = 'nowhere' is not usable"):
        bounds(NETWORKS["mixed"], "nowhere")
    with pytest.raises(PenstockError, match=r"step = 0\.02 is not usable"):
        build(network, drop_cost=1.0)
    with pytest.raises(PenstockError, match=r"^where of bad = 'value >' is not usable: give an expression in SQL"):
        subjects(single(Output("O", "bad", LINE, EXAMPLE), filter_box("bad", "I", "value >", 0.5)))
