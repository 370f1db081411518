import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.errors import PenstockError

#: Bucket, cost and weight of each executed row; quarters, whose sums are exact.
ROWS = st.lists(
    st.tuples(st.integers(0, BUCKETS - 1), st.integers(0, 100).map(lambda n: n / 4), st.integers(1, 100)), max_size=20
)
Rows = list[tuple[int, float, int]]


def learned(rows: Rows) -> BucketCosts:
    costs = BucketCosts()
    if rows:
        buckets, costs_s, weights = (np.array(column) for column in zip(*rows, strict=True))
        costs.add(buckets, costs_s, weights.astype(np.float64))
    return costs


def same(one: BucketCosts, other: BucketCosts) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("rows", "weight", "work_s"))


@given(ROWS)
def test_bytes_there_and_back(rows: Rows) -> None:
    costs = learned(rows)
    data = costs.to_bytes()
    assert same(BucketCosts.from_bytes(data), costs)
    assert len(data) == 14 * len({bucket for bucket, _, _ in rows})


@given(ROWS, ROWS, ROWS)
def test_tasks_add_up_in_any_order_and_grouping(first: Rows, second: Rows, third: Rows) -> None:
    left, right, pair = learned(first), learned(third), learned(second)
    left.merge(learned(second))
    left.merge(learned(third))
    pair.merge(learned(first))
    right.merge(pair)
    assert same(left, right)
    assert same(left, learned(first + second + third))


def test_the_mean_is_of_rows_that_came_in_and_not_of_rows_kept() -> None:
    costs = learned([(1, 1.0, 1), (1, 1.0, 1), (2, 4.0, 4)])  # three of four rows of bucket 2 were shed
    assert costs.mean_s == pytest.approx((2 * 1.0 + 4 * 4.0) / 6)
    assert costs.frequencies()[[1, 2]] == pytest.approx([2 / 6, 4 / 6])
    assert costs.costs_s()[[1, 2, 3]] == pytest.approx([1.0, 4.0, costs.mean_s])


def test_the_past_fades_but_its_costs_stay() -> None:
    costs = learned([(1, 1.0, 1), (2, 3.0, 1)])
    costs.fade(0.5)
    assert costs.costs_s()[[1, 2]] == pytest.approx([1.0, 3.0])
    costs.merge(learned([(1, 4.0, 1)]))
    assert costs.costs_s()[1] == pytest.approx(3.0)  # half a row of 1 s and a row of 4 s
    assert costs.frequencies()[1] == pytest.approx(0.75)


def test_nothing_known_is_said_to_be_so() -> None:
    costs = BucketCosts()
    assert not costs.known
    assert costs.mean_s == 0.0
    assert not costs.costs_s().any()
    assert costs.frequencies().sum() == pytest.approx(1.0)
    assert costs.to_bytes() == b""


CELL = learned([(7, 0.5, 2)]).to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CELL[:-1], id="cut short"),
        pytest.param(b"\xff\xff" + CELL[2:], id="a bucket that is none"),
        pytest.param(CELL[:-4] + np.float32(np.nan).tobytes(), id="not a number"),
        pytest.param(CELL[:-4] + np.float32(-1.0).tobytes(), id="below zero"),
        pytest.param(CELL + CELL, id="a bucket twice"),
        pytest.param(CELL[:2] + np.float32(0.0).tobytes() + CELL[6:], id="a bucket without rows"),
    ],
)
def test_bytes_that_are_no_costs_are_refused(data: bytes) -> None:
    with pytest.raises(PenstockError, match=rf"^{len(data)} bytes are no bucket costs$"):
        BucketCosts.from_bytes(data)
