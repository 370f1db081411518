"""Plans read from what `explain` prints."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.spark.plan_text import explained, plan_of, read_plan

F = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """== Parsed Logical Plan ==
'Deduplicate ['other]
+- Range (0, 1)

== Analyzed Logical Plan ==
Amount: double, id: bigint
~Join Inner, (id#3L = id2#439L)
:- ~Deduplicate [id#3L, at#441-T60000ms]
:  +- ~Project [CASE WHEN true THEN scalar-subquery#7 [] END AS control#9, two
lines AS text#8]
Lines that go on
:     :  +- Project [control#6]
:     :     +- RelationV2[control#6] penstock_plan
:     +- ~Relation [id#48L] parquet
+- ~LocalRelation <empty>, [id#402L]

== Optimized Logical Plan ==
Nothing [of#1L]
"""


def test_a_plan_is_read_as_a_tree() -> None:
    top = read_plan(TEXT)
    assert top is not None
    assert top.operator == "Join"
    left, right = top.children
    assert (left.operator, left.columns) == ("Deduplicate", ("id", "at"))
    assert right.operator == "LocalRelation"
    (project,) = left.children
    assert [child.operator for child in project.children] == ["Project", "Relation"]
    assert [one.operator for one in project.walk()] == ["Project", "Project", "RelationV2", "Relation"]
    assert read_plan("No physical plan. Waiting for data.\n") is None


def test_the_plan_of_a_stream(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    stream = spark.readStream.format("rate").load()
    top = plan_of(stream.groupBy("value").count())
    assert top is not None
    assert [one.operator for one in top.walk()] == ["Aggregate", "StreamingRelationV2"]
    assert capsys.readouterr().out == ""


def test_what_others_print_meanwhile_is_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    kept = []

    class Chatty:
        def explain(self, extended: bool) -> None:  # noqa: FBT001 - as Spark has it
            sys.stdout.write(f"mine {extended}\n")
            other = threading.Thread(target=lambda: (sys.stdout.write("theirs\n"), kept.append(sys.stdout)))
            other.start()
            other.join()

    assert explained(Chatty()) == "mine True\n"
    kept[0].write("after\n")
    assert capsys.readouterr().out == "theirs\nafter\n"
