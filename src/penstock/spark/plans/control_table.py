"""The control table: a live plan as one row that a running query rereads at every micro-batch.

A Python data source whose `read` runs on an executor when a batch starts and calls `binding`. Spark
plans the table in a separate Python process that imports only this module, so it imports almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The format under which Spark knows the table.
FORMAT = "penstock_plan"


class PlanTable(DataSource):
    """One row, which `binding.control_row` makes."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """One array without nulls, so that the gate need not check for them."""
        return StructType([StructField("control", ArrayType(LongType(), containsNull=False), nullable=False)])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - there is only one
        """Read the plan that the options name."""
        return PlanTableReader(self.options["gate"])


class PlanTableReader(DataSourceReader):
    """Reads the plan in force."""

    def __init__(self, gate: str) -> None:
        """Read for this gate: `GateOptions` as text."""
        self._gate = gate

    def partitions(self) -> list[InputPartition]:
        """One task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[list[int]]]:  # noqa: ARG002 - there is only one
        """The row."""
        from penstock.spark.plans.binding import GateOptions, control_row  # noqa: PLC0415 - only here are they needed

        yield (control_row(GateOptions.from_text(self._gate)),)
