"""The guard beside other parts of Spark that move work: every row is kept or shed, and none is doubled.

`make matrix` runs these tests on each version; `make test` does not, for the time they take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.elastic_query import BATCH, ROWS
from tests.spark.quarantined import guard, put_plan
from tests.spark.until_read import until_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = Path(__file__).with_name("elastic_query.py")
ROOT = Path(__file__).parents[2]


def check(folder: Path, kept: list[int], reports: list[list[int]], rows: int) -> None:
    shed = pq.read_table(folder / "shed", columns=["row"])["row"].to_pylist()
    assert len(shed) > rows / 10
    assert sorted(kept + shed) == list(range(rows))
    assert sum(rows_in for rows_in, _ in reports) == rows
    assert sum(rows_kept for _, rows_kept in reports) == len(kept)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_adaptive_execution_neither_loses_nor_doubles_rows(spark: SparkSession, tmp_path: Path, adaptive: str) -> None:
    of = guard(tmp_path)
    put_plan(of)
    stream = spark.readStream.format("penstock").options(available=ROWS, rows_per_batch=BATCH, rate=100_000, seed=3)
    where = {"path": str(tmp_path / "sink"), "checkpointLocation": str(tmp_path / "checkpoint")}
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        query = until_read(
            stream.load().transform(of.admit).repartition("key").writeStream.format("parquet").options(**where)
        )
        with of.watch(query):
            assert query.awaitTermination(120)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before)
    kept = pq.read_table(tmp_path / "sink")["row"].to_pylist()
    check(tmp_path, kept, [[one.rows_in, one.rows_kept] for one in of.history()], ROWS)


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("kind", ["speculation", "allocation", "decommission", "loss"])
def test_executors_that_come_and_go_neither_lose_nor_double_rows(tmp_path: Path, kind: str) -> None:
    places = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), kind],
        env={**os.environ, "PYTHONPATH": places},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["failed"] == ""
    check(tmp_path, told["kept"], told["reports"], ROWS)
    attempts = len(list(tmp_path.glob("attempt-*")))
    assert attempts > ROWS // BATCH or kind != "speculation", "no task was tried twice"
    assert bool(told["gone"]) == (kind in {"decommission", "loss"})
