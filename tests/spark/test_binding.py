"""What a batch is judged by, and a task deals by: the same at every try, whatever happens to the log in between."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.control_rows import from_numbers

import penstock as ps
from penstock.core.control.batch_size import SAVED_UP_S
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.gate import KEEP_ALL, scaled
from penstock.core.loop.binding import FIRST_S, START_S, Start
from penstock.core.loop.leases import LEASE_S
from penstock.messages.claim import Claim
from penstock.messages.plan import Binding, Costs, Effect, Fits, KeepTable, Plan
from penstock.spark.checkpoint import planned
from penstock.spark.plans import binding
from penstock.spark.plans.binding import (
    Batch,
    GateOptions,
    bindings_of,
    control_row,
    costs_in_force,
)
from penstock.spark.plans.claim import claim
from penstock.spark.plans.control_row import (
    ANOTHERS,
    ELSEWHERE,
    REUSED,
    UNBOUND,
    UNKNOWN_RULES,
    UNREADABLE,
    UNUSABLE,
)
from penstock.store.logs import BindingLog, PlanLog

COSTS = Costs("deal", 2, (1.0,))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a query in its third batch."""
    monkeypatch.setattr(binding, "_batch", lambda: Batch(3, "query"))
    monkeypatch.setattr(binding, "_RETRY_S", 0.0)
    return str(tmp_path)


def plans(folder: str) -> PlanLog:
    return PlanLog(Path(folder) / "plans")


def add(folder: str, costs: Costs) -> None:
    version = plans(folder).next_version()
    plans(folder).add(version, Plan(version, "by_cost", 0.0, 0, costs=(costs,)))


def in_force(folder: str) -> Costs | None:
    return costs_in_force(GateOptions(folder, "deal"), "deal")


def files(folder: str) -> list[Path]:
    return [path for path in (Path(folder) / "plans").rglob("*") if path.is_file()]


def test_later_plans_change_nothing_for_a_batch(folder: str) -> None:
    assert in_force(folder) is None
    add(folder, COSTS)
    assert in_force(folder) is None


def test_a_plan_that_cannot_be_read_any_more_fails_the_task_rather_than_dealing_otherwise(folder: str) -> None:
    add(folder, COSTS)
    assert in_force(folder) == COSTS
    for path in files(folder):
        path.write_text("{")
    with pytest.raises(ps.PenstockError, match=r"batch 3 cannot be dealt as they were: .* not be read: plan 0 in "):
        in_force(folder)


def test_a_plan_that_could_never_be_read_is_no_plan_for_good(folder: str) -> None:
    add(folder, COSTS)
    (path,) = files(folder)
    whole = path.read_bytes()
    path.write_text("{")
    assert in_force(folder) is None
    path.write_bytes(whole)
    assert in_force(folder) is None


def test_a_folder_made_anew_is_read_anew(folder: str) -> None:
    add(folder, COSTS)
    assert in_force(folder) == COSTS
    for path in files(folder):
        path.unlink()
    other = Costs("deal", 2, (9.0,))
    add(folder, other)
    assert in_force(folder) == other


def bind(folder: str, number: int, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The version of the plan that a batch is bound to."""
    monkeypatch.setattr(binding, "_batch", lambda: Batch(number, "query"))
    control_row(GateOptions(folder, "source"))
    bound = bindings_of(folder, "query").get(number)
    assert bound is not None
    return bound.plan_version


def test_a_plan_that_sheds_acts_as_long_as_its_lease_is_renewed(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, log = time.time(), plans(folder)
    table = KeepTable("source", (0.5,), ("over capacity",))
    log.add(0, Plan(0, "random", now_s - 10 * LEASE_S, 0, gates=(table,)))
    assert bind(folder, 1, monkeypatch) is None
    log.renew(0, now_s)
    assert bind(folder, 2, monkeypatch) == 0
    log.renew(7, now_s)  # another plan's
    assert bind(folder, 3, monkeypatch) is None
    log.renew(0, now_s - 2 * LEASE_S)
    assert bind(folder, 4, monkeypatch) is None
    (log.folder / ".lease").write_bytes(b"torn")
    assert bind(folder, 5, monkeypatch) is None
    assert bind(folder, 2, monkeypatch) == 0  # a replay
    assert log.skipped() == []


def test_a_query_whose_guard_has_stopped_deletes_old_bindings_itself(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.retention.BATCHES", 20)
    monkeypatch.setattr("penstock.store.binder.PURGE_EVERY", 10)
    monkeypatch.setattr("penstock.store.retention.NEWEST_PLANS", 1)
    for version in range(3):
        plans(folder).add(version, Plan(version, "random", 0.0, 0))
    for number in range(95):
        assert bind(folder, number, monkeypatch) == 2
    assert bindings_of(folder, "query").versions() == list(range(70, 95))
    assert plans(folder).versions() == [2]


class Stream:
    """A query's checkpoint as Spark writes it, beside the folder of its guard."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checkpoint, self._monkeypatch = folder, monkeypatch
        (folder / "offsets").mkdir()
        (folder / "metadata").write_text(json.dumps({"id": "query"}))
        self.plans = PlanLog(folder / "penstock" / "plans")
        self._rows = 0

    def plan(self, batch: int, rows: int, planned_s: float) -> None:
        """Spark plans a batch of so many rows."""
        self._rows += rows
        lines = ["v1", json.dumps({"batchTimestampMs": round(1000 * planned_s)})]
        offsets = json.dumps({"rows": self._rows, "start_us": 1})
        (self.checkpoint / "offsets" / str(batch)).write_text("\n".join([*lines, offsets]))

    def share(self, batch: int, start: Start | None, query: str = "query", *, counted: bool = True) -> float:
        """What of a batch fits, as it is bound; its thresholds are lower by as much."""
        start = start and start._replace(counted=counted)
        self._monkeypatch.setattr(binding, "_batch", lambda: Batch(batch, query))
        folder = str(self.checkpoint / "penstock")
        row = from_numbers(control_row(GateOptions(folder, "source", start=start)))
        bound = bindings_of(folder, query).get(batch)
        assert bound is not None
        version = bound.plan_version
        plan = None if version is None else self.plans.get(version)
        table = plan.gate("source") if plan else None
        limit = KEEP_ALL if table is None else round(2**63 * table.keep[0]) - 8
        expected = scaled(np.array([limit]), bound.share)[0]
        assert row.limits == (int(expected),) * BUCKETS
        return bound.share


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(tmp_path, monkeypatch)


def test_a_rate_is_held_from_the_first_batch_on(stream: Stream) -> None:
    now_s = time.time()
    start = Start(now_s - 2.0, rows_per_s=50.0)
    stream.plan(0, 20_000, now_s)
    stream.plan(1, 10_000, now_s + 1.5)
    stream.plan(2, 60, now_s + 3.5)
    assert stream.share(0, start) == pytest.approx(2.0 * 50.0 / 20_000, rel=1e-3), "the time since the gate was made"
    assert stream.share(1, start) == pytest.approx(1.5 * 50.0 / 10_000, rel=1e-3)
    assert stream.share(2, start) == 1.0
    assert stream.share(0, start._replace(rows_per_s=1.0)) == pytest.approx(100.0 / 20_000, rel=1e-3), "it is bound"
    stream.plan(3, 10_000, now_s + 5.5)
    stream.plans.add(0, Plan(0, "p", now_s, 0, gates=(KeepTable("source", (0.5,), ("over",)),), fits=Fits(100.0)))
    assert stream.share(3, start) == pytest.approx(200.0 / 10_000, rel=1e-3), "by the plan, which keeps half"


def test_a_rate_is_held_no_longer_when_nobody_watches(stream: Stream) -> None:
    now_s = time.time()
    long_ago = Start(now_s - START_S - 10.0, rows_per_s=50.0)
    stream.plan(0, 20_000, now_s)
    stream.plan(1, 10_000, now_s + 1.0)
    stream.plan(2, 10_000, now_s + 2.0)
    assert stream.share(0, long_ago) == pytest.approx(FIRST_S * 50.0 / 20_000)
    assert stream.share(1, long_ago) == 1.0
    stream.plans.add(0, Plan(0, "p", now_s - 2.0 * LEASE_S, 0, fits=Fits(50.0)))
    assert stream.share(2, long_ago) == 1.0
    stream.plan(3, 10_000, now_s + 3.0)
    stream.plans.renew(0, now_s)
    assert stream.share(3, long_ago) == pytest.approx(50.0 / 10_000)


def test_a_backlog_that_can_be_worked_off_is_kept_and_one_of_an_overload_is_cut_to_what_fits(stream: Stream) -> None:
    """The first batch after 300 s, by what the last run found to fit."""
    now_s = time.time()
    stream.plans.add(0, Plan(0, "p", now_s - 1000.0, 0, fits=Fits(rows_per_s=500.0, rows=900.0)))
    start = Start(now_s - 2.0)
    stream.plan(6, 100, now_s - 300.0)
    stream.plan(7, 31_433, now_s)
    assert stream.share(7, start) == 1.0
    stream.plan(8, 600_000, now_s + 10.0)
    assert stream.share(8, Start(now_s + 5.0)) == pytest.approx(900.0 / 600_000)
    stream.plan(9, 600_000, now_s + 20.0)
    assert stream.share(9, Start(now_s + 5.0)) == 1.0, "a later batch goes by a plan that is renewed, or by none"


def test_a_batch_that_an_earlier_run_planned_is_not_shed_whole(stream: Stream) -> None:
    now_s = time.time()
    start = Start(now_s, rows_per_s=50.0)
    stream.plan(0, 100, now_s - 61.0)
    stream.plan(1, 20_000, now_s - 60.0)
    stream.plan(2, 20_000, now_s - 70.0)
    assert stream.share(1, start) == pytest.approx(FIRST_S * 50.0 / 20_000)
    assert stream.share(2, start._replace(since_s=now_s - 80.0)) == 1.0, "the clock was set back"


def test_rows_that_offsets_do_not_count_are_not_cut(stream: Stream) -> None:
    """A filter in front of the gate, say: of 10,000 rows that were read, 100 may come to it."""
    now_s = time.time()
    stream.plan(0, 100, now_s)
    stream.plan(1, 10_000, now_s + 1.0)
    assert stream.share(1, Start(now_s - 2.0, rows_per_s=50.0), counted=False) == 1.0


def test_rows_are_counted_by_what_was_learned_of_offsets(stream: Stream) -> None:
    """A filter in front of the gate, or a compacted topic: a quarter of the offsets are rows of the gate."""
    now_s = time.time()
    fits = Fits(rows_per_s=500.0, rows=900.0)
    stream.plans.add(0, Plan(0, "p", now_s, 0, fits=fits, query="query", rows_per_offset=0.25))
    stream.plan(0, 100, now_s)
    stream.plan(1, 3_000, now_s + 1.0)
    stream.plan(2, 36_000, now_s + 2.0)
    assert stream.share(1, Start(now_s - 2.0)) == 1.0, "750 rows"
    assert stream.share(2, Start(now_s - 2.0), counted=False) == pytest.approx(0.1), "9,000 rows, of which 900 fit"


def test_a_rate_is_not_saved_up_through_a_lull(stream: Stream) -> None:
    now_s = time.time()
    start = Start(now_s - 1000.0, rows_per_s=50.0)
    stream.plans.add(0, Plan(0, "p", now_s, 0, fits=Fits(50.0)))
    (stream.checkpoint / "commits").mkdir()
    for batch, planned_s in enumerate((0.0, 1.0, 601.0, 661.0, 721.0, 722.0, 762.0)):
        stream.plan(batch, 100_000, now_s - 900.0 + planned_s)
    for batch, done_s in enumerate((1.0, 2.0, 602.0, 662.0, 722.0, 760.0)):
        commit = stream.checkpoint / "commits" / str(batch)
        commit.touch()
        os.utime(commit, (now_s - 900.0 + done_s,) * 2)
    rate = 50.0 / 100_000
    assert stream.share(2, start) == pytest.approx((1.0 + SAVED_UP_S) * rate, rel=1e-3), "600 s without a row"
    assert stream.share(4, start) == pytest.approx(60.0 * rate, rel=1e-3), "a trigger of 60 s"
    assert stream.share(6, start) == pytest.approx(40.0 * rate, rel=1e-3), "a batch that took 38 s"


def test_a_rate_ends_with_the_plan_of_a_guard_that_was_stopped(stream: Stream) -> None:
    now_s = time.time()
    start = Start(now_s - 2.0, rows_per_s=50.0)
    stream.plan(0, 100, now_s - 1.0)
    stream.plan(1, 10_000, now_s)
    stream.plans.add(0, Plan.keep_all(0, "p", now_s))
    assert stream.share(1, start) == 1.0


def test_a_plan_that_is_written_while_a_batch_is_bound_is_for_the_next_batch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    start = Start(now_s - 10.0)
    stream.plan(0, 100, now_s - 1.0)
    stream.plan(1, 10_000, now_s)
    stream.plans.add(0, Plan(0, "p", now_s, 0, fits=Fits(rows_per_s=5_000.0, rows=5_000.0)))

    def meanwhile(*given: Any, **more: Any) -> Any:
        stream.plans.add(1, Plan(1, "p", now_s, 0, fits=Fits(rows_per_s=10.0, rows=10.0)))
        return planned(*given, **more)

    monkeypatch.setattr(binding, "planned", meanwhile)
    assert stream.share(1, start) == pytest.approx(0.5)


def test_what_fits_a_plan_that_sheds_is_less_where_it_no_longer_does(stream: Stream) -> None:
    now_s = time.time()
    gates = (KeepTable("source", (0.1,), ("over",)),)
    plan = Plan(0, "p", now_s - 1000.0, 0, gates, expected=Effect(0.1), fits=Fits(rows_per_s=500.0, rows=900.0))
    stream.plans.add(0, plan)
    stream.plan(6, 100, now_s - 300.0)
    stream.plan(7, 31_433, now_s)
    assert stream.share(7, Start(now_s - 2.0)) == pytest.approx(90.0 / 31_433)


def test_a_second_reader_of_a_gate_loses_no_backlog(stream: Stream) -> None:
    thin = Start(time.time(), fresh_s=1.0)
    assert stream.share(0, thin, query="another") == 1.0
    bound = bindings_of(stream.checkpoint / "penstock", "another").get(0)
    assert bound is not None
    assert bound.backlog is None
    assert stream.share(0, thin) == 1.0
    bound = bindings_of(stream.checkpoint / "penstock", "query").get(0)
    assert bound is not None
    assert bound.backlog is not None


def test_what_is_not_known_thins_nothing(stream: Stream) -> None:
    now_s = time.time()
    stream.plans.add(0, Plan(0, "p", now_s, 0, fits=Fits(rows_per_s=1.0, rows=1.0)))
    stream.plan(3, 100, now_s)
    stream.plan(4, 100, now_s + 1.0)
    start = Start(now_s - 5.0)
    assert stream.share(3, start) == 1.0, "the batch before it is not known"
    assert stream.share(4, start, query="another") == 1.0, "these are not the offsets of that query"
    assert stream.share(4, None) == 1.0
    stream.plan(5, 100, now_s + 2.0)
    (stream.checkpoint / "offsets" / "5").write_text("v1\n{}\n")
    assert stream.share(5, start) == 1.0
    stream.plan(6, 100, now_s + 3.0)
    stream.plan(7, 100, now_s + 4.0)
    assert stream.share(7, start) == pytest.approx(0.01)


def shedding(folder: str, query: str = "") -> None:
    """A plan that sheds half of all rows, for one query or for any."""
    version, table = plans(folder).next_version(), KeepTable("source", (0.5,), ("over capacity",))
    plans(folder).add(version, Plan(version, "random", time.time(), 0, gates=(table,), query=query))


def judged_by(options: GateOptions) -> tuple[int, bool, int]:
    """What the control row has in place of a version, whether it keeps everything, and the place of the rules."""
    row = from_numbers(control_row(options))
    return row.version, set(row.limits) == {KEEP_ALL}, row.rules


def test_a_plan_acts_on_its_own_query_alone(folder: str) -> None:
    options = GateOptions(folder, "source")
    shedding(folder, "another")
    assert judged_by(options) == (ANOTHERS, True, 0)
    assert costs_in_force(options, "deal") is None
    assert judged_by(options) == (ANOTHERS, True, 0), "the same at a replay"


@pytest.mark.parametrize("query", ["", "query"])
def test_a_plan_of_its_own_or_of_no_query_acts(folder: str, query: str) -> None:
    shedding(folder, query)
    assert judged_by(GateOptions(folder, "source")) == (0, False, 0)


def test_a_folder_that_is_not_the_drivers_is_told_and_not_made(folder: str) -> None:
    missing = GateOptions(f"{folder}/missing", "source", store="id")
    assert judged_by(missing) == (ELSEWHERE, True, 0)
    with pytest.raises(ps.PenstockError, match=r"batch 3 cannot be dealt .*executors cannot read .*/missing: mount"):
        costs_in_force(missing, "deal")
    assert not Path(missing.folder).exists()

    shedding(folder)
    assert judged_by(GateOptions(folder, "source", store="id")) == (ELSEWHERE, True, 0)
    identity = claim(Path(folder), Claim("guard"))
    assert claim(Path(folder), Claim("guard")) == identity
    assert judged_by(GateOptions(folder, "source", store=identity)) == (0, False, 0)


def test_a_batch_that_cannot_be_bound_is_not_judged_by_a_plan(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shedding(folder)

    def full(*_: object) -> bool:
        raise ps.PenstockError("No space left on device")

    options = GateOptions(folder, "source")
    with monkeypatch.context() as patch:
        patch.setattr(BindingLog, "add", full)
        assert judged_by(options) == judged_by(options) == (UNBOUND, True, 0)
        with pytest.raises(ps.PenstockError, match=r"batch 3 cannot be dealt .*: No space left on device"):
            costs_in_force(options, "deal")
    assert judged_by(options) == (0, False, 0)


def test_a_bound_plan_that_cannot_be_read_is_not_one_that_never_could(folder: str) -> None:
    shedding(folder)
    options = GateOptions(folder, "source")
    assert judged_by(options) == (0, False, 0)
    for path in files(folder):
        path.write_text("{")
    assert judged_by(options) == (UNREADABLE, True, 0)
    (Path(folder) / "bindings" / "query" / f"{3:020d}.binding").unlink()
    assert judged_by(options) == (UNUSABLE, True, 0)
    bound = bindings_of(folder, "query").get(3)
    assert bound is not None
    assert "plan 0 cannot be read" in bound.note


def test_a_batch_has_the_rules_that_it_was_bound_under(folder: str) -> None:
    shedding(folder)
    assert judged_by(GateOptions(folder, "source", rules=((7, 0),))) == (0, False, 0)
    assert judged_by(GateOptions(folder, "source", rules=((8, 0), (7, 1)))) == (0, False, 1)
    assert judged_by(GateOptions(folder, "source", rules=((8, 0),))) == (UNKNOWN_RULES, True, 0)


def test_a_binding_without_rules_means_those_of_now(folder: str) -> None:
    shedding(folder)
    bindings_of(folder, "query").add(3, Binding(3, "query", 1.0, 0))
    assert judged_by(GateOptions(folder, "source", rules=((8, 0),))) == (0, False, 0)


def test_offsets_that_are_not_those_of_the_binding_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_batch", lambda: Batch(3, "query"))
    offsets, folder = tmp_path / "offsets" / "3", str(tmp_path / "penstock")
    offsets.parent.mkdir()
    offsets.write_text('v1\n{"batchTimestampMs":1}\n{"topic":{"0":70}}')
    shedding(folder)
    options = GateOptions(folder, "source")
    assert judged_by(options) == (0, False, 0)
    offsets.write_text('v1\n{"batchTimestampMs":2}\n{"topic":{"0":70}}')  # planned at another time, for the same rows
    assert judged_by(options) == (0, False, 0)
    offsets.write_text('v1\n{"batchTimestampMs":2}\n{"topic":{"0":71}}')
    assert judged_by(options) == (REUSED, True, 0)
