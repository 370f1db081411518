"""The guard on real Spark: verdicts, accounts, modes, replays, and what happens when something breaks."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.compute as functions_of_arrow
import pyarrow.parquet as pq
import pytest
from tests.spark.by_hand import put
from tests.spark.quarantined import SALT, Silent
from tests.spark.rows import from_files
from tests.spark.until_read import until_read

import penstock as ps
from penstock import baselines, logs
from penstock.core.control.backlog import age_thresholds
from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.gate import TOO_OLD, coins, gate_salt, judge
from penstock.core.control.memory import from_text
from penstock.core.control.planner import RECALLED, SOURCE
from penstock.core.hashing import xxhash64, xxhash64_ints
from penstock.core.loop.leases import LEASE_S
from penstock.core.rate_profile import RateProfile
from penstock.messages.plan import Backlog, Binding, KeepTable, Plan
from penstock.spark.guard.batches import NOT_RUN_AGAIN
from penstock.spark.plans.binding import bindings_of
from penstock.spark.probe.row_gate import TOO_LATE
from penstock.spark.source import Population
from penstock.store.journal import Tail, at
from penstock.store.report_log import Missing, journal_path, line_of

functions = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from penstock.store.logs import BindingLog

TARGET = ps.MeanQueueLatency("1 h")
ROWS, BATCH = 2000, 1000
COIN_SALT = gate_salt(SALT, "guard")
RESULT = "row bigint, key bigint, weight double, value double"
KEEP = (0.1, 0.9, 0.0, 1.0, 0.5, 0.3, 0.7, 0.2)
TABLE = KeepTable(
    SOURCE, keep=KEEP, reasons=tuple(f"reason {number % 3}" if share < 1 else "" for number, share in enumerate(KEEP))
)


def guard(folder: Path, **settings: Any) -> ps.Guard:
    given = {"key": "key", "row": "row", "checkpoint": folder / "checkpoint"} | settings
    return ps.Guard(given.pop("target", TARGET), given.pop("policy", Silent()), **given)


def put_plan(of: ps.Guard, table: KeepTable | None = TABLE, *, age_s: float = 0.0) -> Plan:
    plans = of.plans()
    version = plans.next_version()
    plan = Plan(version, "by hand", time.time() - age_s, SALT, gates=() if table is None else (table,))
    if age_s:
        assert plans.add(version, plan)
        return plan
    return put(plans, plan)


def source(spark: SparkSession, into: Path | None = None, **options: object) -> DataFrame:
    return from_files(spark, into, **{"rate": 1000, "available": ROWS, "rows_per_batch": BATCH} | options)


def start(df: DataFrame, folder: Path) -> StreamingQuery:
    writer = df.writeStream.format("parquet").option("path", str(folder / "sink"))
    return until_read(writer.option("checkpointLocation", str(folder / "checkpoint")))


def run(df: DataFrame, folder: Path, watching: ps.Guard | None = None) -> StreamingQuery:
    query = start(df, folder)
    if watching is not None:
        watching.watch(query)
    query.awaitTermination()
    if watching is not None:
        deadline_s = time.monotonic() + 30.0
        while watching.watching and time.monotonic() < deadline_s:
            time.sleep(0.05)
    return query


def until(done: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def bindings(of: ps.Guard, query: StreamingQuery) -> BindingLog:
    return bindings_of(of.folder, str(query.id))


def sink(folder: Path) -> pa.Table:
    return pq.read_table([str(path) for path in (folder / "sink").glob("*.parquet")]).sort_by("row")


def passed_on(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("row", "key", "weight", "value")}


def numpy_verdicts(rows: int = ROWS, table: KeepTable = TABLE) -> tuple[Any, Any]:
    numbers = np.arange(rows)
    keys = Population().batch(numbers, numbers)["key"].to_numpy()
    return keys, judge(table, key_hashes=xxhash64_ints(keys), coins=coins(COIN_SALT, numbers), must_keep=keys == 3)


def test_a_stream_keeps_the_rows_that_numpy_keeps_with_the_same_weights_and_accounts_for_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = guard(tmp_path, keep="key = 3")
    put_plan(own)
    run(source(spark).transform(own.admit).transform(own.measured(passed_on, RESULT, form="row")), tmp_path, own)

    keys, verdicts = numpy_verdicts()
    found = sink(tmp_path)
    assert np.array_equal(found["row"].to_numpy(), np.flatnonzero(verdicts.kept))
    assert np.array_equal(found["weight"].to_numpy(), verdicts.weights[verdicts.kept])
    reports = own.history()
    assert sum(report.rows_in for report in reports) == ROWS
    assert [report.rows_in for report in reports] == [BATCH] * (ROWS // BATCH)
    for report in reports:
        assert report.plan_version == 0
        assert report.queuing is not None
        assert report.busy_s > 0
    assert sum(report.rows_kept for report in reports) == verdicts.kept.sum()
    assert sum(report.rows_must_keep for report in reports) == (keys == 3).sum()
    shed: dict[str, int] = {}
    for report in reports:
        for reason, rows in report.rows_shed.items():
            shed[reason] = shed.get(reason, 0) + rows
    assert shed == verdicts.shed_by_reason(TABLE)
    assert own.errors == 0
    with urlopen(f"http://127.0.0.1:{own.serve_metrics(port=0)}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    assert f'penstock_rows_in_total{{guard="guard"}} {float(ROWS)}' in metrics
    for reason, rows in shed.items():
        assert f'penstock_rows_shed_total{{guard="guard",reason="{reason}"}} {float(rows)}' in metrics
    own.stop()


def test_a_plan_written_while_the_query_runs_acts_from_the_next_batch_on(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path)
    nothing = KeepTable(SOURCE, keep=(0.0,), reasons=("none",))

    def once(row: dict[str, Any]) -> dict[str, Any]:
        if row["row"] == 0:
            log = logs.PlanLog(tmp_path / "checkpoint" / "penstock" / "plans")
            log.add(0, Plan(0, "by hand", time.time(), SALT, gates=(nothing,)))
        return passed_on(row)

    query = run(source(spark).transform(own.admit).transform(own.measured(once, RESULT, form="row")), tmp_path)

    assert sink(tmp_path)["row"].to_pylist() == list(range(BATCH))
    versions = [binding.plan_version for binding in bindings(own, query).entries()]
    assert versions == [None, 0]


def undo_last_batch(folder: Path) -> int:
    """As if the driver had died in the last batch, before it was committed; its number."""
    last = max(
        (path for path in (folder / "checkpoint" / "commits").iterdir() if path.name.isdigit()),
        key=lambda p: int(p.name),
    )
    last.unlink()
    batch_log = folder / "sink" / "_spark_metadata" / last.name
    lost = [json.loads(line)["path"].removeprefix("file://") for line in batch_log.read_text().splitlines()[1:]]
    batch_log.unlink()
    for file in lost:
        Path(file).unlink()
    for crc in (folder / "checkpoint" / "commits", folder / "sink" / "_spark_metadata"):
        (crc / f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)


def test_a_replayed_batch_is_judged_by_the_plan_of_its_first_attempt(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path)
    put_plan(own)
    pipeline = source(spark).transform(own.admit).select("row", "weight")
    run(pipeline, tmp_path)
    before = sink(tmp_path)
    last = undo_last_batch(tmp_path)
    put_plan(own, None)  # Meanwhile there is another plan.

    query = run(pipeline, tmp_path)

    after = sink(tmp_path)
    assert after.equals(before)
    assert bindings(own, query).get(last).plan_version == 0


def test_a_query_that_is_started_again_goes_on_from_what_its_last_plan_remembers(
    spark: SparkSession, tmp_path: Path
) -> None:
    def started(available: int) -> tuple[ps.Guard, StreamingQuery]:
        guarding = guard(tmp_path, policy=ps.LoadAware(), target=ps.MeanQueueLatency("1 s"))
        rows = source(spark, into=tmp_path / "in", available=available, rate=100_000).transform(guarding.admit)
        return guarding, run(rows.transform(guarding.measured(passed_on, RESULT, form="row")), tmp_path, guarding)

    first, query = started(ROWS)
    remembered = first.plans().latest()
    assert remembered is not None
    learned = from_text(remembered.memory)["known"]
    journal_path(first.folder, str(query.id)).unlink()  # Nothing but the plan says what was learned.
    second, _ = started(ROWS + BATCH)
    recalled = second.plans().get(remembered.version + 1)
    assert recalled is not None
    assert (recalled.note, recalled.gates) == (RECALLED, ())
    assert recalled.fits is not None
    again = from_text(recalled.memory)["known"]
    assert [again[name] for name in ("costs", "_time", "recent")] == [
        learned[name] for name in ("costs", "_time", "recent")
    ]
    assert sum(report.rows_in for report in second.history()) == BATCH


def test_a_batch_that_its_sink_had_before_the_query_was_killed_is_told_to_have_no_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = guard(tmp_path)
    pipeline = source(spark, available=2 * BATCH).transform(own.admit).select("row", "weight")
    query = run(pipeline, tmp_path, own)
    assert [report.sequence for report in own.history()] == [0, 1]
    for name in ("1", ".1.crc"):  # killed after the sink had noted the batch, before Spark had
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)

    run(pipeline, tmp_path, own)

    lines = [line_of(text) for text in Tail(*at(journal_path(own.folder, str(query.id)))).news()]
    missing = [(line.first, line.last, line.note) for line in lines if isinstance(line, Missing)]
    assert missing == [(1, 1, NOT_RUN_AGAIN)]
    assert own.history() == []
    assert own.errors == 0
    assert sink(tmp_path)["row"].to_pylist() == list(range(2 * BATCH))


def test_batches_behind_triggers_without_data_are_in_the_account(spark: SparkSession, tmp_path: Path) -> None:
    def put(number: int) -> None:
        lines = "\n".join(
            json.dumps({"row": row, "key": row % 7}) for row in range(number * BATCH, (number + 1) * BATCH)
        )
        (tmp_path / "file").write_text(lines)
        (tmp_path / "file").rename(tmp_path / "in" / f"{number}.json")

    def idle(query: StreamingQuery, batch: int) -> bool:
        return any(one["batchId"] == batch and "addBatch" not in one["durationMs"] for one in query.recentProgress)

    (tmp_path / "in").mkdir()
    own = guard(tmp_path)
    put_plan(own)
    rows = spark.readStream.schema("row bigint, key bigint").json(str(tmp_path / "in"))
    timed = rows.withColumn("arrival", functions.current_timestamp())
    before = spark.conf.get("spark.sql.streaming.noDataProgressEventInterval")
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100ms")
    try:
        writer = timed.transform(own.admit).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        with own.watch(query):
            for number in range(3):
                until(lambda number=number: idle(query, number))
                put(number)
                query.processAllAvailable()
            query.stop()
            until(lambda: not own.watching)
    finally:
        spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", before)
    assert [(report.sequence, report.rows_in) for report in own.history()] == [(0, BATCH), (1, BATCH), (2, BATCH)]
    assert own.totals.rows_shed.total() > 0
    assert own.totals.batches_missing == 0
    assert own.alarms == ()


def test_a_backlog_is_kept_whole_unless_told_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    def later(rows: int) -> list[ps.Report]:
        """A run that finds so many rows, most of them from while it was stopped."""
        own = guard(tmp_path, target=ps.MeanQueueLatency("2 s"))
        old = source(spark, into=tmp_path / "in", start=start_s, available=rows, rows_per_batch=rows)
        run(old.transform(own.admit).select("row", "weight"), tmp_path, own)
        return own.history()

    start_s = time.time() - 4000.0
    assert [(report.rows_in, report.rows_kept) for report in (*later(500), *later(ROWS))] == [(500, 500), (1500, 1500)]
    found = sink(tmp_path)
    assert found["row"].to_pylist() == list(range(ROWS))
    assert set(found["weight"].to_pylist()) == {1.0}


def test_rows_older_than_a_row_can_be_are_not_thinned_for_it(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path, target=ps.MeanQueueLatency("2 s"), arrival="happened", backlog="thin")
    events = source(spark).withColumn("happened", functions.lit("2001-09-09 01:46:40").cast("timestamp"))
    gated = events.transform(own.admit).transform(own.measured(passed_on, RESULT, form="row"))
    run(gated, tmp_path, own)
    assert sink(tmp_path).num_rows == ROWS
    assert any(alarm.startswith("arrival is more than 30 days old in") for alarm in own.alarms)


def test_a_backlog_at_the_start_is_thinned_by_age_as_numpy_thins_it_and_is_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"keep": "key = 3", "policy": ps.LoadAware(seed=SALT), "backlog": "thin"}
    own = guard(tmp_path, target=ps.MeanQueueLatency("2 s"), **settings)
    start_s = time.time() - 4000.0
    # One row a millisecond, all older than an hour.
    day = source(spark, start=start_s, available=4 * BATCH).transform(own.admit)
    query = run(day.transform(own.measured(passed_on, RESULT, form="row")), tmp_path, own)

    first, bound = own.history()[0], bindings(own, query).get(0)
    assert (bound.plan_version, bound.backlog) == (None, Backlog(grace_s=30.0, fresh_s=2.0))
    after_s = RateProfile.constant(1000).arrival_s(np.arange(BATCH))
    arrivals_s = (round(start_s * 1e6) + (after_s * 1e6).astype(np.int64)) / 1e6
    keys, everything = (
        Population().batch(np.arange(BATCH), np.arange(BATCH))["key"].to_numpy(),
        KeepTable(SOURCE, keep=(1.0,), reasons=("",)),
    )
    verdicts = judge(
        everything,
        key_hashes=xxhash64_ints(keys),
        coins=coins(COIN_SALT, np.arange(BATCH)),
        must_keep=keys == 3,
        by_age=age_thresholds(bound.backlog, arrivals_s, bound.bound_s),
    )
    found = sink(tmp_path)
    kept = found.filter(functions_of_arrow.less(found["row"], BATCH))
    assert np.array_equal(kept["row"].to_numpy(), np.flatnonzero(verdicts.kept))
    assert np.array_equal(kept["weight"].to_numpy(), verdicts.weights[verdicts.kept])
    assert verdicts.weights.max() > 1000.0, "an old row must be among them, or its weight was not looked at"
    assert dict(first.rows_shed) == verdicts.shed_by_reason(everything) == {TOO_OLD: first.rows_in - first.rows_kept}
    assert first.rows_kept < BATCH / 10
    told = f"{first.rows_shed[TOO_OLD]} of {BATCH} rows of batch 0 were {TOO_OLD} and were shed"
    assert any(record.getMessage().startswith(told) for record in caplog.records)
    assert [one.backlog for one in bindings(own, query).entries()] == [bound.backlog, None, None, None]
    # What follows is judged by plans that know what rows cost.
    assert own.history()[-1].plan_version is not None


def test_a_rate_is_held_from_the_first_batch_on_as_numpy_holds_it(spark: SparkSession, tmp_path: Path) -> None:
    def once(rows: int) -> tuple[ps.Guard, list[Binding]]:
        own = guard(tmp_path, target=ps.Throughput(20), keep="key = 3", quarantine=tmp_path / "shed")
        # What is held by its rate asks the source for the number of rows that wait.
        found = spark.readStream.format("penstock").options(available=rows, rows_per_batch=BATCH).load()
        gated = found.transform(own.admit).select("row", "weight")
        query = run(gated, tmp_path, own)
        return own, list(bindings(own, query).entries())

    begin_s = time.time()
    own, bound = once(2 * BATCH)
    elapsed_s = time.time() - begin_s
    keys, everything = (
        Population().batch(np.arange(2 * BATCH), np.arange(2 * BATCH))["key"].to_numpy(),
        KeepTable(SOURCE, keep=(1.0,), reasons=("",)),
    )
    found = sink(tmp_path)
    for binding in bound:
        assert binding.share < 0.5
        rows = np.arange(binding.batch * BATCH, (binding.batch + 1) * BATCH)
        kept = found.filter(pa.array((found["row"].to_numpy() // BATCH) == binding.batch))
        verdicts = judge(
            everything,
            key_hashes=xxhash64_ints(keys[rows]),
            coins=coins(COIN_SALT, rows),
            must_keep=keys[rows] == 3,
            share=binding.share,
        )
        assert np.array_equal(kept["row"].to_numpy(), rows[verdicts.kept])
        assert np.array_equal(kept["weight"].to_numpy(), verdicts.weights[verdicts.kept])
        assert dict(own.history()[binding.batch].rows_shed) == verdicts.shed_by_reason(everything)
    assert sum(BATCH * binding.share for binding in bound) <= 20.0 * elapsed_s
    shed = pq.read_table(tmp_path / "shed")
    assert set(shed["penstock_reason"].to_pylist()) == {TOO_MANY}
    assert sorted([*found["row"].to_pylist(), *shed["row"].to_pylist()]) == list(range(2 * BATCH))
    undo_last_batch(tmp_path)
    assert (once(2 * BATCH)[1], sink(tmp_path)) == (bound, found), "a replay is judged alike"


def test_a_backlog_that_is_replayed_later_is_thinned_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    start_s = time.time() - 100.0  # young enough for a second to make a difference

    def once() -> tuple[pa.Table, list[Binding]]:
        own = guard(tmp_path, target=ps.MeanQueueLatency("20 s"), backlog="thin")
        rows = source(spark, into=tmp_path / "in", start=start_s, rows_per_batch=ROWS)
        query = run(rows.transform(own.admit).select("row", "weight"), tmp_path)
        return sink(tmp_path), list(bindings(own, query).entries())

    found, (bound,) = once()
    assert bound.backlog is not None
    assert 0 < found.num_rows < ROWS / 2
    undo_last_batch(tmp_path)
    time.sleep(1.0)  # by the clock its rows are older now
    assert once() == (found, [bound])


def test_a_replayed_batch_does_not_count_as_the_first_one_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    start_s = time.time() - 4000.0

    def once(rows: int) -> list[Binding]:
        own = guard(tmp_path, target=ps.MeanQueueLatency("2 s"), backlog="thin")
        found = source(spark, into=tmp_path / "in", start=start_s, available=rows)
        query = run(found.transform(own.admit).select("row", "weight"), tmp_path)
        return list(bindings(own, query).entries())

    first = once(BATCH)
    undo_last_batch(tmp_path)
    assert [binding.backlog is not None for binding in once(3 * BATCH)] == [True, True, False]
    assert once(3 * BATCH)[0] == first[0]


def test_a_dry_run_keeps_every_row_and_tags_what_would_have_been_shed(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path, mode="dry_run", keep="key = 3")
    put_plan(own)
    run(source(spark).transform(own.admit).select("row", "weight", "penstock_would_shed"), tmp_path, own)

    _, verdicts = numpy_verdicts()
    found = sink(tmp_path)
    assert found["row"].to_pylist() == list(range(ROWS))
    assert set(found["weight"].to_pylist()) == {1.0}
    assert np.array_equal(found["penstock_would_shed"].to_numpy(), ~verdicts.kept)
    reports = own.history()
    assert sum(report.rows_kept for report in reports) == ROWS
    assert sum(sum(report.rows_would_shed.values()) for report in reports) == (~verdicts.kept).sum()


def test_off_leaves_nothing_behind_but_the_weight_column(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path, mode="off")
    df = source(spark, available=BATCH).transform(own.admit).transform(own.measured(passed_on, RESULT, form="row"))
    run(df, tmp_path, own)

    assert sink(tmp_path)["weight"].to_pylist() == [1.0] * BATCH
    assert not own.folder.exists()
    assert own.history() == []


def test_a_guard_without_a_checkpoint_serves_one_query_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path, checkpoint=None)
    put_plan(own)
    pipeline = source(spark).transform(own.admit).select("row", "weight")
    for attempt in ("one", "two"):
        query = run(pipeline, tmp_path / attempt, own)
        assert sink(tmp_path / attempt).num_rows == sum(report.rows_kept for report in own.history())
        assert {binding.plan_version for binding in bindings(own, query).entries()} == {0}
    assert sink(tmp_path / "one").equals(sink(tmp_path / "two"))
    assert sink(tmp_path / "one").num_rows < ROWS
    assert own.errors == 0


def test_must_keep_rows_beyond_capacity_raise_an_alarm_and_all_pass(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = guard(tmp_path, target=ps.MeanQueueLatency("100 ms"), policy=ps.LoadAware(), keep="true")
    # The alarm is that of the last batch, so it is looked for all the time: on a busy machine it may come and go.
    df = source(spark, start=time.time(), available=3 * BATCH).transform(own.admit)
    raised: set[str] = set()
    with caplog.at_level("WARNING", "penstock"):
        query = start(df.transform(own.measured(_slow, RESULT, form="row")), tmp_path)
        own.watch(query)
        deadline_s = time.monotonic() + 120.0
        while own.watching and time.monotonic() < deadline_s:
            raised.update(own.alarms)
            time.sleep(0.02)
    raised.update(own.alarms)
    assert sink(tmp_path).num_rows == 3 * BATCH
    assert any(line.startswith("keep matches") for line in raised), raised
    assert "which alone exceed capacity" in caplog.text


def _slow(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.004)
    return passed_on(row)


def test_the_fine_gate_sheds_within_a_batch_and_accounts_for_it(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path, target=ps.MeanQueueLatency("500 ms"), policy=ps.LoadAware(), keep="key = 3", row_gate=True)
    df = source(spark, start=time.time()).transform(own.admit)
    run(df.transform(own.measured(_slow, RESULT, form="row")), tmp_path, own)

    found, reports = sink(tmp_path), own.history()
    assert sum(report.rows_in for report in reports) == ROWS
    assert sum(report.rows_kept for report in reports) == found.num_rows
    assert sum(report.rows_shed.get(TOO_LATE, 0) for report in reports) > 0
    keys, _ = numpy_verdicts()
    assert set(np.flatnonzero(keys == 3)) <= set(found["row"].to_pylist())
    # They stand for the others on average, and what the row gate shed last still waits for a row to stand for it.
    assert 1.0 <= found["weight"].to_numpy().min() <= found["weight"].to_numpy().sum() <= 1.5 * ROWS


def test_weights_multiply_onto_those_that_come_in(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path, weight="weight")
    put_plan(own, KeepTable(SOURCE, keep=(0.5,), reasons=("half",)))
    rows = spark.range(2000).selectExpr(
        "id as row", "id % 7 as key", "current_timestamp() as arrival", "3.0D as weight"
    )

    found = rows.transform(own.admit).toArrow()

    assert set(found["weight"].to_pylist()) == {6.0}
    assert 900 < found.num_rows < 1100


def test_guards_one_behind_the_other_toss_coins_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """With one coin the second gate would keep all that the first has kept, and weights would double for nothing."""
    own = {name: guard(tmp_path / name, target=ps.Throughput(5), weight="weight") for name in ("first", "second")}
    for one in own.values():
        put_plan(one, KeepTable(SOURCE, keep=(0.5,), reasons=("half",)))
    rows = spark.range(10_000).selectExpr("id as row", "id % 7 as key")
    # As if the first wrote to a topic: there a column's metadata end.
    handed_on = rows.transform(own["first"].admit).selectExpr("row", "key", "weight + 0.0D as weight")
    found = handed_on.transform(own["second"].admit).toArrow()

    assert found.num_rows == pytest.approx(2500, abs=5 * 2500**0.5)
    assert set(found["weight"].to_pylist()) == {4.0}
    first, second = (
        coins(gate_salt(SALT, "guard", weighted=weighted), np.arange(10_000)) for weighted in (False, True)
    )
    assert sorted(found["row"].to_pylist()) == np.flatnonzero(np.maximum(first, second) < 2**62).tolist()


def test_keys_of_text_and_of_several_columns_are_judged_as_numpy_judges_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"row": np.arange(3000), "a": [f"usér {n % 91}" for n in range(3000)], "b": np.arange(3000) % 13})
    own = guard(tmp_path, key=("a", "b"), target=ps.Throughput(5))
    put_plan(own)

    found = spark.createDataFrame(rows).transform(own.admit).orderBy("row").toArrow()

    hashes = xxhash64_ints(rows["b"].to_numpy(), seed=np.array([xxhash64(user) for user in rows["a"].to_pylist()]))
    verdicts = judge(TABLE, key_hashes=hashes, coins=coins(COIN_SALT, np.arange(3000)))
    assert np.array_equal(found["row"].to_numpy(), np.flatnonzero(verdicts.kept))
    assert np.array_equal(found["weight"].to_numpy(), verdicts.weights[verdicts.kept])


def test_a_plan_whose_lease_has_run_out_sheds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path)
    put_plan(own, age_s=LEASE_S + 1.0)
    run(source(spark, available=BATCH).transform(own.admit).select("row", "weight"), tmp_path)
    assert sink(tmp_path).num_rows == BATCH


@pytest.mark.parametrize("harm", ["damaged", "odd buckets"])
def test_when_the_plan_cannot_be_read_rows_flow(
    spark: SparkSession, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = guard(tmp_path)
    if harm == "odd buckets":
        put_plan(own, KeepTable(SOURCE, keep=(0.0, 0.0, 0.0), reasons=("three",)))
    else:
        put_plan(own)
    pipeline = source(spark).transform(own.admit).select("row", "weight")
    if harm == "damaged":
        next((own.folder / "plans").glob("*.plan")).write_text("torn")
    with caplog.at_level("WARNING", "penstock"):
        query = run(pipeline, tmp_path, own)
    assert sink(tmp_path).num_rows == ROWS
    assert own.errors == ROWS // BATCH
    assert caplog.text.count("kept every row of a batch because its plan could not be read") == 1
    assert {binding.plan_version for binding in bindings(own, query).entries()} == {None}


def test_when_the_plan_log_goes_away_rows_flow(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = guard(tmp_path)
    put_plan(own, KeepTable(SOURCE, keep=(0.0,), reasons=("none",)))
    put_plan(own, None)
    plans = own.folder / "plans"

    def once(row: dict[str, Any]) -> dict[str, Any]:
        if row["row"] == 0:
            shutil.rmtree(plans)
            plans.write_text("a file in its place")
        return passed_on(row)

    with caplog.at_level("WARNING", "penstock"):
        run(source(spark).transform(own.admit).transform(own.measured(once, RESULT, form="row")), tmp_path, own)
    assert sink(tmp_path).num_rows == ROWS
    assert own.errors == ROWS // BATCH
    assert "plan 1 is missing from its log, so its reasons are unknown" in caplog.text
    assert "kept every row of a batch because its plan could not be read: folder = " in caplog.text


def test_rows_that_an_earlier_job_admitted_are_welcome(spark: SparkSession, tmp_path: Path) -> None:
    first, second = guard(tmp_path / "first"), guard(tmp_path / "second", name="second")
    put_plan(first, KeepTable(SOURCE, keep=(0.5,), reasons=("half",)))
    put_plan(second, KeepTable(SOURCE, keep=(0.5,), reasons=("half",)))
    rows = spark.read.format("penstock").options(available=ROWS).load()
    admitted = rows.transform(first.admit)
    made_elsewhere = {"penstock_guard": "guard", "penstock_process": "another"}
    found = admitted.withMetadata("weight", made_elsewhere).transform(second.admit).toArrow()
    assert set(found["weight"].to_pylist()) == {4.0}


def test_an_error_of_the_operator_stays_the_users_own(spark: SparkSession, tmp_path: Path) -> None:
    own = guard(tmp_path)

    def broken(row: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError(f"the user's own mistake in row {row['row']}")

    query = start(source(spark).transform(own.admit).transform(own.measured(broken, RESULT, form="row")), tmp_path)
    own.watch(query)
    with pytest.raises(Exception, match="the user's own mistake"):
        query.awaitTermination()
    own.stop()
    assert own.errors == 0


def _doubled_arrow(batches: Any) -> Any:
    import pyarrow.compute as pc  # noqa: PLC0415 - runs on a worker

    for batch in batches:
        doubled = pc.multiply(batch["value"], 2.0)
        for _ in range(2):  # more rows out than in
            yield pa.RecordBatch.from_arrays(
                [batch["row"], doubled, batch["arrival"]], names=["row", "value", "arrival"]
            )


def _doubled_pandas(frames: Any) -> Any:
    for frame in frames:
        yield frame.assign(value=2.0 * frame["value"])[["row", "value", "arrival"]]


def _every_third(row: dict[str, Any]) -> Any:
    found = {"row": row["row"], "value": 2.0 * row["value"], "arrival": row["arrival"]}
    return [None, [found, found], found][row["row"] % 3] if row["row"] % 3 else None


@pytest.mark.parametrize(
    ("form", "function"), [("arrow", _doubled_arrow), ("pandas", _doubled_pandas), ("row", _every_third)]
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_measured_function_gives_the_same_rows_as_a_bare_one(
    spark: SparkSession, tmp_path: Path, form: Any, function: Callable[..., Any], zone: str
) -> None:
    saved = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark.read.format("penstock").options(available=5_000, start=1_700_000_000).load()
        schema = "row bigint, value double, arrival timestamp"
        found = {
            mode: rows.transform(guard(tmp_path / mode, mode=mode).measured(function, schema, form=form))
            .orderBy("row")
            .toArrow()
            for mode in ("enforce", "off")
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", saved)
    assert found["enforce"].equals(found["off"])
    assert found["enforce"].num_rows > 0


def test_costs_are_measured_by_bucket_and_waits_from_arrival_to_start(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.core.control.bucket_costs import BUCKETS, BucketCosts  # noqa: PLC0415 - used here only

    own = guard(tmp_path)

    def slow(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.004 if row["key"] == 0 else 0.001)
        return passed_on(row)

    begin_s = time.time()
    df = source(spark, start=begin_s - 100.0, keys=4).transform(own.admit)
    run(df.limit(10**9).transform(own.measured(slow, RESULT, form="row")), tmp_path, own)
    report = own.history()[-1]
    costs = BucketCosts.from_bytes(report.cost_sketch).costs_s()
    bucket_of = (xxhash64_ints(np.arange(4)) & (BUCKETS - 1)).tolist()
    assert 0.004 <= costs[bucket_of[0]] < 0.05
    assert all(0.001 <= costs[bucket] < costs[bucket_of[0]] for bucket in bucket_of[1:])
    # Rows 1,000 to 2,000 arrived 99 to 98 s before the query began.
    assert 98.0 <= report.queuing.mean_s <= 99.0 + time.time() - begin_s
    assert report.queuing.rows == BATCH


@pytest.mark.parametrize("partitions", [2, 16])
def test_waits_are_measured_without_a_measured_operator(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    """Behind the gate rows are counted by key, also in many times as many partitions as there are cores."""
    own = guard(tmp_path, target=ps.MeanQueueLatency("1 s"), policy=ps.LoadAware())
    begin_s = time.time() - 100.0
    known = functions.when(functions.col("row") % 4 != 0, functions.col("arrival"))
    df = source(spark, start=begin_s, available=BATCH).withColumn("arrival", known).transform(own.admit)
    counts = df.groupBy("key").agg(functions.sum("weight").alias("rows"))
    saved = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    try:
        query = (
            counts.writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", saved)
    with own.watch(query):
        query.awaitTermination()
    (report,) = own.history()
    assert (report.rows_in, report.rows_kept, report.rows_untimed) == (BATCH, BATCH, BATCH // 4)
    assert report.queuing is not None
    assert report.queuing.rows == BATCH - BATCH // 4
    # The rows arrived within a second, 100 s before the query began.
    taken_up_s = report.start_s + report.delay_s + report.span_s / 2.0
    assert report.queuing.mean_s == pytest.approx(taken_up_s - begin_s - 0.5, abs=0.02)
    assert report.queuing.max_s == pytest.approx(report.end_s - begin_s, abs=0.02)
    assert report.lag_s == pytest.approx(report.start_s - begin_s - 1.0, abs=0.02)
    # One batch shows that rows are too old before any work: nothing is shed, and the missed target is told.
    assert own.totals.queued_s / own.totals.queued_rows > 1.0
    assert any("out of reach" in alarm for alarm in own.alarms)
    assert not own.plans().latest().gates


def test_one_guard_a_query_and_one_query_a_guard(spark: SparkSession, tmp_path: Path) -> None:
    own, other = guard(tmp_path), guard(tmp_path / "other", name="other")
    with pytest.raises(ps.PenstockError, match="'other' meets rows that guard 'guard' has admitted: one guard a query"):
        source(spark).transform(own.admit).transform(other.admit)
    endless = spark.readStream.format("penstock").options(rate=10).load().transform(own.admit)
    query = endless.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with own.watch(query):
            with pytest.raises(ps.PenstockError, match="watched by guard 'guard' already"):
                other.watch(query)
            with pytest.raises(ps.PenstockError, match="watches a query already"):
                own.watch(query)
            assert own.watching
        assert not own.watching
    finally:
        query.stop()


def test_a_checkpoint_of_another_guard_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source(spark).transform(guard(tmp_path).admit)
    source(spark).transform(guard(tmp_path).admit)
    with pytest.raises(
        ps.PenstockError, match=r"checkpoint = .*another one wrote it: key .'key'. there, .'value'. here"
    ):
        source(spark).transform(guard(tmp_path, key="value").admit)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"key": "user"}, "key = 'user' is not usable: give a column of the stream: row, key, arrival, cost_ms, value"),
        ({"arrival": "when"}, "arrival = 'when' is not usable: give a column of the stream: row, key"),
        ({"row": ("row", "nr")}, "row = 'nr' is not usable: give a column of the stream: row, key"),
        ({"keep": "tier = 'gold'"}, "keep = .*is not usable: give a condition on row, key, arrival"),
        ({"keep": "key +"}, "keep = 'key \\+' is not usable: give a condition in Spark SQL"),
        ({"keep": "sum(key) > 3"}, "keep = .* is not usable: give a condition on row, key, arrival"),
        ({"keep": "key + 1"}, "keep = 'key \\+ 1' is not usable: give a condition that is true or false, not a bigint"),
        (
            {"policy": baselines.FullKnowledge(cost_column="work")},
            "cost_column = 'work' is not usable: give a column of the stream",
        ),
    ],
)
def test_columns_that_do_not_fit_are_one_line(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any], line: str
) -> None:
    with pytest.raises(ps.PenstockError, match=line) as caught:
        source(spark).transform(guard(tmp_path, **settings).admit)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "checkpoint").exists()


def test_a_latency_target_needs_a_time_of_arrival(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ps.PenstockError, match="arrival is missing: a latency target needs the column"):
        spark.range(5).selectExpr("id as row", "id as key").transform(guard(tmp_path).admit)
