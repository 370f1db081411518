"""A network that runs for long: feeds, plans, bindings and snapshots stay as few as they were."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType
from tests.core.networks import figure_4

from penstock.bench.growth import BATCH, Alternating
from penstock.core.loop.events import BatchEnded
from penstock.core.network.model import Box
from penstock.errors import PenstockError
from penstock.spark import file_log
from penstock.spark.network import feeds, streams
from penstock.store.bound_plans import BoundPlans, DropLog
from penstock.store.retention import NEWEST_PLANS
from penstock.testing import ManualClock
from penstock.views.network.history import History, summary
from penstock.views.network.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Rows:
    """As much of a data frame as a feed needs; each batch is two files."""

    number: int
    counted: int = 0

    @property
    def write(self) -> Rows:
        return self

    def mode(self, _: str) -> Rows:
        return self

    def format(self, _: str) -> Rows:
        return self

    def save(self) -> None:
        self.counted += 1

    def parquet(self, path: str) -> None:
        self.counted += 1
        Path(path).mkdir(parents=True, exist_ok=True)
        for part in range(2):
            (Path(path) / f"part-{part}-of-{self.number}.parquet").write_text(f"{self.number}")
        (Path(path) / "_SUCCESS").touch()


def found(folder: Path) -> list[str]:
    """What Spark would read."""
    return sorted(path.read_text() for path in folder.rglob("*.parquet") if "/_" not in str(path))


def test_a_feed_does_not_grow_however_many_batches_there_were(tmp_path: Path) -> None:
    for number in range(300):
        rows = Rows(number)
        feeds.feed(rows, tmp_path, number)  # type: ignore[arg-type]
        assert found(tmp_path) == [f"{number}"] * 2
        for path in tmp_path.glob("*.parquet"):  # as Spark does with what it has read
            path.unlink()
        feeds.feed(rows, tmp_path, number)  # type: ignore[arg-type]
        assert found(tmp_path) == []
        assert rows.counted == 2
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_feed_that_is_cut_off_goes_on_where_it_was(
    tmp_path: Path, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Path] = []
    rename = Path.rename

    def cut_off(self: Path, target: Path) -> Path:
        if self.name.startswith("part-") and len(done) == moved:
            raise KeyboardInterrupt
        done.extend([self] if self.name.startswith("part-") else [])
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", cut_off)
    if moved < 2:
        with pytest.raises(KeyboardInterrupt):
            feeds.feed(Rows(7), tmp_path, 7)  # type: ignore[arg-type]
    else:
        feeds.feed(Rows(7), tmp_path, 7)  # type: ignore[arg-type]
    assert found(tmp_path) == ["7"] * moved
    for path in tmp_path.glob("*.parquet"):  # read in the meantime
        path.unlink()
    monkeypatch.setattr(Path, "rename", rename)
    feeds.feed(Rows(7), tmp_path, 7)  # type: ignore[arg-type]
    assert found(tmp_path) == ["7"] * (2 - moved)
    assert not list(tmp_path.glob("_whole-*"))


@pytest.mark.parametrize("number", [0, 6, 7])
def test_a_number_that_is_used_again_for_another_batch_is_refused(tmp_path: Path, number: int) -> None:
    feeds.feed(Rows(7), tmp_path, 7, "query:offsets")  # type: ignore[arg-type]
    feeds.feed(Rows(7), tmp_path, 7, "query:offsets")  # type: ignore[arg-type]  # a replay
    assert found(tmp_path) == ["7"] * 2
    again = Rows(number)
    with pytest.raises(PenstockError, match=f"batch {number} of stage .* is not the batch of that number"):
        feeds.feed(again, tmp_path, number, "query:others")  # type: ignore[arg-type]
    assert again.counted == 0
    feeds.feed(Rows(8), tmp_path, 8, "query:others")  # type: ignore[arg-type]
    assert found(tmp_path) == ["7"] * 2 + ["8"] * 2


class Written(Rows):
    """Rows of which executors have written some where the driver does not see them."""

    def parquet(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [self.number] * 3}), Path(path) / "part-0.parquet")


def test_rows_that_executors_have_written_elsewhere_are_missed(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"2 of 5 rows are not in .*: executors cannot read the driver's folder"):
        feeds.feed(Written(7), tmp_path, 7, "query:offsets", lambda: 5)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("*.parquet"))
    feeds.feed(Written(7), tmp_path, 7, "query:offsets", lambda: 3)  # type: ignore[arg-type]
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_a_batch_that_was_cut_off_is_not_taken_for_another_of_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(feeds, "_move", cut_off)
        with pytest.raises(KeyboardInterrupt):
            feeds.feed(Rows(7), tmp_path, 7, "query:offsets")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="batch 7 of stage"):
        feeds.feed(Rows(7), tmp_path, 7, "query:others")  # type: ignore[arg-type]
    feeds.feed(Rows(7), tmp_path, 7, "query:offsets")  # type: ignore[arg-type]
    assert found(tmp_path) == ["7"] * 2


def test_spark_reads_each_file_once_and_none_that_is_unfinished(spark: SparkSession, tmp_path: Path) -> None:
    hidden = pa.table(
        {
            streams.INPUT: ["I1"],
            streams.WEIGHT: [1.0],
            streams.ARRIVAL: pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC")),
            "key": [1],
        }
    )
    stage = tmp_path / "feed" / "inputs"
    for name in (f"batch-{0:020d}-part-0.parquet", f"batch-{1:020d}-part-0.parquet", "_whole-2/part-0.parquet"):
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(hidden, stage / name)
    schema = spark.read.parquet(str(stage / f"batch-{1:020d}-part-0.parquet")).schema
    assert isinstance(schema, StructType)
    box = Box("perkey", "aggregate", ("I1",), 1.0, by=("key",), window_s=5.0)
    rows = streams.stateful(spark, box, [(tmp_path / "feed", schema)])
    counts: list[float] = []
    query = (
        rows.writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda df, _: counts.extend(row["n"] for row in df.selectExpr("perkey.count AS n").collect()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert counts == [2.0]


def test_plans_of_several_stages_are_deleted_also_while_one_of_them_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.retention.BATCHES", 20)
    monkeypatch.setattr("penstock.core.loop.machine.PURGE_EVERY", 10)
    clock = ManualClock(1_800_000_000.0)
    stages = {"inputs": "inputs", "pairs": "pairs", "perkey": "perkey"}
    plans = BoundPlans.below(tmp_path, stages, Alternating(), clock=clock)
    log = DropLog(tmp_path / "plans")
    first = plans.of("perkey", 0)
    for number in range(200):
        plans.handle(BatchEnded(clock(), number, BATCH))
        for stage in ("inputs", "pairs"):
            assert plans.of(stage, number) == plans.newest
        clock.advance(1.0)
    assert len(log.versions()) <= 20 + 10 + NEWEST_PLANS + 1
    assert all(len(list((tmp_path / "bindings" / stage).iterdir())) <= 31 for stage in stages)
    again = BoundPlans.below(tmp_path, stages, Alternating(), clock=clock)
    assert again.of("perkey", 0) == first
    assert again.of("pairs", 199) == plans.newest
    again.handle(BatchEnded(clock(), 200, BATCH))
    assert again.of("pairs", 200) == again.newest


def test_a_plan_that_is_gone_is_told(tmp_path: Path) -> None:
    plans = BoundPlans.below(tmp_path, {"inputs": "inputs"}, Alternating())
    plans.handle(BatchEnded(1.0, 0, BATCH))
    plans.of("inputs", 0)
    plans = BoundPlans.below(tmp_path, {"inputs": "inputs"}, Alternating())
    for path in (tmp_path / "plans").iterdir():
        path.unlink()
    with pytest.raises(PenstockError, match="plan 0 is missing, so batch 0 keeps every row"):
        plans.of("inputs", 0)


def snapshot(number: int, **given: Any) -> Snapshot:
    told = {"rows": {"I": 10}, "rates": {}, "flows": {}, "loads": {}, "drops": {}, "delivered": {}, "utilities": {}}
    numbers = {"load": 1.0, "capacity": 2.0, "headroom": 0.9, "shed": {}}
    return Snapshot(number, 1e9 + number, 1.0, **{**told, **numbers, **given})


def test_snapshots_are_bounded_and_their_sums_are_not() -> None:
    history = History()
    for number in range(2_500):
        history.append(snapshot(number, alarms=(f"{number} rows came too late",)))
    history.add_rows({"I": 5})
    assert [one.batch for one in history] == list(range(1_500, 2_500))
    assert history[-1].rows == {"I": 15}
    assert history.sums.rows["I"] == 25_005
    assert history.sums.batches == 2_500
    assert dict(history.sums.alarms.values()) == {"2499 rows came too late": 2_500}
    history.append(snapshot(10**7))  # months later
    assert len(history) == 1
    assert summary(figure_4(), history)["batches"] == 2_501


def test_a_batch_is_bound_for_its_offsets_and_a_damaged_binding_is_told(tmp_path: Path) -> None:
    plans = BoundPlans.below(tmp_path, {"inputs": "inputs"}, Alternating())
    plans.handle(BatchEnded(1.0, 0, BATCH))
    assert plans.of("inputs", 0, "query:offsets") == plans.of("inputs", 0, "query:offsets") == plans.newest
    with pytest.raises(PenstockError, match="batch 0 of inputs is not the batch of that number"):
        plans.of("inputs", 0, "another:offsets")
    (path,) = (tmp_path / "bindings" / "inputs").iterdir()
    path.write_text("torn")
    with pytest.raises(PenstockError, match="the binding of batch 0 cannot be read"):
        plans.of("inputs", 0, "query:offsets")


def lines_of(log: Path) -> list[dict[str, Any]]:
    newest = max(log.glob("*.compact"), key=lambda path: int(path.stem))
    return [json.loads(line) for line in newest.read_text().splitlines()[1:]]


def test_sparks_log_of_files_is_shortened_and_no_file_is_read_twice_or_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_log, "SMALL_BYTES", 0)
    monkeypatch.setattr(file_log, "BATCHES", 2)
    read: list[int] = []
    source, log = tmp_path / "a b", tmp_path / "checkpoint" / "sources" / "0"
    source.mkdir()

    def run(first: int, last: int) -> None:
        for number in range(first, last):
            (source / f"{number}.json").write_text(f'{{"number": {number}}}')
            os.utime(source / f"{number}.json", (number, number))

        def take(df: Any, batch: int) -> None:
            read.extend(row["number"] for row in df.collect())
            if batch % 5 == 0:
                file_log.shorten(tmp_path / "checkpoint")

        stream = spark.readStream.schema("number int").option("maxFilesPerTrigger", 1).json(str(source))
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(take)
        writer.trigger(availableNow=True).start().awaitTermination()

    run(0, 12)
    assert len(lines_of(log)) == 10, "what is still there stays"
    for number in range(8):
        (source / f"{number}.json").unlink()
    run(12, 21)
    assert [line["path"].rpartition("/")[2] for line in lines_of(log)][:2] == ["7.json", "8.json"], (
        "and what may be read again"
    )
    assert read == list(range(21))
    file_log.shorten(tmp_path / "nothing")
    monkeypatch.setattr(file_log, "_needed", lambda *_: 1 / 0)
    newest = max(log.glob("*.compact"), key=lambda path: int(path.stem))
    newest.write_text("v2" + newest.read_text()[2:])
    file_log.shorten(tmp_path / "checkpoint")
