import pytest

from penstock.errors import PenstockError
from penstock.spark.network.weighted_aggregates import unweighted, weighted


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("count(*)", "SUM(w)"),
        ("count(value)", "SUM(CASE WHEN NOT value IS NULL THEN w END)"),
        ("sum(value * 2 + 1)", "SUM((value * 2 + 1) * w)"),
        ("round(avg(value), 2)", "ROUND(SUM(value * w) / SUM(CASE WHEN NOT value IS NULL THEN w END), 2)"),
        ("mean(value)", "SUM(value * w) / SUM(CASE WHEN NOT value IS NULL THEN w END)"),
        ("count_if(value > 3)", "SUM(CASE WHEN value > 3 THEN w END)"),
        ("try_sum(value)", "SUM(value * w)"),
        ("count(distinct key)", "COUNT(DISTINCT key)"),
        ("max(value) - min(value)", "MAX(value) - MIN(value)"),
    ],
)
def test_counts_sums_and_means_are_weighted_and_others_are_left(given: str, found: str) -> None:
    assert weighted(given, "w") == found


def test_what_cannot_be_put_right_is_named() -> None:
    assert unweighted("sum(value) + count(1)") == []
    assert unweighted("max(value)") == ["MAX"]


def test_what_is_no_sql_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"select = 'count\(' is not usable"):
        weighted("count(", "w")
