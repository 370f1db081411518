"""The gate in Catalyst: one look-up and one comparison a row, and no Python in the row's path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.thresholds import KEEP_ALL, MOST_REASONS
from penstock.spark.binding import thresholds_in_force
from penstock.spark.control_table import FORMAT, PlanTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.spark.columns import RowColumns

#: The column in which a dry run says what would have been shed.
WOULD_SHED = "penstock_would_shed"
#: Under this key a weight column's metadata names the guard that made it.
MADE_BY = "penstock_guard"

_THRESHOLD = "__penstock_threshold"
_MUST_KEEP = "__penstock_must_keep"
_PASSES = "__penstock_passes"
_TWO_63 = 2.0**63


def threshold(df: DataFrame, folder: str, place: str, columns: RowColumns) -> Column:
    """The threshold of each row's bucket, from the plan that the micro-batch is bound to.

    A batch query has no later plan to wait for: it takes the one in force now, as a literal.
    """
    if not df.isStreaming:
        limits = np.array(thresholds_in_force(folder, place), np.int64)
        return F.get(F.lit(limits), columns.bucket(df))
    spark = df.sparkSession
    spark.dataSource.register(PlanTable)
    control = spark.read.format(FORMAT).option("folder", folder).option("place", place).load()
    return F.get(control.select("thresholds").scalar(), columns.bucket(df))


def gated(
    df: DataFrame, limit: Column, columns: RowColumns, *, salt: int, metric: str, made_by: str, dry: bool
) -> DataFrame:
    """The rows that pass, with their weights; in a dry run all rows, tagged.

    In a stream the gate counts: rows in and rows shed by reason arrive in the query's progress under `metric`.
    """
    must_keep = columns.must_keep(df)
    # Spark must not compute the threshold twice, for the filter and for the weight: it does not copy an expression
    # that is not deterministic, as the number of a row's partition is.
    judged = df.withColumn(_THRESHOLD, F.when(F.spark_partition_id() >= 0, limit))
    # No coin is tossed for a bucket that is kept whole.
    passes = (F.col(_THRESHOLD) == F.lit(KEEP_ALL)) | (columns.coin(df, salt) <= F.col(_THRESHOLD))
    if must_keep is not None:
        passes = F.col(_MUST_KEEP) | passes
        judged = judged.withColumn(_MUST_KEEP, must_keep)
    if df.isStreaming:
        # Counted before rows are dropped. That breaks Spark's code generation in two and costs some 25 ns a row, which
        # no source of a stream comes near; a batch has nobody to count for.
        judged = judged.withColumn(_PASSES, passes)
        passes = F.col(_PASSES)
        judged = judged.observe(metric, *_counts(must_keep is not None))
    factor = F.lit(_TWO_63) / (F.col(_THRESHOLD) + F.lit(1.0))
    if must_keep is not None:
        factor = F.when(F.col(_MUST_KEEP), F.lit(1.0)).otherwise(factor)
    if dry:
        judged = judged.withColumn(WOULD_SHED, ~passes)
        factor = F.lit(1.0)
    else:
        judged = judged.filter(passes)
    weight = columns.incoming_weight(df) * factor if columns.has_weight(df) else factor
    weighed = judged.withColumn(columns.weight, weight).withMetadata(columns.weight, {MADE_BY: made_by})
    return weighed.drop(_THRESHOLD, _MUST_KEEP, _PASSES)


def _counts(has_must_keep: bool) -> list[Column]:  # noqa: FBT001 - one caller
    reason = F.col(_THRESHOLD).bitwiseAND(F.lit(MOST_REASONS - 1))
    counts = [F.count(F.lit(1)).alias("rows_in")]
    if has_must_keep:
        counts.append(F.count_if(_MUST_KEEP).alias("rows_must_keep"))
    shed = [F.count_if(~F.col(_PASSES) & (reason == number)) for number in range(MOST_REASONS)]
    return counts + [count.alias(f"shed_{number}") for number, count in enumerate(shed)]
