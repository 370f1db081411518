"""Alarms about the amount of shedding, for any policy and reason."""

from collections import deque

from penstock.core.control.gate import TOO_OLD
from penstock.messages.report import Report

#: A guard that keeps a smaller share of the rows of recent batches keeps almost no rows.
LITTLE = 0.05
#: The number of recent batches, and the minimum numbers of batches and rows.
RECENT, LEAST_BATCHES, LEAST_ROWS = 5, 3, 100
#: This many rows are enough in fewer batches too, because a job may end after its first.
MANY_ROWS = 1_000


class ShedAlarms:
    """Checks the account of recent batches.

    >>> alarms = ShedAlarms()
    >>> batch = Report(sequence=0, start_s=0, end_s=1, rows_in=100, rows_kept=2, rows_shed={"over capacity": 98})
    >>> [len(alarms.after(batch)) for _ in range(3)]
    [0, 0, 1]
    >>> one = Report(sequence=0, start_s=0, end_s=1, rows_in=2000, rows_kept=2, rows_shed={"over capacity": 1998})
    >>> len(ShedAlarms().after(one))
    1
    """

    def __init__(self) -> None:
        self._recent = deque[tuple[int, int]](maxlen=RECENT)

    def after(self, report: Report) -> list[str]:
        """What needs an operator after this batch, one line each."""
        would_shed = sum(report.rows_would_shed.values())
        self._recent.append((report.rows_in, report.rows_kept - would_shed))
        found = []
        if old := report.rows_shed.get(TOO_OLD, 0) + report.rows_would_shed.get(TOO_OLD, 0):
            found.append(
                f"{old} of {report.rows_in} rows of batch {report.sequence} were {TOO_OLD} and "
                f"{'would have been' if would_shed else 'were'} shed, as backlog='thin' says; 'keep' keeps them"
            )
        rows_in, kept = (sum(column) for column in zip(*self._recent, strict=True))
        # The alarm above covers old ones.
        enough = len(self._recent) >= LEAST_BATCHES or (rows_in >= MANY_ROWS and not old)
        if enough and rows_in >= LEAST_ROWS and kept < LITTLE * rows_in:
            found.append(
                f"almost no rows are kept: {kept} of the last {rows_in} rows; raise the target or add cores to keep "
                "more; mode='off' keeps every row"
            )
        return found
