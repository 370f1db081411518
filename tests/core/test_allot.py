import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.control.allotment import LEAST_SHARE, alike, cheapest_first

AMOUNTS = st.just(0.0) | st.floats(1e-6, 1e6)
#: Rows, cost of a row, and a share that some other table gives, of each bucket.
BUCKETS = st.lists(st.tuples(AMOUNTS, AMOUNTS, st.floats(LEAST_SHARE, 1.0)), min_size=1, max_size=12)
ROUNDING = 1e-9


def columns(buckets: list[tuple[float, float, float]]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*buckets, strict=True)]


@given(BUCKETS)
def test_no_table_with_the_same_work_keeps_more_rows(buckets: list[tuple[float, float, float]]) -> None:
    rows, costs, other = columns(buckets)
    budget = float(rows * other @ costs)
    keep = cheapest_first(rows, costs, budget)
    assert rows @ keep >= (1.0 - ROUNDING) * (rows @ other)
    assert rows * keep @ costs <= (1.0 + ROUNDING) * budget


@given(BUCKETS)
def test_no_table_with_the_same_work_and_rows_keeps_more_rows(buckets: list[tuple[float, float, float]]) -> None:
    rows, costs, other = columns(buckets)
    budget, most_rows = float(rows * other @ costs), float(rows @ other)
    keep = cheapest_first(rows, costs, budget, most_rows)
    assert rows @ keep == pytest.approx(most_rows)
    assert rows * keep @ costs <= (1.0 + ROUNDING) * budget


@given(BUCKETS, st.floats(-10.0, 1e13), st.floats(-10.0, 1e8, allow_subnormal=False))
def test_shares_keep_to_the_budget_or_to_the_floor(
    buckets: list[tuple[float, float, float]], budget: float, most_rows: float
) -> None:
    rows, costs, _ = columns(buckets)
    keep = cheapest_first(rows, costs, budget, most_rows)
    assert keep.min() >= (LEAST_SHARE if most_rows >= rows.sum() else 0.0)
    assert keep.max() <= 1.0
    assert rows * keep @ costs <= (1.0 + ROUNDING) * max(budget, LEAST_SHARE * float(rows @ costs))
    assert rows @ keep <= (1.0 + ROUNDING) * max(most_rows, 0.0), "a number of rows has no floor"


@given(BUCKETS)
def test_a_dearer_bucket_never_gets_more_than_a_cheaper_one(buckets: list[tuple[float, float, float]]) -> None:
    rows, costs, other = columns(buckets)
    keep = cheapest_first(rows, costs, float(rows * other @ costs))
    for cheap in range(len(keep)):
        for dear in range(len(keep)):
            assert costs[cheap] >= costs[dear] or keep[cheap] >= keep[dear]


@given(BUCKETS)
def test_everything_is_kept_when_everything_fits(buckets: list[tuple[float, float, float]]) -> None:
    rows, costs, _ = columns(buckets)
    assert (cheapest_first(rows, costs, 1.001 * float(rows @ costs) + 1e-9) == 1.0).all()
    assert (cheapest_first(rows, costs, np.inf) == 1.0).all()


@given(AMOUNTS, st.floats(-10.0, 1e7))
def test_one_share_for_all_spends_the_budget_and_no_more(work: float, budget: float) -> None:
    share = alike(work, budget)
    assert LEAST_SHARE <= share <= 1.0
    assert share * work <= (1.0 + ROUNDING) * max(budget, LEAST_SHARE * work)
    assert share in {1.0, LEAST_SHARE} or share * work == pytest.approx(budget)
