"""Sites without Spark: what goes between them is taken once, held against the site's own file, refused and counted."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from penstock.config.site_file import Link, load
from penstock.errors import PenstockError
from penstock.federation.bus import MOST_BYTES, BusError, Delivery, FolderBus
from penstock.federation.exchange import NEWS_BYTES, Exchange, Inbox, Outbox
from penstock.federation.parcel import Parcel, opened, written
from penstock.messages.report import Known
from penstock.messages.site_news import News
from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = """\
site: {site}
sites: [west, north, east]
transport: {{folder: bus}}
queries:
  avg: {{sources: 2}}
fragments:
{fragments}
"""
SENDER = """\
  part:
    query: avg
    inputs: {cpu: {format: rate}}
    sql: SELECT 1 AS a FROM cpu
"""
READER = """\
  root:
    query: avg
    inputs:
      cpu: {format: rate}
      part: {from: part, site: west, schema: 'a bigint'}
    sql: SELECT 1 FROM cpu
    to: {format: memory}
"""
ROWS = ['{"a":1}', '{"a":2}']
#: What `str.splitlines` takes for ends of lines.
LINE_ENDS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Sites:
    """Two sites that share a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()
        for site, fragments in (("west", SENDER), ("north", READER)):
            (folder / f"{site}.yaml").write_text(FILE.format(site=site, fragments=fragments))
        self.west, self.north = self.site("west"), self.site("north")

    def site(self, name: str, *, epoch: int = 1, start: int = 0) -> Exchange:
        file = load(self.folder / f"{name}.yaml")
        bus = FolderBus(self.folder / "bus")
        return Exchange(file, bus, self.folder / name, {"avg": 0.5}, epoch=epoch, start=start, clock=self.clock)

    def forge(self, channel: str, payload: bytes) -> None:
        FolderBus(self.folder / "bus").tell(channel, payload)

    @property
    def inbox(self) -> list[str]:
        """What Spark would read at north."""
        folder = self.folder / "north" / "inbox" / "west" / "part"
        files = [path.read_bytes().decode() for path in sorted(folder.glob("*.json"))]
        return [line for text in files for line in text.removesuffix("\n").split("\n")]


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path)


def news(**given: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "site": "west",
        "query": "avg",
        "give": 0.4,
        "part": 0.5,
        "sic": None,
        "epoch": 1,
        "sequence": 1,
        "time_s": 0.0,
    }
    return fields | given


def test_texts_with_characters_that_some_take_for_line_ends_come_as_they_were(sites: Sites) -> None:
    texts = [f"a{end}b" for end in LINE_ENDS]
    rows = [json.dumps({"a": text}, ensure_ascii=False) for text in texts]
    sites.west.outboxes["part"].put(0, rows, 0.5)
    sites.west.round()
    sites.north.round()
    assert [json.loads(line)["row"]["a"] for line in sites.inbox] == texts


def test_rows_come_with_their_sic_and_only_once(sites: Sites) -> None:
    assert sites.west.outboxes["part"].put(0, ROWS, 0.5) == [2]
    sites.west.round()
    sites.north.round()
    assert sites.inbox == ['{"penstock_sic":0.25,"row":{"a":1}}', '{"penstock_sic":0.25,"row":{"a":2}}']

    # The batch is run again after a crash, though it was sent; and read again by a site that has lost its place.
    sites.west.outboxes["part"].put(0, ROWS, 0.5)
    sites.west.round()
    (sites.folder / "north" / "inbox" / "west" / "part" / ".position").unlink()
    again = sites.site("north")
    again.round()
    assert len(sites.inbox) == 2
    assert again.counts["rows ignored: doubled"] == 2


def test_what_spark_has_read_may_go_and_does_not_come_back(sites: Sites) -> None:
    for batch in range(3):
        sites.west.outboxes["part"].put(batch, ROWS, 0.5)
    sites.west.round()
    sites.north.round()
    inbox = sites.north.inboxes[Link("west", "part")]
    inbox.forget(inbox.mark)
    assert sites.inbox == []

    assert Inbox(inbox.folder).mark == inbox.mark
    sites.west.outboxes["part"].put(2, ROWS, 0.5)
    sites.west.round()
    sites.north.round()
    assert sites.inbox == []


def test_a_part_that_cannot_be_stored_is_read_again(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(3):
        sites.west.outboxes["part"].put(batch, ROWS, 0.5)
    sites.west.round()
    replace = FolderStore.replace

    def full(store: FolderStore, name: str, content: bytes, *, durable: bool = False) -> None:
        if "inbox" in store.where:
            raise StoreError("the system says: No space left on device")
        replace(store, name, content, durable=durable)

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "replace", full)
        with pytest.raises(StoreError, match="cannot be written: the system says: No space left on device"):
            sites.north.round()
    sites.north.round()
    assert len(sites.inbox) == 6


def test_a_batch_that_lies_in_the_outbox_is_not_replaced(sites: Sites) -> None:
    outbox = sites.west.outboxes["part"]
    outbox.put(0, ROWS, 0.5)
    assert outbox.put(0, ['{"a":9}'], 0.1) == [2]
    assert len(outbox.waiting()) == 1


def test_a_new_epoch_is_newer_than_any_batch_before(sites: Sites) -> None:
    sites.west.outboxes["part"].put(500, ROWS, 0.5)
    sites.west.round()
    reset = sites.site("west", epoch=2)
    reset.outboxes["part"].put(0, ROWS, 0.5)
    reset.round()
    sites.north.round()
    assert len(sites.inbox) == 4


def test_a_batch_without_rows_brings_its_sic(sites: Sites) -> None:
    sites.west.outboxes["part"].put(0, [], 0.5)
    sites.west.round()
    sites.north.round()
    assert sites.inbox == ['{"penstock_sic":0.5}']


def test_a_large_batch_goes_in_parts_and_a_part_that_is_doubled_is_ignored(tmp_path: Path) -> None:
    rows = [json.dumps({"a": "x" * 1000, "n": n}) for n in range(2000)]
    outbox = Outbox(tmp_path / "out", "west", "part", 1)
    assert sum(outbox.put(7, rows, 0.5)) == 2000
    messages = outbox.messages(outbox.waiting()[0])
    assert len(messages) == 3
    assert all(len(message) <= MOST_BYTES for message in messages)

    inbox = Inbox(tmp_path / "in")
    parcels = [opened(message, "west", "part") for message in messages]
    assert sum(parcel.sic for parcel, _ in parcels) == pytest.approx(0.5)
    taken = [inbox.take(*parcels[n]) for n in (0, 0, 1, 0, 1, 2, 2, 0)]
    assert taken == [True, False, True, False, False, True, False, False]
    # The same batch, run again and cut in other parts: nothing comes after its last part.
    assert not inbox.take(Parcel("west", "part", 1, 7, 3, 5, 1, 0.1), ROWS[:1])
    assert inbox.take(Parcel("west", "part", 1, 8, 0, 1, 2, 0.1), ROWS)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        written(Parcel("east", "part", 1, 1, 0, 1, 2, 0.1), ROWS),
        written(Parcel("west", "other", 1, 1, 0, 1, 2, 0.1), ROWS),
        written(Parcel("west", "part", 1, 1, 0, 1, 3, 0.1), ROWS),
        written(Parcel("west", "part", 1, 1, 0, 1, 2, 0.1), ['{"a":1}', "[]"]),
        written(Parcel("west", "part", 1, 1, 0, 1, 2, 0.1), ['{"a":1}', "}{"]),
        written(Parcel("west", "part", 1, 1, 0, 1, 2, 0.1), ROWS).replace(b'"sic":0.1', b'"sic":1.1'),
        written(Parcel("west", "part", 1, 1, 0, 1, 2, 0.1), ROWS).replace(b'"sic":0.1', b'"sic":NaN'),
        written(Parcel("west", "part", 1, 1, 0, 1, 2, 0.1), ROWS).replace(b'"part":0', b'"part":-1'),
        written(Parcel("west", "part", 1, 1, 0, 1, 2, 0.1), ROWS).replace(b'"batch":1', b'"batch":1' + b"0" * 18),
        written(Parcel("west", "part", 1, 1, 0, 1, 1, 0.1), ["[" * 100_000]),
        written(Parcel("west", "part", 1, 1, 0, 1, 1, 0.1), ['{"a":[\r{"penstock_sic":1.0,"row":{"a":9}}\r]}']),
        written(Parcel("west", "part", 1, 1, 0, 1, 1, 0.1), ['{"a":1}\r']),
        b"x" * (MOST_BYTES + 1),
    ],
)
def test_rows_that_are_not_what_they_should_be_are_refused(sites: Sites, payload: bytes) -> None:
    sites.forge("rows.west.part", payload)
    sites.west.outboxes["part"].put(5, ROWS, 0.5)
    sites.west.round()
    sites.north.round()

    assert sites.north.counts["rows refused"] == 1
    assert len(sites.inbox) == 2


def test_news_are_heard_by_those_who_share_the_query(sites: Sites) -> None:
    sites.north.round()
    sites.west.updates.say({"avg": 0.4}, {"avg": 0.3})
    sites.west.round()
    sites.north.round()

    assert sites.north.updates.known() == {"avg": Known(0.5, 0.2, sites=1)}
    assert sites.north.updates.measured() == {"avg": 0.3}
    channel = sites.folder / "bus" / "news.west"
    assert max(len(path.read_bytes()) for path in channel.glob("*.message")) < 200

    sites.clock.now_s += 20.0
    assert sites.north.updates.known() == {"avg": Known(0.0, 0.0)}, "old news are not believed for ever"


def test_news_are_told_again_each_interval_and_are_newer_each_time_and_after_each_start(sites: Sites) -> None:
    sites.north.round()
    sites.west.updates.say({"avg": 0.4}, {})
    for _ in range(3):
        sites.west.round()
        sites.clock.now_s += 2.0
    restarted = sites.site("west", start=1)
    restarted.updates.say({"avg": 0.7}, {})
    restarted.round()
    sites.north.round()

    assert sites.north.counts["news taken"] == 4
    assert sites.north.updates.known()["avg"].sic == pytest.approx(0.35)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (news(query="other"), "news refused: unknown query"),
        (news(site="south"), "news refused"),
        (news(site="east"), "news refused"),
        (news(give=1.5), "news refused"),
        (news(sic=1.01), "news refused"),
        (news(sic=-0.5), "news refused"),
        (news(part=0.75), "news refused"),
        (news(sequence="1"), "news refused"),
        (news(sequence=2**70), "news refused"),
        (news(query="../../etc/passwd"), "news refused: unknown query"),
        (news(query="x" * NEWS_BYTES), "news refused"),
        (news(more=1), "news refused"),
    ],
)
def test_news_that_are_not_what_they_should_be_are_refused(
    sites: Sites, given: Mapping[str, object], count: str
) -> None:
    sites.north.round()
    sites.forge("news.west", json.dumps({"format": 1, **given}).encode())
    sites.north.round()

    assert sites.north.counts[count] == 1
    assert sites.north.updates.known() == {"avg": Known(0.0, 0.0)}


def test_while_the_transport_is_away_rows_wait_and_are_sent_when_it_is_back(sites: Sites) -> None:
    class Away:
        up = False

        def __init__(self, bus: FolderBus) -> None:
            self._bus = bus

        def __getattr__(self, name: str) -> object:
            if not self.up:
                raise BusError("away")
            return getattr(self._bus, name)

    file = load(sites.folder / "west.yaml")
    away = Away(FolderBus(sites.folder / "bus"))
    west = Exchange(file, away, sites.folder / "west", {"avg": 0.5}, clock=sites.clock)  # type: ignore[arg-type]
    for batch in range(3):
        west.outboxes["part"].put(batch, ROWS, 0.1)
        with pytest.raises(BusError):
            west.round()
    away.up = True
    west.round()
    sites.north.round()
    assert len(sites.inbox) == 6


def test_the_thread_survives_what_the_transport_does(sites: Sites) -> None:
    (sites.folder / "bus").touch()  # a file, where a folder should be
    sites.west.outboxes["part"].put(0, ROWS, 0.1)
    sites.west.start()
    try:
        while not sites.west.counts["transport errors"]:
            pass
        (sites.folder / "bus").unlink()
        while sites.west.outboxes["part"].waiting():
            pass
    finally:
        sites.west.stop()
    sites.north.round()
    assert len(sites.inbox) == 2


def test_a_folder_holds_messages_in_order_and_ignores_all_else(tmp_path: Path) -> None:
    bus, other = FolderBus(tmp_path), FolderBus(tmp_path)
    other.listen({"c": 0, "late": None})
    bus.send("c", b"1")
    FolderBus(tmp_path).send("c", b"2")  # a second writer, who knows no better
    bus.send("c", b"3")
    (tmp_path / "c" / "notes.txt").write_text("hello")
    (tmp_path / "c" / f"{10**18:020d}.message").symlink_to("/etc/passwd")
    (tmp_path / "c" / f"{10**18 + 1:020d}.message").write_bytes(b"x" * (MOST_BYTES + 1))

    found = other.poll(0.0)
    assert [one.payload for one in found] == [b"1", b"2", b"3", None, None]
    assert [one.position - found[0].position for one in found[:3]] == [0, 1, 2]
    assert found[-1] == Delivery("c", 10**18 + 2, None)
    assert other.poll(0.0) == []


def test_a_channel_that_was_deleted_is_read_anew(sites: Sites) -> None:
    for batch in range(3):
        sites.west.outboxes["part"].put(batch, ROWS, 0.1)
    sites.west.round()
    sites.north.round()
    shutil.rmtree(sites.folder / "bus")

    west = sites.site("west")
    for batch in range(3, 8):
        west.outboxes["part"].put(batch, ROWS, 0.1)
    west.round()
    sites.site("north").round()
    assert len(sites.inbox) == 8 * len(ROWS)


def test_a_batch_that_cannot_be_read_is_set_aside_and_the_site_goes_on(sites: Sites) -> None:
    (sites.folder / "west" / "outbox" / "part" / "torn.parcel").write_bytes(b"{")
    sites.west.outboxes["part"].put(0, ROWS, 0.1)
    sites.west.round()
    sites.north.round()
    assert len(sites.inbox) == len(ROWS)
    assert sites.west.counts["batches set aside"] == 1
    assert (sites.folder / "west" / "outbox" / "part" / "torn.unreadable").exists()


def test_an_epoch_that_is_far_ahead_is_refused(sites: Sites) -> None:
    parcel = Parcel("west", "part", int(time.time()) + 2 * 86_400, 0, 0, 1, 2, 0.1)
    sites.forge("rows.west.part", written(parcel, ROWS))
    sites.north.round()
    assert sites.north.counts["rows refused"] == 1
    assert sites.inbox == []


def test_a_row_too_long_for_a_message_is_told(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "west", "part", 1)
    with pytest.raises(
        PenstockError, match=r"^fragments.part: a row of .* bytes is too long for a link.*shorter rows$"
    ):
        outbox.put(0, ["x" * MOST_BYTES], 0.1)
    assert outbox.waiting() == []


def test_a_message_of_news_is_a_few_tens_of_bytes_a_field() -> None:
    one = News("a-site-with-a-name", "a-query", 0.123456, 0.333333, 0.1, 1_800_000_000, 2**40, 1.8e9)
    assert len(one.to_json()) < NEWS_BYTES / 2


def test_a_channel_is_not_listed_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, reader = FolderBus(tmp_path), FolderBus(tmp_path)
    reader.listen({"c": 0})
    listed: list[str] = []
    numbers = FolderBus._numbers  # noqa: SLF001 - what takes long in a long channel

    def counted(self: FolderBus, channel: str) -> list[int]:
        listed.append(channel)
        return numbers(self, channel)

    for number in range(60):
        sender.send("c", f"{number}".encode())
        monkeypatch.setattr(FolderBus, "_numbers", counted)
        assert [one.payload for one in reader.poll(0.0)] == [f"{number}".encode()]
        assert reader.poll(0.0) == []
        monkeypatch.setattr(FolderBus, "_numbers", numbers)
    assert len(listed) == 1
    late = FolderBus(tmp_path)
    late.listen({"c": 1})  # long away: the messages that it would read next are gone
    assert [one.payload for one in late.poll(0.0)] == [f"{number}".encode() for number in range(60)]
