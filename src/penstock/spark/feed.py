"""The feed of a query's progress: every batch that ran, once, and which ones Spark had forgotten.

Spark keeps the last hundred triggers. Among them are triggers that found nothing to do: at the start of a query, then
every ten seconds. They carry the number of the batch that is to come, so a number alone does not identify a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class News(NamedTuple):
    """What a look at a query found.

    Attributes:
        newest: The newest trigger, whether a batch ran in it or not; None before the first.
        first: Whether this is the first trigger that was found.
        batches: The batches that ran since the last look, oldest first.
        forgotten: Numbers of batches that ran since the last look and that Spark no longer knows.
    """

    newest: Progress | None = None
    first: bool = False
    batches: tuple[Progress, ...] = ()
    forgotten: range = range(0)


class ProgressFeed:
    """Reads the progress of one run of a query."""

    def __init__(self, query: StreamingQuery) -> None:
        """Read the progress of this query from the oldest trigger that Spark still knows."""
        self._query = query
        self._next: int | None = None  # number of the batch that is to run next, as far as is known

    def news(self) -> News:
        """Look once; one call to Spark, or two if several batches have run."""
        last = self._query.lastProgress
        if last is None:
            return News()
        newest, expected = Progress.of(last), self._next
        if expected is not None and newest.batch + newest.ran <= expected:
            return News(newest)
        if newest.batch == expected:
            self._next = expected + 1
            return News(newest, batches=(newest,))
        recent = list(map(Progress.of, self._query.recentProgress)) or [newest]
        ran = tuple(one for one in recent if one.ran and (expected is None or one.batch >= expected))
        # Another batch may have ended between the two answers.
        self._next = max(one.batch + one.ran for one in (newest, *recent))
        first = ran[0].batch if ran else self._next
        forgotten = range(0) if expected is None else range(expected, first)
        return News(newest, expected is None, ran, forgotten)
