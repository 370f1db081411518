"""A gate whose plans are in a bucket: it judges as in a folder, at a few requests a batch."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.object_server import BUCKET, KEY, SECRET, ObjectServer
from tests.spark.control_rows import from_numbers

from penstock.core.control.planner import SOURCE
from penstock.core.loop.binding import Start
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.messages.plan import Fits, KeepTable, Plan, Rules
from penstock.messages.report import Report
from penstock.spark.checkpoint import newest_done, newest_planned, query_id
from penstock.spark.plans import binding
from penstock.spark.plans.binding import Batch, GateOptions, bindings_of, control_row
from penstock.spark.plans.claim import claim
from penstock.spark.plans.control_row import ELSEWHERE, REUSED
from penstock.spark.plans.rules import begin
from penstock.store import objects
from penstock.store.logs import PlanLog
from penstock.store.place import Place
from penstock.store.report_log import ReportLog

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = Rules(number=7, mode="enforce", salt=1, row=("id",), arrival="", keep="", keep_column="", types=("int",))


@pytest.fixture(scope="module")
def one_server() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.close()


@pytest.fixture
def server(one_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    for name, value in one_server.options.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    monkeypatch.setattr(objects, "_clients", {})
    monkeypatch.setattr(objects, "_probed", set())
    for name in ("_newest", "_plans", "_offsets"):
        monkeypatch.setattr(binding, name, {})
    monkeypatch.setattr(binding, "_owned", set())
    return one_server


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


def test_the_folder_of_another_guard_is_refused(query: Query) -> None:
    with pytest.raises(PenstockError, match=r"^checkpoint = 's3a://.*another one wrote it: ") as caught:
        claim(query.folder, Claim("other"))
    assert KEY not in str(caught.value)
    assert SECRET not in str(caught.value)
