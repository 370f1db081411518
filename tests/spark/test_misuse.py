"""Ways to use a guard that do not do what they seem to are refused in one line, or warned of, before a query runs."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

import penstock as ps
from penstock import baselines
from penstock.cli import replay as cli_replay
from penstock.spark import session
from penstock.spark.expected_errors import LOGGERS, quiet
from penstock.spark.guard.misuse import ONE_GATE, check_checkpoint, every_row_comes
from penstock.spark.plan_text import explained
from penstock.spark.plans.places import LocalStore
from penstock.spark.quarantine import replay
from penstock.spark.quarantine import rows as quarantine

F = pytest.importorskip("pyspark.sql.functions")
from pyspark.errors import AnalysisException  # noqa: E402 - only where Spark is installed
from pyspark.logger import PySparkLogger  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

TARGET = ps.MeanQueueLatency("2 s")


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "penstock")
    return caplog


@pytest.fixture
def logged_by_spark() -> Iterator[list[str]]:
    """What PySpark logs of errors by itself."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    loggers = {name: PySparkLogger.getLogger(name) for name in LOGGERS}
    levels = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.ERROR)  # A session of the command line has silenced them for the whole process.
        logger.addHandler(handler)
    yield found
    for name, logger in loggers.items():
        logger.setLevel(levels[name])
        logger.removeHandler(handler)


def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().withColumnRenamed("timestamp", "arrival")


def guard(folder: Path, **settings: Any) -> ps.Guard:
    return ps.Guard(TARGET, **{"row": "value", "checkpoint": folder / "checkpoint"} | settings)


def test_a_gate_behind_an_aggregation_is_told(
    spark: SparkSession, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    counts = rows(spark).withWatermark("arrival", "1 minute").groupBy(F.window("arrival", "1 second"), "value").count()
    counts.withColumn("arrival", F.col("window.end")).transform(guard(tmp_path).admit)
    (line,) = told.messages
    assert line.startswith("guard 'guard' is behind an aggregation, so it sheds results, not rows: put ")


def test_a_table_that_was_aggregated_may_be_joined_in_front_of_the_gate(
    spark: SparkSession, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    names = spark.range(9).groupBy(F.col("id").alias("value")).agg(F.count("*").alias("times"))
    rows(spark).dropDuplicates(["value"]).join(names, "value").transform(guard(tmp_path).admit)
    assert told.messages == []


@pytest.mark.parametrize(
    "keep", ["rand() > 0.5", "uuid() > 'a'", "monotonically_increasing_id() = 0", "shuffle(array(1, 2))[0] = value"]
)
def test_a_keep_that_says_something_else_each_time_is_refused(
    spark: SparkSession, tmp_path: Path, keep: str, logged_by_spark: list[str]
) -> None:
    with pytest.raises(ps.PenstockError, match=r"keep = .* give a condition that says the same of a row each time"):
        rows(spark).transform(guard(tmp_path, keep=keep).admit)
    with pytest.raises(ps.PenstockError, match=r"keep = .* give a condition that says the same of a row each time"):
        rows(spark).transform(guard(tmp_path, keep=F.expr(keep)).admit)
    assert not (tmp_path / "checkpoint").exists()
    assert logged_by_spark == []


@pytest.mark.parametrize("setting", ["key", "row", "arrival"])
@pytest.mark.parametrize("mode", ["enforce", "dry_run"])
def test_a_column_that_the_stream_lacks_is_one_line(
    spark: SparkSession, tmp_path: Path, setting: str, mode: str, logged_by_spark: list[str]
) -> None:
    with pytest.raises(ps.PenstockError) as told:
        rows(spark).transform(guard(tmp_path, mode=mode, **{setting: "usr"}).admit)
    assert str(told.value) == f"{setting} = 'usr' is not usable: give a column of the stream: arrival, value"
    assert logged_by_spark == []


@pytest.mark.parametrize(
    ("setting", "policy"),
    [
        ("cost_column", baselines.FullKnowledge(cost_column="usr")),
        ("value", ps.Balanced(value=ps.Worth("usr"))),
        ("key", ps.Balanced(key="usr")),
    ],
)
def test_a_column_of_the_policy_that_the_stream_lacks_is_one_line(
    spark: SparkSession, tmp_path: Path, setting: str, policy: Any, logged_by_spark: list[str]
) -> None:
    with pytest.raises(ps.PenstockError) as told:
        rows(spark).transform(ps.Guard(TARGET, policy, row="value", checkpoint=tmp_path).admit)
    assert str(told.value) == f"{setting} = 'usr' is not usable: give a column of the stream: arrival, value"
    assert logged_by_spark == []


def test_a_replay_whose_pipeline_fails_is_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged_by_spark: list[str]
) -> None:
    monkeypatch.setattr(quarantine.Sign, "read", lambda *_: None)
    monkeypatch.setattr(replay, "replay", lambda *_, **__: rows(spark).select("no_such_column"))
    monkeypatch.setattr(session, "local_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    with pytest.raises(ps.PenstockError, match=r"failed and can be started again: .*no_such_column") as told:
        cli_replay.run(tmp_path, str(tmp_path / "into"), None, None, 1, Console())
    assert "\n" not in str(told.value)
    assert logged_by_spark == []


def test_errors_of_spark_are_logged_again_after_a_check(spark: SparkSession, logged_by_spark: list[str]) -> None:
    for expected in (True, False):
        with pytest.raises(AnalysisException), quiet() if expected else nullcontext():
            _ = rows(spark).select("no_such_column").schema
        assert len(logged_by_spark) == (0 if expected else 1)


def test_a_keep_on_the_time_of_the_batch_is_the_same_at_a_replay(spark: SparkSession, tmp_path: Path) -> None:
    rows(spark).transform(guard(tmp_path, keep="arrival < now() - interval 1 minute").admit)


def test_rows_that_are_told_apart_by_what_is_made_anew_are_told(
    spark: SparkSession, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    made = rows(spark).withColumn("id", F.expr("uuid()")).withColumn("plain", F.lit(1))
    made.transform(guard(tmp_path).admit)
    assert told.messages == []
    made.transform(guard(tmp_path / "other", row=()).admit)
    (line,) = told.messages
    assert line.startswith("guard 'guard' chooses rows by id, whose value changes when a batch is rerun")


def test_a_quarantine_is_refused_where_either_of_two_duplicates_may_be_taken(
    spark: SparkSession, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    """On two executors 407 of 8,000 rows were in neither place and 365 in both."""
    once = rows(spark).withColumn("key", F.col("value") % 3).dropDuplicates(["value"])
    once.transform(guard(tmp_path / "by value", quarantine=tmp_path / "shed").admit)
    once.transform(guard(tmp_path / "without", row=()).admit)
    assert told.messages == []
    with pytest.raises(ps.PenstockError, match=r"row = .* is not usable: give value, as dropDuplicates has in front"):
        once.transform(guard(tmp_path / "by all", row=(), quarantine=tmp_path / "more").admit)
    assert not (tmp_path / "more").exists()
    once.transform(guard(tmp_path / "by key", key="key", quarantine=tmp_path / "last").admit)
    (line,) = told.messages
    assert line.startswith("guard 'guard' has a quarantine and uses key, which must be equal for all duplicates")


def test_two_guards_in_one_query_are_refused_before_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    one, two = guard(tmp_path / "one", name="one"), guard(tmp_path / "two", name="two")
    left, right = rows(spark).transform(one.admit), rows(spark).transform(two.admit)
    for build in (lambda: left.union(right), lambda: left.join(right, "value")):
        with pytest.raises(AnalysisException, match=ONE_GATE):
            build().writeStream.format("noop").start()
    assert not spark.streams.active
    with pytest.raises(ps.PenstockError, match="'two' meets rows that another guard has admitted: one guard a query"):
        left.select("value", "arrival").transform(two.admit)
    assert left.union(left).columns == left.columns, "one guard's rows may be used twice"
    assert left.filter("value < 3").join(left.select("value"), "value").columns


def test_gates_of_a_guard_and_of_queries_that_share_are_refused_together_before_it_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    fair = ps.Fair("2 s")
    own = [fair.query(name, row="value", sources=("x", "y"), checkpoint=tmp_path / name) for name in ("a", "b")]
    a, b = (rows(spark).transform(one.admit, "x") for one in own)
    guarded = rows(spark).transform(guard(tmp_path / "guard").admit).withColumn("sic", F.lit(0.0))
    for left, right in ((a, guarded), (guarded, a), (a, b)):
        with pytest.raises(AnalysisException, match=ONE_GATE):
            left.union(right)
        with pytest.raises(AnalysisException, match=ONE_GATE):
            left.join(right, "value")
    both = a.union(rows(spark).transform(own[0].admit, "y"))
    assert ONE_GATE not in explained(both).split("== Optimized Logical Plan ==")[1]
    assert own[0].admit(a.select("value", "arrival"), "y").columns


def test_a_guard_without_a_checkpoint_is_told_once(spark: SparkSession, told: pytest.LogCaptureFixture) -> None:
    own = ps.Guard(TARGET, row="value")
    for _ in range(2):
        rows(spark).transform(own.admit)
    (line,) = told.messages
    assert line.startswith("guard 'guard' has no checkpoint, so its plans are in a temporary folder")
    spark.range(3).withColumn("arrival", F.current_timestamp()).transform(ps.Guard(TARGET, row="id").admit)
    ps.Guard(TARGET, row="value", mode="dry_run").admit(rows(spark))
    assert len(told.messages) == 1


class Query:
    id = "2f1d"


def test_the_checkpoint_of_another_query_is_refused_and_a_folder_of_none_told(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    store = LocalStore(tmp_path)
    check_checkpoint(store, "mine", Query())  # type: ignore[arg-type]
    (line,) = told.messages
    assert line.startswith(
        f"checkpoint = '{tmp_path}' of guard 'mine' is not the checkpoint folder of query 2f1d: give"
    )
    (tmp_path / "metadata").write_text(json.dumps({"id": "2f1d"}))
    check_checkpoint(store, "mine", Query())  # type: ignore[arg-type]
    (tmp_path / "metadata").write_text(json.dumps({"id": "77aa"}))
    with pytest.raises(
        ps.PenstockError, match=r"^checkpoint = .* give the checkpoint folder of query 2f1d; this one is of query 77aa$"
    ):
        check_checkpoint(store, "mine", Query())  # type: ignore[arg-type]
    assert len(told.messages) == 1


def test_a_guard_whose_checkpoint_is_another_querys_does_not_watch(
    spark: SparkSession, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    own = guard(tmp_path)
    admitted = rows(spark).transform(own.admit)
    first = admitted.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    first.stop()
    elsewhere = admitted.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "elsewhere")).start()
    try:
        with pytest.raises(ps.PenstockError, match=f"this one is of query {first.id}"):
            own.watch(elsewhere)
        assert not own.watching
    finally:
        elsewhere.stop()
    assert told.messages == []


def test_offsets_count_the_rows_of_a_gate_only_if_every_row_of_the_source_comes_to_it(spark: SparkSession) -> None:
    from_source = rows(spark).withColumn("half", F.col("value") / 2).withWatermark("arrival", "1 minute")
    made_here = spark.readStream.format("penstock").load().select("row", "arrival")
    assert every_row_comes(from_source)
    assert every_row_comes(made_here)
    assert not every_row_comes(from_source.where("value > 3"))
    assert not every_row_comes(from_source.union(from_source))
    assert not every_row_comes(from_source.select("value", F.explode(F.array(F.lit(1), F.lit(2)))))
