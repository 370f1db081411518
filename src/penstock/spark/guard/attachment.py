"""A query that a guard is given by name or identity: found among the active ones, and again after a restart.

Spark keeps the identity of a query in its checkpoint, and gives each run a new one.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark.guard.teller import line_of
from penstock.spark.plans.places import on_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

_logger = logging.getLogger("penstock")

#: Time between two looks at the active queries: an early batch is not lost, because Spark keeps a query's progress.
LOOK_S = 0.25
#: After this many failed looks in a row the session is lost; time between two of them.
LOST_AFTER, RETRY_S = 120, 1.0
#: Longest wait for a running look when the guard is stopped.
STOP_S = 2.0


def active_queries(given: SparkSession | None) -> Callable[[], Sequence[StreamingQuery]]:
    """A function that lists the active queries of this session, or of the active and the first one if none is given.

    A function for `foreachBatch` gets a copy of the session, which may become the active one and has no queries. Not so
    with Spark Connect, where such a function runs on the server.
    """
    active = given or SparkSession.getActiveSession()
    if active is None:
        raise PenstockError("spark is missing: give the session in which the query is started")
    sessions = [active] if given or on_connect(active) else [active, SparkSession.builder.getOrCreate()]
    return lambda: list({str(query.runId): query for one in sessions for query in one.streams.active}.values())


class Attachment:
    """Passes each run of one query to a guard.

    Attributes:
        alarm: Why the query is active but not watched, in one line; None if all is well.
    """

    def __init__(
        self,
        wanted: Callable[[], str],
        active: Callable[[], Sequence[StreamingQuery]],
        watch: Callable[[StreamingQuery], object],
        busy: Callable[[], bool],
    ) -> None:
        """Look for one query.

        Args:
            wanted: Gives its name, id or run id; empty as long as it is unknown.
            active: Gives the active queries.
            watch: Begins to watch one; refuses it with a `PenstockError`.
            busy: Whether a run is being watched.
        """
        self._wanted, self._active, self._watch, self._busy = wanted, active, watch, busy
        self._query = ""  # identity of the query that was found
        self._run = ""  # its last run that was watched
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="penstock-attach", daemon=True)
        self.alarm: str | None = None

    def look(self) -> bool:
        """Look once; true if a run is watched."""
        if self._busy():
            return True
        wanted = self._wanted()
        for query in self._active() if wanted else ():
            identity, run = str(query.id), str(query.runId)
            if wanted not in (query.name, identity, run) and identity != self._query:
                continue
            if run == self._run:
                return True  # It is about to end, or the guard no longer watches it.
            self._watch(query)
            self._query, self._run, self.alarm = identity, run, None
            return True
        return False

    def wait(
        self,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Wait until the query is watched.

        Raises:
            PenstockError: If it is not active within this time.
        """
        until_s = clock() + timeout_s
        while not self.look():
            if clock() >= until_s:
                found = ", ".join(sorted(repr(one.name or str(one.id)) for one in self._active())) or "none"
                raise PenstockError.setting(
                    "query",
                    self._wanted() or None,
                    "the name, id or run id of a query of this session",
                    f"it was not active within {timeout_s:g} s; active: {found}",
                )
            sleep(LOOK_S)

    def start(self) -> None:
        """Wait for the first or the next run in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no further runs."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(STOP_S)

    @property
    def alive(self) -> bool:
        """Whether it waits for a run, or for the end of one."""
        return self._thread.is_alive()

    def _follow(self) -> None:
        failed = 0
        while not self._stopping.is_set() and failed < LOST_AFTER:
            try:
                self.look()
                failed = 0
            except PenstockError as error:
                self._tell(f"query {self._wanted()!r} is active but is not watched: {error}")
            except Exception as error:  # noqa: BLE001 - the query must not suffer from any error
                failed += 1
                self._tell(f"the active queries cannot be read: {line_of(error)}")
            self._stopping.wait(RETRY_S if failed else LOOK_S)
        if failed:
            _logger.warning("query %r is no longer waited for: Spark has not answered %d times", self._wanted(), failed)

    def _tell(self, line: str) -> None:
        """Raise an alarm, and log it once."""
        if line != self.alarm:
            _logger.warning("%s", line)
        self.alarm = line
