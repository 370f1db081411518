"""Errands without Spark: a session that hands the option of a data source to it and its schema back."""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PySparkException
from tests.spark.control_rows import from_numbers

import penstock as ps
from penstock.core.control.planner import SOURCE
from penstock.messages.claim import Claim
from penstock.messages.plan import Binding, KeepTable, Plan, Rules
from penstock.spark.plans.binding import GateOptions, control_row
from penstock.spark.plans.remote import FORMAT, Errands, RemoteStore, connect_session
from penstock.spark.plans.rules import Open
from penstock.store.logs import BindingLog, PlanLog

HALF = KeepTable(SOURCE, keep=(0.5,), reasons=("half",))


class Session:
    """What a store asks of a session: registers data sources, reads their schema."""

    def __init__(self) -> None:
        self.errands: list[str] = []
        self.broken: Exception | None = None
        self.dataSource = self.read = self

    def register(self, source: type[Errands]) -> None:
        assert source.name() == FORMAT

    def format(self, name: str) -> Session:
        assert name == FORMAT
        return self

    def option(self, name: str, value: str) -> Session:
        given = json.loads(value)["given"]
        self.errands.append(given.get("call") or json.loads(value)["errand"])
        self._options = {name: value}
        return self

    def load(self) -> Any:
        if self.broken is not None:
            raise self.broken
        source = Errands(self._options)
        self.schema = source.schema()
        return self


def plan(version: int, *gates: KeepTable, decided_s: float = 1e10) -> Plan:
    return Plan(version, "by hand", decided_s, 7, gates=gates)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def store(session: Session, tmp_path: Path) -> RemoteStore:
    return RemoteStore(session, tmp_path / "checkpoint")  # type: ignore[arg-type]


def test_an_errand_that_is_done_twice_is_done_once(store: RemoteStore) -> None:
    plans = store.plans()
    for _ in range(2):
        assert plans.add(0, plan(0, HALF))
    assert not plans.add(0, plan(0))
    assert plans.versions() == [0]


def test_plans_sent_are_the_plans_that_an_executor_reads(store: RemoteStore, tmp_path: Path) -> None:
    plans = store.plans()
    assert (plans.next_version(), plans.latest(), plans.versions()) == (0, None, [])
    assert plans.add(0, plan(0))
    assert plans.add(1, plan(1, HALF))
    assert not plans.add(1, plan(1))

    local = PlanLog(tmp_path / "checkpoint" / "penstock" / "plans")
    assert list(local.plans()) == list(store.plans().plans()) == [plan(0), plan(1, HALF)]
    assert (plans.next_version(), plans.latest(), plans.versions()) == (2, plan(1, HALF), [0, 1])
    sent, read = store.control_row(SOURCE), control_row(GateOptions(str(store.place), SOURCE))
    assert from_numbers(sent) == from_numbers(read)
    (local.folder / "notes.txt").touch()
    assert plans.skipped() == local.skipped() != []
    plans.purge(1)
    assert plans.versions() == [1]


def test_bindings_are_read_and_purged(store: RemoteStore) -> None:
    local = BindingLog(Path(store.place.address) / "bindings" / "query")
    for batch in range(3):
        local.add(batch, Binding(batch, "query", 5.0, 0))
    bindings = store.bindings("query")
    assert (bindings.get(1), bindings.get(7)) == (local.get(1), None)
    bindings.purge(2)
    assert local.versions() == [2]


def test_an_errand_asks_nothing_of_a_log_but_what_logs_are_for(store: RemoteStore) -> None:
    for call in ("_discard", "__class__", "folder", "remove"):
        with pytest.raises(ps.PenstockError, match=f"call = '{call}' is not usable: give one of add, get, latest"):
            store._do("log", query=None, call=call, given=[])  # noqa: SLF001 - as a client of another make might


def test_rules_are_kept_on_the_server_and_found_again(store: RemoteStore) -> None:
    identity = store.claim(Claim("guard"))
    assert identity == store.claim(Claim("guard")) == (Path(store.place.address) / "id").read_text()
    rules = Rules(7, "enforce", 11, ("row",), keep="key < 3")
    assert store.begin("gate", rules) == store.begin("gate", rules) == []
    BindingLog(Path(store.place.address) / "bindings" / "query").add(0, Binding(0, "query", 5.0, 0, rules=7))
    assert store.begin("gate", replace(rules, number=8)) == [Open(0, 7, rules, sure=False)]
    assert list(store.bound("other")) == ["query"]


def test_what_cannot_have_changed_is_not_asked_again(store: RemoteStore, session: Session) -> None:
    plans = store.plans()
    plans.add(0, plan(0))
    session.errands.clear()
    assert plans.get(0) == plan(0)
    assert plans.get(-2) is None
    plans.purge(0)
    assert session.errands == []
    fresh = store.plans()
    assert [fresh.get(0), fresh.get(0)] == [plan(0)] * 2
    assert session.errands == ["get"]


def test_a_log_that_went_away_has_no_plan_to_read_and_takes_none(store: RemoteStore) -> None:
    plans = store.plans()
    plans.add(0, plan(0))
    shutil.rmtree(Path(store.place.address))
    Path(store.place.address).write_text("a file in its place")
    assert store.plans().get(0) is None
    with pytest.raises(ps.PenstockError, match=r"folder = .* is not usable: give a folder that can be made and read"):
        plans.add(1, plan(1))


def test_a_claim_of_another_guard_is_refused(store: RemoteStore) -> None:
    store.claim(Claim("one"))
    store.claim(Claim("one"))
    with pytest.raises(ps.PenstockError, match="another one wrote it: name 'one' there, 'two' here"):
        store.claim(Claim("two"))


def test_without_a_checkpoint_plans_lie_in_a_temporary_folder(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = RemoteStore(session, None)  # type: ignore[arg-type]
    assert store.plans().add(0, plan(0))
    assert PlanLog(Path(store.place.address) / "plans").versions() == [0]
    assert tmp_path in Path(store.place.address).parents


@pytest.mark.usefixtures("bucket")
def test_a_server_keeps_plans_in_a_bucket(session: Session) -> None:
    store = RemoteStore(session, f"s3a://bucket/{uuid.uuid4().hex}")  # type: ignore[arg-type]
    assert store.claim(Claim("guard"))
    assert store.plans().add(0, plan(0))
    assert RemoteStore(session, str(store.place.parent)).plans().versions() == [0]  # type: ignore[arg-type]
    assert (store.query_id(), store.bound("")) == (None, {})


@pytest.mark.parametrize(
    ("checkpoint", "line"),
    [
        ("job", "checkpoint = 'job' is not usable: give the whole path of a folder on the server of Connect"),
        (Path("job"), "checkpoint = 'job' is not usable: give the whole path of a folder on the server of Connect"),
        ("hdfs://h/job", "checkpoint = 'hdfs://h/job' is not usable: give a folder of a file system that is"),
    ],
)
def test_a_checkpoint_that_means_nothing_on_the_server_is_refused(session: Session, checkpoint: Any, line: str) -> None:
    with pytest.raises(ps.PenstockError) as caught:
        RemoteStore(session, checkpoint)  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            AnalysisException("[PYTHON] ...\nModuleNotFoundError: No module named 'penstock'\n\nJVM stacktrace:\nmore"),
            "penstock is missing on the Spark Connect server: install it in the Python of PYSPARK_PYTHON",
        ),
        (
            PySparkException("the channel\nis closed\n\nJVM stacktrace:\nmore"),
            "the Spark Connect server failed to serve the guard: the channel is closed",
        ),
    ],
)
def test_a_failure_of_the_server_is_one_line(store: RemoteStore, session: Session, error: Exception, line: str) -> None:
    session.broken = error
    with pytest.raises(ps.PenstockError) as caught:
        store.plans().latest()
    assert str(caught.value) == line


def test_a_disk_that_fails_is_told(store: RemoteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, missing_ok: bool = False) -> None:  # noqa: ARG001, FBT001, FBT002 - as Path's own
        raise OSError(28, "No space left on device")

    plans = store.plans()
    for version in range(2):
        plans.add(version, plan(version))
    monkeypatch.setattr(Path, "unlink", fails)
    with pytest.raises(ps.PenstockError, match=r"the system says: No space left on device$"):
        plans.purge(1)


def test_a_client_without_a_session_is_told_to_connect_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        @staticmethod
        def getActiveSession() -> None:  # noqa: N802 - Spark's name
            return None

    monkeypatch.setattr("penstock.spark.plans.remote.SparkSession", Nobody)
    monkeypatch.setattr("penstock.spark.plans.remote.is_remote", lambda: True)
    with pytest.raises(ps.PenstockError, match="there is no Spark session yet: connect to the server first"):
        connect_session()
    monkeypatch.setattr("penstock.spark.plans.remote.is_remote", lambda: False)
    assert connect_session() is None
