"""A reminder for guards that nobody watches: their gate is in a query that runs, and nothing is planned for it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.guard.misuse import is_gate_of
from penstock.spark.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_logger = logging.getLogger("penstock")

#: After this time a query that uses a guard's gate without being watched is logged; time between two checks.
UNWATCHED_S, LOOK_S = 30.0, 5.0


class Gate(NamedTuple):
    """A gate in a data frame.

    Attributes:
        guard: Name of its guard.
        metric: What it observes in a batch that passes it.
        spark: The session of its data frame.
    """

    guard: str
    metric: str
    spark: SparkSession


class Reminder:
    """Checks the running queries, in one thread for all guards, until each guard watches or was logged."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait for no guard yet."""
        self._clock = clock
        self._gates: dict[str, Gate] = {}  # by guard
        self._since_s: dict[str, dict[str, float]] = {}  # by guard and query: when it was first seen unwatched
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def expect(self, token: str, gate: Gate) -> None:
        """Wait for the guard with this token to watch."""
        with self._lock:
            self._gates[token] = gate
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-reminder", daemon=True)
                self._thread.start()

    def done(self, token: str) -> None:
        """The guard watches, or need not."""
        with self._lock:
            self._gates.pop(token, None)
            self._since_s.pop(token, None)

    def look(self) -> None:
        """Look at all running queries once."""
        with self._lock:
            gates = dict(self._gates)
        for token, gate in gates.items():
            try:
                self._look_for(token, gate)
            except Exception:  # noqa: BLE001 - a session that has ended; whatever it is, a reminder is in nobody's way
                self.done(token)

    def _look_for(self, token: str, gate: Gate) -> None:
        for query in gate.spark.streams.active:
            last = query.lastProgress
            if last is None or not is_gate_of(gate.guard, Progress.of(last).observed.get(gate.metric)):
                continue
            since_s = self._since_s.setdefault(token, {}).setdefault(str(query.id), self._clock())
            if self._clock() - since_s >= UNWATCHED_S:
                _logger.warning(
                    "query %s uses the gate of guard %r but is not watched, so nothing is planned or reported: call "
                    "guard.watch(query)",
                    query.id,
                    gate.guard,
                )
                self.done(token)
                return

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with self._lock:
                if not self._gates:
                    self._thread = None
                    return
            self.look()


REMINDER = Reminder()
