"""Conditions in SQL read as sets of values: what a filter asks of the expression by which rows are judged."""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from sqlglot import exp

from penstock.core.network.expressions import bare, constant, parsed, peeled, written
from penstock.core.network.intervals import Interval, IntervalSet

_ALL = IntervalSet.everything()
_TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}


class Narrowed(NamedTuple):
    """The values that a condition lets through; `exact` unless it asks for something else too."""

    values: IntervalSet
    exact: bool


@lru_cache(maxsize=4096)
def narrowed(where: str, subject: str) -> Narrowed:
    """The values of a subject that a condition lets through, as far as it asks for them.

    >>> print(*narrowed("value > 10 AND value * 2 <= 80", "value"))
    (10, 40] True
    >>> print(*narrowed("value > 10 AND kind = 'a'", "value"))
    (10, inf) False
    """
    found, exact = _ALL, True
    for part in _parts(parsed(where)):
        values = _values(part, subject)
        exact = exact and values is not None
        found = found if values is None else found & values
    return Narrowed(found, exact)


def condition(where: str, subject: str) -> IntervalSet | None:
    """The values of a subject that a condition lets through, if it asks for nothing else.

    >>> print(condition("NOT value BETWEEN 10 AND 20", "value"), condition("value > other", "value"))
    (-inf, 10) or (20, inf) None
    """
    values, exact = narrowed(where, subject)
    return values if exact else None


def _parts(tree: exp.Expr) -> Iterable[exp.Expr]:
    """Conditions that all have to hold."""
    tree = bare(tree)
    if isinstance(tree, exp.And):
        yield from _parts(tree.left)
        yield from _parts(tree.right)
    else:
        yield tree


def _values(tree: exp.Expr, subject: str) -> IntervalSet | None:
    """The values for which a condition is true; None if it depends on something else."""
    found = None
    match bare(tree):
        case exp.Boolean(this=true):
            found = _ALL if true else IntervalSet()
        case exp.Not(this=inner):
            found = _negated(bare(inner), subject)
        case (exp.And() | exp.Or()) as both:
            left, right = _values(both.left, subject), _values(both.right, subject)
            if left is not None and right is not None:
                found = left & right if isinstance(both, exp.And) else left | right
        case (exp.Between() | exp.In()) as listed:
            values = _listed(listed)
            found = None if values is None else _back(listed.this, subject, values)
        case (exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.EQ() | exp.NEQ()) as both:
            if (limit := constant(both.right)) is not None:
                found = _back(both.left, subject, _compared(type(both), float(limit)))
            elif (limit := constant(both.left)) is not None:
                found = _back(both.right, subject, _compared(_TURNED[type(both)], float(limit)))
    return found


def _negated(inner: exp.Expr, subject: str) -> IntervalSet | None:
    if isinstance(inner, exp.Is):
        return _back(inner.this, subject, _ALL) if isinstance(inner.args.get("expression"), exp.Null) else None
    # Where the value is missing a condition is neither true nor false: no row passes, turned around or not.
    values = _values(inner, subject)
    return None if values is None else ~values


def _listed(tree: exp.Between | exp.In) -> IntervalSet | None:
    """The constants that a value has to be one of, or lie between."""
    if isinstance(tree, exp.Between):
        low, high = constant(tree.args["low"]), constant(tree.args["high"])
        if low is None or high is None:
            return None
        return IntervalSet.of(Interval(float(low), float(high))) if low <= high else IntervalSet()
    points = [constant(one) for one in tree.args.get("expressions") or ()]
    known = [float(point) for point in points if point is not None]
    fine = known and len(known) == len(points)
    return IntervalSet.of(*(Interval(point, point) for point in known)) if fine else None


def _compared(operator: type[exp.Expr], limit: float) -> IntervalSet:
    if operator in (exp.GT, exp.GTE):
        return IntervalSet.of(Interval(limit, math.inf, low_open=operator is exp.GT))
    if operator in (exp.LT, exp.LTE):
        return IntervalSet.of(Interval(-math.inf, limit, high_open=operator is exp.LT))
    point = IntervalSet.of(Interval(limit, limit))
    return ~point if operator is exp.NEQ else point


def _back(tree: exp.Expr, subject: str, values: IntervalSet) -> IntervalSet | None:
    found = peeled(written(tree))
    return found.back(values) if found is not None and found.core == subject else None
