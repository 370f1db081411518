"""The hashes of Python against those of a real Spark, value by value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.hashing import HashFamily, bucket, unit_interval, xxhash64, xxhash64_ints

functions = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
NULL_SHARE = 0.1


def texts(rng: np.random.Generator) -> list[str]:
    """Strings of 0 to 40 code points from every plane but the surrogates, plus the edges."""

    def text() -> str:
        points = rng.integers(0, 2 ** rng.integers(5, 21), rng.integers(0, 41))
        return "".join(chr(p) for p in points.tolist() if p <= 0x10FFFF and not 0xD800 <= p <= 0xDFFF)

    return ["", "\0", "é", "\U0001f600", "x" * 200, "é" * 200, *(text() for _ in range(ROWS - 6))]


def integers(rng: np.random.Generator, width: type[np.signedinteger]) -> np.ndarray:
    limits = np.iinfo(width)
    edges = np.array([0, 1, -1, limits.min, limits.max], width)
    return np.append(edges, rng.integers(limits.min, limits.max, ROWS - len(edges), width, endpoint=True))


def reals(rng: np.random.Generator, width: type[np.floating]) -> np.ndarray:
    whole = np.uint64 if width is np.float64 else np.uint32
    # Random bits reach every kind of number, NaNs with payloads among them.
    bits = rng.integers(0, np.iinfo(whole).max, ROWS - 6, whole, endpoint=True).view(width)
    return np.append(np.array([0.0, -0.0, math.nan, -math.nan, math.inf, 5e-324], width), bits)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(7)
    strings = texts(rng)
    columns = {
        "long": integers(rng, np.int64),
        "int": integers(rng, np.int32),
        "short": integers(rng, np.int16),
        "byte": integers(rng, np.int8),
        "boolean": rng.random(ROWS) < 0.5,
        "double": reals(rng, np.float64),
        "float": reals(rng, np.float32),
        "string": pa.array(strings),
        "binary": pa.array([rng.bytes(length % 101) for length in range(ROWS)]),
    }
    nulls = {
        f"{name}_or_null": pa.array(
            pa.array(values).to_pylist(), pa.array(values).type, mask=rng.random(ROWS) < NULL_SHARE
        )
        for name, values in columns.items()
    }
    return pa.table(columns | nulls)


def python_values(column: pa.ChunkedArray) -> list[object]:
    """The values as scalars of the same width; Arrow's own to_pylist would widen them."""
    if str(column.type) in {"string", "binary"}:
        return column.to_pylist()
    valid = column.is_valid().to_pylist()
    plain = column.combine_chunks().fill_null(0 if str(column.type) != "bool" else False)
    return [value if ok else None for value, ok in zip(plain.to_numpy(zero_copy_only=False), valid, strict=True)]


def spark_says(spark: SparkSession, table: pa.Table, *expressions: str) -> list[np.ndarray]:
    answer = spark.createDataFrame(table).selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(expressions))).toArrow()
    return [column.to_numpy() for column in answer.columns]


def test_scalars_of_every_type_hash_as_in_spark(spark: SparkSession, table: pa.Table) -> None:
    answers = spark_says(spark, table, *(f"xxhash64(`{name}`)" for name in table.column_names))
    for name, answer in zip(table.column_names, answers, strict=True):
        expected = [xxhash64(value) for value in python_values(table[name])]
        assert answer.tolist() == expected, name


def test_arrays_hash_as_in_spark(spark: SparkSession, table: pa.Table) -> None:
    integers = ["long", "int", "short", "byte", "boolean"]
    answers = spark_says(spark, table, *(f"xxhash64(`{name}`)" for name in integers))
    for name, answer in zip(integers, answers, strict=True):
        assert np.array_equal(answer, xxhash64_ints(table[name].to_numpy())), name


def test_two_columns_hash_as_in_spark(spark: SparkSession, table: pa.Table) -> None:
    text_number, all_of_them = spark_says(
        spark,
        table,
        "xxhash64(string_or_null, int)",
        f"xxhash64({', '.join(f'`{name}`' for name in table.column_names)})",
    )
    texts = np.array([xxhash64(text) for text in table["string_or_null"].to_pylist()])
    assert np.array_equal(text_number, xxhash64_ints(table["int"].to_numpy(), texts))
    rows = zip(*(python_values(table[name]) for name in table.column_names), strict=True)
    assert all_of_them.tolist() == [xxhash64(*row) for row in rows]


def test_buckets_and_the_unit_interval_are_those_of_spark(spark: SparkSession, table: pa.Table) -> None:
    hashed, few, many, spread = spark_says(
        spark,
        table,
        "xxhash64(string)",
        "pmod(xxhash64(string), 54)",
        "pmod(xxhash64(string), 1000000007L)",
        "shiftrightunsigned(xxhash64(string), 11) * double(pow(2, -53))",
    )
    assert np.array_equal(few, bucket(hashed, 54))
    assert np.array_equal(many, bucket(hashed, 1_000_000_007))
    assert np.array_equal(spread, unit_interval(hashed))
    assert spread.dtype == np.float64


@pytest.mark.parametrize("key", ["long", "int", "string", "string_or_null"])
def test_catalyst_computes_the_columns_of_a_family(spark: SparkSession, table: pa.Table, key: str) -> None:
    family = HashFamily(rows=4, columns=54, seed=11)
    catalyst = [
        functions.pmod(functions.xxhash64(functions.lit(salt).cast("long"), functions.col(key)), functions.lit(54))
        for salt in family.salts
    ]
    answer = spark.createDataFrame(table).select(*(c.alias(f"h{i}") for i, c in enumerate(catalyst))).toArrow()
    texts = key.startswith("string")
    ours = (
        np.stack([family.columns_of(one) for one in table[key].to_pylist()], axis=1)
        if texts
        else family.columns_of_many(table[key].to_numpy())
    )
    assert np.array_equal(np.stack([column.to_numpy() for column in answer.columns]), ours)
