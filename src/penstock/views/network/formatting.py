"""Numbers and names as shown in the terminal and on the page."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.views.network.snapshot import Snapshot

#: Shown for an unknown number.
UNKNOWN = "-"
_THOUSANDS, _MILLIONS = 1e5, 1e8
_LEAST_LOAD = 0.01
_WHOLE = 100.0
_ALMOST_WHOLE = 99.95


def plain(text: str) -> str:
    r"""The text without control characters.

    >>> plain("a\x1b[31mb")
    'a?[31mb'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def cut(text: str, cells: int) -> str:
    """The text in a limited number of columns; the middle is cut, because names differ at both ends.

    >>> cut("temperature_of_hall_17", 12)
    'temper…ll_17'
    """
    text = plain(text)
    if cell_len(text) <= cells:
        return text
    if cells < 3:  # noqa: PLR2004 - a letter at each end and the mark between
        return "…"[:cells]
    tail = (cells - 1) // 2
    end = len(text)
    while cell_len(text[end - 1 :]) <= tail:
        end -= 1
    return f"{set_cell_size(text, cells - 1 - tail).rstrip()}…{text[end:]}"


def folded(text: str, cells: int, lines: int) -> list[str]:
    """The text in a few lines; the last one ends in an ellipsis if text is cut.

    >>> folded("keeps value >= 25 or urgent", 14, 2)
    ['keeps value >=', '25 or urgent']
    """
    return [cut(line, cells) for line in textwrap.wrap(plain(text), cells, max_lines=lines, placeholder="…")]


def rows(number: float | None) -> str:
    """Rows, or rows a second.

    >>> rows(3.14159), rows(12345.6), rows(2.5e6), rows(None)
    ('3.1', '12,346', '2,500k', '-')
    """
    if number is None or not math.isfinite(number):
        return UNKNOWN
    if number >= _MILLIONS:
        return f"{number / 1e6:,.0f}M"
    if number >= _THOUSANDS:
        return f"{number / 1e3:,.0f}k"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"  # noqa: PLR2004


def load(number: float | None) -> str:
    """Work a second.

    >>> load(1.234), load(0.0001), load(0.0), load(512.3)
    ('1.23', '<0.01', '0.00', '512')
    """
    if number is None or not math.isfinite(number):
        return UNKNOWN
    if 0.0 < number < _LEAST_LOAD:
        return f"<{_LEAST_LOAD}"
    return f"{number:.2f}" if number < _WHOLE else f"{number:,.0f}"


def percent(number: float | None) -> str:
    """Percent delivered; 100% only for all rows.

    >>> percent(62.5), percent(40.0), percent(99.99), percent(100.0)
    ('62.5%', '40%', '>99.9%', '100%')
    """
    if number is None or not math.isfinite(number):
        return UNKNOWN
    if _ALMOST_WHOLE <= number < _WHOLE:
        return ">99.9%"
    return f"{number:.0f}%" if f"{number:.1f}".endswith(".0") else f"{number:.1f}%"


def share(number: float) -> str:
    """A part of a whole.

    >>> share(0.31), share(0.001)
    ('31%', '<1%')
    """
    return "<1%" if 0.0 < number < 0.005 else f"{number:.0%}"  # noqa: PLR2004 - what would be rounded to 0%


def utility(number: float | None) -> str:
    """The utility of an output, from 0 to 1."""
    return UNKNOWN if number is None or not math.isfinite(number) else f"{number:.2f}"


def limit(snapshot: Snapshot) -> float:
    """Allowed work a second."""
    return snapshot.headroom * snapshot.capacity


def carried(snapshot: Snapshot) -> float:
    """Work a second with the current drops."""
    return sum(snapshot.loads.values())


def known(numbers: Mapping[str, float], name: str) -> float | None:
    """A number, if there is one."""
    found = numbers.get(name)
    return found if found is not None and math.isfinite(found) else None
