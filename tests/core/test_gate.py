from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.core.control.gate import (
    CERTAIN,
    CERTAIN_WEIGHT,
    KEEP_ALL,
    MOST_REASONS,
    Verdicts,
    coins,
    gate_salt,
    judge,
    thresholds,
)
from penstock.core.hashing import bucket, xxhash64, xxhash64_ints
from penstock.messages.plan import KeepTable

SHARES = st.floats(0, 1) | st.sampled_from([0.0, 1.0])
SALTS = st.integers(-(2**63), 2**63 - 1)
ROWS = np.arange(400)
KEY_HASHES = xxhash64_ints(ROWS % 37)


def table(*shares: float) -> KeepTable:
    return KeepTable("source", keep=shares, reasons=tuple(f"bucket {number}" for number in range(len(shares))))


def judged(shares: list[float], salt: int, must_keep: NDArray[np.bool_] | None = None) -> Verdicts:
    return judge(table(*shares), key_hashes=KEY_HASHES, coins=coins(salt, ROWS), must_keep=must_keep)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=6), SALTS)
def test_a_lower_share_keeps_a_subset(pairs: list[tuple[float, float]], salt: int) -> None:
    low = judged([min(pair) for pair in pairs], salt)
    high = judged([max(pair) for pair in pairs], salt)
    assert not np.any(low.kept & ~high.kept)


@given(st.lists(SHARES, min_size=1, max_size=6), SALTS)
def test_the_same_row_under_the_same_plan_gets_the_same_verdict_wherever_it_stands(
    shares: list[float], salt: int
) -> None:
    whole = judged(shares, salt)
    order = np.random.default_rng(1).permutation(len(ROWS))[:100]
    part = judge(table(*shares), key_hashes=KEY_HASHES[order], coins=coins(salt, ROWS[order]))
    assert np.array_equal(part.kept, whole.kept[order])
    assert np.array_equal(part.weights, whole.weights[order])


def coin_of(row: int, salt: int) -> int:
    return (xxhash64(salt, row) % 2**64) >> 1


@given(st.lists(SHARES, min_size=1, max_size=6))
def test_thresholds_let_their_shares_of_all_coins_pass_but_for_the_bits_of_the_reason(shares: list[float]) -> None:
    for share, limit in zip(shares, thresholds(table(*shares)).tolist(), strict=True):
        slack = 2**11 + 1 if limit >= CERTAIN else MOST_REASONS
        assert abs(max(limit + 1, 0) - Fraction(share) * 2**63) < slack
        assert share < 1.0 or limit >= CERTAIN
        assert share > 0.0 or limit < 0


@given(st.lists(SHARES, min_size=1, max_size=6), SALTS)
def test_a_row_passes_when_its_coin_is_at_most_the_threshold_of_its_bucket(shares: list[float], salt: int) -> None:
    verdicts, limits = judged(shares, salt), thresholds(table(*shares)).tolist()
    for row in range(0, len(ROWS), 17):
        limit = limits[bucket(xxhash64(int(ROWS[row] % 37)), len(shares))]
        assert verdicts.kept[row] == (coin_of(row, salt) <= limit)


@given(st.integers(0, len(ROWS) - 1), SALTS)
def test_the_edge_lies_where_the_share_says(row: int, salt: int) -> None:
    share = Fraction(coin_of(row, salt), 2**63)
    assert not judged([float(share) * (1.0 - 1e-12)], salt).kept[row]
    assert judged([min(float(share) * (1.0 + 1e-12), 1.0)], salt).kept[row]


@given(st.lists(SHARES, min_size=1, max_size=6), SALTS)
def test_a_kept_row_weighs_the_inverse_of_its_share_and_a_shed_one_nothing(shares: list[float], salt: int) -> None:
    verdicts = judged(shares, salt)
    own = np.array(shares)[verdicts.buckets]
    assert verdicts.weights[verdicts.kept] == pytest.approx(1.0 / own[verdicts.kept], rel=1e-9)
    assert not verdicts.weights[~verdicts.kept].any()
    assert np.isfinite(verdicts.weights).all()


@given(st.lists(SHARES, min_size=1, max_size=6), SALTS, st.lists(st.booleans(), min_size=400, max_size=400))
def test_a_must_keep_row_is_kept_with_weight_one_and_changes_no_other(
    shares: list[float], salt: int, marked: list[bool]
) -> None:
    must_keep = np.array(marked)
    verdicts, plain = judged(shares, salt, must_keep), judged(shares, salt)
    assert verdicts.kept[must_keep].all()
    assert (verdicts.weights[must_keep] == (CERTAIN_WEIGHT if min(shares) < 1.0 - 2.0**-52 else 1.0)).all()
    assert np.array_equal(verdicts.kept[~must_keep], plain.kept[~must_keep])
    assert np.array_equal(verdicts.weights[~must_keep], plain.weights[~must_keep])


@given(st.lists(SHARES, min_size=1, max_size=6), SALTS)
def test_every_shed_row_is_accounted_for_by_the_reason_of_its_bucket(shares: list[float], salt: int) -> None:
    verdicts = judged(shares, salt)
    account = verdicts.shed_by_reason(table(*shares))
    assert sum(account.values()) + verdicts.kept.sum() == len(ROWS)
    for number in range(len(shares)):
        assert account.get(f"bucket {number}", 0) == np.sum(~verdicts.kept & (verdicts.buckets == number))
    assert all(account.values())


def test_buckets_that_share_a_reason_share_its_account() -> None:
    shared = KeepTable("source", keep=(0.0, 0.0, 1.0), reasons=("over capacity", "over capacity", ""))
    verdicts = judge(shared, key_hashes=KEY_HASHES, coins=coins(1, ROWS))
    assert verdicts.shed_by_reason(shared) == {"over capacity": int(np.sum(verdicts.buckets < 2))}
    single = KeepTable("source", keep=(0.0, 0.0, 1.0), reasons=("over capacity",))
    assert judge(single, key_hashes=KEY_HASHES, coins=coins(1, ROWS)).shed_by_reason(single) == verdicts.shed_by_reason(
        shared
    )


@given(SALTS)
def test_share_one_keeps_everything_and_share_zero_nothing(salt: int) -> None:
    everything, nothing = judged([1.0], salt), judged([0.0], salt)
    assert everything.kept.all()
    assert (everything.weights == 1.0).all()
    assert everything.shed_by_reason(table(1.0)) == {}
    assert not nothing.kept.any()
    assert not nothing.weights.any()
    assert nothing.shed_by_reason(table(0.0)) == {"bucket 0": len(ROWS)}


def test_weights_of_earlier_stages_multiply() -> None:
    before = np.linspace(1.0, 3.0, len(ROWS))
    plain = judged([0.5], 3)
    verdicts = judge(table(0.5), key_hashes=KEY_HASHES, coins=coins(3, ROWS), weights=before)
    assert np.array_equal(verdicts.weights, plain.weights * before)
    must_keep = np.full(len(ROWS), fill_value=True)
    kept = judge(table(0.5), key_hashes=KEY_HASHES, coins=coins(3, ROWS), must_keep=must_keep, weights=before)
    assert np.array_equal(kept.weights, before * CERTAIN_WEIGHT)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_weights_estimate_the_number_of_rows_without_bias(share: float) -> None:
    rows = np.arange(200_000)
    verdicts = judge(table(share), key_hashes=rows, coins=coins(5, rows))
    deviation = np.sqrt(len(rows) * (1 - share) / share)
    assert abs(verdicts.weights.sum() - len(rows)) < 5 * deviation


def test_a_row_kept_for_certain_tells_by_its_weight_whether_others_were_not() -> None:
    assert 2.0**63 / (CERTAIN + 1.0) == CERTAIN_WEIGHT == np.nextafter(1.0, 2.0)
    assert thresholds(table(1.0, 1.0)).tolist() == [KEEP_ALL] * 2
    beside = judged([1.0, 0.5], 3)
    assert set(beside.weights.tolist()) == {0.0, 2.0, CERTAIN_WEIGHT}
    # The highest coin of all is kept too, and a plan that sheds nothing leaves no mark.
    highest = np.array([2**63 - 1])
    assert judge(table(1.0, 0.0), key_hashes=np.array([0]), coins=highest).kept.all()
    assert set(judged([1.0, 1.0], 3, ROWS > 5).weights.tolist()) == {1.0}


def test_weights_of_two_gates_multiply_if_their_names_differ_or_one_is_behind_the_other() -> None:
    rows, half = np.arange(40_000), table(0.5)
    hashes = xxhash64_ints(rows)
    first = judge(half, key_hashes=hashes, coins=coins(gate_salt(3, "guard"), rows))
    for salt, right in (
        (gate_salt(3, "other"), True),
        (gate_salt(3, "guard", weighted=True), True),
        (gate_salt(4, "guard"), True),
        (gate_salt(3, "guard"), False),
    ):
        second = judge(half, key_hashes=hashes, coins=coins(salt, rows), weights=first.weights)
        total = second.weights[first.kept & second.kept].sum()
        # Each of 40,000 rows weighs 4 with probability 1/4.
        assert (abs(total - 40_000) < 5 * np.sqrt(40_000 * 3.0)) == right


def test_another_salt_chooses_other_rows() -> None:
    first, second = judged([0.5], 1).kept, judged([0.5], 2).kept
    assert 0.35 < np.mean(first == second) < 0.65


def test_no_rows_are_no_trouble() -> None:
    none = np.array([], np.int64)
    verdicts = judge(table(0.5), key_hashes=none, coins=none)
    assert verdicts.kept.size == verdicts.weights.size == 0
    assert verdicts.shed_by_reason(table(0.5)) == {}
