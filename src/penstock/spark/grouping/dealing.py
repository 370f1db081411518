"""Dealing rows to partitions inside a task: the function that Spark runs on a worker.

It gets two numbers per row, the hash of its key and of its identity, and returns the number of its partition. All other
columns stay in the JVM. It reads all of its task's rows before it returns the first.

This module is imported by workers, so it imports little.
"""

import gc
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from penstock.core.grouping.deal import deal
from penstock.core.grouping.partition_costs import cost_table
from penstock.messages.plan import Costs

#: Before anything is known all rows are alike, and are dealt in turn.
_ALIKE = np.ones((1, 1))


def dealer(
    partitions: int, costs: Callable[[], Costs | None]
) -> Callable[[Iterator[tuple[pa.Array, pa.Array]]], Iterator[pa.Array]]:
    """The function, by whose type hints Spark knows it for one that takes all batches of a task in turn."""

    def dealt(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        # Take what is there by now, modules above all, out of the garbage collector's sight. After each task Spark
        # collects garbage in a worker, which is not free for the next task until that is done. With all that Arrow and
        # NumPy bring it took 20 to 40 ms, and tasks behind the deal wait for just these workers.
        if not gc.get_freeze_count():
            gc.freeze()
        strata, hashes = [np.array([], np.int64)], [np.array([], np.int64)]
        for stratum, row_hash in batches:
            strata.append(stratum.to_numpy())
            hashes.append(row_hash.to_numpy())
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        numbers = deal(np.concatenate(strata), np.concatenate(hashes), _table(partitions, costs), partitions, task)
        at = 0
        for part in strata[1:]:
            yield pa.array(numbers[at : at + len(part)])
            at += len(part)

    return dealt


def _table(partitions: int, costs: Callable[[], Costs | None]) -> NDArray[np.float64]:
    found = costs()
    if found is None:
        return _ALIKE
    table = cost_table(found)
    # Of other partitions only the shape is of use.
    return table if len(table) in (1, partitions) else np.array(found.cost_s)[None, :]
