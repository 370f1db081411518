import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.control.batch_size import TOO_MANY, rows_between, share_that_fits
from penstock.core.control.gate import REASON_BITS, SIZE_NUMBER, coins, judge, scaled, thresholds
from penstock.messages.plan import Fits, KeepTable

ROWS = np.arange(20_000)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ({"events": {"0": 10, "1": 20}}, {"events": {"0": 15, "1": 20}}, 5),
        ({"a": {"0": 1}, "b": {"0": 2}}, {"a": {"0": 2}, "b": {"0": 7}}, 6),
        ({"a": {"0": 1}}, {"a": {"0": 2}, "b": {"0": 7}}, None),
        (None, {"a": {"0": 1_000_000}}, None),
        (None, {"rows": 7, "start_us": 3}, 7),
        ({"rows": 100, "start_us": 3}, {"rows": 400, "start_us": 3}, 300),
        ({"offset": 10, "timestamp": 1000}, {"offset": 25, "timestamp": 2000}, 15),
        ({"events": {"0": 10}}, {"events": {"0": 5}}, None),
        (3, 4, None),
        ({"logOffset": 1}, {"logOffset": 2}, None),
        ({"events": {"0": 10}}, {"logOffset": 2}, None),
        ({"events": {"0": "x"}}, {"events": {"0": 1}}, None),
        ({}, {}, None),
    ],
)
def test_rows_between_offsets_are_known_where_offsets_count_rows(
    before: object, after: object, rows: int | None
) -> None:
    assert rows_between(before, after) == rows


@given(st.floats(1.0, 1e6), st.none() | st.floats(1.0, 1e6), st.integers(0, 10**7), st.floats(0.0, 1e3))
def test_a_share_is_of_what_is_too_much(rate: float, most: float | None, rows: int, over_s: float) -> None:
    share = share_that_fits(Fits(rate, most), rows, over_s)
    assert 0.0 <= share <= 1.0
    if rows <= rate * over_s:
        assert share == 1.0, "who has waited is not too many"
    elif most is None:
        assert share * rows == pytest.approx(rate * over_s)
    else:
        assert share * rows == pytest.approx(min(rows, most))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), st.floats(0.001, 0.999))
def test_a_batch_that_is_too_large_is_thinned_in_proportion_and_accounted_for(shares: list[float], part: float) -> None:
    table = KeepTable("source", tuple(shares), tuple(f"reason {number}" for number in range(len(shares))))
    limits = scaled(thresholds(table), part)
    assert (limits & REASON_BITS == SIZE_NUMBER).all()
    assert np.maximum((limits + 1.0) / 2.0**63, 0.0) == pytest.approx(np.array(shares) * part, abs=1e-15)
    whole = judge(table, key_hashes=ROWS, coins=coins(5, ROWS))
    thinned = judge(table, key_hashes=ROWS, coins=coins(5, ROWS), share=part)
    assert not (thinned.kept & ~whole.kept).any(), "a subset of what would be kept"
    assert thinned.shed_by_reason(table) == {TOO_MANY: int((~thinned.kept).sum())}
    deviation = float(np.sqrt((thinned.weights * np.maximum(thinned.weights - 1.0, 0.0)).sum()))
    if min(shares) > 0.01:
        assert abs(thinned.weights.sum() - len(ROWS)) <= 6.0 * deviation + 1e-6
