"""From the folder of a quarantine into a table or a topic: a small streaming query beside the guarded one."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.spark.quarantine import Sign, stored_schema
from penstock.spark.replay import started

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.spark.quarantine import Place

_logger = logging.getLogger("penstock")

#: How often rows are brought on.
EVERY = "5 seconds"
#: The query's checkpoint; Spark takes no folder of such a name for data.
MARK = "_forward"


def refuse_unusable(spark: SparkSession, place: Place, schema: StructType) -> None:
    """Make a table that is missing; one line if it cannot be made, or if Spark has no connector to Kafka."""
    try:
        if place.kind == "table" and not spark.catalog.tableExists(place.name):
            spark.catalog.createTable(place.name, schema=schema, source="parquet")
        if place.kind == "kafka":
            options = {"kafka.bootstrap.servers": place.servers, "subscribe": place.name}
            spark.readStream.format("kafka").options(**options).load()
    except (PySparkException, ValueError) as error:
        accepted = "a table that is there or can be made" if place.kind == "table" else "a topic that Spark can reach"
        given = f"{place.kind}:{place.name}" + (f"@{place.servers}" if place.servers else "")
        raise PenstockError.setting("quarantine", given, accepted, f"Spark says: {_first_line(error)}") from None


class Forward:
    """The query, from its start to its end."""

    def __init__(self, spark: SparkSession, folder: Path, place: Place) -> None:
        """Bring on what is in the folder and what will be."""
        rows = spark.readStream.schema(stored_schema(Sign.read(folder, "quarantine"))).parquet(str(folder))
        self._folder, self._place = folder, place
        self._query: StreamingQuery = started(rows, folder / MARK, place, {"processingTime": EVERY})

    @property
    def alarm(self) -> str | None:
        """What went wrong, in one line."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        why = "" if error is None else f": {_first_line(error)}"
        return f"shed rows wait in {self._folder}, because they are no longer brought to {self._place.name}{why}"

    def stop(self) -> None:
        """Bring on what is there, and end."""
        alarm = self.alarm
        if alarm is not None:
            _logger.warning("%s", alarm)
            return
        with suppress(PySparkException):
            self._query.processAllAvailable()
            self._query.stop()


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
