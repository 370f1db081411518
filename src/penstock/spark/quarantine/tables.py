"""Tables of files that a stream fills: such a table must belong to the stream alone, or rows would be hidden.

Spark keeps a log of what a stream has written beside the table's files. Spark skips a batch whose number is already in
that log, even if another stream wrote it. Files that are not in the log, such as those of an INSERT, are no longer
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.spark.expected_errors import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

#: Formats whose tables are plain files; others, such as Delta and Iceberg, distinguish streams.
FILES = ("parquet", "orc", "json", "csv", "text", "avro", "xml")


def refuse_shared(spark: SparkSession, name: str, checkpoint: Path, setting: str) -> None:
    """One line if the table is not empty and not filled by the query with this checkpoint."""
    if (checkpoint / "commits").exists():
        return
    about = {row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    if about.get("Provider", "").lower() not in FILES:
        return
    if _filled_by_a_stream(spark, about["Location"]):
        told = "another stream fills this one, and Spark would skip rows"
    elif not spark.table(name).isEmpty():
        told = "Spark would no longer show the rows that are in this one"
    else:
        return
    raise PenstockError.setting(setting, f"table:{name}", "a table of its own", told)


def _filled_by_a_stream(spark: SparkSession, location: str) -> bool:
    """Whether Spark's log of a stream exists, in any file system."""
    try:
        with quiet():
            # Spark shows none of its rows, but refuses one that is missing.
            spark.read.text(f"{location}/_spark_metadata")
    except PySparkException:
        return False
    return True
