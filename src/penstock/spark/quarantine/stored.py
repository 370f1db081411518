"""Where a replay finds the rows of a quarantine: in the files of a folder, or in a table."""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.errors import PenstockError
from penstock.spark.checkpoint import query_id
from penstock.spark.quarantine.rows import QUERY, Place, Sign, stored_schema
from penstock.store.folder import local_folder

#: The checkpoint of a replay from files, and from a table; Spark ignores folders of such names.
MARK, TABLE_MARK = "_replay", "_replay_table"
#: The metric that counts what a replay takes from a table, in which other queries may have rows.
OWN_ROWS = "penstock_replayed"


class Files:
    """The files of a quarantine."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self.path, self.name = spark, path, str(path)
        self.mark, self.sign = path / MARK, Sign.read(path, "folder")
        _refuse_both(path / TABLE_MARK, "the table", self.name)

    def empty(self) -> bool:
        """Whether no row has been shed."""
        return not any(self.path.glob("*.parquet"))

    def stream(self, files: int) -> DataFrame:
        """The rows, in batches of at most this many files."""
        reader = self._spark.readStream.schema(stored_schema(self.sign))
        return reader.option("maxFilesPerTrigger", files).parquet(self.name)


class Table:
    """The table of a quarantine; what a replay must know besides is below the query's checkpoint."""

    def __init__(self, spark: SparkSession, table: str, checkpoint: Path) -> None:
        self._spark, self._table, self.name = spark, table, f"table:{table}"
        self.path = checkpoint / "penstock" / "quarantine"
        self.mark, self.sign = self.path / TABLE_MARK, Sign.read(self.path, "checkpoint")
        self._query = query_id(checkpoint)
        if not spark.catalog.tableExists(table):
            raise PenstockError.setting("folder", self.name, "a table that is there")
        _refuse_both(self.path / MARK, "the files that wait for it", self.name)

    def empty(self) -> bool:
        """Whether no row of the query is in the table yet."""
        return self._own(self._spark.table(self._table)).isEmpty()

    def stream(self, files: int) -> DataFrame:
        """The rows of the query, in batches of at most this many files."""
        # The second is Iceberg's name of the first.
        options = dict.fromkeys(("maxFilesPerTrigger", "streaming-max-files-per-micro-batch"), str(files))
        rows = self._own(self._spark.readStream.options(**options).table(self._table))
        return rows.observe(OWN_ROWS, F.count(F.lit(1)).alias("rows"))

    def _own(self, rows: DataFrame) -> DataFrame:
        return rows.filter(F.col(QUERY) == F.lit(self._query))


def stored(
    spark: SparkSession, given: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | None, into: Place | None
) -> Files | Table:
    """What is replayed."""
    if not str(given).startswith("table:"):
        if checkpoint is not None:
            raise PenstockError.setting("checkpoint", str(checkpoint), "none", "it goes with folder='table:NAME' only")
        return Files(spark, local_folder("folder", given))
    place = Place.of(given, "folder")
    if checkpoint is None:
        raise PenstockError(f"folder = {given!r} is given without checkpoint: give the checkpoint of the guarded query")
    if into is not None and (into.kind, into.name) == (place.kind, place.name):
        raise PenstockError.setting("into", f"table:{into.name}", "another table than the quarantine")
    return Table(spark, place.name, local_folder("checkpoint", checkpoint))


def _refuse_both(other: Path, which: str, name: str) -> None:
    """Rows that pass through files into a table would be replayed from both."""
    if (other / "commits").exists():
        told = f"rows of this quarantine were replayed from {which} before: a row would be replayed twice"
        raise PenstockError.setting("folder", name, which, told)
