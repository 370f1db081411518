import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.carried_weight import CarriedWeight

COSTS = st.floats(0, 1e9) | st.sampled_from([0.0, 5e-324, 1e-9, 1e12])
ROWS = st.lists(st.tuples(st.booleans(), COSTS, st.integers(1, 9)), max_size=100)


@given(ROWS)
def test_weights_of_kept_rows_and_weight_carried_add_up_to_all_rows(rows: list[tuple[bool, float, int]]) -> None:
    carry = CarriedWeight()
    offered = kept = 0.0
    for keep, cost_s, weight in rows:
        offered += weight
        if keep:
            new = carry.keep(cost_s, weight)
            assert new >= weight
            kept += new
        else:
            carry.drop(cost_s, weight)
        assert kept + carry.total == offered


@pytest.mark.parametrize(("near_s", "far_s"), [(0.011, 0.016), (0.012, 0.004), (0.00876, 1.0)])
def test_a_dropped_row_is_stood_for_by_the_next_one_that_costs_about_the_same(near_s: float, far_s: float) -> None:
    carry = CarriedWeight()
    carry.drop(cost_s=0.010, weight=3.0)
    assert carry.keep(cost_s=far_s, weight=1.0) == 1.0
    assert carry.keep(cost_s=near_s, weight=1.0) == 4.0
    assert carry.keep(cost_s=near_s, weight=1.0) == 1.0
    assert carry.total == 0.0


def test_costs_beyond_the_classes_share_the_outermost_ones() -> None:
    carry = CarriedWeight()
    carry.drop(cost_s=0.0, weight=1.0)
    carry.drop(cost_s=1e-30, weight=1.0)
    carry.drop(cost_s=1e6, weight=1.0)
    assert carry.keep(cost_s=1e-9, weight=1.0) == 3.0
    assert carry.keep(cost_s=1e12, weight=1.0) == 2.0


def test_memory_does_not_grow() -> None:
    carry = CarriedWeight()
    before = carry.memory_bytes
    for exponent in range(-40, 40):
        carry.drop(2.0**exponent, 1.0)
    assert carry.memory_bytes == before < 1024
    assert carry.total == 80.0
