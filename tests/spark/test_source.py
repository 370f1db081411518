from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("pyspark.sql")

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import StructType
from tests.spark.until_read import until_read

from penstock.core.rate_profile import RateProfile
from penstock.errors import PenstockError
from penstock.spark.source import ARROW_ROWS, PenstockSource, Population, Settings, StreamReader, register
from penstock.spark.version import ReadAllAvailable, ReadMaxRows

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

START_S = 1_700_000_000  # 2023-11-14 22:13:20 UTC
ALL = ReadAllAvailable()


def reader(clock: Callable[[], float] = lambda: START_S, **options: object) -> StreamReader:
    return StreamReader(Settings.from_options({name: str(value) for name, value in options.items()}), clock)


def rows_of(source: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, object]]:
    return [row for part in source.partitions(start, end) for batch in source.read(part) for row in batch.to_pylist()]


def stream(spark: SparkSession, **options: object) -> DataFrame:
    return spark.readStream.format("penstock").options(**options).load()


def static(spark: SparkSession, **options: object) -> DataFrame:
    return spark.read.format("penstock").options(**options).load()


def run(frame: DataFrame, folder: Path) -> list[int]:
    """Write what is available to `folder`/out; the rows of each batch that had any."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = until_read(writer.option("path", str(folder / "out")))
    assert query.awaitTermination(60)
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def ordered(frame: DataFrame) -> pa.Table:
    return frame.orderBy("row").toArrow()


# Without Spark: offsets, ranges and settings.


def test_offsets_follow_the_clock_forth_and_never_back() -> None:
    now_s = [float(START_S)]
    source = reader(lambda: now_s[0], rate=10)
    start = source.initialOffset()
    assert start == {"rows": 0, "start_us": START_S * 1_000_000}
    assert source.latestOffset(start, ALL) == start

    now_s[0] += 2.05
    later = source.latestOffset(start, ALL)
    assert later == start | {"rows": 20}

    now_s[0] -= 1.0
    assert source.latestOffset(later, ALL) == later


def test_a_limit_holds_back_rows_and_the_report_tells_of_them() -> None:
    source = reader(lambda: START_S + 5.0, rate=10, start=START_S, rows_per_batch=20)
    start = source.initialOffset()

    assert source.reportLatestOffset() is None
    assert source.getDefaultReadLimit() == ReadMaxRows(20)
    assert source.latestOffset(start, ReadMaxRows(20))["rows"] == 20
    assert source.reportLatestOffset() == start | {"rows": 50}
    assert source.latestOffset(start, ALL)["rows"] == 50


def test_available_now_stops_at_the_moment_it_was_asked() -> None:
    now_s = [START_S + 5.0]
    source = reader(lambda: now_s[0], rate=10, start=START_S)
    source.prepareForTriggerAvailableNow()
    now_s[0] += 100.0

    assert source.latestOffset(source.initialOffset(), ALL)["rows"] == 50


def test_available_rows_are_all_there_at_once() -> None:
    source = reader(lambda: 0.0, rate=10, start=START_S, available=70)
    end = source.latestOffset(source.initialOffset(), ALL)

    assert end["rows"] == 70
    assert source.latestOffset(end, ALL) == end
    assert source.partitions(end, end) == []


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 7), (5, 7), (5, 5 + 3 * ARROW_ROWS + 1)])
def test_every_row_is_in_one_range_by_its_number(first: int, last: int) -> None:
    source = reader(partitions=3)
    start, end = ({"rows": rows, "start_us": 0} for rows in (first, last))
    parts = [
        [row for batch in source.read(part) for row in batch["row"].to_pylist()]
        for part in source.partitions(start, end)
    ]

    assert sorted(row for part in parts for row in part) == list(range(first, last))
    assert all(len({row % 3 for row in part}) == 1 for part in parts)
    assert [part[0] % 3 for part in parts] == sorted(part[0] % 3 for part in parts)


def test_a_row_does_not_depend_on_where_batches_end() -> None:
    source = reader(partitions=3, seed=7, phases="1 s: 100, 1 s: 10", repeat=True)
    offsets = [{"rows": rows, "start_us": 0} for rows in (0, 13, 14, 500)]
    pieces = [row for k in range(3) for row in rows_of(source, offsets[k], offsets[k + 1])]
    whole = rows_of(reader(partitions=1, seed=7, phases="1 s: 100, 1 s: 10", repeat=True), offsets[0], offsets[-1])

    assert sorted(pieces, key=lambda row: row["row"]) == whole


def test_no_row_arrives_after_the_moment_it_was_taken() -> None:
    now_s = START_S + 3.141592
    source = reader(lambda: now_s, rate=77_777, start=START_S)
    start = source.initialOffset()
    rows = rows_of(source, start, source.latestOffset(start, ALL))

    assert len(rows) == int(3.141592 * 77_777)
    assert max(row["arrival"].timestamp() for row in rows) <= now_s


def test_seeds_give_other_rows() -> None:
    start, end = {"rows": 0, "start_us": 0}, {"rows": 1000, "start_us": 0}
    one, other = (rows_of(reader(seed=seed), start, end) for seed in (1, 2))

    for column in ("key", "cost_ms", "value"):
        assert np.mean([a[column] == b[column] for a, b in zip(one, other, strict=True)]) < 0.2


@pytest.mark.parametrize(("keys", "skew"), [(1, 1.0), (7, 0.0), (1024, 1.0), (1000, 3.0), (200_000, 0.8)])
def test_keys_follow_zipf(keys: int, skew: float) -> None:
    rows = 300_000
    batch = Population(keys=keys, skew=skew, seed=5).batch(np.arange(rows), np.zeros(rows, np.int64))
    counts = np.bincount(batch["key"].to_numpy(), minlength=keys)
    weights = np.arange(1, keys + 1) ** -skew
    expected = rows * weights / weights.sum()
    # Rare keys together in one class, so that the normal approximation holds.
    common = expected >= 20
    seen = np.append(counts[common], counts[~common].sum())
    due = np.append(expected[common], expected[~common].sum())
    due, seen = due[due > 0], seen[due > 0]
    chi_square = float(np.sum((seen - due) ** 2 / due))

    assert len(counts) == keys
    assert chi_square <= len(due) + 4.0 * np.sqrt(2.0 * len(due))


def test_costs_are_dealt_evenly_and_at_random() -> None:
    batch = Population(keys=128, skew=0.0).batch(np.arange(50_000), np.zeros(50_000, np.int64))
    cost_of = dict(zip(batch["key"].to_pylist(), batch["cost_ms"].to_pylist(), strict=True))
    costs = [cost_of[key] for key in range(128)]

    assert all(cost_of[row["key"]] == row["cost_ms"] for row in batch.to_pylist())
    assert sorted(costs) == pytest.approx([round(0.1 * (1 + k // 2), 9) for k in range(128)])
    assert abs(np.corrcoef(costs, np.arange(128))[0, 1]) < 0.3


def test_values_are_spread_evenly_and_know_nothing_of_keys() -> None:
    batch = Population(keys=2, skew=0.0).batch(np.arange(100_000), np.zeros(100_000, np.int64))
    value, key = batch["value"].to_numpy(), batch["key"].to_numpy()

    assert np.histogram(value, 10, (0.0, 1.0))[0] == pytest.approx(np.full(10, 10_000), abs=500)
    assert value.max() < 1.0
    assert abs(np.corrcoef(value, key)[0, 1]) < 0.02


def test_settings_read_every_profile(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("seconds,rows_per_s\n20,500\n60,1000\n")
    burst = {"rate": "1e2", "burst_rate": "900", "burst_every": "10 s", "burst_for": "1"}

    assert Settings.from_options({}).profile == RateProfile.constant(1000)
    assert Settings.from_options(burst).profile.rows_by(20.0) == 3600
    for options in ({"csv": str(path)}, {"phases": "20 s: 500, 60 s: 1000"}):
        profile = Settings.from_options(options | {"repeat": "TRUE"}).profile
        assert profile == RateProfile((20.0, 60.0), (500.0, 1000.0), repeat=True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"rates": "5"}, r"option = 'rates' is not usable: give one of rate, burst_rate, .*"),
        ({"rate": "5", "phases": "1 s: 5"}, r"rate and phases are both given: give one of rate, phases and csv"),
        ({"burst_rate": "5"}, r"burst_rate is given without burst_every: give all of .*"),
        ({"phases": "1 s: 5", "burst_for": "1 s"}, r"burst_for does not go with phases: give it with rate, .*"),
        ({"repeat": "true"}, r"repeat = 'true' is not usable: give true or false; true goes with phases or csv only"),
        ({"phases": "1 s: 5", "repeat": "2"}, r"repeat = '2' is not usable: give true or false; .*"),
        ({"csv": "/nowhere.csv"}, r"csv = '/nowhere.csv' is not usable: give a CSV file .*; No such file or directory"),
        (
            {"seed": "1.5"},
            r"seed = 1.5 is not usable: give a whole number from -9223372036854775808 to 9223372036854775807",
        ),
        ({"keys": "0"}, r"keys = 0 is not usable: give a whole number from 1 to 10000000"),
        ({"keys": "20000000"}, r"keys = 20000000 is not usable: give a whole number from 1 to 10000000"),
        ({"skew": "-1"}, r"skew = -1 is not usable: give a number from 0 to 10"),
        ({"max_cost_ms": "0.05"}, r"max_cost_ms = 0.05 is not usable: give a number from 0.1 up"),
        ({"partitions": "two"}, r"partitions = 'two' is not usable: give a whole number from 1 to 100000"),
        ({"start": "today"}, r"start = 'today' is not usable: give a number from 0 to 1e\+11"),
        ({"phases": "1 s: 5, 1 s: 0", "available": "6"}, r"available = 6 is not usable: give at most 5: .*"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options: dict[str, str], line: str) -> None:
    with pytest.raises(PenstockError) as refused:
        Settings.from_options(options)

    assert re.fullmatch(line, str(refused.value))


def test_a_schema_of_ones_own_is_refused() -> None:
    with pytest.raises(PenstockError, match="is not usable: give no schema; the source has its own"):
        PenstockSource({}).streamReader(StructType().add("row", "integer"))


# With Spark. Only the last test registers the source: Spark finds it by itself.


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_batch_and_stream_give_the_same_rows_in_any_time_zone(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    options = {"available": 25_000, "rate": 1000, "start": START_S, "seed": 3, "partitions": 2}
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        batches = run(stream(spark, rows_per_batch=10_000, **options), tmp_path)
        written, read = ordered(spark.read.parquet(str(tmp_path / "out"))), ordered(static(spark, **options))
        moments = static(spark, **options).select("row", F.unix_micros("arrival").alias("us")).toArrow()
        shown = static(spark, **options).where("row = 0").select(F.date_format("arrival", "HH:mm")).collect()[0][0]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert batches == [10_000, 10_000, 5_000]
    assert written == read
    row, moment_us = (moments[name].to_numpy() for name in ("row", "us"))
    assert np.abs(moment_us - (START_S * 1_000_000 + (row + 1) * 1000)).max() <= 1
    assert shown == {"UTC": "22:13", "America/New_York": "17:13"}[zone]


def test_a_query_started_again_goes_on_with_the_same_profile(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream(spark, rate=2000, seed=1)
    for _ in range(2):
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start(str(tmp_path / "out"))
        written = 0
        deadline = time.monotonic() + 60.0
        while written < 500 and time.monotonic() < deadline:
            time.sleep(0.1)
            written = sum(progress["numInputRows"] for progress in query.recentProgress)
        query.stop()
        assert written >= 500

    rows = ordered(spark.read.parquet(str(tmp_path / "out")).withColumn("us", F.unix_micros("arrival")))
    row, moment_us = rows["row"].to_numpy(), rows["us"].to_numpy()
    expected = Population(seed=1).batch(row, np.zeros(len(row), np.int64))
    assert row.tolist() == list(range(len(row)))
    assert np.abs(moment_us - moment_us[0] - row * 500).max() <= 1
    for column in ("key", "cost_ms", "value"):
        assert rows[column].to_pylist() == expected[column].to_pylist()


def test_a_batch_done_again_has_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, pa.Table]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        seen.append((batch, ordered(frame)))

    for _ in range(2):
        # No start given: what was the first batch's start must come from the checkpoint.
        writer = stream(spark, available=3000, rate=1000).writeStream.foreachBatch(keep)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        for path in (tmp_path / "commits").glob("*0*"):
            path.unlink()

    assert [batch for batch, _ in seen] == [0, 0]
    assert seen[0][1].num_rows == 3000
    assert seen[0] == seen[1]


@pytest.mark.since_spark((4, 2), "what waits at the embedded source, in the progress of a query")
def test_progress_tells_what_waits_at_the_source(spark: SparkSession) -> None:
    frame = stream(spark, available=100, rows_per_batch=60)
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    offsets = [progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]

    assert [re.findall(r'"rows": ?(\d+)', source["endOffset"]) for source in offsets] == [["60"], ["100"]]
    assert [re.findall(r'"rows": ?(\d+)', source["latestOffset"]) for source in offsets] == [["100"], ["100"]]


def test_an_empty_read_is_empty(spark: SparkSession) -> None:
    assert static(spark, available=0).count() == 0


def test_our_line_reaches_the_user_through_spark(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="rate = 'fast' is not usable: give a number from 0 to 1e"):
        stream(spark, rate="fast")
    with pytest.raises(AnalysisException, match="available is not given: a batch read needs it"):
        static(spark).count()


def test_a_session_may_register_the_source_too(spark: SparkSession) -> None:
    register(spark)

    assert static(spark, available=3).count() == 3


def test_a_source_that_came_in_an_archive_finds_it_in_a_process_that_was_not_told_of_it(tmp_path: Path) -> None:
    package = Path(sys.modules["penstock"].__file__).parent
    archive = shutil.make_archive(str(tmp_path / "penstock"), "zip", package.parent, package.name)
    pickled = tmp_path / "source"
    send = (
        "import sys; from pyspark import cloudpickle; from penstock.spark.source import PenstockSource; "
        "open(sys.argv[1], 'wb').write(cloudpickle.dumps(PenstockSource({'rate': '7'})))"
    )
    receive = (
        "import sys, pickle; source = pickle.load(open(sys.argv[1], 'rb')); "
        "print(source.options['rate'], sys.modules['penstock'].__file__)"
    )
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    subprocess.run([sys.executable, "-c", send, pickled], env={**without, "PYTHONPATH": archive}, check=True)
    told = subprocess.run(
        [sys.executable, "-c", receive, pickled], env=without, check=True, stdout=subprocess.PIPE, text=True
    )

    assert told.stdout.split() == ["7", str(Path(archive) / "penstock" / "__init__.py")]
