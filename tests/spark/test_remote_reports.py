"""The journal of a Connect query: its lines ride on other requests, each once, whatever happens to those."""

from __future__ import annotations

import json
import random
import time
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from tests.spark.metered import batch

from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.spark.plans import remote_reports
from penstock.spark.plans.remote import Errands, RemoteStore
from penstock.store.report_log import End, Watch, journal_path

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "7d0f"
WAIT_S = 30.0


class Imitation:
    """Takes the part of a Connect session and its server; requests may be lost, or executed twice or unanswered."""

    def __init__(self) -> None:
        self.dataSource = SimpleNamespace(register=lambda _: None)
        self.orders: list[dict[str, Any]] = []
        self.faults: deque[str] = deque()

    @property
    def read(self) -> Any:
        return SimpleNamespace(format=lambda _: SimpleNamespace(option=lambda _, text: _Request(self, text)))

    def asked(self, text: str) -> Any:
        self.orders.append(json.loads(text))
        fault = self.faults.popleft() if self.faults else ""
        if fault == "lost":
            raise PySparkException("lost")
        source = Errands({"errand": text})
        answer = source.schema()
        if fault == "unanswered":
            raise PySparkException("unanswered")
        return source.schema() if fault == "twice" else answer

    def lines(self, errand: str) -> int:
        return sum(len(one["riding"]["lines"]) for one in self.orders if one["errand"] == errand and one["riding"])


class _Request:
    def __init__(self, server: Imitation, text: str) -> None:
        self._server, self._text = server, text

    def load(self) -> _Request:
        return self

    @property
    def schema(self) -> Any:
        return self._server.asked(self._text)


@pytest.fixture
def server() -> Imitation:
    return Imitation()


@pytest.fixture
def store(server: Imitation, tmp_path: Path) -> RemoteStore:
    return RemoteStore(server, tmp_path)  # type: ignore[arg-type]


def plan(version: int) -> Plan:
    return Plan(version, "by hand", 0.0, salt=0)


def written(folder: Path) -> list[str]:
    path = journal_path(folder / "penstock", QUERY)
    return path.read_text().splitlines() if path.exists() else []


def sequences(folder: Path) -> list[int]:
    return [json.loads(line[7:])["sequence"] for line in written(folder) if line.startswith("report ")]


def test_a_report_rides_on_the_plan_that_follows_from_it(server: Imitation, store: RemoteStore, tmp_path: Path) -> None:
    reports, plans = store.reports(QUERY), store.plans()
    reports.write(Watch(guard="mine", query=QUERY, began_s=0.0, mode="enforce"))
    for number in range(3):
        reports.write(batch(number))
        assert plans.add(number + 1, plan(number + 1))
        assert sequences(tmp_path) == list(range(number + 1))
    assert server.lines("log") == 4
    begin_s = time.monotonic()
    reports.write(End(9.0))
    assert time.monotonic() - begin_s < remote_reports.END_S
    assert [line.split()[0] for line in written(tmp_path)] == ["watch", "report", "report", "report", "end"]
    assert (server.lines("log"), server.lines("nothing")) == (4, 1)


@pytest.mark.parametrize("seed", range(8))
def test_each_line_is_written_once_and_in_order(
    server: Imitation, store: RemoteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(remote_reports, "RETRY_S", 0.001)
    reports, plans, chance = store.reports(QUERY), store.plans(), random.Random(seed)  # noqa: S311 - of a test
    for number in range(60):
        reports.write(batch(number))
        if chance.random() < 0.6:
            server.faults.append(chance.choice(["", "lost", "unanswered", "twice"]))
            try:
                plans.add(number, plan(number))
            except PenstockError:
                continue
    server.faults.clear()
    reports.write(End(9.0))
    assert sequences(tmp_path) == list(range(60))


def test_lines_that_find_no_request_are_sent_by_themselves(
    server: Imitation, store: RemoteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_reports, "RIDE_S", 0.05)
    monkeypatch.setattr(remote_reports, "RETRY_S", 0.01)
    reports = store.reports(QUERY)
    server.faults.extend(["lost", "unanswered"])
    begin_s = time.monotonic()
    reports.write(batch(0))
    while not server.lines("nothing") >= 3 and time.monotonic() < begin_s + WAIT_S:
        time.sleep(0.01)
    assert time.monotonic() - begin_s >= 0.05
    reports.write(End(9.0))
    assert sequences(tmp_path) == [0]


def test_a_journal_that_cannot_be_written_spoils_no_plan(
    server: Imitation, store: RemoteStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports, plans = store.reports(QUERY), store.plans()
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "reports").touch()
    for number in range(1, 4):
        reports.write(batch(number))
        assert plans.add(number, plan(number))
    reports.write(End(9.0))
    assert plans.versions() == [1, 2, 3]
    told = [line for line in caplog.messages if "lacks lines" in line]
    assert told == [
        f"the journal of query {QUERY} lacks lines, so the dashboard does too: its file on the server cannot be written"
    ]
    assert server.lines("log") == 3  # none is sent again


def test_lines_do_not_pile_up_while_the_server_is_gone(
    server: Imitation,
    store: RemoteStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(remote_reports, "MOST_WAITING", 5)
    reports = store.reports(QUERY)
    for number in range(8):
        reports.write(batch(number))
    reports.write(End(9.0))
    assert sequences(tmp_path) == [4, 5, 6, 7]
    assert [line for line in caplog.messages if line.endswith("the server does not answer")]
    assert server.faults == deque()


def test_the_next_run_learns_from_the_journal(store: RemoteStore) -> None:
    first = store.reports(QUERY)
    assert (first.accounted(), first.recent()) == (None, [])  # as with a checkpoint of a release without reports
    for number in range(3):
        first.write(batch(number))
    first.write(End(9.0))
    second = store.reports(QUERY)
    assert second.accounted() == 2
    assert second.recent() == [batch(0), batch(1), batch(2)]
