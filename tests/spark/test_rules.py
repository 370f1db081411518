"""A batch that is replayed is judged as it was the first time, whatever has become of settings, plans and offsets."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.messages.plan import Plan
from penstock.store.logs import BindingLog, PlanLog

F = pytest.importorskip("pyspark.sql.functions")
from tests.spark.by_hand import keep, put  # noqa: E402 - needs Spark
from tests.spark.quarantined import SALT, TABLE, guard, put_plan  # noqa: E402 - needs Spark
from tests.spark.rows import from_files  # noqa: E402 - needs Spark

from penstock.spark import source  # noqa: E402 - needs Spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

BATCH = 1000
NO_QUARANTINE = {"quarantine": None}


class Run:
    """A query that is guarded, and run in pieces; `kept` has the rows that each batch kept the last time it ran."""

    def __init__(self, spark: SparkSession, folder: Path, *, embedded: bool = False) -> None:
        self.spark, self.folder, self.embedded = spark, folder, embedded
        self.kept: dict[int, list[int]] = {}

    def of(
        self, of: ps.Guard, rows: int, *, size: int = BATCH, made: Callable[[DataFrame], DataFrame] | None = None
    ) -> str:
        """Work off so many rows from the first on; what went wrong."""
        options = {"available": rows, "rows_per_batch": size, "rate": 100_000, "seed": 3}
        if self.embedded:
            found = self.spark.readStream.format("penstock").options(**options).load()
        else:
            found = from_files(self.spark, self.folder / "in", **options)
        admitted = found.transform(made or (lambda df: df)).transform(of.admit)
        return self.admitted(admitted)

    def admitted(self, admitted: DataFrame, checkpoint: str = "checkpoint") -> str:
        def sink(df: DataFrame, number: int) -> None:
            self.kept[number] = sorted(row["row"] for row in df.select("row").collect())

        writer = admitted.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.folder / checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
        except Exception as error:  # noqa: BLE001 - what it was is told
            return str(error)
        return ""

    def forget(self, *files: str) -> None:
        """Delete files of Spark's checkpoint, as if the driver had died before it wrote them."""
        for name in files:
            path = self.folder / "checkpoint" / name
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    @property
    def query(self) -> str:
        return str(json.loads((self.folder / "checkpoint" / "metadata").read_text())["id"])

    @property
    def shed(self) -> list[int]:
        files = list((self.folder / "shed").glob("*.parquet"))
        return sorted(pq.read_table(files)["row"].to_pylist()) if files else []

    def bindings(self) -> BindingLog:
        return BindingLog(self.folder / "checkpoint" / "penstock" / "bindings" / self.query)


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return died(spark, tmp_path_factory.mktemp("with") / "query")


@pytest.fixture(scope="module")
def begun_counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    source.register(spark)
    return died(spark, tmp_path_factory.mktemp("counted") / "query", embedded=True)


@pytest.fixture
def counted(begun_counted: Run) -> Run:
    """As `first`, from a source whose offsets count rows."""
    return as_it_died(begun_counted)


@pytest.fixture
def first(begun: Run) -> Run:
    """A query that has shed rows of its first batch into quarantine, and has died before it was done."""
    return as_it_died(begun)


@pytest.fixture(scope="module")
def begun_without(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    source.register(spark)
    return died(spark, tmp_path_factory.mktemp("without") / "query", embedded=True, **NO_QUARANTINE)


@pytest.fixture
def without(begun_without: Run) -> Run:
    """The same without a quarantine."""
    return as_it_died(begun_without)


def as_it_died(begun: Run) -> Run:
    """The query's folder as it was left, whatever another test has made of it."""
    saved = begun.folder.with_name("saved")
    if saved.exists():
        shutil.rmtree(begun.folder)
        shutil.copytree(saved, begun.folder)
    else:
        shutil.copytree(begun.folder, saved)
    keep(PlanLog(begun.folder / "checkpoint" / "penstock" / "plans"), 0)
    run = Run(begun.spark, begun.folder, embedded=begun.embedded)
    run.kept = dict(begun.kept)
    return run


def died(spark: SparkSession, folder: Path, *, embedded: bool = False, **settings: Any) -> Run:
    run = Run(spark, folder, embedded=embedded)
    of = guard(folder, **settings)
    put_plan(of)
    assert run.of(of, BATCH) == ""
    run.forget("commits/0")
    return run


def test_a_batch_that_was_bound_is_replayed_with_the_old_keep_and_the_next_one_has_the_new(first: Run) -> None:
    before, shed = first.kept[0], first.shed
    assert len(shed) > BATCH / 5
    wider = guard(first.folder, keep="key < 50")
    assert first.of(wider, 2 * BATCH) == ""
    assert first.kept[0] == before
    assert sorted(first.kept[0] + first.kept[1] + first.shed) == list(range(2 * BATCH))
    later = pq.read_table(sorted((first.folder / "shed").glob("*-000000000001-*.parquet"))).to_pandas()
    assert len(later) > 0
    assert (later["key"] >= 50).all()

    first.forget("commits/1")
    narrower = guard(first.folder, keep="key < 10")
    before, shed = first.kept[1], first.shed
    assert first.of(narrower, 2 * BATCH) == ""
    assert (first.kept[1], first.shed) == (before, shed)


@pytest.mark.parametrize("mode", ["off", "dry_run"])
def test_a_guard_that_no_longer_sheds_still_finishes_the_batch_that_did(first: Run, mode: str) -> None:
    shutil.rmtree(first.folder / "shed")
    before = first.kept[0]
    assert first.of(guard(first.folder, mode=mode), 2 * BATCH) == ""
    assert first.kept[0] == before
    assert sorted(first.kept[0] + first.shed) == list(range(BATCH))
    assert first.kept[1] == list(range(BATCH, 2 * BATCH))


def test_a_query_that_began_with_a_quarantine_goes_on_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Spark lists the source twice with a quarantine, and resumes no query that lists it once."""
    run = Run(spark, tmp_path)
    for number, settings in enumerate(({}, {"mode": "off"}, {"mode": "dry_run"}, NO_QUARANTINE)):
        assert run.of(guard(tmp_path, **settings), 10 * (number + 1), size=10) == ""
        assert run.kept[number] == list(range(10 * number, 10 * (number + 1)))


def test_a_quarantine_is_refused_where_the_query_began_without_one(spark: SparkSession, tmp_path: Path) -> None:
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "7").write_text('v1\n{"batchTimestampMs":1}\n{"rows":10}\n')
    with pytest.raises(ps.PenstockError, match=r"quarantine = .* new checkpoint; with a quarantine the source is read"):
        spark.readStream.format("rate").load().selectExpr("value AS row", "value AS key").transform(
            guard(tmp_path).admit
        )
    assert not (tmp_path / "shed").exists()
    assert not (tmp_path / "checkpoint" / "penstock").exists()


def test_rows_that_come_with_weights_or_more_columns_are_shed_as_before_in_a_replay(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = died(spark, tmp_path, row=(), **NO_QUARANTINE)
    before = run.kept[0]
    changed = guard(tmp_path, row=(), weight="weight", **NO_QUARANTINE)
    assert run.of(changed, 2 * BATCH, made=lambda df: df.withColumns({"weight": F.lit(2.0), "more": F.lit(1)})) == ""
    assert run.kept[0] == before
    assert 0 < len(run.kept[1]) < BATCH


def test_settings_that_cannot_be_made_again_are_refused_while_a_batch_needs_them(first: Run) -> None:
    column = guard(first.folder, keep=F.col("key") < 50)
    assert first.of(column, 2 * BATCH) == ""
    first.forget("commits/1")
    with pytest.raises(
        ps.PenstockError, match=r"keep = 'key < 10' is not usable: give .*batch 1 was judged; start the"
    ):
        first.of(guard(first.folder, keep="key < 10"), 2 * BATCH)
    with pytest.raises(ps.PenstockError, match=r"quarantine = None is not usable: give .*, where rows of batch 1 go"):
        first.of(guard(first.folder, quarantine=None, keep=F.col("key") < 50), 2 * BATCH)
    with pytest.raises(ps.PenstockError, match=r"where rows of batch 1 are already; or copy the files"):
        first.of(guard(first.folder, quarantine=first.folder / "new", keep=F.col("key") < 50), 2 * BATCH)
    assert first.of(guard(first.folder, keep=F.col("key") < 50), 2 * BATCH) == ""
    assert first.of(guard(first.folder, keep="key < 10"), 3 * BATCH) == ""
    assert sorted(first.kept[0] + first.kept[1] + first.kept[2] + first.shed) == list(range(3 * BATCH))


def test_with_a_quarantine_a_bound_plan_that_cannot_be_read_stops_the_query_in_one_line(first: Run) -> None:
    shed = first.shed
    (plan,) = (first.folder / "checkpoint" / "penstock" / "plans").glob("*.plan")
    whole = plan.read_bytes()
    plan.write_text("torn")
    told = first.of(guard(first.folder), 2 * BATCH)
    assert "the batch fails before rows are lost or doubled: its plan could not be read" in told
    plan.write_bytes(whole)
    assert first.of(guard(first.folder), 2 * BATCH) == ""
    assert first.shed[: len(shed)] == shed
    assert sorted(first.kept[0] + first.kept[1] + first.shed) == list(range(2 * BATCH))


def test_without_one_rows_flow(without: Run) -> None:
    (plan,) = (without.folder / "checkpoint" / "penstock" / "plans").glob("*.plan")
    plan.write_text("torn")
    assert without.of(guard(without.folder, **NO_QUARANTINE), BATCH) == ""
    assert without.kept[0] == list(range(BATCH))


def test_numbers_of_batches_that_are_used_again_are_refused_before_a_row_is_lost(counted: Run) -> None:
    assert counted.of(guard(counted.folder), 2 * BATCH) == ""
    counted.forget("commits/1", "offsets/1")  # wound back by hand
    again = guard(counted.folder)
    with pytest.raises(ps.PenstockError, match=r"no longer has batch 1, of which rows are in .*; delete the"):
        counted.of(again, 2 * BATCH, size=700)
    for path in (counted.folder / "shed").glob(f"{counted.query}-000000000001-*"):
        path.unlink()
    assert counted.of(again, 2 * BATCH, size=700) == ""
    assert len(counted.kept) == 3
    assert sorted([row for kept in counted.kept.values() for row in kept] + counted.shed) == list(range(2 * BATCH))


def test_without_a_quarantine_such_a_batch_is_bound_anew(without: Run) -> None:
    without.forget("offsets/0")
    of = guard(without.folder, **NO_QUARANTINE)
    plan = Plan.keep_all(1, "by hand", time.time(), SALT)
    assert of.plans().add(1, plan)
    assert without.of(of, BATCH, size=700) == ""
    assert sorted(without.kept[0] + without.kept[1]) == list(range(BATCH))


def test_a_batch_with_other_offsets_than_it_was_bound_for_is_not_judged_by_its_binding(counted: Run) -> None:
    offsets = counted.folder / "checkpoint" / "offsets" / "0"
    lines = offsets.read_text().split("\n")
    changed = lines[-1].replace("1000", "900")
    assert changed != lines[-1]
    offsets.write_text("\n".join([*lines[:-1], changed]))
    offsets.with_name(".0.crc").unlink(missing_ok=True)
    assert "its number was used before with other offsets" in counted.of(guard(counted.folder), BATCH)


def test_a_file_of_a_batch_with_other_rows_is_an_error(first: Run) -> None:
    """As with offsets that are the same and mean others, or that were on disk too late."""
    bindings = first.bindings()
    bound = bindings.get(0)
    assert bound is not None
    assert bound.offsets
    bindings.remove(0)
    bindings.add(0, replace(bound, offsets=""))
    before = first.shed
    told = first.of(guard(first.folder), BATCH, made=lambda df: df.filter("row % 100 <> 7"))
    assert "holds other rows of a batch with the same number" in told
    assert first.shed == before


def test_a_plan_for_another_query_sheds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    of = guard(tmp_path)
    plan = put(of.plans(), Plan(0, "by hand", time.time(), SALT, gates=(TABLE,), query="another"))
    assert run.of(of, BATCH) == ""
    assert run.kept[0] == list(range(BATCH))
    put(of.plans(), replace(plan, version=1, decided_s=time.time(), query=run.query))
    assert run.of(of, 2 * BATCH) == ""
    assert 0 < len(run.kept[1]) < BATCH
    assert sorted(run.kept[1] + run.shed) == list(range(BATCH, 2 * BATCH))


@pytest.mark.parametrize("with_quarantine", [True, False])
def test_executors_that_do_not_see_the_folder_make_none(
    spark: SparkSession, tmp_path: Path, *, with_quarantine: bool
) -> None:
    run = Run(spark, tmp_path)
    of = guard(tmp_path) if with_quarantine else guard(tmp_path, **NO_QUARANTINE)
    put_plan(of)
    admitted = from_files(spark, available=BATCH, seed=3).transform(of.admit)
    of.folder.rename(tmp_path / "elsewhere")
    told = run.admitted(admitted)
    assert not of.folder.exists()
    if with_quarantine:
        assert "executors cannot read " in told
    else:
        assert run.kept[0] == list(range(BATCH))


def test_a_quarantine_that_executors_do_not_see_is_not_made_anew(first: Run) -> None:
    of = guard(first.folder)
    admitted = from_files(first.spark, first.folder / "in", available=BATCH, rate=100_000, seed=3).transform(of.admit)
    shutil.rmtree(first.folder / "shed")
    (first.folder / "shed").mkdir()
    assert "a folder that executors see" in first.admitted(admitted)
    assert not list((first.folder / "shed").iterdir())
