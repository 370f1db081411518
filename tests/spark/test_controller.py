"""The controller without Spark: a query that is a few lists, and a clock turned by hand."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

import penstock as ps
from penstock import baselines
from penstock.core.control.batch_size import RATIO_BATCHES
from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.planner import RECALLED, SOURCE
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.plan import Binding, Plan
from penstock.spark.guard.batches import ALARM_S, FORGOTTEN, NOT_RUN_AGAIN, NOT_WATCHED, Judged
from penstock.spark.guard.controller import IDLE_S, LOST_AFTER, REAL_TIME, STALLED_S, Controller
from penstock.spark.guard.misuse import GATE
from penstock.spark.guard.reading import GuardReading
from penstock.spark.plans.control_row import ELSEWHERE, NO_PLAN, REUSED, UNBOUND, UNKNOWN_RULES, UNREADABLE
from penstock.spark.plans.places import LocalStore
from penstock.spark.probe.meter import Meter, Rows
from penstock.spark.progress import Progress, arrival_trouble
from penstock.store.folder import FolderStore
from penstock.store.journal import Tail, at
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.report_log import ALIVE_S, Alarms, Alive, End, Missing, ReportLog, journal_path, line_of
from penstock.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.core.control.policies import Policy
    from penstock.messages.report import Report

SALT = 7
QUERY = "2f1d"
COST_S = 0.002


def task(rows: int, start_s: float, arrivals_s: Any, cost_s: float = COST_S) -> str:
    meter = Meter()
    starts_s = [start_s + number * cost_s for number in range(rows)]
    columns = Rows(np.zeros(rows, np.int64), np.asarray(arrivals_s, float), np.ones(rows), np.zeros(rows, np.bool_))
    meter.executed(columns, [1] * rows, starts_s, [cost_s] * rows)
    sums = meter.text(partition=0)
    assert sums is not None
    return sums


def progress(
    batch: int, start_s: float, *, rows: int, kept: int, cost_s: float = COST_S, plan: int = NO_PLAN
) -> dict[str, Any]:
    duration_s = 0.3 + kept * cost_s
    stamp = np.datetime64(round(start_s * 1e6), "us")
    tasks = [task(kept, start_s + 0.2, np.linspace(start_s - 0.4, start_s, kept), cost_s)] if kept else []
    return {
        "batchId": batch,
        "timestamp": f"{str(stamp)[:-3]}Z",
        "durationMs": {"triggerExecution": round(duration_s * 1000), "addBatch": round(duration_s * 1000)},
        "numInputRows": rows,
        "observedMetrics": {
            "gate": {
                "rows_in": rows,
                "plan": plan,
                "read_us": 1500,
                "shed_0": rows - kept,
                **{f"shed_{n}": 0 for n in range(1, 8)},
            },
            "probe": {"tasks": tasks},
        },
    }


@dataclass
class Query:
    """A fake of a streaming query."""

    id: str = QUERY
    isActive: bool = True  # noqa: N815 - Spark's name
    recentProgress: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815 - Spark's name
    status: dict[str, Any] = field(default_factory=lambda: {"isDataAvailable": True, "isTriggerActive": True})

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None


@dataclass
class Bench:
    folder: Path
    query: Query = field(default_factory=Query)
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_800_000_000.0))
    reports: list[Report] = field(default_factory=list)
    policy: Policy = field(default_factory=ps.LoadAware)
    by_length: bool = True
    read: Callable[..., dict[str, Any]] = progress

    def __post_init__(self) -> None:
        self.plans, self.bindings = PlanLog(self.folder / "plans"), BindingLog(self.folder / "bindings")
        self.controller = Controller(
            self.query,  # type: ignore[arg-type]
            self.policy.planner(ps.MeanQueueLatency("1 s")),
            self.plans,
            self.bindings,
            GuardReading("gate", "probe"),
            by_length=self.by_length,
            clock=self.clock,
            on_report=self.reports.append,
            kept_in=ReportLog(self.folder, QUERY),
            salt=SALT,
        )

    def batch(self, rows: int, kept: int | None = None, **more: Any) -> None:
        """A batch runs: bound to the newest plan, as the control table would have it."""
        number = len(self.query.recentProgress)
        newest = self.plans.latest()
        version = newest.version if newest else None
        self.bindings.add(number, Binding(number, QUERY, self.clock(), version))
        more = {"plan": NO_PLAN if version is None else version} | more
        done = self.read(number, self.clock(), rows=rows, kept=rows if kept is None else kept, **more)
        self.query.recentProgress.append(done)
        self.clock.advance(done["durationMs"]["triggerExecution"] / 1000.0)
        self.controller.step()

    def kept(self, kind: type[Any]) -> list[Any]:
        """Lines of that kind in the journal."""
        lines = [line_of(text) for text in Tail(*at(journal_path(self.folder, QUERY))).news()]
        return [line for line in lines if isinstance(line, kind)]

    def share(self) -> float:
        """The keep share in force."""
        newest = self.plans.latest()
        table = newest.gate(SOURCE) if newest else None
        return table.keep[0] if table else 1.0

    def since_renewal_s(self) -> float:
        """How long ago the newest plan was decided or renewed."""
        newest = self.plans.latest()
        return self.clock() - max(newest.decided_s, self.plans.renewed_s(newest.version))

    def overload(self) -> None:
        for _ in range(3):
            self.batch(3000, 400)
        assert self.share() < 0.5


def test_a_query_that_is_watched_again_is_not_read_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for _ in range(5):
        bench.batch(100)
    again = Bench(tmp_path, query=bench.query, clock=bench.clock)
    again.controller.begin()
    again.controller.step()
    assert again.reports == []
    again.batch(100)
    assert [report.sequence for report in again.reports] == [5]
    assert [report.sequence for report in ReportLog(tmp_path, QUERY).recent()] == [0, 1, 2, 3, 4, 5]


def test_the_batch_after_a_replay_has_the_rows_since_a_killed_run_planned_that(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.bindings.add(0, Binding(0, QUERY, bench.clock(), None))  # It is bound, and its run is killed.
    bench.clock.advance(20.0)
    bench.batch(100)
    first_s = 0.3 + 100 * COST_S
    (replayed,) = bench.reports
    assert replayed.replayed_s == pytest.approx(20.0)
    bench.batch(5000, 500)
    bench.batch(200, 100)
    waiting, last = bench.reports[1:]
    assert waiting.replayed_s == last.replayed_s == 0.0
    assert waiting.backlog_rows == pytest.approx(5000 / (20.0 + first_s) * waiting.duration_s, rel=0.01)
    assert last.backlog_rows == pytest.approx(200 / waiting.duration_s * last.duration_s, rel=0.01)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_calm_query_is_left_alone(bench: Bench) -> None:
    for _ in range(5):
        bench.batch(50)
    assert bench.share() == 1.0
    assert len(bench.reports) == 5
    assert len(bench.plans.versions()) <= 1


def test_an_overload_gets_a_plan_and_its_end_ends_it(bench: Bench) -> None:
    bench.overload()
    assert bench.plans.latest().salt == SALT, "that of the gate, whatever the policy's seed"
    for _ in range(6):
        bench.batch(20)
    assert bench.share() == 1.0


def test_batches_that_go_as_planned_need_no_look_into_the_logs(bench: Bench) -> None:
    asked = []

    class Counted:
        def __init__(self, log: Any) -> None:
            self._log = log

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(self._log, name)

    controller = bench.controller
    controller._driver.plans = Counted(bench.plans)  # type: ignore[assignment]  # noqa: SLF001 - as if given it
    controller._batches._bindings = Counted(bench.bindings)  # type: ignore[assignment]  # noqa: SLF001 - and this
    bench.batch(50)
    asked.clear()  # with the first batch, as with every hundredth, old entries are purged
    for _ in range(5):
        bench.batch(50)
        bench.controller.step()
    assert set(asked) <= {"next_version", "add"}
    bench.overload()
    asked.clear()
    for _ in range(5):
        bench.batch(3000, 400)
        bench.controller.step()
    assert set(asked) <= {"add"}


def test_a_report_says_what_the_probe_and_the_gate_measured(bench: Bench) -> None:
    bench.overload()
    bench.batch(3000, 300)
    report = bench.reports[-1]
    newest = bench.plans.plans()
    assert (report.rows_in, report.rows_kept, report.shed_total) == (3000, 300, 2700)
    assert set(report.rows_shed) == set(next(iter([plan for plan in newest if plan.gates])).gate(SOURCE).reasons)
    assert report.busy_s == pytest.approx(0.6)
    assert report.span_s == pytest.approx(0.6)
    assert report.delay_s == pytest.approx(0.2, abs=0.002)
    assert report.queuing.mean_s == pytest.approx(0.2 + 0.2 + 0.3, abs=0.01)
    assert BucketCosts.from_bytes(report.cost_sketch).mean_s == pytest.approx(COST_S)


def test_batches_that_ended_between_two_looks_are_all_taken_in(bench: Bench) -> None:
    for number in range(4):
        bench.query.recentProgress.append(progress(number, bench.clock() + number, rows=10, kept=10))
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0, 1, 2, 3]
    bench.controller.step()
    assert len(bench.reports) == 4


def test_a_plan_that_sheds_is_renewed_before_its_lease_runs_out(bench: Bench) -> None:
    bench.overload()
    written = len(bench.plans.versions())
    for _ in range(20):  # a batch that takes long
        bench.clock.advance(LEASE_S / 10.0)
        bench.controller.step()
        assert bench.since_renewal_s() <= LEASE_S / 2.0
    assert bench.share() < 0.5
    assert len(bench.plans.versions()) == written


def test_when_input_stops_the_gate_opens(bench: Bench) -> None:
    bench.overload()
    bench.query.status = {"isDataAvailable": False, "isTriggerActive": False}
    bench.controller.step()
    bench.clock.advance(IDLE_S + 0.1)
    bench.controller.step()
    assert bench.share() == 1.0
    assert bench.plans.latest().note == "no input"

    bench.query.status = {"isDataAvailable": True, "isTriggerActive": True}
    bench.overload()
    assert bench.share() < 0.5, "the next overload is met like the first one"


def test_a_share_that_does_not_follow_load_outlasts_a_lull(tmp_path: Path) -> None:
    bench = Bench(tmp_path, policy=baselines.BaseLine(drop_share=0.75))
    bench.batch(100)
    assert bench.share() == 0.25
    for _ in range(3):
        bench.query.status = {"isDataAvailable": False, "isTriggerActive": False}
        for _ in range(20):
            bench.controller.step()
            bench.clock.advance(IDLE_S + 0.1)
        assert bench.share() == 0.25
        assert bench.since_renewal_s() <= LEASE_S, "it is still in force"
        bench.query.status = {"isDataAvailable": True, "isTriggerActive": True}
        bench.batch(100, 25)
        assert bench.share() == 0.25
    bench.controller.start()
    bench.controller.stop()
    assert bench.share() == 1.0


def test_a_guard_that_starts_again_plans_by_what_it_measured_before(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.overload()
    again = Bench(tmp_path)
    again.controller.begin()
    recalled = again.plans.latest()
    assert (recalled.gates, recalled.note, recalled.salt) == ((), RECALLED, SALT), "of the load, nothing is known yet"
    # 0.9 of the target less half of the overhead of 0.3 s, and less the delay, at 2 ms a row.
    assert recalled.fits.rows == pytest.approx(0.55 / COST_S, rel=0.1)
    assert recalled.fits.rows_per_s == pytest.approx(1.0 / COST_S, rel=0.1)
    again.bindings.store = FolderStore(tmp_path / "again")
    again.batch(3000)
    assert again.share() < 0.5, "the first report is enough to plan by"


def kafka_offsets(bench: Bench, offsets: int) -> None:
    """The next batches of the bench read so many offsets each, of which the last has no row to its name."""
    given = progress

    def read(batch: int, start_s: float, **more: Any) -> dict[str, Any]:
        ends = [json.dumps({"events": {"0": offsets * number}}) for number in (batch, batch + 1)]
        source = {"description": "KafkaV2", "startOffset": ends[0], "endOffset": ends[1], "numInputRows": more["rows"]}
        return given(batch, start_s, **more) | {"sources": [source]}

    bench.read = read


def test_how_many_rows_come_for_each_offset_is_learned_and_remembered(tmp_path: Path) -> None:
    """A compacted topic, or a filter in front of the gate: 4 offsets for each row that comes to the gate."""
    bench = Bench(tmp_path)
    kafka_offsets(bench, 800)
    bench.batch(200)
    bench.batch(200)
    assert bench.plans.latest().rows_per_offset == pytest.approx(0.25)
    kafka_offsets(bench, 200)
    for _ in range(RATIO_BATCHES):
        bench.batch(200)
    assert bench.plans.latest().rows_per_offset == pytest.approx(1.0, rel=0.25), "it is followed"
    again = Bench(tmp_path)
    again.controller.begin()
    assert again.plans.latest().rows_per_offset == bench.plans.latest().rows_per_offset


def test_a_guard_whose_reports_cannot_be_read_starts_all_the_same(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReportLog, "recent", lambda _: 1 / 0)
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.start()
        bench.controller.stop()
    assert bench.controller.errors == 1
    assert "the last reports of query 2f1d cannot be used: ZeroDivisionError" in caplog.text


def test_a_stopped_guard_opens_the_gate(bench: Bench) -> None:
    bench.overload()
    assert bench.plans.latest().fits is not None
    bench.controller.start()
    bench.controller.stop()
    assert bench.share() == 1.0
    assert (bench.plans.latest().note, bench.plans.latest().fits) == ("the guard was stopped", None)


@pytest.mark.parametrize("earlier", [True, False])
def test_a_guard_that_is_stopped_before_its_first_plan_holds_no_rate_any_more(tmp_path: Path, *, earlier: bool) -> None:
    bench = Bench(tmp_path, by_length=False)
    if earlier:
        bench.plans.add(0, Plan(0, "p", bench.clock() - 100.0, SALT, note="of an earlier run"))
    bench.controller.start()
    bench.controller.stop()
    newest = bench.plans.latest()
    assert newest is not None
    assert (newest.gates, newest.fits, newest.note) == ((), None, "the guard was stopped")
    assert newest.decided_s >= bench.clock(), "so that a gate that was made before finds it"


def test_a_guard_is_stopped_while_spark_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Query):
        asked, answers = threading.Event(), threading.Event()

        def __getattribute__(self, name: str) -> Any:
            if name == "status" and threading.current_thread() is not threading.main_thread():
                Silent.asked.set()
                Silent.answers.wait(60.0)
            return object.__getattribute__(self, name)

    monkeypatch.setattr("penstock.spark.guard.controller.STOP_S", 0.05)
    bench = Bench(tmp_path, Silent())
    bench.overload()
    bench.controller.start()
    assert Silent.asked.wait(10.0)
    bench.controller.stop()
    assert bench.controller.alive
    by_s = time.monotonic() + 10.0  # A busy machine may take longer to write the last plan than `stop` waits.
    while bench.plans.latest().note != "the guard was stopped" and time.monotonic() < by_s:
        time.sleep(0.01)
    assert (bench.share(), bench.plans.latest().note) == (1.0, "the guard was stopped")
    bench.query.recentProgress.append(progress(3, bench.clock(), rows=3000, kept=400))
    Silent.answers.set()
    bench.controller._thread.join(10.0)  # noqa: SLF001 - it ends by itself
    assert not bench.controller.alive
    assert bench.share() == 1.0, "no plan that sheds is written after the end"
    assert [report.sequence for report in bench.reports] == [0, 1, 2, 3]
    assert len(bench.kept(End)) == 1


def test_an_error_is_counted_told_once_and_survived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Query):
        looks = 0

        @property
        def lastProgress(self) -> None:  # noqa: N802 - Spark's name
            self.looks += 1
            self.isActive = self.looks < 4
            if self.looks < 4:
                raise ConnectionError("the server\nis gone")

    monkeypatch.setattr("penstock.spark.guard.controller.RETRY_S", 0.001)
    bench = Bench(tmp_path, Broken())
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.start()
        bench.controller._thread.join(30.0)  # noqa: SLF001 - it ends with the query
    assert bench.controller.errors == 3
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"the controller of query {QUERY} caught an error and continues: ConnectionError: the server is gone"
    ]


def test_a_query_that_never_answers_again_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost(Query):
        @property
        def isActive(self) -> bool:  # noqa: N802 - Spark's name
            raise ConnectionError("no session")

        @isActive.setter
        def isActive(self, value: bool) -> None:  # noqa: N802 - Spark's name
            pass

    monkeypatch.setattr("penstock.spark.guard.controller.RETRY_S", 0.001)
    bench = Bench(tmp_path, Lost())
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.start()
        bench.controller._thread.join(30.0)  # noqa: SLF001 - it ends by itself
    assert not bench.controller.alive
    assert bench.controller.errors == LOST_AFTER
    assert f"query {QUERY} has not answered {LOST_AFTER} times in a row; the guard stops watching it" in caplog.text


@pytest.mark.parametrize("ahead_s", [2 * LEASE_S, -2 * LEASE_S])
def test_clocks_that_differ_by_more_than_a_lease_are_told(
    bench: Bench, caplog: pytest.LogCaptureFixture, ahead_s: float
) -> None:
    bench.overload()
    number = len(bench.query.recentProgress)
    bench.bindings.add(number, Binding(number, QUERY, bench.clock() + ahead_s))
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.batch(3000, plan=NO_PLAN)
    assert "synchronize the clocks of driver and executors" in caplog.text
    assert bench.controller.errors == 1


def test_a_plan_that_an_executor_could_not_read_is_told_whatever_the_batch_was_bound_to(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.overload()
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.batch(3000, plan=UNREADABLE)
    assert "kept every row of a batch because its plan could not be read: see the log of the executors" in caplog.text
    assert bench.controller.errors == 1
    assert bench.reports[-1].plan_version is None
    assert any("its plan could not be read" in alarm for alarm in bench.controller.alarms)
    bench.batch(3000, 400)
    assert not any("could not be read" in alarm for alarm in bench.controller.alarms)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (ELSEWHERE, "executors cannot read the guard's folder: mount the driver's folder there"),
        (UNBOUND, "it could not be bound to a plan: check that the guard's folder has space"),
        (REUSED, "its number was used before with other offsets"),
        (UNKNOWN_RULES, "it was bound by a guard with other settings"),
    ],
)
def test_what_kept_a_batch_from_being_judged_is_an_alarm(bench: Bench, code: int, line: str) -> None:
    bench.batch(300, plan=code)
    assert any(line in alarm for alarm in bench.controller.alarms)
    assert (bench.reports[-1].rows_kept, bench.reports[-1].plan_version) == (300, None)


def test_batches_that_no_plan_judges_while_one_that_sheds_is_in_force_raise_an_alarm(bench: Bench) -> None:
    bench.overload()
    for _ in range(2):
        bench.batch(3000, plan=NO_PLAN)
    assert any("keeps every row although a plan that sheds" in alarm for alarm in bench.controller.alarms)
    bench.batch(3000, 400)
    assert not any("keeps every row although" in alarm for alarm in bench.controller.alarms)


def test_plans_name_their_query(bench: Bench) -> None:
    bench.overload()
    assert {plan.query for plan in bench.plans.plans()} == {QUERY}


def test_another_query_behind_the_same_gate_raises_an_alarm(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    judged = Judged(QUERY, store)
    other = BindingLog(tmp_path / "penstock" / "bindings" / "other")
    BindingLog(tmp_path / "penstock" / "bindings" / QUERY)
    other.add(0, Binding(0, "other", 1.0))  # of a query that has ended

    def look(now_s: float) -> tuple[str, ...]:
        judged.look(NO_PLAN, now_s, None, 0.0)
        judged.look_for_others(now_s)
        return judged.alarms

    assert look(0.0) == look(11.0) == ()
    os.utime(other.folder, (2e9, 2e9))  # as if it had just bound a batch
    assert look(12.0) == (), "looks are rare"
    assert [alarm.split(":")[0] for alarm in look(22.0)] == [
        f"query other reads rows that this guard admits for query {QUERY}"
    ]
    assert len(look(33.0)) == 1
    assert look(99.0) == ()


def test_a_users_callback_that_raises_does_not_stop_the_loop(bench: Bench) -> None:
    def broken(report: Report) -> None:
        raise ZeroDivisionError(report.sequence)

    bench.overload()
    bench.controller._on_report = broken  # noqa: SLF001 - as if it had been so from the start
    with pytest.raises(ZeroDivisionError):
        bench.batch(3000, 400)
    bench.clock.advance(LEASE_S / 2.0)
    bench.controller.step()
    assert bench.since_renewal_s() < 1.0


def test_after_a_batch_without_data_the_history_is_not_fetched_again_and_again(tmp_path: Path) -> None:
    @dataclass
    class Counting(Query):
        fetched: int = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "recentProgress":
                object.__setattr__(self, "fetched", object.__getattribute__(self, "fetched") + 1)
            return object.__getattribute__(self, name)

    query = Counting()
    bench = Bench(tmp_path, query)
    bench.batch(10)
    query.recentProgress.append({**progress(1, bench.clock(), rows=0, kept=0), "observedMetrics": {}})
    bench.controller.step()
    before = query.fetched
    for _ in range(5):
        bench.controller.step()
    assert query.fetched - before == 10  # the two that the last progress takes, each time


def test_rows_that_never_come_to_the_operator_teach_nothing_about_its_costs(bench: Bench) -> None:
    for _ in range(5):
        bench.batch(400)
    known = bench.controller._driver.loop._planner._known  # type: ignore[attr-defined]  # noqa: SLF001 - what it learned
    mean_s, capacity = known.costs.mean_s, known.capacity
    filtered = progress(5, bench.clock(), rows=20, kept=20)
    filtered["observedMetrics"]["probe"]["tasks"] = []
    filtered["durationMs"] = {"triggerExecution": 2000, "addBatch": 1900}
    bench.query.recentProgress.append(filtered)
    bench.controller.step()
    assert bench.reports[-1].busy_s == 0.0
    assert (known.costs.mean_s, known.capacity) == (mean_s, capacity)


def test_more_late_rows_than_the_gate_let_through_are_told(bench: Bench) -> None:
    given = progress(0, bench.clock(), rows=100, kept=10)
    sums = json.loads(given["observedMetrics"]["probe"]["tasks"][0])
    given["observedMetrics"]["probe"]["tasks"] = [json.dumps(sums | {"late": 1})]
    bench.query.recentProgress.append(given)
    with pytest.raises(PenstockError, match="more rows reach the row gate than pass the gate"):
        bench.controller.step()


@pytest.mark.parametrize(
    ("arrival_s", "line"),
    [
        (1_800_000_000.0 + 3600.0, "arrival is ahead of the workers' clock"),
        (1_800_000_000_000.0, "arrival is ahead of the workers' clock"),
        (1000.0, "arrival is more than 30 days old in 10 of 10 rows"),
        (np.nan, "arrival is null in every row"),
        (1_799_999_999.0, None),
    ],
)
def test_times_of_arrival_that_cannot_be_right_are_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture, arrival_s: float, line: str | None
) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        for number in range(3):
            given = progress(number, bench.clock(), rows=10, kept=10)
            given["observedMetrics"]["probe"]["tasks"] = [task(10, bench.clock(), np.full(10, arrival_s))]
            bench.query.recentProgress.append(given)
            bench.controller.step()
            bench.clock.advance(0.5)
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("arrival")]
    assert [one.startswith(line or "-") for one in told] == [True] * bool(line)
    assert [alarm for alarm in bench.controller.alarms if alarm.startswith("arrival")] == told


def unmeasured(number: int, start_s: float, rows: int, **ages: Any) -> dict[str, Any]:
    """A batch of 2 s of which no operator was measured, with what its gate counted of times of arrival."""
    given = progress(number, start_s, rows=rows, kept=rows)
    given["durationMs"] = {"triggerExecution": 2000, "addBatch": 1600}
    del given["observedMetrics"]["probe"]
    counted = {"timed": rows, "ancient": 0, "ahead": 0, "oldest_s": start_s - 4.0, "newest_s": start_s - 1.0}
    counted |= {"kept_timed": rows, "kept_arrival_s": start_s - 3.0, "kept_oldest_s": start_s - 4.0}
    given["observedMetrics"]["gate"] |= counted | ages
    return given


def test_waits_are_told_without_a_measured_operator(bench: Bench) -> None:
    """Rows that are 3 s old on average are taken up 0.4 s later, and then evenly over 1.6 s."""
    bench.query.recentProgress.append(unmeasured(0, bench.clock(), 10, kept_timed=8))
    bench.controller.step()
    report = bench.controller.reports[-1]
    assert report.queuing is not None
    assert (report.queuing.rows, report.rows_untimed) == (8, 2)
    assert report.queuing.mean_s == pytest.approx(3.0 + 0.4 + 0.8, abs=0.01)
    assert report.queuing.max_s == pytest.approx(4.0 + 0.4 + 1.6, abs=0.01)
    assert report.lag_s == pytest.approx(1.0, abs=0.01)
    assert report.backlog_rows == round(10 * 2.0 / 3.0)  # 10 rows came within 3 s
    totals = bench.controller.totals
    assert totals.queued_s / totals.queued_rows == pytest.approx(report.queuing.mean_s)


def test_rows_that_never_come_to_the_measured_operator_waited_for_their_batch(bench: Bench) -> None:
    given = unmeasured(0, bench.clock(), 10)
    given["observedMetrics"]["probe"] = {"tasks": []}
    bench.query.recentProgress.append(given)
    bench.controller.step()
    assert bench.controller.reports[-1].queuing.mean_s == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize(
    ("counted", "line"),
    [
        ({"ahead": 2, "timed": 8}, "arrival is ahead of the workers' clock in 2 of 10 rows"),
        ({"ancient": 10, "timed": 0}, "arrival is more than 30 days old in 10 of 10 rows"),
        ({"timed": 0}, "arrival is null in every row"),
        ({"newest_s": 1_800_000_005.0}, "arrival is up to "),
        ({}, None),
    ],
)
def test_times_of_arrival_that_cannot_be_right_are_told_without_a_measured_operator(
    bench: Bench, counted: dict[str, int], line: str | None
) -> None:
    unknown = {"oldest_s": None, "newest_s": None, "kept_timed": 0, "kept_arrival_s": None, "kept_oldest_s": None}
    ages = counted | (unknown if counted.get("timed") == 0 else {})
    bench.query.recentProgress.append(unmeasured(0, bench.clock(), 10, **ages))
    bench.controller.step()
    told = [alarm for alarm in bench.controller.alarms if alarm.startswith("arrival")]
    assert [one.startswith(line or "-") for one in told] == [True] * bool(line)


def test_in_real_time_mode_rows_may_arrive_after_their_batch_has_begun() -> None:
    offsets = {"latestOffset": {"topic": {"0": 5}}, "endOffset": {"topic": {"0": 9}}}
    given = unmeasured(0, 1_800_000_000.0, 10, ahead=8, timed=2)
    told = [arrival_trouble(Progress.of(given | more), ("gate",), "probe") for more in ({}, {"sources": [offsets]})]
    assert [one is not None for one in told] == [True, False]


def test_a_batch_that_an_earlier_run_had_planned_is_no_reason_to_doubt_the_target(tmp_path: Path) -> None:
    """Its rows waited while the query was stopped; from the second batch on, old rows are told."""
    first = Bench(tmp_path)
    for number in range(5):
        first.query.recentProgress.append(unmeasured(number, first.clock(), 1000))
        first.controller.step()
        first.clock.advance(2.0)
    again = Bench(tmp_path, clock=first.clock)
    again.controller.begin()
    again.clock.advance(60.0)
    for number in (5, 6):
        now_s = again.clock()
        old = {"oldest_s": now_s - 64.0, "newest_s": now_s - 60.0, "kept_arrival_s": now_s - 62.0}
        again.query.recentProgress.append(unmeasured(number, now_s, 1000, **old, kept_oldest_s=now_s - 64.0))
        again.controller.step()
        again.clock.advance(2.0)
        assert any("out of reach" in alarm for alarm in again.controller.alarms) == (number > 5)


def test_an_event_time_an_hour_late_is_told_at_the_first_batch_and_nothing_is_shed(bench: Bench) -> None:
    hour = {"oldest_s": 3602.0, "newest_s": 3600.0, "kept_arrival_s": 3601.0, "kept_oldest_s": 3602.0}
    for number in range(3):
        late = {name: bench.clock() - age_s for name, age_s in hour.items()}
        bench.query.recentProgress.append(unmeasured(number, bench.clock(), 1000, **late))
        bench.controller.step()
        bench.clock.advance(2.0)
        (alarm,) = [alarm for alarm in bench.controller.alarms if "out of reach" in alarm]
        assert "rows are 3600 s old when their batch starts" in alarm
        assert bench.share() == 1.0


def test_a_pause_between_rounds_of_tasks_is_overhead_and_no_lost_capacity(bench: Bench) -> None:
    given = progress(0, bench.clock(), rows=60, kept=60)
    given["durationMs"]["triggerExecution"] = 10_000
    now_s = bench.clock()
    rounds = [task(20, now_s + after_s, np.full(20, now_s - 1.0), cost_s=0.1) for after_s in (1.0, 2.0, 7.0)]
    given["observedMetrics"]["probe"]["tasks"] = rounds
    bench.query.recentProgress.append(given)
    bench.controller.step()
    report = bench.controller.reports[-1]
    # From 1 to 4 s and from 7 to 9 s, two tasks for one second of it.
    assert (report.span_s, report.overhead_s, report.slots) == (pytest.approx(5.0), pytest.approx(5.0), 2)
    assert report.busy_s == pytest.approx(6.0)


def test_rows_of_1970_and_of_the_future_are_counted_and_the_others_waits_stay_right(bench: Bench) -> None:
    given = progress(0, bench.clock(), rows=10, kept=10)
    now_s = bench.clock()
    arrivals_s = [0.0, now_s + 3e8, np.nan, *[now_s - 2.0] * 7]
    given["observedMetrics"]["probe"]["tasks"] = [task(10, now_s, arrivals_s)]
    bench.query.recentProgress.append(given)
    bench.controller.step()
    report = bench.controller.reports[-1]
    assert (report.rows_untimed, report.queuing.rows) == (3, 7)
    assert 2.0 <= report.queuing.mean_s <= 2.0 + 10 * COST_S
    assert report.lag_s < 3.0
    assert bench.controller.alarms[-1].startswith("arrival is ahead of the workers' clock in 1 of 10 rows")


def test_a_batch_that_does_not_end_raises_an_alarm_until_it_does(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.query.status["message"] = "Getting offsets from KafkaV2[Subscribe[in]]"
    with caplog.at_level(logging.WARNING, "penstock"):
        for _ in range(3):
            bench.controller.step()
            bench.clock.advance(STALLED_S / 2.0 + 1.0)
        bench.controller.step()
    since = "since 2027-01-15 08:00:00 UTC"
    assert bench.controller.alarms == (
        f"no batch of query {QUERY} has ended {since}; Spark says: Getting offsets from KafkaV2[Subscribe[in]]",
    )
    assert caplog.text.count("no batch of query") == 1
    bench.batch(10)
    assert bench.controller.alarms == ()
    # Between two triggers nothing is late, nor is the batch that then begins.
    bench.query.status["isTriggerActive"] = False
    bench.clock.advance(2.0 * STALLED_S)
    bench.controller.step()
    bench.query.status["isTriggerActive"] = True
    for waited_s, alarms in ((0.0, 0), (STALLED_S / 2.0, 0), (STALLED_S, 1)):
        bench.clock.advance(waited_s)
        bench.controller.step()
        assert len(bench.controller.alarms) == alarms


def test_a_guard_with_nothing_to_tell_says_that_it_lives_now_and_then(bench: Bench) -> None:
    for _ in range(20):  # batches are sign enough
        bench.clock.advance(0.5 * ALIVE_S)
        bench.batch(10)
    assert bench.kept(Alive) == []
    began_s = bench.clock()
    for _ in range(610):
        bench.clock.advance(0.1)
        bench.controller.step()
    told_s = [line.told_s - began_s for line in bench.kept(Alive)]
    assert told_s == pytest.approx([10.0, 20.0, 30.0, 40.0, 50.0, 60.0], abs=1.0)


def test_an_alarm_that_lasts_is_kept_once(bench: Bench) -> None:
    bench.query.status["message"] = "Processing new data"
    bench.batch(10)
    for _ in range(3600):
        bench.clock.advance(1.0)
        bench.controller.step()
    assert [len(line.alarms) for line in bench.kept(Alarms)] == [1]
    bench.batch(10)
    assert [len(line.alarms) for line in bench.kept(Alarms)] == [1, 0]


def test_numbers_of_an_alarm_and_of_errors_are_kept_once_a_minute_and_at_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.guard.controller.STALLED_S", 1e9)
    for second in range(180):
        bench.controller.alarms = (f"keep matches {second} rows",)
        bench.controller._teller.errors = second  # noqa: SLF001 - as if it had met them
        bench.clock.advance(1.0)
        bench.controller.step()
    # The first, the first with an error, and then as time passes.
    assert [line.errors for line in bench.kept(Alarms)] == [0, 1, 61, 121]
    bench.query.isActive = False
    bench.controller.start()
    bench.controller._thread.join(30.0)  # noqa: SLF001 - it ends by itself
    assert bench.kept(Alarms)[-1].errors == 179


def test_a_line_is_told_once_whatever_its_numbers(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        for rows in (215, 2016):
            bench.controller._teller.tell(f"keep matches {rows} of {rows} rows")  # noqa: SLF001 - one of its alarms
    assert [record.getMessage() for record in caplog.records] == ["keep matches 215 of 215 rows"]


def test_a_function_that_another_guard_measures_is_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    given = progress(0, bench.clock(), rows=10, kept=10)
    given["observedMetrics"]["penstock_probe_other"] = given["observedMetrics"].pop("probe")
    bench.query.recentProgress.append(given)
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.step()
    assert "is measured by another guard: use admit and measured of the same guard" in caplog.text


def test_bindings_and_plans_of_long_ago_are_deleted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.store.retention.BATCHES", 10)
    monkeypatch.setattr("penstock.core.loop.machine.PURGE_EVERY", 5)
    monkeypatch.setattr("penstock.store.retention.NEWEST_PLANS", 1)
    for number in range(41):
        bench.batch(3000, 300 + 200 * (number % 2))
    assert bench.bindings.versions() == list(range(30, 41))
    assert 5 < bench.plans.versions()[0] <= bench.bindings.get(30).plan_version
    assert bench.plans.get(bench.bindings.get(40).plan_version) is not None


def test_batches_of_more_than_a_week_ago_are_deleted_but_for_the_last(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.retention.LEAST_BATCHES", 5)
    monkeypatch.setattr("penstock.core.loop.machine.PURGE_EVERY", 1)
    for number in range(30):  # a batch a day: what a trigger of that length gives
        bench.batch(3000, 300 + 200 * (number % 2))
        bench.clock.advance(24 * 3600.0)
    assert bench.bindings.versions() == list(range(23, 30))
    assert bench.plans.get(bench.bindings.get(23).plan_version) is not None
    assert [report.sequence for report in bench.controller.reports] == list(range(23, 30))
    for number in range(30, 50):  # a batch a month
        bench.batch(3000, 300 + 200 * (number % 2))
        bench.clock.advance(30 * 24 * 3600.0)
    assert bench.bindings.versions() == list(range(44, 50))
    assert all(bench.plans.get(bench.bindings.get(one).plan_version) is not None for one in range(44, 50))


def test_a_batch_without_a_binding_keeps_no_plan_from_being_deleted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.retention.BATCHES", 10)
    monkeypatch.setattr("penstock.core.loop.machine.PURGE_EVERY", 5)
    monkeypatch.setattr("penstock.store.retention.NEWEST_PLANS", 1)
    for number in range(41):
        bench.batch(3000, 300 + 200 * (number % 2))
        if number % 5 == 0:  # no row came, so nothing was judged
            (bench.bindings.folder / f"{number:020d}.binding").unlink()
    assert 5 < bench.plans.versions()[0] <= bench.bindings.oldest().plan_version


def test_an_hour_of_one_batch_writes_no_plan_but_for_decisions(bench: Bench) -> None:
    bench.overload()
    written = bench.plans.versions()
    size = sum(path.stat().st_size for path in bench.plans.folder.iterdir())
    for _ in range(360):
        bench.clock.advance(10.0)
        bench.controller.step()
    assert bench.plans.versions() == written
    assert sum(path.stat().st_size for path in bench.plans.folder.iterdir()) < size + 200
    assert bench.since_renewal_s() <= LEASE_S / 2.0


def test_only_the_last_reports_keep_their_costs_in_memory(bench: Bench) -> None:
    for _ in range(30):
        bench.batch(100)
    kept = [report.sequence for report in bench.controller.reports if report.cost_sketch is not None]
    assert kept == list(range(20, 30))
    assert len(bench.controller.reports) == 30
    assert bench.reports[0].cost_sketch is not None  # who is told of a report gets all of it


def test_a_log_that_cannot_be_written_is_told_and_its_last_plan_runs_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(version: int, given: object) -> bool:  # noqa: ARG001 - as the log's own
        raise PenstockError("the disk is full")

    bench.overload()
    last = bench.plans.latest()
    monkeypatch.setattr(bench.plans, "add", full)
    monkeypatch.setattr(bench.plans, "renew", full)
    monkeypatch.setattr("penstock.spark.guard.controller.RETRY_S", 0.001)
    bench.clock.advance(LEASE_S)
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.start()
        while bench.controller.errors < 3:
            assert bench.controller.alive
        bench.query.isActive = False
        bench.controller.stop()
    assert "caught an error and continues: PenstockError: the disk is full" in caplog.text
    assert bench.plans.latest() == last
    assert bench.since_renewal_s() >= LEASE_S


def test_a_plan_that_could_not_be_written_is_written_when_it_can_be(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.overload()
    add = bench.plans.add

    def full(version: int, plan: Plan) -> bool:  # noqa: ARG001 - as the log's own
        raise PenstockError("the disk is full")

    monkeypatch.setattr(bench.plans, "add", full)
    with pytest.raises(PenstockError):
        bench.batch(20)
    assert bench.share() < 0.5
    monkeypatch.setattr(bench.plans, "add", add)
    for _ in range(4):
        bench.batch(20)
    assert bench.share() == 1.0


def test_who_does_not_understand_the_reports_does_not_renew(bench: Bench) -> None:
    bench.overload()
    torn = progress(3, bench.clock(), rows=100, kept=10)
    torn["observedMetrics"]["probe"]["tasks"] = ["torn"]
    bench.query.recentProgress.append(torn)
    with pytest.raises(ValueError, match="Expecting value"):
        bench.controller.step()
    decided_s = bench.plans.latest().decided_s
    for _ in range(10):
        bench.clock.advance(LEASE_S / 5.0)
        bench.controller.step()
    assert bench.plans.latest().decided_s == decided_s


def test_a_batch_before_one_without_data_is_taken_in(bench: Bench) -> None:
    bench.query.recentProgress.append(progress(0, bench.clock(), rows=10, kept=10))
    bench.query.recentProgress.append({**progress(1, bench.clock(), rows=0, kept=0), "observedMetrics": {}})
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0]


def test_a_query_without_the_gate_is_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bare = progress(0, bench.clock(), rows=5, kept=5)
    bare["observedMetrics"] = {}
    bench.query.recentProgress.append(bare)
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.step()
    assert "has no gate of this guard: put .transform(guard.admit) into it" in caplog.text
    assert (bench.controller.totals.batches_missing, bench.controller.totals.rows_missing) == (1, 5)
    assert bench.controller.alarms == (
        f"the account of query {QUERY} lacks 1 batch (5 rows by Spark's count): see the log for why",
    )


def test_progress_of_spark_connect_reads_the_same(bench: Bench) -> None:
    classic = progress(0, bench.clock(), rows=30, kept=10)
    connect = json.loads(json.dumps(classic))
    connect["numInputRows"] = None
    connect["sources"] = [{"numInputRows": 10}, {"numInputRows": 20}]
    connect["observedMetrics"] = {
        name: {"values": list(row.values()), "schema": {"fields": [{"name": one} for one in row]}}
        for name, row in classic["observedMetrics"].items()
    }

    assert Progress.of(connect) == Progress.of(classic)


def test_in_real_time_mode_lengths_say_nothing_so_a_plan_made_of_them_is_taken_back(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.overload()  # as it looks while rows are read that were there before
    planned, read = {"in": {"0": 10}}, {"in": {"0": 13}}
    real_time = progress(3, bench.clock(), rows=3000, kept=400, plan=bench.plans.latest().version)  # type: ignore[union-attr]
    bench.query.recentProgress.append(real_time | {"sources": [{"latestOffset": planned, "endOffset": read}]})

    bench.controller.step()

    assert bench.share() == 1.0
    for _ in range(3):
        bench.batch(3000)
    assert bench.share() == 1.0
    assert bench.controller.alarms == (REAL_TIME,)
    assert len(bench.reports) == 7
    assert [record.message for record in caplog.records].count(REAL_TIME) == 1


def test_reports_and_alarms_are_kept_beside_the_plans(bench: Bench) -> None:
    bench.overload()
    bench.query.isActive = False
    bench.controller.start()
    bench.controller._thread.join(30.0)  # noqa: SLF001 - it ends by itself
    lines = [line_of(text) for text in Tail(*at(journal_path(bench.folder, QUERY))).news()]
    assert [replace(line, cost_sketch=None) for line in lines if isinstance(line, ps.Report)] == [
        replace(report, cost_sketch=None) for report in bench.reports
    ]
    assert all(line.alarms for line in lines if isinstance(line, Alarms))
    assert isinstance(lines[-1], End)


def test_a_journal_that_cannot_be_written_is_in_nobodys_way(bench: Bench) -> None:
    (bench.folder / "reports").write_text("no folder")
    bench.overload()
    assert len(bench.reports) == 3
    assert bench.controller.errors == 0


def not_run(batch: int, start_s: float, start: int, end: int) -> dict[str, Any]:
    """What Spark tells of a batch that its sink had already: offsets moved on, and nothing was counted."""
    found = progress(batch, start_s, rows=0, kept=0)
    found["observedMetrics"]["gate"] = dict.fromkeys(found["observedMetrics"]["gate"])
    return found | {"sources": [{"numInputRows": 0, "startOffset": start, "endOffset": end}]}


def test_a_replayed_batch_that_spark_does_not_run_again_is_told_to_have_no_report(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.bindings.add(13, Binding(13, QUERY, bench.clock() - 60.0, None))  # by the run that was killed
    bench.query.recentProgress.append(not_run(13, bench.clock(), 115, 117))
    with caplog.at_level(logging.WARNING, "penstock"):
        bench.controller.step()
    bench.query.recentProgress.append(progress(14, bench.clock(), rows=10, kept=10))
    bench.controller.step()
    assert [(line.first, line.last, line.note) for line in bench.kept(Missing)] == [(13, 13, NOT_RUN_AGAIN)]
    assert f"batch 13 of query {QUERY}: no report" in caplog.text
    assert [report.sequence for report in bench.reports] == [14]


@pytest.mark.parametrize(("bound_after_s", "start"), [(0.1, 115), (-60.0, 117)])
def test_a_batch_without_rows_lacks_nothing(bench: Bench, bound_after_s: float, start: int) -> None:
    bench.bindings.add(13, Binding(13, QUERY, bench.clock() + bound_after_s, None))
    bench.query.recentProgress.append(not_run(13, bench.clock(), start, 117))
    bench.controller.step()
    assert bench.kept(Missing) == []


def test_a_replayed_batch_that_runs_again_is_reported(bench: Bench) -> None:
    bench.bindings.add(13, Binding(13, QUERY, bench.clock() - 60.0, None))
    bench.query.recentProgress.append(progress(13, bench.clock(), rows=10, kept=10))
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [13]
    assert bench.kept(Missing) == []


def test_rows_that_only_the_gate_counted_are_reported(bench: Bench) -> None:
    bench.query.recentProgress.append(progress(0, bench.clock(), rows=10, kept=10) | {"numInputRows": 0})
    bench.controller.step()
    assert [report.rows_in for report in bench.reports] == [10]


def test_batches_that_spark_has_forgotten_are_told_to_have_no_report(bench: Bench) -> None:
    bench.batch(10)
    bench.query.recentProgress[:] = [progress(n, bench.clock() + n, rows=10, kept=10) for n in (5, 6)]
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0, 5, 6]
    assert [(line.first, line.last, line.note) for line in bench.kept(Missing)] == [(1, 4, FORGOTTEN)]
    assert bench.controller.totals.batches_missing == 4
    assert bench.controller.alarms == (f"the account of query {QUERY} lacks 4 batches: see the log for why",)
    bench.query.status = {"isDataAvailable": False, "isTriggerActive": False}
    bench.clock.advance(ALARM_S + 1.0)
    bench.controller.step()
    assert bench.controller.alarms == (), "who has not looked for an hour is not helped by it"
    bench.query.recentProgress[:] = [idle(9, bench.clock() + 60.0)]
    bench.controller.step()
    assert bench.controller.totals.batches_missing == 6, "a trigger without data tells how many have run"
    bench.query.recentProgress.append(progress(9, bench.clock() + 61.0, rows=10, kept=10))
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0, 5, 6, 9]
    assert bench.controller.totals.rows_in == 40


def idle(batch: int, start_s: float) -> dict[str, Any]:
    """A trigger that found nothing to do: it has the number of the batch to come, as Spark 4.3 shows it."""
    found = progress(batch, start_s, rows=0, kept=0)
    del found["observedMetrics"]
    return found | {"durationMs": {"latestOffset": 4, "triggerExecution": 5}}


def test_a_batch_behind_triggers_without_data_is_taken_in_once(bench: Bench) -> None:
    spark_tells = bench.query.recentProgress
    start_s = bench.clock()
    for number, one in enumerate(
        [
            idle(0, start_s),
            idle(0, start_s + 10.0),
            progress(0, start_s + 20.0, rows=10, kept=10),
            idle(1, start_s + 30.0),
            progress(1, start_s + 40.0, rows=10, kept=10),
            progress(2, start_s + 41.0, rows=10, kept=10),
            idle(3, start_s + 50.0),
        ]
    ):
        spark_tells.append(one)
        if number != 4:  # between two looks a batch ends, and the next one too
            bench.controller.step()
            bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0, 1, 2]
    assert bench.controller.totals.rows_in == 30
    assert bench.kept(Missing) == []
    assert bench.controller.alarms == ()


def test_a_query_whose_oldest_trigger_found_nothing_is_taken_in_whole(bench: Bench) -> None:
    start_s = bench.clock()
    batches = [progress(number, start_s + 1.0 + number, rows=10, kept=10) for number in range(3)]
    bench.query.recentProgress += [idle(0, start_s), *batches, idle(3, start_s + 20.0)]
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0, 1, 2]


@pytest.mark.parametrize(("operator", "more"), [("Project [row#1L]", 5), ("Generate explode(rows#1)", 0)])
def test_rows_that_spark_has_not_read_are_told_where_none_can_become_two(
    bench: Bench, operator: str, more: int
) -> None:
    lines = (
        "== Analyzed Logical Plan ==",
        f"~CollectMetrics {GATE}x, []",
        f"+- ~{operator}",
        "   +- ~StreamingRelation",
    )
    plan = "\n".join(lines)
    bench.query.explain = lambda extended: print(plan)  # type: ignore[attr-defined]  # noqa: ARG005, T201 - as Spark does
    for number, read in enumerate((10, 20, 5)):
        bench.query.recentProgress.append(
            progress(number, bench.clock() + number, rows=10, kept=10) | {"numInputRows": read}
        )
    bench.controller.step()
    assert bench.controller.totals.rows_unread == more
    told = [alarm for alarm in bench.controller.alarms if "5 rows more than Spark has read" in alarm]
    assert len(told) == bool(more)


def test_batches_that_were_bound_while_nobody_watched_are_told_to_have_no_report(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        bench.batch(10)
    bench.batch(0)  # all its rows were filtered away in front of the gate
    for number in range(4, 7):
        bench.bindings.add(number, Binding(number, QUERY, bench.clock(), None))
    again = Bench(tmp_path)  # the next run
    again.query.recentProgress.append(progress(7, bench.clock() + 60.0, rows=10, kept=10))
    with caplog.at_level(logging.WARNING, "penstock"):
        again.controller.step()
    assert [(line.first, line.last, line.note) for line in again.kept(Missing)] == [(4, 6, NOT_WATCHED)]
    assert f"batches 4 to 6 of query {QUERY}: no report, so totals omit these rows: it ran while" in caplog.text
    assert again.controller.alarms == (f"the account of query {QUERY} lacks 3 batches: see the log for why",)
    once_more = Bench(tmp_path)
    once_more.query.recentProgress.append(progress(8, bench.clock() + 120.0, rows=10, kept=10))
    once_more.controller.step()
    assert once_more.controller.alarms == (), "it is told once"


def test_a_batch_that_ends_between_two_answers_is_reported_once(tmp_path: Path) -> None:
    class Racing(Query):
        hidden = 1

        @property
        def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
            shown = self.recentProgress[: len(self.recentProgress) - self.hidden]
            return shown[-1] if shown else None

    bench = Bench(tmp_path, Racing())
    bench.query.recentProgress += [progress(n, bench.clock() + n, rows=10, kept=10) for n in range(3)]
    bench.controller.step()
    Racing.hidden = 0
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [0, 1, 2]


def test_an_error_over_one_batch_takes_no_report_from_those_behind_it(bench: Bench) -> None:
    torn, *others = (progress(n, bench.clock() + n, rows=10, kept=10) for n in range(3))
    torn["observedMetrics"]["probe"]["tasks"] = ["torn"]
    bench.query.recentProgress += [torn, *others]
    with pytest.raises(ValueError, match="Expecting value"):
        bench.controller.step()
    bench.controller.step()
    assert [report.sequence for report in bench.reports] == [1, 2]
    (missing,) = bench.kept(Missing)
    assert (missing.first, missing.last) == (0, 0)
    assert missing.note.startswith("the guard caught an error in it: ")


def test_a_report_is_handed_on_though_no_plan_can_be_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(version: int, plan: Plan) -> bool:  # noqa: ARG001 - as the log's own
        raise PenstockError("the disk is full")

    bench.overload()
    monkeypatch.setattr(bench.plans, "add", full)
    with pytest.raises(PenstockError):
        bench.batch(20)
    assert [report.sequence for report in bench.reports] == [0, 1, 2, 3]


def test_a_grouping_learns_from_one_of_several_queries(tmp_path: Path) -> None:
    member = ps.Fair("1 s", policy=ps.Balanced()).query("q", key="key", checkpoint=tmp_path)
    ps.grouping.by_cost(partitions=2, guard=member)
    member._gates = {"gate": "source"}  # noqa: SLF001 - as after admit
    given = progress(0, time.time(), rows=100, kept=100)
    given["observedMetrics"]["penstock_probe_q"] = given["observedMetrics"].pop("probe")
    with member.watch(Query(recentProgress=[given])):  # type: ignore[arg-type]
        until_s = time.monotonic() + 10.0
        while not ((plan := member.plans().latest()) and plan.costs_at("grouping")):
            assert time.monotonic() < until_s, "nothing is learned"
            time.sleep(0.02)
