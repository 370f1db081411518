"""Answers as Spark columns: behind a real gate, in one job over thousands of windows, and in a stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.spark.by_hand import put

import penstock as ps
from penstock import PenstockError, PenstockWarning, answers
from penstock.core.answers import estimates as equations
from penstock.core.answers.estimates import Quantile
from penstock.core.answers.sums import Arrays, summed
from penstock.core.control.planner import SOURCE
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.row_columns import MADE_BY

F = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

WINDOWS, ROWS = 3000, 200
TABLE = KeepTable(SOURCE, keep=(0.3, 0.6), reasons=("over capacity",))
ASKED = {
    "n": answers.count,
    "total": lambda: answers.sum("value"),
    "average": lambda: answers.mean("value"),
    "part": lambda: answers.share("value > 2"),
    "rate": lambda: answers.ratio("value", F.col("window") % 3 + F.col("row") % 5 + 1),
}


def gated(df: DataFrame, folder: Path) -> DataFrame:
    guard = ps.Guard(
        ps.Throughput(1000), ps.RandomShed(seed=4), key="key", row="row", keep="key = 3", checkpoint=folder
    )
    put(guard.plans(), Plan(0, "by hand", time.time(), 4, gates=(TABLE,)))
    return df.transform(guard.admit)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    numbers = spark.range(WINDOWS * ROWS).withColumnRenamed("id", "row")
    return numbers.select(
        "row",
        (F.col("row") % 11).alias("key"),
        (F.col("row") / ROWS).cast("int").alias("window"),
        # Skewed, by the row's number alone; 2 ** -53 keeps it finite.
        (-F.log((F.xxhash64("row").bitwiseAND(2**53 - 1) + 1) * F.lit(2.0**-53))).alias("value"),
    )


def test_intervals_hold_in_thousands_of_windows(rows: DataFrame, tmp_path: Path) -> None:
    kept = gated(rows, tmp_path)
    asked = {name: make() for name, make in ASKED.items()}
    found = {row["window"]: row for row in answers.grouped(kept, "window", **asked).collect()}
    below = F.col("window") % 3 + F.col("row") % 5 + 1
    true = rows.groupBy("window").agg(
        F.count("*").cast("double").alias("n"),
        F.sum("value").alias("total"),
        F.mean("value").alias("average"),
        F.mean((F.col("value") > 2).cast("int")).alias("part"),
        (F.sum("value") / F.sum(below)).alias("rate"),
    )
    rows_true = true.collect()
    for name in asked:
        answer = {row["window"]: found[row["window"]][name] for row in rows_true}
        inside = [answer[row["window"]].low <= row[name] <= answer[row["window"]].high for row in rows_true]
        # Three thousand windows scatter by 0.4 points themselves.
        assert 0.93 <= np.mean(inside) <= 0.97, name

    # To the digit what the equations say.
    some = kept.filter("window < 3").toPandas()
    for window, part in some.groupby("window"):
        sums = summed(part["weight"].to_numpy(), part["value"].to_numpy())
        assert list(found[window]["total"]) == told(equations.total(sums, Quantile(), Arrays()))
        assert list(found[window]["average"]) == told(equations.ratio(sums, Quantile(), Arrays()))


def told(answer: equations.Answer) -> Any:
    return pytest.approx([float(number) for number in answer])


def ask(spark: SparkSession, rows: list[tuple[Any, ...]], **named: Any) -> Row:
    """The answers over rows that stand in the query itself: no Python worker has to start."""
    text = ", ".join(str(row).replace("None", "NULL") for row in rows or [(0, 0, 0, 0, 0)])
    kinds = "CAST(v AS double) value, CAST(w AS double) weight, user, CAST(a AS decimal(12, 2)) amount, whole"
    df = spark.sql(f"SELECT {kinds} FROM VALUES {text} AS t(v, w, user, a, whole)")  # noqa: S608 - the test's own
    (row,) = df.filter(F.lit(bool(rows))).agg(*(one.alias(name) for name, one in named.items())).collect()
    return row


def test_odd_rows(spark: SparkSession) -> None:
    rows = [
        (1.0, 1.0, 1, 10, -1),
        (None, 4.0, 1, None, None),
        (3.0, None, 2, 20, 2),  # a row without a weight stands for itself
        (-2.0, 4.0, 3, 30, 3),
        (5.0, 4.0, 3, 40, 4),
    ]
    row = ask(
        spark,
        rows,
        n=answers.count(),
        values=answers.count("value IS NOT NULL"),
        total=answers.sum("value"),
        average=answers.mean("value"),
        amount=answers.sum("amount"),
        whole=answers.sum("whole"),
        shared=answers.sum("value", row="user"),
        rate=answers.ratio("value", "amount"),
    )
    weights, values = np.array([1.0, 1.0, 4.0, 4.0]), np.array([1.0, 3.0, -2.0, 5.0])
    sums = summed(weights, values)
    assert row["n"].estimate == 14.0
    assert row["values"].estimate == 10.0
    assert row["total"].rows == 4
    assert list(row["total"]) == told(equations.total(sums, Quantile(), Arrays()))
    assert list(row["average"]) == told(equations.ratio(sums, Quantile(), Arrays()))
    assert row["amount"].estimate == 310.0
    assert row["whole"].estimate == 29.0
    clustered = summed(weights, values, coins=np.array([1, 2, 3, 3]))
    assert list(row["shared"]) == told(equations.total(clustered, Quantile(), Arrays()))
    assert row["rate"].estimate == pytest.approx(16.0 / 310.0)

    empty = ask(spark, [], n=answers.count(), total=answers.sum("value"), average=answers.mean("value"))
    assert empty["n"].asDict() == dict.fromkeys(("error", "low", "high")) | {
        "estimate": 0.0,
        "rows": 0,
        "effective_rows": 0.0,
    }
    assert empty["average"].estimate is None
    # Whether other rows of the group were shed no row tells: neither of weight 1 nor a hair above.
    certain = spark.sql("SELECT 2.0D value, 1.0D + (id % 2) * pow(2.0D, -52) weight, id FROM range(4)")
    asked = {"n": answers.count(), "average": answers.mean("value"), "shared": answers.sum("value", row="id")}
    for row in answers.grouped(certain, F.col("id") % 2, **asked).collect():
        for name, estimate in {"n": 2.0, "average": 2.0, "shared": 4.0}.items():
            assert tuple(row[name]) == (estimate, None, None, None, 2, 2.0), name
    ends = ask(spark, [(2.0, 5.0, 1, None, 1)] * 9, none=answers.share("value > 3"), all=answers.share("value > 1"))
    assert (ends["none"].estimate, ends["all"].estimate) == (0.0, 1.0)
    assert ends["none"].error == pytest.approx(ends["all"].error)
    assert 0.05 < ends["none"].error < 0.15
    spoilt = ask(spark, [(2.0, 0.5, 1, None, 1)], total=answers.sum("value"))
    assert spoilt["total"].estimate is None


def test_where_nothing_is_known_a_warning_says_so(spark: SparkSession) -> None:
    rows = [(1.0, 2.0, 1, None, 1), (4.0, 2.0, 2, None, 1)]
    named = {}
    for name, asked, why in (
        ("low", answers.min, "smaller value may have been shed"),
        ("high", answers.max, "larger value may have been shed"),
        ("values", answers.count_distinct, "so this is a lower bound"),
    ):
        with pytest.warns(PenstockWarning, match=why) as told:
            named[name] = asked("value")
        assert len(told) == 1
        assert told[0].filename == __file__
    assert ask(spark, rows, **named).asDict() == {"low": 1.0, "high": 4.0, "values": 2}

    left = spark.sql("SELECT * FROM VALUES (1, 2.0D), (2, 2.0D) AS t(user, weight)")
    right = spark.sql("SELECT * FROM VALUES (1, 4.0D), (1, 4.0D) AS t(user, weight)")
    with pytest.warns(PenstockWarning, match="pairs with a common row") as told:
        joined = answers.join(left, right, "user", weight="weight")
    assert len(told) == 1
    assert [tuple(row) for row in joined.collect()] == [(1, 8.0), (1, 8.0)]
    left, right = (side.withMetadata("weight", {MADE_BY: "guard"}) for side in (left, right))
    with pytest.warns(PenstockWarning) as told:
        answers.join(left, right, "user")
    assert "weights that guard 'guard' made on both sides" in str(told[1].message)
    assert [one.filename for one in told] == [__file__] * 2
    whole = right.drop("weight")
    assert answers.join(left, whole, "user").agg(F.sum("weight")).first()[0] == 4.0  # and no warning
    with pytest.raises(PenstockError, match="how = 'left' is not usable"):
        answers.join(left, right, "user", "left")
    # A row whose partner was shed would look as if it had none.
    for one, other, how in ((left, whole, "full"), (left, whole, "right"), (whole, left, "left_anti")):
        with pytest.raises(PenstockError, match=f"how = '{how}' is not usable: give one of inner.* side carries"):
            answers.join(one, other, "user", how)
    assert answers.join(whole, left, "user", "right").count() == 3


def test_an_answer_without_an_alias_has_a_short_name(spark: SparkSession) -> None:
    asked = [
        answers.count(),
        answers.count("value > 2"),
        answers.sum("value"),
        answers.mean(F.col("value")),
        answers.share("value > 1"),
        answers.ratio("value", F.col("whole") + F.length(F.lit("long" * 20))),
    ]
    df = spark.sql("SELECT 3.0D value, 2.0D weight, 4 whole")
    row = df.agg(*asked, answers.sum("value").alias("mine"), answers.count()["estimate"].alias("n")).first()
    assert row is not None
    names = list(row.asDict())
    assert names[:5] == ["count", "count(value > 2)", "sum(value)", "mean(value)", "share(value > 1)"]
    assert names[5].startswith("ratio(value, ")
    assert len(names[5]) < 80
    assert names[6:] == ["mine", "n"]
    assert (row["sum(value)"].estimate, row["mine"].estimate, row["n"]) == (6.0, 6.0, 2.0)
    assert answers.grouped(df, "whole", n=answers.count(), total=answers.sum("value")).columns == [
        "whole",
        "n",
        "total",
    ]


def test_mistakes_are_one_line(spark: SparkSession) -> None:
    texts = spark.sql("SELECT 'Bern' city, 1 n, 1.0D weight")
    for mistake, line in (
        (lambda: answers.sum(3), "value = 3 is not usable"),
        (lambda: answers.count(where=7), "where = 7 is not usable"),
        (lambda: answers.mean("value", confidence=95), "confidence = 95 is not usable"),
        (lambda: answers.mean("value", weight=""), "weight = '' is not usable"),
        (lambda: answers.grouped(spark.range(1), "id"), "no answer is asked for"),
        (lambda: answers.grouped(texts, "city", n="count"), "n = 'count' is not usable: give an answer"),
        (lambda: answers.grouped(texts, "city", n=answers.sum("city")), "n: value = 'city' is not usable"),
        (lambda: answers.grouped(texts, "city", n=answers.mean(F.col("n"), weight="city")), "n: weight = 'city'"),
        (lambda: answers.grouped(texts, "city", r=answers.ratio("n", F.upper("city"))), "r: below = 'upper.city.'"),
    ):
        with pytest.raises(PenstockError, match=line):
            mistake()


def test_a_stream_answers_window_by_window(spark: SparkSession, tmp_path: Path) -> None:
    data = spark.range(4000).select(
        F.timestamp_seconds(F.col("id") / 40).alias("at"),
        (F.col("id") % 7).cast("double").alias("value"),
        (F.col("id") % 3 + 1).cast("double").alias("weight"),
    )
    data.write.parquet(str(tmp_path / "in"))
    asked = [answers.count().alias("n"), answers.mean("value").alias("average")]
    with pytest.warns(PenstockWarning, match="a smaller value may have been shed"):
        asked.append(answers.min("value").alias("least"))
    with pytest.warns(PenstockWarning, match="a larger value may have been shed"):
        asked.append(answers.max("value").alias("most"))
    by_window = [F.window("at", "10 seconds").alias("window")]
    stream = spark.readStream.schema(data.schema).parquet(str(tmp_path / "in")).groupBy(*by_window).agg(*asked)
    query = (
        stream.writeStream.outputMode("complete")
        .format("memory")
        .queryName("answered")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    streamed = {row["window"].start: row for row in spark.table("answered").collect()}
    batch = {row["window"].start: row for row in data.groupBy(*by_window).agg(*asked).collect()}
    assert len(streamed) == 10
    assert streamed.keys() == batch.keys()
    for start, row in batch.items():
        assert tuple(streamed[start]["n"]) == pytest.approx(tuple(row["n"]))
        assert tuple(streamed[start]["average"]) == pytest.approx(tuple(row["average"]))
