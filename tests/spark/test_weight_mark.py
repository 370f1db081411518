"""A guard's weights are told from a column of the user's that has the same name."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.by_hand import put

import penstock as ps
from penstock import PenstockError, PenstockWarning, answers, sic
from penstock.core.control.planner import SOURCE
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.quarantine.replay import _as_admitted
from penstock.spark.quarantine.rows import ADDED, Sign
from penstock.spark.row_columns import MADE_BY, maker

F = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

REFUSED = "the stream has a column 'weight' that no guard made"
HALF = KeepTable(SOURCE, keep=(0.5,), reasons=("half",))


def guard(folder: Path, **settings: Any) -> ps.Guard:
    own = ps.Guard(ps.Throughput(1000), checkpoint=folder, row="id", **settings)
    put(own.plans(), Plan(0, "by hand", time.time(), 4, gates=(HALF,)))
    return own


@pytest.fixture(scope="module")
def people(spark: SparkSession) -> DataFrame:
    return spark.range(200).selectExpr("id", "id % 5 AS team", "70.5D AS weight")


@pytest.mark.parametrize("mode", ["enforce", "dry_run", "off"])
def test_a_users_own_weight_is_refused_in_one_line(people: DataFrame, tmp_path: Path, mode: str) -> None:
    with pytest.raises(PenstockError, match=REFUSED) as told:
        people.transform(guard(tmp_path / "a", mode=mode).admit)
    assert "\n" not in str(told.value)
    with pytest.raises(PenstockError, match="has a column 'weight' that no guard made"):
        people.withColumnRenamed("weight", "WEIGHT").transform(guard(tmp_path / "b", mode=mode).admit)
    with pytest.raises(PenstockError, match="give weight_column='weight'"):
        people.transform(ps.Fair("2 s", mode=mode).query("q", row="id", checkpoint=tmp_path / "fair").admit)

    factor = 2.0 if mode == "enforce" else 1.0
    named = people.transform(guard(tmp_path / "c", mode=mode, weight="weight").admit)
    assert {row["weight"] for row in named.collect()} == {70.5 * factor}
    apart = people.transform(guard(tmp_path / "d", mode=mode, weight="w").admit)
    assert {(row["weight"], row["w"]) for row in apart.collect()} == {(70.5, factor)}
    assert (maker(named, "weight"), maker(apart, "weight"), maker(apart, "w")) == ("guard", None, "guard")


def test_weights_of_a_guard_are_known_again(spark: SparkSession, people: DataFrame, tmp_path: Path) -> None:
    first, second = guard(tmp_path / "a"), guard(tmp_path / "b", name="second")
    kept = people.drop("weight").transform(first.admit)
    kept.write.parquet(str(tmp_path / "kept"))
    read = spark.read.parquet(str(tmp_path / "kept"))
    assert {row["weight"] for row in read.transform(second.admit).collect()} == {4.0}
    assert spark.readStream.schema(read.schema).parquet(str(tmp_path / "kept")).transform(second.admit).isStreaming
    # JSON and Kafka lose the mark: there the column is named.
    lost = spark.createDataFrame([], "id bigint, team bigint, weight double")
    with pytest.raises(PenstockError, match=REFUSED):
        lost.transform(second.admit)

    for one in (first, guard(tmp_path / "c", mode="off")):
        through = one.measured(lambda batches: batches, "id bigint, team bigint, weight double")
        assert maker(people.drop("weight").transform(one.admit).transform(through), "weight") == "guard"
        without = one.measured(lambda batches: batches, "id bigint")
        assert people.drop("weight").transform(one.admit).transform(without).columns == ["id"]

    stored = people.drop("weight").withColumns(dict.fromkeys(ADDED, F.lit(1)))
    sign = Sign("guard", "weight", json.dumps(people.drop("weight").schema.jsonValue()))
    replayed = _as_admitted(stored, sign)
    assert maker(replayed, "weight") == "guard"
    assert {row["weight"] for row in replayed.collect()} == {1.0}


def test_answers_take_no_column_of_the_users_for_weights(people: DataFrame, tmp_path: Path) -> None:
    kept = people.transform(guard(tmp_path / "a", weight="w").admit)
    with pytest.raises(PenstockError, match=r"weight = 'weight' is not usable: give .* weight='w'"):
        answers.grouped(kept, "team", n=answers.count())
    with pytest.raises(PenstockError, match="weight='w'"):
        ps.whole(kept, kept)
    assert answers.grouped(kept, "team", n=answers.count(weight="w")).columns == ["team", "n"]
    assert answers.grouped(kept, "team", n=answers.count(weight="weight")).columns == ["team", "n"]

    gated = people.drop("weight").transform(guard(tmp_path / "b").admit)
    with pytest.raises(PenstockError, match="the right side of the join has a column 'weight' that no guard made"):
        answers.join(gated, people, "id")
    with pytest.raises(PenstockError, match="the left side of the join has a column 'weight' that no guard made"):
        answers.join(people, people.drop("weight"), "id")
    with pytest.warns(PenstockWarning):
        both = answers.join(gated, gated, "id")
    assert maker(both, "weight") == "guard"
    sides = [df.withColumn("sic", F.lit(0.5)) for df in (kept, kept)]
    with pytest.raises(PenstockError, match="weight='w'"):
        sic.join(*sides, "id")
    assert MADE_BY in sic.join(*sides, "id", weight="w").schema["w"].metadata
