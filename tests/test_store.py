"""Stores: what holds for each, and what a folder's file system must be able to do."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.spark.plans.claim import claim
from penstock.store.folder import FolderStore
from penstock.store.interface import Store, StoreError
from penstock.store.memory import MemoryStore


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FolderStore(tmp_path / "store")


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
    with pytest.raises(StoreError, match=f"^the system says: {os.strerror(errno.EISDIR)}$"):
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


def test_a_claim_probes_whether_a_name_can_be_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    claim(tmp_path / "locks hold" / "penstock", Claim("a"))

    monkeypatch.setattr(fcntl, "flock", lambda *_: None)  # as on a mount that says yes to every lock
    with pytest.raises(
        PenstockError, match=r"^folder = .* with hard links, or with locks that hold between processes;"
    ):
        claim(tmp_path / "locks do not hold" / "penstock", Claim("a"))
    assert not (tmp_path / "locks do not hold" / "penstock" / "guard.json").exists()
