"""A real query on Spark leaves what the page shows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.rows import from_files

import penstock as ps
from penstock import baselines
from penstock.core.hashing import xxhash64
from penstock.web.app import Page
from penstock.web.board import Board
from penstock.web.why import typed, why

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: A machine that is busy with something else takes long to run three batches.
WAIT_S = 240.0
BATCH = 200


def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch.select(["key", "row"])


def arrive(spark: SparkSession, checkpoint: Path, batches: int) -> DataFrame:
    """The stream, when so many batches of it have come; they come to a query that runs, too."""
    made, come = checkpoint.with_name("made"), checkpoint.with_name("come")
    rows = from_files(spark, made, available=batches * BATCH, rows_per_batch=BATCH, keys=20, partitions=1)
    come.mkdir(exist_ok=True)
    for path in {one.name for one in made.iterdir()} - {one.name for one in come.iterdir()}:
        (come / path).hardlink_to(made / path)  # a query that looks finds it whole
    return spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(come))


def started(spark: SparkSession, checkpoint: Path, sink: str, batches: int) -> tuple[ps.Guard, StreamingQuery]:
    half = baselines.BaseLine(drop_share=0.5)
    guard = ps.Guard(ps.MeanQueueLatency("1 s"), half, key="key", row="row", checkpoint=checkpoint, name="mine")
    results = (
        arrive(spark, checkpoint, batches)
        .transform(guard.admit)
        .transform(guard.measured(passed_on, "key bigint, row bigint"))
    )
    writer = results.writeStream.format(sink).option("checkpointLocation", str(checkpoint))
    return guard, writer.queryName("dashboard_rows").start()


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a short query leaves that gives up half of its rows, whatever the machine can do."""
    folder = tmp_path_factory.mktemp("stream")
    batches = 1
    guard, query = started(spark, folder / "ck", "memory", batches)
    with guard.watch(query):
        deadline_s = time.monotonic() + WAIT_S
        while sum(bool(report.shed_total) for report in guard.history()) < 2 and time.monotonic() < deadline_s:
            if len(guard.history()) == batches:
                batches += 1
                arrive(spark, folder / "ck", batches)
            time.sleep(0.1)
    query.stop()
    (folder / "seen").write_text("\n".join(report.to_json() for report in guard.history()))
    return folder


def test_the_page_shows_what_the_guard_saw(checkpoint: Path) -> None:
    board = Board([checkpoint / "ck"])
    board.look()
    (log,) = board.news({})
    seen = [ps.Report.from_json(line) for line in (checkpoint / "seen").read_text().splitlines()]
    head = log["head"]
    assert [point["n"] for point in log["points"]] == [report.sequence for report in seen]
    assert head["rows_in"] == sum(report.rows_in for report in seen)
    assert head["rows_shed"] == {
        reason: sum(report.rows_shed.get(reason, 0) for report in seen) for reason in head["rows_shed"]
    }
    assert sum(head["rows_shed"].values()) > 0
    assert head["state"] == "ended"
    assert (head["guard"], head["target_s"], head["key"], head["row"]) == ("mine", 1.0, ["key"], ["row"])
    assert log["decisions"]
    assert head["costs"]


def test_why_says_of_each_row_what_became_of_it(checkpoint: Path, spark: SparkSession) -> None:
    board = Board([checkpoint / "ck"])
    board.look()
    (log,) = board.news({})
    query = board.guarded(log["id"])
    shedding = next(point for point in log["points"] if sum(point["shed"].values()))
    first = sum(point["in"] for point in log["points"] if point["n"] < shedding["n"])
    rows = range(first, first + min(40, shedding["in"]))
    # Rows are numbered in the order of arrival, and batches take them in that order.
    came_out = spark.table("dashboard_rows").where(f"row between {rows[0]} and {rows[-1]}").collect()
    # One share for all keys, so any key will do.
    told = {row for row in rows if why(query, ["1"], [str(row)], shedding["n"])["row"]["kept"]}
    assert told == {one.row for one in came_out}
    assert 0 < len(told) < len(rows)


def test_decimals_are_hashed_as_spark_does(spark: SparkSession) -> None:
    given = [
        (text, kind)
        for kind in ("decimal(3,1)", "decimal(18,2)", "decimal(19,2)", "decimal(38,10)")
        for text in ("0", "1.5", "-1.5", "12.8", "-12.8", "99.9")
    ]
    given += [("12345678901234567.89", "decimal(19,2)"), ("-9999999999999999999999999999.0000000001", "decimal(38,10)")]
    hashes = spark.sql("SELECT " + ", ".join(f"xxhash64(CAST('{text}' AS {kind}))" for text, kind in given)).first()
    assert hashes is not None
    assert [xxhash64(typed(*one)) for one in given] == list(hashes)


def test_an_open_page_goes_on_with_a_query_that_is_started_again(
    checkpoint: Path, spark: SparkSession, chromium: Any
) -> None:
    """The last test here: what the others read has grown by then."""
    expect = pytest.importorskip("playwright.sync_api").expect
    page, limit_ms = chromium.new_page(), 1000.0 * WAIT_S
    batches = page.locator(".tile", has=page.get_by_text("Rows in", exact=True)).locator("dd")
    with Page(Board([checkpoint / "ck"]), port=0).beside() as address:
        page.goto(address.url)
        expect(page.locator(".facts")).to_contain_text("State ended", timeout=limit_ms)
        before = batches.text_content()
        come = len(list((checkpoint / "come").iterdir()))
        guard, query = started(spark, checkpoint / "ck", "noop", come + 1)
        with guard.watch(query):
            expect(page.locator(".facts")).to_contain_text("State running", timeout=limit_ms)
            expect(batches).not_to_have_text(before, timeout=limit_ms)
            while_it_runs = batches.text_content()
            arrive(spark, checkpoint / "ck", come + 2)
            expect(batches).not_to_have_text(while_it_runs, timeout=limit_ms)
        query.stop()
        expect(page.locator(".facts")).to_contain_text("State ended", timeout=limit_ms)
        assert page.locator("line.start").count() > 0, "a line marks where it was started again"
        expect(page.get_by_role("alert")).to_have_count(0)
    page.close()
