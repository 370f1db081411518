"""The layout of a network on Spark: its stages, the schemas of its nodes, and the folders of feeds and checkpoints.

A box with a state begins a stage, and everything behind it up to the next is part of it. A stage is one streaming
query. Its stateless boxes run in `foreachBatch`, where a plan can change from batch to batch and a shared box is
computed once. What goes to a box with a state, a join or an aggregate, is written to a folder. That box's own query
reads from it, so its state is Spark's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.errors import PenstockError
from penstock.spark.network import streams
from penstock.spark.network.batch import root_rows, together, worked
from penstock.spark.network.drops import HIDDEN
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.python_box import BUSY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.core.network.model import Arc, Box, Network

STATEFUL = ("join", "aggregate")
#: The stage that the inputs begin.
INPUTS = "inputs"


@dataclass(frozen=True)
class Stage:
    """One streaming query."""

    name: str  #: the box with the state, or `inputs`
    roots: tuple[str, ...]  #: where its rows come from: all inputs, or that box
    boxes: tuple[str, ...]  #: its stateless boxes, each behind its sources
    ends: tuple[Arc, ...]  #: arcs on which rows leave it, to an output or to a box with a state


def stages(network: Network) -> list[Stage]:
    """All stages, each behind those that feed it."""
    boxes = {box.name: box for box in network.boxes}
    stateful = [name for name in network.order if name in boxes and boxes[name].op in STATEFUL]
    starts = [(INPUTS, tuple(one.name for one in network.inputs)), *((name, (name,)) for name in stateful)]
    return [_stage(network, name, roots, set(stateful)) for name, roots in starts]


def _stage(network: Network, name: str, roots: tuple[str, ...], stateful: set[str]) -> Stage:
    reached, ends = set(roots), []
    inner = []
    for node in network.order:
        if node not in reached:
            continue
        if node not in roots:
            inner.append(node)
        for arc in network.out_of[node]:
            if arc.target in stateful or not network.out_of[arc.target]:
                ends.append(arc)
            else:
                reached.add(arc.target)
    return Stage(name, roots, tuple(inner), tuple(ends))


def schemas(spark: SparkSession, network: Network, inputs: StructType) -> dict[str, StructType]:
    """The columns of what leaves each node, hidden ones included; `inputs` is that of all inputs side by side.

    Boxes are applied to frames without rows, so mistakes show here.
    """
    boxes = {box.name: box for box in network.boxes}
    found: dict[str, StructType] = {}
    for name in network.order:
        if name in boxes:
            given = [spark.createDataFrame([], found[arc.source]) for arc in network.into[name]]
            found[name] = _behind(boxes[name], given).schema
        elif not network.into[name]:
            found[name] = root_rows(spark.createDataFrame([], inputs), name, alone=True).schema
    return found


def check_subjects(
    spark: SparkSession, network: Network, known: Mapping[str, StructType], subjects: dict[str, str]
) -> None:
    """Refuse value columns that rows do not have."""
    for place, subject in subjects.items():
        node = next((arc.source for arc in network.arcs if arc.name == place), place)
        try:
            spark.createDataFrame([], known[node]).select(F.expr(subject).cast("double"))
        except SPARK_ERRORS as error:
            raise PenstockError(f"rows at {place} cannot be judged by {subject}: {line_of(error)}") from None


def _behind(box: Box, given: list[DataFrame]) -> DataFrame:
    taken = [name for name in box.select if name in (*HIDDEN, *(streams.WINDOW if box.op == "aggregate" else ()))]
    if taken:
        raise PenstockError.setting(f"boxes.{box.name}.select", taken[0], "another name: this one is taken")
    try:
        if box.op == "aggregate":
            return streams.aggregated(box, given[0])
        if box.op == "join":
            return streams.joined(box, *given)
        return worked(box, together(given)).drop(BUSY)
    except SPARK_ERRORS as error:
        raise PenstockError(f"boxes.{box.name} cannot be run: {line_of(error)}") from None


@dataclass(frozen=True)
class Layout:
    """Stages of a network in a folder."""

    network: Network  #: what is run
    stages: tuple[Stage, ...]  #: its stages, each behind those that feed it
    schemas: Mapping[str, StructType]  #: what leaves each node
    folder: Path  #: where the run stores its state

    def feeds(self, arc: Arc) -> bool:
        """Whether rows of an arc go to another stage, and not to an output."""
        return arc.target in {box.name for box in self.network.boxes}

    def begins_with_inputs(self, stage: Stage) -> bool:
        """Whether it is the stage that the inputs begin, and not a box with a state."""
        return stage.name not in {box.name for box in self.network.boxes}

    def writers(self, output: str) -> int:
        """How many stages write to an output."""
        return sum(arc.target == output for stage in self.stages for arc in stage.ends)

    def feed(self, arc: str) -> Path:
        """The folder of the rows that go along an arc from one stage to another."""
        return self.folder / "feeds" / file_name(arc)

    def checkpoint(self, stage: Stage) -> Path:
        """The checkpoint of a stage's query."""
        return self.folder / "checkpoints" / file_name(stage.name)


def file_name(name: str) -> str:
    """A folder name: the name itself if possible, otherwise a unique one.

    >>> file_name("inputs"), file_name("a->b")
    ('inputs', 'a-b-5e00e4c2')
    """
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name)
    return name if plain == name else f"{plain}-{xxhash.xxh32_hexdigest(name.encode())}"
