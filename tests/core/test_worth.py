"""What rows are worth, in grades that a bucket can tell."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.balanced.worth import LEVELS, MOST_GRADES, Worth
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.hashing import bucket, xxhash64_ints
from penstock.core.network.qos import ValueInterval, ValueQos
from penstock.errors import PenstockError

PRICE = Worth("price", [(0, 50, 0.2), (50, 100, 1.0), (100, 200, 0.5)])


@given(key=st.integers(-(2**63), 2**63 - 1), value=st.floats(-10.0, 300.0))
def test_a_bucket_tells_the_grade_and_the_key(key: int, value: float) -> None:
    hashes = xxhash64_ints(np.array([key]))
    strata = PRICE.strata(hashes, np.array([value]))
    number = int(bucket(strata, BUCKETS)[0])
    assert PRICE.keys == 256  # three grades take the room of four
    assert number // PRICE.keys == PRICE.grade(np.array([value]))[0]
    assert number % PRICE.keys == int(hashes[0]) % PRICE.keys
    assert PRICE.by_bucket()[number] == PRICE.utilities[number // PRICE.keys]
    high_bits = ~np.int64(BUCKETS - 1)
    assert strata[0] & high_bits == hashes[0] & high_bits  # who deals rows by hash needs all of it


def test_ends_belong_to_the_interval_below() -> None:
    values = np.array([-math.inf, 0.0, 50.0, 50.000001, 100.0, 100.5, 200.0, math.inf])
    assert PRICE.grade(values).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]


def test_a_missing_value_is_the_least_useful() -> None:
    falling = Worth("age", [(0, 1, 1.0), (1, 2, 0.1)])
    assert falling.grade(np.array([math.nan])).tolist() == [1]


@given(st.floats(0.0, 1.0))
def test_a_column_of_utilities_is_rounded_to_the_nearest_level(utility: float) -> None:
    worth = Worth("utility")
    found = worth.utilities[worth.grade(np.array([utility]))[0]]
    assert (found > 0.0) == (utility > 0.0), "what is worth something is never taken for worth nothing"
    assert abs(found - max(utility, 0.5 / (LEVELS - 1) * (utility > 0.0))) <= 0.5 / (LEVELS - 1) + 1e-12


def test_a_graph_of_the_networks_will_do() -> None:
    graph = ValueQos("price", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
    assert Worth.of(graph) == Worth("price", [(0, 50, 0.2), (50, 100, 1.0)])
    sloping = ValueQos("price", [ValueInterval(0, 50, 0.0, 1.0)], histogram=[1.0], chunks=4)
    assert Worth.of(sloping).utilities == pytest.approx((0.125, 0.375, 0.625, 0.875))


@pytest.mark.parametrize(
    ("given_value", "words"),
    [
        ({"intervals": []}, "value = {'intervals': \\[\\]} is not usable: give a column of utilities"),
        (7, "value = 7 is not usable: give a column of utilities"),
        ("", "value = '' is not usable: give the name of a column"),
        (
            {"column": "a", "intervals": [(0, 1, 2.0)]},
            "intervals = .* is not usable: give a list of low end, high end and a util",
        ),
        (
            {"column": "a", "intervals": [(0, 1)]},
            "intervals = .* is not usable: give a list of low end, high end and a",
        ),
        ({"column": "a", "intervals": 5}, "intervals = 5 is not usable: give a list such as"),
        ({"column": "a", "intervals": (0, 50, 0.2)}, "intervals = 0 is not usable: give a list of low end"),
        ({"column": "a", "intervals": [(0, 10**400, 1)]}, "is not usable: give a list of low end"),
        ({"column": "a", "intervals": [(0, 1, 0.0)]}, "intervals = .* is not usable: give a utility above 0"),
        (
            {"column": "a", "intervals": [(0, 1, 0.5), (2, 3, 1.0)]},
            "give a range that begins at 1.0, where the last ends",
        ),
        ({"column": "a", "intervals": [(k, k + 1, 0.5) for k in range(MOST_GRADES + 1)]}, "give at most 64 intervals"),
    ],
)
def test_what_is_no_worth_is_refused(given_value: object, words: str) -> None:
    with pytest.raises(PenstockError, match=words):
        Worth.of(given_value)
