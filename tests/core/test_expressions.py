import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.network.expressions import Narrowed, checked, narrowed, peeled, repeatable, substituted
from penstock.core.network.intervals import Interval, IntervalSet
from penstock.errors import PenstockError

#: Ends of sets, and values between any two of them; all of them sums of powers of two, so that floats are exact.
VALUES = np.arange(-8.0, 8.25, 0.25)
CONSTANTS = st.integers(-4, 4).map(lambda number: number / 2.0)
FACTORS = st.sampled_from([-4.0, -1.0, -0.5, 0.25, 1.0, 2.0])

Function = Callable[[np.ndarray], np.ndarray]


@st.composite
def arithmetic(draw: st.DrawFn, core: str = "value") -> tuple[str, Function]:
    """An expression with an inverse, and the same in Python."""
    sql, function = core, lambda values: values
    for _ in range(draw(st.integers(0, 4))):
        number, factor = draw(CONSTANTS), draw(FACTORS)
        sql, step = draw(
            st.sampled_from(
                [
                    (f"({sql}) + {number}", lambda values, by=number: values + by),
                    (f"{number} + ({sql})", lambda values, by=number: values + by),
                    (f"({sql}) - {number}", lambda values, by=number: values - by),
                    (f"{number} - ({sql})", lambda values, by=number: by - values),
                    (f"({sql}) * {factor}", lambda values, by=factor: values * by),
                    (f"{factor} * ({sql})", lambda values, by=factor: values * by),
                    (f"({sql}) / {factor}", lambda values, by=factor: values / by),
                    (f"-({sql})", lambda values: -values),
                    (f"CAST({sql} AS DOUBLE)", lambda values: values),
                ]
            )
        )
        function = lambda values, before=function, then=step: then(before(values))  # noqa: E731 - chained on the way
    return sql, function


@given(arithmetic(), CONSTANTS, CONSTANTS, st.tuples(st.booleans(), st.booleans()))
def test_a_set_is_moved_back_through_arithmetic_to_the_values_it_came_from(
    made: tuple[str, Function], one: float, two: float, is_open: tuple[bool, bool]
) -> None:
    sql, function = made
    wanted = IntervalSet.of(Interval(min(one, two), max(one, two), *is_open))
    found = peeled(sql)
    assert found is not None
    assert found.core == "value"
    assert found.back(wanted).has(VALUES).tolist() == wanted.has(function(VALUES)).tolist()
    assert found.there(found.back(wanted)) == wanted


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """A condition on the value, and the same in Python."""
    if depth and draw(st.booleans()):
        (left, one), (right, two) = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return draw(
            st.sampled_from(
                [
                    (f"({left}) AND ({right})", lambda values: one(values) & two(values)),
                    (f"({left}) OR ({right})", lambda values: one(values) | two(values)),
                    (f"NOT ({left})", lambda values: ~one(values)),
                ]
            )
        )
    sql, of = draw(arithmetic())
    low, high = draw(CONSTANTS), draw(CONSTANTS)
    return draw(
        st.sampled_from(
            [
                (f"{sql} > {low}", lambda values: of(values) > low),
                (f"{sql} >= {low}", lambda values: of(values) >= low),
                (f"{low} > {sql}", lambda values: of(values) < low),
                (f"{low} <= {sql}", lambda values: of(values) >= low),
                (f"{sql} = {low}", lambda values: of(values) == low),
                (f"{sql} <> {low}", lambda values: of(values) != low),
                (f"{sql} BETWEEN {low} AND {high}", lambda values: (of(values) >= low) & (of(values) <= high)),
                (f"{sql} IN ({low}, {high})", lambda values: (of(values) == low) | (of(values) == high)),
                (f"{sql} IS NOT NULL", lambda values: values == values),  # noqa: PLR0124 - all true
            ]
        )
    )


@given(conditions())
def test_a_condition_is_read_as_the_set_of_values_that_meet_it(made: tuple[str, Function]) -> None:
    where, function = made
    found = narrowed(where, "value")
    assert found.exact
    assert found.values.has(VALUES).tolist() == function(VALUES).tolist()


@pytest.mark.parametrize(
    "where",
    ["value > other", "kind = 'a'", "value > 1 OR kind = 'a'", "abs(value) > 1", "value IS NULL", "value % 2 = 0"],
)
def test_what_is_not_a_condition_on_the_value_alone_is_not_read_as_one(where: str) -> None:
    assert narrowed(where, "value") == Narrowed(IntervalSet.everything(), exact=False)


def test_of_conditions_that_must_all_hold_those_on_the_value_are_read() -> None:
    values, exact = narrowed("value > 1 AND kind = 'a' AND VALUE * 2 <= 8", "value")
    assert (str(values), exact) == ("(1, 4]", False)
    assert str(narrowed("abs(value) > 1", "ABS(value)").values) == "(1, inf)"


def test_ends_are_rounded_once_and_not_at_every_step() -> None:
    assert narrowed("value * 49 > 49", "value").values == IntervalSet.of(Interval(1.0, math.inf, low_open=True))
    assert narrowed("value / 3 * 0.1 >= 0.7", "value").values == IntervalSet.of(Interval(21.0, math.inf))


def test_columns_are_put_in_whatever_their_case_and_in_one_go() -> None:
    assert substituted("Value - other", {"value": "other - 1", "other": "value"}) == "(other - 1) - value"
    assert substituted("place.town", {"place": "x"}) is None
    assert substituted("value + 1", {"value": None}) is None
    assert substituted("value", {"value": "rand()"}) is None
    assert peeled("2 + 3") is None


@pytest.mark.parametrize("sql", ["rand() * value", "uuid()", "current_timestamp()", "count(1)", "sum(value) OVER ()"])
def test_what_would_not_be_the_same_upstream_is_told(sql: str) -> None:
    assert not repeatable(sql)
    assert substituted(sql, {}) is None


@pytest.mark.parametrize("sql", ["value >", "", "SELECT 1", "value > 3; value", "value other", "value > 3 ORDER BY x"])
def test_what_is_no_expression_is_refused_with_the_name_of_the_setting(sql: str) -> None:
    with pytest.raises(PenstockError, match=r"^where of hot = .* is not usable: give an expression in SQL"):
        checked(sql, "where of hot")
