"""The sums of a query's Reports since its guard began to watch."""

from collections import Counter
from dataclasses import dataclass, field

from penstock.messages.report import Report


@dataclass
class Totals:
    """Sums over Reports, for counters that only rise.

    >>> totals = Totals()
    >>> for number in range(3):
    ...     totals.add(
    ...         Report(sequence=number, start_s=0, end_s=1, rows_in=10, rows_kept=8, rows_shed={"over capacity": 2})
    ...     )
    >>> totals.batches, totals.rows_in, totals.rows_kept, dict(totals.rows_shed)
    (3, 30, 24, {'over capacity': 6})
    """

    batches: int = 0
    rows_in: int = 0
    rows_kept: int = 0
    rows_must_keep: int = 0
    rows_shed: Counter[str] = field(default_factory=Counter)  #: by reason
    rows_would_shed: Counter[str] = field(default_factory=Counter)  #: by reason, in a dry run
    queued_rows: int = 0  #: rows whose queuing latency was measured
    queued_s: float = 0.0  #: their latency, summed
    busy_s: float = 0.0
    control_s: float = 0.0
    batches_missing: int = 0  #: batches without a report, which the sums omit
    rows_missing: int = 0  #: their rows by Spark's count, if known
    rows_unread: int = 0  #: rows that the gate counted beyond those that Spark has read

    def add(self, report: Report) -> None:
        """Add one Report."""
        self.batches += 1
        self.rows_in += report.rows_in
        self.rows_kept += report.rows_kept
        self.rows_must_keep += report.rows_must_keep
        self.rows_shed.update(report.rows_shed)
        self.rows_would_shed.update(report.rows_would_shed)
        if report.queuing is not None:
            self.queued_rows += report.queuing.rows
            self.queued_s += report.queuing.rows * report.queuing.mean_s
        self.busy_s += report.busy_s
        self.control_s += report.control_s
