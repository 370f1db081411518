"""A value typed by a user, as Spark hashes a value of the column's type."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

_LETTERS = 200
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
#: Decimals of up to this many digits fit a bigint, and Spark hashes them as such.
_BIGINT_DIGITS = 18
#: More digits than any Spark type has, so nothing is rounded.
_EXACT = decimal.Context(prec=100, traps=[decimal.InvalidOperation])


def _date(text: str) -> np.int32:
    return np.int32((dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days)


def microseconds(text: str) -> int:
    """Microseconds since 1970 of a time, in UTC unless it names a zone."""
    found = dt.datetime.fromisoformat(text)
    known = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return (known - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _decimal(text: str, digits: int, behind_point: int) -> int | bytes:
    """The number without its point: up to 18 digits as a bigint, else as the bytes of Java's BigInteger."""
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise ValueError
    scaled = _EXACT.scaleb(number, behind_point)
    whole = int(scaled)
    if whole != scaled or abs(whole) >= 10**digits:
        raise ValueError
    if digits <= _BIGINT_DIGITS:
        return whole
    bits = (whole if whole >= 0 else ~whole).bit_length()
    return whole.to_bytes(bits // 8 + 1, "big", signed=True)


#: How a value of each Spark type is parsed, so that it hashes as in Spark.
_READ: dict[str, Callable[[str], object]] = {
    "string": str,
    "binary": str.encode,
    "bigint": int,
    "int": lambda text: np.int32(int(text)),
    "smallint": lambda text: np.int32(int(text)),
    "tinyint": lambda text: np.int32(int(text)),
    "double": float,
    "float": lambda text: np.float32(float(text)),
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "date": _date,
    "timestamp": microseconds,
    "timestamp_ntz": microseconds,
}


def typed(text: str | None, kind: str) -> object:
    """A value as Spark hashes one of that type; None is null.

    >>> typed("7", "bigint"), typed("7", "string"), typed("1970-01-03", "date"), typed("1.5", "decimal(5,2)")
    (7, '7', np.int32(2), 150)
    """
    if text is None:
        return None
    try:
        if sizes := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
            return _decimal(text, int(sizes[1]), int(sizes[2]))
        read = _READ.get("string" if kind.startswith(("varchar", "char")) else kind)
        if read is not None:
            return read(text)
    except (KeyError, ValueError, ArithmeticError):
        raise PenstockError.setting("value", text[:_LETTERS], f"one of type {kind}, or say that it is null") from None
    raise PenstockError(f"a value of type {kind} cannot be looked up here: text, numbers, dates and times can")
