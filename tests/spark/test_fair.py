"""Queries that share an application, on real Spark: rows carry SIC, operators pass it on, accounts balance."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest
from tests.components import example
from tests.spark.by_hand import put
from tests.spark.rows import from_files

import penstock as ps
from penstock import sic
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import Recalling
from penstock.messages.plan import KeepTable, Plan, RowSic
from penstock.messages.report import Report
from penstock.store.journal import Tail, at
from penstock.store.report_log import Watch, line_of

functions = pytest.importorskip("pyspark.sql.functions")
from penstock.core.fairness.member_planner import MemberPlanner  # noqa: E402
from penstock.spark.fair.fair import FairQuery  # noqa: E402
from penstock.spark.fair.member import FairReading  # noqa: E402
from penstock.spark.guard.guard import QueryGuard  # noqa: E402
from penstock.spark.plans.control_row import NO_PLAN, UNREADABLE  # noqa: E402 - only where Spark is installed

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROWS, BATCH = 800, 400


class Gates(NamedTuple):
    """As much of a batch's progress as is asked for."""

    observed: dict[str, dict[str, Any]]


SHARES, CARRIED = (0.5, 1.0), (1 / 1000, 1 / 4000)


def rows(spark: SparkSession, seed: int = 0, **options: object) -> DataFrame:
    given = {"rate": 1000, "available": ROWS, "rows_per_batch": BATCH, "seed": seed, "partitions": 1}
    return from_files(spark, **given | options)


def put_plan(of: FairQuery, keep: tuple[float, ...] = SHARES, carried: tuple[float, ...] = CARRIED) -> None:
    plans = of.plans()
    version = plans.next_version()
    gates = () if min(keep) == 1.0 else (KeepTable(SOURCE, keep=keep, reasons=("by hand",)),)
    put(plans, Plan(version, "by hand", time.time(), 0, gates, sic=(RowSic(SOURCE, carried),)))


def run(df: DataFrame, folder: Path, watching: FairQuery) -> StreamingQuery:
    query = (
        df.writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    watching.watch(query)
    query.awaitTermination()
    deadline_s = time.monotonic() + 60.0
    while watching.watching and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return query


def sink(folder: Path) -> pa.Table:
    return pq.read_table([str(path) for path in (folder / "sink").glob("*.parquet")])


def doubled(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"row": row["row"], "key": row["key"], "weight": row["weight"]}] * 2


def test_rows_carry_what_the_plan_says_through_every_operator_and_the_account_balances(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = ps.Fair("1 h", window="1 h", policy="balance_sic")  # however long it takes, no batch leaves the window
    monkeypatch.setattr(fair.planner, "decide", lambda *_: None)  # Plans are written by hand.
    query = fair.query("both", sources=("cpu", "memory"), row="row", checkpoint=tmp_path / "checkpoint")
    put_plan(query)
    cpu = rows(spark).transform(query.admit, "cpu").withColumn("of", functions.lit("cpu"))
    memory = rows(spark, seed=1).transform(query.admit, "memory").withColumn("of", functions.lit("memory"))
    out = (
        cpu.unionByName(memory)
        .transform(sic.where("key % 2 = 0"))
        .transform(
            query.measured(
                sic.pass_on(doubled, form="row"), "row bigint, key bigint, weight double, sic double", form="row"
            )
        )
        .transform(query.results)
    )
    run(out, tmp_path, query)

    reports = query.history()
    assert reports
    assert sum(report.rows_in for report in reports) == 2 * ROWS
    for report in reports:
        assert report.rows_in == report.rows_kept + sum(report.rows_shed.values())
        assert set(report.rows_shed) <= {"by hand"}
        assert report.rows_in == sum(box.rows_in for box in report.boxes.values())
    kept = {
        name: sum(report.boxes[name].rows_out for report in reports if name in report.boxes)
        for name in ("cpu", "memory")
    }
    assert kept["memory"] == ROWS
    assert 0.4 * ROWS < kept["cpu"] < 0.6 * ROWS
    found = sink(tmp_path)
    assert set(found["sic"].to_pylist()) == {carried / 2.0 for carried in CARRIED}  # two results a row
    # Of what came, 0.001 a row of one and 0.00025 a row of the other, the filter lost nothing.
    came = sum(CARRIED) * ROWS
    passed = kept["cpu"] * CARRIED[0] + kept["memory"] * CARRIED[1]
    assert query.sic == pytest.approx(passed / came, rel=1e-6)
    assert query.errors == 0
    assert f"both: source information content {query.sic:.3f}" in fair.summary()
    (journal,) = (query.folder / "reports").glob("*.journal")
    lines = [line_of(line) for line in Tail(*at(journal)).news()]  # what the dashboard shows
    assert isinstance(lines[0], Watch)
    assert (lines[0].guard, lines[0].policy) == ("both", "balance_sic")
    written = [replace(line, cost_sketch=None) for line in lines if isinstance(line, Report)]
    assert written == [replace(report, cost_sketch=None) for report in reports]  # costs only now and then
    with urlopen(f"http://127.0.0.1:{fair.serve_metrics(port=0)}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    assert f'penstock_sic{{guard="both"}} {query.sic}' in metrics
    assert f'penstock_rows_in_total{{guard="both"}} {2.0 * ROWS}' in metrics
    fair.stop()


def test_without_shedding_all_queries_rest_on_everything_and_results_say_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    fair = ps.Fair("1 h")
    query = fair.query("one", sources=("even", "odd"), row="row", checkpoint=tmp_path / "checkpoint")
    found = rows(spark, rows_per_batch=200)
    kinds = found.withColumn("kind", functions.when(functions.col("key") % 2 == 0, "even").otherwise("odd"))
    told = (
        kinds.transform(query.admit, by="kind")
        .transform(query.results)
        .withWatermark("arrival", "0 seconds")
        .groupBy(functions.window("arrival", "100 milliseconds"), "kind")
        .agg(functions.count("row").alias("n"), sic.total(), sic.quality())
    )
    run(told, tmp_path, query)

    reports = query.history()
    assert all(set(report.boxes) == {"even", "odd"} for report in reports)
    assert sum(report.rows_kept for report in reports) == ROWS
    # What rows carry is learned: it is in the plans from the second batch on.
    assert query.plans().latest().sic_at(SOURCE) is not None
    assert query.sic == 1.0
    assert fair.jain == 1.0
    assert {value for value in sink(tmp_path)["quality"].to_pylist() if value is not None} == {1.0}


def test_a_source_may_have_several_streams(spark: SparkSession, tmp_path: Path) -> None:
    fair = ps.Fair("1 h")
    query = fair.query("one", row="row", checkpoint=tmp_path / "checkpoint")
    first, second = (rows(spark, seed).transform(query.admit) for seed in (0, 1))
    run(first.unionByName(second).transform(query.results), tmp_path, query)
    assert query.errors == 0
    assert sink(tmp_path).num_rows == 2 * ROWS
    assert sum(report.boxes["source"].rows_in for report in query.history()) == query.totals.rows_in == 2 * ROWS


def test_a_planner_that_fails_lets_rows_flow(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = ps.Fair("1 ms")
    query = fair.query("doomed", row="row", checkpoint=tmp_path / "checkpoint")

    def fails(*_: object) -> None:
        raise RuntimeError("no plan today")

    monkeypatch.setattr(fair.planner, "decide", fails)
    run(rows(spark).transform(query.admit).transform(query.results), tmp_path, query)
    assert sink(tmp_path).num_rows == ROWS
    assert query.errors > 0
    assert query.totals.rows_in == query.totals.rows_kept > 0


def test_joins_and_batches_conserve_what_their_rows_carry(spark: SparkSession) -> None:
    left = spark.createDataFrame([(1, 0.25), (2, 0.25)], "key int, sic double")
    right = spark.createDataFrame([(1, 0.125), (2, 0.25), (2, 0.25)], "key int, sic double")
    exact = sic.join(left, right.groupBy("key").agg(sic.total()), "key")
    assert sorted(row["sic"] for row in exact.collect()) == [0.375, 0.75]
    assert [
        row["sic"] for row in sic.join(left, spark.createDataFrame([(1, "a")], "key int, name string"), "key").collect()
    ] == [0.25]
    weighed = left.withColumn("weight", functions.lit(2.0)), right.withColumn("weight", functions.lit(4.0))
    for given, expected in (({}, 8.0), ({"one_coin": True}, 4.0)):
        pairs = sic.join(*weighed, "key", right_matches=1.0, left_matches=2.0, **given)
        assert pairs.columns == ["key", "sic", "weight"]
        assert {row["weight"] for row in pairs.collect()} == {expected}
    alone = sic.join(weighed[0], weighed[1].filter("key = 1"), "key", "left").orderBy("key")
    assert [(row["sic"], row["weight"]) for row in alone.collect()] == [(0.375, 8.0), (0.25, 2.0)]
    assert sic.join(*weighed, "key", "left_semi").columns == ["key", "sic", "weight"]
    with pytest.raises(ps.PenstockError, match="the right side of the join has a column 'weight' but no sic"):
        sic.join(weighed[0], weighed[1].drop("sic"), "key")
    top = sic.spread(left.orderBy("key").limit(1).select("key"), left)
    assert [row["sic"] for row in top.collect()] == [0.5]
    unknown = left.select("key", functions.lit(None).cast("double").alias("sic"), functions.lit(1.0).alias("weight"))
    passed_on = unknown.mapInArrow(sic.pass_on(lambda batches: batches), "key int, sic double, weight double")
    # Before the first plan nobody knows what rows carry; to say so must not end the query.
    (told,) = passed_on.agg(sic.total(), sic.quality()).collect()
    assert (told["sic"], told["quality"]) == (None, None)
    nothing = unknown.withColumn("sic", functions.lit(0.0))
    assert nothing.agg(sic.quality()).collect()[0]["quality"] is None
    batches = left.mapInArrow(
        sic.pass_on(lambda batches: (batch.slice(0, 1).select(["key"]) for batch in batches)), "key int, sic double"
    )
    assert sum(row["sic"] for row in batches.collect()) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: ps.Fair("soon"), "target = 'soon' is not usable: give seconds above 0"),
        (lambda: ps.Fair("2 s", window=0), "window = 0 is not usable"),
        (lambda: ps.Fair("2 s", policy="best"), "policy = 'best' is not usable: give Balanced(alpha"),
        (lambda: ps.Fair("2 s").query("a b"), "name = 'a b' is not usable: give names of letters"),
        (lambda: ps.Fair("2 s").query("7up"), "hyphens that begin with a letter or underscore"),
        (lambda: ps.Fair("2 s").query("a", importance=0), "importance = 0 is not usable: give a number above 0"),
        (lambda: ps.Fair("2 s").query("a", importance="2"), "importance = '2' is not usable: give a number above 0"),
        (lambda: ps.Fair("2 s").query("a", sources=5), "sources = 5 is not usable: give the names"),
        (lambda: ps.Fair("2 s").query("a", weight_column="sic"), "weight_column = 'sic' is not usable: give another"),
        (lambda: ps.Fair("2 s").query("a", weight_column="a.b"), "weight_column = 'a.b' is not usable: give a name"),
        (lambda: ps.Fair("2 s").query("a", row="weight"), "weight_column = 'weight' is not usable: give a column of"),
        (lambda: ps.Fair("2 s")[["b"]], "query = ['b'] is not usable: give the name of one of the queries"),
        (lambda: ps.Fair("2 s").query("a", sources=()), "sources = () is not usable: give the names"),
        (
            lambda: ps.Fair("2 s").query("a", sources=("x", "x")),
            "sources = ('x', 'x') is not usable: give each name once",
        ),
        (lambda: ps.Fair("2 s").query("a", prefer="cheap"), "prefer = 'cheap' is not usable: give one of any, sic"),
        (lambda: ps.Fair("2 s")["b"], "query = 'b' is not usable: give the name of one of the queries: none yet"),
    ],
)
def test_a_mistake_is_told_in_one_line(make: Any, line: str) -> None:
    with pytest.raises(ps.PenstockError) as caught:
        make()
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [ps.Guard, FairQuery])
def test_a_guard_and_a_query_replace_nothing_of_what_they_share(kind: type[QueryGuard]) -> None:
    own = {name for name in vars(kind) if not name.startswith("__")} - {"_abc_impl"} - QueryGuard.__abstractmethods__
    assert sorted(name for name in own if hasattr(QueryGuard, name)) == []


def test_the_importance_of_a_query_was_called_weight() -> None:
    fair = ps.Fair("2 s")
    with pytest.warns(DeprecationWarning, match="weight of Fair.query is called importance now"):
        fair.query("old", weight=2)
    fair.query("new", importance=2)
    assert fair["old"].terms == fair["new"].terms


def test_a_column_of_the_users_own_named_sic_is_refused_unless_it_is_named(spark: SparkSession) -> None:
    for mode in ("enforce", "off"):
        query = ps.Fair("2 s", mode=mode).query("a")
        stream = rows(spark).withColumn("SIC", functions.lit(2879))
        with pytest.raises(
            ps.PenstockError, match=r"the stream has a column 'sic' that no gate made: .* give sic='sic'"
        ):
            stream.transform(query.admit)
        with pytest.raises(ps.PenstockError, match="sic = 'nothing' is not usable: give a column of the stream"):
            rows(spark).transform(query.admit, sic="nothing")
        with pytest.raises(ps.PenstockError, match="the stream has a column 'sic' that no gate made"):
            stream.transform(query.admit, sic="key")
        assert "sic" in [name.lower() for name in stream.transform(query.admit, sic="SIC").columns]
    still = spark.createDataFrame([(1, 0.5)], "row int, passed_on double").withColumn("arrival", functions.now())
    query = ps.Fair("2 s").query("a")
    (row,) = still.transform(query.admit, sic="passed_on").collect()
    assert (row["sic"], row["passed_on"]) == (0.5, 0.5)
    again = ps.Fair("2 s").query("b", weight_column="w")
    assert still.transform(query.admit, sic="passed_on").drop("weight").transform(again.admit).first()["sic"] == 0.5


def test_a_query_that_starts_again_is_planned_for_by_what_it_measured_before() -> None:
    fair = ps.Fair("2 s", policy="balance_sic")
    fair.query("a")
    planner = MemberPlanner(fair.planner, "a", fair.lock)
    assert isinstance(planner, Recalling)
    boxes = {"source": {"rows_in": 100, "rows_out": 100, "busy_s": 0.0}}
    given = {"rows_in": 100, "rows_kept": 100, "busy_s": 1.0, "span_s": 1.0, "overhead_s": 1.0, "cost_sketch": b""}
    reports = [Report(sequence=n, start_s=2.0 * n, end_s=2.0 * n + 2.0, boxes=boxes, **given) for n in range(20)]
    plan = planner.recall(reports, 50.0)
    assert plan is not None
    assert (plan.gates, plan.decided_s) == ((), 40.0)
    assert plan.fits is not None
    assert plan.fits.rows_per_s > 0.0


def test_what_is_wrong_at_one_gate_is_told_whatever_the_others_say() -> None:
    gates = {"x": "x", "y": "y", "z": "z"}
    version = FairReading("query", "probe", lambda: gates, window_s=10.0, dry=False).version
    observed = {"x": {"plan": 7}, "y": {"plan": UNREADABLE}, "z": {"plan": None}}
    assert version(Gates(observed)) == UNREADABLE  # type: ignore[arg-type]
    assert version(Gates({"x": {"plan": 7}, "y": {"plan": NO_PLAN}})) == 7  # type: ignore[arg-type]
    assert version(Gates({})) is None  # type: ignore[arg-type]


def test_names_are_given_once_and_sources_by_name(spark: SparkSession) -> None:
    fair = ps.Fair("2 s")
    query = fair.query("a", sources=("x", "y"))
    stream = rows(spark)
    for wrong, line in (
        (lambda: fair.query("a"), "there is a query 'a' already"),
        (lambda: fair["b"], "give the name of one of the queries: 'a'"),
        (lambda: stream.transform(query.admit), "query 'a' has 2 sources: say which one rows are of"),
        (lambda: stream.transform(query.admit, "x", by="key"), "source = 'x' and by = 'key' are given both"),
        (lambda: stream.transform(query.admit, "z"), "source = 'z' is not usable: give one of x, y"),
        (lambda: stream.transform(query.admit, by="kind"), "by = 'kind' is not usable: give a column of the stream"),
        (lambda: stream.transform(query.results), "have no column sic"),
        (lambda: stream.transform(sic.where("key = 1")), "the stream has no column sic"),
        (lambda: sic.join(stream, stream, "key"), "neither side of the join has a column sic"),
    ):
        with pytest.raises(ps.PenstockError) as caught:
            wrong()
        assert line in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_example_runs_and_accounts_for_every_row(spark: SparkSession, tmp_path: Path) -> None:
    program = example("fair/run")
    program.EVERY_S = 1
    fair = program.run(spark, tmp_path, 120.0, enough=lambda fair: all(one.report() for one in fair.queries.values()))
    for name, query in fair.queries.items():
        reports = query.history()
        assert reports, name
        assert all(one.rows_in == one.rows_kept + sum(one.rows_shed.values()) for one in reports)
    assert spark.table("free_results").columns == ["window", "rows", "sic", "quality"]
