"""The mark that a guard leaves in the metadata of its weight column, by which its weights are told from other numbers.

Spark keeps metadata when it reads Parquet or a table. JSON, Kafka, and functions with a schema of their own lose it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What the column is called if nothing else is said.
WEIGHT = "weight"
#: Under this key a weight column's metadata names the guard that made it, also in a Parquet file that a query wrote.
MADE_BY = "penstock_guard"


def marks(df: DataFrame, name: str) -> dict[str, Any]:
    """The metadata of a column that a guard made; none otherwise. Spark takes names of another case for the same."""
    found = (field.metadata or {} for field in df.schema.fields if field.name.lower() == name.lower())
    return next((one for one in found if MADE_BY in one), {})


def maker(df: DataFrame, name: str) -> str | None:
    """The guard that made the column, by its mark; None without one."""
    return marks(df, name).get(MADE_BY)


def made_by(df: DataFrame, name: str, guard: str) -> DataFrame:
    """The frame, with the guard's mark on its weights."""
    return df if maker(df, name) is not None else df.withMetadata(name, {MADE_BY: guard})


def passed_on(made: DataFrame, df: DataFrame, name: str) -> DataFrame:
    """What a function made of the frame, with the mark on the weights that it passed on."""
    mark = marks(df, name)
    own = next((one for one in made.columns if one.lower() == name.lower()), None)
    return made.withMetadata(own, mark) if mark and own is not None else made


def refuse_unmarked(df: DataFrame, name: str, setting: str, where: str = "the stream") -> None:
    """Numbers of the user's that happen to have the default name of weights."""
    if name.lower() in (one.lower() for one in df.columns) and maker(df, name) is None:
        raise PenstockError(
            f"{where} has a column {name!r} that no guard made: if it says how many rows each row stands for, give "
            f"{setting}={name!r}; if not, rename it or give {setting}= another name"
        )


def refuse_another(df: DataFrame, name: str) -> None:
    """Numbers of the user's under the default name, where a guard's weights are in another column."""
    others = [field.name for field in df.schema.fields if (field.metadata or {}).get(MADE_BY) is not None]
    if others and maker(df, name) is None:
        raise PenstockError.setting(
            "weight", name, f"the guard's column of weights, weight={others[0]!r}", f"no guard made {name!r}"
        )
