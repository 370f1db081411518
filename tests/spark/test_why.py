"""Why a row was dropped: what the dashboard says of rows that Spark has judged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.by_hand import put

import penstock as ps
from penstock.core.control.planner import SOURCE
from penstock.messages.plan import KeepTable, Plan
from penstock.web.board import Board
from penstock.web.why import why

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 300
HALF = KeepTable(SOURCE, keep=(0.5,), reasons=("half",))


def judged(df: DataFrame, folder: Path, guard: ps.Guard) -> set[int]:
    """The rows that the guard's gate keeps of a stream of one batch."""
    query = (
        df.transform(guard.admit)
        .writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    guard.watch(query)
    query.awaitTermination()
    deadline_s = time.monotonic() + 30.0
    while guard.watching and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return set(pq.read_table(folder / "sink")["row"].to_pylist())


def told(folder: Path, rows: int, arrived_s: float | None = None) -> set[int]:
    """The rows of which the dashboard says that batch 0 kept them."""
    board = Board([folder / "checkpoint"])
    board.look()
    query = board.guarded(board.news({})[0]["id"])
    arrived = "" if arrived_s is None else str(arrived_s)
    return {row for row in range(rows) if why(query, [str(row % 7)], [str(row)], 0, arrived)["row"]["kept"]}


@pytest.mark.parametrize("weighted", [False, True])
def test_the_dashboard_tells_of_each_row_what_spark_did_with_it(
    spark: SparkSession, tmp_path: Path, *, weighted: bool
) -> None:
    """The plan is written by hand, with a salt that is not the gate's: what counts is the gate's."""
    rows = spark.range(ROWS).selectExpr("id AS row", "id % 7 AS key", *(["2.0D AS weight"] if weighted else []))
    rows.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    settings = {"key": "key", "row": "row", "checkpoint": tmp_path / "checkpoint"}
    guard = ps.Guard(ps.Throughput(1e9), ps.LoadAware(seed=11), **settings | ({"weight": "weight"} if weighted else {}))
    put(guard.plans(), Plan(0, "by hand", time.time(), 5, gates=(HALF,)))

    kept = judged(stream, tmp_path, guard)

    assert 100 < len(kept) < 200
    assert told(tmp_path, ROWS) == kept


def test_the_dashboard_tells_of_each_row_of_a_backlog_what_spark_did_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first batch has no plan, so nothing but the guard itself knows the salt of its coins."""
    arrived_s = float(int(time.time()) - 60)
    rows = spark.range(ROWS).selectExpr("id AS row", "id % 7 AS key", f"timestamp_seconds({int(arrived_s)}) AS arrival")
    rows.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    settings = {"key": "key", "row": "row", "backlog": "thin", "checkpoint": tmp_path / "checkpoint"}
    guard = ps.Guard(ps.MeanQueueLatency("20 s"), ps.LoadAware(seed=11), **settings)

    kept = judged(stream, tmp_path, guard)

    assert 50 < len(kept) < 200
    assert told(tmp_path, ROWS, arrived_s) == kept
