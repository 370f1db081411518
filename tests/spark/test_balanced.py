"""Balanced at the gate of Spark: a bucket tells key and worth, in Catalyst as in NumPy."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.by_hand import put
from tests.spark.rows import from_files

import penstock as ps
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.gate import coins, gate_salt, judge
from penstock.core.control.planner import SOURCE
from penstock.core.hashing import xxhash64_ints
from penstock.messages.plan import KeepTable, Plan, RowSic

functions = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

TARGET = ps.Throughput(1e9)
WORTH = ps.Worth("price", [(0, 50, 0.2), (50, 100, 1.0), (100, 200, 0.5)])
SALT, ROWS = 11, 5000


def rows() -> pa.Table:
    rng = np.random.default_rng(1)
    prices = rng.uniform(-20.0, 250.0, ROWS)
    prices[::7] = np.repeat([0.0, 50.0, 100.0, 200.0, math.nan], ROWS)[: len(prices[::7])]
    listed = [None if number % 11 == 0 else price for number, price in enumerate(prices.tolist())]
    return pa.table(
        {
            "row": pa.array(np.arange(ROWS)),
            "key": pa.array(rng.integers(0, 400, ROWS)),
            "price": pa.array(listed, pa.float64()),
        }
    )


def guarded(folder: Path) -> ps.Guard:
    return ps.Guard(TARGET, ps.Balanced(key="key", value=WORTH, seed=SALT), row="row", checkpoint=folder)


def shared(folder: Path) -> ps.Guard:
    fair = ps.Fair("2 s", policy=ps.Balanced(alpha="inf"), seed=SALT)
    return fair.query("alerts", key="key", value=WORTH, row="row", checkpoint=folder)


@pytest.mark.parametrize("make", [guarded, shared])
def test_spark_and_numpy_judge_rows_of_every_worth_alike(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], ps.Guard]
) -> None:
    guard = make(tmp_path)
    keep = np.random.default_rng(2).uniform(0.05, 1.0, BUCKETS)
    table = KeepTable(SOURCE, keep=tuple(keep.tolist()), reasons=("by hand",))
    sic = RowSic(SOURCE, (0.001,))
    put(guard.plans(), Plan(1, "by hand", time.time(), SALT, gates=(table,), sic=(sic,)))
    given = rows()
    found = spark.createDataFrame(given).transform(guard.admit).select("row", "weight").toArrow().sort_by("row")
    prices = np.array([math.nan if price is None else price for price in given["price"].to_pylist()])
    strata = WORTH.strata(xxhash64_ints(given["key"].to_numpy()), prices)
    expected = judge(table, key_hashes=strata, coins=coins(gate_salt(SALT, guard.name), given["row"].to_numpy()))
    assert found["row"].to_pylist() == np.flatnonzero(expected.kept).tolist()
    np.testing.assert_allclose(found["weight"].to_numpy(), expected.weights[expected.kept])


def test_what_differs_between_queries_is_given_to_each() -> None:
    with pytest.raises(ps.PenstockError, match=r"give them to fair\.query"):
        ps.Fair("2 s", policy=ps.Balanced(value=WORTH))
    with pytest.raises(ps.PenstockError, match=r"value = .* is not usable: give it only together with policy=Balanced"):
        ps.Fair("2 s", policy="balance_sic").query("alerts", value=WORTH)
    with pytest.raises(ps.PenstockError, match=r"prefer = 'sic' .* only together with policy='balance_sic'"):
        ps.Fair("2 s").query("alerts", prefer="sic")
    assert ps.Fair("2 s").query("alerts", key="user", value=WORTH).worth == WORTH
    with pytest.raises(ps.PenstockError, match=r"policy = 'unfair' .* Balanced\(alpha=...\), 'balance_sic'"):
        ps.Fair("2 s", policy="unfair")
    with pytest.raises(ps.PenstockError, match="seed = 5 is not usable: give it to Fair"):
        ps.Fair("2 s", policy=ps.Balanced(seed=5))


def test_costs_are_learned_by_worth(spark: SparkSession, tmp_path: Path) -> None:
    """All rows of a stream are worth the same, so only buckets of that grade are measured."""
    reports: list[ps.Report] = []
    guard = ps.Guard(TARGET, ps.Balanced(value=WORTH), key="key", row="row", checkpoint=tmp_path / "c")
    stream = from_files(spark, available=400, rows_per_batch=200).withColumn("price", functions.lit(120.0))
    query = (
        stream.transform(guard.admit)
        .transform(guard.measured(lambda row: {"row": row["row"]}, "row bigint", form="row"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    with guard.watch(query, reports.append):
        query.awaitTermination()
        deadline_s = time.monotonic() + 300.0
        while guard.watching and time.monotonic() < deadline_s:
            time.sleep(0.05)
    assert sum(report.rows_kept for report in reports) == 400
    for report in reports:
        assert report.cost_sketch is not None
        seen = np.flatnonzero(BucketCosts.from_bytes(report.cost_sketch).rows)
        assert len(seen) > 10
        assert set(seen // WORTH.keys) == {2}


def test_a_guard_with_other_worths_is_another_guard(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame(rows())
    df.transform(ps.Guard(TARGET, ps.Balanced(value=WORTH), key="key", checkpoint=tmp_path).admit)
    for policy in (ps.LoadAware(), ps.Balanced(value="price")):
        with pytest.raises(ps.PenstockError, match=r"another one wrote it: .*value"):
            df.transform(ps.Guard(TARGET, policy, key="key", checkpoint=tmp_path).admit)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"policy": ps.Balanced(value="cost")}, "value = 'cost' is not usable: give a column of the stream: row, key"),
        ({"policy": ps.Balanced(value="name")}, "value = 'name' is not usable: give a column of numbers; it is string"),
        ({"policy": ps.Balanced(key="row"), "key": "key"}, "key = 'key' is not usable: give it once"),
        ({"policy": ps.Balanced(value="price"), "weight": "price"}, "weight = 'price' is not usable"),
        ({"policy": ps.Balanced(), "row_gate": True}, "row_gate = True is not usable"),
    ],
)
def test_settings_that_do_not_fit_are_refused(spark: SparkSession, settings: dict[str, Any], line: str) -> None:
    df = spark.createDataFrame(rows()).withColumn("name", functions.lit("x"))
    with pytest.raises(ps.PenstockError, match=line):
        df.transform(ps.Guard(TARGET, **settings).admit)
