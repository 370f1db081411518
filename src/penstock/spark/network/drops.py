"""How drops act on a data frame.

A drop by chance keeps a row if a hash of the row and the place lies below a limit. So a replay drops the same rows.
Kept rows get a larger weight. A drop by value keeps rows that meet a condition, and those without a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
import xxhash
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType
from sqlglot import expressions as sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from penstock.messages.plan import Drop

#: Columns that every row carries through the network.
INPUT, WEIGHT, ARRIVAL = "penstock_input", "penstock_weight", "penstock_arrival"
HIDDEN = (INPUT, WEIGHT, ARRIVAL)


def applied(df: DataFrame, drop: Drop) -> DataFrame:
    """The rows that a drop keeps, with their weights."""
    return weighed(df.filter(kept_by(drop, df)), drop)


def weighed(df: DataFrame, drop: Drop) -> DataFrame:
    """Rows that a drop has kept, with the weight that they have then."""
    by_chance = not drop.condition and drop.keep > 0.0
    return df.withColumn(WEIGHT, F.col(WEIGHT) / F.lit(drop.keep)) if by_chance else df


def kept_by(drop: Drop, df: DataFrame, struct: str | None = None) -> Column:
    """Whether a row is kept; its columns may lie inside a struct."""
    if drop.condition:
        condition = drop.condition if struct is None else within(drop.condition, struct)
        return F.coalesce(F.expr(condition), F.lit(True))  # noqa: FBT003 - a literal
    salt = xxhash.xxh64_intdigest(drop.place.encode()) >> 1
    fields = df.schema.fields if struct is None else df.schema[struct].dataType.fields  # type: ignore[attr-defined]
    names = [quoted(field.name) for field in fields if field.name not in HIDDEN and _hashable(field.dataType)]
    prefix = "" if struct is None else f"{quoted(struct)}."
    coin = F.xxhash64(F.lit(salt), *(F.col(prefix + name) for name in names), F.col(ARRIVAL))
    return coin.bitwiseAND(F.lit(2**63 - 1)) < F.lit(min(int(drop.keep * 2.0**63), 2**63 - 1))


def within(expression: str, struct: str) -> str:
    """An expression over columns that lie inside a struct.

    >>> within("value * 2 > other AND penstock_input = 'I1'", "I1")
    "`I1`.`value` * 2 > `I1`.`other` AND penstock_input = 'I1'"
    """

    def moved(node: sql.Expr) -> sql.Expr:
        if isinstance(node, sql.Column) and node.parts[0].name not in HIDDEN:
            names = [struct, *(part.name for part in node.parts)]
            return sql.Dot.build([sql.to_identifier(name, quoted=True) for name in names])
        return node

    return sqlglot.parse_one(expression, dialect="spark").transform(moved).sql(dialect="spark")


def quoted(name: str) -> str:
    """A quoted SQL name."""
    return "`" + name.replace("`", "``") + "`"


def _hashable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    return not isinstance(kind, MapType | VariantType) and not (
        isinstance(kind, ArrayType) and not _hashable(kind.elementType)
    )
