import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.core.control.backlog import GRACE_S, MOST_AGE_S, age_thresholds, rule
from penstock.core.control.gate import BACKLOG_NUMBER, CERTAIN, REASON_BITS, TOO_OLD, Verdicts, coins, judge
from penstock.core.control.targets import MaxLag, MeanQueueLatency, Throughput
from penstock.errors import PenstockError
from penstock.messages.plan import Backlog, Binding, KeepTable

NOW_S = 1_800_000_000.0
DAY_S = 86_400.0
EVERYTHING = KeepTable("source", keep=(1.0,), reasons=("",))


def kept_of(ages_s: NDArray[np.float64], fresh_s: float, table: KeepTable = EVERYTHING) -> Verdicts:
    rows = np.arange(len(ages_s))
    by_age = age_thresholds(rule(fresh_s), NOW_S - ages_s, NOW_S)
    return judge(table, key_hashes=rows, coins=coins(3, rows), by_age=by_age)


@given(st.floats(0.001, 1e6), st.floats(0.0, MOST_AGE_S))
def test_a_row_is_kept_with_what_is_fresh_over_its_age(fresh_s: float, age_s: float) -> None:
    limit = int(age_thresholds(rule(fresh_s), np.array([NOW_S - age_s]), NOW_S)[0])
    age_s = NOW_S - (NOW_S - age_s)  # as far as a clock can tell
    if age_s <= max(GRACE_S, fresh_s):
        assert limit == CERTAIN
    else:
        assert (limit + 1) / 2.0**63 == pytest.approx(fresh_s / age_s, rel=1e-9)
        assert limit & REASON_BITS == BACKLOG_NUMBER


@pytest.mark.parametrize(
    "strange_s", [math.nan, math.inf, -math.inf, 0.0, 1e9, NOW_S - MOST_AGE_S - 1.0, 2 * NOW_S, NOW_S]
)
def test_a_row_whose_time_of_arrival_cannot_be_right_has_no_age(strange_s: float) -> None:
    assert age_thresholds(rule(2.0), np.array([strange_s]), NOW_S).tolist() == [CERTAIN]


def test_of_a_day_rows_of_three_quarters_of_a_minute_are_kept_and_weights_tell_how_many_there_were() -> None:
    rate = 20.0
    ages_s = np.arange(0.0, DAY_S, 1.0 / rate)
    verdicts = kept_of(ages_s, fresh_s=2.0)
    expected = rate * (GRACE_S + 2.0 * math.log(DAY_S / GRACE_S))
    assert verdicts.kept.sum() == pytest.approx(expected, rel=0.2)
    # Each age counts for itself: of every doubling about as much is known.
    for oldest_s in (64.0, 1280.0, 20_480.0, 81_920.0):
        band = (ages_s > oldest_s / 2.0) & (ages_s <= oldest_s)
        weight = verdicts.weights[band]
        deviation = math.sqrt(float((weight * np.maximum(weight - 1.0, 0.0)).sum()))
        assert abs(weight.sum() - band.sum()) < 4.0 * deviation
        assert 0 < verdicts.kept[band].sum() < 4.0 * rate


def test_a_plan_that_keeps_less_goes_before_the_age() -> None:
    few = KeepTable("source", keep=(0.01,), reasons=("over capacity",))
    ages_s = np.repeat([0.0, 40.0, 20_000.0], 4000)
    verdicts = kept_of(ages_s, fresh_s=2.0, table=few)
    shed = verdicts.shed_by_reason(few)
    assert set(shed) == {"over capacity", TOO_OLD}
    assert shed[TOO_OLD] == np.sum(~verdicts.kept & (ages_s == 20_000.0))
    assert verdicts.weights[verdicts.kept & (ages_s == 40.0)] == pytest.approx(100.0)


def test_a_table_leaves_the_number_of_the_age_alone() -> None:
    with pytest.raises(PenstockError, match="at most 6 different ones in a table"):
        kept_of(np.zeros(1), 2.0, KeepTable("source", keep=(0.0,) * 8, reasons=tuple("abcdefgh")))


def test_the_target_says_what_is_fresh() -> None:
    assert MeanQueueLatency("300 ms").fresh_s == 0.3
    assert MaxLag("2 min").fresh_s == 120.0
    assert Throughput(5).fresh_s is None


def test_a_binding_remembers_the_rule() -> None:
    bound = Binding(3, "query", NOW_S, backlog=rule(2.0))
    assert Binding.from_json(bound.to_json()) == bound
    with pytest.raises(
        PenstockError, match=r"fresh_s = 11.0 is not usable: give seconds above 0, up to grace_s, 10\.0"
    ):
        Backlog(grace_s=10.0, fresh_s=11.0)
