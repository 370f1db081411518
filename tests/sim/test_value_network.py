import time

import numpy as np
import pytest

from penstock.core.network import roadmap
from penstock.sim.aurora.networks import shared, trees


@pytest.mark.parametrize("make", [trees, shared])
@pytest.mark.parametrize("seed", range(2))
def test_values_fare_under_every_entry_as_the_semantic_road_map_says(make: type, seed: int) -> None:
    made = make(np.random.default_rng(seed))
    found, load = made.semantic_map(), made.run(1.0).load
    savings = found.savings.sum(axis=1)
    assert savings[-1] == pytest.approx(load)
    for index in range(0, len(found), 25):
        entry = found.entry(index)
        outcome = made.run(1.0, made.kept(entry))
        assert load - outcome.load == pytest.approx(savings[index], abs=1e-6 * load)
        assert made.value_utility(outcome, 1.0) == pytest.approx(entry.utility, abs=1e-6)
        for output, rows in outcome.delivered.items():
            assert entry.delivered[output] == pytest.approx(100.0 * rows.sum() / made.full[output].sum(), abs=1e-4)


@pytest.mark.parametrize("excess", [0.22, 1.0, 3.0])
def test_a_semantic_road_map_loses_less_of_what_values_are_worth_than_a_random_one(excess: float) -> None:
    made = trees(np.random.default_rng(0))
    rate, capacity = 1.0 + excess, made.run(1.0).load
    rates = {one.name: rate for one in made.network.inputs}
    semantic, random = made.semantic_map(), roadmap.build(made.by_origin)
    by_value = made.run(rate, made.kept(semantic.entry(semantic.find(excess * capacity, rates))))
    at_random = made.run(rate, random.entry(random.find(excess * capacity, rates)).keep)
    assert max(by_value.load, at_random.load) <= capacity * (1.0 + 1e-9)
    assert made.value_utility(by_value, rate) > made.value_utility(at_random, rate) + 0.2


def test_a_semantic_road_map_is_built_in_less_than_a_second() -> None:
    took_s = []
    for seed in range(3):
        made = trees(np.random.default_rng(seed))
        begun_s = time.process_time()
        made.semantic_map()
        took_s.append(time.process_time() - begun_s)
    assert min(took_s) < 1.0


def test_a_share_may_be_given_for_all_rows_for_each_value_and_for_each_input() -> None:
    made = trees(np.random.default_rng(0))
    first = made.network.inputs[0].name
    halves = [0.5, np.full(101, 0.5), np.full((len(made.network.inputs), 101), 0.5)]
    assert len({made.run(1.0, {first: half}).load for half in halves}) == 1
    assert made.run(1.0, {first: 0.5}).load < made.run(1.0).load
