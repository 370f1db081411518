"""The messages of a controller: to the program's log, once each, and to the journal of its query."""

import logging
import re
from collections.abc import Callable

from penstock.store.report_log import ALIVE_S, Alarms, Alive, Line, NoReports, ReportSink

_logger = logging.getLogger("penstock")

#: Alarms of which only numbers have changed are recorded again after this time, to leave room for reports.
SAME_ALARMS_S = 60.0
#: The number of different lines that are remembered, so that none is logged twice.
MOST_TOLD = 1_000


class Teller:
    """Warns, counts errors and keeps a journal.

    Attributes:
        kept_in: The journal.
        clock: What its lines are dated by.
        errors: Errors that were caught.
    """

    def __init__(self, kept_in: ReportSink | None, clock: Callable[[], float]) -> None:
        self.kept_in: ReportSink = kept_in or NoReports()
        self.clock = clock
        self._kept_s = clock()
        self._alarms = Alarms(0.0)
        self._told: set[str] = set()
        self.errors = 0

    def tell(self, line: str) -> None:
        """Warn once, regardless of the numbers in the line."""
        if (gist := _gist(line)) not in self._told:
            if len(self._told) >= MOST_TOLD:  # lines that differ each time, by a path, say
                self._told.clear()
            self._told.add(gist)
            _logger.warning("%s", line)

    def error(self, line: str) -> None:
        """Warn of an error that was survived."""
        self.errors += 1
        self.tell(line)

    def keep(self, message: Line) -> None:
        """Write a line into the journal."""
        self._kept_s = self.clock()
        self.kept_in.write(message)

    def keep_alive(self) -> None:
        """Write an `alive` line if nothing was written for a while."""
        if not 0.0 <= self.clock() - self._kept_s < ALIVE_S:
            self.keep(Alive(self.clock()))

    def keep_alarms(self, alarms: tuple[str, ...], again_after_s: float = SAME_ALARMS_S) -> None:
        """Keep the alarms if there are others, or none any more; if only numbers are others, not before long."""
        now_s, kept = self.clock(), self._alarms
        found = Alarms(now_s, alarms, self.errors)
        if (found.alarms, found.errors) == (kept.alarms, kept.errors):
            return
        if _gists(found) != _gists(kept) or now_s - kept.told_s >= again_after_s:
            self._alarms = found
            self.keep(found)


def line_of(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _gist(line: str) -> str:
    """A line without its numbers."""
    return re.sub(r"\d[\d.]*", "#", line)


def _gists(told: Alarms) -> tuple[list[str], bool]:
    return [_gist(line) for line in told.alarms], told.errors > 0
