"""The reports of the last batches in memory: a bounded number, none too old, few with their costs."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.store.retention import AGE_S, BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.messages.report import Report

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
        """Start empty."""
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
