"""Operators behind the gate: what is right, what is not, and what the guard's log says of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.by_hand import put

import penstock as ps
from penstock import PenstockWarning, answers
from penstock.core.control.planner import SOURCE
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.guard.behind_gate import found_behind
from penstock.spark.guard.misuse import ONE_GATE
from penstock.spark.plan_text import plan_of

F = pytest.importorskip("pyspark.sql.functions")
pd = pytest.importorskip("pandas")
from pyspark.errors import AnalysisException  # noqa: E402 - only where Spark is installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SHARE = 0.42
ROWS = "id bigint, user bigint, arrival timestamp, partition int"


def guard(folder: Path, **settings: Any) -> ps.Guard:
    own = ps.Guard(ps.Throughput(1000), checkpoint=folder, **settings)
    table = KeepTable(SOURCE, (SHARE,), ("over capacity",))
    put(own.plans(), Plan(0, "by hand", time.time(), 4, gates=(table,)))
    return own


def within(answer: Any, true: float, errors: float = 5.0) -> bool:
    return abs(answer.estimate - true) <= errors * answer.error


def test_duplicates_behind_the_gate(spark: SparkSession, tmp_path: Path) -> None:
    """Each row is delivered twice, with another time of arrival."""
    rows = spark.range(40_000).selectExpr("id % 20000 AS id", "id AS delivery")

    def counted(name: str, row: Any) -> Any:
        kept = rows.transform(guard(tmp_path / name, row=row).admit).dropDuplicates(["id"])
        return kept.agg(answers.count().alias("n")).first()["n"]

    assert within(counted("by id", "id"), 20_000)
    assert within(counted("by all", ()), (2.0 - SHARE) * 20_000), "two chances to be counted"


def test_sessions_behind_the_gate(spark: SparkSession, tmp_path: Path) -> None:
    """Each user has two sessions of 40 rows, one a second, with a minute between them."""
    rows = spark.range(800 * 80).selectExpr(
        "id", "id DIV 80 AS user", "timestamp_seconds(id % 80 + 60 * (id % 80 DIV 40)) AS at"
    )
    sessions = [F.session_window("at", "3 seconds"), F.col("user")]
    # A session weighs what its rows do: all of them were kept or shed by one coin.
    whole = rows.transform(guard(tmp_path / "user", row="user").admit).groupBy(*sessions)
    found = whole.agg(F.max("weight").alias("weight"), F.count("*").alias("rows"))
    told = found.agg(answers.count(row="user").alias("n"), F.min("rows"), F.max("rows")).first()
    assert told is not None
    assert within(told["n"], 1600)
    assert tuple(told)[1:] == (40, 40), "whole sessions, or none"

    split = rows.transform(guard(tmp_path / "all").admit).groupBy(*sessions).agg(F.max("weight").alias("weight"))
    assert split.count() > 2 * 1600


class CountRows:
    """A state that counts rows by user."""

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:  # noqa: N802, ARG002
        parts = list(rows)
        weight = max(part["weight"].max() for part in parts)
        yield pd.DataFrame({"user": [key[0]], "rows": [sum(map(len, parts))], "weight": [weight]})

    def close(self) -> None: ...


def test_states_behind_the_gate(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.streaming import StatefulProcessor  # noqa: PLC0415 - pandas must be there

    counting = type("Counting", (CountRows, StatefulProcessor), {})
    rows = spark.range(300 * 20).selectExpr("id", "id DIV 20 AS user")
    result = "user bigint, rows bigint, weight double"

    def states(name: str, row: Any) -> DataFrame:
        kept = rows.transform(guard(tmp_path / name, row=row).admit).repartition(1).groupBy("user")
        return kept.transformWithStateInPandas(counting(), result, "append", "none")

    (told,) = states("user", "user").agg(answers.count().alias("n"), F.min("rows"), F.max("rows")).collect()
    assert within(told["n"], 300)
    assert tuple(told)[1:] == (20, 20), "each state has all rows of its key"
    assert states("all", ()).agg(F.max("rows")).first()[0] < 20, "each state misses some"


def test_joins_of_two_gates(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(20_000).selectExpr("id")
    left, right = (rows.transform(guard(tmp_path / name, name=name).admit) for name in ("left", "right"))
    with pytest.warns(PenstockWarning, match="pairs with a common row"):
        pairs = answers.join(left, right, "id")
    (told,) = pairs.agg(answers.count().alias("n"), F.count("*")).collect()
    assert within(told["n"], 20_000)
    assert told[1] == pytest.approx(SHARE * SHARE * 20_000, rel=0.1), "a pair is there if both of its rows are"


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Gated streams that never run, by what they are called."""
    folder = tmp_path_factory.mktemp("streams")
    source = spark.readStream.schema(ROWS).parquet(str(folder))
    return {name: source.transform(guard(folder / name, name=name).admit) for name in ("left", "right")} | {
        "none": source
    }


def behind(df: DataFrame, *row: str) -> list[str]:
    plan = plan_of(df)
    assert plan is not None
    return found_behind(plan, row or ("id", "user", "arrival", "partition"), "weight")


def test_the_plan_shows_what_is_wrong_and_the_fix(streams: dict[str, DataFrame]) -> None:
    gated, other = streams["left"], streams["right"]
    late = gated.withWatermark("arrival", "1 minute")
    by_user = gated.groupBy("user", F.session_window("arrival", "5 seconds").alias("visit")).count()
    counting = type("Counting", (CountRows,), {})
    state = gated.groupBy("user").transformWithStateInPandas(counting(), "user bigint", "append", "none")
    for df, what, fix, keys in (
        (gated.dropDuplicates(["id"]), "dropDuplicates by id", "row='id' (now arrival, id,", ("id",)),
        (late.dropDuplicatesWithinWatermark(["id", "user"]), "by id, user", "row=['id', 'user']", ("user", "id")),
        (by_user, "session windows", "row='user'", ("user",)),
        (state, "TransformWithStateInPySpark", "row='user'", ("user",)),
    ):
        (line,) = behind(df)
        assert what in line
        assert fix in line
        assert behind(df, *keys) == []
        assert behind(df, "partition") != []
    (line,) = behind(gated.dropDuplicates())
    assert "compares weight" in line

    with pytest.raises(AnalysisException, match=ONE_GATE):  # one guard a query
        gated.join(other.withColumnRenamed("weight", "theirs"), "id").schema  # noqa: B018 - Connect finds it only now
    again = gated.selectExpr("id", "user AS other", "weight AS theirs")
    (line,) = behind(gated.join(again, "id"))
    assert "multiply their weights" in line
    table = streams["none"]
    assert behind(gated.join(table, "id")) == []
    (line,) = behind(table.join(gated, "id", "left"))
    assert "a LeftOuter join behind the gate shows rows without a partner" in line


def test_what_is_no_trouble_is_not_told(streams: dict[str, DataFrame]) -> None:
    gated, ungated = streams["left"], streams["none"]
    assert behind(gated.groupBy(F.window("arrival", "1 minute"), "user").agg(F.sum("weight"))) == []
    assert behind(ungated.dropDuplicates(["id"])) == [], "before a gate each row passes once"


def test_the_guards_log_says_it_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(50).selectExpr(
        "id", "id % 5 AS user", "current_timestamp() AS arrival", "0 AS partition"
    ).write.parquet(str(tmp_path / "in"))
    own = guard(tmp_path / "checkpoint")
    source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    deduplicated = source.transform(own.admit).dropDuplicates(["id"])
    query = (
        deduplicated.writeStream.format("memory")
        .queryName("orders")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    with caplog.at_level("WARNING", "penstock"), own.watch(query):
        query.processAllAvailable()
        limit = time.monotonic() + 30
        while not own.history() and time.monotonic() < limit:
            time.sleep(0.05)
        query.stop()
    told = [record.getMessage() for record in caplog.records if "dropDuplicates" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("query orders: dropDuplicates by id behind the gate: two deliveries of a row")
    assert "give the guard row='id'" in told[0]
    assert "Logical Plan" not in capsys.readouterr().out
