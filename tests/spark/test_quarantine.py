"""What a guard sheds is not lost: it lands in quarantine, once, and a replay makes the result whole."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.planner import SOURCE
from penstock.plan import KeepTable, Plan

F = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS, BATCH, SALT = 3000, 1000, 11
TABLE = KeepTable(SOURCE, keep=(0.2, 1.0, 0.5, 0.7), reasons=("dear keys", "", "second", "second"))
TARGET = ps.Throughput(1_000_000)


def guard(folder: Path, **settings: Any) -> ps.Guard:
    given = {"key": "key", "row": "row", "checkpoint": folder / "checkpoint", "quarantine": folder / "shed"}
    return ps.Guard(TARGET, ps.RandomShed(seed=SALT), **(given | settings))


def put_plan(of: ps.Guard, table: KeepTable = TABLE) -> None:
    # Of the future, so that its lease outlasts a slow machine.
    plan = Plan(of.plans().next_version(), "by hand", time.time() + 600.0, SALT, gates=(table,))
    assert of.plans().add(plan.version, plan)


def pipeline(df: DataFrame) -> DataFrame:
    return df.filter("key % 5 <> 1").select("row", "key", (F.col("value") * 2).alias("value"), "weight")


def run(spark: SparkSession, of: ps.Guard, folder: Path) -> None:
    stream = spark.readStream.format("penstock").options(available=ROWS, rows_per_batch=BATCH, rate=100_000, seed=3)
    query = (
        stream.load()
        .transform(of.admit)
        .transform(pipeline)
        .writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)


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
    assert set(lost[lost["key"] % 5 != 1]["row"]) | set(kept["row"]) >= set(kept["row"])
    assert (lost["penstock_plan"] == 0).all()
    assert (lost["penstock_batch"] == lost["row"] // BATCH).all()
    assert set(lost["penstock_reason"]) == {"dear keys", "second"}
    assert lost["penstock_query"].nunique() == 1


def test_a_replay_makes_the_result_whole_and_happens_once(spark: SparkSession, shed: Path) -> None:
    done = ps.replay(spark, shed / "shed", shed / "again", pipeline)
    assert done.rows == pq.read_table(shed / "shed").num_rows

    whole = ps.whole(spark.read.parquet(str(shed / "sink")), spark.read.parquet(str(shed / "again")))
    source = spark.read.format("penstock").options(available=ROWS, rate=100_000, seed=3, start=0).load()
    unshed = pipeline(source.withColumn("weight", F.lit(1.0)))
    both = {tuple(row) for row in whole.collect()}
    assert both == {tuple(row) for row in unshed.collect()}
    assert whole.count() == len(both), "no row twice"
    assert whole.agg(F.sum("weight")).first()[0] == len(both), "nor counted twice"

    with pytest.raises(ps.PenstockError, match="all have been replayed"):
        ps.replay(spark, shed / "shed", shed / "again", pipeline)
