"""What a guard sheds is not lost: it lands in quarantine, once, and a replay makes the result whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import logs
from penstock.cli.main import main
from penstock.messages.plan import Plan

F = pytest.importorskip("pyspark.sql.functions")
from tests.spark.quarantined import (  # noqa: E402 - needs Spark
    BATCH,
    ROWS,
    SALT,
    TABLE,
    brought_again,
    guard,
    pipeline,
    put_plan,
    run,
)
from tests.spark.rows import from_files  # noqa: E402 - needs Spark

from penstock.core.loop.leases import LEASE_S  # noqa: E402 - needs Spark
from penstock.spark import session  # noqa: E402
from penstock.spark.plans.gate import in_parts  # noqa: E402
from penstock.spark.quarantine import forwarded, replay, topic  # noqa: E402
from penstock.spark.quarantine.replay import INTO, MARK, _refuse_elsewhere, calm  # noqa: E402
from penstock.spark.quarantine.rows import PART, PARTS, Place, Sign  # noqa: E402
from penstock.spark.quarantine.stored import TABLE_MARK  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def shed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query that has shed some of its rows."""
    from penstock.spark import source  # noqa: PLC0415 - needs Spark

    source.register(spark)
    folder = tmp_path_factory.mktemp("shed")
    of = guard(folder)
    put_plan(of)
    run(spark, of, folder)
    return folder


def test_every_row_is_either_kept_or_in_quarantine_and_says_why(shed: Path) -> None:
    lost = pq.read_table(shed / "shed").to_pandas()
    kept = pq.read_table(shed / "sink").to_pandas()
    assert len(lost) > ROWS / 5
    assert lost["row"].is_unique
    assert not set(lost["row"]) & set(kept["row"])
    assert (lost["penstock_plan"] == 0).all()
    assert (lost["penstock_batch"] == lost["row"] // BATCH).all()
    assert set(lost["penstock_reason"]) == {"dear keys", "second"}
    assert lost["penstock_query"].nunique() == 1


def test_each_part_of_the_shed_rows_has_a_task_of_its_own(spark: SparkSession) -> None:
    parts = spark.range(50).select((F.col("id") % PARTS).cast("int").alias(PART)).transform(in_parts)
    found = parts.select(F.spark_partition_id(), PART).distinct().collect()
    assert sorted(map(tuple, found)) == [(part, part) for part in range(PARTS)]


def test_a_sink_that_reads_a_part_of_a_batch_loses_no_shed_row(spark: SparkSession, tmp_path: Path) -> None:
    of = guard(tmp_path)
    admitted = from_files(spark, available=BATCH, rate=100_000, seed=3).transform(of.admit)
    put_plan(of)
    read: list[int] = []

    def sink(df: DataFrame, number: int) -> None:  # noqa: ARG001 - Spark gives it
        read.extend(row["row"] for row in df.limit(5).collect())

    writer = admitted.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(60)
    assert len(read) == 5
    assert pq.read_table(tmp_path / "shed").num_rows > BATCH / 5


def test_a_replay_makes_the_result_whole_and_happens_once(spark: SparkSession, shed: Path) -> None:
    room = iter([False, True, True, False])
    done = ps.replay(spark, shed / "shed", shed / "again", pipeline, when=lambda: next(room, True))
    assert done.rows == pq.read_table(shed / "shed").num_rows

    whole = ps.whole(spark.read.parquet(str(shed / "sink")), spark.read.parquet(str(shed / "again")))
    source = spark.read.format("penstock").options(available=ROWS, rate=100_000, seed=3, start=0).load()
    unshed = pipeline(source.withColumn("weight", F.lit(1.0)))
    both = {tuple(row) for row in whole.collect()}
    assert both == {tuple(row) for row in unshed.collect()}
    assert whole.count() == len(both), "no row twice"
    assert whole.agg(F.sum("weight")).first()[0] == len(both), "nor counted twice"

    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100ms")  # a test does not wait for ten seconds
    try:
        for when in (None, lambda: True):
            with pytest.raises(ps.PenstockError, match="all have been replayed"):
                ps.replay(spark, shed / "shed", shed / "again", pipeline, when=when)
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    for elsewhere in (shed / "elsewhere", "table:elsewhere"):
        with pytest.raises(ps.PenstockError, match=r"again, into which this quarantine was replayed before.* delete "):
            ps.replay(spark, shed / "shed", elsewhere, pipeline)


@pytest.mark.parametrize("before", ["folder:/first", "fold", None], ids=["whole", "torn by an earlier release", "none"])
def test_where_a_replay_goes_is_decided_once_and_written_whole(tmp_path: Path, before: str | None) -> None:
    mark = tmp_path / MARK / INTO
    mark.parent.mkdir()
    if before is not None:
        mark.write_text(before)
    for place in ("/second", "/third"):  # No batch is committed: the last place counts.
        _refuse_elsewhere(tmp_path, Place("folder", place))
        assert mark.read_bytes() == f"folder:{place}".encode()
    (tmp_path / MARK / "commits").mkdir()
    _refuse_elsewhere(tmp_path, Place("folder", "/third"))
    with pytest.raises(ps.PenstockError, match="give /third, into which this quarantine was replayed before"):
        _refuse_elsewhere(tmp_path, Place("folder", "/fourth"))
    assert [one.name for one in mark.parent.iterdir() if one.is_file()] == [INTO]
    mark.unlink()
    _refuse_elsewhere(tmp_path, Place("folder", "/fifth"))
    assert mark.read_bytes() == b"folder:/fifth"


def test_the_command_replays_and_counts_every_row(
    spark: SparkSession, shed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(shed / "shed", tmp_path / "shed", ignore=shutil.ignore_patterns("_replay"))
    (tmp_path / "replayed_job.py").write_text(
        "def pipeline(df):\n"
        "    return df.filter('key % 5 <> 1').selectExpr('row', 'key', 'value * 2 AS value', 'weight')\n"
    )
    command = [tmp_path / "shed", "--into", tmp_path / "again", "--pipeline", "replayed_job:pipeline"]
    (tmp_path / "checkpoint" / "penstock" / "plans").mkdir(parents=True)  # of a query that has never shed
    command += ["--when-calm", tmp_path / "checkpoint", "--json", tmp_path / "told.json"]
    monkeypatch.setattr("sys.argv", ["penstock", "replay", *map(str, command)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(session, "local_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    # More batches than Spark remembers the progress of.
    monkeypatch.setattr(replay, "FEW_FILES", 1)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 1)  # so it remembers none
    try:
        with suppress(SystemExit):
            main()
    finally:
        spark.conf.unset("spark.sql.streaming.numRecentProgressUpdates")

    rows = pq.read_table(shed / "shed").num_rows
    files = len(list((shed / "shed").glob("*.parquet")))
    assert files > 1
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["rows"], told["batches"]) == (rows, files)
    assert f"Replayed {rows:,} rows in {files} batches into " in capsys.readouterr().out.replace("\n", "")
    whole = ps.whole(spark.read.parquet(str(shed / "sink")), spark.read.parquet(str(tmp_path / "again")))
    source = spark.read.format("penstock").options(available=ROWS, rate=100_000, seed=3, start=0).load()
    unshed = pipeline(source.withColumn("weight", F.lit(1.0)))
    assert sorted(map(tuple, whole.collect())) == sorted(map(tuple, unshed.collect()))


def test_a_table_gets_them_and_what_waits_for_it_can_be_replayed(spark: SparkSession, tmp_path: Path) -> None:
    of = guard(tmp_path, quarantine="table:shed_rows")
    put_plan(of)
    try:
        run(spark, of, tmp_path, BATCH)
        brought_again(spark, of.folder / "quarantine", "table:shed_rows")
        in_table = spark.table("shed_rows").select("row", "penstock_reason", "penstock_plan").collect()
        other = guard(tmp_path / "other", quarantine="table:shed_rows")
        stream = spark.readStream.format("penstock").option("available", 10).load()
        with pytest.raises(ps.PenstockError, match="another stream fills this one, and Spark would skip rows"):
            other.admit(stream)
        from_table: list[tuple[float, ...]] = []
        done = ps.replay(
            spark,
            "table:shed_rows",
            lambda df, _: from_table.extend(map(tuple, df.select("row", "weight").collect())),
            checkpoint=tmp_path / "checkpoint",
        )
    finally:
        spark.sql("DROP TABLE IF EXISTS shed_rows")
    assert sorted(from_table) == sorted((row["row"], 1.0) for row in in_table)
    assert done.rows == len(in_table)
    waits = of.folder / "quarantine"
    with pytest.raises(ps.PenstockError, match="replayed from the table before: a row would be replayed twice"):
        ps.replay(spark, waits, tmp_path / "again")
    shutil.rmtree(waits / TABLE_MARK)
    archived = forwarded.kept_in(waits)  # what a later batch has made old, if there was one
    waiting = pq.read_table(waits)["row"].to_pylist()
    old = pq.read_table(archived)["row"].to_pylist() if archived.exists() else []
    assert sorted(row["row"] for row in in_table) == sorted([*waiting, *old])
    assert {row["penstock_reason"] for row in in_table} == {"dear keys", "second"}

    got: list[tuple[float, ...]] = []
    done = ps.replay(spark, waits, lambda df, _: got.extend(map(tuple, df.select("row", "weight").collect())))
    assert sorted(got) == [(row, 1.0) for row in sorted(waiting)]
    assert done == (len(waiting), 1)


def test_mistakes_are_told_before_a_query_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(topic, "REACH_S", 0.5)
    spark.sql("CREATE TABLE has_rows USING parquet AS SELECT 1 AS row")
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.csv").touch()
    stream = spark.readStream.format("penstock").option("available", 10).load()
    for settings, line in (
        ({"quarantine": tmp_path / "checkpoint" / "shed"}, "give a folder outside the checkpoint"),
        ({"quarantine": tmp_path / "checkpoint"}, "give a folder outside the checkpoint"),
        ({"checkpoint": None}, "quarantine is given without checkpoint"),
        ({"quarantine": "kafka:shed"}, "give 'kafka:TOPIC@HOST:PORT'; a topic needs bootstrap servers"),
        ({"quarantine": "table:"}, "give the table's name"),
        ({"quarantine": 3}, "give a folder, 'table:NAME' or 'kafka:TOPIC@HOST:PORT'"),
        ({"quarantine": "topic:shed"}, "give a folder, 'table:NAME' or 'kafka:TOPIC@HOST:PORT'"),
        ({"quarantine": "~/shed"}, "give the whole path"),
        ({"quarantine": "s3://bucket/shed"}, "give a folder of a file system that is mounted here"),
        ({"quarantine": tmp_path / "file" / "shed"}, "give a folder that can be written; the system says: Not a dir"),
        ({"quarantine": tmp_path / "other"}, "give an empty folder, or a quarantine; there is data.csv"),
        ({"quarantine": "table:no_such_schema.shed"}, "give a table that is there or can be made; Spark says:"),
        ({"quarantine": "kafka:shed@127.0.0.1:1"}, "give a topic that is there or can be made; Kafka says:"),
        ({"quarantine": "table:has_rows"}, "give a table of its own; Spark would no longer show the rows that are in"),
    ):
        with pytest.raises(ps.PenstockError, match=line) as told:
            guard(tmp_path, **settings).admit(stream)
        assert "\n" not in str(told.value)
    with pytest.raises(ps.PenstockError, match="quarantine needs a stream"):
        guard(tmp_path).admit(spark.read.format("penstock").options(available=10).load())
    settings = {"target": ps.MeanQueueLatency("1 s"), "policy": ps.LoadAware(), "row_gate": True}
    with pytest.raises(ps.PenstockError, match="cannot be combined with row_gate=True"):
        ps.Guard(**settings, row="row", checkpoint=tmp_path / "checkpoint", quarantine=tmp_path / "shed")

    with pytest.raises(ps.PenstockError, match="give the quarantine of a guard"):
        ps.replay(spark, tmp_path / "other", tmp_path / "again")
    guard(tmp_path).admit(stream)
    with pytest.raises(ps.PenstockError, match="none has been shed yet"):
        ps.replay(spark, tmp_path / "shed", tmp_path / "again")
    with pytest.raises(ps.PenstockError, match="rows there have another schema"):
        guard(tmp_path).admit(stream.drop("cost_ms"))
    (tmp_path / "shed" / "some.parquet").touch()
    (tmp_path / "sink" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(ps.PenstockError, match="give a folder of its own; another query writes into this one"):
        ps.replay(spark, tmp_path / "shed", tmp_path / "sink")
    with pytest.raises(ps.PenstockError, match="give a folder outside the quarantine"):
        ps.replay(spark, tmp_path / "shed", tmp_path / "shed" / "again")
    with pytest.raises(ps.PenstockError, match="into = 'table:has_rows' is not usable: give a table of its own"):
        ps.replay(spark, tmp_path / "shed", "table:has_rows")
    for settings, line in (
        ({}, "is given without checkpoint: give the checkpoint of the guarded query"),
        ({"checkpoint": tmp_path}, "give the quarantine of a guard"),
    ):
        with pytest.raises(ps.PenstockError, match=line):
            ps.replay(spark, "table:has_rows", tmp_path / "again", **settings)
    with pytest.raises(ps.PenstockError, match="give none; it goes with folder='table:NAME' only"):
        ps.replay(spark, tmp_path / "shed", tmp_path / "again", checkpoint=tmp_path)
    spark.sql("DROP TABLE has_rows")


def test_calm_means_that_nothing_is_shed_and_has_not_been_for_a_while(tmp_path: Path) -> None:
    log = logs.PlanLog(tmp_path)
    assert calm(log, 0.0)
    log.add(0, Plan(0, "by hand", 100.0, SALT, gates=(TABLE,)))
    assert not calm(log, 120.0)
    assert calm(log, 100.0 + LEASE_S + 1.0), "the lease has run out: rows flow"
    log.add(1, Plan.keep_all(1, "by hand", 110.0))
    assert not calm(log, 115.0)
    log.renew(1, 120.0)
    assert calm(log, 121.0), "a plan that sheds nothing is renewed too, for what it says of large batches"


def test_the_command_tells_mistakes_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Sign("guard", "weight", "{}").put(tmp_path / "shed")
    for given, line in (
        ([tmp_path, "--into", tmp_path / "again"], "DIR = .* is not usable: give the quarantine of a guard"),
        ([tmp_path / "shed", "--into", "kafka:shed"], "--into = 'kafka:shed' is not usable"),
        ([tmp_path / "shed", "--into", "x", "--pipeline", "no:such"], "--pipeline = 'no:such' is not usable"),
        (
            [tmp_path / "shed", "--into", "x", "--pipeline", "job"],
            "--pipeline = 'job' is not usable: give MODULE:FUNCTION, such",
        ),
        ([tmp_path / "shed", "--into", "x", "--when-calm", tmp_path], "there are no plans in it"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["penstock", "replay", *map(str, given)])
            with pytest.raises(SystemExit) as ended:
                main()
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert re.search(line, said)
        assert said.count("\n") == 1


def test_what_a_killed_writer_left_goes_when_the_quarantine_is_opened_again(tmp_path: Path) -> None:
    sign, folder = Sign("guard", "weight", "{}"), tmp_path / "shed"
    sign.put(folder)
    old, new = (folder / f".part.parquet.{letter * 32}.tmp" for letter in "ab")
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    sign.put(folder)
    assert (old.exists(), new.exists()) == (False, True)
