"""The micro-batch around a user's function for `foreachBatch`, whose data frames Spark runs as batch queries.

Spark marks the thread that calls the function with the number of the batch, on classic Spark only. Counts are not in
the query's progress but in observations, one per batch and name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.spark.observations import observed_within
from penstock.spark.plans.binding import Batch, batch_by
from penstock.spark.plans.places import on_connect
from penstock.spark.plans.rules import new_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, Observation

    from penstock.core.loop.binding import Start
    from penstock.spark.plans.rules import Open

_logger = logging.getLogger("penstock")

#: The longest wait for counts of an action that has ended; Spark reports them a moment later.
PATIENCE_S = 2.0
#: Batches whose observations are kept for a guard that watches too late.
_KEPT = 100


class Inside:
    """A guard's gate and probe in the micro-batches of one run of a query.

    Attributes:
        batch: The micro-batch that runs.
        number: The number of the gate's rules.
        start: The settings for the first batches.
    """

    def __init__(self, batch: Batch, start: Start) -> None:
        self.batch, self.number, self.start = batch, new_number(), start
        self._opened: Sequence[Open] | None = None
        self._seen: dict[int, dict[str, Observation]] = {}
        self._told = False

    def opened(self, begin: Callable[[], Sequence[Open]]) -> Sequence[Open]:
        """The batches that Spark may run again; looked up once in a run, when the gate's rules are recorded."""
        if self._opened is None:
            self._opened = begin()
        return self._opened

    def observation(self, name: str) -> Observation:
        """Where the counts of this name go in the batch that runs."""
        seen = self._seen.setdefault(self.batch.number, {})
        if name in seen:
            raise PenstockError(
                f"batch {self.batch.number} of query {self.batch.query} has two gates or two measured functions of one "
                "guard: call guard.admit and the function of guard.measured once in each batch"
            )
        from pyspark.sql import Observation  # noqa: PLC0415 - a client of Connect has none

        seen[name] = Observation()
        for old in [one for one in list(self._seen) if one <= self.batch.number - _KEPT]:
            self._forget(old)
        return seen[name]

    def _forget(self, number: int) -> None:
        if self._seen.pop(number, None) is not None and not self._told:
            self._told = True
            _logger.warning(
                "query %s uses a guard in foreachBatch but is not watched, so nothing is planned or reported: call "
                "guard.attach()",
                self.batch.query,
            )

    def observed(self, number: int) -> dict[str, dict[str, Any]]:
        """The counts of a batch that has ended, by name."""
        seen = self._seen.pop(number, {})
        try:
            return observed_within(PATIENCE_S, seen) if seen else {}
        except Exception as error:  # noqa: BLE001 - the batch then has no report, which is logged too
            _logger.warning("the counts of batch %d cannot be read: %s", number, " ".join(str(error).split())[:300])
            return {}


class ForeachBatch:
    """The functions for `foreachBatch` that use a guard: one run of one query at a time."""

    def __init__(self) -> None:
        self._run = ""
        self._inside: Inside | None = None

    def of(self, df: DataFrame, start: Callable[[], Start]) -> Inside | None:
        """The run whose micro-batch this data frame is of; None if it is of none."""
        if df.isStreaming or on_connect(df.sparkSession):
            return None
        properties = df.sparkSession.sparkContext.getLocalProperty
        batch, run = batch_by(properties), properties("spark.jobGroup.id") or ""
        if batch is None:
            return None
        if self._inside is None or (self._run, self._inside.batch.query) != (run, batch.query):
            self._run, self._inside = run, Inside(batch, start())
        self._inside.batch = batch
        return self._inside

    @property
    def query(self) -> str:
        """The identity of the query; empty as long as none is known."""
        return "" if self._inside is None else self._inside.batch.query

    def observed(self, number: int) -> dict[str, dict[str, Any]]:
        """The counts of a batch that has ended, by name."""
        return {} if self._inside is None else self._inside.observed(number)
