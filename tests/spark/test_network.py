"""Networks on real Spark: what comes out, what is shared, what is dropped, replayed and learned."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config.network_file import load
from penstock.errors import PenstockError
from penstock.messages.plan import Drop, Plan
from penstock.store.interface import StoreError
from penstock.store.logs import BindingLog

pytest.importorskip("pyspark")

from tests.spark.rows import from_files

from penstock.spark.network import learning, streams
from penstock.spark.network.batch import Batch
from penstock.spark.network.drops import ARRIVAL, HIDDEN, INPUT, WEIGHT
from penstock.spark.network.layout import stages
from penstock.spark.network.run import NetworkRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from penstock.config.network_file import NetworkFile

ROWS = 2000
SCHEMA = "row bigint, key bigint, arrival timestamp, cost_ms double, value double"
#: The rows of the inputs, two files each: a stream of the embedded source would have a Python process of its own.
_FOLDER = tempfile.TemporaryDirectory(prefix="penstock-inputs-", ignore_cleanup_errors=True)
FILES = {name: Path(_FOLDER.name) / name for name in ("I1", "I2", "slow")}
SOURCES = f"""
inputs:
  I1: {{format: parquet, schema: "{SCHEMA}", options: {{path: {FILES["I1"]}, maxFilesPerTrigger: 1}}}}
  I2: {{format: parquet, schema: "{SCHEMA}", options: {{path: {FILES["I2"]}, maxFilesPerTrigger: 1}}}}
"""
IN_ONE_BATCH = SOURCES.replace("maxFilesPerTrigger: 1", "maxFilesPerTrigger: 2")
EMBEDDED = f"""
inputs:
  I1: {{format: penstock, options: {{rate: 1000, available: {ROWS}, rows_per_batch: {ROWS}, seed: 1, keys: 50}}}}
  I2: {{format: penstock, options: {{rate: 1000, available: {ROWS}, rows_per_batch: {ROWS}, seed: 2, keys: 50}}}}
"""
SUBSET = (
    SOURCES
    + """
boxes:
  hot:   {op: filter, from: I1, where: "value > 0.1"}
  all:   {op: union, from: [hot, I2]}
  pairs: {op: join, from: [hot, I2], on: key, window: 1 s}
  big:   {op: filter, from: all, where: "value > 0.5"}
outputs:
  O1: {from: big, to: {format: memory}}
  O2: {from: all, to: {format: memory}}
  O3: {from: pairs, to: {format: memory}}
"""
)


@pytest.fixture(scope="module", autouse=True)
def _files(spark: SparkSession) -> None:
    start = 1_700_000_000  # rows of both inputs arrive at the same times: a join finds pairs
    halves = {"available": ROWS, "rows_per_batch": ROWS // 2, "partitions": 1, "start": start}
    for seed, name in enumerate(("I1", "I2"), 1):
        from_files(spark, FILES[name], rate=1000, seed=seed, keys=50, **halves)
    from_files(spark, FILES["slow"], rate=50, available=3000, seed=1, keys=5, start=start, partitions=1)


def written(folder: Path, text: str) -> NetworkFile:
    path = folder / "net.yaml"
    path.write_text(text)
    return load(path, complete=False, runnable=True)


def ran(spark: SparkSession, folder: Path, text: str, *drops: Drop, timed: bool = False, **given: Any) -> NetworkRun:
    run = NetworkRun(spark, written(folder, text), folder / "run", drops=drops, **{"shed": False} | given)
    work_off(run, timed=timed)
    return run


def work_off(run: NetworkRun, *, timed: bool = False) -> None:
    """Run it; boxes are only timed if that matters, because it takes more jobs than the batches do."""
    with pytest.MonkeyPatch.context() as patch:
        if not timed:
            patch.setattr(learning, "costs_s", lambda *_: ({}, True))
            patch.setattr(learning, "overhead_s", lambda *_: 0.01)
        run.start(once=True)


def rows_of(run: NetworkRun, output: str) -> list[tuple[Any, ...]]:
    table = run.table(output)
    assert table is not None
    return sorted(zip(*(table[name].to_pylist() for name in table.column_names if name != WEIGHT), strict=True))


# What comes out.


class Static:
    """A network over rows that lie still: the same boxes, drops and joins, without a stream's waiting."""

    def __init__(self, spark: SparkSession, file: NetworkFile) -> None:
        self._file, self._spark = file, spark
        frames = {}
        for name, source in file.sources.items():
            df = spark.read.format("penstock").options(**source.options).load()
            frames[name] = df.withColumns(
                {INPUT: streams.F.lit(name), WEIGHT: streams.F.lit(1.0), ARRIVAL: streams.F.col("arrival")}
            ).limit(300)
        self._rows = streams.tagged(frames).persist()

    def outputs(self, drops: Iterable[Drop] = ()) -> dict[str, set[str]]:
        network, plan = self._file.network, Plan(0, "test", 0.0, 0, drops=tuple(drops))
        arcs: dict[str, DataFrame] = {}
        found = {}
        for stage in stages(network):
            if stage.name == "inputs":
                rows = self._rows
            else:
                box = next(one for one in network.boxes if one.name == stage.name)
                given = [arcs[arc.name] for arc in network.into[box.name]]
                rows = streams.tagged({box.name: streams.joined(box, *given)})
            batch = Batch(network, stage, rows, plan, {})
            arcs |= batch.ends
            for arc in stage.ends:
                if not network.out_of[arc.target]:
                    kept = [name for name in batch.ends[arc.name].columns if name not in HIDDEN]
                    json_rows = batch.ends[arc.name].selectExpr(f"to_json(struct({', '.join(kept)})) AS row").toArrow()
                    found[arc.target] = json_rows["row"].to_pylist()
            batch.close()
        return {name: _numbered(rows) for name, rows in found.items()}


def _numbered(rows: list[str]) -> set[str]:
    """Rows as a set in which equal ones are told apart by their number."""
    seen: dict[str, int] = {}
    found = set()
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
        found.add(f"{row} {seen[row]}")
    return found


PLACES = ("I1", "I2", "hot->all", "hot->pairs", "I2->all", "I2->pairs", "all->big", "all->O2")
DROPS = st.one_of(
    st.builds(lambda keep: {"keep": keep}, st.floats(0.0, 1.0)),
    st.builds(lambda cut: {"condition": f"value > {cut:.3f}"}, st.floats(0.0, 1.0)),
)


@pytest.fixture(scope="module")
def still(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Static, dict[str, set[str]]]:
    static = Static(spark, written(tmp_path_factory.mktemp("still"), SUBSET.replace(SOURCES, EMBEDDED)))
    return static, static.outputs()


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.dictionaries(st.sampled_from(PLACES), DROPS, min_size=1, max_size=3))
def test_with_filters_unions_and_joins_what_comes_out_under_drops_is_part_of_what_would(
    still: tuple[Static, dict[str, set[str]]], given: dict[str, dict[str, Any]]
) -> None:
    static, whole = still
    assert all(whole.values())
    for name, rows in static.outputs(Drop(place, **drop) for place, drop in given.items()).items():
        assert rows <= whole[name]


def test_a_stream_gives_what_the_boxes_say_and_a_shared_box_works_once(spark: SparkSession, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    text = (
        IN_ONE_BATCH
        + f"""
boxes:
  marked: {{op: map, from: I1, select: {{marks: "'{marks}'"}}}}
  noted:  {{op: map, from: marked, python: "tests.spark.network_boxes:noted", returns: "{SCHEMA}, marks string"}}
  high:   {{op: filter, from: noted, where: "value > 0.5"}}
  scale:  {{op: map, from: noted, select: {{value: "value * 2 + 1"}}}}
outputs:
  O1: {{from: high, to: {{format: memory}}}}
  O2: {{from: scale, to: {{format: memory}}}}
  O3: {{from: noted, to: {{format: memory}}}}
  O4: {{from: I2, to: {{format: memory}}}}
"""
    )
    run = ran(spark, tmp_path, text, timed=True)
    table = run.table("O3")
    assert table is not None
    assert table.num_rows == ROWS
    assert len(marks.read_text()) == ROWS  # three outputs, and a box that saw each row once
    values = table["value"].to_numpy()
    high, scaled = run.table("O1"), run.table("O2")
    assert high is not None
    assert scaled is not None
    assert sorted(high["value"].to_pylist()) == sorted(values[values > 0.5].tolist())
    assert sorted(scaled["value"].to_pylist()) == sorted((values * 2.0 + 1.0).tolist())
    # The plan says so too: consumers read the shared box's rows from memory.
    assert all("InMemoryTableScan" in run.plans_shown[f"noted->{name}"] for name in ("O3",))
    assert all("InMemoryTableScan" in run.plans_shown[arc] for arc in ("high->O1", "scale->O2"))
    snapshot = run.snapshots[0]
    assert snapshot.rows["I1"] == snapshot.rows["marked->noted"] == ROWS
    assert snapshot.rows["high->O1"] < ROWS


def test_drops_are_counted_and_what_is_kept_weighs_more(spark: SparkSession, tmp_path: Path) -> None:
    drops = Drop("I1", keep=0.25), Drop("hot->all", condition="value > 0.6")
    text = SUBSET.replace("  pairs: {op: join, from: [hot, I2], on: key, window: 1 s}\n", "").replace(
        "  O3: {from: pairs, to: {format: memory}}", "  O3: {from: hot, to: {format: memory}}"
    )
    text = text.replace(SOURCES, IN_ONE_BATCH)
    run = ran(spark, tmp_path, text, *drops)
    came = sum(one.rows["I1"] for one in run.snapshots)
    shed = sum(one.shed["I1"] for one in run.snapshots)
    passed = sum(one.rows["I1->hot"] for one in run.snapshots)
    assert came == ROWS
    assert came == passed + shed
    assert passed / came == pytest.approx(0.25, abs=0.05)
    hot = run.table("O3")
    assert hot is not None
    assert set(hot[WEIGHT].to_pylist()) == {4.0}
    whole = {one["row"] for one in pq.read_table(FILES["I1"]).to_pylist() if one["value"] > 0.1}
    assert set(hot["row"].to_pylist()) < whole
    estimate, truth = sum(hot[WEIGHT].to_pylist()), len(whole)
    assert abs(estimate - truth) < 5.0 * np.sqrt(truth * 3.0)
    both = run.table("O2")
    assert both is not None
    # Dropped by value: no weight makes up for it, and none pretends to.
    from_hot = [v for v, w in zip(both["value"].to_pylist(), both[WEIGHT].to_pylist(), strict=True) if w == 4.0]
    assert min(from_hot) > 0.6


def test_an_output_that_two_stages_write_to_gets_the_rows_of_both(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        IN_ONE_BATCH
        + """
boxes:
  hot:   {op: filter, from: I1, where: "value > 0.1"}
  pairs: {op: join, from: [hot, I2], on: key, window: 50 ms}
  mixed: {op: union, from: [hot, pairs]}
outputs:
  O3: {from: pairs, to: {format: memory}}
  O4: {from: mixed, to: {format: memory}}
  O5: {from: hot, to: {format: memory}}
"""
    )
    run = ran(spark, tmp_path, text)
    tables = {name: run.table(name) for name in ("O3", "O4", "O5")}
    rows = {name: 0 if table is None else table.num_rows for name, table in tables.items()}
    assert rows["O3"] > 0
    assert rows["O4"] == rows["O3"] + rows["O5"]


AGGREGATE = f"""
inputs:
  I1: {{format: parquet, schema: "{SCHEMA}", options: {{path: {FILES["slow"]}}}}}
"""
AGGREGATE += """
boxes:
  perkey: {op: aggregate, from: I1, by: key, window: 5 s, select: {n: count(1), total: sum(value), top: max(value)}}
  many:   {op: filter, from: perkey, where: "n > 0"}
outputs:
  O1: {from: many, to: {format: memory}}
"""


def test_counts_and_sums_of_windows_are_unbiased_under_drops(spark: SparkSession, tmp_path: Path) -> None:
    truths: dict[datetime, tuple[float, float]] = {}
    for row in pq.read_table(FILES["slow"]).to_pylist():
        second = int(row["arrival"].timestamp())
        start = datetime.fromtimestamp(second - second % 5, UTC)
        n, total = truths.get(start, (0.0, 0.0))
        truths[start] = n + 1.0, total + row["value"]
    table = ran(spark, tmp_path, AGGREGATE, Drop("I1", keep=0.5)).table("O1")
    assert table is not None
    assert {"key", "n", "total", "top", "window_start", "window_end"} <= set(table.column_names)
    windows = set(table["window_start"].to_pylist())
    assert windows == set(sorted(truths)[: len(windows)])
    assert len(windows) >= 7  # of 12 windows in 60 s; the last ones wait for rows that may come late
    for part, name in enumerate(("n", "total")):
        truth = sum(truths[one][part] for one in windows)
        estimate = sum(table[name].to_pylist())
        assert estimate != truth
        assert abs(estimate - truth) < 5.0 * np.sqrt(truth)


def test_a_batch_that_is_run_again_drops_the_same_rows_whatever_the_plan_is_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = (
        SOURCES
        + f"""
boxes:
  hot: {{op: filter, from: I1, where: "value > 0.1"}}
outputs:
  O1: {{from: hot, to: {{format: parquet, options: {{path: "{tmp_path / "sink"}"}}}}}}
  O2: {{from: I2, to: {{format: memory}}}}
"""
    )
    ran(spark, tmp_path, text, Drop("I1", keep=0.3))
    before = pq.read_table(tmp_path / "sink").sort_by("row")
    last = max(
        int(path.name) for path in (tmp_path / "run/checkpoints/inputs/commits").iterdir() if path.name.isdigit()
    )
    for suffix in ("commits/{}", "commits/.{}.crc"):  # as if it had been killed before it could say that it was done
        (tmp_path / "run/checkpoints/inputs" / suffix.format(last)).unlink(missing_ok=True)
    shutil.rmtree(tmp_path / f"sink/batch={last}")
    again = ran(spark, tmp_path, text, Drop("I1", keep=0.9))
    assert [one.batch for one in again.snapshots] == [last]
    assert pq.read_table(tmp_path / "sink").sort_by("row").equals(before)


def test_when_planning_fails_rows_flow(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        message = "broken"
        raise RuntimeError(message)

    run = NetworkRun(
        spark,
        written(
            tmp_path,
            SOURCES
            + "boxes: {}\noutputs:\n  O1: {from: I1, to: {format: memory}}\n  O2: {from: I2, to: {format: memory}}\n",
        ),
        tmp_path / "run",
        drops=(Drop("I1", keep=0.5),),
    )
    monkeypatch.setattr(run.planner, "decide", broken)
    work_off(run)
    assert run.errors == 2
    assert "keeps every row: broken" in caplog.text
    table = run.table("O1")
    assert table is not None
    assert 1400 < table.num_rows < 1600  # the first batch was halved by its plan, the second one came through whole


def test_a_batch_that_cannot_be_bound_keeps_every_row_and_raises_an_alarm(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError.setting("folder", "plans", "a folder that can be written", "the system says: no space left")

    monkeypatch.setattr(BindingLog, "add", full)
    text = (
        SOURCES
        + "boxes: {}\noutputs:\n  O1: {from: I1, to: {format: memory}}\n  O2: {from: I2, to: {format: memory}}\n"
    )
    run = ran(spark, tmp_path, text, Drop("I1", keep=0.5))
    assert len(rows_of(run, "O1")) == ROWS
    (alarm,) = run.snapshots[-1].alarms
    assert alarm.startswith("2 batches ran without a plan and kept every row, the last because: folder = ")
    assert "no space left" in alarm


def test_a_checkpoint_that_is_wound_back_fails_the_run_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        IN_ONE_BATCH
        + """
boxes:
  perkey: {op: aggregate, from: I1, by: key, window: 1 s, select: {n: count(1)}}
outputs:
  O1: {from: perkey, to: {format: memory}}
  O2: {from: I2, to: {format: memory}}
"""
    )
    ran(spark, tmp_path, text)
    shutil.rmtree(tmp_path / "run/checkpoints/inputs")
    with pytest.raises(PenstockError, match=r"inputs failed: .*batch 0 of inputs is not the batch of that number"):
        ran(spark, tmp_path, text)
    shutil.rmtree(tmp_path / "run/checkpoints/inputs")
    shutil.rmtree(tmp_path / "run/bindings/inputs")
    with pytest.raises(PenstockError, match=r"inputs failed: .*batch 0 of stage inputs is not the batch"):
        ran(spark, tmp_path, text)


# What is refused.


@pytest.mark.parametrize(
    ("boxes", "said"),
    [
        ("b: {op: filter, from: I1, where: 'nothing > 1'}", r"boxes\.b cannot be run: .*nothing"),
        ("b: {op: map, from: I1, select: {x: 'value + nope(1)'}}", r"boxes\.b cannot be run: .*nope"),
        (
            "b: {op: map, from: I1, python: 'no_module:f', returns: 'x int'}",
            r"boxes\.b\.python = 'no_module:f' is not usable",
        ),
        (
            "b: {op: map, from: I1, select: {penstock_weight: '1'}}",
            r"select = .penstock_weight. is not usable",
        ),
        ("b: {op: join, from: [I1, I2], on: nothing, window: 1 s}", r"boxes\.b\.on = 'nothing' is not usable: .* key"),
        (
            "i1: {op: filter, from: I1, where: 'value > 1'}\n  b: {op: union, from: [i1, I2]}",
            "= 'i1' is not usable",
        ),
        ("b: {op: aggregate, from: I1, by: nothing, window: 5 s, select: {n: count(1)}}", r"boxes\.b cannot be run"),
    ],
)
def test_a_mistake_in_a_box_comes_out_before_anything_runs(
    spark: SparkSession, tmp_path: Path, boxes: str, said: str
) -> None:
    text = SOURCES + f"boxes:\n  {boxes}\noutputs:\n  O1: {{from: b}}\n  O2: {{from: I2}}\n"
    with pytest.raises(PenstockError, match=said) as error:
        NetworkRun(spark, written(tmp_path, text), tmp_path / "run")
    assert "\n" not in str(error.value)


def test_an_input_that_cannot_be_read_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    outputs = "\nboxes: {}\noutputs:\n  O1: {from: I1}\n"
    for source, said in (
        ("{format: nothing}", r"inputs\.I1 cannot be read: .*nothing"),
        ("{format: rate, arrival: value}", r"inputs\.I1\.arrival = 'value' is not usable: give a column with times"),
        ("{format: penstock, options: {rate: fast}}", r"inputs\.I1 cannot be read"),
    ):
        with pytest.raises(PenstockError, match=said) as error:
            NetworkRun(spark, written(tmp_path, f"inputs:\n  I1: {source}{outputs}"), tmp_path / "run")
        assert "\n" not in str(error.value)


def test_a_value_column_that_rows_do_not_have_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    value = "value: {column: nothing, intervals: [{range: [0, 1], utility: 0.5}]}"
    text = SOURCES + f"boxes: {{}}\noutputs:\n  O1: {{from: I1, {value}}}\n  O2: {{from: I2}}\n"
    with pytest.raises(PenstockError, match="rows at I1 cannot be judged by nothing") as error:
        NetworkRun(spark, written(tmp_path, text), tmp_path / "run", kind="semantic")
    assert "\n" not in str(error.value)


def test_files_of_another_run_are_not_mixed_with_those_of_this_one(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "sink/batch=0").mkdir(parents=True)
    path = f"{{format: parquet, options: {{path: {tmp_path}/sink}}}}"
    text = SOURCES + f"boxes: {{}}\noutputs:\n  O1: {{from: I1, to: {path}}}\n  O2: {{from: I2}}\n"
    with pytest.raises(PenstockError, match=r"outputs\.O1\.to\.options\.path = .* give an empty folder"):
        NetworkRun(spark, written(tmp_path, text), tmp_path / "run")


def test_the_folder_of_another_network_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        SOURCES
        + "boxes:\n  b: {op: filter, from: I1, where: value > 0.5}\noutputs:\n  O1: {from: b}\n  O2: {from: I2}\n"
    )
    NetworkRun(spark, written(tmp_path, text), tmp_path / "run")
    NetworkRun(spark, written(tmp_path, text), tmp_path / "run")
    with pytest.raises(PenstockError, match=r"folder = .* inputs or boxes have changed"):
        NetworkRun(spark, written(tmp_path, text.replace("0.5", "0.6")), tmp_path / "run")


def test_a_sink_that_cannot_be_written_to_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{{format: parquet, options: {{path: {tmp_path}/net.yaml/sink}}}}"
    text = SOURCES + f"boxes: {{}}\noutputs:\n  O1: {{from: I1, to: {path}}}\n  O2: {{from: I2}}\n"
    run = NetworkRun(spark, written(tmp_path, text), tmp_path / "run")
    with pytest.raises(PenstockError, match=r"outputs\.O1 cannot be written: .*net\.yaml") as error:
        work_off(run)
    assert "\n" not in str(error.value)


def test_a_failing_box_fails_the_run_with_its_own_words(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        SOURCES
        + f"""
boxes:
  b: {{op: map, from: I1, python: "tests.spark.network_boxes:failing", returns: "{SCHEMA}"}}
outputs:
  O1: {{from: b, to: {{format: memory}}}}
  O2: {{from: I2, to: {{format: memory}}}}
"""
    )
    run = NetworkRun(spark, written(tmp_path, text), tmp_path / "run")
    with pytest.raises(PenstockError, match=r"boxes\.b failed on a row: KeyError: 'no such thing as arrival'"):
        work_off(run)


# The command.


def test_penstock_run_works_off_a_file_and_reports(tmp_path: Path) -> None:
    sink = f"{{format: parquet, options: {{path: {tmp_path}/sink/NAME}}}}"
    text = (
        EMBEDDED
        + f"""
boxes:
  hot:   {{op: filter, from: I1, where: "value > 0.1"}}
  all:   {{op: union, from: [hot, I2]}}
  pairs: {{op: join, from: [hot, I2], on: key, window: 50 ms}}
outputs:
  O2: {{from: all, to: {sink.replace("NAME", "O2")}}}
  O3: {{from: pairs, to: {sink.replace("NAME", "O3")}}}
"""
    )
    (tmp_path / "net.yaml").write_text(text)
    options = ["--once", "--explain", "--out", str(tmp_path / "out"), "--json", str(tmp_path / "run.json")]
    command = [
        sys.executable,
        "-c",
        "from penstock.cli.main import main; main()",
        "run",
        str(tmp_path / "net.yaml"),
        *options,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    found = json.loads((tmp_path / "run.json").read_text())
    assert (found["rows_in"], found["errors"]) == (2 * ROWS, 0)
    assert pq.read_table(tmp_path / "sink/O3").num_rows == found["outputs"]["O3"]["rows"] > 0
    assert found["rows_shed"] == sum(one["shed"] for one in found["places"].values())
    assert pq.read_table(tmp_path / "sink/O2").num_rows == found["outputs"]["O2"]["rows"]
    assert "InMemoryTableScan" in said
    page = (tmp_path / "out/network.html").read_text()
    assert "<svg" in page
    assert "pairs" in page
