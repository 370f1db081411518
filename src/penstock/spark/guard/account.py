"""Whether the reports of a query account for every batch: held against Spark's own numbers and against the bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.guard.misuse import GATE
from penstock.store.report_log import Missing
from penstock.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.messages.report import Report
    from penstock.spark.feed import News
    from penstock.spark.plan_text import Node
    from penstock.spark.progress import Progress
    from penstock.store.report_log import Line
    from penstock.store.retention import Bindings
    from penstock.store.totals import Totals

#: Why a batch has no report. A sink that keeps its own account, such as that of files, may have a batch although the
#: query was killed before Spark noted its end. Spark then ends it without running it, and nothing is counted.
NOT_RUN_AGAIN = "it was replayed and Spark counted no rows, as it does if the sink already had the batch"
FORGOTTEN = "Spark had discarded its progress before the guard read it"
NOT_WATCHED = "it ran while no guard watched the query, or its report was lost"
#: How its alarms begin, and how long they last after the last batch that they count.
ACCOUNT, ALARM_S = "the account of query", 3600.0
#: Shed rows are looked up for so many batches at most.
LOOKED_UP = 100
#: Operators that may give more rows than they take, by how their names begin.
_MULTIPLY = ("Expand", "FlatMap", "Generate", "Join", "MapGroups", "MapIn", "MapPartitions", "Transform", "Union")


class Account:
    """Finds and reports batches of a query without a report, and rows that Spark has not read."""

    def __init__(  # noqa: PLR0913 - an account, and all that it is held against
        self,
        query: str,
        totals: Totals,
        bindings: Bindings,
        *,
        accounted: int | None,
        tell: Callable[[str], None],
        keep: Callable[[Line], None],
        clock: Callable[[], float],
        plan: Callable[[], Node | None],
        shed: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        """Keep the account of this query.

        `accounted` is the newest batch that an earlier guard's journal accounts for, -1 if there is none and None if
        there is no journal. `plan` gives the plan of a batch that has run, `shed` how many rows of a batch are in
        quarantine, None if that is not known.
        """
        self._query, self._totals, self._bindings, self._accounted = query, totals, bindings, accounted
        self._tell, self._keep, self._clock = tell, keep, clock
        self._missed_s: float | None = None  # when a batch was last found to have no report
        self._plan, self._shed = plan, shed
        self._counted_s: float | None = None  # when the gate last counted more rows than Spark had read
        self._multiplies: bool | None = None  # whether rows may become more in front of the gate, once it matters

    @property
    def alarms(self) -> list[str]:
        """That the totals are incomplete, or too high, and by how much."""
        found = []
        if self._missed_s is not None and self._clock() - self._missed_s <= ALARM_S:
            rows = self._totals.rows_missing
            known = f" ({counted(rows, 'row')} by Spark's count)" if rows else ""
            lacking = counted(self._totals.batches_missing, "batch", "batches")
            found.append(f"{ACCOUNT} {self._query} lacks {lacking}{known}: see the log for why")
        if self._counted_s is not None and self._clock() - self._counted_s <= ALARM_S:
            found.append(
                f"{ACCOUNT} {self._query} has {counted(self._totals.rows_unread, 'row')} more than Spark has read: "
                "tasks may have been run twice, so counts of rows are too high"
            )
        return found

    def compare(self, progress: Progress, report: Report) -> None:
        """Hold the rows of a batch against what Spark has read, where rows cannot become more in front of the gate."""
        if not 0 < progress.rows < report.rows_in:
            return
        if self._multiplies is None:
            self._multiplies = _multiplies(self._plan())
        if not self._multiplies:
            self._totals.rows_unread += report.rows_in - progress.rows
            self._counted_s = self._clock()

    def check(self, news: News) -> None:
        """Find batches before those in the news that had rows but will have no report."""
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
        """Find batches without a report that were bound before the first batch in Spark's progress."""
        if self._accounted is None or first <= self._accounted + 1:
            return
        lost = [batch for batch in self._bindings.versions() if self._accounted < batch < first]
        if lost:
            self.miss(lost[0], lost[-1], NOT_WATCHED, batches=len(lost))

    def miss(self, first: int, last: int, note: str, *, batches: int | None = None) -> None:
        """Say that batches have no report."""
        self._add(last - first + 1 if batches is None else batches)
        which = f"batch {first}" if first == last else f"batches {first} to {last}"
        shed = sum(self._shed(batch) or 0 for batch in range(max(first, last + 1 - LOOKED_UP), last + 1))
        told = f", {counted(shed, 'shed row')} in quarantine among them" if shed else ""
        self._tell(f"{which} of query {self._query}: no report, so totals omit these rows{told}: {note}")
        self._keep(Missing(self._clock(), first, last, note))

    def miss_gate(self, progress: Progress) -> None:
        """A batch has rows, and no gate has counted them."""
        self._add(1, progress.rows)

    def _add(self, batches: int, rows: int = 0) -> None:
        self._totals.batches_missing += batches
        self._totals.rows_missing += rows
        self._missed_s = self._clock()


def _multiplies(plan: Node | None) -> bool:
    """Whether rows may become more in front of a gate; also if that is not known."""
    gates = [one for one in plan.walk() if one.operator == "CollectMetrics" and GATE in one.text] if plan else []
    return not gates or any(one.operator.startswith(_MULTIPLY) for gate in gates for one in gate.walk())
