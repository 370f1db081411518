import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.fairness.jain import fairness, jain
from penstock.errors import PenstockError

VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


@given(VALUES)
def test_the_index_lies_between_one_over_n_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1.0 + 1e-9


@given(VALUES, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: list[float], factor: float) -> None:
    assert jain([factor * value for value in values]) == pytest.approx(jain(values))


def test_a_share_of_queries_with_everything_is_the_index() -> None:
    assert jain([0.5] * 3 + [0.0] * 7) == pytest.approx(0.3)


def test_a_steady_run() -> None:
    steady = fairness([[0.3, 0.3], [0.3, 0.3]])

    assert (steady.jain, steady.jain_instant, steady.oscillation, steady.oscillation_share) == (1.0, 1.0, 0.0, 0.0)
    assert (steady.mean, steady.poorest, steady.poorest_instant, steady.std) == (0.3, 0.3, 0.3, 0.0)


def test_queries_that_are_rich_in_turn() -> None:
    swinging = fairness([[0.6, 0.2], [0.2, 0.6]])

    assert swinging.jain == 1.0
    assert swinging.jain_instant == pytest.approx(0.8)
    assert swinging.oscillation_share == pytest.approx(0.5)
    assert (swinging.poorest, swinging.poorest_instant) == pytest.approx((0.4, 0.2))


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(PenstockError, match="one value or more"):
        jain([])
    with pytest.raises(PenstockError, match="one instant or more"):
        fairness([])
