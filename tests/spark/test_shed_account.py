"""Shed rows by the gate's count and by the quarantine's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.store.logs import BindingLog

pytest.importorskip("pyspark")
from penstock.spark.guard.batches import Account
from penstock.spark.guard.teller import Teller
from penstock.spark.quarantine.rows import file_names
from penstock.spark.quarantine.shed_account import ShedAccount

if TYPE_CHECKING:
    from pathlib import Path


def report(batch: int, shed: int, end_s: float = 1.0) -> ps.Report:
    reasons = {"over": shed} if shed else {}
    return ps.Report(sequence=batch, start_s=0.0, end_s=end_s, rows_in=100, rows_kept=100 - shed, rows_shed=reasons)


def put(folder: Path, batch: int, *rows: int) -> None:
    for name, count in zip(file_names("query", batch), rows, strict=False):
        pq.write_table(pa.table({"row": list(range(count))}), folder / name)


def test_counts_of_the_gate_and_of_the_quarantine_are_compared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []
    account = ShedAccount(tmp_path, "query", lambda one: heard.append(one.sequence))
    put(tmp_path, 0, 30, 10)
    account(report(0, 40))
    account(report(1, 0))
    assert (account.alarm, caplog.messages) == (None, [])

    put(tmp_path, 2, 7)
    account(report(2, 0))
    assert account.alarm is not None
    assert account.alarm.startswith("the gate counted 0 shed rows in batch 2 of query query, and 7 are in quarantine")
    account(report(3, 5))
    assert "counted 5 shed rows in batch 3 of query query, and 0 are" in account.alarm
    assert len(caplog.messages) == 1, "it is logged once"
    account(report(4, 0, end_s=3700.0))
    assert account.alarm is None
    assert heard == [0, 1, 2, 3, 4]


def test_shed_rows_of_a_batch_without_a_report_are_counted(tmp_path: Path) -> None:
    told: list[str] = []
    put(tmp_path, 6, 1000, 13)
    put(tmp_path, 7, 1)
    teller = Teller(None, lambda: 0.0)
    teller.tell = told.append  # type: ignore[method-assign]  # each line, however alike
    bindings, shed = BindingLog(tmp_path / "bindings"), ShedAccount(tmp_path, "query", lambda _: None)
    account = Account("query", bindings, teller, lambda: None, shed.rows)
    account.miss(6, 6, "a note")
    assert account.alarms == ["the account of query query lacks 1 batch: see the log for why"]
    account.miss(5, 7, "a note")
    account.miss(7, 8, "a note")
    account.miss(8, 9, "a note")
    sums = "no report, so totals omit these rows"
    assert told == [
        f"batch 6 of query query: {sums}, 1,013 shed rows in quarantine among them: a note",
        f"batches 5 to 7 of query query: {sums}, 1,014 shed rows in quarantine among them: a note",
        f"batches 7 to 8 of query query: {sums}, 1 shed row in quarantine among them: a note",
        f"batches 8 to 9 of query query: {sums}: a note",
    ]


def test_a_damaged_file_is_left_to_the_writer_and_without_a_quarantine_nothing_is_compared(tmp_path: Path) -> None:
    (tmp_path / file_names("query", 0)[0]).write_bytes(b"torn")
    for folder in (tmp_path, None):
        account = ShedAccount(folder, "query", lambda _: None)
        account(report(0, 5))
        assert account.alarm is None
