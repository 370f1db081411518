"""A store in a bucket, on an S3 server: who wins, which requests it costs, and what it says of errors."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from tests.object_server import BUCKET, KEY, SECRET, ObjectServer

from penstock.errors import PenstockError
from penstock.store import objects, segments
from penstock.store.interface import StoreError
from penstock.store.journal import Journal, Tail
from penstock.store.objects import ObjectStore


@pytest.fixture
def store(bucket: ObjectServer) -> ObjectStore:
    made = ObjectStore(f"s3a://{BUCKET}/{uuid.uuid4().hex}")
    bucket.requests.clear()
    return made


def again(store: ObjectStore) -> ObjectStore:
    """The same store, as another process sees it."""
    return ObjectStore(store.where, make=False)


def test_of_eight_writers_one_creates_a_name(store: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as writers:
        for race in range(20):
            stores = [again(store) for _ in range(8)]
            won = list(writers.map(lambda one, name=f"{race}": one[1].create(name, b"%d" % one[0]), enumerate(stores)))
            assert won.count(True) == 1
            assert store.read(f"{race}") == b"%d" % won.index(True)


def test_what_each_operation_costs(store: ObjectStore, bucket: ObjectServer) -> None:
    def cost(of: object) -> dict[str, int]:
        del of
        found = dict(bucket.requests)
        bucket.requests.clear()
        return found

    assert cost(store.create("a", b"1")) == {"PUT": 1}
    assert cost(store.create("a", b"2")) == {"PUT": 1, "HEAD": 1}  # whose it is
    assert cost(store.replace("b", b"3")) == {"PUT": 1}
    assert cost(store.read("a")) == cost(store.read("none")) == {"GET": 1}
    assert cost(store.has("a")) == cost(store.has("none")) == {"HEAD": 1}
    assert cost(store.names()) == {"GET": 1}
    assert sum(cost(store.remove("a")).values()) == 1
    assert cost(store.append("j", b"1", 100)) == {"GET": 1, "PUT": 1}  # what is there, at the first line
    assert cost(store.append("j", b"2", 100)) == {"PUT": 1}
    assert cost(store.part("j", 0)) == {"GET": 2}
    assert cost(store.part("j", 4)) == {"GET": 1}  # nothing new
    assert cost(store.changed_s("j")) == {"GET": 1}


@pytest.mark.parametrize("lost", ["error", "cut"])
def test_a_write_whose_answer_is_lost_knows_its_own(store: ObjectStore, bucket: ObjectServer, lost: str) -> None:
    bucket.lost = lost
    assert store.create("a", b"1")
    assert bucket.lost == ""
    bucket.lost = lost
    assert not store.create("a", b"1")  # The same content is not the same write.
    assert store.read("a") == b"1"


def test_the_mark_of_a_folder_that_hadoop_makes_is_no_name(store: ObjectStore, bucket: ObjectServer) -> None:
    inner = ObjectStore(f"{store.where}/offsets")
    inner.replace("7", b"")
    bucket.make(f"{inner.where.removeprefix('s3a://')}/")  # as Hadoop does
    assert (store.names(), inner.names()) == (["offsets"], ["7"])


def test_what_another_program_has_copied_there_is_taken(store: ObjectStore) -> None:
    store.replace("a", b"1")
    assert not store.create("a", b"1")


def test_a_store_that_ignores_the_condition_is_refused(bucket: ObjectServer) -> None:
    bucket.conditional = False
    where = f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    refused = rf"^address = '{where}' is not usable: give .* refuses to create an object twice; .* If-None-Match, .*$"
    with pytest.raises(StoreError, match=refused):
        ObjectStore(where)
    assert ObjectStore(where, make=False).names() == []
    bucket.conditional = True
    bucket.requests.clear()
    for _ in range(3):
        ObjectStore(where)
    assert dict(bucket.requests) == {"PUT": 2, "HEAD": 1, "POST": 1}  # once a process


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (403, "InvalidAccessKeyId", "valid credentials; set them by role or environment for the driver and every exec"),
        (403, "SignatureDoesNotMatch", "valid credentials; set them by role or environment"),
        (403, "AccessDenied", "a bucket in which objects may be .*; grant that to these credentials"),
        (403, "RequestTimeTooSkewed", "a store whose clock agrees with this machine's; set this machine's clock"),
        (404, "NoSuchBucket", "a bucket that exists; create it"),
    ],
)
def test_a_refusal_is_one_line_without_secrets(
    store: ObjectStore, bucket: ObjectServer, status: int, code: str, told: str
) -> None:
    bucket.refusal = (status, code)
    calls = (
        lambda: store.create("a", b"1"),
        lambda: store.replace("a", b"1"),
        lambda: store.read("a"),
        store.names,
        lambda: store.append("j", b"1", 100),
    )
    for call in calls:
        line = rf"^address = '{store.where}' is not usable: give .*{told}.*; the store says: {code}$"
        with pytest.raises(StoreError, match=line) as caught:
            call()
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert not {KEY, SECRET} & set(str(caught.value).split())
    assert store.part("j", 0) is None


def test_a_bucket_that_is_not_there_is_one_line(bucket: ObjectServer) -> None:
    told = r"^address = 's3a://no-such-bucket/x' is not usable: give a bucket that exists; .*: NoSuchBucket$"
    with pytest.raises(StoreError, match=told):
        ObjectStore("s3a://no-such-bucket/x", bucket.options)
    with pytest.raises(StoreError, match=told):
        ObjectStore("s3a://no-such-bucket/x", bucket.options, make=False).read("a")


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_RETRIES", 0)
    nowhere = {"endpoint": "http://127.0.0.1:1", "access_key_id": KEY, "secret_access_key": SECRET}
    with pytest.raises(StoreError, match=r"^address = .*can be read; the store does not answer$"):
        ObjectStore("s3a://bucket/x", nowhere, make=False).read("a")


@pytest.mark.parametrize(
    "address", ["", "/x", "file:///x", "hdfs://h/x", "s3a://", "s3a:///x", "s3a://b/x#y", "s3a://b/../x"]
)
def test_what_is_no_bucket_is_one_line(address: str) -> None:
    with pytest.raises(PenstockError, match=r"^address = .* such as s3a://bucket/folder \(s3, s3a, abfs, abfss, gs\)$"):
        ObjectStore(address)


@pytest.mark.parametrize(
    "address",
    [
        *(f"s3a://{KEY}:{SECRET}@b/x", f"gs://{SECRET}@b/x", f"abfs://c@h:{SECRET}/x"),
        f"abfss://c@account.dfs.core.windows.net/x?sig={SECRET}",
    ],
)
def test_an_address_with_credentials_is_refused_and_not_shown(address: str) -> None:
    line = (
        r"^address = \w+://\.\.\. with credentials, a port or a query is not usable: give the address without them; .*$"
    )
    with pytest.raises(PenstockError, match=line) as caught:
        ObjectStore(address)
    assert SECRET not in str(caught.value)


def test_a_store_that_does_not_answer_is_waited_for_once(bucket: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(objects, "_REQUEST_S", 0.1)
    monkeypatch.setattr(objects, "_RETRIES", 0)
    monkeypatch.setattr(objects, "time", SimpleNamespace(monotonic=lambda: now_s))
    store = ObjectStore(f"s3a://{BUCKET}/silent", make=False)
    bucket.delay_s = 0.5
    with pytest.raises(StoreError, match=r"the store does not answer$"):
        store.create("a", b"1")
    bucket.mend()
    bucket.requests.clear()
    for call in (lambda: store.create("a", b"1"), lambda: store.read("a"), store.names):
        with pytest.raises(StoreError, match=r"^address = .*: give a bucket that can be reached; .* a moment ago$"):
            call()
    assert ObjectStore(f"s3a://{BUCKET}/silent", make=False).part("j", 0) is None
    assert not bucket.requests
    now_s = objects._SILENT_S  # noqa: SLF001 - as long as it lasts
    assert store.names() in ([], ["a"])  # The request may have been carried out.


def test_an_unknown_option_is_one_line_without_its_value() -> None:
    with pytest.raises(PenstockError, match=r"^options = 'colour' is not usable: .*$") as caught:
        ObjectStore("s3a://bucket/x", {"colour": SECRET})
    assert SECRET not in str(caught.value)


def test_a_journal_is_followed_over_segments_and_writers(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 25)
    tail, found, written = Tail(again(store), "j"), list[str](), list[str]()
    writer = Journal(store, "j", most_bytes=100)
    for number in range(40):
        if number % 7 == 6:
            writer = Journal(again(store), "j", most_bytes=100)  # a restart
        written.append(f"line {number:04d}")
        assert writer.append(written[-1])
        if number % 3 == 0:
            found += tail.news()
    assert found + tail.news() == written
    assert tail.restarts == 0
    late = Tail(store, "j").news()
    assert late == written[-len(late) :]
    assert len(late) >= 10
    assert store.names() == ["j"]


def test_a_line_that_cannot_be_written_spoils_no_other(store: ObjectStore, bucket: ObjectServer) -> None:
    journal, tail = Journal(store, "j"), Tail(store, "j")
    assert journal.append("one")
    assert tail.news() == ["one"]
    bucket.refusal = (403, "AccessDenied")
    assert not journal.append("two")
    bucket.refusal = None
    assert journal.append("three")
    assert tail.news() == ["three"]
    assert (journal.lost, tail.restarts) == (1, 0)
