"""A gate and a measured function inside `foreachBatch`: bound, counted and planned as in a stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.spark.by_hand import put
from tests.spark.quarantined import SALT, Silent
from tests.spark.rows import from_files

import penstock as ps
from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.gate import coins, gate_salt, judge
from penstock.core.control.planner import SOURCE
from penstock.core.hashing import xxhash64_ints
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.plans.binding import bindings_of
from penstock.spark.source import Population

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

BATCH = 500
HALF = KeepTable(SOURCE, keep=(0.5, 0.2), reasons=("half", "fifth"))
RESULT = "row bigint, key bigint, weight double, value double"


def slow(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.0005)
    return {name: row[name] for name in ("row", "key", "weight", "value")}


def plan(own: ps.Guard, *gates: KeepTable) -> None:
    plans = own.plans()
    put(plans, Plan(plans.next_version(), "by hand", time.time(), SALT, gates=gates))


def until(done: Callable[[], object], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def start(spark: SparkSession, folder: Path, rows: int, function: Callable[[DataFrame, int], None]) -> StreamingQuery:
    stream = from_files(spark, folder / "in", available=rows, rows_per_batch=BATCH)
    writer = stream.writeStream.foreachBatch(function).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def sink(folder: Path, batch: int) -> Any:
    return pq.read_table(folder / "sink" / str(batch)).sort_by("row")


def test_a_gate_in_foreach_batch_is_bound_counted_and_replayed_alike(spark: SparkSession, tmp_path: Path) -> None:
    own = ps.Guard(
        ps.MeanQueueLatency("1 h"), Silent(), key="key", row="row", keep="key = 3", checkpoint=tmp_path / "checkpoint"
    )
    plan(own, HALF)
    fails = [True]

    def write(df: DataFrame, batch: int) -> None:
        admitted = df.transform(own.admit).transform(own.measured(slow, RESULT, form="row"))
        admitted.write.mode("overwrite").parquet(str(tmp_path / "sink" / str(batch)))
        if batch == 1 and fails:
            raise ZeroDivisionError("killed behind the sink")

    with own.attach(timeout=None):
        query = start(spark, tmp_path, 2 * BATCH, write)
        with pytest.raises(Exception, match="killed behind the sink"):
            query.awaitTermination()
        until(lambda: not own.watching)
        assert [one.sequence for one in own.history()] == [0]
        fails.clear()
        first = sink(tmp_path, 1)
        plan(own)  # Meanwhile there is another plan.
        query = start(spark, tmp_path, 3 * BATCH, write)
        query.awaitTermination()
        until(lambda: len(own.history()) == 2)
    numbers = np.arange(3 * BATCH)
    keys = Population().batch(numbers, numbers)["key"].to_numpy()
    verdicts = judge(
        HALF,
        key_hashes=xxhash64_ints(keys),
        coins=coins(gate_salt(SALT, "guard"), numbers),
        must_keep=keys == 3,
    )
    assert sink(tmp_path, 1).equals(first)
    for batch in (0, 1):
        rows = slice(batch * BATCH, (batch + 1) * BATCH)
        kept = numbers[rows][verdicts.kept[rows]]
        assert np.array_equal(sink(tmp_path, batch)["row"].to_numpy(), kept)
        assert np.array_equal(sink(tmp_path, batch)["weight"].to_numpy(), verdicts.weights[kept])
    assert sink(tmp_path, 2).num_rows == BATCH
    assert [one.plan_version for one in bindings_of(own.folder, str(query.id)).entries()] == [0, 0, 1]
    again, last = own.history()
    assert (again.sequence, again.rows_in, again.rows_kept) == (1, BATCH, first.num_rows)
    assert (last.sequence, last.rows_in, last.rows_kept) == (2, BATCH, BATCH)
    assert last.rows_must_keep == (keys[2 * BATCH :] == 3).sum()
    assert last.queuing is not None
    assert BucketCosts.from_bytes(last.cost_sketch).mean_s >= 0.0005
    assert (own.errors, own.alarms) == (0, ())


def test_two_gates_or_a_quarantine_in_foreach_batch_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    own = ps.Guard(ps.Throughput(50), row="row", checkpoint=tmp_path / "checkpoint")
    keeping = ps.Guard(ps.Throughput(50), row="row", checkpoint=tmp_path / "other", quarantine=tmp_path / "shed")
    told: list[str] = []

    def twice(df: DataFrame, _: int) -> None:
        df.transform(own.admit)
        for guard in (own, keeping):
            with pytest.raises(ps.PenstockError) as error:
                df.transform(guard.admit)
            told.append(str(error.value))

    start(spark, tmp_path, BATCH, twice).awaitTermination()
    assert "has two gates or two measured functions of one guard" in told[0]
    assert told[1].startswith("quarantine does not work in foreachBatch: put .transform(guard.admit)")
