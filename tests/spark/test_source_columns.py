"""What identifies a row, and when it arrived, if the user names no columns: taken from the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.spark.row_columns import RowColumns

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = RowColumns(key=(), row=(), arrival=None, keep=None, cost=None, weight="weight")
KINESIS = "data binary, stream string, shardId string, sequenceNumber string, approximateArrivalTimestamp timestamp"
QUBOLE = (
    "data binary, streamName string, partitionKey string, sequenceNumber string, approximateArrivalTimestamp timestamp"
)
EVENT_HUBS = (
    "body binary, partition string, offset string, sequenceNumber long, enqueuedTime timestamp, partitionKey string"
)
CHANGES = "id long, _change_type string, _commit_version long, _commit_timestamp timestamp"


@pytest.mark.parametrize(
    ("schema", "row", "arrival"),
    [
        (KINESIS, ("stream", "shardId", "sequenceNumber"), "approximateArrivalTimestamp"),
        (QUBOLE, ("streamName", "partitionKey", "sequenceNumber"), "approximateArrivalTimestamp"),
        (EVENT_HUBS, ("partition", "sequenceNumber", "enqueuedTime"), "enqueuedTime"),
        ("id long, _file string, _pos long", ("_file", "_pos"), None),
        (CHANGES, ("`id`", "`_change_type`", "`_commit_version`", "`_commit_timestamp`"), "_commit_timestamp"),
        ("id long, arrival timestamp, enqueuedTime timestamp", ("`id`", "`arrival`", "`enqueuedTime`"), "arrival"),
        ("_metadata struct<file_path: int, row_index: int>", ("`_metadata`",), None),
    ],
)
def test_columns_are_recognized(spark: SparkSession, schema: str, row: tuple[str, ...], arrival: str | None) -> None:
    df = spark.createDataFrame([], schema)
    assert (COLUMNS.identity(df), COLUMNS.arrival_column(df)) == (row, arrival)


def test_a_stream_in_which_no_column_identifies_a_row_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([], "tags map<string, string>, enqueuedTime timestamp").drop("enqueuedTime")
    with pytest.raises(ps.PenstockError, match="row is missing: no column of the stream can be hashed; name columns"):
        COLUMNS.identity(df)


def test_rows_of_files_are_told_apart_and_timed_without_columns_of_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All rows are equal: a coin of their columns would keep all of them or none."""
    for number in range(2):
        pq.write_table(pa.table({"key": np.zeros(1000, np.int64)}), tmp_path / f"in-{number}.parquet")
    own = ps.Guard(ps.MaxLag("1 h"), key="key", checkpoint=tmp_path / "checkpoint")
    stream = spark.readStream.schema("key bigint").parquet(str(tmp_path / "in-*.parquet")).selectExpr("key", "1 as one")
    settings: dict[str, Any] = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "sink")}
    half = stream.transform(own.admit).selectExpr("*", "_metadata.row_index as at")
    query = half.writeStream.format("parquet").options(**settings).trigger(availableNow=True).start()
    with own.watch(query):
        query.awaitTermination()
    (report,) = own.history()
    assert report.rows_in == 2000
    assert report.queuing is not None
    assert report.rows_untimed == 0
    assert pq.read_table(list((tmp_path / "sink").glob("*.parquet"))).num_rows == 2000
    assert COLUMNS.identity(stream) == ("_metadata.file_path", "_metadata.row_index")
    rows = spark.read.parquet(str(tmp_path / "in-*.parquet"))
    distinct = rows.select(COLUMNS.coin(rows, 7).alias("coin")).distinct().count()
    assert distinct == 2000
    (tmp_path / "lines.json").write_text('{"key": 1}')
    lines = spark.read.json(str(tmp_path / "lines.json"), schema="key bigint")
    assert (COLUMNS.identity(lines), COLUMNS.arrival_column(lines)) == (
        ("`key`",),
        "_metadata.file_modification_time",
    )
