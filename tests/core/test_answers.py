"""Answers over weighted rows: unbiased, with intervals that hold, and silent where nothing is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from penstock.core.answers.estimates import Answer, Quantile, ratio, share, total
from penstock.core.answers.sums import Arrays, summed
from penstock.core.control.gate import coins, judge
from penstock.core.hashing import xxhash64_ints
from penstock.errors import PenstockError
from penstock.messages.plan import KeepTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIALS = 4000
NUMBERS, Q = Arrays(), Quantile(0.95)


def sampled(
    seed: int, rows: int, shares: tuple[float, ...], must_keep: float = 0.0
) -> tuple[np.random.Generator, NDArray[np.float64], NDArray[np.bool_]]:
    """Many groups, each row with a share of its own; its weight, and whether it was kept."""
    random = np.random.default_rng(seed)
    chance = np.asarray(shares)[random.integers(len(shares), size=(TRIALS, rows))]
    chance[random.random((TRIALS, rows)) < must_keep] = 1.0
    return random, 1.0 / chance, random.random((TRIALS, rows)) < chance


def coverage(answer: Answer, true: NDArray[np.float64]) -> float:
    """How often the interval holds the true value; every one must be known."""
    assert not np.isnan(answer.low).any()
    return float(np.mean((answer.low <= true) & (true <= answer.high)))


@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_another_confidence_is_held_as_well(confidence: float) -> None:
    random, weights, kept = sampled(9, 300, (0.2,))
    values = random.exponential(1.0, weights.shape)
    answer = total(summed(weights, values, present=kept), Quantile(confidence), NUMBERS)

    assert coverage(answer, values.sum(-1)) == pytest.approx(confidence, abs=0.015)


def test_estimates_and_their_variances_are_unbiased() -> None:
    random, weights, kept = sampled(10, 60, (0.25, 0.5))
    weights, values = weights[0], random.normal(1.0, 2.0, 60)  # the same rows each time, only coins differ
    kept = random.random((100_000, 60)) < 1.0 / weights
    answer = total(summed(np.broadcast_to(weights, kept.shape), values, present=kept), Q, NUMBERS)
    true_variance = np.sum((weights - 1.0) * values**2)

    assert answer.estimate.mean() == pytest.approx(values.sum(), abs=0.2)
    assert answer.estimate.var() == pytest.approx(true_variance, rel=0.02)
    assert np.mean(answer.error**2) == pytest.approx(true_variance, rel=0.01)


def test_the_gates_own_coins_are_as_good_as_dice() -> None:
    rows, groups = 200, 5000
    table = KeepTable("source", keep=(0.2, 0.6), reasons=("over capacity",))
    numbers = np.arange(rows * groups)
    verdicts = judge(table, key_hashes=xxhash64_ints(numbers % 7), coins=coins(3, numbers))
    sums = summed(
        np.maximum(verdicts.weights, 1.0).reshape(groups, rows),
        np.ones((groups, rows)),
        present=verdicts.kept.reshape(groups, rows),
    )

    assert 0.93 <= coverage(total(sums, Q, NUMBERS, counted=True), np.full(groups, rows)) <= 0.97


def test_a_condition_that_few_rows_meet_is_not_taken_to_be_rare_only_where_it_was_seen() -> None:
    """Rows seen are mostly those of the stratum that is kept half; what they weigh says little of the other's."""
    random, weights, kept = sampled(13, 400, (0.05, 0.5))
    hits = (random.random(weights.shape) < 0.05).astype(np.float64)
    answer = total(summed(weights, hits, present=kept), Q, NUMBERS, counted=True)

    assert 0.93 <= coverage(answer, hits.sum(-1)) <= 0.97
    # Those that were kept for certain are counted, and rounding does not put the low end above them.
    known = total(summed(np.array([1.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0])), Q, NUMBERS, counted=True)
    assert (known.estimate, known.low) == (2.0, 2.0)
    assert known.high > 3.0


def test_rows_that_share_a_coin_count_as_one() -> None:
    random = np.random.default_rng(11)
    clusters, size, trials = 120, 5, 2000
    values = random.exponential(1.0, clusters * size)
    names = np.repeat(np.arange(clusters), size)
    held = blind = 0
    for _ in range(trials):
        kept = (random.random(clusters) < 0.3)[names]
        weights = np.full(int(kept.sum()), 1.0 / 0.3)
        right = total(summed(weights, values[kept], coins=names[kept]), Q, NUMBERS)
        wrong = total(summed(weights, values[kept]), Q, NUMBERS)
        held += bool(right.low <= values.sum() <= right.high)
        blind += bool(wrong.low <= values.sum() <= wrong.high)

    assert 0.93 <= held / trials <= 0.97
    assert blind / trials < 0.8, "sharing a coin must matter, or this test proves nothing"


def test_a_shared_coin_under_two_plans_is_bounded_from_above() -> None:
    random = np.random.default_rng(12)
    shares, values = np.array([0.2, 0.5]), np.array([3.0, 4.0])
    kept = random.random(200_000)[:, None] < shares  # one coin, two thresholds
    estimates = (kept * values / shares).sum(-1)
    sizes = [summed(1.0 / shares[one], values[one], coins=np.zeros(one.sum(), int)).aa for one in kept[:5_000]]

    assert estimates.mean() == pytest.approx(values.sum(), rel=0.01)
    assert np.var(estimates) <= np.mean(sizes) <= 1.5 * np.var(estimates)


def test_a_group_that_lost_all_rows_of_an_overload_is_not_called_exact() -> None:
    """28 rows of a calm time, all of weight 1, and 2 of an overload, of which most often none is left."""
    calm, overload = 28, KeepTable("source", keep=(0.1,), reasons=("over capacity",))
    late = np.arange(2 * TRIALS)
    verdicts = judge(overload, key_hashes=late, coins=coins(7, late))
    kept = np.hstack([np.ones((TRIALS, calm), bool), verdicts.kept.reshape(TRIALS, 2)])
    weights = np.hstack([np.ones((TRIALS, calm)), verdicts.weights.reshape(TRIALS, 2)])
    values = np.random.default_rng(7).exponential(1.0, weights.shape)
    sums = summed(weights, values, present=kept)
    hits = summed(weights, (values > 1.0).astype(np.float64), present=kept)
    lost_all = ~kept[:, calm:].any(-1)
    assert 3_100 < lost_all.sum() < 3_400

    for name, answer in {
        "count": total(summed(weights, np.ones_like(weights), present=kept), Q, NUMBERS, counted=True),
        "count where": total(hits, Q, NUMBERS, counted=True),
        "sum": total(sums, Q, NUMBERS),
        "mean": ratio(sums, Q, NUMBERS),
        "share": share(hits, Q, NUMBERS),
    }.items():
        claimed = (answer.error == 0.0) | (answer.low == answer.high)
        assert not claimed.any(), name
        assert np.isnan(answer.error[lost_all]).all(), name
        assert (answer.effective_rows[lost_all] == calm).all(), name


def test_rows_of_weight_one_alone_tell_no_error() -> None:
    sums = summed(np.ones(3), np.array([1.0, -2.0, 5.5]))

    for estimate, answer in ((4.5, total(sums, Q, NUMBERS)), (1.5, ratio(sums, Q, NUMBERS))):
        assert (answer.estimate, answer.rows, answer.effective_rows) == (estimate, 3, 3)
        assert np.isnan([answer.error, answer.low, answer.high]).all()


def test_a_condition_that_none_or_all_of_the_rows_left_meet_has_an_error() -> None:
    """In each of many groups one row in a hundred differs from the others; it is rarely among those left."""
    _, weights, kept = sampled(14, 200, (0.25,))
    hits = np.zeros(weights.shape)
    hits[:, :2] = 1.0
    for odd, truth in ((hits, 0.01), (1.0 - hits, 0.99)):
        sums = summed(weights, odd, present=kept)
        part, count = share(sums, Q, NUMBERS), total(sums, Q, NUMBERS, counted=True)
        at_end = (part.estimate == 0.0) | (part.estimate == 1.0)
        assert 0.4 < at_end.mean() < 0.7
        for answer in (part, count):
            assert (answer.error > 0.0).all()
            assert (answer.high > answer.low).all()
        assert (np.abs(part.estimate - truth) <= 3.0 * part.error)[at_end].all()
    # One row in as many as are effectively there, neither more nor less.
    none = share(summed(np.full(50, 2.0), np.zeros(50)), Q, NUMBERS)
    one = share(summed(np.full(50, 2.0), (np.arange(50) == 0) * 1.0), Q, NUMBERS)
    assert none.error == pytest.approx(one.error, rel=0.5)
    # A count that rows do meet is as unbiased as ever.
    met = total(summed(np.full(9, 3.0), np.ones(9)), Q, NUMBERS, counted=True)
    assert met.error == pytest.approx(np.sqrt(9 * 6.0))


def test_rows_that_are_certain_beside_shed_ones_are_not_called_exact() -> None:
    """A group of which only rows of keys that are kept whole, or must be kept, are left: who knows what was shed."""
    keep = KeepTable("source", keep=(1.0, 0.01), reasons=("", "costly keys"))
    rows = np.arange(20)
    verdicts = judge(keep, key_hashes=rows, coins=coins(5, rows), must_keep=rows == 3)
    assert np.array_equal(verdicts.kept, (rows % 2 == 0) | (rows == 3)), "all that could be shed was"
    weights = verdicts.weights[verdicts.kept]
    for answer in (
        total(summed(weights, np.ones(11)), Q, NUMBERS, counted=True),
        total(summed(weights, rows[verdicts.kept] + 0.0), Q, NUMBERS),
        ratio(summed(weights, rows[verdicts.kept] + 0.0), Q, NUMBERS),
        share(summed(weights, rows[verdicts.kept] % 2.0), Q, NUMBERS),
    ):
        assert np.isnan([answer.error, answer.low, answer.high]).all()
        assert answer.rows == 11
    # With a row left to chance the others are as certain as ever.
    told = total(summed(np.append(weights, 4.0), np.ones(12)), Q, NUMBERS, counted=True)
    assert told == total(summed(np.append(np.ones(11), 4.0), np.ones(12)), Q, NUMBERS, counted=True)
    assert np.isfinite(told).all()


def test_rows_seen_are_a_floor_and_known_rows_add_no_error() -> None:
    few = total(summed(np.array([1.0, 1.0, 2.0]), np.ones(3)), Q, NUMBERS, counted=True)
    assert few.estimate == 4.0
    assert few.low == 3.0
    assert few.error == pytest.approx(np.sqrt(2.0))


def test_what_is_not_known_is_not_told() -> None:
    nothing = total(summed(np.empty(0), np.empty(0)), Q, NUMBERS, counted=True)
    assert (nothing.estimate, nothing.rows) == (0.0, 0)
    assert np.isnan([nothing.error, nothing.low, nothing.high]).all()

    one = ratio(summed(np.array([1.0, 10.0]), np.array([1.0, 2.0])), Q, NUMBERS)
    assert np.isnan([one.error, one.low, one.high]).all(), "one row left to chance"
    alike = ratio(summed(np.full(9, 10.0), np.full(9, 0.1)), Q, NUMBERS)
    assert alike.estimate == pytest.approx(0.1)
    assert np.isnan([alike.error, alike.low, alike.high]).all(), "all alike"
    zeros = total(summed(np.full(9, 10.0), np.zeros(9)), Q, NUMBERS)
    assert np.isnan([zeros.error, zeros.low, zeros.high]).all(), "nothing but zeros"
    # Of a count under a condition something is known even then.
    none = total(summed(np.full(9, 10.0), np.zeros(9)), Q, NUMBERS, counted=True)
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(9.0 * Q.normal**2)


@pytest.mark.parametrize("weight", [0.5, 0.0, -1.0, np.inf, np.nan])
def test_a_weight_that_cannot_be_right_spoils_the_answer(weight: float) -> None:
    answer = total(summed(np.array([2.0, weight]), np.ones(2)), Q, NUMBERS)
    assert np.isnan([answer.estimate, answer.error, answer.low, answer.high]).all()
    assert answer.rows == 2


def test_quantiles_are_students() -> None:
    for confidence in (0.8, 0.95, 0.99):
        freedom = np.array([5.0, 10.0, 50.0, 1e6])
        exact = stats.t.ppf(0.5 + confidence / 2.0, freedom)
        assert Quantile(confidence).student(freedom) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, "high"])
def test_a_confidence_is_a_share(confidence: object) -> None:
    with pytest.raises(PenstockError, match=r"confidence = .* is not usable: give a number from 0.5 to 0.999"):
        Quantile(confidence)  # type: ignore[arg-type]
