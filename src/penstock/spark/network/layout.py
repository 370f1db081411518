"""The layout of a network on Spark: its stages, the schemas of its nodes, and the folders of feeds and checkpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql.types import StructType

    from penstock.core.network.model import Arc, Network
    from penstock.spark.network.stages import Stage


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
