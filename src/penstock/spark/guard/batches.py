"""The batches of a query, read one after the other: each becomes a Report, and one that cannot is accounted for."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.core.control.shed_alarms import ShedAlarms
from penstock.core.loop.leases import LEASE_S
from penstock.spark.feed import ProgressFeed
from penstock.spark.guard.account import Account
from penstock.spark.guard.judged import Judged
from penstock.spark.guard.misuse import known_plan
from penstock.spark.guard.teller import line_of
from penstock.spark.plans.control_row import NO_PLAN, UNREADABLE, UNUSABLE
from penstock.spark.progress import arrival_trouble
from penstock.store.recent_reports import Recent
from penstock.store.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.messages.plan import Plan
    from penstock.messages.report import Report
    from penstock.spark.guard.reading import Reading
    from penstock.spark.guard.teller import Teller
    from penstock.spark.plans.places import Store
    from penstock.spark.progress import Progress
    from penstock.store.driver import Driver
    from penstock.store.retention import Bindings

#: What the names of probes begin with.
PROBE = "penstock_probe_"


class Batches:
    """Reads the batches of one query.

    Attributes:
        last: The batch that was read last.
        reports: The last reports.
        totals: What all reports add up to.
    """

    def __init__(
        self,
        query: StreamingQuery,
        reading: Reading,
        driver: Driver,
        bindings: Bindings,
        teller: Teller,
        clock: Callable[[], float],
        *,
        store: Store | None,
        shed: Callable[[int], int | None],
    ) -> None:
        """Read this query; `store` is where plans are kept, `shed` says how many rows of a batch are in quarantine."""
        self._query, self._reading, self._driver, self._teller = str(query.id), reading, driver, teller
        self._bindings, self._clock = bindings, clock
        self._feed = ProgressFeed(query)
        self._pending: deque[Progress] = deque()  # batches that have ended and are to be read
        self._judged = Judged(self._query, store)
        self._shed_alarms = ShedAlarms()
        self.last: Progress | None = None
        self.reports = Recent()
        self.totals = Totals()
        self.account = Account(
            self._query,
            self.totals,
            bindings,
            accounted=teller.kept_in.accounted(),
            tell=teller.tell,
            keep=teller.keep,
            clock=clock,
            plan=lambda: known_plan(query),
            shed=shed,
        )

    def look(self) -> Progress | None:
        """Find the batches that have ended since the last look; the newest trigger."""
        news = self._feed.news()
        self._pending.extend(news.batches)
        self.account.check(news)
        return news.newest

    def next(self) -> Progress | None:
        """The oldest batch that was not read yet; after an error the others are read at the next look."""
        return self._pending.popleft() if self._pending else None

    def alarms(self, progress: Progress, report: Report) -> list[str]:
        """That too much is shed, or what is wrong with how rows of a batch are judged, or with their arrival."""
        found = [*self._shed_alarms.after(report), *self._judged.alarms]
        if self._reading.gated:
            found.append(arrival_trouble(progress, self._reading.gates(), self._reading.probe) or "")
        return [line for line in found if line]

    def read(self, progress: Progress) -> Report | None:
        """A batch as a Report; None if it tells nothing."""
        if progress.empty:
            return None
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
            self.reports.append(report)
            self.totals.add(report)
            self._teller.keep(report)
            self.account.compare(progress, report)
        return report

    def _miss(self, progress: Progress) -> None:
        if self._reading.gated:
            self._teller.tell(f"query {self._query} has no gate of this guard: put .transform(guard.admit) into it")
            self.account.miss_gate(progress)
        else:
            self._teller.tell(
                f"query {self._query} measures nothing for this grouping, so rows are dealt round-robin: add "
                ".transform(grouping.measured(...)) behind it"
            )

    def _judged_by(self, progress: Progress) -> Plan | None:
        """The plan that judged a batch, by the gate's own word; if there was trouble, that is told."""
        bindings, loop = self._bindings, self._driver.loop
        if not self._reading.gated:
            bound = bindings.get(progress.batch)
            return None if bound is None or bound.plan_version is None else self._driver.plan(bound.plan_version)
        version = self._reading.version(progress)
        note = ""
        if version in (UNREADABLE, UNUSABLE):
            bound = bindings.get(progress.batch)
            note = (bound.note if bound else "") or "see the log of the executors"
        self._judged.look(version, progress.start_s, loop.in_force, loop.renewed_s, self._clock(), note)
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
        """Tell if a plan did not act because an executor took it for old."""
        plan = self._driver.loop.in_force
        if plan is None or not plan.gates:
            return  # Only a plan that sheds has a lease; and with Spark Connect a look at a binding has its price.
        bound = self._bindings.get(batch)
        if bound and bound.bound_s - self._driver.loop.renewed_s > LEASE_S:
            self._teller.error(
                f"query {self._query} kept every row of a batch because its plan was older than {LEASE_S:.0f} s by the "
                "executor's clock: synchronize the clocks of driver and executors"
            )
