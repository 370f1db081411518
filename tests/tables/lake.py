"""Delta or Iceberg tables for tests, whichever this version of Spark has; Maven brings the jars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from tests.components import example

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The newest version of each that Maven has, by the Spark it is made for.
VERSIONS = {"4.1": ("iceberg", "1.12.0"), "4.2": ("delta", "4.4.0")}
COLUMNS = "row bigint, key bigint, value double, arrival timestamp"
#: What a session needs besides the jars.
EXTENSIONS = {
    "delta": {
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 by default, for small tables 49 too many
        "spark.sql.sources.default": "delta",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
ONE_FILE = {"delta": {"maxFilesPerTrigger": "1"}, "iceberg": {"streaming-max-files-per-micro-batch": "1"}}


@dataclass(frozen=True)
class Lake:
    """The tables of one format in one folder."""

    kind: str
    folder: Path

    @classmethod
    def here(cls, folder: Path) -> Lake:
        """Of the format that there is for this Spark."""
        return cls(VERSIONS[".".join(pyspark.__version__.split(".")[:2])][0], folder)

    def settings(self) -> dict[str, str]:
        """Settings of a session that reads and writes such tables."""
        spark = next(spark for spark, (kind, _) in VERSIONS.items() if kind == self.kind)
        version = VERSIONS[spark][1]
        pom = Path(__file__).with_name(f"{self.kind}.pom.xml")
        jars = example("kafka/broker").jars(f"{self.kind}-{version}-{spark}", pom, {"spark": spark, self.kind: version})
        found = EXTENSIONS[self.kind] | {"spark.jars": ",".join(map(str, sorted(jars.glob("*.jar"))))}
        return found | ({"spark.sql.catalog.lake.warehouse": str(self.folder)} if self.kind == "iceberg" else {})

    def name(self, table: str) -> str:
        """The table as SQL names it."""
        return f"lake.db.{table}" if self.kind == "iceberg" else f"default.{table}"

    def make(self, spark: SparkSession, table: str, columns: str = COLUMNS) -> str:
        """Make an empty table, or, of Delta, make one that another session has made known to this one; its name."""
        place = f" LOCATION '{self.folder / table}'" if self.kind == "delta" else ""
        spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({columns}) USING {self.kind}{place}")
        return self.name(table)

    def commits(self, table: str) -> int:
        """How many commits the table has had, by its own log."""
        log = {"delta": f"{table}/_delta_log/*.json", "iceberg": f"db/{table}/metadata/v*.metadata.json"}
        return len(list(self.folder.glob(log[self.kind])))

    def append(self, spark: SparkSession, table: str, first: int, stop: int) -> None:
        """Append rows of these numbers to a table of `COLUMNS`, as one file."""
        what = ("id AS row", "id % 16 AS key", "id * 0.5D AS value", "current_timestamp() AS arrival")
        rows = spark.range(first, stop, numPartitions=1).selectExpr(*what)
        rows.writeTo(self.name(table)).append()

    def stream(self, spark: SparkSession, table: str) -> DataFrame:
        """Read the table as a stream, one file a batch."""
        return spark.readStream.options(**ONE_FILE[self.kind]).table(self.name(table))
