"""The inputs of a site in one stream: a struct for each, of which one is filled, beside columns that all rows have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from penstock.errors import PenstockError
from penstock.spark.network.drops import ARRIVAL, INPUT, quoted
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.streams import side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.config.site_file import Link, SiteFile

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
