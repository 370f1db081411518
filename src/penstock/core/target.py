"""Targets: what a stream is to be held to, in the user's terms."""

import re
from dataclasses import dataclass

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
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.0 < seconds < float("inf"):
        raise PenstockError.setting(setting, given, "seconds above 0, or text like '200 ms' or '2 s'")
    return float(seconds)


@dataclass(frozen=True, slots=True)
class MeanQueueLatency:
    """On average, rows wait at most this long between their arrival and the start of their processing.

    >>> MeanQueueLatency("200 ms").limit_s
    0.2
    """

    limit: float | str

    def __post_init__(self) -> None:
        """Refuse what is no length of time."""
        duration_s("limit", self.limit)

    @property
    def limit_s(self) -> float:
        """The limit in seconds."""
        return duration_s("limit", self.limit)
