r"""How operators pass on source information content (SIC): one rule an operator, as columns and transforms.

Rows have their SIC in the column `sic`. An operator conserves it (THEMIS, equation 3): the SIC of its input rows is
distributed evenly over its output rows,

$$\text{sic}_{\text{out}} = \frac{\sum_{\text{in}} \text{sic}}{|\text{out}|}$$

so that the sum over the results of a source time window is the query's SIC. Shed rows are missing from it; rows
that a filter removes are not, because they were processed.

- Projections keep the column: select `sic` along.
- `filter` and every other step that is done row by row: `where`, or `through` around the step.
- Aggregates: `total()` among the aggregated columns; `quality()` is the share of the source information
  behind the result, 1 if nothing was shed.
- Joins: `join`.
- Functions in Python: `pass_on`.
- A whole batch in `foreachBatch`: `spread`, the equation itself.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

import penstock.spark.fair.sic_functions as functions
from penstock.core.fairness.sic import SIC
from penstock.core.settings import number
from penstock.errors import PenstockError
from penstock.spark.guard.checks import check_operator, column_name, column_names
from penstock.spark.row_columns import WEIGHT, refuse_another

#: Prefixes of observations: the results of a query, the input of a step, its output.
RESULTS, ENTERS, LEAVES = "penstock_sic_", "penstock_enters_", "penstock_leaves_"


def total(windows: int = 1) -> Column:
    """The SIC of an aggregate: the sum over its rows, named `sic`.

    Args:
        windows: In how many windows each row falls, if they slide: it gives each of them an equal part.
    """
    parts = number("windows", windows, 1.0)
    return (F.sum(SIC) / F.lit(parts)).alias(SIC)


def quality(weight: str = "weight") -> Column:
    """The share of the source information behind an aggregate, from above 0 to 1, named `quality`.

    A row of weight w represents w incoming rows, so this is the SIC of kept rows over that of incoming rows.
    It needs no rate, so it holds for every group and window of any length.
    """
    # Without SIC the result is null; a plain division would fail the query.
    return F.try_divide(F.sum(SIC), F.sum(F.col(SIC) * F.col(f"`{weight}`"))).alias("quality")


def observed(name: str) -> Callable[[DataFrame], DataFrame]:
    """Sum the SIC of rows here, batch by batch, under `penstock_sic_` and the name in the query's progress."""
    return lambda df: _summed(df, f"{RESULTS}{name}")


def through(step: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame], DataFrame]:
    """A step that removes rows, for `DataFrame.transform`: their SIC counts as processed.

    For stateless steps only: rows must leave the step in the batch in which they enter it. In front of `results` only:
    rows that are removed behind it would count twice.
    """

    def transform(df: DataFrame) -> DataFrame:
        if not df.isStreaming:
            return step(df)
        here = uuid.uuid4().hex[:12]  # each time, because Spark allows a name only once in a query
        return _summed(step(_summed(df, f"{ENTERS}{here}")), f"{LEAVES}{here}")

    return transform


def where(condition: str | Column) -> Callable[[DataFrame], DataFrame]:
    """A filter, for `DataFrame.transform`: rows that it removes count as processed."""
    return through(lambda df: df.filter(condition))


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: str = "inner",
    *,
    left_matches: float = 1.0,
    right_matches: float = 1.0,
    weight: str | None = None,
    one_coin: bool = False,
) -> DataFrame:
    """Both sides joined by columns of the same name; the SIC of a result is the sum of its two rows'.

    A row with several partners must share its SIC, but their number is not known beforehand. Give it, or aggregate both
    sides to one row for each key and window first, which is exact.

    If both sides have weights, a result's weight is their product. A pair exists if both gates kept their row, so
    counts and sums of results are unbiased. This holds for gates that decide independently. Rows that are equal in the
    query's `row` columns have the same coin. So if all of these are among `on`, partners are kept together: give
    `one_coin=True`, and the weight is the larger of the two.

    Args:
        left: One side; without a column `sic` it carries nothing, as a table does.
        right: The other side.
        on: The column or columns that both have.
        how: As in `DataFrame.join`.
        left_matches: How many partners a row of the left side finds, on average.
        right_matches: How many partners a row of the right side finds, on average.
        weight: Name of the column with the weights, the query's `weight_column`; `weight` if not given.
        one_coin: Whether partners have the same coin.
    """
    keys = list(column_names("on", on))
    for df in (left, right):
        if weight is None and WEIGHT in df.columns:
            refuse_another(df, WEIGHT)
    weight = WEIGHT if weight is None else column_name("weight", weight)
    matches = {
        "left": number("left_matches", left_matches, 1e-9),
        "right": number("right_matches", right_matches, 1e-9),
    }
    sides = {"left": left, "right": right}
    carrying = [side for side, df in sides.items() if SIC in df.columns]
    if not carrying:
        raise PenstockError("neither side of the join has a column sic: put a query's admit in front of one of them")
    both_weigh = weight not in keys and all(weight in df.columns for df in sides.values())
    if both_weigh and len(carrying) < len(sides):
        (table,) = sides.keys() - set(carrying)
        raise PenstockError(f"the {table} side of the join has a column {weight!r} but no {SIC}: rename that column")
    own = {side: {SIC: f"__penstock_sic_{side}"} for side in carrying}
    if both_weigh:
        own = {side: names | {weight: f"__penstock_weight_{side}"} for side, names in own.items()}
    one, other = (df.withColumnsRenamed(own[side]) if side in own else df for side, df in sides.items())
    joined = one.join(other, keys, how)
    present = {side: names for side, names in own.items() if names[SIC] in joined.columns}  # of a semi join, one side
    # An outer join may lack one of the two rows.
    shares = [F.coalesce(F.col(names[SIC]), F.lit(0.0)) / F.lit(matches[side]) for side, names in present.items()]
    made = joined.withColumn(SIC, reduce(add, shares, F.lit(0.0)))
    if both_weigh:
        weights = [F.coalesce(F.col(names[weight]), F.lit(1.0)) for names in present.values()]
        larger, product = F.greatest(*weights, F.lit(0.0)), reduce(mul, weights)
        made = made.withColumn(weight, larger if one_coin else product)
        made = made.withMetadata(weight, left.schema[weight].metadata or {})  # By it a second guard is refused.
    return made.drop(*(name for names in own.values() for name in names.values()))


def spread(results: DataFrame, rows: DataFrame) -> DataFrame:
    """The results of one batch, each with an equal part of what the rows carry; for data frames in `foreachBatch`."""
    if results.isStreaming or rows.isStreaming:
        raise PenstockError("spread takes whole batches, not streams: call it in foreachBatch, or use total()")
    carried = rows.agg(F.sum(SIC).alias(SIC)).scalar()
    count = results.agg(F.count(F.lit(1)).alias("rows")).scalar()
    return results.withColumn(SIC, carried / count)


def pass_on(function: Callable[..., Any], form: str = "arrow") -> Callable[..., Any]:
    """A function of Python whose results carry on what its rows carry; give its schema a column `sic double`.

    A function of one row shares out its row's SIC over the results. One of batches shares out over each batch of
    results what came in since the last.

    Args:
        function: As for `mapInArrow`, `mapInPandas` or `measured`.
        form: `arrow`, `pandas` or `row`, as in `measured`.
    """
    check_operator(function, form)
    if form == "row":
        return functions.PassOnRow(function)
    if form == "arrow":
        return functions.PassOn(function, functions.arrow_sum, functions.with_arrow_column)
    return functions.PassOn(function, functions.pandas_sum, functions.with_pandas_column)


def delivered(observed: Mapping[str, Mapping[str, Any]], name: str) -> float | None:
    """What the results of a batch rest on: what came to the sink, and what steps on the way processed and left out.

    None if nothing observes the query's results.

    >>> found = {"penstock_sic_q": {"sic": 0.25}, "penstock_enters_a": {"sic": 0.5}, "penstock_leaves_a": {"sic": 0.25}}
    >>> delivered(found, "q"), delivered(found, "other")
    (0.5, None)
    """
    results = observed.get(f"{RESULTS}{name}")
    if results is None:
        return None
    left_out = 0.0
    for step in (one.removeprefix(ENTERS) for one in observed if one.startswith(ENTERS)):
        entered, left = (float((observed.get(f"{kind}{step}") or {}).get("sic") or 0.0) for kind in (ENTERS, LEAVES))
        left_out += max(entered - left, 0.0)
    return float(results.get("sic") or 0.0) + left_out


def _summed(df: DataFrame, name: str) -> DataFrame:
    if SIC not in df.columns:
        raise PenstockError("the stream has no column sic: put the query's admit in front, and select sic along")
    return df.observe(name, F.sum(SIC).alias("sic")) if df.isStreaming else df
