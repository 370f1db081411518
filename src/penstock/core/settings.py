"""Reading settings: the number meant, or one line that says what is accepted."""

import math
import re
from numbers import Integral, Real

from penstock.errors import PenstockError

_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|min|h)\s*")


def duration_s(setting: str, given: object) -> float:
    """A positive length of time in seconds, from a number of seconds or a text such as `200 ms`.

    >>> duration_s("target", "200 ms"), duration_s("target", 2)
    (0.2, 2.0)
    >>> duration_s("target", "soon")
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: target = 'soon' is not usable: give seconds above 0, or text like '200 ms' or '2 s'
    """
    seconds = given
    if isinstance(given, str) and (match := _DURATION.fullmatch(given)):
        seconds = float(match[1]) * _UNITS_S[match[2]]
    number = _real(seconds)
    if not 0.0 < number < math.inf:
        raise PenstockError.setting(setting, given, "seconds above 0, or text like '200 ms' or '2 s'")
    return number


def whole_number(setting: str, given: object, least: int) -> int:
    """A whole number from `least` up.

    >>> whole_number("rows", 3, 1)
    3
    """
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        raise PenstockError.setting(setting, given, f"a whole number from {least} up")
    return int(given)


def int64(setting: str, given: object) -> int:
    """A whole number that fits 64 bits, such as a seed.

    >>> int64("seed", -7)
    -7
    """
    number_given = whole_number(setting, given, -(2**63))
    if number_given >= 2**63:
        raise PenstockError.setting(setting, given, "a whole number below 2**63")
    return number_given


def number(setting: str, given: object, least: float, most: float = math.inf) -> float:
    """A finite number from `least` to `most`.

    >>> number("share", 0.5, 0.0, 1.0)
    0.5
    """
    value = _real(given)
    if not (least <= value <= most and value < math.inf):
        bounds = f"a number from {least:g} up" if most == math.inf else f"a number from {least:g} to {most:g}"
        raise PenstockError.setting(setting, given, bounds)
    return value


def _real(given: object) -> float:
    """The number as a float; NaN for anything that is none, truth values included."""
    if isinstance(given, bool) or not isinstance(given, Real):
        return math.nan
    try:
        return float(given)
    except OverflowError:
        return math.inf
