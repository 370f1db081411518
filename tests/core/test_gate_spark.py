"""The NumPy gate against Catalyst: the same rows pass, with the same weights, written in Spark's public functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.control.gate import CERTAIN_WEIGHT, coins, judge, thresholds
from penstock.core.hashing import xxhash64
from penstock.messages.plan import KeepTable

functions = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

ROWS = 50_000


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(11)
    users = [f"usér {number}" for number in rng.zipf(1.3, ROWS).clip(max=10**9).tolist()]
    return pa.table({"id": np.arange(ROWS), "user": users, "gold": rng.random(ROWS) < 0.05})


def catalyst(table: KeepTable, salt: int) -> tuple[Column, Column]:
    """The gate as two columns: is the row kept, and with what weight."""
    f = functions
    number = f.xxhash64("user").bitwiseAND(f.lit(table.buckets - 1)).cast("int")
    limit = f.get(f.array(*(f.lit(limit) for limit in thresholds(table).tolist())), number)
    passes = f.shiftrightunsigned(f.xxhash64(f.lit(salt).cast("long"), "id"), 1) <= limit
    weight = f.when(f.col("gold"), CERTAIN_WEIGHT).when(passes, f.lit(2.0**63) / (limit + f.lit(1.0))).otherwise(0.0)
    return passes | f.col("gold"), weight


def share_of(row: int, salt: int) -> float:
    """The share whose threshold is next to the row's coin."""
    return (xxhash64(salt, row) % 2**64 >> 1) / 2**63


@pytest.mark.parametrize(
    ("keep", "salt"),
    [
        ((0.37,), 42),
        ((share_of(7, 42),), 42),  # row 7 stands on the edge
        (tuple(np.random.default_rng(3).random(64).tolist()), -(2**63)),
        ((0.0, 1.0, 0.5, 0.01, 1e-12, 1.0 - 2**-53, 0.25, 2**-63), 2**63 - 1),
    ],
)
def test_spark_and_numpy_judge_every_row_alike(
    spark: SparkSession, rows: pa.Table, keep: tuple[float, ...], salt: int
) -> None:
    table = KeepTable("source", keep=keep, reasons=("over capacity",))
    kept, weight = catalyst(table, salt)
    answer = (
        spark.createDataFrame(rows).select("id", kept.alias("kept"), weight.alias("weight")).orderBy("id").toArrow()
    )

    verdicts = judge(
        table,
        key_hashes=np.array([xxhash64(user) for user in rows["user"].to_pylist()]),
        coins=coins(salt, rows["id"].to_numpy()),
        must_keep=rows["gold"].to_numpy(),
    )

    assert np.array_equal(answer["kept"].to_numpy(), verdicts.kept)
    assert np.array_equal(answer["weight"].to_numpy(), verdicts.weights)
    assert 0 < verdicts.kept.sum() < ROWS
