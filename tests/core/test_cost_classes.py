import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.control.bucket_costs import BUCKETS, class_costs_s, cost_classes

COSTS_S = st.floats(1.01e-6, 4_000.0)


@given(COSTS_S)
def test_the_cost_of_a_class_is_within_two_percent_of_the_costs_in_it(cost_s: float) -> None:
    number = cost_classes(np.array([cost_s]))[0]
    assert abs(class_costs_s()[number] / cost_s - 1.0) < 0.02


@given(st.lists(st.floats(0.0, 1e9), min_size=2, max_size=20))
def test_a_dearer_row_is_never_in_a_cheaper_class(costs_s: list[float]) -> None:
    classes = cost_classes(np.sort(costs_s))
    assert (np.diff(classes) >= 0).all()
    assert classes.min() >= 0
    assert classes.max() < BUCKETS
