"""The gate in Catalyst: one look-up and one comparison a row, and no Python in the row's path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.arrival import MOST_AGE_S
from penstock.core.bucket_costs import BUCKETS
from penstock.core.thresholds import BACKLOG_NUMBER, CERTAIN, CERTAIN_WEIGHT, KEEP_ALL, MOST_REASONS, REASON_BITS
from penstock.spark.control_table import FORMAT, PlanTable
from penstock.spark.pass_on import SIC
from penstock.spark.quarantine import PART, PARTS, PLAN_VERSION, REASON_NUMBER
from penstock.spark.weight_mark import MADE_BY, MADE_IN, THIS_PROCESS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from penstock.spark.binding import Start
    from penstock.spark.columns import RowColumns
    from penstock.spark.quarantine import Writer
    from penstock.spark.sic_columns import SicOfRows
    from penstock.spark.store import Store

#: The column in which a dry run says what would have been shed.
WOULD_SHED = "penstock_would_shed"

#: Where a control row says what rows carry, behind the thresholds and five other numbers.
SIC_AT = BUCKETS + 5

_CONTROL = "__penstock_control"
_THRESHOLD = "__penstock_threshold"
_PLAN = "__penstock_plan"
_READ_US = "__penstock_read_us"
_MUST_KEEP = "__penstock_must_keep"
_PASSES = "__penstock_passes"
_TWO_63 = 2.0**63


def control(df: DataFrame, store: Store, place: str, start: Start | None = None) -> Column:
    """The control row of the plan that the micro-batch is bound to: `binding` says what is in it.

    A batch query has no later plan to wait for: it takes the one in force now, as a literal.
    """
    if not df.isStreaming:
        return F.lit(np.array(store.control_row(place), np.int64))
    spark = df.sparkSession
    spark.dataSource.register(PlanTable)
    options = {"folder": str(store.folder), "place": place, "start": start.to_text() if start else ""}
    table = spark.read.format(FORMAT).options(**options).load()
    return table.select("control").scalar()


def gated(  # noqa: PLR0913 - settings of one gate, given by name
    df: DataFrame,
    control: Column,
    columns: RowColumns,
    *,
    salt: int,
    metric: str,
    made_by: str,
    dry: bool,
    sic: SicOfRows | None = None,
    quarantine: Writer | None = None,
) -> DataFrame:
    """The rows that pass, with their weights; in a dry run all rows, tagged.

    In a stream the gate counts: rows in, rows shed by reason and the plan they were judged by arrive in the query's
    progress under `metric`. With `sic` rows also carry their source information content, which is summed there too.
    With a quarantine, rows that a stream sheds go there.
    """
    must_keep = columns.must_keep(df)
    bucket = columns.bucket(df) if sic is None or sic.by_class else sic.bucket(df)
    if df.isStreaming:
        judged = df.withColumn(_CONTROL, _once(control)).withColumns(
            {
                _THRESHOLD: _once(_by_age(F.get(_CONTROL, bucket), columns.arrival_s(df))),
                _PLAN: F.get(_CONTROL, F.lit(BUCKETS)),
                _READ_US: F.get(_CONTROL, F.lit(BUCKETS + 1)),
            }
        )
    else:
        judged = df.withColumn(_THRESHOLD, _once(F.get(control, bucket)))
    if sic is not None:
        judged = judged.withColumn(SIC, sic.carried(df, F.col(_CONTROL) if df.isStreaming else control))
    # No coin is tossed for a bucket that is kept whole.
    passes = (F.col(_THRESHOLD) >= F.lit(CERTAIN)) | (columns.coin(df, salt) <= F.col(_THRESHOLD))
    if must_keep is not None:
        passes = F.col(_MUST_KEEP) | passes
        judged = judged.withColumn(_MUST_KEEP, must_keep)
    if df.isStreaming:
        # Counted before rows are dropped. That breaks Spark's code generation in two and costs some 25 ns a row, which
        # no source of a stream comes near; a batch has nobody to count for.
        judged = judged.withColumn(_PASSES, passes)
        passes = F.col(_PASSES)
        shed = judged.filter(~passes)
        counts = _counts(must_keep is not None)
        if sic is not None:
            counts += sic.sums(F.col(_PASSES), columns.arrival_s(df))
        judged = judged.observe(metric, *counts)
    factor = F.lit(_TWO_63) / (F.col(_THRESHOLD) + F.lit(1.0))
    if must_keep is not None:
        certain = F.when(F.col(_THRESHOLD) == F.lit(KEEP_ALL), F.lit(1.0)).otherwise(F.lit(CERTAIN_WEIGHT))
        factor = F.when(F.col(_MUST_KEEP), certain).otherwise(factor)
    if dry:
        judged = judged.withColumn(WOULD_SHED, ~passes)
        factor = F.lit(1.0)
    else:
        judged = judged.filter(passes)
    weight = columns.incoming_weight(df) * factor if columns.has_weight(df) else factor
    weighed = judged.withColumn(columns.weight, weight).withMetadata(
        columns.weight, {MADE_BY: made_by, MADE_IN: THIS_PROCESS}
    )
    admitted = weighed.drop(_CONTROL, _THRESHOLD, _PLAN, _READ_US, _MUST_KEEP, _PASSES)
    if quarantine is None or dry or not df.isStreaming:
        return admitted
    return admitted.union(_quarantined(shed, df.columns, columns.coin(df, salt), quarantine, admitted.schema))


def _quarantined(shed: DataFrame, names: list[str], coin: Column, quarantine: Writer, schema: StructType) -> DataFrame:
    """Nothing, once the shed rows are in quarantine.

    Which part a row is in follows from its coin alone, and all rows of a part meet in one task, however the source
    deals rows to tasks: at a replay, too, which may be on another number of cores.
    """
    reason = F.col(_THRESHOLD).bitwiseAND(F.lit(REASON_BITS)).cast("int")
    marked = shed.select(
        *(F.col(f"`{name}`") for name in names),
        reason.alias(REASON_NUMBER),
        F.col(_PLAN).alias(PLAN_VERSION),
        (coin % F.lit(PARTS)).cast("int").alias(PART),
    )
    return marked.repartition(PARTS, PART).mapInArrow(quarantine, schema)


def _by_age(threshold: Column, arrival_s: Column | None) -> Column:
    """The threshold, or that of the row's age if it is lower, as `core.backlog` has it."""
    if arrival_s is None:
        return threshold
    bound_s, grace_s, fresh_s = (F.get(_CONTROL, F.lit(BUCKETS + place)) / F.lit(1e6) for place in (2, 3, 4))
    old = (bound_s > 0.0) & (arrival_s >= bound_s - F.lit(MOST_AGE_S)) & (arrival_s < bound_s - grace_s)
    limit = (fresh_s / (bound_s - arrival_s) * F.lit(_TWO_63)).cast("bigint") - F.lit(1)
    by_age = limit.bitwiseAND(F.lit(~REASON_BITS)).bitwiseOR(F.lit(BACKLOG_NUMBER))
    young = F.when(bound_s > 0.0, F.least(threshold, F.lit(CERTAIN))).otherwise(threshold)
    return F.when(old, F.least(threshold, by_age)).otherwise(young)


def _once(value: Column) -> Column:
    """The value, which Spark computes once however often it is used, and a control row that it reads once a batch.

    It does not copy an expression that is not deterministic, as the number of a row's partition is.
    """
    return F.when(F.spark_partition_id() >= 0, value)


def _counts(has_must_keep: bool) -> list[Column]:  # noqa: FBT001 - one caller
    reason = F.col(_THRESHOLD).bitwiseAND(F.lit(REASON_BITS))
    counts = [F.count(F.lit(1)).alias("rows_in"), F.max(_PLAN).alias("plan"), F.max(_READ_US).alias("read_us")]
    if has_must_keep:
        counts.append(F.count(F.when(F.col(_MUST_KEEP), 1)).alias("rows_must_keep"))
    shed = [F.count(F.when(~F.col(_PASSES) & (reason == number), 1)) for number in range(MOST_REASONS)]
    return counts + [count.alias(f"shed_{number}") for number, count in enumerate(shed)]
