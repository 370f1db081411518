"""A Python function as a box, with its time beside its results.

This module is imported by workers, so it imports little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.probe.probe import results_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Seconds that the function took since the row before.
BUSY = "__penstock_busy_s"


@dataclass(frozen=True)
class TimedRows:
    """A function of one row over batches; hidden columns go round it."""

    box: str  #: the box's name
    path: str  #: the function, as `module:function`
    schema: pa.Schema  #: results with the hidden columns and the time
    hidden: tuple[str, ...]  #: columns that the function does not see

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's results."""
        function = load(self.path)
        own = [name for name in self.schema.names if name not in self.hidden and name != BUSY]
        names = frozenset(own)
        busy_s = 0.0
        for batch in batches:
            found: list[dict[str, Any]] = []
            hidden = batch.select(list(self.hidden)).to_pylist()
            rows = batch.drop_columns(list(self.hidden)).to_pylist()
            begun_s = time.perf_counter()
            for row, beside in zip(rows, hidden, strict=True):
                found.extend(result | beside | {BUSY: 0.0} for result in self._results(function, row, names))
            busy_s += time.perf_counter() - begun_s
            if found:
                found[0][BUSY], busy_s = busy_s, 0.0
                yield pa.RecordBatch.from_pylist(found, schema=self.schema)

    def _results(
        self, function: Callable[[dict[str, Any]], Any], row: dict[str, Any], names: frozenset[str]
    ) -> list[dict[str, Any]]:
        try:
            return results_of(function(row), names)
        except Exception as error:
            message = f"boxes.{self.box} failed on a row: {type(error).__name__}: {error}"
            raise PenstockError(message) from error


def load(path: str, setting: str = "python") -> Callable[[dict[str, Any]], Any]:
    """The function named as `module:function`.

    >>> load("math:sqrt")(9.0)
    3.0
    """
    module, _, name = path.partition(":")
    accepted = "a function as module:function, with the module on Python's path"
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PenstockError.setting(setting, path, accepted, str(error)) from None
    if not callable(function):
        raise PenstockError.setting(setting, path, accepted)
    return function  # type: ignore[no-any-return]
