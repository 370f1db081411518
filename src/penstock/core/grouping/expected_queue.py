r"""What a scheduler expects of one instance: when it has done the rows sent there, by what was reported so far.

The last row known to be done was done at $f$; after it come rows $1 \dots n$, sent at $a_j$ and expected to take $e_j$.
They are executed in order, so the instance is free at $r_n$:

$$r_0 = f, \qquad r_j = \max(r_{j-1}, a_j) + e_j \qquad\Rightarrow\qquad
r_n = P_n + \max\Bigl(f - P_0,\ \max_{1 \le j \le n} (a_j - P_{j-1})\Bigr), \quad P_j = P_0 + e_1 + \dots + e_j$$

With the running sum P and the largest $a_j - P_{j-1}$ at hand (of rows that might still become the largest), a row sent
and a row done each take constant time, however long the queue.
"""

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class SentRow:
    """A row on its way."""

    number: int
    key_hash: int
    sent_s: float
    expected_s: float | None  #: cost at an average instance; None: sent before anything was known
    takes_s: float  #: e, what it is expected to take here
    work_s: float = 0.0  #: P up to and including this row


class ExpectedQueue:
    """The rows on their way to one instance.

    >>> queue = ExpectedQueue()
    >>> for number, sent_s in enumerate([0.0, 1.0, 9.0], start=1):
    ...     queue.send(SentRow(number, key_hash=0, sent_s=sent_s, expected_s=3.0, takes_s=3.0))
    >>> queue.free_s  # 0 to 3, 3 to 6, 9 to 12
    12.0
    >>> queue.leave(1, sojourn_s=8.0).number, queue.free_s  # the first took until 8, so the second goes to 11
    (1, 14.0)
    """

    __slots__ = ("_leads", "_offset_s", "_work_s", "done_s", "rows")

    def __init__(self) -> None:
        """Start empty, free since time 0."""
        self.rows: deque[SentRow] = deque()
        self.done_s = 0.0  #: when the last row known to be done was
        self._work_s = 0.0
        self._offset_s = 0.0
        self._leads: deque[tuple[int, float]] = deque()  # number and a - P before it; each less than the one before

    @property
    def free_s(self) -> float:
        """When all rows sent are expected to be done."""
        return self._work_s + (max(self._offset_s, self._leads[0][1]) if self._leads else self._offset_s)

    @property
    def behind_oldest_s(self) -> float:
        """What all rows but the oldest are expected to take."""
        return self._work_s - self.rows[0].work_s if self.rows else 0.0

    def send(self, row: SentRow) -> None:
        """One more row is on its way."""
        self.rows.append(row)
        self._count(row)

    def leave(self, number: int, sojourn_s: float) -> SentRow | None:
        """A row is done, and with it all before it. None if it has left already."""
        while self.rows and self.rows[0].number <= number:
            row = self.rows.popleft()
            if row.number == number:
                self._after(row, row.sent_s + sojourn_s)
                return row
        return None

    def forget_oldest(self) -> None:
        """Take the oldest row as done when it was expected."""
        row = self.rows.popleft()
        self._after(row, row.work_s + max(self._offset_s, row.sent_s - (row.work_s - row.takes_s)))

    def recount(self, takes_s: float) -> None:
        """Rows sent before anything was known, which are the oldest, are expected to take so long."""
        self._work_s, self._offset_s = 0.0, self.done_s
        self._leads.clear()
        for row in self.rows:
            if row.expected_s is None:
                row.takes_s = takes_s
            self._count(row)

    def _count(self, row: SentRow) -> None:
        lead_s = row.sent_s - self._work_s
        while self._leads and self._leads[-1][1] <= lead_s:
            self._leads.pop()
        self._leads.append((row.number, lead_s))
        self._work_s += row.takes_s
        row.work_s = self._work_s

    def _after(self, row: SentRow, done_s: float) -> None:
        self.done_s = done_s
        self._offset_s = done_s - row.work_s
        while self._leads and self._leads[0][0] <= row.number:
            self._leads.popleft()
