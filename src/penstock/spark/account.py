"""Whether the reports of a query account for every batch: held against Spark's own numbers and against the bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.report_log import Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.report_log import Line
    from penstock.spark.feed import News
    from penstock.spark.progress import Progress
    from penstock.spark.store import Bindings
    from penstock.totals import Totals

#: Why a batch has no report. A sink that keeps its own account, such as that of files, may have a batch although the
#: query was killed before Spark noted its end. Spark then ends it without running it, and nothing is counted.
NOT_RUN_AGAIN = "it was replayed and Spark counted no row of it, as it does where the sink had the batch already"
FORGOTTEN = "Spark had forgotten it before the guard looked"
NOT_WATCHED = "it ran while no guard watched the query, or its report was lost"
#: How the alarm begins, and how long it lasts after the last batch that it counts.
NO_REPORT, ALARM_S = "no report covers", 3600.0


class Account:
    """Finds the batches of a query that no report tells of, and says so."""

    def __init__(
        self,
        query: str,
        totals: Totals,
        bindings: Bindings,
        *,
        accounted: int | None,
        tell: Callable[[str], None],
        keep: Callable[[Line], None],
        clock: Callable[[], float],
    ) -> None:
        """Keep the account of this query.

        `accounted` is the newest batch that an earlier guard's journal accounts for, -1 if there is none and None if
        there is no journal.
        """
        self._query, self._totals, self._bindings, self._accounted = query, totals, bindings, accounted
        self._tell, self._keep, self._clock = tell, keep, clock
        self._missed_s: float | None = None  # when a batch was last found to have no report

    @property
    def alarm(self) -> str | None:
        """That the totals are incomplete, and by how much."""
        if self._missed_s is None or self._clock() - self._missed_s > ALARM_S:
            return None
        rows = self._totals.rows_missing
        counted = f" ({rows} rows by Spark's count)" if rows else ""
        return (
            f"{NO_REPORT} {self._totals.batches_missing} batches{counted} of query {self._query}: see the log for why"
        )

    def check(self, news: News) -> None:
        """Find batches before those in the news that no report will be made of, though there were rows in them."""
        if news.forgotten:
            self.miss(news.forgotten[0], news.forgotten[-1], FORGOTTEN)
        if not news.first or news.newest is None:
            return
        first = news.batches[0] if news.batches else news.newest
        self._check_earlier(first.batch)
        if first.ran and first.empty and first.moved:
            bound = self._bindings.get(first.batch)
            if bound is not None and bound.bound_s < first.start_s:  # bound by a run before this one
                self.miss(first.batch, first.batch, NOT_RUN_AGAIN)

    def _check_earlier(self, first: int) -> None:
        """Find batches that were bound before the first one that Spark tells of, and that no report tells of."""
        if self._accounted is None or first <= self._accounted + 1:
            return
        lost = [batch for batch in self._bindings.versions() if self._accounted < batch < first]
        if lost:
            self.miss(lost[0], lost[-1], NOT_WATCHED, batches=len(lost))

    def miss(self, first: int, last: int, note: str, *, batches: int | None = None) -> None:
        """Say that batches have no report."""
        self._add(last - first + 1 if batches is None else batches)
        which = f"batch {first}" if first == last else f"batches {first} to {last}"
        self._tell(f"{which} of query {self._query}: no report, so these rows are in no sum: {note}")
        self._keep(Missing(self._clock(), first, last, note))

    def miss_gate(self, progress: Progress) -> None:
        """A batch has rows, and no gate has counted them."""
        self._add(1, progress.rows)

    def _add(self, batches: int, rows: int = 0) -> None:
        self._totals.batches_missing += batches
        self._totals.rows_missing += rows
        self._missed_s = self._clock()
