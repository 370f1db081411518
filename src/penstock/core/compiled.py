"""Compiles loops with Numba, cached on disk if a folder can be written."""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

_F = TypeVar("_F", bound=Callable[..., object])


def compiled(function: _F) -> _F:
    """The function as machine code; compiled again in each process if no cache folder can be written."""
    try:
        return cast("_F", njit(cache=True, nogil=True)(function))
    except RuntimeError:  # Numba found no writable place for its cache
        return cast("_F", njit(nogil=True)(function))
