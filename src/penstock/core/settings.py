"""Reading settings: the value, or one line with what is accepted."""

import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from penstock.errors import PenstockError

_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
#: Units as Spark spells them in intervals and triggers; a plural ends in s.
_SPARK_UNITS_S = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")
_DURATION = re.compile(rf"\s*(?:interval\s+)?((?:{_PART.pattern})+)")


def duration_s(setting: str, given: object) -> float:
    """A positive length of time in seconds: a number of seconds, a text such as `200 ms`, or an interval of Spark.

    >>> duration_s("target", "200 ms"), duration_s("target", 2), duration_s("target", "1 minute 30 seconds")
    (0.2, 2.0, 90.0)
    >>> duration_s("target", "soon")
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: target = 'soon' is not usable: give seconds above 0, or text like '200 ms' or '2 s'
    """
    number = _real(_interval_s(given) if isinstance(given, str) else given)
    if not 0.0 < number < math.inf:
        raise PenstockError.setting(setting, given, "seconds above 0, or text like '200 ms' or '2 s'")
    return number


def _interval_s(text: str) -> float | None:
    """The length of time that a text names, as the sum of its parts; None if it names none."""
    found = _DURATION.fullmatch(text.lower())
    parts = _PART.findall(found[1]) if found else []
    units_s = [_UNITS_S.get(unit) or _SPARK_UNITS_S.get(unit.removesuffix("s")) for _, unit in parts]
    if not parts or None in units_s:
        return None
    return sum(float(count) * (unit_s or 0.0) for (count, _), unit_s in zip(parts, units_s, strict=True))


def one_of(setting: str, given: Any, choices: Iterable[str]) -> Any:  # noqa: ANN401 - a literal of the caller's
    """The value, if it is one of the choices."""
    known = tuple(choices)
    if given not in known:
        raise PenstockError.setting(setting, given, f"one of {', '.join(known)}")
    return given


def whole_number(setting: str, given: object, least: int, most: float = math.inf) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(given, bool) or not isinstance(given, Integral) or not least <= int(given) <= most:
        bounds = f"from {least} up" if most == math.inf else f"from {least} to {most}"
        raise PenstockError.setting(setting, given, f"a whole number {bounds}")
    return int(given)


def int64(setting: str, given: object) -> int:
    """A whole number that fits 64 bits, such as a seed."""
    number_given = whole_number(setting, given, -(2**63))
    if number_given >= 2**63:
        raise PenstockError.setting(setting, given, "a whole number below 2**63")
    return number_given


def number(setting: str, given: object, least: float, most: float = math.inf) -> float:
    """A finite number from `least` to `most`."""
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
