"""A gate whose plans are in a bucket: it judges as in a folder, at a few requests a batch."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from tests.object_server import BUCKET, KEY, SECRET, ObjectServer
from tests.spark.control_rows import from_numbers

from penstock.core.control.planner import SOURCE
from penstock.core.loop.binding import Start
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.messages.plan import Binding, Fits, KeepTable, Plan, Rules
from penstock.messages.report import Report
from penstock.spark.checkpoint import newest_done, newest_planned, query_id
from penstock.spark.plans import binding
from penstock.spark.plans.binding import Batch, GateOptions, bindings_of, control_row
from penstock.spark.plans.claim import claim
from penstock.spark.plans.control_row import ELSEWHERE, REUSED, UNBOUND
from penstock.spark.plans.places import LocalStore
from penstock.spark.plans.rules import begin
from penstock.store import objects
from penstock.store.logs import PlanLog
from penstock.store.place import Place
from penstock.store.remembering import Remembering
from penstock.store.report_log import ReportLog

RULES = Rules(number=7, mode="enforce", salt=1, row=("id",), arrival="", keep="", keep_column="", types=("int",))


@pytest.fixture
def server(bucket: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    for name in ("_newest", "_plans", "_offsets"):
        monkeypatch.setattr(binding, name, {})
    monkeypatch.setattr(binding, "_owned", set())
    return bucket


class Query:
    """A query with its checkpoint in a bucket, and what its guard's driver does a batch."""

    def __init__(self, server: ObjectServer) -> None:
        self.server = server
        self.checkpoint = Place.of(f"s3a://{BUCKET}/{uuid.uuid4().hex}")
        self.checkpoint.store().replace("metadata", b'{"id": "query"}')
        self.folder = self.checkpoint / "penstock"
        self.identity = claim(self.folder, Claim("guard"))
        self.plans = PlanLog((self.folder / "plans").store())
        self.reports = ReportLog((self.folder / "reports").store(), "query")

    def spark_plans(self, batch: int, rows: int) -> None:
        lines = ["v1", json.dumps({"batchTimestampMs": 1000 * (1 + batch)}), json.dumps({"t": {"0": rows}})]
        (self.checkpoint / "offsets").store().replace(str(batch), "\n".join(lines).encode())

    def shed(self, version: int, keep: float, decided_s: float) -> None:
        """Write a plan, as a driver does."""
        assert not version or self.plans.get(version - 1)
        gates = (KeepTable(SOURCE, (keep,), ("over capacity",)),)
        assert self.plans.add(version, Plan(version, "random", decided_s, 0, gates, fits=Fits(1e6, 1e6)))

    def gate(self, batch: int, monkeypatch: pytest.MonkeyPatch, identity: str | None = None) -> tuple[int, int]:
        """The version that judges a batch, and the requests to the server for it."""
        monkeypatch.setattr(binding, "_batch", lambda: Batch(batch, "query"))
        before = self.server.requests.total()
        own = self.identity if identity is None else identity
        options = GateOptions(str(self.folder), SOURCE, own, ((7, 0),), Start(time.time(), counted=True))
        version = from_numbers(control_row(options)).version
        return version, self.server.requests.total() - before


@pytest.fixture
def query(server: ObjectServer) -> Query:
    return Query(server)


def test_a_batch_costs_six_requests_or_fewer(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[str, tuple[int, int]] = {}
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s)
    for batch, what in enumerate(("first", "same plan", "another plan", "same plan", "leased plan", "leased plan")):
        query.spark_plans(batch, 100 * batch)
        now_s += 1.0
        before = query.server.requests.total()
        if what in ("first", "another plan"):
            query.shed(batch // 2, 0.5, now_s)
        now_s += LEASE_S / 2.0 if batch == 4 else 0.1
        version, requests = query.gate(batch, monkeypatch)
        assert version == (0 if batch < 2 else 1)
        query.reports.write(Report(sequence=batch, start_s=batch, end_s=batch + 1, rows_in=1, rows_kept=1))
        costs[what] = (requests, query.server.requests.total() - before)
    # The gate's requests, and all: those of the driver are the report, and two for another plan.
    assert costs == {"first": (14, 17), "same plan": (3, 4), "another plan": (3, 6), "leased plan": (4, 5)}


def test_a_replay_is_judged_as_before_by_another_process(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.spark_plans(0, 100)
    query.shed(0, 0.5, time.time())
    assert query.gate(0, monkeypatch)[0] == 0
    query.shed(1, 0.9, time.time())
    for name in ("_newest", "_plans", "_offsets"):
        monkeypatch.setattr(binding, name, {})
    assert query.gate(0, monkeypatch)[0] == 0
    query.spark_plans(0, 200)
    assert query.gate(0, monkeypatch)[0] == REUSED
    query.spark_plans(1, 300)
    assert query.gate(1, monkeypatch)[0] == 1
    assert query.gate(2, monkeypatch, "another folder's")[0] == ELSEWHERE


def test_a_gate_without_its_bucket_keeps_every_row(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.spark_plans(0, 100)
    query.shed(0, 0.5, time.time())
    query.server.refusal = (403, "AccessDenied")
    try:
        assert query.gate(0, monkeypatch)[0] < 0
    finally:
        query.server.refusal = None
    assert query.gate(0, monkeypatch)[0] == 0


def test_the_files_of_spark_and_rules_are_read_in_a_bucket(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (query_id(query.checkpoint), newest_planned(query.checkpoint), newest_done(query.checkpoint)) == (
        *("query", -1, -1),
    )
    for batch in range(12):
        query.spark_plans(batch, 100)
        query.gate(batch, monkeypatch)
    (query.checkpoint / "commits").store().replace("10", b"v1\n{}")
    assert (newest_planned(query.checkpoint), newest_done(query.checkpoint)) == (11, 10)
    assert [(one.batch, one.number) for one in begin(query.folder, "gate", RULES)] == [(11, 7)]
    assert bindings_of(query.folder, "query").versions() == list(range(12))


@pytest.mark.parametrize(
    ("refusal", "line"),
    [
        ((403, "InvalidAccessKeyId"), "give an address for which there are valid credentials; set them by role"),
        ((403, "AccessDenied"), "give a bucket in which objects may be written; grant that to these credentials"),
        ((404, "NoSuchBucket"), "give a bucket that exists; create it"),
        ((403, "RequestTimeTooSkewed"), "give a store whose clock agrees with this machine's"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_one_line(server: ObjectServer, refusal: tuple[int, str], line: str) -> None:
    server.refusal = refusal
    with pytest.raises(PenstockError, match=rf"^checkpoint = 's3a://{BUCKET}/ck' is not usable: {line}.*$") as caught:
        LocalStore(f"s3a://{BUCKET}/ck").claim(Claim("guard"))
    assert str(caught.value).endswith(f"the store says: {refusal[1]}")
    assert KEY not in str(caught.value)


def test_a_store_that_ignores_the_condition_is_refused_as_a_checkpoint(server: ObjectServer) -> None:
    server.conditional = False
    with pytest.raises(PenstockError, match=r"^checkpoint = 's3a://.*refuses to create an object twice; .*$"):
        LocalStore(f"s3a://{BUCKET}/ck").claim(Claim("guard"))


def test_a_gate_waits_once_for_a_store_that_does_not_answer(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.spark_plans(0, 100)
    query.shed(0, 0.5, time.time())
    assert query.gate(0, monkeypatch)[0] == 0
    monkeypatch.setattr(objects, "_REQUEST_S", 0.1)
    monkeypatch.setattr(objects, "_RETRIES", 0)
    monkeypatch.setattr(objects, "_clients", {})
    monkeypatch.setattr(binding, "_plans", {})
    query.server.delay_s = 0.5
    version, requests = query.gate(1, monkeypatch)
    query.server.mend()
    assert (version, requests) == (UNBOUND, 1)


def test_executors_without_credentials_keep_every_row(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.spark_plans(0, 100)
    query.shed(0, 0.5, time.time())
    query.server.refusal = (403, "InvalidAccessKeyId")
    try:
        assert query.gate(0, monkeypatch)[0] == ELSEWHERE
    finally:
        query.server.refusal = None


def test_another_query_that_binds_batches_is_found(query: Query) -> None:
    store = LocalStore(query.checkpoint)
    assert store.bound("query") == {}
    bindings_of(query.folder, "other").add(0, Binding(0, "other", 1.0))
    bound = store.bound("query")
    assert bound.keys() == {"other"}
    assert abs(bound["other"] - time.time()) < 60.0


def test_a_driver_remembers_a_plan_for_two_seconds(server: ObjectServer) -> None:
    now_s = 0.0
    store = Remembering((Place.of(f"s3a://{BUCKET}/{uuid.uuid4().hex}")).store(), 2.0, lambda: now_s)
    assert store.create("0", b"plan")
    server.requests.clear()
    assert store.read("0") == b"plan"
    assert server.requests.total() == 0
    now_s = 2.1
    assert store.read("0") == b"plan"
    assert server.requests.total() == 1


def test_the_folder_of_another_guard_is_refused(query: Query) -> None:
    with pytest.raises(PenstockError, match=r"^checkpoint = 's3a://.*another one wrote it: ") as caught:
        claim(query.folder, Claim("other"))
    assert KEY not in str(caught.value)
    assert SECRET not in str(caught.value)
