import math
import struct

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.hashing import (
    HashFamily,
    bucket,
    unit_interval,
    xxhash64,
    xxhash64_ints,
)
from penstock.errors import PenstockError

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=80)
EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63)]

# Read off Spark 4.3's xxhash64.
SPARK_SAYS = [
    ((None,), 42),
    ((np.int32(0),), 3614696996920510707),
    ((np.int8(5),), 504019808641096632),
    ((np.int16(-5),), 9201179564109417620),
    ((True,), -6698625589789238999),
    ((np.True_,), -6698625589789238999),
    ((np.int32(1),), -6698625589789238999),
    ((0,), -5252525462095825812),
    ((150,), -6873856301616164681),
    ((np.int64(150),), -6873856301616164681),
    ((0.0,), -5252525462095825812),
    ((-0.0,), -5252525462095825812),
    ((math.nan,), -3127944061524951246),
    ((-math.nan,), -3127944061524951246),
    ((np.float32(0),), 3614696996920510707),
    ((np.float32(-0.0),), 3614696996920510707),
    ((np.float32(math.nan),), 2692338816207849720),
    (("x",), -5636050478767222463),
    (("é",), 2065146811275570100),
    (("é".encode(),), 2065146811275570100),
    ((1, "a"), -8527884376001292090),
    ((1, None, "a"), -8527884376001292090),
]


def unsigned(data: bytes, seed: int) -> int:
    return xxhash.xxh64_intdigest(data, seed & (2**64 - 1))


@pytest.mark.parametrize(("values", "expected"), SPARK_SAYS)
def test_known_answers_of_spark(values: tuple[object, ...], expected: int) -> None:
    assert xxhash64(*values) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0xEF46DB3751D8E999), ("a", 0xD24EC4F1A98C6E5B), ("abc", 0x44BC2CF5AD770999)]
)
def test_known_answers_of_the_reference_implementation(text: str, expected: int) -> None:
    assert xxhash64(text, seed=0) % 2**64 == expected


@given(INT64, TEXT, INT64)
def test_a_second_value_is_hashed_with_the_first_hash_as_seed(number: int, text: str, seed: int) -> None:
    assert xxhash64(number, text, seed=seed) == xxhash64(text, seed=xxhash64(number, seed=seed))
    assert xxhash64(text, seed=seed) % 2**64 == unsigned(text.encode(), seed)
    assert xxhash64(number, seed=seed) % 2**64 == unsigned(struct.pack("<q", number), seed)


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, [1], object(), 1j, np.uint64(1), np.uint8(1), "\ud800", np.float16(1)]
)
def test_values_that_spark_could_not_hash_alike_are_refused_in_one_line(value: object) -> None:
    with pytest.raises(PenstockError, match="is not usable") as refusal:
        xxhash64(value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("seed", [2**63, 0.5, "42", None])
def test_a_seed_must_be_a_signed_64_bit_number(seed: object) -> None:
    with pytest.raises(PenstockError, match="seed"):
        xxhash64(1, seed=seed)
    with pytest.raises(PenstockError, match="seed"):
        xxhash64_ints(np.array([1]), seed=seed)


@given(st.lists(INT64), INT64)
def test_int64_arrays_agree_with_scalars(numbers: list[int], seed: int) -> None:
    numbers = EDGES + numbers
    assert xxhash64_ints(np.array(numbers), seed).tolist() == [xxhash64(n, seed=seed) for n in numbers]


@given(st.lists(INT32), INT64)
def test_int32_arrays_agree_with_scalars(numbers: list[int], seed: int) -> None:
    array = np.array([n for n in EDGES if abs(n) < 2**31] + numbers, np.int32)
    assert xxhash64_ints(array, seed).tolist() == [xxhash64(n, seed=seed) for n in array]


@pytest.mark.parametrize("width", [np.int8, np.int16, np.bool_])
def test_narrower_integers_hash_as_int32(width: type[np.generic]) -> None:
    array = np.array([0, 1, -1, 100]).astype(width)
    assert xxhash64_ints(array).tolist() == xxhash64_ints(array.astype(np.int32)).tolist()
    assert xxhash64_ints(array).tolist() == [xxhash64(value) for value in array]


def test_integer_arrays_keep_their_shape_and_need_not_be_contiguous() -> None:
    grid = np.arange(24).reshape(4, 6)
    assert xxhash64_ints(grid).shape == (4, 6)
    assert xxhash64_ints(grid[::2, ::-3]).tolist() == xxhash64_ints(grid)[::2, ::-3].tolist()
    assert xxhash64_ints(np.array(7)).shape == ()
    assert xxhash64_ints(np.array(7)) == xxhash64(7)
    assert xxhash64_ints(np.array([], np.int64)).shape == (0,)
    assert xxhash64_ints(np.array([7], ">i8")).tolist() == [xxhash64(7)]


@given(st.lists(st.tuples(INT64, INT64), min_size=1))
def test_an_array_of_seeds_hashes_a_second_column(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs).T
    assert xxhash64_ints(second, xxhash64_ints(first)).tolist() == [xxhash64(a, b) for a, b in pairs]


@pytest.mark.parametrize(
    "array",
    [np.array([0.5]), np.array([1], np.uint64), np.array(["a"]), np.array([1, None]), [1, "a"]],
)
def test_arrays_of_anything_but_signed_integers_are_refused(array: object) -> None:
    with pytest.raises(PenstockError, match="is not usable"):
        xxhash64_ints(array)


def test_seeds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PenstockError, match="do not fit"):
        xxhash64_ints(np.arange(3), np.arange(2))
    with pytest.raises(PenstockError, match="give int64"):
        xxhash64_ints(np.arange(3), np.ones(3))


@given(st.lists(INT64))
def test_unit_interval_is_the_top_53_bits(hashes: list[int]) -> None:
    hashes = EDGES + hashes
    spread = unit_interval(np.array(hashes))
    assert spread.tolist() == [unit_interval(h) for h in hashes]
    assert spread.tolist() == [(h % 2**64 // 2**11) / 2**53 for h in hashes]
    assert ((spread >= 0) & (spread < 1)).all()


@given(st.lists(INT64), st.integers(1, 2**63 - 1))
def test_bucket_is_the_remainder_that_is_never_negative(hashes: list[int], buckets: int) -> None:
    hashes = EDGES + hashes
    numbers = bucket(np.array(hashes), buckets)
    assert numbers.tolist() == [bucket(h, buckets) for h in hashes] == [h % buckets for h in hashes]


@pytest.mark.parametrize("buckets", [0, -1, 2**63, 1.5])
def test_buckets_must_be_a_positive_whole_number(buckets: object) -> None:
    with pytest.raises(PenstockError, match="buckets"):
        bucket(1, buckets)


def test_hashes_of_another_width_are_refused() -> None:
    with pytest.raises(PenstockError, match="give int64"):
        unit_interval(np.array([1], np.int32))
    with pytest.raises(PenstockError, match="give int64"):
        bucket(np.array([1.5]), 3)


@given(st.lists(INT64, max_size=20), st.lists(TEXT, max_size=20), st.integers(1, 6), st.integers(1, 10**6), INT64)
def test_a_family_agrees_with_its_definition(
    numbers: list[int], texts: list[str], rows: int, columns: int, seed: int
) -> None:
    family = HashFamily(rows, columns, seed)
    many = family.columns_of_many(np.array(numbers, np.int64))
    assert many.shape == (rows, len(numbers))
    assert many.dtype == np.intp
    # What Catalyst computes: pmod(xxhash64(lit(n_i), key), columns).
    expected = [[xxhash64(salt, key) % columns for salt in family.salts] for key in [*numbers, *texts]]
    assert [family.columns_of(key) for key in [*numbers, *texts]] == expected
    assert many.T.tolist() == expected[: len(numbers)]


def test_a_null_key_has_columns_too() -> None:
    family = HashFamily(3, 54, 9)
    assert family.columns_of(None) == [s % 54 for s in family.seeds]


def test_the_functions_of_a_family_are_even_and_independent() -> None:
    keys = np.arange(100_000)
    columns = HashFamily(2, 10, 3).columns_of_many(keys)
    pairs = np.bincount(columns[0] * 10 + columns[1], minlength=100)
    # 1000 expected of each of 100 pairs: chi-square of 99 degrees of freedom is below 149 in 999 of 1000.
    assert ((pairs - 1000) ** 2 / 1000).sum() < 149


def test_families_differ_by_seed_and_are_values() -> None:
    family = HashFamily(4, 54, 0)
    assert family == HashFamily(np.int64(4), 54, 0)
    assert hash(family) == hash(HashFamily(4, 54, 0))
    assert len({salt for seed in range(100) for salt in HashFamily(4, 54, seed).salts}) == 400


@pytest.mark.parametrize(("rows", "columns", "seed"), [(0, 1, 0), (1, 0, 0), (1, 1, 2**63), (1.5, 1, 0), (1, "a", 0)])
def test_an_impossible_family_is_refused(rows: object, columns: object, seed: object) -> None:
    with pytest.raises(PenstockError, match="is not usable"):
        HashFamily(rows, columns, seed)


@pytest.mark.parametrize("keys", [np.zeros((2, 2), int), np.array([0.5]), ["a"]])
def test_keys_of_another_kind_are_refused(keys: object) -> None:
    with pytest.raises(PenstockError, match="not usable"):
        HashFamily(4, 54, 0).columns_of_many(keys)
