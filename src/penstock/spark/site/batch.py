"""The inputs of a site, and one micro-batch: count rows, keep those of the plan, run each fragment's SQL on them.

All inputs are one stream: a struct for each, of which one is filled, beside columns that all rows have.

The operator window of a fragment is its batch. So equation 3 of THEMIS holds for any SQL: the output rows of a batch
share the SIC of its input.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from penstock.errors import PenstockError
from penstock.messages.plan import Drop
from penstock.messages.report import BoxStatistics, PlaceRows
from penstock.spark.network.drops import ARRIVAL, INPUT, kept_by, quoted
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.streams import side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.config.site_file import Fragment, Link, SiteFile
    from penstock.messages.plan import Plan

#: The SIC of a row that came by a link, and the file that it came in.
SIC, FILE = "penstock_sic", "penstock_file"
#: The number of input rows that a row represents.
WEIGHT = "penstock_weight"
_COMMON = (INPUT, ARRIVAL, SIC, FILE)
_ROW = "row"


def inputs(spark: SparkSession, file: SiteFile, inboxes: Mapping[Link, Path]) -> dict[str, DataFrame]:
    """Each input, in a struct with its name; where that is null, the row only brings the SIC of an empty batch."""
    found = {}
    for name, (fragment, one) in file.inputs.items():
        place = f"fragments.{fragment.name}.inputs.{name.split('.', 1)[1]}"
        try:
            if one.link is not None:
                found[name] = _link(spark, name, inboxes[one.link], str(one.schema))
            elif one.source is not None:
                reader = spark.readStream.format(str(one.source.format)).options(**one.source.options)
                df = (reader.schema(one.source.schema) if one.source.schema else reader).load()
                taken = next((column for column in df.columns if column.lower() in (*_COMMON, WEIGHT)), None)
                if taken:
                    raise PenstockError.setting(f"a column of {place}", taken, "another name: this one is taken")
                row = F.struct(*(F.col(quoted(column)) for column in df.columns)).alias(name)
                found[name] = df.select(*_common(name), row)
        except SPARK_ERRORS as error:
            raise PenstockError(f"{file.document.file}: {place} cannot be read: {line_of(error)}") from None
    return found


def _link(spark: SparkSession, name: str, inbox: Path, columns: str) -> DataFrame:
    row = StructType.fromDDL(columns)
    names = row.fieldNames() if isinstance(row, StructType) else []
    taken = next((column for column in names if column.lower() in (*_COMMON, WEIGHT)), None)
    if taken:
        raise PenstockError.setting(f"a column in the schema of {name}", taken, "another name: this one is taken")
    schema = StructType([StructField(SIC, DoubleType()), StructField(_ROW, row)])
    df = spark.readStream.schema(schema).json(str(inbox), lineSep="\n")
    file = F.col("_metadata.file_name")
    return df.select(*_common(name, F.col(SIC), file), F.col(_ROW).alias(name))


def _common(name: str, sic: F.Column | None = None, file: F.Column | None = None) -> list[F.Column]:  # type: ignore[name-defined]
    return [
        F.lit(name).alias(INPUT),
        F.current_timestamp().alias(ARRIVAL),
        (F.lit(None).cast(DoubleType()) if sic is None else sic).alias(SIC),
        (F.lit(None).cast(StringType()) if file is None else file).alias(FILE),
    ]


def together(frames: Mapping[str, DataFrame]) -> DataFrame:
    """All inputs side by side."""
    return side_by_side(frames, _COMMON)


class Batch:
    """The rows of a micro-batch; `close` releases them."""

    def __init__(self, file: SiteFile, rows: DataFrame) -> None:
        """Hold the rows, which are read several times."""
        self._file, self._rows = file, rows.persist()
        self._held = [self._rows]
        self.blank: dict[str, int] = {}  #: Rows of links that have no column of their schema, by input.

    def came(self) -> dict[str, int]:
        """Rows in, by input."""
        counts = [_sum(self._own(name)).alias(f"c{n}") for n, name in enumerate(self._file.inputs)]
        found = self._rows.agg(*counts).first()
        return {name: int(found[n] or 0) for n, name in enumerate(self._file.inputs)} if found else {}

    def counted(self, plan: Plan) -> tuple[dict[str, PlaceRows], dict[str, float]]:
        """What the plan keeps: rows of each input, and the SIC that they bring."""
        columns = []
        for n, name in enumerate(self._file.inputs):
            own, kept = self._own(name), self._kept(name, plan)
            columns += [
                _sum(own).alias(f"in{n}"),
                _sum(own & kept).alias(f"kept{n}"),
                F.sum(F.when((F.col(INPUT) == name) & kept, self._sic(name, plan))).alias(f"sic{n}"),
                F.max(F.when(F.col(INPUT) == name, F.col(FILE))).alias(f"file{n}"),
                _sum(own & self._is_blank(name)).alias(f"blank{n}"),
            ]
        found = self._rows.agg(*columns).first()
        if found is None:
            raise PenstockError("Spark has counted nothing")
        counts, sic = {}, {}
        for n, (name, (_, one)) in enumerate(self._file.inputs.items()):
            rows_in, kept_rows = int(found[f"in{n}"] or 0), int(found[f"kept{n}"] or 0)
            link = "" if one.link is None else f"{one.link.site}.{one.link.fragment}"
            mark = str(found[f"file{n}"] or "").removesuffix(".json")
            if one.link is not None and found[f"blank{n}"]:
                self.blank[name] = int(found[f"blank{n}"])
            counts[name] = PlaceRows(rows_in, kept_rows, sender=link, mark=mark)
            sic[name] = float(found[f"sic{n}"] or 0.0)
        return counts, sic

    def worked(
        self, fragment: Fragment, plan: Plan, counts: Mapping[str, PlaceRows], sic: Mapping[str, float]
    ) -> tuple[DataFrame | None, BoxStatistics]:
        """Run a fragment's SQL on the rows that are kept; its rows, with their SIC, are held until `close`.

        Without rows the SQL is not run, and there is no data frame.
        """
        begun_s = time.monotonic()
        names = {name: f"{fragment.name}.{name}" for name in fragment.inputs}
        sic_in = min(sum(sic[name] for name in names.values()), 1.0)
        kept = sum(counts[name].rows_kept for name in names.values())
        if not kept:
            return None, BoxStatistics(0, 0, 0.0, fragment.query, sic_in)
        made = sql(
            self._rows.sparkSession, self._file, fragment, {n: self._view(key, plan) for n, key in names.items()}
        )
        result = made.persist()
        self._held.append(result)
        try:
            count = result.count()
        except SPARK_ERRORS as error:
            raise PenstockError(f"fragments.{fragment.name}.sql failed: {line_of(error)}") from None
        each = sic_in / count if count else 0.0
        rows = result.select(*(quoted(name) for name in result.columns if name.lower() != SIC), F.lit(each).alias(SIC))
        return rows, BoxStatistics(kept, count, time.monotonic() - begun_s, fragment.query, sic_in)

    def close(self) -> None:
        """Release the rows."""
        for one in self._held:
            one.unpersist()

    def _own(self, name: str) -> Column:
        return (F.col(INPUT) == name) & F.col(quoted(name)).isNotNull()

    def _is_blank(self, name: str) -> Column:
        """Whether a row has no value at all: so Spark reads JSON that does not fit a schema."""
        kind = self._rows.schema[name].dataType
        names = kind.names if isinstance(kind, StructType) else []
        return F.coalesce(*(F.col(f"{quoted(name)}.{quoted(column)}").cast("string") for column in names)).isNull()

    def _kept(self, name: str, plan: Plan) -> Column:
        """Whether a row is kept; what only brings the SIC of an empty batch always is."""
        drop = plan.drop(name)
        if drop is None or drop.keep >= 1.0:
            return F.lit(True)  # noqa: FBT003 - a literal
        place = f"{self._file.site}.{name}"
        return F.col(quoted(name)).isNull() | kept_by(Drop(place, keep=drop.keep), self._rows, name)

    def _sic(self, name: str, plan: Plan) -> Column:
        carried = plan.sic_at(name)
        return F.coalesce(F.col(SIC), F.lit(0.0)) if carried is None else F.lit(carried.sic[0])

    def _view(self, name: str, plan: Plan) -> DataFrame:
        own = self._rows.filter(self._own(name) & self._kept(name, plan))
        drop = plan.drop(name)
        weight = 1.0 / drop.keep if drop is not None and drop.keep else 1.0
        return own.select(f"{quoted(name)}.*", F.lit(weight).alias(WEIGHT), self._sic(name, plan).alias(SIC))


def sql(spark: SparkSession, file: SiteFile, fragment: Fragment, views: Mapping[str, DataFrame]) -> DataFrame:
    """A fragment's SQL over its inputs."""
    for name, view in views.items():
        view.createOrReplaceTempView(name)
    try:
        made = spark.sql(fragment.sql)
        _ = made.schema
    except SPARK_ERRORS as error:
        at = file.document.at(("fragments", fragment.name, "sql"))
        raise PenstockError(f"{at} cannot be run: {line_of(error)}") from None
    return made


def _sum(condition: Column) -> Column:
    return F.sum(F.when(condition, F.lit(1)).otherwise(F.lit(0)))
