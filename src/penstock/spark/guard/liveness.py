"""Signs of life of a query: whether a batch takes far too long, and whether its input has ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.progress import Progress

#: Input is over when no data has been there for so long.
IDLE_S = 2.0
#: A batch that takes this long, and this many times as long as the last one, raises an alarm.
STALLED_S, STALLED_TIMES = 60.0, 3.0
NO_BATCH = "no batch of query"


class Liveness:
    """Remembers when a query last showed progress, and since when nothing is there to do."""

    def __init__(self, query: StreamingQuery, now_s: float) -> None:
        """Begin to watch the query."""
        self._query = query
        self._newest: Progress | None = None
        self._sign_s = now_s  # when it last showed progress
        self._active_since_s: float | None = now_s  # since when a trigger is known to work without showing any
        self._idle_since_s: float | None = None

    def saw(self, newest: Progress | None, now_s: float) -> None:
        """Process the newest trigger."""
        if newest is not None and (self._newest is None or newest.start_s != self._newest.start_s):
            self._newest, self._sign_s, self._active_since_s = newest, now_s, None

    def stalled(self, now_s: float) -> str | None:
        """That no batch has ended for far too long, in one line; None if that is not so."""
        if now_s - self._sign_s <= STALLED_S:
            return None
        status: dict[str, Any] = self._query.status
        if not status.get("isTriggerActive"):
            self._active_since_s = None
            return None
        # Between two triggers nothing is late: only a trigger that was seen at work counts.
        self._active_since_s = now_s if self._active_since_s is None else self._active_since_s
        waited_s = now_s - self._active_since_s
        if waited_s <= max(STALLED_S, STALLED_TIMES * (self._newest.duration_s if self._newest else 0.0)):
            return None
        # Without a number that runs, so that it is the same alarm as long as it lasts.
        since = datetime.fromtimestamp(self._active_since_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{NO_BATCH} {self._query.id} has ended since {since}; Spark says: {status.get('message')}"

    def input_ended(self, now_s: float) -> bool:
        """Whether nothing has been there to do for a while; once each time."""
        status: dict[str, Any] = self._query.status
        if status.get("isDataAvailable") or status.get("isTriggerActive"):
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = now_s
        elif now_s - self._idle_since_s > IDLE_S:
            self._idle_since_s = None
            return True
        return False
