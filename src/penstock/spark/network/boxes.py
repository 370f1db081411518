"""Stateless boxes as transforms of data frames."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import DoubleType, StructField, StructType

from penstock.errors import PenstockError
from penstock.spark.network.drops import HIDDEN
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.python_box import BUSY, TimedRows, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from penstock.core.network.model import Box


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """Rows of several sources; a column that one of them lacks is null there."""
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), frames)


def worked(box: Box, df: DataFrame) -> DataFrame:
    """Rows behind the box; those of a Python box with the seconds it took in the column `BUSY`."""
    try:
        if box.op == "filter":
            # It looks nondeterministic, so Spark does not fold filters away, and with them the counts before them.
            return df.filter(F.when(F.spark_partition_id() >= 0, F.expr(box.where or "true")))
        if box.python is not None:
            return _python(box, df)
        if box.op == "map" and box.select:
            return df.withColumns({name: F.expr(text) for name, text in box.select.items()})
    except SPARK_ERRORS as error:
        raise PenstockError(f"boxes.{box.name} cannot be run: {line_of(error)}") from None
    return df


def _python(box: Box, df: DataFrame) -> DataFrame:
    # A missing function must fail here, not in a worker.
    load(str(box.python), f"boxes.{box.name}.python")
    spark = df.sparkSession
    own = StructType([field for field in df.schema.fields if field.name not in HIDDEN])
    results = spark.createDataFrame([], box.returns).schema if box.returns else own
    nullable = [StructField(field.name, field.dataType, nullable=True) for field in results.fields]
    hidden = [field for field in df.schema.fields if field.name in HIDDEN]
    schema = StructType([*nullable, *hidden, StructField(BUSY, DoubleType())])
    arrow = spark.createDataFrame([], schema).toArrow().schema
    return df.mapInArrow(TimedRows(box.name, str(box.python), arrow, HIDDEN), schema)
