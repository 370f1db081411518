"""Journals: what is appended is read, once and in order, whatever happens to the file in between."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from penstock.messages.report import Report
from penstock.store.folder import FolderStore
from penstock.store.journal import Journal, Tail, at
from penstock.store.memory import MemoryStore
from penstock.store.report_log import Alarms, End, ReportLog, Watch, line_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "a.journal"


def test_a_tail_reads_each_line_once(path: Path) -> None:
    journal, tail = Journal(*at(path)), Tail(*at(path))
    assert tail.news() == []
    journal.append("one")
    journal.append("two\nlines")
    assert tail.news() == ["one", "two lines"]
    assert tail.news() == []
    journal.append("three")
    assert tail.news() == ["three"]
    assert Tail(*at(path)).news() == ["one", "two lines", "three"]


@pytest.mark.parametrize("end", ["\r", "\r\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_a_line_feed_ends_a_line(path: Path, end: str) -> None:
    journal, tail = Journal(*at(path)), Tail(*at(path))
    for line in (f"report {end}end {{}}", f"{end}", f"x{end}"):
        journal.append(line)
        assert tail.news() == [line]


def test_a_line_that_is_half_written_is_not_there_yet(path: Path) -> None:
    journal, tail = Journal(*at(path)), Tail(*at(path))
    journal.append("one")
    with path.open("ab") as file:
        file.write(b"tw")
    assert tail.news() == ["one"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert tail.news() == ["two"]


def test_what_a_dead_writer_left_half_done_spoils_no_other_line(path: Path) -> None:
    Journal(*at(path)).append("one")
    with path.open("ab") as file:
        file.write(b"report {tor")
    Journal(*at(path)).append("two")
    assert Tail(*at(path)).news() == ["one", "report {tor", "two"]


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_full_journal_is_put_aside_and_nothing_is_missed(path: Path, kind: str) -> None:
    store = FolderStore(path.parent, make=False) if kind == "folder" else MemoryStore()
    journal = Journal(store, path.name, most_bytes=40)
    tail, found = journal.tail(), []
    for number in range(30):
        journal.append(f"line {number:04d}")
        if number % 3 == 0:
            found += tail.news()
    assert found + tail.news() == [f"line {number:04d}" for number in range(30)]
    assert tail.restarts == 0
    for name in (path.name, f"{path.name}.old"):
        assert len(store.read(name) or b"") <= 50


def test_one_who_comes_late_reads_the_file_put_aside_first(path: Path) -> None:
    journal = Journal(*at(path), most_bytes=40)
    for number in range(6):
        journal.append(f"line {number:04d}")
    assert Tail(*at(path)).news() == [f"line {number:04d}" for number in range(6)]


def test_another_file_of_the_same_name_is_another_journal(path: Path) -> None:
    tail = Tail(*at(path))
    Journal(*at(path)).append("old")
    assert tail.news() == ["old"]
    path.rename(path.with_name("keeps the number of the old file from being given again"))
    assert tail.news() == []
    Journal(*at(path)).append("new")
    assert tail.news() == ["new"]
    assert tail.restarts == 1


def test_a_file_cut_short_is_another_journal(path: Path) -> None:
    journal, tail = Journal(*at(path)), Tail(*at(path))
    journal.append("a long line that is gone")
    tail.news()
    path.write_text("x\n")
    assert tail.news() == ["x"]
    assert tail.restarts == 1


def test_what_cannot_be_written_is_counted_told_once_and_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    journal = Journal(*at(tmp_path / "file" / "a.journal"))
    with caplog.at_level(logging.WARNING):
        assert [journal.append("one"), journal.append("two")] == [False, False]
    assert journal.lost == 2
    assert len(caplog.records) == 1


def test_every_kind_of_line_comes_back_as_it_was(tmp_path: Path) -> None:
    written = [
        Watch(guard="g", query="q", began_s=1.0, mode="enforce", target_s=2.0, key=("k",), key_types=("int",)),
        Report(sequence=0, start_s=0, end_s=1, rows_in=3, rows_kept=1, rows_shed={"a\nreason": 2}, cost_sketch=b"\0\n"),
        Alarms(2.0, ("an alarm",), 3),
        End(3.0, "over"),
    ]
    log = ReportLog(tmp_path, "q")
    for one in written:
        log.write(one)
    assert [line_of(text) for text in log.journal.tail().news()] == written


def test_costs_are_written_every_few_seconds(tmp_path: Path) -> None:
    log = ReportLog(tmp_path, "q")
    for number in range(25):
        log.write(Report(sequence=number, start_s=number, end_s=number + 1, rows_in=1, rows_kept=1, cost_sketch=b"c"))
    found = [line_of(text) for text in log.journal.tail().news()]
    assert [one.sequence for one in found if one.cost_sketch] == [0, 10, 20]


@pytest.mark.parametrize("text", ["", "report", "report {}", "report {tor", "other {}", "watch []"])
def test_a_line_that_holds_no_message_is_none(text: str) -> None:
    assert line_of(text) is None


def test_reasons_and_names_come_back_whatever_characters_they_have(path: Path) -> None:
    odd = "a\nb\rc\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029d"
    written = [
        Watch(guard=odd, query="q", began_s=1.0, mode="enforce"),
        Report(sequence=0, start_s=0, end_s=1, rows_in=2, rows_kept=1, rows_shed={odd: 1}),
        Alarms(2.0, (odd,)),
    ]
    log = ReportLog(path.parent, "q")
    for message in written:
        log.write(message)
    assert [line_of(text) for text in log.journal.tail().news()] == written
