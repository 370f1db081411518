"""The batches of a query, read one after the other: each becomes a Report, and one that cannot is accounted for."""

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.control.shed_alarms import ShedAlarms
from penstock.core.loop.leases import LEASE_S
from penstock.messages.plan import Binding, Plan
from penstock.messages.report import Report
from penstock.spark.guard.misuse import GATE, known_plan
from penstock.spark.guard.reading import Reading
from penstock.spark.guard.teller import Teller, line_of
from penstock.spark.plan_text import Node
from penstock.spark.plans.control_row import ANOTHERS, NO_PLAN, UNREADABLE, UNUSABLE, WHY
from penstock.spark.plans.remote import Store
from penstock.spark.progress import News, Observed, Progress, ProgressFeed, arrival_trouble
from penstock.spark.quarantine.shed_account import ALARM_S
from penstock.store.driver import Driver
from penstock.store.logs import Entries
from penstock.store.recent_reports import Recent, Totals
from penstock.store.report_log import Missing
from penstock.wording import counted

#: Prefix of probe names.
PROBE = "penstock_probe_"


class Batches:
    """Reads the batches of one query.

    Attributes:
        last: The batch that was read last.
        reports: The last reports.
        account: The sums of all reports, and the batches without one.
    """

    def __init__(
        self,
        query: StreamingQuery,
        reading: Reading,
        driver: Driver,
        bindings: Entries[Binding],
        teller: Teller,
        *,
        store: Store | None,
        shed: Callable[[int], int | None],
        inside: Observed,
    ) -> None:
        """Read this query; `store` is where plans are kept, `shed` says how many rows of a batch are in quarantine."""
        self._query, self._reading, self._driver, self._teller = str(query.id), reading, driver, teller
        self._bindings = bindings
        self._feed = ProgressFeed(query, inside)
        self._pending: deque[Progress] = deque()  # batches that have ended and are to be read
        self._judged = Judged(self._query, store)
        self._shed_alarms = ShedAlarms()
        self.last: Progress | None = None
        self.reports = Recent()
        self.account = Account(self._query, bindings, teller, lambda: known_plan(query), shed)

    def look(self) -> Progress | None:
        """Find the batches that have ended since the last look; the newest trigger."""
        news = self._feed.news()
        self._pending.extend(one for one in news.batches if not self.account.has(one))
        self.account.check(news)
        return news.newest

    def next(self) -> Progress | None:
        """The oldest batch that was not read yet; after an error the others are read at the next look."""
        return self._pending.popleft() if self._pending else None

    def alarms(self, progress: Progress, report: Report) -> list[str]:
        """Alarms about too much shedding, wrong judging of a batch's rows, or wrong arrival times."""
        self._judged.look_for_others(self._teller.clock())
        found = [*self._shed_alarms.after(report), *self._judged.alarms]
        if self._reading.gated:
            found.append(arrival_trouble(progress, self._reading.gates(), self._reading.probe) or "")
        return [line for line in found if line]

    def read(self, progress: Progress) -> Report | None:
        """A batch as a Report; None if it has no data."""
        if progress.empty:
            return None
        if self.last is None:
            bound = self._bindings.get(progress.batch)  # It may have been bound by a run that was killed.
            replayed_s = 0.0 if bound is None else max(progress.start_s - bound.bound_s, 0.0)
            progress = replace(progress, replayed_s=replayed_s)
        before, self.last = self.last, progress
        if not self._reading.judged(progress):
            self._miss(progress)
            return None
        probe = self._reading.probe
        if probe not in progress.observed and any(name.startswith(PROBE) for name in progress.observed):
            self._teller.tell(
                f"query {self._query} is measured by another guard: use admit and measured of the same guard"
            )
        try:
            report = self._reading.report(progress, before, self._judged_by(progress))
        except Exception as error:
            self.account.miss(progress.batch, progress.batch, f"the guard caught an error in it: {line_of(error)}")
            raise
        if report is not None:
            report = replace(report, cores_wanted=self._driver.loop.cores_wanted)
            self.reports.append(report)
            self.account.totals.add(report)
            self.account.compare(progress, report)
        return report

    def _miss(self, progress: Progress) -> None:
        if self._reading.gated:
            self._teller.tell(f"query {self._query} has no gate of this guard: put .transform(guard.admit) into it")
            self.account.lack(1, progress.rows)
        else:
            self._teller.tell(
                f"query {self._query} measures nothing for this grouping, so rows are dealt round-robin: add "
                ".transform(grouping.measured(...)) behind it"
            )

    def _judged_by(self, progress: Progress) -> Plan | None:
        """The plan that judged a batch, as the gate reports it; problems are logged."""
        bindings, loop = self._bindings, self._driver.loop
        if not self._reading.gated:
            bound = bindings.get(progress.batch)
            return None if bound is None or bound.plan_version is None else self._driver.plan(bound.plan_version)
        version = self._reading.version(progress)
        note = ""
        if version in (UNREADABLE, UNUSABLE):
            bound = bindings.get(progress.batch)
            note = (bound.note if bound else "") or "see the log of the executors"
        self._judged.look(version, progress.start_s, loop.in_force, loop.renewed_s, note)
        if version is None or version == NO_PLAN:
            self._compare_clocks(progress.batch)
            return None
        if version < 0:
            self._teller.errors += 1
            return None
        plan = self._driver.plan(version)
        if plan is None:
            self._teller.error(
                f"query {self._query}: plan {version} is missing from its log, so its reasons are unknown"
            )
        return plan

    def _compare_clocks(self, batch: int) -> None:
        """Log a plan that did not act because an executor's clock was outside its lease."""
        plan = self._driver.loop.in_force
        if plan is None or not plan.gates:
            return  # Only a plan that sheds has a lease; with Spark Connect reading a binding is a request.
        bound = self._bindings.get(batch)
        if bound and abs(bound.bound_s - self._driver.loop.renewed_s) > LEASE_S:
            self._teller.error(
                f"query {self._query} kept every row of a batch because the executor's clock was more than "
                f"{LEASE_S:.0f} s from its plan's: synchronize the clocks of driver and executors"
            )


#: Why a batch has no report. A sink with its own account, such as that of files, may have a batch although the
#: query was killed before Spark noted its end. Spark then ends it without running it, and nothing is counted.
NOT_RUN_AGAIN = "it was replayed and Spark counted no rows, as it does if the sink already had the batch"
FORGOTTEN = "Spark had discarded its progress before the guard read it"
NOT_WATCHED = "it ran while no guard watched the query, or its report was lost"
#: The beginning of its alarms.
ACCOUNT = "the account of query"
#: Shed rows are looked up for at most this many batches.
LOOKED_UP = 100
#: Operators that may return more rows than they take, by the beginning of their names.
_MULTIPLY = ("Expand", "FlatMap", "Generate", "Join", "MapGroups", "MapIn", "MapPartitions", "Transform", "Union")


class Account:
    """Finds and reports batches of a query without a report, and rows that Spark has not read.

    Attributes:
        totals: The sums of all reports.
    """

    def __init__(
        self,
        query: str,
        bindings: Entries[Binding],
        teller: Teller,
        plan: Callable[[], Node | None],
        shed: Callable[[int], int | None],
    ) -> None:
        """Keep the account of this query.

        `plan` gives the plan of a batch that has run. `shed` counts its rows in quarantine, None if that is not known.
        """
        self.totals = Totals()
        self._query, self._bindings, self._teller, self._plan, self._shed = query, bindings, teller, plan, shed
        self._accounted = teller.kept_in.accounted()  # the newest batch in the journal; None if there is no journal
        self._until_s = max((report.end_s for report in teller.kept_in.recent()), default=-math.inf)
        self._missed_s: float | None = None  # when a batch was last found to have no report
        self._counted_s: float | None = None  # when the gate last counted more rows than Spark had read
        self._multiplies: bool | None = None  # whether steps in front of the gate may add rows, once it matters

    def has(self, progress: Progress) -> bool:
        """Whether the journal has this batch, because the query was watched before; a replay ends later."""
        accounted = -1 if self._accounted is None else self._accounted
        return progress.batch <= accounted and progress.start_s + progress.duration_s <= self._until_s

    @property
    def alarms(self) -> list[str]:
        """Alarms about incomplete or too high totals."""
        found = []
        if self._missed_s is not None and self._teller.clock() - self._missed_s <= ALARM_S:
            rows = self.totals.rows_missing
            known = f" ({counted(rows, 'row')} by Spark's count)" if rows else ""
            lacking = counted(self.totals.batches_missing, "batch", "batches")
            found.append(f"{ACCOUNT} {self._query} lacks {lacking}{known}: see the log for why")
        if self._counted_s is not None and self._teller.clock() - self._counted_s <= ALARM_S:
            found.append(
                f"{ACCOUNT} {self._query} has {counted(self.totals.rows_unread, 'row')} more than Spark has read: "
                "tasks may have been run twice, so counts of rows are too high"
            )
        return found

    def compare(self, progress: Progress, report: Report) -> None:
        """Compare the rows of a batch with those that Spark has read, if no step in front of the gate adds rows."""
        if not 0 < progress.rows < report.rows_in:
            return
        if self._multiplies is None:
            self._multiplies = _multiplies(self._plan())
        if not self._multiplies:
            self.totals.rows_unread += report.rows_in - progress.rows
            self._counted_s = self._teller.clock()

    def check(self, news: News) -> None:
        """Find earlier batches that had rows but will have no report."""
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
        """Report batches without a report."""
        self.lack(last - first + 1 if batches is None else batches)
        which = f"batch {first}" if first == last else f"batches {first} to {last}"
        shed = sum(self._shed(batch) or 0 for batch in range(max(first, last + 1 - LOOKED_UP), last + 1))
        told = f", {counted(shed, 'shed row')} in quarantine among them" if shed else ""
        self._teller.tell(f"{which} of query {self._query}: no report, so totals omit these rows{told}: {note}")
        self._teller.keep(Missing(self._teller.clock(), first, last, note))

    def lack(self, batches: int, rows: int = 0) -> None:
        """Count batches that no gate has counted, and their rows if known."""
        self.totals.batches_missing += batches
        self.totals.rows_missing += rows
        self._missed_s = self._teller.clock()


def _multiplies(plan: Node | None) -> bool:
    """Whether steps in front of a gate may add rows; true if unknown."""
    gates = [one for one in plan.walk() if one.operator == "CollectMetrics" and GATE in one.text] if plan else []
    return not gates or any(one.operator.startswith(_MULTIPLY) for gate in gates for one in gate.walk())


_logger = logging.getLogger("penstock")

#: Raise an alarm after this many batches in a row without a plan, although one was in force when they began.
UNJUDGED_BATCHES = 2
#: The time until a decided plan is on disk.
WRITTEN_S = 1.0
#: Time between two looks for other queries behind the same gate, and how long one that was found is remembered.
LOOK_S, REMEMBER_S = 10.0, 60.0


class Judged:
    """Checks how the batches of one query were judged."""

    def __init__(self, query: str, store: Store | None) -> None:
        self._query, self._store = query, store
        self._trouble: str | None = None
        self._unjudged = 0
        self._shedding_since_s: float | None = None
        self._looked_s: float | None = None
        self._bound: dict[str, float] = {}
        self._others: dict[str, float] = {}  # when another query was last seen to bind a batch

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms, as of the last batch."""
        own = () if self._trouble is None else (self._trouble,)
        return own + tuple(
            f"query {other} reads rows that this guard admits for query {self._query}: it keeps every row, and no "
            "report counts them; give it its own guard"
            for other in self._others
        )

    def look(self, version: int | None, start_s: float, plan: Plan | None, leased_s: float, note: str = "") -> None:
        """Check a batch that began then and was judged by this plan, or by none for this reason.

        The current plan was decided, or last renewed, at `leased_s`.
        """
        folder = "the guard's folder" if self._store is None else str(self._store.place)
        self._trouble, since_s = None, self._shedding_since_s
        # Whether a plan that sheds should have been found when the batch began; an unrenewed one should not.
        shedding = since_s is not None and start_s - leased_s <= LEASE_S and start_s > since_s + WRITTEN_S
        if version in WHY:
            why = WHY[version].format(folder=folder) + (f": {note}" if note else "")
            self._trouble = f"query {self._query} kept every row of a batch because {why}"
        elif version in (None, NO_PLAN, ANOTHERS) and shedding:
            self._unjudged += 1
        else:
            self._unjudged = 0
        if self._unjudged >= UNJUDGED_BATCHES:
            self._trouble = (
                f"query {self._query} keeps every row although a plan that sheds is in force: check that executors can "
                f"read the driver's folder {folder}, and that clocks are synchronized"
            )
        if plan is None or not plan.gates:
            self._shedding_since_s = None
        elif self._shedding_since_s is None:
            self._shedding_since_s = plan.decided_s

    def look_for_others(self, now_s: float) -> None:
        """Look for other queries behind the same gate, if the last look was a while ago."""
        if self._store is None or (self._looked_s is not None and 0.0 <= now_s - self._looked_s < LOOK_S):
            return
        first, self._looked_s = self._looked_s is None, now_s
        try:
            found = self._store.bound(self._query)
        except Exception as error:  # noqa: BLE001 - planning continues after any error
            _logger.warning("cannot check whether another query uses this guard's gate: %s", error)
            return
        for query, bound_s in found.items():
            # One that has ended, perhaps under another identity, binds nothing any more.
            if not first and bound_s > self._bound.get(query, 0.0):
                self._others[query] = now_s
        self._bound = found
        self._others = {one: seen_s for one, seen_s in self._others.items() if now_s - seen_s <= REMEMBER_S}
