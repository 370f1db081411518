"""Where the rows of a stage come from: the inputs side by side in one stream, or a join or an aggregate.

Every stream has the same shape: hidden columns, and a struct for each root, of which one is filled.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import TimestampType

from penstock.errors import PenstockError
from penstock.spark.network.drops import ARRIVAL, HIDDEN, INPUT, WEIGHT, quoted
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.weighted_aggregates import weighted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.config.network_file import Source
    from penstock.core.network.model import Box

#: Where arrival times are looked for when no column is named.
USUAL_ARRIVALS = ("arrival", "timestamp")
#: How much later than others a row may arrive before a window closes.
LATENESS_S = 10.0
WINDOW = ("window_start", "window_end")


def inputs(spark: SparkSession, sources: Mapping[str, Source]) -> DataFrame:
    """All inputs in one stream."""
    return tagged({name: _read(spark, name, source) for name, source in sources.items()})


def _read(spark: SparkSession, name: str, source: Source) -> DataFrame:
    if source.format is None:
        raise PenstockError(f"inputs.{name}.format is missing: give a format that Spark can stream, such as kafka")
    reader = spark.readStream.format(source.format).options(**source.options)
    try:
        df = (reader.schema(source.schema) if source.schema else reader).load()
        taken = [column for column in df.columns if column.lower() in HIDDEN]
        if taken:
            raise PenstockError.setting(f"a column of inputs.{name}", taken[0], "another name: this one is taken")
        return df.withColumns({INPUT: F.lit(name), WEIGHT: F.lit(1.0), ARRIVAL: _arrival(df, name, source.arrival)})
    except SPARK_ERRORS as error:
        raise PenstockError(f"inputs.{name} cannot be read: {line_of(error)}") from None


def _arrival(df: DataFrame, name: str, given: str | None) -> F.Column:  # type: ignore[name-defined]
    usual = next((column for column in USUAL_ARRIVALS if column in df.columns), None)
    column = given or usual
    if column is None:
        return F.current_timestamp()
    if column not in df.columns or not isinstance(df.schema[column].dataType, TimestampType):
        times = [field.name for field in df.schema.fields if isinstance(field.dataType, TimestampType)]
        if given is None:
            return F.current_timestamp()
        accepted = f"a column with times: {', '.join(times) or 'there is none'}"
        raise PenstockError.setting(f"inputs.{name}.arrival", given, accepted)
    return F.col(quoted(column))


def tagged(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Rows of several roots in one frame: a struct for each, of which one is filled."""
    roots = {
        name: df.select(*HIDDEN, F.struct(*(F.col(quoted(one)) for one in df.columns if one not in HIDDEN)).alias(name))
        for name, df in frames.items()
    }
    return side_by_side(roots, HIDDEN)


def side_by_side(frames: Mapping[str, DataFrame], common: Sequence[str]) -> DataFrame:
    """Frames with common columns and a struct of their own name, in one frame; structs of others are null."""
    kinds = {name: df.schema[name].dataType for name, df in frames.items()}
    found = [
        df.select(*common, *(F.col(quoted(n)) if n == name else F.lit(None).cast(kinds[n]).alias(n) for n in kinds))
        for name, df in frames.items()
    ]
    return reduce(lambda one, two: one.unionByName(two), found)


def stateful(
    spark: SparkSession, box: Box, feeds: Sequence[tuple[Path, StructType]], judged: frozenset[str] = frozenset()
) -> DataFrame:
    """The rows of a box with a state, from the folders that its rows are written to.

    `feeds` say for each of its sources where the rows are and what they look like. By the columns `judged` of its
    result rows are judged by value further down.
    """
    # Earlier releases wrote a folder for each batch, hence the look below.
    options = {"cleanSource": "delete", "recursiveFileLookup": "true"}
    given = [spark.readStream.schema(schema).options(**options).parquet(f"{folder}/*") for folder, schema in feeds]
    late = [df.withWatermark(ARRIVAL, f"{LATENESS_S:g} seconds") for df in given]
    try:
        return tagged(
            {box.name: aggregated(box, late[0]) if box.op == "aggregate" else joined(box, *late, judged=judged)}
        )
    except SPARK_ERRORS as error:
        raise PenstockError(f"boxes.{box.name} cannot be run: {line_of(error)}") from None


def aggregated(box: Box, df: DataFrame) -> DataFrame:
    """Groups of rows within windows of time; counts, sums and means correct for random drops."""
    window = F.window(ARRIVAL, f"{_microseconds(box)} microseconds")
    results = [F.expr(weighted(text, WEIGHT)).alias(name) for name, text in box.select.items()]
    groups = df.groupBy(window, *(F.col(quoted(name)) for name in box.by))
    found = groups.agg(*results) if results else groups.agg(F.sum(WEIGHT).alias("count"))
    start, end = F.col("window.start"), F.col("window.end")
    hidden = {INPUT: F.lit(box.name), WEIGHT: F.lit(1.0), ARRIVAL: end}
    return found.withColumns({WINDOW[0]: start, WINDOW[1]: end, **hidden}).drop("window")


def joined(box: Box, left: DataFrame, right: DataFrame, *, judged: frozenset[str] = frozenset()) -> DataFrame:
    """Pairs of rows that are equal in some columns and not too far apart in time; a name twice is the left one's.

    A pair counts as a row of the input that what it is judged by comes from.
    """
    for name in box.on:
        if name not in left.columns or name not in right.columns:
            both_have = sorted({*left.columns} & {*right.columns} - {*HIDDEN})
            accepted = f"columns that both sides have: {', '.join(both_have) or 'there is none'}"
            raise PenstockError.setting(f"boxes.{box.name}.on", name, accepted)
    renamed = {name: f"__right_{name}" for name in right.columns}
    right = right.withColumnsRenamed(renamed)
    close = F.expr(
        f"{renamed[ARRIVAL]} BETWEEN {ARRIVAL} - INTERVAL {_microseconds(box)} MICROSECONDS "
        f"AND {ARRIVAL} + INTERVAL {_microseconds(box)} MICROSECONDS"
    )
    equal = [F.col(quoted(name)) == F.col(quoted(renamed[name])) for name in box.on]
    both = left.join(right, [*equal, close])
    own = [F.col(quoted(name)) for name in left.columns if name not in HIDDEN]
    others = [
        F.col(quoted(new)).alias(name if name not in left.columns else f"{name}_right")
        for name, new in renamed.items()
        if name not in HIDDEN and name not in box.on
    ]
    weight = F.col(WEIGHT) * F.col(renamed[WEIGHT])
    later = F.greatest(ARRIVAL, renamed[ARRIVAL])
    from_left = judged <= {name.lower() for name in left.columns}
    origin = F.col(INPUT if from_left else renamed[INPUT]).alias(INPUT)
    return both.select(origin, weight.alias(WEIGHT), later.alias(ARRIVAL), *own, *others)


def _microseconds(box: Box) -> int:
    if box.window_s is None:
        raise PenstockError(f"boxes.{box.name}.window is missing: give a length of time, such as 10 s")
    return round(box.window_s * 1e6)
