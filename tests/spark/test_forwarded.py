"""Files whose rows are in a table or a topic are put aside, and deleted when they are old."""

from __future__ import annotations

import errno
import json
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import penstock as ps
from penstock.spark.quarantine import forwarded
from penstock.spark.quarantine.forward import Forward
from penstock.spark.quarantine.rows import COIN, PART, PLAN_VERSION, REASON_NUMBER, Place, Sign, Writer, file_names

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUERY = "11aa-22bb"
ROW = {"type": "struct", "fields": [{"name": "row", "type": "long", "nullable": True, "metadata": {}}]}


def write_shed(folder: Path, batch: int, rows: int) -> None:
    """What a task does with the rows that a batch sheds."""
    columns = {
        "row": pa.array(range(rows), pa.int64()),
        REASON_NUMBER: pa.array([0] * rows, pa.int32()),
        PLAN_VERSION: pa.array([-1] * rows, pa.int64()),
        PART: pa.array([0] * rows, pa.int32()),
        COIN: pa.array(range(100, 100 + rows), pa.int64()),
    }
    rows_shed = pa.RecordBatch.from_pydict(columns)
    Writer(str(folder), str(folder.parent), "source").write([rows_shed], batch, QUERY)


def test_files_whose_rows_are_in_a_table_leave_the_folder_and_are_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "penstock" / "quarantine"
    Sign("guard", "weight", json.dumps(ROW)).put(folder)
    try:
        for batch in range(2):
            write_shed(folder, batch, rows=5)
            Forward(spark, folder, Place.of("table:shed_aside")).stop()
        assert spark.table("shed_aside").count() == 10
    finally:
        spark.sql("DROP TABLE IF EXISTS shed_aside")
    left = {path.name for path in folder.glob("*.parquet")}
    aside = {path.name for path in forwarded.kept_in(folder).glob("*.parquet")}
    assert aside == {file_names(QUERY, 0)[0]}
    assert left == {file_names(QUERY, 1)[0]}
    write_shed(folder, 0, rows=5)  # a batch that is run again
    assert {path.name for path in folder.glob("*.parquet")} == left
    with pytest.raises(ps.PenstockError, match="holds other rows of a batch with the same number"):
        write_shed(folder, 0, rows=4)


def test_files_that_were_put_aside_are_deleted_when_they_are_old(tmp_path: Path) -> None:
    folder = tmp_path / "penstock" / "quarantine"
    aside = forwarded.kept_in(folder)
    aside.mkdir(parents=True)
    names = [file_names(QUERY, batch)[0] for batch in range(1500)]
    for name in [*names, file_names("another-query", 3)[0]]:
        (aside / name).touch()
    now_s = time.time()
    forwarded.purge(folder, QUERY, 1499, now_s)
    assert len(list(aside.iterdir())) == 1501
    forwarded.purge(folder, QUERY, 1500, now_s)
    assert sorted(path.name for path in aside.glob(f"{QUERY}-*")) == names[500:]
    forwarded.purge(folder, QUERY, 1500, now_s + 8 * 24 * 3600.0)
    assert sorted(path.name for path in aside.glob(f"{QUERY}-*")) == names[1300:]
    assert len(list(aside.iterdir())) == 201


class Query:
    id, lastProgress = "2f1d", None  # noqa: N815 - Spark's name


def test_rows_that_were_shed_before_go_on_to_their_table_when_the_guard_is_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "penstock" / "quarantine"
    Sign("guard", "weight", json.dumps(ROW)).put(folder)
    write_shed(folder, 0, rows=5)
    off = ps.Guard(ps.Throughput(100.0), mode="off", checkpoint=tmp_path, quarantine="table:shed_before")
    off.admit(spark.readStream.format("rate").load())
    try:
        off.watch(Query()).stop()  # type: ignore[arg-type]
        assert spark.table("shed_before").count() == 5
    finally:
        spark.sql("DROP TABLE IF EXISTS shed_before")


def test_a_full_disk_is_told_in_one_line_and_nothing_is_left_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    def write_table(*_: object) -> None:
        raise full

    def close(writer: pq.ParquetWriter) -> None:
        if writer.is_open:
            writer.is_open = False  # so that it raises once
            raise full

    Sign("guard", "weight", json.dumps(ROW)).put(tmp_path)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)
    monkeypatch.setattr(pq.ParquetWriter, "close", close)
    with pytest.raises(ps.PenstockError, match=r"quarantine = .* can be written; .* No space left on device"):
        write_shed(tmp_path, 0, rows=5)
    assert [path.name for path in tmp_path.iterdir()] == ["_penstock.json"]
