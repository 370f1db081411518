"""The journal of a query on the server of Spark Connect.

Its lines ride on the next request, which is usually the plan that follows from a report: the server stores the plan
first. Lines that find no request within seconds are sent by a thread of their own. So no plan waits for a report.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.messages.report import Report
from penstock.store.report_log import End, Line, LineText

_logger = logging.getLogger("penstock")

#: The longest wait for a request on which lines can ride, and then between two attempts to send them.
RIDE_S, RETRY_S = 3.0, 5.0
#: The longest wait for the last lines when the guard ends.
END_S = 2.0
#: The lines that wait at most, if the server does not answer: then the oldest are lost. The lines of one request.
MOST_WAITING, MOST_RIDING = 2000, 100


class RemoteReports:
    """Writes the journal, and reads it once, at the start.

    One request at a time carries lines, and they are repeated unchanged until they have arrived. The server recognizes
    them by their place in the journal: a request may be executed although its answer is lost.
    """

    rides = True

    def __init__(self, query: str, send: Callable[[str], Any]) -> None:
        """The journal of a query; `send` sends a request of this name, on which lines ride."""
        self.query, self._send = query, send
        self._before = send("journal")
        self._size: int = self._before["size"]
        self._text = LineText()
        self._waiting: deque[tuple[float, str]] = deque(maxlen=MOST_WAITING)  # with the time of each line
        self._riding: list[str] = []
        self._away = False  # whether a request with lines is on its way
        self._ended = False
        self._lost = 0
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._send_late, name=f"penstock-reports-{query}", daemon=True)

    def write(self, message: Line) -> None:
        """Give a message to the next request; the last one is sent at once."""
        with self._news:
            if len(self._waiting) == MOST_WAITING:
                self._lose(1, "the server does not answer")
            self._waiting.append((time.monotonic(), self._text.of(message)))
            self._ended = isinstance(message, End)
            self._news.notify_all()
            if self._thread.ident is None:
                self._thread.start()
        if self._ended:
            self._thread.join(END_S)

    def accounted(self) -> int | None:
        """The newest batch in the journal; None if there is no journal, as in checkpoints of earlier releases."""
        found: int | None = self._before["accounted"] if self._before["size"] else None
        return found

    def recent(self) -> list[Report]:
        """The last reports of earlier runs."""
        return [Report.from_json(text) for text in self._before["recent"]]

    def board(self) -> dict[str, Any] | None:
        """The lines for a request that leaves now; None if there are none, or if others are still on their way."""
        with self._news:
            if self._away:
                return None
            if not self._riding:
                self._riding = [self._waiting.popleft()[1] for _ in range(min(len(self._waiting), MOST_RIDING))]
            self._away = bool(self._riding)
            return {"query": self.query, "size": self._size, "lines": self._riding} if self._riding else None

    def arrived(self, size: int | None) -> None:
        """The request has arrived, and this is the size of the journal now; None if it cannot be written."""
        with self._news:
            if size is None:
                self._lose(len(self._riding), "its file on the server cannot be written")
            else:
                self._size = size
            self._riding, self._away = [], False
            self._news.notify_all()

    def failed(self) -> None:
        """The request has failed; its lines ride again."""
        with self._news:
            self._away = False
            self._news.notify_all()

    def _lose(self, lines: int, why: str) -> None:
        if not self._lost:
            _logger.warning("the journal of query %s lacks lines, so the dashboard does too: %s", self.query, why)
        self._lost += lines

    def _late_s(self) -> float | None:
        """How long lines may still wait; None if there are none, or if they are on their way."""
        if self._away or not (self._riding or self._waiting):
            return None
        if self._ended or self._riding:
            return 0.0
        return self._waiting[0][0] + RIDE_S - time.monotonic()

    def _send_late(self) -> None:
        """Send what found no request, until all is sent after the end."""
        while True:
            with self._news:
                while (late_s := self._late_s()) is None or late_s > 0.0:
                    if self._ended and not self._away:
                        return
                    self._news.wait(late_s)
                last = self._ended
            try:
                self._send("nothing")
            except Exception:  # noqa: BLE001 - without its server a client can only try again
                if last:
                    return
                with self._news:
                    self._news.wait_for(lambda: self._ended, RETRY_S)
