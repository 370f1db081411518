"""xxHash64 of many slices of bytes in one compiled loop, for strings: see `penstock.core.hashing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.compiled import compiled
from penstock.core.hashing import PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STRIPE, _WORD, _HALF = 32, 8, 4  # bytes that xxHash64 takes in one step, largest first


@compiled
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@compiled
def _load(data: NDArray[np.uint8], at: int, count: int) -> np.uint64:
    word = np.uint64(0)
    for k in range(count):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


@compiled
def _mix(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * PRIME_2, 31) * PRIME_1


@compiled
def _hash_slice(data: NDArray[np.uint8], at: int, end: int, seed: np.uint64) -> np.uint64:
    hashed = seed + PRIME_5
    length = np.uint64(end - at)
    if end - at >= _STRIPE:
        a, b, c, d = seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1
        while end - at >= _STRIPE:
            a = _mix(a, _load(data, at, _WORD))
            b = _mix(b, _load(data, at + 8, _WORD))
            c = _mix(c, _load(data, at + 16, _WORD))
            d = _mix(d, _load(data, at + 24, _WORD))
            at += _STRIPE
        hashed = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for lane in (a, b, c, d):
            hashed = (hashed ^ _mix(np.uint64(0), lane)) * PRIME_1 + PRIME_4
    hashed += length
    while end - at >= _WORD:
        hashed = _rotate(hashed ^ _mix(np.uint64(0), _load(data, at, _WORD)), 27) * PRIME_1 + PRIME_4
        at += _WORD
    if end - at >= _HALF:
        hashed = _rotate(hashed ^ (_load(data, at, _HALF) * PRIME_1), 23) * PRIME_2 + PRIME_3
        at += _HALF
    while at < end:
        hashed = _rotate(hashed ^ (np.uint64(data[at]) * PRIME_5), 11) * PRIME_1
        at += 1
    hashed = (hashed ^ (hashed >> np.uint64(33))) * PRIME_2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * PRIME_3
    return hashed ^ (hashed >> np.uint64(32))


@compiled
def hash_slices(offsets: NDArray[np.int64], data: NDArray[np.uint8], hashes: NDArray[np.uint64]) -> None:
    """Hash the bytes between each offset and the next, with the seeds in `hashes`, and leave the hashes there."""
    for i in range(len(hashes)):
        hashes[i] = _hash_slice(data, offsets[i], offsets[i + 1], hashes[i])
