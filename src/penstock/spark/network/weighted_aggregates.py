r"""Aggregates over rows of which some were dropped at random: each kept row represents several.

A row that was kept with probability $p$ has weight $w = 1/p$. So $\sum w$ estimates a count and $\sum w x$ a sum
without bias, and their ratio is a mean. Of other aggregates, such as a maximum or a count of distinct values, nothing
can be corrected by weights: they stay as they are.
"""

import sqlglot
from sqlglot import expressions as sql

from penstock.errors import PenstockError

#: Other names of aggregates that can be corrected.
_SAME: dict[str, type[sql.Func]] = {"mean": sql.Avg, "try_avg": sql.Avg, "try_sum": sql.Sum, "count_if": sql.CountIf}
#: Aggregates whose names the parser does not know to be such.
_OTHERS = ("any_value", "bool_and", "bool_or", "collect_list", "collect_set", "every", "some", "kurtosis", "skewness")


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
    """The aggregates in an expression that weights cannot correct.

    >>> unweighted("sum(value) + max(value) + count(distinct key)")
    ['COUNT', 'MAX']
    """
    parsed = sqlglot.parse_one(expression, dialect="spark")
    found = [one.sql_name() for one in parsed.find_all(sql.AggFunc) if _weighted(one, sql.column("w")) is one]
    return found + [one.name.upper() for one in parsed.find_all(sql.Anonymous) if one.name.lower() in _OTHERS]


def _weighted(node: sql.Expr, weight: sql.Column) -> sql.Expr:
    if isinstance(node, sql.Anonymous) and node.name.lower() in _SAME and len(node.expressions) == 1:
        node = _SAME[node.name.lower()](this=node.expressions[0])
    if isinstance(node, sql.CountIf):
        return sql.Sum(this=sql.Case(ifs=[sql.If(this=node.this.copy(), true=weight.copy())]))
    if isinstance(node, sql.Count) and not isinstance(node.this, sql.Distinct) and not node.expressions:
        all_rows = node.this is None or isinstance(node.this, sql.Star | sql.Literal)
        return sql.Sum(this=weight.copy()) if all_rows else _sum_where(node.this, weight)
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
