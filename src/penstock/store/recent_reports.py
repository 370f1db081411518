"""Reports in memory: those of the last batches, and the sums of all since a guard began to watch."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.messages.report import Report
from penstock.store.retention import AGE_S, BATCHES

#: The newest reports that have their costs by class of keys. These are most of a report's bytes.
WITH_COSTS = 10


class Recent:
    """Reports, oldest first.

    >>> from penstock.messages.report import Report
    >>> recent = Recent()
    >>> for number in range(2_000):
    ...     recent.append(Report(sequence=number, start_s=number, end_s=number + 1, rows_in=1, rows_kept=1))
    >>> len(recent), recent[-1].sequence
    (1000, 1999)
    """

    def __init__(self) -> None:
        self._reports: deque[Report] = deque(maxlen=BATCHES)

    def append(self, report: Report) -> None:
        """Add the newest report."""
        self._reports.append(report)
        while self._reports[0].end_s < report.end_s - AGE_S:
            self._reports.popleft()
        if len(self._reports) > WITH_COSTS and self._reports[-1 - WITH_COSTS].cost_sketch is not None:
            self._reports[-1 - WITH_COSTS] = replace(self._reports[-1 - WITH_COSTS], cost_sketch=None)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._reports)

    def __iter__(self) -> Iterator[Report]:
        """Oldest first."""
        return iter(list(self._reports))

    def __getitem__(self, at: int) -> Report:
        """The report at a place; -1 is the newest."""
        return self._reports[at]


@dataclass
class Totals:
    """Sums over Reports, for counters that only rise."""

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
