"""A user's function over a data frame, with the probe around it or without."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import StringType, StructField, StructType

from penstock.core.control.bucket_costs import BUCKETS
from penstock.errors import PenstockError
from penstock.spark.expected_errors import quiet
from penstock.spark.probe import batch_formats, probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, Observation

    from penstock.core.control.policies import Machines
    from penstock.spark.row_columns import RowColumns

Form = Literal["arrow", "pandas", "row"]


def measured(  # noqa: PLR0913 - a function over rows, and all that is to be known of both
    df: DataFrame,
    function: Callable[..., Any],
    schema: str | StructType,
    form: Form,
    *,
    columns: RowColumns,
    guard: str,
    metric: str | Observation,
    row_gate: Callable[[], Machines] | None,
    apart: bool,
) -> DataFrame:
    """The function's results; in a stream, the query's progress has the measurements under `metric`.

    Spark sums costs by bucket over all tasks, unless `apart` is true.

    In a batch, which has no progress, they are in `metric` if that is an observation.

    With `row_gate` machines, rows that come too late within their batch are shed in front of the function.
    """
    results = _struct(df, schema)
    arrival, weight = columns.arrival_s(df), columns.incoming_weight(df)
    # Only the row gate needs it; otherwise the columns may be missing.
    must_keep = columns.must_keep(df) if row_gate is not None else None
    given = df.withColumns(
        {
            batch_formats.BUCKET: columns.bucket(df),
            batch_formats.ARRIVAL: F.lit(None).cast("double") if arrival is None else arrival,
            batch_formats.WEIGHT: F.when((weight > 0.0) & (weight < F.lit(math.inf)), weight).otherwise(F.lit(1.0)),
            batch_formats.MUST_KEEP: F.lit(False) if must_keep is None else must_keep,  # noqa: FBT003 - a literal
        }
    )
    # The row with the sums is null in every other column.
    nullable = [StructField(field.name, field.dataType, nullable=True) for field in results.fields]
    with_sums = StructType([*nullable, StructField(batch_formats.SUMS, StringType())])
    if form == "pandas":
        out = given.mapInPandas(
            probe.Measured(function, batch_formats.PandasForm(results.fieldNames()), guard, apart), with_sums
        )
    elif form == "arrow":
        arrow = batch_formats.ArrowForm(_arrow_schema(df, results))
        out = given.mapInArrow(probe.Measured(function, arrow, guard, apart), with_sums)
    else:
        weight_column = next((name for name in df.columns if name.lower() == columns.weight.lower()), None)
        if row_gate is not None and weight_column is None:
            raise PenstockError(
                f"the column {columns.weight} is missing: the row gate writes its weights there; do not drop it"
            )
        late = None if row_gate is None else probe.RowGateSpec(guard, row_gate, weight_column)
        out = given.mapInArrow(probe.MeasuredRows(function, _arrow_schema(df, results), late, apart), with_sums)
    if df.isStreaming or not isinstance(metric, str):
        tasks = F.collect_list(F.substring_index(batch_formats.SUMS, "\n", 1)).alias("tasks")
        out = out.observe(metric, tasks) if apart else out.observe(metric, tasks, _costs().alias("costs"))
    return out.filter(F.col(batch_formats.SUMS).isNull()).drop(batch_formats.SUMS)


def _costs() -> Column:
    """The summed costs of all tasks by bucket; as text, for buckets with rows, for `BucketCosts.from_cells`."""
    task = F.split(F.substring_index(batch_formats.SUMS, "\n", -1), ",").cast("array<double>")
    zeros = F.array_repeat(F.lit(0.0), 3 * BUCKETS)
    total = F.aggregate(F.collect_list(task), zeros, lambda sums, one: F.zip_with(sums, one, operator.add))

    def cells(sums: Column) -> Column:
        def cell(bucket: Column) -> Column:
            own = [F.get(sums, bucket + part * BUCKETS).cast("float") for part in range(3)]
            return F.concat_ws(" ", bucket, *own)

        seen = F.filter(F.sequence(F.lit(0), F.lit(BUCKETS - 1)), lambda bucket: F.get(sums, bucket) > 0.0)
        return F.array_join(F.transform(seen, cell), ";")

    # In an array of one, so that Spark sums once and not for every bucket.
    return F.get(F.transform(F.array(total), cells), 0)


def unmeasured(df: DataFrame, function: Callable[..., Any], schema: str | StructType, form: Form) -> DataFrame:
    """The function's results alone."""
    results = _struct(df, schema)
    if form == "pandas":
        return df.mapInPandas(function, results)
    if form == "arrow":
        return df.mapInArrow(function, results)
    return df.mapInArrow(probe.EachRow(function, _arrow_schema(df, results)), results)


def _struct(df: DataFrame, schema: str | StructType) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise PenstockError.setting("schema", schema, "a schema as text, such as 'id bigint', or a StructType")
    try:
        with quiet():
            return df.sparkSession.createDataFrame([], schema).schema
    except PySparkException:
        raise PenstockError.setting(
            "schema", schema, "a schema that Spark can read, such as 'id bigint, name string'"
        ) from None


def _arrow_schema(df: DataFrame, results: StructType) -> Any:  # noqa: ANN401 - pyarrow has no types of its own
    return df.sparkSession.createDataFrame([], results).toArrow().schema
