r"""Aggregates over rows of which some were dropped by chance: each row kept stands for several.

A row that was kept with probability $p$ has weight $w = 1/p$, so $\sum w$ estimates a count and $\sum w x$ a sum
without bias, and their ratio is a mean. Of other aggregates, such as a maximum or a count of distinct values, nothing
can be put right by weights: they are left as they are.
"""

import sqlglot
from sqlglot import expressions as sql

from penstock.errors import PenstockError


def weighted(expression: str, weight: str) -> str:
    """The aggregate in SQL with counts, sums and means of rows that carry weights.

    >>> weighted("count(1)", "w")
    'SUM(w)'
    >>> weighted("sum(value) / count(*)", "w")
    'SUM(value * w) / SUM(w)'
    >>> weighted("avg(value)", "w")
    'SUM(value * w) / SUM(CASE WHEN NOT value IS NULL THEN w END)'
    >>> weighted("max(value)", "w")
    'MAX(value)'
    """
    try:
        parsed = sqlglot.parse_one(expression, dialect="spark")
    except sqlglot.errors.SqlglotError:
        raise PenstockError.setting("select", expression, "an aggregate in SQL, such as count(1)") from None
    return parsed.transform(_weighted, sql.column(weight)).sql(dialect="spark")


def unweighted(expression: str) -> list[str]:
    """The aggregates in an expression that weights cannot put right.

    >>> unweighted("sum(value) + max(value) + count(distinct key)")
    ['COUNT', 'MAX']
    """
    parsed = sqlglot.parse_one(expression, dialect="spark")
    return [one.sql_name() for one in parsed.find_all(sql.AggFunc) if _weighted(one, sql.column("w")) is one]


def _weighted(node: sql.Expr, weight: sql.Column) -> sql.Expr:
    if isinstance(node, sql.Count):
        counted = node.this
        if isinstance(counted, sql.Distinct) or node.expressions:
            return node
        if counted is None or isinstance(counted, sql.Star | sql.Literal):
            return sql.Sum(this=weight.copy())
        return _sum_where(counted, weight)
    if isinstance(node, sql.Sum) and not isinstance(node.this, sql.Distinct):
        return sql.Sum(this=_times(node.this, weight))
    if isinstance(node, sql.Avg) and not isinstance(node.this, sql.Distinct):
        return sql.Div(this=sql.Sum(this=_times(node.this, weight)), expression=_sum_where(node.this, weight))
    return node


def _times(value: sql.Expr, weight: sql.Column) -> sql.Mul:
    inner = value.copy() if isinstance(value, sql.Column | sql.Literal | sql.Func) else sql.Paren(this=value.copy())
    return sql.Mul(this=inner, expression=weight.copy())


def _sum_where(value: sql.Expr, weight: sql.Column) -> sql.Sum:
    """The weights of rows with a value."""
    present = sql.Not(this=sql.Is(this=value.copy(), expression=sql.Null()))
    return sql.Sum(this=sql.Case(ifs=[sql.If(this=present, true=weight.copy())]))
