"""The second read of a source: with a quarantine Spark reads it once for kept rows and once for shed rows.

Spark's checkpoint lists the source twice then, and Spark resumes a query only with as many sources as it began with. So
a query that began with a quarantine always reads twice, even if its guard no longer sheds or has no quarantine. The
second read is then dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.errors import PenstockError
from penstock.spark.checkpoint import sources_listed
from penstock.store.logs import RulesLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.store.place import Place


def reads(folder: Place, gate: str, quarantine: str, *, sheds: bool) -> int:
    """How often the query of a guard's folder must read its source: 1 or 2.

    `quarantine` is where shed rows go, empty if nowhere; `sheds` says whether any may go there.

    Raises:
        PenstockError: If rows are to go into quarantine, and the query began without one.
    """
    begun = _begun(folder, gate)
    if quarantine and sheds:
        if begun == 1:
            raise PenstockError.setting(
                "quarantine",
                quarantine,
                "it together with a new checkpoint",
                f"with a quarantine the source is read twice, and Spark's checkpoint {folder.parent} lists it once",
            )
        return 2
    return begun or (2 if quarantine else 1)


def second_read(admitted: DataFrame, df: DataFrame) -> DataFrame:
    """The rows admitted from a stream, and none from a second read of it."""
    # Spark removes a branch that it knows to be empty, with the operators in front of the gate.
    nothing = df.filter(F.spark_partition_id() < F.lit(0))
    own = [
        F.col(f"`{field.name}`") if field.name in df.columns else F.lit(None).cast(field.dataType).alias(field.name)
        for field in admitted.schema.fields
    ]
    return admitted.union(nothing.select(*own))


def _begun(folder: Place, gate: str) -> int | None:
    """How often the query read its source so far; None if it has planned no batch yet, or this is unknown."""
    listed = sources_listed(folder.parent)
    if listed is None or listed == 1:
        return listed
    rules = folder / "rules" / gate
    newest = None if rules.missing() else RulesLog(rules.store(make=False)).latest()
    return None if newest is None else newest.reads
