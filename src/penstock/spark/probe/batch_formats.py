"""Formats of batches: Arrow record batches or pandas data frames, with the meter's columns beside the user's.

This module is imported by workers, so it imports little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.spark.probe.meter import Rows

if TYPE_CHECKING:
    import pandas as pd

BUCKET = "__penstock_bucket"
ARRIVAL = "__penstock_arrival_s"
WEIGHT = "__penstock_weight"
MUST_KEEP = "__penstock_must_keep"
SUMS = "__penstock_sums"
_EXTRA = {BUCKET: np.int64, ARRIVAL: np.float64, WEIGHT: np.float64, MUST_KEEP: np.bool_}


class ArrowForm:
    """Arrow record batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Rows]:
        """Take the meter's columns out."""
        extra = [batch[name].to_numpy(zero_copy_only=False).astype(kind, copy=False) for name, kind in _EXTRA.items()]
        return batch.drop_columns(list(_EXTRA)), Rows(*extra)

    def part(self, batch: pa.RecordBatch, at: slice) -> pa.RecordBatch:
        """A slice of the rows, without a copy."""
        return batch.slice(at.start, at.stop - at.start)

    def plain(self, result: pa.RecordBatch) -> pa.RecordBatch:
        """Append a column of nulls; all columns become nullable, because the row with the sums has nulls."""
        columns = [*result.columns, pa.nulls(result.num_rows, pa.string())]
        return pa.RecordBatch.from_arrays(columns, schema=_with_sums(result.schema))

    def together(self, results: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Results in one piece, unless their schemas differ."""
        if len(results) < 2 or any(one.schema != results[0].schema for one in results):  # noqa: PLR2004 - two make one
            return results
        return pa.Table.from_batches(results).combine_chunks().to_batches() or results[:1]

    def last(self, result: pa.RecordBatch | None, sums: str) -> pa.RecordBatch:
        """Nulls, and the sums."""
        schema = self._schema if result is None else result.schema
        nulls = [pa.nulls(1, field.type) for field in schema]
        return pa.RecordBatch.from_arrays([*nulls, pa.array([sums])], schema=_with_sums(schema))


def _with_sums(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_nullable(True) for field in schema]  # noqa: FBT003 - Arrow's own signature
    return pa.schema([*fields, pa.field(SUMS, pa.string())])


class PandasForm:
    """Pandas data frames."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def split(self, batch: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
        """Take the meter's columns out."""
        extra = [batch[name].to_numpy(kind) for name, kind in _EXTRA.items()]
        return batch.drop(columns=list(_EXTRA)), Rows(*extra)

    def part(self, batch: pd.DataFrame, at: slice) -> pd.DataFrame:
        """Some rows, numbered from 0 as Spark's own frames are."""
        return batch.iloc[at].reset_index(drop=True)

    def plain(self, result: pd.DataFrame) -> pd.DataFrame:
        """Add an empty column, to the columns that Spark would have taken: by name, or else by position."""
        if not len(result.columns):
            result = result.reindex(columns=self._names)
        elif not any(isinstance(name, str) for name in result.columns):
            result = result.iloc[:, : len(self._names)].set_axis(self._names, axis="columns")
        elif set(self._names) <= set(result.columns):
            result = result[self._names]
        return result.assign(**{SUMS: None})

    def together(self, results: list[pd.DataFrame]) -> list[pd.DataFrame]:
        """Results as they are, because pandas may change the types of concatenated columns."""
        return results

    def last(self, result: pd.DataFrame | None, sums: str) -> pd.DataFrame:  # noqa: ARG002 - names say it all
        """Nulls, and the sums."""
        import pandas as pd  # noqa: PLC0415 - only this form needs it

        return pd.DataFrame({name: [None] for name in self._names} | {SUMS: [sums]})


#: The formats of rows; a function of one row also gets Arrow batches.
Form = ArrowForm | PandasForm
