"""Prepares a quarantine: what cannot be used is refused before a query runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.control.planner import SOURCE
from penstock.errors import PenstockError
from penstock.spark.plans.places import on_connect
from penstock.spark.quarantine.forward import refuse_unusable
from penstock.spark.quarantine.rows import ADDED, Place, Sign, Writer, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.plans.places import Store


def prepared(place: Place, df: DataFrame, store: Store, weight: str, guard: str) -> Writer:
    """What writes the shed rows of a stream, in a place that is known to be usable."""
    if on_connect(df.sparkSession):
        raise PenstockError("quarantine needs classic Spark: a Spark Connect client cannot manage the folder")
    if not df.isStreaming:
        raise PenstockError("quarantine needs a stream: rows of a batch have no batch number to be written once by")
    taken = next((name for name in df.columns if name in ADDED), None)
    if taken is not None:
        raise PenstockError(f"the stream has a column {taken} already: rename it, the quarantine needs the name")
    sign = Sign(guard, weight, df.schema.json())
    folder = staged(place, store)
    if place.kind != "folder":
        refuse_unusable(df.sparkSession, place, folder, stored_schema(sign))
    sign.put(folder)
    return Writer(str(folder), str(store.folder), SOURCE)


def staged(place: Place, store: Store) -> Path:
    """The folder of shed rows; for a table or a topic, it is the guard's own."""
    return Path(place.name) if place.kind == "folder" else store.folder / "quarantine"
