"""Answers over weighted rows as Spark columns: plain aggregates for `groupBy(...).agg`, in streams and in batches.

Each is a struct: `estimate`, `error` (standard error), `low` and `high` (its confidence interval), `rows` and
`effective_rows`. These are the rows it was made of, and the equivalent number of rows of one weight. Unknown values are
null. Without an alias an answer is called as Spark calls its own aggregates: `count`, `sum(amount)`. The equations are
in `penstock.core.answers.estimates`.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import StringType

from penstock.core.answers import estimates as equations
from penstock.core.answers.estimates import Quantile
from penstock.core.answers.sums import CERTAIN_AT_MOST, Sums
from penstock.errors import PenstockError, PenstockWarning
from penstock.spark.guard.checks import column_name, column_names
from penstock.spark.row_columns import WEIGHT, maker, passed_on, refuse_another, refuse_unmarked

#: Joins after which weights are right, by the sides that have them: a row whose partner was shed must not look alone.
_SOUND = {
    ("left",): ("inner", "left", "leftsemi", "leftanti", "semi", "anti"),
    ("right",): ("inner", "right"),
    ("left", "right"): ("inner",),
}
_COIN, _U, _V, _G = "coin", "u", "v", "g"
#: Where an answer's column has the columns that it takes numbers from, by what they are given as.
_NUMBERS = "_penstock_numbers"
#: Where it has whether the user named the column of weights.
_NAMED = "_penstock_named"
#: Names of expressions may be long; this many letters identify one.
_MOST_LETTERS = 40


class Columns:
    """Calculates with Spark columns."""

    @property
    def unknown(self) -> Column:
        """Null."""
        return F.lit(None).cast("double")

    def sqrt(self, value: Column) -> Column:
        """The square root."""
        return F.sqrt(F.greatest(value, F.lit(0.0)))

    def ratio(self, above: Column, below: Column) -> Column:
        """The quotient; null if the divisor is 0."""
        return F.try_divide(above, below)

    def choose(self, condition: Column, then: Column, otherwise: Column) -> Column:
        """The one or the other; the other also where the condition is null."""
        return F.when(condition, then).otherwise(otherwise)

    def larger(self, one: Column, other: Any) -> Column:  # noqa: ANN401 - a column or a number
        """The larger of two; null if the first is."""
        other = other if hasattr(other, "alias") else F.lit(other)
        return F.when(one.isNotNull(), F.greatest(one, other))

    def given(self, found: Any, body: Callable[[Any], Any]) -> Column:  # noqa: ANN401 - any named tuple of columns
        """What the body makes of them, as a struct.

        They go through a list of one, so that the body has names for them. Written out wherever they are used, they
        would take Spark's optimizer many times as long.
        """
        kind = type(found)

        def told(one: Column) -> Column:
            made = body(kind(*(one[name] for name in kind._fields)))
            return _struct(made) if isinstance(made, tuple) else made

        return F.get(F.transform(F.array(_struct(found)), told), F.lit(0))


def count(
    where: str | Column | None = None,
    *,
    weight: str | None = None,
    confidence: float = 0.95,
    row: str | Sequence[str] = (),
) -> Column:
    """How many rows there are; with `where`, how many meet a condition, in SQL or a column.

    Args:
        where: Which rows count; null counts as no.
        weight: Column with the weights, `weight` if not given; a null in it counts as 1.
        confidence: How often the interval is to hold the true value.
        row: Columns that the gate hashes, if several rows of a group are equal in them.
    """
    values, equation = (_hit(where), F.lit(1.0)), partial(equations.total, counted=True)
    return _answer(_name("count", where), equation, values, weight, confidence, row)


def sum(  # noqa: A001 - as Spark calls it
    value: str | Column, *, weight: str | None = None, confidence: float = 0.95, row: str | Sequence[str] = ()
) -> Column:
    """The sum of a column; nulls are left out. Arguments as in `count`."""
    values, name = (_value(value), F.lit(1.0)), _name("sum", value)
    return _answer(name, equations.total, values, weight, confidence, row, value=value)


def mean(
    value: str | Column, *, weight: str | None = None, confidence: float = 0.95, row: str | Sequence[str] = ()
) -> Column:
    """The mean of a column; nulls are left out. Arguments as in `count`."""
    values, name = (_value(value), F.lit(1.0)), _name("mean", value)
    return _answer(name, equations.ratio, values, weight, confidence, row, value=value)


def share(
    where: str | Column, *, weight: str | None = None, confidence: float = 0.95, row: str | Sequence[str] = ()
) -> Column:
    """The share of rows that meet a condition; null counts as no. Arguments as in `count`."""
    values, name = (_hit(where), F.lit(1.0)), _name("share", where)
    return _answer(name, equations.share, values, weight, confidence, row)


def ratio(
    above: str | Column,
    below: str | Column,
    *,
    weight: str | None = None,
    confidence: float = 0.95,
    row: str | Sequence[str] = (),
) -> Column:
    """The sum of one column over that of another; a null counts as 0, as it does in `sum(a) / sum(b)`."""
    a, b = (F.coalesce(_value(one), F.lit(0.0)) for one in (above, below))
    name, given = _name("ratio", above, below), {"above": above, "below": below}
    return _answer(name, equations.ratio, (a, b), weight, confidence, row, **given)


def grouped(df: DataFrame, by: str | Column | Sequence[str | Column], **named: Column) -> DataFrame:
    """One row a group, with the answers under their names: short for `df.groupBy(by).agg(...)`.

    Every interval is meant for itself: of twenty groups with 95 percent intervals, one may well be off.
    """
    if not named:
        raise PenstockError("no answer is asked for: give one by its name, such as n=answers.count()")
    for name, answer in named.items():
        if isinstance(answer, str) or not hasattr(answer, "alias"):
            raise PenstockError.setting(name, answer, "an answer such as answers.count()")
        if vars(answer).get(_NAMED) is False:
            refuse_another(df, WEIGHT)
        _refuse_text(df, name, answer)
    columns: list[Any] = list(by) if isinstance(by, list | tuple) else [by]
    return df.groupBy(*columns).agg(*(answer.alias(name) for name, answer in named.items()))


def min(value: str | Column) -> Column:  # noqa: A001 - as Spark calls it
    """The smallest value among rows that were kept, with a warning."""
    return F.min(_unbounded("min", value, "a smaller value may have been shed: the true minimum is this or less"))


def max(value: str | Column) -> Column:  # noqa: A001 - as Spark calls it
    """The largest value among rows that were kept, with a warning."""
    return F.max(_unbounded("max", value, "a larger value may have been shed: the true maximum is this or more"))


def count_distinct(value: str | Column) -> Column:
    """How many values rows that were kept have, with a warning."""
    why = "values whose rows were all shed are missing, so this is a lower bound"
    return F.count_distinct(_unbounded("count_distinct", value, why))


def join(
    left: DataFrame, right: DataFrame, on: str | list[str], how: str = "inner", *, weight: str | None = None
) -> DataFrame:
    """Rows of two frames together. If both carry weights these are multiplied, with a warning.

    Weights are in the column `weight` if it is a guard's, by Spark's metadata. Name the column if it has another name,
    or came through Kafka or a function of yours, which lose metadata.

    Joins that show rows without a partner are refused where the partner may have been shed.

    A pair is there if both rows were kept, so its weight is the product. Estimates of counts and sums stay unbiased if
    guards have names of their own. If one name made both weights, a second warning says so. Pairs with a common row
    share its coin: of their error nothing is known. With weights on one side only each row keeps its own. If it meets
    several rows, name the columns that identify a row on its side as `row` in the answers.
    """
    keys = [on] if isinstance(on, str) else on
    for side, df in (("left", left), ("right", right)):
        if weight is None and WEIGHT not in keys:
            refuse_unmarked(df, WEIGHT, "weight", f"the {side} side of the join")
    weight = WEIGHT if weight is None else column_name("weight", weight)
    weighted = tuple(side for side, df in (("left", left), ("right", right)) if weight in df.columns)
    if weight in keys or not weighted:
        return left.join(right, on, how)
    usable = _SOUND[weighted]
    if str(how).lower().replace("_", "").replace("outer", "") not in usable:
        where = "both sides carry" if len(weighted) > 1 else f"the {weighted[0]} side carries"
        accepted = f"one of {', '.join(usable)} where {where} weights"
        raise PenstockError.setting("how", how, accepted, "a row without a partner may have lost it")
    if len(weighted) == 1:
        return left.join(right, on, how)
    why = "pairs with a common row were kept or shed together: estimates hold on average, intervals do not"
    _warn("join", why, above=1)
    makers = [maker(df, weight) for df in (left, right)]
    if makers[0] is not None and makers[0] == makers[1]:
        warnings.warn(
            f"answers.join multiplies weights that guard {makers[0]!r} made on both sides: rows with equal identity "
            "hash alike there; give each side's guard its own name",
            PenstockWarning,
            stacklevel=2,
        )
    theirs = "__penstock_weight"
    joined = left.join(right.withColumnRenamed(weight, theirs), on, how)
    product = F.coalesce(F.col(weight), F.lit(1.0)) * F.coalesce(F.col(theirs), F.lit(1.0))
    return passed_on(joined.withColumn(weight, product).drop(theirs), left, weight)


def _unbounded(name: str, value: str | Column, why: str) -> Column:
    _warn(name, why, above=2)
    return _column("value", value)


def _warn(name: str, why: str, *, above: int) -> None:
    """Warn at the calling line, this many calls above."""
    line = f"answers.{name} of rows behind a gate has no bound: {why}"
    warnings.warn(line, PenstockWarning, stacklevel=2 + above)


def _column(setting: str, given: str | Column) -> Column:
    if isinstance(given, str) and given.strip():
        return F.col(given)
    if not isinstance(given, str) and hasattr(given, "alias"):
        return given
    raise PenstockError.setting(setting, given, "the name of a column, or a column")


def _name(function: str, *given: str | Column | None) -> str:
    """What an answer is called: Spark's own name would be all of its expression, many hundreds of letters."""
    texts = [
        one if isinstance(one, str) else str(one)[len("Column<'") : -len("'>")] for one in given if one is not None
    ]
    short = (text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..." for text in texts)
    return f"{function}({', '.join(short)})" if texts else function


def _refuse_text(df: DataFrame, name: str, answer: Column) -> None:
    """Numbers that are text: Spark would cast them and fail at the first row that is none."""
    # A column with an alias does not show its expression.
    numbers = vars(answer).get(_NUMBERS)
    if not numbers:
        return
    for setting, kind in zip(numbers, df.select(*numbers.values()).schema, strict=True):
        if isinstance(kind.dataType, StringType):
            raise PenstockError.setting(
                f"{name}: {setting}", kind.name, "a column of numbers", 'it is text: cast it to "double" first'
            )


def _value(given: str | Column) -> Column:
    return _column("value", given).cast("double")


def _hit(where: str | Column | None) -> Column:
    if where is None:
        return F.lit(1.0)
    if isinstance(where, str) and where.strip():
        where = F.expr(where)
    elif not hasattr(where, "alias"):
        raise PenstockError.setting("where", where, "a condition in SQL such as \"status = 'failed'\", or a column")
    return F.when(where, F.lit(1.0)).otherwise(F.lit(0.0))  # type: ignore[arg-type]


def _answer(
    name: str,
    equation: Callable[[Sums, Quantile, Any], Any],
    values: tuple[Column, Column],
    weight: str | None,
    confidence: float,
    row: str | Sequence[str],
    **numbers: str | Column,
) -> Column:
    quantile = Quantile(confidence)
    name_of_weights = WEIGHT if weight is None else column_name("weight", weight)
    sums = _sums(*values, F.col(name_of_weights), column_names("row", row) if row else ())
    made = Columns().given(sums, lambda found: equation(found, quantile, Columns())).alias(name)
    vars(made)[_NUMBERS] = {**numbers, "weight": name_of_weights}
    vars(made)[_NAMED] = weight is not None
    return made


def _struct(values: Any) -> Column:  # noqa: ANN401 - any named tuple of columns and numbers
    fields = values._asdict().items()
    return F.struct(*((one if hasattr(one, "alias") else F.lit(one)).alias(name) for name, one in fields))


def _sums(a: Column, b: Column, weight: Column, row: tuple[str, ...]) -> Sums:
    given = F.coalesce(weight.cast("double"), F.lit(1.0))
    present = a.isNotNull()
    sound = (given >= 1.0) & (given < float("inf"))
    certain = given <= CERTAIN_AT_MOST
    w = F.when(present & sound, F.when(certain, F.lit(1.0)).otherwise(given))
    g = w * (w - 1.0)
    if row:
        aa, ab, bb, gs, gg = _by_coin(a, b, F.sqrt(g), row)
    else:
        aa, ab, bb, gs, gg = (_sum(one) for one in (g * a * a, g * a * b, g * b * b, g, g * g))
    return Sums(
        rows=F.count(F.when(present, 1)),
        a=_sum(w * a),
        b=_sum(w * b),
        aa=aa,
        ab=ab,
        bb=bb,
        certain=_sum(F.when(w == 1.0, a)),
        certain_b=_sum(F.when(w == 1.0, b)),
        seen=_sum(a),
        g=gs,
        gg=gg,
        least=F.min(a),
        most=F.max(a),
        wrong=F.count(F.when(present & ~sound, 1)),
    )


def _sum(value: Column) -> Column:
    return F.coalesce(F.sum(value), F.lit(0.0))


def _by_coin(a: Column, b: Column, root: Column, row: tuple[str, ...]) -> tuple[Column, ...]:
    """Sums over clusters: rows sorted by their coin, and one pass that closes a cluster when the coin changes."""
    parts = {_COIN: F.xxhash64(*row), _U: root * a, _V: root * b, _G: root}
    kept = F.when(root.isNotNull(), F.struct(*(one.alias(name) for name, one in parts.items())))
    names = ("aa", "ab", "bb", "gs", "gg")
    zero = F.lit(0.0)
    start = F.struct(F.lit(None).cast("bigint").alias(_COIN), *(zero.alias(name) for name in (_U, _V, _G, *names)))

    def closed(state: Column) -> dict[str, Column]:
        u, v, g = state[_U], state[_V], state[_G] * state[_G]
        products = (u * u, u * v, v * v, g, g * g)
        return {name: state[name] + one for name, one in zip(names, products, strict=True)}

    def step(state: Column, one: Column) -> Column:
        same = state[_COIN].eqNullSafe(one[_COIN])
        sums = closed(state)
        return F.struct(
            one[_COIN].alias(_COIN),
            *(F.when(same, state[name] + one[name]).otherwise(one[name]).alias(name) for name in (_U, _V, _G)),
            *(F.when(same, state[name]).otherwise(sums[name]).alias(name) for name in names),
        )

    def end(state: Column) -> Column:
        return F.struct(*(one.alias(name) for name, one in closed(state).items()))

    found = F.aggregate(F.array_sort(F.collect_list(kept)), start, step, end)
    return tuple(found[name] for name in names)
