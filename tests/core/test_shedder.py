from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.core.shedding_nodes import Federation

from penstock.core.fairness.max_min_nodes import max_min_nodes
from penstock.core.fairness.shedder import BalanceSicShedder, Buffer, Known, RandomShedder, Shedder
from penstock.errors import PenstockError

QUERIES = 5
SHEDDERS: dict[str, Callable[[], Shedder]] = {
    "random": lambda: RandomShedder(seed=1),
    "balance_sic": lambda: BalanceSicShedder(seed=1),
}
ROWS = st.lists(
    st.tuples(
        st.integers(0, QUERIES - 1), st.integers(0, 50), st.floats(0.0, 0.01), st.floats(0.1, 4.0), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("name", SHEDDERS)
@given(st.lists(st.tuples(ROWS, st.floats(0.0, 300.0)), min_size=1, max_size=4), st.floats(0.0, 1.0))
@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_every_shedder_keeps_to_the_capacity_and_keeps_all_that_fits(
    name: str, calls: list[tuple[list[tuple[int, int, float, float, bool]], float]], told: float
) -> None:
    shedder, twin = SHEDDERS[name](), SHEDDERS[name]()
    known = Known.of([told, np.nan, 0.5, 0.0, 1.0])
    for call, (rows, capacity) in enumerate(calls):
        buffer = Buffer.of(*(list(column) for column in zip(*rows, strict=True)))
        kept = shedder.select(buffer, capacity, known, call / 4).kept

        assert kept.shape == buffer.tuples.shape
        assert ((kept >= 0) & (kept <= buffer.tuples)).all()
        assert kept @ buffer.work <= capacity * (1 + 1e-9) + 1e-6
        if buffer.total_work <= capacity:
            assert (kept == buffer.tuples).all()
        assert (twin.select(buffer, capacity, known, call / 4).kept == kept).all()
        assert shedder.name == name


def test_random_shedding_is_fair_to_tuples_over_time_and_not_to_queries() -> None:
    shedder = RandomShedder(seed=3)
    buffer = Buffer.of([0, 1, 1, 1], 80, 1e-3)
    kept = sum(shedder.select(buffer, 160, Known.nothing(2), call).kept for call in range(400))

    assert np.asarray(kept) / (80 * 400) == pytest.approx([0.5] * 4, abs=0.1)


def test_the_papers_shedder_is_fairer_than_chance_over_time_and_swings() -> None:
    federation = Federation.random(seed=11, nodes=6, queries=60, capacity=0.3)

    paper = federation.run(lambda node, _: BalanceSicShedder(seed=node))
    blind = federation.run(lambda node, _: RandomShedder(seed=node))

    assert blind.jain < paper.jain
    assert paper.jain_instant < 0.98 < paper.jain
    assert paper.oscillation_share > 0.1


def test_nodes_without_a_capacity_are_refused() -> None:
    with pytest.raises(PenstockError, match="one for each of 2 nodes"):
        max_min_nodes([1.0], owner=[0, 0], node=[0, 1], sic=[0.5, 0.5], work=[1.0, 1.0])


def test_the_optimum_of_nodes_raises_the_next_poorest_too() -> None:
    """A query alone on a narrow node is poor whatever is done; the others are not held down with it."""
    best = max_min_nodes([1.0, 8.0], owner=[0, 1, 2], node=[0, 1, 1], sic=[1.0, 1.0, 0.5], work=[10.0, 10.0, 10.0])

    assert best.sic == pytest.approx([0.1, 8.0 / 30.0, 8.0 / 30.0])
    assert best.levels == pytest.approx((0.1, 8.0 / 30.0))


@pytest.mark.parametrize(("sic", "work"), [(1e-9, 1.0), (1.0, 1e-9), (1.0, 1e9), (1e-9, 1e9)])
def test_the_optimum_of_nodes_does_not_depend_on_units(sic: float, work: float) -> None:
    owner, node, worth, cost = [0, 1, 2], [0, 1, 1], np.array([1.0, 1.0, 0.5]), np.array([10.0, 10.0, 10.0])
    best = max_min_nodes(np.array([1.0, 8.0]) * work, owner, node, worth * sic, cost * work)
    assert best.sic / sic == pytest.approx([0.1, 8.0 / 30.0, 8.0 / 30.0])
