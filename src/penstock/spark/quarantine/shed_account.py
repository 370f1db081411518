"""Compares the number of shed rows with those in quarantine, batch by batch."""

import logging
from collections.abc import Callable
from pathlib import Path

from penstock.messages.report import Report
from penstock.spark.quarantine import forwarded
from penstock.spark.quarantine.rows import file_names

_logger = logging.getLogger("penstock")

#: How long an alarm about an account lasts after the last counted batch.
ALARM_S = 3600.0


class ShedAccount:
    """Compares each report with the quarantine, and passes it on."""

    def __init__(self, folder: Path | None, query: str, on_report: Callable[[Report], None]) -> None:
        """For a query whose shed rows are written to this folder; None without a quarantine."""
        self._folder, self._query, self._on_report = folder, query, on_report
        self._found_s = 0.0  # end of the batch in the alarm
        self.alarm: str | None = None

    def __call__(self, report: Report) -> None:
        """Process a report."""
        try:
            if self._folder is not None:
                self._compare(self._folder, report)
        finally:
            self._on_report(report)

    def rows(self, batch: int) -> int | None:
        """How many rows of a batch are in quarantine; None if there is no quarantine, or a file cannot be read."""
        return None if self._folder is None else rows_in_quarantine(self._folder, self._query, batch)

    def _compare(self, folder: Path, report: Report) -> None:
        counted, found = sum(report.rows_shed.values()), self.rows(report.sequence)
        if found is not None and found != counted:
            first, self._found_s = self.alarm is None, report.end_s
            self.alarm = (
                f"the gate counted {counted} shed rows in batch {report.sequence} of query {self._query}, and {found} "
                f"are in quarantine {folder}: rows may be lost or in both places if the source, or a function in front "
                "of the gate, returns other rows at the second read"
            )
            if first:
                _logger.warning("%s", self.alarm)
        elif report.end_s - self._found_s > ALARM_S:
            self.alarm = None


def rows_in_quarantine(folder: Path, query: str, batch: int) -> int | None:
    """How many rows of a batch there are; None if a file cannot be read."""
    import pyarrow as pa  # noqa: PLC0415 - only with a quarantine
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = 0
    for name in file_names(query, batch):
        for _ in range(2):  # Spark may archive a file in between.
            path = forwarded.found(folder, name)
            try:
                rows += 0 if path is None else pq.read_metadata(path).num_rows
            except FileNotFoundError:
                continue
            except (OSError, pa.ArrowException):
                return None
            break
    return rows
