r"""Expressions in SQL, as far as conditions on values are pushed through them.

An expression is rewritten over the columns further upstream by substituting their definitions. Invertible arithmetic
with constants is then removed from outside: `value * 2 + 1` leaves `value`, and a set of results $S$ becomes the set of
values $(S - 1) / 2$. The rest stays and is computed where the condition is placed. A condition itself is read as the
set of values that it passes (`narrowed`).
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.core.network.intervals import Interval, IntervalSet
from penstock.errors import PenstockError

_DIALECT = "spark"
_ONE, _ZERO = Fraction(1), Fraction(0)
#: Functions whose value differs when computed again further upstream.
_ANEW = {
    *("rand", "randn", "random", "randstr", "uuid", "uniform", "shuffle", "now"),
    *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
}


class Peeled(NamedTuple):
    """An expression as `scale * core + shift`; fractions, or `value * 49 > 49` would not be `value > 1`."""

    core: str
    scale: Fraction
    shift: Fraction

    def back(self, values: IntervalSet) -> IntervalSet:
        """The set of the core for a set of the expression."""
        return _moved(values, 1 / self.scale, -self.shift / self.scale)

    def there(self, values: IntervalSet) -> IntervalSet:
        """The set of the expression for a set of the core."""
        return _moved(values, self.scale, self.shift)


def checked(sql: str, setting: str) -> str:
    """The expression in the form in which expressions are compared.

    >>> checked("VALUE*2", "select of scale")
    'value * 2'
    >>> checked("value >", "where of hot")
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: where of hot = 'value >' is not usable: give an expression in SQL, such as \
value > 10 or value * 2 + 1
    """
    return written(parsed(sql, setting))


def columns(sql: str) -> frozenset[str]:
    """The columns that an expression reads.

    >>> sorted(columns("place.town + abs(Value)"))
    ['place', 'value']
    """
    return frozenset(_root(one) for one in parsed(sql).find_all(exp.Column))


def column_names(schema: str | None) -> tuple[str, ...]:
    """The columns of a schema in SQL; none if this parser cannot read it, because Spark accepts several forms.

    >>> column_names("key bigint, value struct<a: int, b: double>")
    ('key', 'value')
    """
    try:
        made = parse_one(f"CREATE TABLE made ({schema or ''})", dialect=_DIALECT)
    except SqlglotError:
        return ()
    return tuple(one.name for one in made.this.expressions if isinstance(one, exp.ColumnDef))


def substituted(sql: str, made_of: Mapping[str, str | None]) -> str | None:
    """The expression with columns substituted; None if one is unknown or not deterministic.

    >>> substituted("value + other", {"value": "raw * 2"})
    '(raw * 2) + other'
    >>> substituted("value * 3", {"value": "raw + 1"})
    '(raw + 1) * 3'
    """
    tree = parsed(sql)
    if not repeatable(sql):
        return None
    for column in list(tree.find_all(exp.Column)):
        name = _root(column)
        if name not in made_of:
            continue
        put = made_of[name]
        if put is None or column.args.get("table") is not None or not repeatable(put):
            return None
        part = parsed(put)
        part = exp.Paren(this=part) if isinstance(part, exp.Binary | exp.Neg | exp.Not | exp.Between) else part
        if column is tree:
            tree = part
        else:
            column.replace(part)
    return written(bare(tree))


def repeatable(sql: str) -> bool:
    """Whether an expression has the same value for a row at every place."""
    for node in parsed(sql).walk():
        if isinstance(node, exp.AggFunc | exp.Window | exp.Query):
            return False
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            if name.lower() in _ANEW or name.lower().startswith("current"):
                return False
    return True


@lru_cache(maxsize=4096)
def peeled(sql: str) -> Peeled | None:
    """Invertible arithmetic taken off; None if nothing is left that depends on a row.

    >>> print(*peeled("(value - 3) / 2"))
    value 1/2 -3/2
    >>> print(*peeled("10 - abs(value)"))
    ABS(value) -1 10
    """
    tree, scale, shift = parsed(sql), Fraction(1), Fraction(0)
    while (step := _step(tree)) is not None:
        tree, more_scale, more_shift = step
        scale, shift = scale * more_scale, scale * more_shift + shift
    if not columns(sql):
        return None
    return Peeled(written(tree), scale, shift)


@lru_cache(maxsize=4096)
def _tree(sql: str) -> exp.Expr | None:
    try:
        tree = parse_one(sql, dialect=_DIALECT)
    except SqlglotError:
        return None
    # A name behind an expression is read as its alias; whole statements are no expressions.
    if isinstance(tree, exp.Alias | exp.Query | exp.Command) or not isinstance(tree, exp.Condition | exp.Interval):
        return None
    for name in tree.find_all(exp.Identifier):
        name.set("this", name.name.lower())
    return bare(tree)


def parsed(sql: str, setting: str = "expression") -> exp.Expr:
    """A copy of the tree, which may be changed."""
    tree = _tree(sql) if isinstance(sql, str) else None
    if tree is None:
        raise PenstockError.setting(setting, sql, "an expression in SQL, such as value > 10 or value * 2 + 1")
    return tree.copy()


def written(tree: exp.Expr) -> str:
    """The expression as text."""
    return tree.sql(dialect=_DIALECT)


def _root(column: exp.Column) -> str:
    """The column itself, where a field of it is named."""
    return str(column.parts[0].name).lower()


def bare(tree: exp.Expr) -> exp.Expr:
    """The expression without parentheses around it."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _moved(values: IntervalSet, scale: Fraction, shift: Fraction) -> IntervalSet:
    def end(value: float) -> float:
        return float(Fraction(value) * scale + shift) if math.isfinite(value) else value if scale > 0 else -value

    found = []
    for part in values.parts:
        ends = ((end(part.low), part.low_open), (end(part.high), part.high_open))
        (low, low_open), (high, high_open) = ends if scale > 0 else ends[::-1]
        found.append(Interval(low, high, low_open, high_open))
    return IntervalSet.of(*found)


def constant(tree: exp.Expr | None) -> Fraction | None:
    """The number that an expression without columns is."""
    match bare(tree) if tree is not None else None:
        case exp.Literal(is_string=False) as literal:
            return Fraction(literal.this)
        case exp.Neg(this=inner) if (value := constant(inner)) is not None:
            return -value
        case exp.Cast(this=inner) as cast if cast.to.is_type("double"):
            return constant(inner)
        case (exp.Add() | exp.Sub() | exp.Mul() | exp.Div()) as both:
            left, right = constant(both.left), constant(both.right)
            if left is None or right is None or (isinstance(both, exp.Div) and right == 0):
                return None
            results = {exp.Add: left + right, exp.Sub: left - right, exp.Mul: left * right}
            return left / right if isinstance(both, exp.Div) else results[type(both)]
    return None


def _step(tree: exp.Expr) -> tuple[exp.Expr, Fraction, Fraction] | None:
    """The operand of the outermost operation, with its factor and summand."""
    match tree:
        case exp.Paren(this=inner):
            return inner, _ONE, _ZERO
        case exp.Neg(this=inner):
            return inner, -_ONE, _ZERO
        case exp.Cast(this=inner) as cast if cast.to.is_type("double"):
            return inner, _ONE, _ZERO
        case (exp.Add() | exp.Sub() | exp.Mul() | exp.Div()) as both:
            return _arithmetic(both)
    return None


def _arithmetic(both: exp.Binary) -> tuple[exp.Expr, Fraction, Fraction] | None:
    left, right = constant(both.left), constant(both.right)
    by = left if right is None else right
    if by is None or (left is not None and right is not None):
        return None
    tree, found = both.right if right is None else both.left, None
    match both:
        case exp.Add():
            found = tree, _ONE, by
        case exp.Sub():
            found = (tree, -_ONE, by) if right is None else (tree, _ONE, -by)
        case exp.Mul() if by:
            found = tree, by, _ZERO
        case exp.Div() if by and right is not None:
            found = tree, 1 / by, _ZERO
    return found


_ALL = IntervalSet.everything()
_TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}


class Narrowed(NamedTuple):
    """The values that a condition passes; not `exact` if it has other requirements too."""

    values: IntervalSet
    exact: bool


@lru_cache(maxsize=4096)
def narrowed(where: str, subject: str) -> Narrowed:
    """The values of a subject that a condition passes, as far as it depends on them.

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
    # For a null value a condition is neither true nor false: no row passes, negated or not.
    values = _values(inner, subject)
    return None if values is None else ~values


def _listed(tree: exp.Between | exp.In) -> IntervalSet | None:
    """The constants that a value must equal or lie between."""
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
