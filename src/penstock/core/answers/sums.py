"""Sums of weighted rows, the input of `core.answers.estimates`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

#: A weight up to this is that of a row kept with certainty: `thresholds.CERTAIN_WEIGHT`, also after products.
CERTAIN_AT_MOST = 1.0 + 2.0**-40
#: Rows of several groups that are summed at once: so few that the arrays in between stay in a processor's cache.
_AT_ONCE = 16_384


class Sums(NamedTuple):
    """Sums of a group of rows, for numerators a and denominators b; totals do not use b."""

    rows: Any  #: how many rows have a value
    a: Any  #: sum of w a
    b: Any  #: sum of w b
    aa: Any  #: sum of w (w - 1) a a
    ab: Any  #: sum of w (w - 1) a b
    bb: Any  #: sum of w (w - 1) b b
    certain: Any  #: sum of a over rows of weight 1
    certain_b: Any  #: sum of b over rows of weight 1
    seen: Any  #: sum of a
    g: Any  #: sum of g = w (w - 1)
    gg: Any  #: sum of g g
    least: Any  #: smallest a
    most: Any  #: largest a
    wrong: Any  #: rows whose weight is below 1, infinite or no number


class Numbers(Protocol):
    """How to calculate with one kind of numbers."""

    @property
    def unknown(self) -> Any:  # noqa: ANN401 - arrays or columns
        """NaN or null."""

    def sqrt(self, value: Any, /) -> Any:  # noqa: ANN401
        """The square root."""

    def ratio(self, above: Any, below: Any, /) -> Any:  # noqa: ANN401
        """The quotient; unknown if the divisor is 0."""

    def choose(self, condition: Any, then: Any, otherwise: Any, /) -> Any:  # noqa: ANN401
        """The one or the other; the other also where the condition is unknown."""

    def larger(self, one: Any, other: Any, /) -> Any:  # noqa: ANN401
        """The larger of two."""

    def given(self, found: Any, body: Callable[[Any], Any], /) -> Any:  # noqa: ANN401
        """The body's result for a named tuple of numbers, each of which is computed once for all uses."""


class Arrays:
    """Calculates with NumPy arrays.

    >>> Arrays().ratio(np.array([1.0, 2.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """

    unknown = np.nan

    def sqrt(self, value: Any) -> Any:  # noqa: ANN401 - arrays
        """The square root."""
        return np.sqrt(np.maximum(value, 0.0))

    def ratio(self, above: Any, below: Any) -> Any:  # noqa: ANN401
        """The quotient; NaN if the divisor is 0."""
        above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
        return np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0.0)

    def choose(self, condition: Any, then: Any, otherwise: Any) -> Any:  # noqa: ANN401
        """The one or the other."""
        return np.where(condition, then, otherwise)

    def larger(self, one: Any, other: Any) -> Any:  # noqa: ANN401
        """The larger of two."""
        return np.maximum(one, other)

    def given(self, found: Any, body: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """The body's result; the numbers are computed already."""
        return body(found)


def summed(
    weights: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64] | float = 1.0,
    *,
    present: NDArray[np.bool_] | bool = True,
    coins: NDArray[np.int64] | None = None,
) -> Sums:
    """The sums of a group, or along the last axis of several; a row is left out where it is not `present`.

    With `coins`, for one group, rows with the same number share a coin.

    >>> weights, values = np.array([2.0, 2.0, 1.0]), np.array([3.0, 5.0, 1.0])
    >>> float(summed(weights, values).aa), round(summed(weights, values, coins=np.array([7, 7, 8])).aa)
    (68.0, 128)
    """
    present = np.broadcast_to(present, weights.shape)
    if weights.ndim > 1 and len(weights) > 1 and weights.size > _AT_ONCE:
        a, b = np.broadcast_to(a, weights.shape), np.broadcast_to(b, weights.shape)
        step = max(_AT_ONCE * len(weights) // weights.size, 1)
        parts = [slice(start, start + step) for start in range(0, len(weights), step)]
        found = [summed(weights[part], a[part], b[part], present=present[part]) for part in parts]
        return Sums(*map(np.concatenate, zip(*found, strict=True)))
    sound = np.isfinite(weights) & (weights >= 1.0)
    used, certain = present & sound, weights <= CERTAIN_AT_MOST
    w = _only(weights, used & ~certain) + (used & certain)
    a, b = _only(a, present), _only(np.broadcast_to(b, weights.shape), present)
    g = w * np.maximum(w - 1.0, 0.0)
    aa, ab, bb = g * a * a, g * a * b, g * b * b
    if coins is not None:
        _, cluster = np.unique(coins, return_inverse=True)
        u, v, root = (np.asarray(np.bincount(cluster, np.sqrt(g) * one), np.float64) for one in (a, b, np.ones(len(g))))
        aa, ab, bb, g = u * u, u * v, v * v, root * root
    certain = w == 1.0
    absent = np.copysign(np.inf, 0.5 - present)  # infinite where a row is absent, and below any value elsewhere
    return Sums(
        rows=present.sum(-1),
        a=(w * a).sum(-1),
        b=(w * b).sum(-1),
        aa=aa.sum(-1),
        ab=ab.sum(-1),
        bb=bb.sum(-1),
        certain=_only(a, certain).sum(-1),
        certain_b=_only(b, certain).sum(-1),
        seen=a.sum(-1),
        g=g.sum(-1),
        gg=(g * g).sum(-1),
        least=np.maximum(a, absent).min(-1, initial=np.inf),
        most=np.minimum(a, -absent).max(-1, initial=-np.inf),
        wrong=(present & ~sound).sum(-1),
    )


def _only(values: NDArray[np.float64], where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The values where a condition holds, and 0 elsewhere; several times as fast as `np.where` if it varies by chance.

    >>> _only(np.array([1.0, np.nan, -np.inf]), np.array([True, False, False])).tolist()
    [1.0, 0.0, 0.0]
    """
    every_bit = -where.astype(np.int64)
    kept: NDArray[np.float64] = (np.asarray(values, np.float64).view(np.int64) & every_bit).view(np.float64)
    return kept
