"""Python functions whose results carry the source information content of their input rows.

This module is imported by workers, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as arrow_functions

from penstock.core.fairness.sic import SIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class PassOnRow:
    """A function of one row: its results share the row's SIC.

    >>> PassOnRow(lambda row: [{"n": 1}, {"n": 2}])({"sic": 0.5})
    [{'n': 1, 'sic': 0.25}, {'n': 2, 'sic': 0.25}]
    """

    function: Callable[[dict[str, Any]], Any]

    def __call__(self, row: dict[str, Any]) -> Any:  # noqa: ANN401 - a row, several, or none, as the function has it
        """The results, with their part."""
        result = self.function(row)
        if result is None or isinstance(result, str | bytes):
            return result
        single = isinstance(result, Mapping) or hasattr(result, "asDict")
        if not single and not isinstance(result, Iterable):
            return result  # not a row: the caller reports it
        rows = [one.asDict() if hasattr(one, "asDict") else one for one in ([result] if single else result)]
        given = row.get(SIC)
        part = None if given is None else given / max(len(rows), 1)
        return [{**one, SIC: part} if isinstance(one, Mapping) else one for one in rows]


@dataclass(frozen=True)
class PassOn:
    """A function over batches: each batch of results shares the SIC of the input since the last."""

    function: Callable[[Iterator[Any]], Iterable[Any]]
    carried: Callable[[Any], float | None]  #: the SIC of the rows of a batch; None if unknown
    given: Callable[[Any, float | None], Any]  #: a result with that column

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, with their part."""
        waiting: float | None = None

        def counted() -> Iterator[Any]:
            nonlocal waiting
            for batch in batches:
                if (carried := self.carried(batch)) is not None:
                    waiting = (waiting or 0.0) + carried
                yield batch

        for result in self.function(counted()):
            rows = len(result)
            yield self.given(result, waiting / rows if rows and waiting is not None else None)
            waiting = None if rows else waiting


def arrow_sum(batch: pa.RecordBatch) -> float | None:
    """The sum of the column."""
    found: float | None = arrow_functions.sum(batch[SIC]).as_py()
    return found


def with_arrow_column(result: pa.RecordBatch, part: float | None) -> pa.RecordBatch:
    """The column appended, or replaced."""
    column = pa.array([part] * result.num_rows, pa.float64())
    if SIC in result.schema.names:
        return result.set_column(result.schema.get_field_index(SIC), SIC, column)
    return result.append_column(SIC, column)


def pandas_sum(batch: Any) -> float | None:  # noqa: ANN401 - pandas is not asked for otherwise
    """The sum of the column."""
    return float(batch[SIC].sum()) if batch[SIC].notna().any() else None


def with_pandas_column(result: Any, part: float | None) -> Any:  # noqa: ANN401 - pandas is not asked for otherwise
    """The column assigned."""
    return result.assign(**{SIC: float("nan") if part is None else part})
