"""The schemas of a network: boxes are applied to frames without rows, so mistakes show here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.errors import PenstockError
from penstock.spark.network import streams
from penstock.spark.network.batch import root_rows
from penstock.spark.network.boxes import together, worked
from penstock.spark.network.drops import HIDDEN
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.python_box import BUSY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.core.network.model import Box, Network


def schemas(spark: SparkSession, network: Network, inputs: StructType) -> dict[str, StructType]:
    """The columns of what leaves each node, hidden ones included; `inputs` is that of all inputs side by side."""
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
