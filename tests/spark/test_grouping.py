"""Grouping by cost on real Spark: where rows go, what is learned, replays, batches, and what is refused."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.by_hand import put
from tests.spark.rows import from_files

import penstock as ps
from penstock import grouping
from penstock.core.grouping.partition_costs import cost_table
from penstock.messages.plan import Costs, KeepTable, Plan
from penstock.store.logs import RulesLog

functions = pytest.importorskip("pyspark.sql.functions")
pyspark = pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROWS, BATCH, PARTITIONS = 600, 120, 3
RESULT = "row bigint, key bigint, cost_ms double, partition int"
TARGET = ps.Throughput(1_000_000)
needs_direct_partitions = pytest.mark.since_spark((4, 1), "grouping by cost")


def slept(row: dict[str, Any]) -> dict[str, Any]:
    """Wait as long as the row says; say where."""
    time.sleep(row["cost_ms"] / 1000.0)
    return placed(row)


def slept_slowly_on_0(row: dict[str, Any]) -> dict[str, Any]:
    """The first partition is six times as slow: twice would be seen on a busy machine, too."""
    result = placed(row)
    time.sleep(row["cost_ms"] / 1000.0 * (6.0 if result["partition"] == 0 else 1.0))
    return result


def placed(row: dict[str, Any]) -> dict[str, Any]:
    context = pyspark.TaskContext.get()
    return {"row": row["row"], "key": row["key"], "cost_ms": row["cost_ms"], "partition": context.partitionId()}


def partition_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = pyspark.TaskContext.get()
    for batch in batches:
        yield batch.append_column("partition", pa.array([context.partitionId()] * batch.num_rows, pa.int32()))


def with_partition(df: DataFrame) -> pa.Table:
    """The rows with the number of the task that got them."""
    fields = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in df.schema.fields)
    return df.mapInArrow(partition_ids, f"{fields}, partition int").toArrow()


def rows_of(spark: SparkSession, rows: int = 300) -> DataFrame:
    """Ten keys of which one is null; key k costs k + 1 ms."""
    key = functions.col("id") % 10
    return spark.range(0, rows, 1, 2).select(
        functions.col("id").alias("row"),
        functions.when(key > 0, key).alias("key"),
        (key + 1).cast("double").alias("cost_ms"),
    )


def stream(spark: SparkSession, **options: object) -> DataFrame:
    given = {"available": ROWS, "rows_per_batch": BATCH, "keys": 64, "min_cost_ms": 0.5, "max_cost_ms": 8.0} | options
    return from_files(spark, **given)


def run(df: DataFrame, folder: Path, watching: Any = None) -> StreamingQuery:
    query = (
        df.writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if watching is not None:
        watching.watch(query)
    query.awaitTermination()
    deadline_s = time.monotonic() + 30.0
    while watching is not None and watching.watching and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return query


def sink(folder: Path) -> pa.Table:
    return pq.read_table([str(path) for path in (folder / "sink").glob("*.parquet")]).sort_by("row")


def counts(table: pa.Table, partitions: int = PARTITIONS) -> list[int]:
    return np.bincount(table["partition"].to_numpy(), minlength=partitions).tolist()


def loads(table: pa.Table, partitions: int = PARTITIONS) -> Any:
    return np.bincount(table["partition"].to_numpy(), table["cost_ms"].to_numpy(), minlength=partitions)


@needs_direct_partitions
def test_a_batch_is_dealt_in_turn_until_costs_are_learned_and_always_alike(spark: SparkSession, tmp_path: Path) -> None:
    df = rows_of(spark).transform(grouping.by_cost("key", 7, checkpoint=tmp_path))
    first, again = (with_partition(df).sort_by("row") for _ in range(2))
    # Seven partitions of few rows each, and AQE, which is on, neither joined nor split any.
    assert max(counts(first, 7)) - min(counts(first, 7)) <= 2  # two tasks deal, each within one
    assert first.equals(again)
    assert first["row"].to_pylist() == list(range(300))
    nulls = first.filter(pa.compute.is_null(first["key"]))
    assert set(nulls["partition"].to_pylist()) == set(range(7))


@needs_direct_partitions
def test_who_knows_each_rows_cost_gets_partitions_that_end_together(spark: SparkSession) -> None:
    df = rows_of(spark).withColumn("cost_s", functions.col("cost_ms") / 1000.0)
    alike = with_partition(df.transform(grouping.by_cost(cost="cost_s", partitions=4)))
    assert loads(alike, 4).max() / loads(alike, 4).min() < 1.02
    unlike = with_partition(df.transform(grouping.by_cost(cost="cost_s", partitions=2, factors=(3.0, 1.0))))
    slow, fast = loads(unlike, 2)
    assert fast / slow == pytest.approx(3.0, rel=0.03)


@needs_direct_partitions
def test_a_stream_learns_what_keys_cost_and_which_partition_is_slow(spark: SparkSession, tmp_path: Path) -> None:
    own = grouping.by_cost("key", PARTITIONS, checkpoint=tmp_path / "checkpoint", row="row")
    df = stream(spark).transform(own).transform(own.measured(slept_slowly_on_0, RESULT, form="row"))
    query = run(df, tmp_path, own)

    found = sink(tmp_path)
    assert found["row"].to_pylist() == list(range(ROWS))
    first, last = found.slice(0, BATCH), found.slice(ROWS - BATCH, BATCH)
    assert max(counts(first)) - min(counts(first)) <= 2
    assert loads(last)[0] < 0.6 * loads(last)[1:].min()  # a sixth, if it were known exactly
    assert own.errors == 0
    reports = own.history()
    assert [report.rows_in for report in reports] == [BATCH] * (ROWS // BATCH)
    assert reports[0].plan_version is None
    assert reports[-1].plan_version is not None
    learned = own.plans().latest()
    assert learned is not None
    assert learned.gates == ()
    costs = learned.costs_at("grouping")
    assert costs is not None
    factors = np.array(costs.factors)
    assert factors[0] > 1.8 * factors[1:].max()
    table = cost_table(costs)[1]
    by_key = dict(zip(found["key"].to_pylist(), found["cost_ms"].to_pylist(), strict=True))
    # Of the most frequent keys, which are learned best even on a busy machine.
    dear, cheap = (select(range(6), key=lambda key: by_key[key]) for select in (max, min))
    assert table[bucket(dear)] > table[bucket(cheap)]

    # The last batch once more, as after a crash before its commit, while another plan has come up.
    version = own.plans().next_version()
    own.plans().add(version, Plan(version, "by hand", time.time(), 0, costs=(Costs("grouping", PARTITIONS, (1.0,)),)))
    for name in (f"{ROWS // BATCH - 1}", f".{ROWS // BATCH - 1}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    shutil.rmtree(tmp_path / "sink")
    again = run(df, tmp_path)
    assert again.id == query.id
    assert sink(tmp_path).equals(last)


def bucket(key: int) -> int:
    from penstock.core.hashing import xxhash64_ints  # noqa: PLC0415 - only here

    return int(xxhash64_ints(np.array([key]))[0]) & 1023


@needs_direct_partitions
def test_a_stream_whose_costs_cannot_be_read_is_dealt_in_turn(spark: SparkSession, tmp_path: Path) -> None:
    own = grouping.by_cost("key", PARTITIONS, checkpoint=tmp_path / "checkpoint", row="row")
    df = stream(spark, available=BATCH).transform(own).transform(own.measured(placed, RESULT, form="row"))
    plans = tmp_path / "checkpoint" / "penstock" / "plans"
    plans.mkdir(exist_ok=True)
    (plans / f"{0:020d}.plan").write_text("torn")
    run(df, tmp_path)
    found = sink(tmp_path)
    assert found["row"].to_pylist() == list(range(BATCH))
    assert max(counts(found)) - min(counts(found)) <= 2


@needs_direct_partitions
def test_a_guards_probe_and_plans_serve_its_grouping(spark: SparkSession, tmp_path: Path) -> None:
    guard = ps.Guard(TARGET, key="key", row="row", checkpoint=tmp_path / "checkpoint")
    own = grouping.by_cost("key", PARTITIONS, guard=guard)
    run(
        stream(spark)
        .transform(guard.admit)
        .transform(own)
        .transform(own.measured(slept_slowly_on_0, RESULT, form="row")),
        tmp_path,
        guard,
    )
    assert guard.errors == 0
    newest = guard.plans().latest()
    assert newest is not None
    costs = newest.costs_at("grouping")
    assert costs is not None
    assert costs.factors[0] > 1.8 * max(costs.factors[1:])
    last = sink(tmp_path).slice(ROWS - BATCH, BATCH)
    assert loads(last)[0] < 0.6 * loads(last)[1:].min()
    assert sum(report.rows_kept for report in guard.history()) == ROWS


@needs_direct_partitions
def test_a_batch_goes_by_what_the_run_before_it_learned(spark: SparkSession, tmp_path: Path) -> None:
    own = grouping.by_cost("key", PARTITIONS, checkpoint=tmp_path)
    with pytest.raises(ps.PenstockError, match="nothing was measured in a batch: put"):
        own.learn()
    df = rows_of(spark).filter("row >= 0")
    timed = df.transform(own).transform(own.measured(slept, RESULT, form="row"))
    with pytest.raises(ps.PenstockError, match="nothing was measured yet: run an action"):
        own.learn(timeout_s=0.2)
    timed = df.transform(own).transform(own.measured(slept, RESULT, form="row"))
    assert timed.toArrow().num_rows == 300
    assert own.learn() is not None

    next_night = grouping.by_cost("key", PARTITIONS, checkpoint=tmp_path)
    nothing = df.filter("row < 0").transform(next_night).transform(next_night.measured(slept, RESULT, form="row"))
    assert nothing.toArrow().num_rows == 0
    assert next_night.learn() is None
    found = with_partition(df.transform(next_night))
    assert loads(found).max() / loads(found).min() < 1.1
    # Of a grouping into more partitions only the costs by key are of use.
    wider = with_partition(df.transform(grouping.by_cost("key", 5, checkpoint=tmp_path)))
    assert loads(wider, 5).max() / loads(wider, 5).min() < 1.1
    with pytest.raises(ps.PenstockError, match="another one wrote it: key"):
        df.transform(grouping.by_cost("row", PARTITIONS, checkpoint=tmp_path))


@needs_direct_partitions
def test_costs_outlive_a_guards_gates(tmp_path: Path, spark: SparkSession) -> None:
    guard = ps.Guard(TARGET, key="key", row="row", checkpoint=tmp_path / "checkpoint")
    own = grouping.by_cost(partitions=PARTITIONS, guard=guard)
    costs = Costs("grouping", PARTITIONS, (1.0,))
    table = KeepTable("source", keep=(0.5,), reasons=("busy",))
    put(guard.plans(), Plan(0, "by hand", time.time(), 0, gates=(table,), costs=(costs,)))
    run(
        stream(spark, available=BATCH)
        .transform(guard.admit)
        .transform(own)
        .transform(guard.measured(placed, RESULT, form="row")),
        tmp_path,
        guard,
    )
    assert 0 < sink(tmp_path).num_rows < BATCH
    newest = guard.plans().latest()
    assert newest is not None
    assert newest.gates == ()
    assert newest.costs_at("grouping") is not None


def guarded(**settings: Any) -> ps.Guard:
    return ps.Guard(TARGET, **settings)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: grouping.by_cost("key", 0), "partitions = 0 is not usable: give a whole number from 1 to"),
        (lambda: grouping.by_cost("key", 2**31), "partitions = 2147483648 is not usable: give a whole number"),
        (lambda: grouping.by_cost(0, 2), "key = 0 is not usable: give the name of a column"),
        (lambda: grouping.by_cost("key", 2, factors=7), "factors = 7 is not usable: give a number for each partition"),
        (lambda: grouping.by_cost("a", 2, guard=guarded(key="a")).learn(), "its guard learns for it, from a stream"),
        (lambda: grouping.by_cost(cost="c", partitions=2).learn(), "cost says what rows cost"),
        (lambda: grouping.by_cost("key", 2.5), "partitions = 2.5 is not usable: give a whole number"),
        (lambda: grouping.by_cost("key", partitions=True), "partitions = True is not usable: give a whole number"),
        (lambda: grouping.by_cost("key"), "partitions is missing: say how many there are to be"),
        (lambda: grouping.by_cost(partitions=2), "key is missing: name the column"),
        (lambda: grouping.by_cost(7, 2), "key = 7 is not usable: give the name of a column"),
        (lambda: grouping.by_cost("key", 2, cost="cost"), "cost = 'cost' is not usable: give either key or cost"),
        (lambda: grouping.by_cost("key", 2, factors=(1, 2)), "factors = (1, 2) is not usable: give it together with"),
        (lambda: grouping.by_cost(cost="c", partitions=2, factors=(1,)), "factors = (1.0,) is not usable: give one"),
        (lambda: grouping.by_cost(cost="c", partitions=1, factors=(0,)), "factors[0] = 0 is not usable: give a finite"),
        (lambda: grouping.by_cost(cost="c", partitions=2, guard=guarded(key="key")), "cost = 'c' is not usable"),
        (lambda: grouping.by_cost("key", 2, name="a b"), "name = 'a b' is not usable"),
        (lambda: grouping.by_cost("key", 2, checkpoint="hdfs://h/a"), "checkpoint = 'hdfs://h/a' is not usable"),
        (lambda: grouping.by_cost("key", 2, guard="mine"), "guard = 'mine' is not usable: give a Guard"),
        (lambda: grouping.by_cost("key", 2, guard=guarded()), "guard 'guard' has no key"),
        (lambda: grouping.by_cost("a", 2, guard=guarded(key="b")), "key = 'a' is not usable: give the guard's own, b"),
        (lambda: grouping.by_cost("a", 2, guard=guarded(key="a"), row="r"), "row = ('r',) is not usable: give it to"),
        (lambda: grouping.by_cost("a", 2, guard=guarded(key="a")).watch(Query()), "call the guard's watch"),
        (lambda: grouping.by_cost("a", 2).watch("query"), "query = 'query' is not usable: give a streaming query"),
        (lambda: grouping.by_cost("a", 2)("rows"), "df = 'rows' is not usable: give a data frame of Spark 4.1"),
        (lambda: grouping.by_cost("a", 2).measured(7, RESULT), "function = 7 is not usable"),
        (lambda: grouping.by_cost("a", 2).measured(placed, RESULT, form="csv"), "form = 'csv' is not usable"),
    ],
)
def test_bad_settings_are_refused_in_one_line(make: Any, line: str) -> None:
    with pytest.raises(ps.PenstockError) as caught:
        make()
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


class Query:
    lastProgress = None  # noqa: N815 - as Spark spells it


def test_a_second_grouping_of_a_guard_is_refused() -> None:
    guard = guarded(key="key")
    grouping.by_cost("key", 2, guard=guard)
    grouping.by_cost("key", 2, guard=guard)
    with pytest.raises(ps.PenstockError, match="guard 'guard' has a grouping already"):
        grouping.by_cost("key", 3, guard=guard)


@needs_direct_partitions
def test_columns_that_are_not_there_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    df = rows_of(spark)
    for made, line in (
        (grouping.by_cost("user_id", 2, checkpoint=tmp_path), "key = 'user_id' is not usable: give a column of"),
        (grouping.by_cost("key", 2, row="offset", checkpoint=tmp_path), "row = 'offset' is not usable: give a column"),
        (grouping.by_cost(cost="cost", partitions=2), "cost = 'cost' is not usable: give a column"),
        (
            grouping.by_cost("key", 2, checkpoint=tmp_path),
            "row is missing: two columns are named `cost_ms`; rename one",
        ),
    ):
        with pytest.raises(ps.PenstockError) as caught:
            df.select("*", "cost_ms").transform(made)
        assert line in str(caught.value)
    assert not (tmp_path / "penstock").exists()


@needs_direct_partitions
def test_a_grouping_in_front_of_the_gate_binds_batches_under_the_rules_of_the_gate(
    spark: SparkSession, tmp_path: Path
) -> None:
    guard = ps.Guard(ps.Throughput(100.0), key="value", row="value", checkpoint=tmp_path)
    own = grouping.by_cost("value", 2, guard=guard)
    stream = spark.readStream.format("rate").load().transform(own)
    bound_under = guard.dealt_by(stream, own.name).args[0].rules  # type: ignore[attr-defined]
    stream.transform(guard.admit)
    (gate,) = (tmp_path / "penstock" / "rules").iterdir()
    assert [number for number, _ in bound_under] == RulesLog(gate).versions()
