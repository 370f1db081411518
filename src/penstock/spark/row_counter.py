"""How many rows a query has taken in all its runs: Spark's own memory of progress holds the last hundred batches."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )
    from pyspark.sql.streaming.query import StreamingQuery

#: Longest wait for the last progress of a run that has ended.
WAIT_S = 30.0


class RowCounter(StreamingQueryListener):
    """Rows by run and batch."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._rows: dict[tuple[str, int], int] = {}
        self._heard: set[str] = set()
        self._ended: set[str] = set()
        self._news = threading.Condition()

    def of(self, query: StreamingQuery) -> list[int]:
        """The rows of each batch of a run that has ended."""
        run = str(query.runId)
        with self._news:
            self._news.wait_for(lambda: run in self._ended, WAIT_S)
            return [rows for (of, _), rows in self._rows.items() if of == run and rows]

    def heard_of(self, query: StreamingQuery) -> bool:
        """Whether a run has looked for rows: it has ended a batch, or found nothing to do."""
        with self._news:
            return str(query.runId) in self._heard

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to count."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """There is nothing to do."""
        with self._news:
            self._heard.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A batch is over."""
        told = event.progress
        with self._news:
            self._heard.add(str(told.runId))
            self._rows[str(told.runId), told.batchId] = told.numInputRows

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Spark reports no more progress of this run."""
        with self._news:
            self._ended.add(str(event.runId))
            self._news.notify_all()


@contextmanager
def row_counter(spark: SparkSession) -> Iterator[RowCounter]:
    """Count from here on."""
    listener = RowCounter()
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        spark.streams.removeListener(listener)
