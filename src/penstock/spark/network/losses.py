"""Losses of a network run outside its plans: late rows, batches without a plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.spark.network.weighted_aggregates import unweighted
from penstock.spark.progress import ProgressFeed
from penstock.wording import counted

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.core.network.model import Network


class Losses:
    """Counts losses and raises alarms."""

    def __init__(self, network: Network, queries: list[StreamingQuery]) -> None:
        """Watch these queries, also those that are added later."""
        self._biased, self._queries = _biased(network), queries
        self._progress: dict[str, ProgressFeed] = {}  # by query
        self._late: Counter[str] = Counter()  # rows lost so far, by query
        self._unbound, self._why = 0, ""  # batches that no plan judged, and why the last of them

    def unbound(self, why: str) -> None:
        """A batch ran without a plan."""
        self._unbound, self._why = self._unbound + 1, why

    def alarms(self) -> tuple[str, ...]:
        """The losses so far, one line each."""
        return (*self._biased, *self._unbound_batches(), *self._late_rows())

    def _unbound_batches(self) -> tuple[str, ...]:
        """Batches of this run that kept every row, and may not do so at a replay."""
        if not self._unbound:
            return ()
        ran = f"{counted(self._unbound, 'batch', 'batches')} ran without a plan and kept every row"
        return (f"{ran}, the last because: {self._why}",)

    def _late_rows(self) -> tuple[str, ...]:
        """Rows that came too late for a window or a join, one line a query."""
        for query in self._queries:
            feed = self._progress.setdefault(str(query.name), ProgressFeed(query))
            self._late[str(query.name)] += sum(one.late_rows for one in feed.news().batches)
        told = {name: total for name, total in self._late.items() if total}
        return tuple(
            f"{counted(total, 'row')} came too late for query {name} and {'is' if total == 1 else 'are'} lost"
            for name, total in told.items()
        )


def _biased(network: Network) -> tuple[str, ...]:
    """Aggregates that are wrong when rows are dropped, one line each."""
    return tuple(
        f"boxes.{box.name}: {', '.join(found)} cannot be corrected by weights when rows are dropped"
        for box in network.boxes
        if box.op == "aggregate" and (found := [name for text in box.select.values() for name in unweighted(text)])
    )
