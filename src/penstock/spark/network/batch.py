"""One micro-batch of a stage as data frames: boxes, drops between them, and what is counted on the way.

A box that several consumers share is computed once: its rows are kept until the batch is over. Each end of the stage is
then one job. Counts come from Spark's `observe`, so they need no extra job.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import reduce
from math import isnan
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import DoubleType, StructField, StructType

from penstock.errors import PenstockError
from penstock.messages.report import BoxStatistics, PlaceRows, Report
from penstock.spark.network.drops import HIDDEN, INPUT, applied, kept_by, quoted, weighed, within
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.network.python_box import BUSY, TimedRows, load
from penstock.spark.observations import observed_within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.core.network.model import Box, Network
    from penstock.messages.plan import Plan
    from penstock.spark.network.layout import Stage

#: The quantiles at which the distribution of a subject is read.
QUANTILES = tuple(step / 50.0 for step in range(51))
#: The accuracy of Spark's quantile sketch: one part in this many.
ACCURACY = 1000
#: What is counted at the roots, all in one.
HEAD = "penstock|head"
#: The longest wait for a count that Spark has discarded.
PATIENCE_S = 20.0


class Batch:
    """A stage's boxes over the rows of one micro-batch."""

    def __init__(
        self,
        network: Network,
        stage: Stage,
        rows: DataFrame,
        plan: Plan,
        subjects: Mapping[str, str],
        schemas: Mapping[str, StructType] | None = None,
    ) -> None:
        """Apply the boxes to tagged rows: `rows` has one struct column per root, and the hidden columns.

        `plan` has the drops in force, `subjects` at some places the expression whose distribution is to be measured,
        `schemas` what leaves each node. A union has the columns of all its sources, also of those in other stages.
        """
        self._network, self._stage, self._plan, self._subjects = network, stage, plan, subjects
        self._schemas = schemas or {}
        self._spark = rows.sparkSession
        self._seen: dict[str, Observation] = {}
        self._kept: list[DataFrame] = []
        self._arcs: dict[str, DataFrame] = {}
        self._boxes = {box.name: box for box in network.boxes}
        self.head = rows  #: the roots' rows, behind their drops
        self.shared: dict[str, DataFrame] = {}  #: rows that are kept for several consumers, by box
        self._head(rows)
        for name in stage.boxes:
            self._box(self._boxes[name])

    @property
    def ends(self) -> dict[str, DataFrame]:
        """Rows that leave the stage, by arc."""
        return {arc.name: self._arcs[arc.name] for arc in self._stage.ends}

    def report(self, number: int, begun_s: float) -> Report:
        """What the batch counted; run all ends first, because only computed rows are counted.

        Another stage may count what enters or leaves a box; the sum of their reports has both.
        """
        seen, ended_s = _within(PATIENCE_S, dict(self._seen)), max(time.time(), begun_s)
        head, network = seen.pop(HEAD), self._network
        came = {root: int(head[root]) for root in self._stage.roots}
        leaving = {name: seen[name]["rows"] if name in seen else came[name] for name in (*came, *self._stage.boxes)}
        links = {
            arc.name: self._rows_at(
                arc.name,
                rows,
                seen.get(arc.name, {"rows": rows})["rows"],
                seen.get(f"{arc.name}|quantiles", {}).get("quantiles"),
            )
            for name, rows in leaving.items()
            for arc in network.out_of[name]
        }
        sources = {
            one.name: self._rows_at(one.name, came[one.name], leaving[one.name], head.get(f"{one.name}|quantiles"))
            for one in network.inputs
            if one.name in came
        }
        boxes = {
            box.name: BoxStatistics(
                sum(links[arc.name].rows_kept for arc in network.into[box.name] if arc.name in links),
                leaving.get(box.name, 0),
                seen.get(f"{box.name}|busy", {}).get("busy_s") or 0.0,
            )
            for box in network.boxes
        }
        return Report(
            sequence=number,
            start_s=begun_s,
            end_s=ended_s,
            span_s=ended_s - begun_s,
            rows_in=sum(one.rows_in for one in sources.values()),
            rows_kept=sum(one.rows_kept for one in sources.values()),
            rows_shed={name: one.rows_shed for name, one in sources.items() if one.rows_shed},
            plan_version=self._plan.version,
            sources=sources,
            links=links,
            boxes=boxes,
        )

    def _rows_at(self, place: str, came: int, kept: int, quantiles: Sequence[float] | None) -> PlaceRows:
        drop = self._plan.drop(place)
        by_value = drop is not None and bool(drop.condition)
        known = tuple(quantiles or ())
        return PlaceRows(max(came, kept), kept, by_value, () if any(map(isnan, known)) else known)

    def close(self) -> None:
        """Release shared rows."""
        for df in self._kept:
            df.unpersist()

    def _head(self, rows: DataFrame) -> None:
        """The drops at the roots, before rows are kept for several readers."""
        roots = self._stage.roots
        counts: list[Column] = []
        passes: list[Column] = []
        for root in roots:
            own = F.col(INPUT) == F.lit(root) if len(roots) > 1 else F.lit(True)  # noqa: FBT003 - a literal
            counts.append(F.count(F.when(own, 1)).alias(root))
            drop = self._plan.drop(root)
            if root in self._subjects:
                subject = F.expr(within(self._subjects[root], root))
                counts.append(_quantiles(F.when(own, subject)).alias(f"{root}|quantiles"))
            if drop is not None:
                passes.append(~own | kept_by(drop, rows, root))
        head = self._observed(rows, HEAD, *counts)
        if passes:
            head = head.filter(reduce(and_, passes))
        # State is updated once per batch, however many jobs read its result.
        if self._reads(roots) > 1 or self._network.into[roots[0]]:
            head = self._shared(head)
        self.head = head
        for root in roots:
            df = root_rows(head, root, alone=len(roots) == 1)
            drop = self._plan.drop(root)
            if drop is not None:
                df = weighed(df, drop)
            self._leave(root, df, counted=drop is not None)

    def _leave(self, name: str, df: DataFrame, *, counted: bool) -> None:
        """Rows of a node onto its arcs."""
        arcs = self._network.out_of[name]
        if counted:
            df = self._observed(df, name)
        if len(arcs) > 1 and name in self._stage.boxes:
            df = self.shared[name] = self._shared(df)
        for arc in arcs:
            before, drop = df, self._plan.drop(arc.name)
            if arc.name in self._subjects:
                quantiles = _quantiles(F.expr(self._subjects[arc.name])).alias("quantiles")
                before = self._observed(df, f"{arc.name}|quantiles", quantiles)
            self._arcs[arc.name] = before if drop is None else self._observed(applied(before, drop), arc.name)

    def _box(self, box: Box) -> None:
        arcs = [arc for arc in self._network.into[box.name] if arc.name in self._arcs]
        elsewhere = [arc.source for arc in self._network.into[box.name] if arc.name not in self._arcs]
        empty = [self._spark.createDataFrame([], self._schemas[name]) for name in elsewhere]
        df = together([*(self._arcs[arc.name] for arc in arcs), *empty])
        out = worked(box, df)
        if BUSY in out.columns:
            out = self._observed(out, f"{box.name}|busy", F.sum(BUSY).alias("busy_s")).drop(BUSY)
        self._leave(box.name, out, counted=True)

    def _observed(self, df: DataFrame, name: str, *counts: Column) -> DataFrame:
        self._seen[name] = Observation()
        return df.observe(self._seen[name], *(counts or (F.count(F.lit(1)).alias("rows"),)))

    def _shared(self, df: DataFrame) -> DataFrame:
        shared = df.persist()
        self._kept.append(shared)
        return shared

    def _reads(self, roots: tuple[str, ...]) -> int:
        """How many jobs would read the roots' rows: those that end, or first cache rows for others, right below."""
        found, todo = 0, [arc for root in roots for arc in self._network.out_of[root]]
        seen: set[str] = set()
        while todo:
            arc = todo.pop()
            if arc.target not in self._stage.boxes:
                found += 1
            elif arc.target not in seen:
                seen.add(arc.target)
                arcs = self._network.out_of[arc.target]
                if len(arcs) > 1:
                    found += 1
                else:
                    todo.extend(arcs)
        return found


def counted(df: DataFrame) -> tuple[DataFrame, Callable[[], int | None]]:
    """The rows, and their count by Spark once a job is done; None if Spark has discarded it."""
    seen = Observation()

    def rows() -> int | None:
        with suppress(PenstockError):
            return int(_within(PATIENCE_S, {HEAD: seen})[HEAD]["rows"])
        return None

    return df.observe(seen, F.count(F.lit(1)).alias("rows")), rows


def _within(seconds: float, seen: dict[str, Observation]) -> dict[str, dict[str, Any]]:
    """What was observed; an error if it does not arrive in time."""
    found = observed_within(seconds, seen)
    if len(found) < len(seen):
        raise PenstockError(f"Spark has not reported its counts within {seconds:g} s")
    return found


def root_rows(rows: DataFrame, root: str, *, alone: bool) -> DataFrame:
    """The rows of one root, out of their struct."""
    own = rows if alone else rows.filter(F.col(INPUT) == F.lit(root))
    return own.select(F.col(f"{quoted(root)}.*"), *HIDDEN)


def _quantiles(subject: Column) -> Column:
    return F.percentile_approx(subject.cast("double"), F.lit(list(QUANTILES)), F.lit(ACCURACY))


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """Rows of several sources; a column that one of them lacks is null there."""
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), frames)


def worked(box: Box, df: DataFrame) -> DataFrame:
    """Rows behind the box; those of a Python box with the seconds it took in the column `BUSY`."""
    try:
        if box.op == "filter":
            # It looks nondeterministic, so Spark does not fold filters away, and with them the counts before them.
            return df.filter(F.when(F.spark_partition_id() >= 0, F.expr(box.where or "true")))
        if box.python is not None:
            return _python(box, df)
        if box.op == "map" and box.select:
            return df.withColumns({name: F.expr(text) for name, text in box.select.items()})
    except SPARK_ERRORS as error:
        raise PenstockError(f"boxes.{box.name} cannot be run: {line_of(error)}") from None
    return df


def _python(box: Box, df: DataFrame) -> DataFrame:
    # A missing function must fail here, not in a worker.
    load(str(box.python), f"boxes.{box.name}.python")
    spark = df.sparkSession
    own = StructType([field for field in df.schema.fields if field.name not in HIDDEN])
    results = spark.createDataFrame([], box.returns).schema if box.returns else own
    nullable = [StructField(field.name, field.dataType, nullable=True) for field in results.fields]
    hidden = [field for field in df.schema.fields if field.name in HIDDEN]
    schema = StructType([*nullable, *hidden, StructField(BUSY, DoubleType())])
    arrow = spark.createDataFrame([], schema).toArrow().schema
    return df.mapInArrow(TimedRows(box.name, str(box.python), arrow, HIDDEN), schema)
