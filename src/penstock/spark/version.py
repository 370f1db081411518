"""What differs between versions of Spark: every choice by version is made here, and nowhere else.

A part that a version lacks is replaced where Spark's older means give the same result, and refused in one line where
they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource


def number(version: str) -> tuple[int, int]:
    """The first two numbers of a version.

    >>> number("4.2.0.dev1")
    (4, 2)
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


#: Spark's version in this process.
HERE = number(pyspark.__version__)
#: From here on Spark has `repartitionById` and `arrow_udf`.
DIRECT_PARTITIONS = (4, 1)
#: From here on Spark tells a Python source where a batch starts and asks it for limits.
LIMITED_READS = (4, 2)

#: Integers whose hash, modulo two, is their place in this tuple: Spark's Murmur3 puts both 0 and 1 into partition 1.
_HASHED_INTO = (2, 0)


def require(feature: str, since: tuple[int, int], version: str = pyspark.__version__) -> None:
    """Refuse in one line what this version of Spark cannot do.

    >>> require("grouping by cost", (4, 1), "4.0.2")
    Traceback (most recent call last):
        ...
    penstock.errors.PenstockError: grouping by cost needs Spark 4.1 or later: this is Spark 4.0.2
    """
    if number(version) < since:
        raise PenstockError(f"{feature} needs Spark {since[0]}.{since[1]} or later: this is Spark {version}")


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a Python data source; Spark 4.0 refuses to replace one that it has discovered, which is the same."""
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def in_two_partitions(df: DataFrame, place: Column) -> DataFrame:
    """The rows in two partitions; the column, an integer, is 0 or 1."""
    if HERE >= DIRECT_PARTITIONS and number(df.sparkSession.version) >= DIRECT_PARTITIONS:
        return df.repartitionById(len(_HASHED_INTO), place)
    return df.repartition(len(_HASHED_INTO), F.when(place == 0, F.lit(_HASHED_INTO[0])).otherwise(_HASHED_INTO[1]))


def arrow_function(function: Callable[..., Any], returned: str) -> Callable[..., Column]:
    """The function of Arrow arrays as a function of columns."""
    require("a function of Arrow arrays", DIRECT_PARTITIONS)
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - Spark 4.0 has none

    return arrow_udf(function, returned)  # type: ignore[call-overload,no-any-return]  # PySpark's lack this form


if TYPE_CHECKING or HERE >= LIMITED_READS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """How much a batch may hold; older versions of Spark have no word for it."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """A batch may hold everything."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """A batch may hold at most this many rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Marks readers that Spark informs about the trigger, from 4.2 on."""


__all__ = [
    "DIRECT_PARTITIONS",
    "HERE",
    "LIMITED_READS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_function",
    "in_two_partitions",
    "number",
    "register_source",
    "require",
]
