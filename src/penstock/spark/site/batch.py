"""One micro-batch of a site: count rows, keep those of the plan, run each fragment's SQL on the kept rows.

The operator window of a fragment is its batch. So equation 3 of THEMIS holds for any SQL: the output rows of a batch
share the SIC of its input.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.messages.plan import Drop
from penstock.messages.report import BoxStatistics, PlaceRows
from penstock.spark.network.drops import INPUT, kept_by, quoted
from penstock.spark.network.failures import SPARK_ERRORS, line_of
from penstock.spark.site.streams import FILE, SIC, WEIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.config.site_file import Fragment, SiteFile
    from penstock.messages.plan import Plan


class Batch:
    """The rows of a micro-batch; `close` releases them."""

    def __init__(self, file: SiteFile, rows: DataFrame) -> None:
        """Hold the rows, which are read several times."""
        self._file, self._rows = file, rows.persist()
        self._held = [self._rows]
        self.blank: dict[str, int] = {}  #: Rows of links that have no column of their schema, by input.

    def came(self) -> dict[str, int]:
        """Rows in, by input."""
        counts = [_sum(self._own(name)).alias(f"c{n}") for n, name in enumerate(self._file.inputs)]
        found = self._rows.agg(*counts).first()
        return {name: int(found[n] or 0) for n, name in enumerate(self._file.inputs)} if found else {}

    def counted(self, plan: Plan) -> tuple[dict[str, PlaceRows], dict[str, float]]:
        """What the plan keeps: rows of each input, and the SIC that they bring."""
        columns = []
        for n, name in enumerate(self._file.inputs):
            own, kept = self._own(name), self._kept(name, plan)
            columns += [
                _sum(own).alias(f"in{n}"),
                _sum(own & kept).alias(f"kept{n}"),
                F.sum(F.when((F.col(INPUT) == name) & kept, self._sic(name, plan))).alias(f"sic{n}"),
                F.max(F.when(F.col(INPUT) == name, F.col(FILE))).alias(f"file{n}"),
                _sum(own & self._is_blank(name)).alias(f"blank{n}"),
            ]
        found = self._rows.agg(*columns).first()
        if found is None:
            raise PenstockError("Spark has counted nothing")
        counts, sic = {}, {}
        for n, (name, (_, one)) in enumerate(self._file.inputs.items()):
            rows_in, kept_rows = int(found[f"in{n}"] or 0), int(found[f"kept{n}"] or 0)
            link = "" if one.link is None else f"{one.link.site}.{one.link.fragment}"
            mark = str(found[f"file{n}"] or "").removesuffix(".json")
            if one.link is not None and found[f"blank{n}"]:
                self.blank[name] = int(found[f"blank{n}"])
            counts[name] = PlaceRows(rows_in, kept_rows, sender=link, mark=mark)
            sic[name] = float(found[f"sic{n}"] or 0.0)
        return counts, sic

    def worked(
        self, fragment: Fragment, plan: Plan, counts: Mapping[str, PlaceRows], sic: Mapping[str, float]
    ) -> tuple[DataFrame | None, BoxStatistics]:
        """Run a fragment's SQL on the rows that are kept; its rows, with their SIC, are held until `close`.

        Without rows the SQL is not run, and there is no data frame.
        """
        begun_s = time.monotonic()
        names = {name: f"{fragment.name}.{name}" for name in fragment.inputs}
        sic_in = min(sum(sic[name] for name in names.values()), 1.0)
        kept = sum(counts[name].rows_kept for name in names.values())
        if not kept:
            return None, BoxStatistics(0, 0, 0.0, fragment.query, sic_in)
        made = sql(
            self._rows.sparkSession, self._file, fragment, {n: self._view(key, plan) for n, key in names.items()}
        )
        result = made.persist()
        self._held.append(result)
        try:
            count = result.count()
        except SPARK_ERRORS as error:
            raise PenstockError(f"fragments.{fragment.name}.sql failed: {line_of(error)}") from None
        each = sic_in / count if count else 0.0
        rows = result.select(*(quoted(name) for name in result.columns if name.lower() != SIC), F.lit(each).alias(SIC))
        return rows, BoxStatistics(kept, count, time.monotonic() - begun_s, fragment.query, sic_in)

    def close(self) -> None:
        """Release the rows."""
        for one in self._held:
            one.unpersist()

    def _own(self, name: str) -> Column:
        return (F.col(INPUT) == name) & F.col(quoted(name)).isNotNull()

    def _is_blank(self, name: str) -> Column:
        """Whether a row has no value at all: so Spark reads JSON that does not fit a schema."""
        kind = self._rows.schema[name].dataType
        names = kind.names if isinstance(kind, StructType) else []
        return F.coalesce(*(F.col(f"{quoted(name)}.{quoted(column)}").cast("string") for column in names)).isNull()

    def _kept(self, name: str, plan: Plan) -> Column:
        """Whether a row is kept; what only brings the SIC of an empty batch always is."""
        drop = plan.drop(name)
        if drop is None or drop.keep >= 1.0:
            return F.lit(True)  # noqa: FBT003 - a literal
        place = f"{self._file.site}.{name}"
        return F.col(quoted(name)).isNull() | kept_by(Drop(place, keep=drop.keep), self._rows, name)

    def _sic(self, name: str, plan: Plan) -> Column:
        carried = plan.sic_at(name)
        return F.coalesce(F.col(SIC), F.lit(0.0)) if carried is None else F.lit(carried.sic[0])

    def _view(self, name: str, plan: Plan) -> DataFrame:
        own = self._rows.filter(self._own(name) & self._kept(name, plan))
        drop = plan.drop(name)
        weight = 1.0 / drop.keep if drop is not None and drop.keep else 1.0
        return own.select(f"{quoted(name)}.*", F.lit(weight).alias(WEIGHT), self._sic(name, plan).alias(SIC))


def sql(spark: SparkSession, file: SiteFile, fragment: Fragment, views: Mapping[str, DataFrame]) -> DataFrame:
    """A fragment's SQL over its inputs."""
    for name, view in views.items():
        view.createOrReplaceTempView(name)
    try:
        made = spark.sql(fragment.sql)
        _ = made.schema
    except SPARK_ERRORS as error:
        at = file.document.at(("fragments", fragment.name, "sql"))
        raise PenstockError(f"{at} cannot be run: {line_of(error)}") from None
    return made


def _sum(condition: Column) -> Column:
    return F.sum(F.when(condition, F.lit(1)).otherwise(F.lit(0)))
