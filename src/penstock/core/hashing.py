"""xxHash64 exactly as Spark computes it, so that Python and Catalyst judge the same row alike.

A value is hashed from its bytes (see `xxhash64` for which bytes) with seed 42. A further column is hashed with the hash
so far as its seed, and a null leaves the hash as it is. A hash is a signed 64-bit integer, Spark's `bigint`. Strings
must have Spark's default collation, which compares bytes.
"""

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from penstock.errors import PenstockError

SPARK_SEED = 42

_LOW_64 = 2**64 - 1
_INT64 = range(-(2**63), 2**63)
_INT64_WORDS = "a whole number from -2**63 to 2**63 - 1"

_BIGINT = struct.Struct("<q")
#: Of xxHash64.
PRIME_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3 = np.uint64(0x165667B19E3779F9)
PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
PRIME_5 = np.uint64(0x27D4EB2F165667C5)


def xxhash64(*values: object, seed: int = SPARK_SEED) -> int:
    """Hash one row of values as Spark's `xxhash64(...)` does.

    h_0 = seed, h_k = xxh64(bytes(value_k), seed = h_(k-1)). The bytes are little-endian: 8 of an `int` or `numpy.int64`
    (bigint), 4 of a narrower NumPy integer or a boolean (0 or 1). Int, smallint and tinyint hash alike. A float has 8
    and a `numpy.float32` 4 (-0.0 as 0.0, every NaN as one); a `str` is UTF-8.

    >>> xxhash64("Spark", 7), xxhash64(None), xxhash64(np.int32(1)) == xxhash64(True)
    (7081094736886788433, 42, True)
    """
    hashed = _int64("seed", seed)
    for value in values:
        if value is not None:
            hashed = _hash_bytes(_spark_bytes(value), hashed)
    return hashed


def _spark_bytes(value: object) -> bytes:
    if type(value) is int and value in _INT64:  # what most keys are
        return _BIGINT.pack(value)
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise PenstockError.setting("value", value, "text without lone surrogates") from None
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (bool, np.bool_, np.int8, np.int16, np.int32)):
        return struct.pack("<i", int(value))
    if isinstance(value, (int, np.int64)):
        return _BIGINT.pack(_int64("value", value))
    if isinstance(value, (float, np.float32)):
        layout = "<f" if isinstance(value, np.float32) else "<d"
        # Adding 0.0 turns -0.0 into 0.0 and leaves every other number alone.
        return struct.pack(layout, math.nan if math.isnan(value) else float(value) + 0.0)
    raise PenstockError(
        f"a value of type {type(value).__name__} is not usable: give str, bytes, int, float, bool, None or a "
        "signed NumPy number, as Spark's xxhash64 takes"
    )


def _int64(name: str, value: object) -> int:
    if isinstance(value, (int, np.integer)) and int(value) in _INT64:
        return int(value)
    raise PenstockError.setting(name, value, _INT64_WORDS)


def _hash_bytes(data: bytes, seed: int) -> int:
    unsigned = xxhash.xxh64_intdigest(data, seed & _LOW_64)
    return unsigned - 2**64 if unsigned >> 63 else unsigned


def xxhash64_ints(array: NDArray[np.integer[Any]], seed: int | NDArray[np.int64] = SPARK_SEED) -> NDArray[np.int64]:
    """Hash every integer of an array, eight bytes each for int64 and four for anything narrower.

    `seed` may be an array that broadcasts against `array`: the hashes of an earlier column, say. The width
    matters as it does in Spark, where `xxhash64` of a bigint 1 and of an int 1 differ.

    >>> hashes = xxhash64_ints(np.array([7, 8]), seed=xxhash64("Spark"))
    >>> hashes.tolist() == [xxhash64("Spark", 7), xxhash64("Spark", 8)]
    True
    """
    values = np.asarray(array)
    if values.dtype.kind not in "bi":
        raise PenstockError(
            f"an array of {values.dtype} is not usable: give int64, int32, int16, int8 or bool, no nulls"
        )
    narrow = values.dtype.itemsize < np.dtype(np.int64).itemsize
    # One dimension at least, because NumPy warns of the intended overflow in scalars only.
    words = np.atleast_1d(values).astype(np.int64).view(np.uint64)
    given = _hashes("seeds", seed) if isinstance(seed, np.ndarray) else np.array(_int64("seed", seed))
    seeds = np.atleast_1d(given).view(np.uint64)
    try:
        shape = np.broadcast_shapes(values.shape, np.shape(seed))
        if narrow:
            words = (words & np.uint64(0xFFFFFFFF)) * PRIME_1
            hashes = (seeds + (PRIME_5 + np.uint64(4))) ^ words
            hashes = _rotated(hashes, 23) * PRIME_2 + PRIME_3
        else:
            words = _rotated(words * PRIME_2, 31) * PRIME_1
            hashes = (seeds + (PRIME_5 + np.uint64(8))) ^ words
            hashes = _rotated(hashes, 27) * PRIME_1 + PRIME_4
    except ValueError:
        raise PenstockError(f"seeds of shape {np.shape(seed)} do not fit keys of shape {values.shape}") from None
    hashes ^= hashes >> np.uint64(33)
    hashes *= PRIME_2
    hashes ^= hashes >> np.uint64(29)
    hashes *= PRIME_3
    hashes ^= hashes >> np.uint64(32)
    return hashes.view(np.int64).reshape(shape)


def _rotated(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    rotated = words << np.uint64(bits)
    rotated |= words >> np.uint64(64 - bits)
    return rotated


def _hashes(name: str, array: NDArray[np.int64]) -> NDArray[np.int64]:
    if array.dtype != np.int64:
        raise PenstockError(f"{name} of type {array.dtype} are not usable: give int64, as hashes are")
    return array


@overload
def unit_interval(hashed: int) -> float: ...
@overload
def unit_interval(hashed: NDArray[np.int64]) -> NDArray[np.float64]: ...
def unit_interval(hashed: int | NDArray[np.int64]) -> float | NDArray[np.float64]:
    """Spread hashes evenly over [0, 1): u = (hash >>> 11) * 2**-53, exact in a double.

    Catalyst: `shiftrightunsigned(hash, 11) * double(pow(2, -53))`.

    >>> unit_interval(0), unit_interval(-1) < 1, unit_interval(-(2**63))
    (0.0, True, 0.5)
    """
    if isinstance(hashed, np.ndarray):
        return (_hashes("hashes", hashed).view(np.uint64) >> np.uint64(11)) * np.float64(2.0**-53)
    return ((int(hashed) & _LOW_64) >> 11) * 2.0**-53


@overload
def bucket(hashed: int, buckets: int) -> int: ...
@overload
def bucket(hashed: NDArray[np.int64], buckets: int) -> NDArray[np.int64]: ...
def bucket(hashed: int | NDArray[np.int64], buckets: int) -> int | NDArray[np.int64]:
    """Number the bucket of a hash from 0 to `buckets` - 1, as Spark's `pmod(hash, buckets)` does.

    >>> bucket(-1, 10), bucket(np.array([-1, 12]), 10)
    (9, array([9, 2]))
    """
    if _int64("buckets", buckets) < 1:
        raise PenstockError.setting("buckets", buckets, "a whole number from 1 up")
    if isinstance(hashed, np.ndarray):
        return _hashes("hashes", hashed) % np.int64(buckets)
    return int(hashed) % int(buckets)


@dataclass(frozen=True)
class HashFamily:
    """The r hash functions of a sketch with c columns, drawn by a seed (LAS, section 3: 2-universal there).

    h_i(x) = pmod(xxh64(x, seed = s_i), c) with s_i = xxhash64(n_i) and the salt n_i = xxhash64(seed, i), all
    of them bigint, for i = 0 .. r - 1. Catalyst computes the same h_i as
    `pmod(xxhash64(lit(n_i).cast("long"), key), c)`. A key of several columns goes in as its own `xxhash64`.

    >>> family = HashFamily(rows=4, columns=54, seed=0)
    >>> family.columns_of("Spark"), family.columns_of_many(np.array([7, 8])).shape
    ([25, 42, 4, 47], (4, 2))
    """

    rows: int
    columns: int
    seed: int

    def __post_init__(self) -> None:
        """Refuse a family without functions or without columns, and keep plain integers."""
        for name, least in (("rows", 1), ("columns", 1), ("seed", -(2**63))):
            number = _int64(name, getattr(self, name))
            if number < least:
                raise PenstockError.setting(name, number, f"a whole number from {least} up")
            object.__setattr__(self, name, number)

    @cached_property
    def salts(self) -> tuple[int, ...]:
        """The numbers n_i: what Catalyst hashes before the key."""
        return tuple(xxhash64(self.seed, i) for i in range(self.rows))

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds s_i = xxhash64(n_i) with which the key itself is hashed."""
        return tuple(xxhash64(salt) for salt in self.salts)

    def columns_of(self, key: object) -> list[int]:
        """Return h_i(key) for every row i; the key may be any value that `xxhash64` takes."""
        if key is None:
            return [seed % self.columns for seed in self.seeds]
        data = _spark_bytes(key)
        return [_hash_bytes(data, seed) % self.columns for seed in self.seeds]

    def columns_of_many(self, keys: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
        """Return h_i(key) as an array of shape (rows, number of keys)."""
        if np.ndim(keys) != 1:
            raise PenstockError(f"keys of shape {np.shape(keys)} are not usable: give an array of one dimension")
        hashes = xxhash64_ints(keys, seed=np.array(self.seeds)[:, np.newaxis])
        return bucket(hashes, self.columns).astype(np.intp, copy=False)
