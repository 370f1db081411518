"""The probe and the row gate, as a worker runs them."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import Observation

import penstock as ps
from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.spark.probe import batch_formats, probe
from penstock.spark.probe.batch_formats import ArrowForm
from penstock.spark.probe.measured import measured
from penstock.spark.probe.meter import TaskSums
from penstock.spark.probe.probe import Measured, MeasuredRows, RowGateSpec
from penstock.spark.probe.row_gate import RowGate
from penstock.spark.row_columns import RowColumns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("row", pa.int64()), ("weight", pa.float64())])


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_sizers", {})
    monkeypatch.setattr(probe, "_row_gates", {})


def batch(rows: int, *, age_s: float = 0.0, must_keep: bool = False, first: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "row": np.arange(first, first + rows),
            "weight": np.full(rows, 2.0),
            batch_formats.BUCKET: np.arange(rows, dtype=np.int32) % 4,
            batch_formats.ARRIVAL: np.full(rows, time.time() - age_s),
            batch_formats.WEIGHT: np.full(rows, 2.0),
            batch_formats.MUST_KEEP: np.full(rows, must_keep),
        }
    )


def ran(results: Any) -> tuple[pa.Table, TaskSums | None]:
    """What the function gave, and the sums, which travel as one more row."""
    table = pa.Table.from_batches(list(results))
    texts = table[batch_formats.SUMS].drop_null().to_pylist()
    assert len(texts) <= 1
    plain = table.filter(table[batch_formats.SUMS].is_null()).drop_columns([batch_formats.SUMS])
    return plain, TaskSums.from_text(texts[0]) if texts else None


def sleep_by_bucket(seconds: float) -> Any:
    def work(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(seconds * (1 + row["row"] % 4))
        return row

    return work


def test_a_function_of_rows_is_timed_row_by_row() -> None:
    plain, sums = ran(MeasuredRows(sleep_by_bucket(0.002), SCHEMA)([batch(40, age_s=5.0), batch(8, age_s=9.0)]))
    assert plain["row"].to_pylist() == [*range(40), *range(8)]
    assert sums is not None
    assert (sums.rows, sums.queued_rows, sums.late) == (48, 48, 0)
    costs = sums.bucket_costs().costs_s()
    assert np.all(costs[:4] >= 0.002 * np.arange(1, 5))
    assert costs[0] < costs[3], "a busy machine may sleep longer, hardly four times as long"
    assert sums.busy_s == pytest.approx(float(sums.bucket_costs().work_s.sum()))
    assert sums.end_s - sums.start_s >= sums.busy_s * 0.99
    assert 5.0 <= sums.queued_s / 48 <= 5.0 + 4.0 * 8 / 48 + 1.0
    assert sums.bucket_costs().weight.sum() == 96.0


def test_results_are_handed_on_batch_by_batch_whatever_the_slices() -> None:
    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in batches:
            time.sleep(0.002)  # so that slices stay short
            yield one

    given = [batch(300), batch(200, first=300)]
    found = list(Measured(slowly, ArrowForm(SCHEMA), "g")(given))
    assert [one.num_rows for one in found] == [300, 200, 1]
    assert pa.Table.from_batches(found[:2])["row"].to_pylist() == [*range(500)]


def test_results_of_different_schemas_or_none_are_handed_on_as_they_are() -> None:
    def strange(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in batches:
            yield one.slice(0, 0)
            yield one.select(["row"])

    found = list(Measured(strange, ArrowForm(SCHEMA), "g")([batch(3)]))
    assert [one.schema.names[0] for one in found] == ["row"] * len(found)
    empty = list(Measured(lambda batches: (one.slice(0, 0) for one in batches), ArrowForm(SCHEMA), "g")([batch(3)]))
    assert [one.num_rows for one in empty][-1] == 1


def test_a_function_of_batches_sees_every_row_once_and_in_order_whatever_the_slices() -> None:
    seen: list[int] = []

    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in batches:
            assert one.schema.names == ["row", "weight"]
            seen.append(one.num_rows)
            time.sleep(0.0005)
            yield one

    given = [batch(3000), batch(500, first=3000)]
    plain, sums = ran(Measured(double, ArrowForm(SCHEMA), "guard")(given))
    assert plain["row"].to_pylist() == list(range(3500))
    assert sums is not None
    assert sums.rows == 3500
    assert len(seen) > 10
    # It costs the same however many rows it gets, so in the end it gets many.
    assert max(seen) > 256


def test_runs_of_equal_keys_are_told_apart_even_for_a_function_that_needs_many_rows_at_once() -> None:
    def vectorised(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in batches:
            keys = one["row"].to_numpy() // 8000 % 4
            time.sleep(0.0003 + 4e-6 * float((1 + keys).sum()))  # a fixed part, and a part by key
            yield one

    work = Measured(vectorised, ArrowForm(SCHEMA), "guard")
    rows = 64_000
    in_runs = batch(rows).set_column(2, batch_formats.BUCKET, pa.array(np.arange(rows) // 8000 % 4, pa.int32()))
    ran(work([in_runs]))
    for _ in range(5):  # On a busy machine sleeps take longer, by more than they differ.
        _, sums = ran(work([in_runs]))
        assert sums is not None
        costs = sums.bucket_costs().costs_s()[:4]
        if np.all(np.diff(costs) > 0.0) and costs[3] > 1.5 * costs[0]:
            return
    pytest.fail(f"keys are not told apart: {costs}")


def test_a_field_that_the_schema_lacks_is_told() -> None:
    work = MeasuredRows(lambda row: {"row": row["row"], "wieght": 1.0}, SCHEMA)
    with pytest.raises(
        ps.PenstockError, match=r"^the function gave a field 'wieght' that its schema lacks: it has row, "
    ):
        list(work([batch(3)]))
    with pytest.raises(ps.PenstockError, match="'wieght'"):
        list(probe.EachRow(lambda row: [{"wieght": row["row"]}], SCHEMA)([batch(3)]))


@pytest.mark.parametrize("value", [Decimal("1.5"), "text", {"a": 1}])
def test_a_value_that_does_not_fit_its_column_is_one_line(value: Any) -> None:
    for work in (MeasuredRows, probe.EachRow):
        with pytest.raises(
            ps.PenstockError, match=r"^the function's field 'weight' = .* give a value that fits double"
        ) as told:
            list(work(lambda row: {"row": row["row"], "weight": value if row["row"] == 2 else 1.0}, SCHEMA)([batch(3)]))
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("result", [7, "text", [1, 2], ["text"]])
def test_a_result_that_is_no_row_is_told(result: Any) -> None:
    with pytest.raises(ps.PenstockError, match="give a row as a dictionary, a list of such rows, or None"):
        list(MeasuredRows(lambda _: result, SCHEMA)([batch(3)]))


def test_a_column_that_is_never_null_passes_through() -> None:
    strict = pa.schema([pa.field("row", pa.int64(), nullable=False), pa.field("weight", pa.float64(), nullable=False)])
    given = batch(5)
    extra = [given.field(name) for name in given.schema.names if name.startswith("__")]
    strict_batch = pa.RecordBatch.from_arrays(given.columns, schema=pa.schema([*strict, *extra]))
    plain, sums = ran(Measured(lambda batches: batches, ArrowForm(SCHEMA), "guard")([strict_batch]))
    assert plain["row"].to_pylist() == list(range(5))
    assert sums is not None


@pytest.mark.parametrize("shape", ["none", "by position", "one too many"])
def test_frames_that_spark_takes_are_taken(shape: str) -> None:
    pandas = pytest.importorskip("pandas")
    frames = {
        "none": pandas.DataFrame(),
        "by position": pandas.DataFrame([[1, 2.0], [3, 4.0]]),
        "one too many": pandas.DataFrame({"row": [1, 3], "weight": [2.0, 4.0], "more": [0, 0]}),
    }
    form = batch_formats.PandasForm(["row", "weight"])
    plain = form.plain(frames[shape])
    assert list(plain.columns) == ["row", "weight", batch_formats.SUMS]
    assert plain["row"].tolist() == ([] if shape == "none" else [1, 3])
    assert list(form.last(None, "sums").columns) == ["row", "weight", batch_formats.SUMS]


def test_time_that_the_reader_of_results_takes_is_not_the_functions() -> None:
    results = Measured(lambda batches: batches, ArrowForm(SCHEMA), "guard")([batch(5)])
    found = []
    for one in results:
        time.sleep(0.02)
        found.append(one)
    _, sums = ran(found)
    assert sums is not None
    assert sums.busy_s < 0.02


def test_work_after_the_last_row_counts_and_no_rows_give_no_sums() -> None:
    def flushing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        time.sleep(0.05)
        yield from kept

    _, sums = ran(Measured(flushing, ArrowForm(SCHEMA), "guard")([batch(5)]))
    assert sums is not None
    assert 0.05 <= sums.busy_s < 1.0
    assert list(MeasuredRows(sleep_by_bucket(0.0), SCHEMA)([])) == []


@pytest.mark.parametrize("given", [[], [batch(0), batch(0)]])
def test_a_function_of_batches_is_not_called_in_a_task_without_rows(given: list[pa.RecordBatch]) -> None:
    """A quarantine adds such tasks to every batch, and a model that is loaded in each would be loaded for nothing."""
    called: list[bool] = []

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        called.append(True)
        yield from batches

    assert not list(Measured(function, ArrowForm(SCHEMA), "guard")(given))
    assert not called
    plain, _ = ran(Measured(function, ArrowForm(SCHEMA), "guard")([batch(0), batch(3), batch(0), batch(2, first=3)]))
    assert plain["row"].to_pylist() == [0, 1, 2, 3, 4]


def test_the_fine_gate_sheds_what_comes_too_late_within_its_batch_and_keeps_what_must_be_kept() -> None:
    row_gate = RowGateSpec("guard", lambda: ps.LoadAware().machines(ps.MeanQueueLatency("50 ms")), "weight")
    work = MeasuredRows(sleep_by_bucket(0.004), SCHEMA, row_gate)
    ran(work([batch(1, must_keep=True)]))  # the first row of a worker waits for a compiler

    plain, sums = ran(work([batch(200)]))
    assert sums is not None
    assert sums.rows + sums.late == 200
    assert sums.late > 100
    assert sums.queued_s / sums.rows < 0.25  # it would be a second
    # A kept row stands for those shed before it; those shed after the last one wait for the next batch.
    assert 2.0 * sums.rows <= sum(plain["weight"].to_pylist()) <= 400.0
    assert sums.bucket_costs().weight.sum() == pytest.approx(sum(plain["weight"].to_pylist()))

    plain, sums = ran(work([batch(30, must_keep=True)]))
    assert plain["row"].to_pylist() == list(range(30))
    assert plain["weight"].to_pylist() == [2.0] * 30
    assert sums is not None
    assert sums.late == 0


def test_the_fine_gate_takes_a_row_without_a_time_or_from_the_future_for_new() -> None:
    gate = RowGate(ps.LoadAware().machines(ps.MeanQueueLatency("1 s")))
    for arrival_s in (float("nan"), 1e12, 0.0):
        passed = gate.judge(BUCKETS - 1, arrival_s, 1_800_000_000.0, must_keep=False, weight=1.0)
        assert passed is not None
        gate.executed(passed, 1_800_000_000.0, 0.001)


def test_progress_does_not_grow_with_the_costs_of_every_task(spark: SparkSession) -> None:
    tasks, rows = 8, 20_000
    keyed = spark.range(0, rows, 1, tasks).selectExpr("id AS row", "id % 3000 AS key", "2.0D AS weight")
    seen = {}
    for apart in (True, False):
        observed = Observation()
        results = measured(
            keyed,
            lambda batches: batches,
            "row bigint, key bigint, weight double",
            "arrow",
            columns=RowColumns(("key",), (), None, None, None, "weight"),
            guard="growth",
            metric=observed,
            row_gate=None,
            apart=apart,
        )
        assert results.count() == rows
        seen[apart] = observed.get
    told = BucketCosts.from_cells(seen[False]["costs"])
    own = BucketCosts()
    for text in seen[True]["tasks"]:
        own.merge(TaskSums.from_text(text).bucket_costs())
    assert told.rows.sum() == rows
    assert np.array_equal(told.rows, own.rows)
    assert np.array_equal(told.weight, own.weight)
    assert 0.0 < told.mean_s < 1.0
    assert sum(TaskSums.from_text(text).rows for text in seen[False]["tasks"]) == rows
    a_task, all_costs = max(map(len, seen[False]["tasks"])), len(seen[False]["costs"])
    assert 200 * a_task + all_costs < 200_000  # bytes at 200 tasks
    assert 200 * max(map(len, seen[True]["tasks"])) > 1_000_000  # what it was


def test_costs_as_text_are_the_same_costs() -> None:
    costs = BucketCosts()
    costs.add(np.array([0, 5, 5, 1023]), np.array([1e-7, 0.25, 0.5, 3.0]), np.array([1.0, 1.0, 2.0, 1e6]))
    sums = np.array(costs.to_text().split(","), float).reshape(3, -1)
    assert np.allclose(sums, [costs.rows, costs.weight, costs.work_s], rtol=1e-6)
    assert not BucketCosts.from_cells("").known
