r"""Rate profiles: how many rows have arrived by a time, and when each of them arrived.

The rate is constant in each of a row of phases. Row n (counted from 0) arrives when the area under the rates,
$V(t) = \int_0^t r$, reaches n + 1:

$$a_n = V^{-1}(n + 1), \qquad \mathrm{rows}(t) = |\{n : a_n \le t\}|$$

so the two directions cannot disagree. After the last phase either the phases repeat or the last rate continues.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.core.settings import duration_s, number
from penstock.errors import PenstockError

CSV_HEADER = "seconds,rows_per_s"
MOST_ROWS_PER_S = 1e9
MOST_PHASE_S = 1e9

_PHASES = f"lengths and rows per second (up to {MOST_ROWS_PER_S:g}), such as '20 s: 500, 60 s: 1000'"
_CSV = (
    f"a CSV with the header {CSV_HEADER} and lines of a length and a rate (up to {MOST_ROWS_PER_S:g}), such as 20,500"
)
#: A round with less would lose its rows in rounding.
_LEAST_ROUND_ROWS = 1e-6
_ABOVE_0 = float(np.finfo(np.float64).tiny)
#: How far the area, as computed, may be off the row number; more than rounding ever is below 1e15 rows.
_SLACK_ROWS = 64


@dataclass(frozen=True)
class RateProfile:
    """Phases of `lengths_s` seconds at `rows_per_s` each; the last continues unless they `repeat`.

    >>> profile = RateProfile.phases("20 s: 500, 60 s: 1000")
    >>> profile.rows_by(20.0), profile.rows_by(21.0)
    (10000, 11000)
    >>> profile.arrival_s(np.array([0, 9_999, 10_999])).tolist()
    [0.002, 20.0, 21.0]
    """

    lengths_s: tuple[float, ...]
    rows_per_s: tuple[float, ...]
    repeat: bool = False

    def __post_init__(self) -> None:
        """Refuse phases that do not match or have no rows."""
        if not self.lengths_s or len(self.lengths_s) != len(self.rows_per_s):
            sizes = f"{len(self.lengths_s)} lengths and {len(self.rows_per_s)} rates"
            raise PenstockError(f"{sizes} make no profile: give one rate for each length, and at least one")
        for length, rate in zip(self.lengths_s, self.rows_per_s, strict=True):
            _length("lengths_s", length)
            _rate("rows_per_s", rate)
        if self.repeat and self._round_rows < _LEAST_ROUND_ROWS:
            raise PenstockError.setting("repeat", self.repeat, "a profile that brings rows in every round")
        if not any(self.rows_per_s):
            raise PenstockError("every rate of the profile is 0: give at least one above 0")

    @classmethod
    def constant(cls, rate: object) -> "RateProfile":
        """A constant rate.

        >>> RateProfile.constant(1000).rows_by(1.5)
        1500
        """
        return cls((1.0,), (_rate("rate", rate),))

    @classmethod
    def bursts(cls, rate: object, *, burst_rate: object, burst_every: object, burst_for: object) -> "RateProfile":
        """A burst at the end of every `burst_every`, `burst_for` long; the plain rate in between.

        >>> RateProfile.bursts(100, burst_rate=900, burst_every="10 s", burst_for="1 s").rows_by(20.0)
        3600
        """
        every_s, for_s = _length("burst_every", burst_every), _length("burst_for", burst_for)
        if for_s >= every_s:
            raise PenstockError.setting("burst_for", burst_for, f"a time shorter than burst_every, {burst_every}")
        return cls((every_s - for_s, for_s), (_rate("rate", rate), _rate("burst_rate", burst_rate)), repeat=True)

    @classmethod
    def phases(cls, text: str, *, repeat: bool = False) -> "RateProfile":
        """Phases from a text such as `20 s: 500, 60 s: 1000`."""
        lengths, rates = [], []
        for part in text.split(","):
            length, _, rate = part.partition(":")
            try:
                lengths.append(_length("phases", parsed(length)))
                rates.append(_rate("phases", parsed(rate)))
            except PenstockError:
                raise PenstockError.setting("phases", text, _PHASES, f"mend {part.strip()!r}") from None
        return cls(tuple(lengths), tuple(rates), repeat)

    @classmethod
    def csv(cls, text: str, *, repeat: bool = False) -> "RateProfile":
        r"""Phases from the text of a CSV: how many seconds, how many rows per second.

        >>> RateProfile.csv("seconds,rows_per_s\n20,500\n60,1000\n") == RateProfile.phases("20 s: 500, 60 s: 1000")
        True
        """
        lines = [line.replace(" ", "") for line in text.removeprefix("\ufeff").splitlines()]
        if not lines or lines[0] != CSV_HEADER:
            raise PenstockError.setting("csv", lines[0] if lines else "", _CSV, "the header is missing")
        lengths, rates = [], []
        for place, line in enumerate(lines[1:], start=2):
            if not line:
                continue
            length, _, rate = line.partition(",")
            try:
                lengths.append(_length("csv", parsed(length)))
                rates.append(_rate("csv", parsed(rate)))
            except PenstockError:
                raise PenstockError.setting("csv", line, _CSV, f"mend line {place}") from None
        if not lengths:
            raise PenstockError.setting("csv", lines[0], _CSV, "only the header is there")
        return cls(tuple(lengths), tuple(rates), repeat)

    def rows_by(self, elapsed_s: float) -> int:
        """How many rows have arrived by `elapsed_s`: those with `arrival_s` at or before it."""
        if not elapsed_s > 0.0:
            return 0
        rounds = elapsed_s // self._round_s if self.repeat else 0.0
        within_s = elapsed_s - rounds * self._round_s
        phase = max(int(np.searchsorted(self._starts_s, within_s, side="right")) - 1, 0)
        area = self._area_before[phase] + (within_s - self._starts_s[phase]) * self._rates[phase]
        guess = int(min(float(rounds * self._round_rows + area), 2.0**62))
        low = max(guess - _SLACK_ROWS, 0)
        near = self.arrival_s(np.arange(low, guess + _SLACK_ROWS, dtype=np.int64))
        return low + int(np.searchsorted(near, elapsed_s, side="right"))

    def arrival_s(self, row_numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """When each row arrives, in seconds after the start; infinity for a row that never does."""
        area = np.asarray(row_numbers, np.float64) + 1.0
        if not self.repeat:
            return self._within(area)
        rounds = np.maximum(np.ceil(area / self._round_rows) - 1.0, 0.0)
        within = self._within(np.clip(area - rounds * self._round_rows, _ABOVE_0, self._round_rows))
        # Never past the end of its round, or rounding could put a row behind the first of the next.
        return np.minimum(rounds * self._round_s + within, (rounds + 1.0) * self._round_s)

    def _within(self, area: NDArray[np.float64]) -> NDArray[np.float64]:
        """When the area under the first round reaches `area`."""
        phase = np.maximum(np.searchsorted(self._area_before, area, side="left") - 1, 0)
        with np.errstate(divide="ignore", over="ignore"):
            times = self._starts_s[phase] + (area - self._area_before[phase]) / self._rates[phase]
        return np.minimum(times, self._ends_s[phase])

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        return np.array(self.rows_per_s)

    @cached_property
    def _ends_s(self) -> NDArray[np.float64]:
        ends = np.cumsum(self.lengths_s)
        if not self.repeat:
            ends[-1] = np.inf
        return ends

    @cached_property
    def _starts_s(self) -> NDArray[np.float64]:
        return np.concatenate([[0.0], np.cumsum(self.lengths_s)[:-1]])

    @cached_property
    def _area_before(self) -> NDArray[np.float64]:
        return np.concatenate([[0.0], np.cumsum(self._rates * self.lengths_s)[:-1]])

    @cached_property
    def _round_s(self) -> float:
        return float(np.cumsum(self.lengths_s)[-1])

    @cached_property
    def _round_rows(self) -> float:
        return float(np.cumsum(self._rates * self.lengths_s)[-1])


def parsed(text: str) -> object:
    """The number that a text spells, or the text itself if it spells none, for the next check to refuse.

    >>> parsed("7"), parsed(" 2.5 "), parsed("2 s")
    (7, 2.5, '2 s')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


def _rate(setting: str, given: object) -> float:
    return number(setting, given, 0.0, MOST_ROWS_PER_S)


def _length(setting: str, given: object) -> float:
    seconds = duration_s(setting, given)
    if seconds > MOST_PHASE_S:
        raise PenstockError.setting(setting, given, f"at most {MOST_PHASE_S:g} s")
    return seconds
