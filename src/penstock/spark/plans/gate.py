"""The gate in Catalyst: one look-up and one comparison per row, without Python in the row path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.control.backlog import MOST_AGE_S
from penstock.core.control.gate import BACKLOG_NUMBER, CERTAIN, CERTAIN_WEIGHT, KEEP_ALL, MOST_REASONS, REASON_BITS
from penstock.core.fairness.sic import SIC
from penstock.spark.plans.binding import control_row
from penstock.spark.plans.control_row import NO_PLAN, UNJUDGED, WHY, ControlColumns
from penstock.spark.plans.control_table import FORMAT, PlanTable
from penstock.spark.plans.sic_columns import SicOfRows, marked_sic
from penstock.spark.probe import ages
from penstock.spark.quarantine.rows import COIN, PART, PARTS, PLAN_VERSION, REASON_NUMBER
from penstock.spark.quarantine.second_read import second_read
from penstock.spark.row_columns import MADE_BY
from penstock.spark.version import in_two_partitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from penstock.spark.plans.admission import Admission, Judging
    from penstock.spark.plans.binding import Batch, GateOptions
    from penstock.spark.plans.remote import Store
    from penstock.spark.quarantine.rows import Writer

#: The column in which a dry run marks rows that it would shed.
WOULD_SHED = "penstock_would_shed"

_CONTROL = "__penstock_control"
_THRESHOLD = "__penstock_threshold"
_PLAN = "__penstock_plan"
_READ_US = "__penstock_read_us"
_MUST_KEEP = "__penstock_must_keep"
_PASSES = "__penstock_passes"
_ENFORCED = "__penstock_enforced"
_TWO_63 = 2.0**63


def control(df: DataFrame, store: Store, options: GateOptions, batch: Batch | None) -> Column:
    """The control row of the plan that the micro-batch is bound to; `control_row` has its layout.

    A batch query takes the current plan as a literal, because no later plan can apply. So does a data frame of one
    micro-batch, in a function for `foreachBatch`: the batch is bound before it runs.
    """
    if batch is not None:
        return F.lit(np.array(control_row(options, batch), np.int64))
    if not df.isStreaming:
        return F.lit(np.array(store.control_row(options.place), np.int64))
    spark = df.sparkSession
    spark.dataSource.register(PlanTable)
    table = spark.read.format(FORMAT).option("gate", options.to_text()).load()
    return table.select("control").scalar()


def gated(
    df: DataFrame,
    control: Column,
    gate: Admission,
    rules: Sequence[Judging],
    *,
    sic: SicOfRows | None,
    quarantine: Writer | None,
    folder: str,
) -> DataFrame:
    """The rows that pass, with their weights; in a dry run all rows, tagged.

    The first of the rules applies, except to a replayed batch that was bound under another. In a stream the gate counts
    rows in, rows shed by reason, the plan's version and the ages of rows. The query's progress has them under its
    metric; in a function for `foreachBatch` an observation has them. With `sic` rows also carry their source
    information content, which is summed there too. With a quarantine, shed rows of a stream go there. A batch that
    cannot be judged then fails with an error that names the guard's folder. Tasks that write shed rows come first,
    unless the gate's `shed_first` is false. A sink may read only a part of a batch, by `limit` in `foreachBatch`. Then
    Spark runs tasks in order until it has enough rows, and these tasks return none.
    """
    columns = gate.columns
    bucket = columns.bucket(df) if sic is None or sic.by_class else sic.bucket(df)
    counted = df.isStreaming or gate.inside is not None
    judged = _looked_up(df, control, bucket, rules, None if quarantine is None else folder, counted=counted)
    if sic is not None:
        carried = sic.carried(df, _row() if counted else ControlColumns(control))
        judged = marked_sic(judged.withColumn(SIC, carried))
    coin = _chosen([one.coin for one in rules])
    must_keep = _if_any([one.must_keep for one in rules], F.lit(False))  # noqa: FBT003 - a literal
    # A bucket with keep share 1 needs no hash.
    passes = (F.col(_THRESHOLD) >= F.lit(CERTAIN)) | (coin <= F.col(_THRESHOLD))
    if must_keep is not None:
        passes = F.col(_MUST_KEEP) | passes
        judged = judged.withColumn(_MUST_KEEP, must_keep)
    modes = list(dict.fromkeys(one.mode for one in rules))
    enforced = F.lit(modes[0] == "enforce")
    if len(modes) > 1:
        judged = judged.withColumn(_ENFORCED, _chosen([F.lit(one.mode == "enforce") for one in rules]))
        enforced = F.col(_ENFORCED)
    if counted:
        # Counted before rows are dropped. This splits Spark's generated code and costs some 25 ns a row; every source
        # of a stream is slower. A batch has no progress to report counts to.
        judged = judged.withColumn(_PASSES, passes)
        passes = F.col(_PASSES)
        shed = judged.filter(~passes & enforced)
        counts = _counts(must_keep is not None, columns.arrival_s(df), enforced)
        counts.append(F.max(F.lit(gate.name)).alias("guard"))
        if len(modes) > 1:
            counts.append(F.max(~enforced).alias("dry"))
        if sic is not None:
            counts += sic.sums(F.col(_PASSES))
        judged = judged.observe(gate.metric if gate.inside is None else gate.inside.observation(gate.metric), *counts)
    if modes[0] == "dry_run":
        judged = judged.withColumn(WOULD_SHED, ~passes)
    if "enforce" in modes:
        judged = judged.filter(passes | ~enforced)
    factor = F.when(enforced, _factor(must_keep is not None)).otherwise(F.lit(1.0))
    weight = columns.incoming_weight(df) * factor if columns.has_weight(df) else factor
    weighed = judged.withColumn(columns.weight, weight).withMetadata(columns.weight, {MADE_BY: gate.name})
    admitted = weighed.drop(_CONTROL, _THRESHOLD, _PLAN, _READ_US, _MUST_KEEP, _PASSES, _ENFORCED)
    if quarantine is None or "enforce" not in modes or not df.isStreaming:
        return second_read(admitted, df) if gate.reads > 1 and df.isStreaming else admitted
    lost = _quarantined(shed, df.columns, coin, quarantine, admitted.schema)
    return lost.union(admitted) if gate.shed_first else admitted.union(lost)


def _looked_up(
    df: DataFrame, control: Column, bucket: Column, rules: Sequence[Judging], strict: str | None, *, counted: bool
) -> DataFrame:
    """The rows with their thresholds; if they are counted, with the other columns of the control row.

    `strict` is the folder to name in the error if a batch that cannot be judged must fail.
    """
    if not counted:
        return df.withColumn(_THRESHOLD, _once(ControlColumns(control).threshold(bucket)))
    arrival_s = _if_any([one.arrival_s for one in rules], F.lit(None))
    row = _row()
    threshold = row.threshold(bucket)
    return df.withColumn(_CONTROL, _once(control)).withColumns(
        {
            _THRESHOLD: _once(_by_age(threshold if strict is None else _unless_unjudged(threshold, strict), arrival_s)),
            _PLAN: row.version,
            _READ_US: row.read_us,
        }
    )


def _unless_unjudged(threshold: Column, folder: str) -> Column:
    """The threshold; an error if the control row says that the batch cannot be judged.

    Raised here because the reason of an error in the control table does not reach the query's exception.
    """
    version = _row().version
    found = F.when(version >= F.lit(NO_PLAN), threshold)
    for code in UNJUDGED:
        why = f"{folder}: the batch fails before rows are lost or doubled: {WHY[code].format(folder=folder)}"
        found = found.when(version == F.lit(code), F.raise_error(F.lit(why)))
    return found.otherwise(threshold)


def _chosen(values: Sequence[Column]) -> Column:
    """The value for the batch's rules, of the values for each of the gate's rules."""
    chosen = values[0]
    for place, value in enumerate(values[1:], 1):
        chosen = F.when(_row().rules == F.lit(place), value).otherwise(chosen)
    return chosen


def _if_any(values: Sequence[Column | None], missing: Column) -> Column | None:
    """The same for optional values; None if no rules have one."""
    if all(value is None for value in values):
        return None
    return _chosen([missing if value is None else value for value in values])


def _factor(has_must_keep: bool) -> Column:  # noqa: FBT001 - one caller
    """The weight of a row that passes."""
    factor = F.lit(_TWO_63) / (F.col(_THRESHOLD) + F.lit(1.0))
    if not has_must_keep:
        return factor
    certain = F.when(F.col(_THRESHOLD) == F.lit(KEEP_ALL), F.lit(1.0)).otherwise(F.lit(CERTAIN_WEIGHT))
    return F.when(F.col(_MUST_KEEP), certain).otherwise(factor)


def _quarantined(shed: DataFrame, names: list[str], coin: Column, quarantine: Writer, schema: StructType) -> DataFrame:
    """Write the shed rows to the quarantine; returns no rows.

    A row's coin alone determines its part, and one task gets all rows of a part, independent of the source's
    partitions. This holds at a replay with another number of cores too.
    """
    reason = F.col(_THRESHOLD).bitwiseAND(F.lit(REASON_BITS)).cast("int")
    marked = shed.select(
        *(F.col(f"`{name}`") for name in names),
        reason.alias(REASON_NUMBER),
        F.col(_PLAN).alias(PLAN_VERSION),
        coin.alias(COIN),
    ).withColumn(PART, (F.col(COIN) % F.lit(PARTS)).cast("int"))
    return in_parts(marked).mapInArrow(quarantine, schema)


def in_parts(marked: DataFrame) -> DataFrame:
    """The rows of each part in a separate partition; Spark's hash would put both parts into the same one."""
    return in_two_partitions(marked, F.col(PART))


def _by_age(threshold: Column, arrival_s: Column | None) -> Column:
    """The threshold, or that of the row's age if it is lower, as in `core.control.backlog`."""
    if arrival_s is None:
        return threshold
    bound_s, grace_s, fresh_s = _row().backlog_s
    old = (bound_s > 0.0) & (arrival_s >= bound_s - F.lit(MOST_AGE_S)) & (arrival_s < bound_s - grace_s)
    limit = (fresh_s / (bound_s - arrival_s) * F.lit(_TWO_63)).cast("bigint") - F.lit(1)
    by_age = limit.bitwiseAND(F.lit(~REASON_BITS)).bitwiseOR(F.lit(BACKLOG_NUMBER))
    young = F.when(bound_s > 0.0, F.least(threshold, F.lit(CERTAIN))).otherwise(threshold)
    return F.when(old, F.least(threshold, by_age)).otherwise(young)


def _row() -> ControlColumns:
    return ControlColumns(F.col(_CONTROL))


def _once(value: Column) -> Column:
    """The value, computed once by Spark for all uses; a control row is read once per batch.

    Spark does not copy a nondeterministic expression, such as the number of a row's partition.
    """
    return F.when(F.spark_partition_id() >= 0, value)


def _counts(has_must_keep: bool, arrival_s: Column | None, enforced: Column) -> list[Column]:  # noqa: FBT001 - one caller
    reason = F.col(_THRESHOLD).bitwiseAND(F.lit(REASON_BITS))
    counts = [F.count(F.lit(1)).alias("rows_in"), F.max(_PLAN).alias("plan"), F.max(_READ_US).alias("read_us")]
    if has_must_keep:
        counts.append(F.count(F.when(F.col(_MUST_KEEP), 1)).alias("rows_must_keep"))
    shed = [F.count(F.when(~F.col(_PASSES) & (reason == number), 1)) for number in range(MOST_REASONS)]
    counts += [count.alias(f"shed_{number}") for number, count in enumerate(shed)]
    return counts if arrival_s is None else counts + ages.counted(arrival_s, F.col(_PASSES) | ~enforced)
