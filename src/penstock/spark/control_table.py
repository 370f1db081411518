"""The control table: a live plan as one row that a running query reads anew at every micro-batch.

A Python data source whose `read` runs on an executor when a batch starts. There it binds the batch to a plan,
put-if-absent, so that a replayed batch is judged by the plan of its first attempt. Whatever goes wrong in here, rows
flow: the table then keeps everything.

This module is imported by workers, so it imports little.
"""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from penstock.core.bucket_costs import BUCKETS
from penstock.core.thresholds import KEEP_ALL, thresholds
from penstock.errors import PenstockError
from penstock.log import BindingLog, PlanLog
from penstock.plan import Binding, Plan

_logger = logging.getLogger(__name__)

#: The format under which Spark knows the table.
FORMAT = "penstock_plan"
#: A plan that sheds acts for so long after it was decided. A living controller renews it; a dead one's runs out.
LEASE_S = 30.0

_KEEP_ALL = [KEEP_ALL] * BUCKETS
#: Thresholds of the plan read last and the newest version seen, by folder: workers live on from batch to batch.
_read_last: dict[str, tuple[int, list[int]]] = {}
_newest: dict[str, int] = {}


class Batch(NamedTuple):
    """The micro-batch that reads the table."""

    number: int
    query: str


class PlanTable(DataSource):
    """One row: the threshold of every bucket."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """One array, without nulls so that the gate need not look for them."""
        return StructType([StructField("thresholds", ArrayType(LongType(), containsNull=False), nullable=False)])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - there is only one
        """Read the folder and place that the options name."""
        return PlanTableReader(self.options["folder"], self.options["place"])


class PlanTableReader(DataSourceReader):
    """Reads the plan in force."""

    def __init__(self, folder: str, place: str) -> None:
        """Read the logs in this folder, and of a plan the table of this place."""
        self._folder = folder
        self._place = place

    def partitions(self) -> list[InputPartition]:
        """One task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[list[int]]]:  # noqa: ARG002 - there is only one
        """The row; it keeps everything if the plan cannot be read."""
        try:
            limits = self._thresholds(_batch(), time.time())
        except Exception as error:  # noqa: BLE001 - rows must flow whatever happened here
            _logger.warning("control table %s cannot be read, so every row is kept: %s", self._folder, error)
            limits = _KEEP_ALL
        yield (limits,)

    def _thresholds(self, batch: Batch | None, now_s: float) -> list[int]:
        plans = PlanLog(Path(self._folder) / "plans")
        version = self._newest_in_force(plans, now_s) if batch is None else self._bound(plans, batch, now_s)
        if version is None:
            return _KEEP_ALL
        cached = _read_last.get(self._folder)
        if cached is not None and cached[0] == version:
            return cached[1]
        limits = table_thresholds(plans.get(version), self._place)
        _read_last[self._folder] = version, limits
        return limits

    def _bound(self, plans: PlanLog, batch: Batch, now_s: float) -> int | None:
        """The version that the batch is bound to, for good, from now on."""
        bindings = BindingLog(Path(self._folder) / "bindings")
        bound = bindings.get(batch.number)
        if bound is None:
            version = self._newest_in_force(plans, now_s)
            # A plan that cannot be applied must not be bound: a later attempt might be able to.
            if version is not None:
                table_thresholds(plans.get(version), self._place)
            bindings.add(batch.number, Binding(batch.number, batch.query, now_s, version))
            bound = bindings.get(batch.number)
        if bound is None:
            raise PenstockError(f"the binding of batch {batch.number} cannot be read")
        if bound.query != batch.query:
            raise PenstockError(f"batch {batch.number} was bound by another query, {bound.query}")
        return bound.plan_version

    def _newest_in_force(self, plans: PlanLog, now_s: float) -> int | None:
        """The newest version, unless it sheds and its lease has run out."""
        newest = _newest.get(self._folder, -1)
        if not plans.taken(newest):
            newest = plans.next_version() - 1
        while plans.taken(newest + 1):
            newest += 1
        if newest < 0:
            return None
        _newest[self._folder] = newest
        plan = plans.get(newest)
        if plan is None:
            raise PenstockError(f"plan {newest} cannot be read")
        return newest if not plan.gates or now_s - plan.decided_s <= LEASE_S else None


def table_thresholds(plan: Plan | None, place: str) -> list[int]:
    """The plan's table at a place, spread over all buckets of the gate."""
    if plan is None:
        raise PenstockError("the plan that the batch is bound to cannot be read")
    table = plan.gate(place)
    if table is None:
        return _KEEP_ALL
    if BUCKETS % table.buckets:
        raise PenstockError.setting("keep", f"{table.buckets} buckets", f"a power of two of them, up to {BUCKETS}")
    limits: list[int] = thresholds(table).tolist()
    return limits * (BUCKETS // table.buckets)


def _batch() -> Batch | None:
    """The micro-batch this task belongs to; None in a batch query."""
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or number is None:
        return None
    return Batch(int(number), context.getLocalProperty("sql.streaming.queryId") or "")
