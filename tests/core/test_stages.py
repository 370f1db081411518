"""A network in stages: which boxes belong to which, and which of them cost anything."""

from tests.core.networks import figure_4

from penstock.core.network.stages import LEAST_COST_S, StagedNetwork

STAGED = StagedNetwork(figure_4(), [("b6", frozenset({"b6", "b7"}))])


def test_every_box_belongs_to_one_stage() -> None:
    assert STAGED.first == {"b1", "b2", "b3", "b4", "b5"}
    assert STAGED.further == {"b6": {"b6", "b7"}}
    assert len(StagedNetwork(figure_4(), []).first) == len(figure_4().boxes)


def test_the_places_above_a_box_reach_back_to_the_inputs() -> None:
    into = figure_4().into
    assert STAGED.upstream["b2"] == {"I1", into["b1"][0].name, into["b2"][0].name}
    assert {"I1", "I2", into["b4"][0].name, into["b5"][0].name} <= STAGED.upstream["b7"]
    assert into["b2"][0].name not in STAGED.upstream["b7"]


def test_only_the_boxes_of_the_measured_stage_cost_anything() -> None:
    costs = {box.name: 0.5 for box in figure_4().boxes}
    found = STAGED.measured(STAGED.further["b6"], {"I1": 3.0, "I2": 4.0}, costs, {"b1": 0.25})
    assert found.rates == {"I1": 3.0, "I2": 4.0}
    boxes = {box.name: box for box in found.boxes}
    assert {name for name, box in boxes.items() if box.cost > LEAST_COST_S} == {"b6", "b7"}
    assert (boxes["b1"].selectivity, boxes["b2"].selectivity) == (0.25, 0.6), "measured, and given"
