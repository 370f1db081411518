"""A guard between real tables of Delta or Iceberg: every row is kept or shed, once, and MERGE and replays work.

`make tables` and `make matrix` run these tests on the versions of Spark that have such tables; `make test` does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
from tests.spark.quarantined import TABLE, brought_again, guard, put_plan
from tests.tables.lake import COLUMNS, Lake

import penstock as ps
from penstock.messages.plan import KeepTable
from penstock.spark.checkpoint import newest_done, newest_planned
from penstock.spark.row_columns import RowColumns
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

ROWS, BATCH = 3000, 1000
BATCHES, KILLS, LONGEST_S = 6, 2, 150.0
RESULT = "row bigint, key bigint, value double, weight double"
SCRIPT = Path(__file__).with_name("killed_tables.py")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake.here(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def spark(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(tmp_path_factory.mktemp("spark"), settings=lake.settings())
    lake.make(session, "events", COLUMNS)
    for first in range(0, ROWS, BATCH):
        lake.append(session, "events", first, first + BATCH)
    yield session
    session.stop()


def result(df: DataFrame) -> DataFrame:
    return df.select("row", "key", "value", "weight")


def numbers(df: DataFrame) -> list[int]:
    return sorted(one["row"] for one in df.select("row").collect())


def fresh(spark: SparkSession, table: str) -> DataFrame:
    """A table to which another session has written; Iceberg's catalog remembers what it has read."""
    spark.sql(f"REFRESH TABLE {table}")
    return spark.table(table)


def provider(spark: SparkSession, table: str) -> str:
    about = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").filter("col_name = 'Provider'").collect()
    return str(about[0]["data_type"])


def test_every_row_of_a_table_is_in_the_sink_or_the_quarantine_and_a_replay_makes_it_whole(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    kept, again = (lake.make(spark, table, RESULT) for table in ("kept", "again"))
    shed = lake.name("shed")
    of = guard(tmp_path, quarantine=f"table:{shed}")
    put_plan(of)
    writer = lake.stream(spark, "events").transform(of.admit).transform(result).writeStream
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = writer.toTable(kept)
    with of.watch(query):
        assert query.awaitTermination(200)
    reports = of.history()
    assert [one.rows_in for one in reports] == [BATCH] * (ROWS // BATCH)
    assert sum(one.rows_kept for one in reports) == spark.table(kept).count()
    assert all(one.queuing is not None and not one.rows_untimed for one in reports)
    assert of.alarms == ()
    for _ in range(2):  # and after the last batch was brought once more
        in_sink, in_quarantine = numbers(spark.table(kept)), numbers(spark.table(shed))
        assert sorted(in_sink + in_quarantine) == list(range(ROWS))
        assert len(in_quarantine) > ROWS / 5
        brought_again(spark, of.folder / "quarantine", f"table:{shed}")
    assert provider(spark, shed) == lake.kind

    replayed = ps.replay(spark, f"table:{shed}", f"table:{again}", result, checkpoint=tmp_path / "checkpoint")
    assert replayed.rows == len(in_quarantine)
    whole = ps.whole(spark.table(kept), spark.table(again))
    assert numbers(whole) == list(range(ROWS))
    assert whole.agg({"value": "sum", "weight": "sum"}).first().asDict() == {
        "sum(value)": sum(range(ROWS)) / 2,
        "sum(weight)": ROWS,
    }
    with pytest.raises(ps.PenstockError, match="all have been replayed"):
        ps.replay(spark, f"table:{shed}", f"table:{again}", result, checkpoint=tmp_path / "checkpoint")


def test_without_names_all_columns_identify_a_row_as_a_stream_of_a_table_has_no_hidden_ones(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """All rows are equal, so they are kept or shed together; a task that reads a hidden column would fail."""
    lake.make(spark, "equal", "key bigint")
    spark.range(BATCH, numPartitions=1).selectExpr("0L AS key").writeTo(lake.name("equal")).append()
    unnamed = lake.make(spark, "unnamed", "key bigint, weight double")
    stream = lake.stream(spark, "equal")
    columns = RowColumns(key=(), row=(), arrival=None, keep=None, cost=None, weight="weight")
    assert (columns.identity(stream), columns.arrival_column(stream)) == (("`key`",), None)
    of = guard(tmp_path, row=(), quarantine=None)
    put_plan(of, KeepTable(TABLE.place, keep=(0.5,), reasons=("half",)))
    writer = stream.transform(of.admit).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).toTable(unnamed)
    with of.watch(query):
        assert query.awaitTermination(200)
    (report,) = of.history()
    assert (report.rows_in, report.rows_kept) == (BATCH, spark.table(unnamed).count())
    assert report.rows_kept in (0, BATCH)


def test_a_merge_in_foreach_batch_takes_what_the_gate_admits_also_when_the_batch_is_run_again(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    merged = lake.make(spark, "merged", RESULT)
    own = guard(tmp_path, quarantine=None)
    put_plan(own)
    fails = [True]

    def merge(df: DataFrame, batch: int) -> None:
        kept = df.transform(own.admit).transform(result).localCheckpoint()
        kept.createOrReplaceTempView("updates")
        df.sparkSession.sql(
            f"MERGE INTO {merged} AS t USING updates AS u ON t.row = u.row "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        if batch == 1 and fails:
            raise ZeroDivisionError("killed behind the merge")

    def run() -> None:
        writer = lake.stream(spark, "events").writeStream.foreachBatch(merge).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination(200)

    with own.attach(timeout=None):
        with pytest.raises(Exception, match="killed behind the merge"):
            run()
        first = numbers(fresh(spark, merged))
        fails.clear()
        put_plan(own, KeepTable(TABLE.place, keep=(1.0,), reasons=("",)))  # Meanwhile there is another plan.
        run()
        deadline_s = time.monotonic() + 30.0
        while len(own.history()) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.05)
    found = numbers(fresh(spark, merged))
    assert len(first) < 1.6 * BATCH
    assert found == [*first, *range(2 * BATCH, ROWS)], "rows of a batch that was run again differ"
    reports = own.history()
    assert [one.rows_in for one in reports[-2:]] == [BATCH, BATCH]
    assert reports[-2].rows_kept == sum(BATCH <= one < 2 * BATCH for one in first)
    assert reports[-1].rows_kept == BATCH


def test_a_killed_query_brings_each_row_once_into_the_table(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Killed when a batch is in the table, before Spark has noted that it is: the batch is run again."""
    lake.make(spark, "many", COLUMNS)
    for first in range(0, BATCHES * BATCH, BATCH):
        lake.append(spark, "many", first, first + BATCH)
    survived = lake.make(spark, "survived", RESULT)
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, str(SCRIPT), str(lake.folder), str(tmp_path)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for _ in range(KILLS):
        before = lake.commits("survived")
        with subprocess.Popen(command, env=environ, start_new_session=True) as process:
            deadline_s = time.monotonic() + LONGEST_S
            while lake.commits("survived") == before and process.poll() is None and time.monotonic() < deadline_s:
                time.sleep(0.002)
            ended = process.poll()
            os.killpg(process.pid, signal.SIGKILL)
        assert ended is None, f"the query ended by itself: {ended}"
        assert lake.commits("survived") > before
        newest = newest_done(checkpoint)
        if newest == newest_planned(checkpoint):  # It was noted: as if the kill had come a moment before.
            (checkpoint / "commits" / str(newest)).unlink()
            (checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    subprocess.run(command, env=environ, check=True, timeout=LONGEST_S)
    shed = pq.read_table(tmp_path / "shed", columns=["row"])["row"].to_pylist()
    assert shed
    assert sorted([*numbers(fresh(spark, survived)), *shed]) == list(range(BATCHES * BATCH))
