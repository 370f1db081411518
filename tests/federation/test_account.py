"""The account over several sites: it balances when each row that was sent was read once, and tells when not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import xxhash

from penstock.errors import PenstockError
from penstock.federation.account import (
    ACCOUNT,
    AccountLog,
    BatchAccount,
    add_up,
    site_report,
)
from penstock.federation.parcel import Parcel
from penstock.messages.plan import QueryShare
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


def test_accounts_of_a_release_before_reports_can_be_read_and_added_to(tmp_path: Path) -> None:
    """As they were written: a sender's two batches, and a reader's one."""
    fragment = {"part_rows": [], "query": "avg", "rows_out": 10, "seconds": 0.5, "sic": 0.25}
    source = {"kept": 60, "link": "", "mark": "", "rows_in": 100, "shed": 40}
    twice = {"kept": 120, "rows_in": 200, "shed": 80}
    for number, rows in enumerate(([6, 4], [10])):
        of_epoch = {"rows_out": 10 * (number + 1)}
        text = earlier(
            "west",
            number,
            inputs={"part.cpu": source},
            fragments={"part": fragment | {"part_rows": rows}},
            total_inputs={"part.cpu": source | (twice if number else {})},
            total_fragments={"part": fragment | of_epoch},
        )
        put(tmp_path / "west", number, text)
    link = {"kept": 6, "link": "west.part", "mark": key(0, 0, 2), "rows_in": 6, "shed": 0}
    root = {"root": fragment | {"rows_out": 1}}
    text = earlier(
        "north", 0, inputs={"root.part": link}, fragments=root, total_inputs={"root.part": link}, total_fragments=root
    )
    put(tmp_path / "north", 0, text)

    found = add_up([tmp_path / "west", tmp_path / "north"])
    assert found.faults == []
    assert found.inputs["west.part.cpu"] == PlaceRows(200, 120)
    counts = found.links["west.part -> north.root.part"]
    assert (counts.sent, counts.read, counts.under_way, counts.lost) == (20, 6, 14, 0)
    assert found.results == {"avg": 1}

    last = AccountLog(tmp_path / "west" / ACCOUNT / f"{1:018d}").latest()
    assert last is not None
    assert (last.batch, last.time_s, last.report.elapsed_s, last.report.shed_total) == (1, 100.0, 2.0, 40)
    assert (dict(last.report.sic), last.queries) == ({"avg": 0.7}, (QueryShare("avg", 0.6, 0.65),))
    assert last.report.boxes["part"].parts == (10,)
    again = Ledger(tmp_path, "west")
    again.last[1] = last
    again.batch(2, {"part.cpu": PlaceRows(10, 10)}, sent=(3,))
    assert again.last[1].total.boxes["part"].rows_out == 23
    assert again.last[1].total.sources["part.cpu"] == PlaceRows(210, 130)


def earlier(site: str, number: int, **counts: object) -> str:
    """An account in the JSON of earlier releases."""
    shares = {"give": {"avg": 0.6}, "sic": {"avg": 0.7}, "levels": {"avg": 0.65}}
    head = {"format": 1, "site": site, "epoch": 1, "batch": number, "time_s": 100.0, "elapsed_s": 2.0}
    return json.dumps(head | counts | shares, sort_keys=True, separators=(",", ":"))


def put(folder: Path, number: int, text: str) -> None:
    """Write an entry of a log: its checksum and its text."""
    path = folder / ACCOUNT / f"{1:018d}" / f"{number:020d}.account"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{xxhash.xxh64_hexdigest(text.encode())}\n{text}\n")


def test_a_folder_without_a_site_is_told(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"^--account = .* give the folder of a site that has run a batch$"):
        add_up([tmp_path])
