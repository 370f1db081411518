"""The road map of a running network: when it is built, and in which units it is looked up."""

from dataclasses import replace

import pytest
from tests.core.networks import example_with_values, figure_4

from penstock.core.network.by_value.histograms import BATCHES
from penstock.core.network.current_map import CurrentMap
from penstock.core.network.model import Network
from penstock.messages.report import PlaceRows, Report


def measured(place: str, quantiles: tuple[float, ...]) -> Report:
    rows = PlaceRows(10, 10, quantiles=quantiles)
    return Report(sequence=0, start_s=0.0, end_s=1.0, rows_in=10, rows_kept=10, sources={place: rows})


def test_a_map_is_built_at_the_first_overload_and_kept_while_nothing_drifts() -> None:
    network = figure_4()
    found = CurrentMap(network, "auto", "sum", by_value=False)
    assert (found.built, found.subjects, found.scale(network)) == (0, {}, 1.0)
    index, entries, entry = found.find(0.3 * network.load(), network, cursor=10**6)
    assert 0 < index < entries
    assert sum(rate * entry.savings[name] for name, rate in network.rates.items()) >= 0.3 * network.load()
    assert found.find(0.3 * network.load(), network, cursor=0) == (index, entries, entry)
    assert found.built == 1


def test_if_all_costs_double_the_map_stays_and_its_savings_count_twice() -> None:
    network = figure_4()
    dear = Network(network.inputs, [replace(box, cost=2.0 * box.cost) for box in network.boxes], network.outputs)
    found = CurrentMap(network, "auto", "sum", by_value=False)
    index, _, _ = found.find(0.3 * network.load(), network, 0)
    assert found.find(0.3 * dear.load(), dear, 0)[0] == index
    assert (found.built, found.scale(dear)) == (1, pytest.approx(2.0))


def test_a_map_by_value_is_built_again_when_the_values_move() -> None:
    network = example_with_values()
    found = CurrentMap(network, "auto", "sum", by_value=True)
    (place, *_) = found.subjects
    for top, built in ((100.0, 1), (100.0, 1), (40.0, 2)):
        for _ in range(BATCHES):
            found.learn(measured(place, tuple(top * step / 20 for step in range(21))))
        found.find(0.3 * network.load(), network, 0)
        assert found.built == built


def test_values_are_nothing_to_a_map_of_random_drops() -> None:
    network = example_with_values()
    found = CurrentMap(network, "auto", "sum", by_value=False)
    for top in (100.0, 40.0):
        found.learn(measured("I", (0.0, top)))
        found.find(0.3 * network.load(), network, 0)
    assert found.built == 1
