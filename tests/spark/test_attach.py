"""A guard that is given a query by name: it waits for it, watches it, and watches it again after a restart."""

from __future__ import annotations

import logging
import time
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from tests.spark.rows import from_files

from penstock.spark.guard.attachment import LOOK_S, Attachment
from penstock.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql.streaming import StreamingQuery


def run_of(name: str | None, identity: str, run: str) -> Any:
    return SimpleNamespace(name=name, id=identity, runId=run)


class Session:
    """Active queries, and those that were passed to a guard; a guard watches the last one while it is active."""

    def __init__(self) -> None:
        self.active: list[Any] = []
        self.watched: list[str] = []
        self.refuse = False

    def watch(self, query: Any) -> None:
        if self.refuse:
            raise ps.PenstockError("it is another guard's")
        self.watched.append(query.runId)

    def busy(self) -> bool:
        return bool(self.watched) and self.watched[-1] in [one.runId for one in self.active]

    def attached(self, wanted: str) -> Attachment:
        return Attachment(lambda: wanted, lambda: self.active, self.watch, self.busy)


@pytest.mark.parametrize("wanted", ["enrich", "id-2", "run-2"])
def test_a_query_is_found_by_name_id_or_run_and_again_when_it_is_restarted(wanted: str) -> None:
    session = Session()
    found = session.attached(wanted)
    session.active = [run_of("other", "id-1", "run-1")]
    assert not found.look()
    session.active.append(run_of("enrich", "id-2", "run-2"))
    assert found.look()
    assert found.look()
    assert session.watched == ["run-2"]
    session.active.pop()
    assert not found.look()
    session.active.append(run_of("enrich", "id-2", "run-3"))
    assert found.look()
    assert session.watched == ["run-2", "run-3"]


def test_a_query_that_does_not_start_is_one_line_with_those_that_are_active() -> None:
    session, clock = Session(), ManualClock(0.0)
    session.active = [run_of("other", "id-1", "run-1"), run_of(None, "id-2", "run-2")]
    with pytest.raises(ps.PenstockError) as told:
        session.attached("enrich").wait(2.0, clock, clock.advance)
    assert str(told.value) == (
        "query = 'enrich' is not usable: give the name, id or run id of a query of this session; it was not active "
        "within 2 s; active: 'id-2', 'other'"
    )
    assert 2.0 <= clock() < 2.0 + 2.0 * LOOK_S


def until(done: Callable[[], object], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_run_that_is_refused_raises_an_alarm_is_logged_once_and_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = Session()
    session.active, session.refuse = [run_of("enrich", "id-1", "run-1")], True
    found = session.attached("enrich")
    with caplog.at_level(logging.WARNING, "penstock"):
        found.start()
        until(lambda: found.alarm is not None)
        time.sleep(2.0 * LOOK_S)
        told = "query 'enrich' is active but is not watched: it is another guard's"
        assert (found.alarm, caplog.messages) == (told, [told])
        session.refuse = False
        until(lambda: session.watched == ["run-1"])
        until(lambda: found.alarm is None)
    found.stop()
    assert not found.alive


def test_a_query_is_watched_before_and_after_its_restart_until_the_guard_is_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = ps.Guard(ps.MeanQueueLatency("1 h"), row="row", checkpoint=tmp_path / "checkpoint")
    name = f"attached_{uuid.uuid4().hex}"

    def start(rows: int) -> StreamingQuery:
        given = from_files(spark, tmp_path / "in", available=rows, rows_per_batch=100)
        writer = given.transform(own.admit).writeStream.format("noop").queryName(name)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    heard: list[int] = []
    # The active session is another one now, as after a function for foreachBatch.
    spark.newSession().createDataFrame([(1,)], "one int")
    assert SparkSession.getActiveSession() is not spark
    with own.attach(name, lambda report: heard.append(report.sequence), timeout=None):
        for rows in (200, 300):
            query = start(rows)
            until(lambda: own.watching)
            query.processAllAvailable()
            query.stop()
            until(lambda: not own.watching)
        with pytest.raises(ps.PenstockError, match="guard 'guard' has a query already: stop it first"):
            own.attach(name)
    assert heard == [0, 1, 2]
    assert (own.errors, own.alarms) == (0, ())
    query = start(300)
    time.sleep(3.0 * LOOK_S)
    assert not own.watching
    own.attach(str(query.runId), timeout="10 s")
    spark.createDataFrame([(1,)], "one int")
    assert own.watching
    own.stop()
    query.stop()


@pytest.mark.parametrize("query", ["", 7])
def test_what_is_no_name_is_refused(query: Any) -> None:
    with pytest.raises(ps.PenstockError, match=r"query = .* give the name, id or run id of a query; watch takes"):
        ps.Guard(ps.MeanQueueLatency("2 s")).attach(query)
