"""Queries that end when they have read everything, in batches, on any version of Spark."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.spark.version import HERE, LIMITED_READS

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


def until_read(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query; before Spark 4.2 the trigger `availableNow` reads one batch of the embedded source and ends."""
    if HERE >= LIMITED_READS:
        return writer.trigger(availableNow=True).start()
    query = writer.start()
    Thread(target=end, args=(query,), daemon=True).start()
    return query


def end(query: StreamingQuery) -> None:
    with suppress(PySparkException):  # who started the query is told
        query.processAllAvailable()
    query.stop()
