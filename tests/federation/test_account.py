"""The account over several sites: it balances when each row that was sent was read once, and tells when not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.errors import PenstockError
from penstock.federation.account import (
    ACCOUNT,
    AccountLog,
    BatchAccount,
    add_up,
    site_report,
)
from penstock.federation.parcel import Parcel
from penstock.messages.report import BoxStatistics, PlaceRows, added

if TYPE_CHECKING:
    from pathlib import Path


def key(batch: int, part: int = 0, parts: int = 1, epoch: int = 1) -> str:
    return Parcel("west", "part", epoch, batch, part, parts, 0, 0.0).key


class Ledger:
    """What a site writes down."""

    def __init__(self, folder: Path, site: str) -> None:
        self.folder, self.site = folder / site, site
        self.last: dict[int, BatchAccount] = {}

    def batch(self, number: int, inputs: dict[str, PlaceRows], *, sent: tuple[int, ...] = (), epoch: int = 1) -> None:
        last = self.last.get(epoch)
        name = "part" if sent else "root"
        fragments = {name: BoxStatistics(1, sum(sent) or 1, 0.1, "avg", 0.1, sent)}
        report = site_report(number, 0.0, 1.0, inputs, fragments)
        entry = BatchAccount(self.site, epoch, report, added(report, *([last.total] if last else [])))
        self.last[epoch] = entry
        assert AccountLog(self.folder / ACCOUNT / f"{epoch:018d}").add(number, entry)


@pytest.fixture
def west(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path, "west")
    for number, sent in enumerate([(10,), (4, 3), (5,)]):
        ledger.batch(number, {"part.cpu": PlaceRows(100, 60)}, sent=sent)
    return ledger


def reader(folder: Path, rows: int, mark: str) -> Path:
    north = Ledger(folder, "north")
    north.batch(0, {"root.part": PlaceRows(rows, rows, sender="west.part", mark=mark)})
    return north.folder


@pytest.mark.parametrize(
    ("rows", "mark", "under_way"),
    [(0, "", 22), (10, key(0), 12), (14, key(1, 0, 2), 8), (17, key(1, 1, 2), 5), (22, key(2), 0)],
)
def test_what_was_read_is_what_was_sent_up_to_the_part_that_was_read_last(
    tmp_path: Path, west: Ledger, rows: int, mark: str, under_way: int
) -> None:
    found = add_up([west.folder, reader(tmp_path, rows, mark)])

    assert found.faults == []
    link = found.links["west.part -> north.root.part"]
    assert (link.sent, link.read, link.under_way, link.lost) == (22, rows, under_way, 0)
    assert found.inputs["west.part.cpu"] == PlaceRows(300, 180)
    assert found.results == {"avg": 1}


@pytest.mark.parametrize(("rows", "lost"), [(16, 1), (18, -1)])
def test_rows_that_are_lost_or_doubled_on_a_link_are_told(tmp_path: Path, west: Ledger, rows: int, lost: int) -> None:
    found = add_up([west.folder, reader(tmp_path, rows, key(1, 1, 2))])

    assert found.links["west.part -> north.root.part"].lost == lost
    assert found.faults == [
        f"north.root.part: of 17 rows that west.part had sent up to the part that was read last, {rows} came"
    ]
    assert found.to_json()["balances"] is False


def test_epochs_add_up(tmp_path: Path, west: Ledger) -> None:
    west.batch(0, {"part.cpu": PlaceRows(10, 10)}, sent=(6,), epoch=2)
    north = Ledger(tmp_path, "north")
    north.batch(0, {"root.part": PlaceRows(20, 20, sender="west.part", mark=key(2))})
    north.batch(0, {"root.part": PlaceRows(8, 8, sender="west.part", mark=key(0, epoch=2))}, epoch=2)

    found = add_up([west.folder, north.folder])
    assert found.faults == []
    assert found.links["west.part -> north.root.part"].read == 28


def test_a_sender_whose_account_is_not_there_is_told(tmp_path: Path, west: Ledger) -> None:
    folder = reader(tmp_path, 10, key(0))
    assert add_up([folder]).faults == [
        "north.root.part: the account of west, which sends it rows, is not among the folders"
    ]
    unknown = Ledger(tmp_path / "other", "north")
    unknown.batch(0, {"root.part": PlaceRows(10, 10, sender="west.part", mark=key(9))})
    assert "of which its sender has no account" in add_up([west.folder, unknown.folder]).faults[0]


def test_an_account_that_does_not_balance_cannot_be_written() -> None:
    report = site_report(0, 0.0, 1.0, {"a": PlaceRows(3, 1)})
    with pytest.raises(PenstockError, match=r"^rows_in = 4 is not usable: give rows_kept \+ rows_shed, 1 \+ 2$"):
        replace(report, rows_in=4)


def test_a_folder_without_a_site_is_told(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"^--account = .* give the folder of a site that has run a batch$"):
        add_up([tmp_path])
