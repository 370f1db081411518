"""A small guarded query that sheds by a plan written by hand, for tests of where its rows go."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from tests.spark.by_hand import put
from tests.spark.rows import from_files
from tests.spark.until_read import until_read

import penstock as ps
from penstock.core.control.planner import SOURCE
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.quarantine import topic
from penstock.spark.quarantine.forward import Forward
from penstock.spark.quarantine.rows import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS, BATCH, SALT = 3000, 1000, 11
TABLE = KeepTable(SOURCE, keep=(0.2, 1.0, 0.5, 0.7), reasons=("dear keys", "", "second", "second"))
TARGET = ps.Throughput(1_000_000)


class Silent:
    """A policy without an opinion: plans are written by hand."""

    name, seed, alarms = "silent", SALT, ()

    def planner(self, target: object) -> Silent:  # noqa: ARG002 - blind to it
        return self

    def decide(self, report: ps.Report, now_s: float) -> None:  # noqa: ARG002 - no opinion
        return None

    def release(self, version: int, now_s: float, note: str) -> None:  # noqa: ARG002 - no opinion
        return None


def guard(folder: Path, **settings: Any) -> ps.Guard:
    given = {"key": "key", "row": "row", "checkpoint": folder / "checkpoint", "quarantine": folder / "shed"}
    return ps.Guard(TARGET, Silent(), **(given | settings))


def put_plan(of: ps.Guard, table: KeepTable = TABLE) -> None:
    put(of.plans(), Plan(of.plans().next_version(), "by hand", time.time(), SALT, gates=(table,)))


def pipeline(df: DataFrame) -> DataFrame:
    return df.filter("key % 5 <> 1").select("row", "key", (F.col("value") * 2).alias("value"), "weight")


def run(spark: SparkSession, of: ps.Guard, folder: Path, rows: int = ROWS) -> None:
    found = from_files(spark, folder / "in", available=rows, rows_per_batch=BATCH, rate=100_000, seed=3)
    writer = found.transform(of.admit).transform(pipeline).writeStream.format("parquet")
    where = {"path": str(folder / "sink"), "checkpointLocation": str(folder / "checkpoint")}
    query = until_read(writer.options(**where))
    with of.watch(query):
        assert query.awaitTermination(240)


def brought_again(spark: SparkSession, folder: Path, to: str) -> None:
    """As if the driver had died after a batch was written and before Spark noted that it was: the batch is repeated."""
    newest = max((folder / "_forward" / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    Forward(spark, folder, Place.of(to)).stop()
    assert newest.exists(), "nothing was repeated"


class HalfWay:
    """Rows of which the second cannot be had."""

    def toLocalIterator(self, prefetchPartitions: bool) -> Iterator[Row]:  # noqa: N802, N803, FBT001 - Spark's names
        assert prefetchPartitions
        yield Row(value='{"row": -2}')
        raise RuntimeError("half way")


def in_topic(spark: SparkSession, kafka: Any, name: str) -> list[dict[str, Any]]:
    """What a reader finds who leaves out what was not committed."""
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": name, "kafka.isolation.level": "read_committed"}
    found = spark.read.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) AS value").collect()
    return [json.loads(row["value"]) for row in found]


def disturb(sink: topic.Topic, kafka: Any, name: str, rows: DataFrame) -> None:
    """Write rows as one batch, while others under the same name do what they should not."""
    import confluent_kafka  # noqa: PLC0415 - who has a broker has the client

    # A driver that is cut off in the midst of a batch: it has sent a row, and goes on as if nothing were.
    cut_off = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "transactional.id": sink.name})
    cut_off.init_transactions(60.0)
    cut_off.begin_transaction()
    cut_off.produce(name, b'{"row": -1}')
    cut_off.flush(60.0)
    # One that fails half way.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic, "records", lambda _: HalfWay())
        with pytest.raises(RuntimeError, match="half way"):
            sink(rows, 1000)
    # One that does it, and one that does it again.
    sink(rows, 1000)
    sink(rows, 1000)
    with pytest.raises(confluent_kafka.KafkaException):
        cut_off.commit_transaction(60.0)
