import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.network.intervals import Interval, IntervalSet, union
from penstock.errors import PenstockError

ENDS = st.integers(-6, 6).map(float) | st.sampled_from([-math.inf, math.inf])
INTERVALS = st.builds(
    lambda ends, low_open, high_open: Interval(min(ends), max(ends), low_open, high_open),
    st.tuples(ENDS, ENDS).filter(lambda ends: math.isfinite(min(map(abs, ends))) or ends[0] != ends[1]),
    st.booleans(),
    st.booleans(),
)
SETS = st.lists(INTERVALS, max_size=4).map(lambda parts: IntervalSet.of(*parts))
#: All ends, and a value between any two of them.
VALUES = np.arange(-7.0, 7.5, 0.5)


@given(SETS, SETS)
def test_sets_are_joined_cut_and_turned_around_value_by_value(one: IntervalSet, two: IntervalSet) -> None:
    in_one, in_two = one.has(VALUES), two.has(VALUES)
    assert np.array_equal((one | two).has(VALUES), in_one | in_two)
    assert np.array_equal((one & two).has(VALUES), in_one & in_two)
    assert np.array_equal((one - two).has(VALUES), in_one & ~in_two)
    assert np.array_equal((~one).has(VALUES), ~in_one)
    assert np.array_equal(union([one, two]).has(VALUES), in_one | in_two)


@given(SETS)
def test_equal_sets_have_equal_parts(one: IntervalSet) -> None:
    assert ~~one == one | one == one & one
    for before, after in zip(one.parts, one.parts[1:], strict=False):
        assert not before.touches(after)


@given(SETS)
def test_the_condition_in_sql_says_the_same(one: IntervalSet) -> None:
    condition = one.sql("value").replace(" AND ", " and ").replace(" OR ", " or ").replace(" = ", " == ")
    condition = condition.replace("value IS NOT NULL", "True").replace("false", "False")
    found = [bool(eval(condition, {"value": value})) for value in VALUES.tolist()]  # noqa: S307 - our own words
    assert found == one.has(VALUES).tolist()


@pytest.mark.parametrize("ends", [(2.0, 1.0), (math.nan, 1.0)])
def test_ends_the_wrong_way_round_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(PenstockError, match="give two numbers, the lower one first"):
        Interval(*ends)
