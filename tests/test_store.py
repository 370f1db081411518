"""Stores: what holds for each, and what a folder's file system must be able to do."""

import errno
import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore as Bucket

from penstock.errors import PenstockError
from penstock.federation.account import STARTS, StartLog
from penstock.federation.bus import BusError, FolderBus
from penstock.federation.exchange import Outbox
from penstock.messages.claim import Claim
from penstock.messages.report import Report
from penstock.spark.plans.claim import claim
from penstock.spark.quarantine.rows import Sign
from penstock.store import folder as folder_store
from penstock.store.bound_plans import BoundPlans, SitePlanLog
from penstock.store.folder import FolderStore
from penstock.store.interface import Store, StoreError
from penstock.store.memory import MemoryStore
from penstock.store.objects import ObjectStore

#: Each kind of store, empty.
STORES: dict[str, Callable[[Path], Store]] = {
    "folder": lambda folder: FolderStore(folder / "store"),
    "memory": lambda _: MemoryStore(),
    "objects": lambda _: ObjectStore("memory://bucket/deep/store", client=Bucket()),
    "objects of a whole bucket": lambda _: ObjectStore("memory://bucket", client=Bucket()),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


def test_the_first_one_to_create_a_name_wins(store: Store) -> None:
    assert (store.read("a"), store.has("a"), store.names()) == (None, False, [])
    assert store.create("b", b"1")
    assert store.create("a", b"2")
    assert not store.create("b", b"3")
    assert (store.read("b"), store.has("b"), store.names()) == (b"1", True, ["a", "b"])


def test_what_is_removed_can_be_created_anew(store: Store) -> None:
    store.create("a", b"1")
    store.remove("a")
    store.remove("a")
    assert (store.read("a"), store.names()) == (None, [])
    assert store.create("a", b"2")
    assert store.read("a") == b"2"


@pytest.mark.parametrize("durable", [False, True])
def test_replace_does_not_ask_what_was_there(store: Store, *, durable: bool) -> None:
    store.replace("a", b"1", durable=durable)
    store.replace("a", b"2", durable=durable)
    assert (store.read("a"), store.names()) == (b"2", ["a"])


def test_a_finished_file_is_adopted_once(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for content, won in ((b"1", True), (b"2", False)):
        finished = store.unfinished("a")
        finished.write_bytes(content)
        assert store.names() == ([] if won else ["a"])
        assert store.adopt(finished, "a") is won
        assert not finished.exists()
    assert store.read("a") == b"1"


def test_what_the_system_refuses_is_one_line(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    (tmp_path / "store" / "a").mkdir()
    told = rf"give a folder that can be read; the system says: {os.strerror(errno.EISDIR)}"
    with pytest.raises(StoreError, match=rf"^folder = '{tmp_path}/store' is not usable: {told}$"):
        store.read("a")
    gone = FolderStore(tmp_path / "none", make=False)
    for call in (lambda: gone.create("a", b""), lambda: gone.replace("a", b""), gone.names):
        with pytest.raises(
            StoreError, match=r"^folder = '.*/none' is not usable: give a folder .*; the system says: .*$"
        ):
            call()
    assert gone.read("a") is None
    assert not (tmp_path / "none").exists()


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


SIGN = Sign("g", "w", '{"fields": [], "type": "struct"}')
#: Everything that lets the first writer of a name decide, as it is opened in a folder.
OPENED: dict[str, Callable[[Path], object]] = {
    "guard": lambda folder: claim(folder, Claim("a")),
    "quarantine": SIGN.put,
    "network": lambda folder: BoundPlans.below(folder, {"inputs": "inputs"}, Releases()),
    "site": lambda folder: StartLog(folder / STARTS),
    "plans of a site": SitePlanLog,
    "outbox": lambda folder: Outbox(folder, "here", "f", 1),
    "transport": lambda folder: FolderBus(folder).send("a", b"1"),
}


class Releases:
    """A planner that never plans."""

    alarms = ()

    def decide(self, report: Report, now_s: float) -> None:
        """Nothing."""

    def release(self, version: int, now_s: float, note: str) -> None:
        """Nothing."""


@pytest.fixture
def no_lock_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount without hard links that grants every lock, in a new process."""
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(folder_store, "_probed", set())


@pytest.mark.parametrize("kind", OPENED)
def test_what_is_created_once_is_refused_where_that_does_not_hold(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("no_lock_holds")
    refused = r"(^|: )folder = .* with hard links, or with locks that hold between processes; two drivers "
    with pytest.raises((PenstockError, BusError), match=refused):
        OPENED[kind](tmp_path / "a")
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and one.name != ".lock"]


def test_a_probe_that_cannot_run_shows_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(folder_store, "_probed", set())
    FolderStore(tmp_path / "a")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StoreError, match="two drivers could both decide"):
        FolderStore(tmp_path / "b")


def test_a_name_that_cannot_be_looked_up_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^folder = .*; the system says: File name too long$"):
        FolderStore(tmp_path).has("n" * 300)


@pytest.mark.parametrize("kind", ["guard", "quarantine", "network", "site", "plans of a site", "outbox"])
def test_a_folder_that_was_moved_there_is_refused_too(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    OPENED[kind](tmp_path / "a")
    request.getfixturevalue("no_lock_holds")
    with pytest.raises(
        PenstockError, match=r"^folder = .* with hard links, or with locks that hold between processes;"
    ):
        OPENED[kind](tmp_path / "a")


def test_a_folder_is_probed_once_in_a_process_and_not_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked: list[object] = []
    link = os.link
    monkeypatch.setattr(os, "link", lambda *paths: (linked.append(paths), link(*paths)))
    FolderStore(tmp_path, make=False)
    assert not linked
    for _ in range(3):
        FolderStore(tmp_path)
    assert len(linked) == 1
    assert not list(tmp_path.iterdir())


def test_without_links_a_lock_that_holds_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    claim(tmp_path / "penstock", Claim("a"))


def test_a_reader_may_open_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FolderStore(tmp_path).create("a", b"1")
    monkeypatch.setattr(folder_store, "_probed", set())

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "touch", refuse)
    assert FolderStore(tmp_path).read("a") == b"1"
