"""The controller: one thread that closes the loop for a query. It turns progress into events for the loop's driver.

It fails safe: an error is logged in one line and counted, and the loop continues. A plan that sheds acts only for a
lease, which the loop renews; if the controller dies, or cannot write, every row is kept.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.control.cores import DOWN_S
from penstock.core.control.policies import Planner
from penstock.core.loop.events import BatchEnded, Misread, Passed
from penstock.core.loop.machine import Loop
from penstock.messages.plan import Binding
from penstock.messages.report import Report
from penstock.spark.guard.batches import ACCOUNT, Batches
from penstock.spark.guard.reading import Dealing, Reading
from penstock.spark.guard.teller import Teller, line_of
from penstock.spark.plans.remote import RemotePlans, Store
from penstock.spark.progress import Observed, Progress
from penstock.store import retention
from penstock.store.driver import Driver
from penstock.store.logs import Entries, PlanLog
from penstock.store.recent_reports import Recent, Totals
from penstock.store.report_log import Alive, End, ReportSink

#: The input has ended when there was no data for this long.
IDLE_S = 2.0
#: A batch that takes this long, and this many times as long as the last one, raises an alarm.
STALLED_S, STALLED_TIMES = 60.0, 3.0
NO_BATCH = "no batch of query"


class Liveness:
    """Records the last progress of a query, and the start of its idle time."""

    def __init__(self, query: StreamingQuery, now_s: float) -> None:
        self._query = query
        self._newest: Progress | None = None
        self._sign_s = now_s  # when it last showed progress
        self._active_since_s: float | None = now_s  # since when a trigger has been active without progress
        self._idle_since_s: float | None = None
        self._rows_until_s = math.inf  # when the last batch with rows ended

    def saw(self, newest: Progress | None, now_s: float) -> None:
        """Process the newest trigger."""
        if newest is not None and (self._newest is None or newest.start_s != self._newest.start_s):
            self._newest, self._sign_s, self._active_since_s = newest, now_s, None
            if not newest.empty:
                self._rows_until_s = newest.start_s + newest.duration_s

    @property
    def without_rows_s(self) -> float:
        """The time from the last batch with rows to the newest trigger; 0 or less if that had rows."""
        return -math.inf if self._newest is None else self._newest.start_s - self._rows_until_s

    def stalled(self, now_s: float) -> str | None:
        """The alarm that no batch has ended for too long; None otherwise."""
        if now_s - self._sign_s <= STALLED_S:
            return None
        status: dict[str, Any] = self._query.status
        if not status.get("isTriggerActive"):
            self._active_since_s = None
            return None
        # Between two triggers nothing is late: only a trigger that was seen at work counts.
        self._active_since_s = now_s if self._active_since_s is None else self._active_since_s
        waited_s = now_s - self._active_since_s
        if waited_s <= max(STALLED_S, STALLED_TIMES * (self._newest.duration_s if self._newest else 0.0)):
            return None
        # Without a changing number, so that it stays the same alarm.
        since = datetime.fromtimestamp(self._active_since_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{NO_BATCH} {self._query.id} has ended since {since}; Spark says: {status.get('message')}"

    def input_ended(self, now_s: float) -> bool:
        """Whether the query has been idle for a while; once each time."""
        status: dict[str, Any] = self._query.status
        if status.get("isDataAvailable") or status.get("isTriggerActive"):
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = now_s
        elif now_s - self._idle_since_s > IDLE_S:
            self._idle_since_s = None
            return True
        return False


#: Time between two polls of the query: a plan should be stored before the next batch reads it, 0.1 s later.
POLL_S = 0.03
#: A poll costs a millisecond or more, so after a long batch polls are this share of its length apart. A batch is not
#: expected to end before the second share of it has passed; until then polls are rare.
LOOK_SHARE, QUIET_SHARE, QUIET_POLL_S = 0.02, 0.8, 0.25
#: After an error, wait longer.
RETRY_S = 1.0
#: The alarm if batches last as long as their trigger, so that their length is no basis for plans.
REAL_TIME = (
    "real-time mode reports neither waits nor costs of rows, so this target cannot be held and every row is kept: use "
    "Throughput as the target, or another trigger"
)
#: After this many failed polls in a row a query is lost.
LOST_AFTER = 120
#: Longest wait for a running poll, and then for the last plan, when the guard is stopped.
STOP_S = 2.0
STOPPED = "the guard was stopped"


class Controller:
    """Watches one query and plans for it until it ends or the controller is stopped.

    Attributes:
        alarms: Alarms that need an operator.
    """

    def __init__(  # noqa: PLR0913 - the parts it works on, and what it must know of them
        self,
        query: StreamingQuery,
        planner: Planner,
        plans: PlanLog | RemotePlans,
        bindings: Entries[Binding],
        reading: Reading,
        *,
        by_length: bool,
        clock: Callable[[], float],
        on_report: Callable[[Report], None],
        on_end: Callable[[], None] = lambda: None,
        dealing: Dealing | None = None,
        kept_in: ReportSink | None = None,
        salt: int | None = None,
        store: Store | None = None,
        shed: Callable[[int], int | None] = lambda _: None,
        inside: Observed = lambda _: {},
    ) -> None:
        """Watch the query.

        `by_length` is true if the planner uses the length of work. `dealing` learns the costs by which rows are dealt
        to partitions, if they are. `kept_in` stores reports for inspection. `salt` is that of the gate's hash: plans
        carry it, so that they determine which rows passed. `store` holds the plans. `shed` counts the rows of a batch
        in quarantine. `inside` has the counts of a gate in a function for `foreachBatch`.
        """
        self._query, self._clock, self._on_report, self._dealing = query, clock, on_report, dealing
        self._blind = False if by_length else None  # whether lengths are hidden; None if the planner needs none
        self._teller = Teller(kept_in, clock)
        loop = Loop(
            planner,
            str(query.id),
            salt=salt,
            costs=dealing.costs if dealing else None,
            held_at_start=reading.gated and not by_length,
        )
        purge = partial(retention.purge, plans, bindings)
        self._driver = Driver(loop, plans, clock, purge, self._teller.tell)
        self._batches = Batches(
            query, reading, self._driver, bindings, self._teller, store=store, shed=shed, inside=inside
        )
        self._liveness = Liveness(query, clock())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(on_end,), name=f"penstock-{query.id}", daemon=True)
        self.alarms: tuple[str, ...] = ()

    @property
    def reports(self) -> Recent:
        """The last reports."""
        return self._batches.reports

    @property
    def totals(self) -> Totals:
        """The sums of all reports."""
        return self._batches.account.totals

    @property
    def cores_wanted(self) -> int | None:
        """The cores that would hold the target with nothing shed; None if unknown.

        Batches without rows have no report, so the planner does not notice that no rows come.
        """
        wanted = self._driver.loop.cores_wanted
        return 1 if wanted is not None and self._liveness.without_rows_s > DOWN_S else wanted

    @property
    def errors(self) -> int:
        """Errors that were caught."""
        return self._teller.errors

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin with the measurements of an earlier run."""
        self.begin()
        self._thread.start()

    def begin(self) -> None:
        """Start the loop from the newest plan and the last reports, so that the first batches are planned."""
        try:
            self._driver.begin(self._teller.kept_in.recent())
        except Exception as error:  # noqa: BLE001 - the query must not suffer from any error
            self._teller.error(f"the last reports of query {self._query.id} cannot be used: {line_of(error)}")

    def stop(self) -> None:
        """End within a few seconds, also while Spark does not answer; the query then keeps every row."""
        self._stopping.set()
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            return
        self._thread.join(STOP_S)
        if self._thread.is_alive():  # It waits for Spark and ends after Spark's answer.
            release = threading.Thread(target=self._let_go, args=(STOPPED,), daemon=True)
            release.start()
            release.join(STOP_S)

    def _run(self, on_end: Callable[[], None]) -> None:
        try:
            self._watch()
        finally:
            self._teller.keep_alarms(self.alarms, again_after_s=0.0)
            self._teller.keep(End(self._clock(), STOPPED if self._stopping.is_set() else "over"))
            on_end()

    def _watch(self) -> None:
        unanswered = 0
        while not self._stopping.is_set():
            unanswered += 1
            try:
                active = self._query.isActive
                unanswered = 0
                self.step()
                if not active:
                    return
                wait_s = self._until_next_look_s()
            except Exception as error:  # noqa: BLE001 - the query must not suffer from any error
                self._teller.error(
                    f"the controller of query {self._query.id} caught an error and continues: {line_of(error)}"
                )
                wait_s = RETRY_S
            if unanswered >= LOST_AFTER:
                self._teller.tell(
                    f"query {self._query.id} has not answered {unanswered} times in a row; the guard stops watching it"
                )
                break
            self._stopping.wait(wait_s)
        self._let_go(STOPPED)
        try:
            self.step()  # A batch may have ended since the last poll.
        except Exception as error:  # noqa: BLE001 - the query must not suffer from any error
            self._teller.error(
                f"the controller of query {self._query.id} caught an error at its last poll: {line_of(error)}"
            )

    def _until_next_look_s(self) -> float:
        last = self._batches.last
        if last is None:
            return POLL_S
        expected_s = last.start_s + (1.0 + QUIET_SHARE) * last.duration_s
        return min(max(expected_s - self._clock(), POLL_S, LOOK_SHARE * last.duration_s), QUIET_POLL_S)

    def step(self) -> None:
        """Poll the query once."""
        with self._misread_unless_done():
            self._liveness.saw(self._batches.look(), self._clock())
        while (progress := self._batches.next()) is not None:
            self._take_in(progress)
        now_s = self._clock()
        in_force = self._driver.loop.in_force
        idle = in_force is not None and bool(in_force.gates) and self._liveness.input_ended(now_s)
        self._watch_progress(now_s)
        self._teller.keep_alarms(self.alarms)
        self._teller.keep_alive()
        self._driver.handle(Passed(now_s, idle))

    def _take_in(self, progress: Progress) -> None:
        report, rides = None, self._teller.kept_in.rides
        try:
            with self._misread_unless_done():
                report = self._batches.read(progress)
                if report is None:
                    self._teller.keep(Alive(self._clock(), progress.batch))
                    self._driver.handle(BatchEnded(self._clock(), progress.batch))
                else:
                    if rides:
                        self._teller.keep(report)
                    self._plan_by(report, progress)
        finally:
            if report is not None:
                if not rides:  # The next batch waits for the plan, not for the report.
                    self._teller.keep(report)
                self._on_report(report)

    @contextmanager
    def _misread_unless_done(self) -> Iterator[None]:
        """Notify the loop if progress cannot be interpreted."""
        try:
            yield
        except Exception:
            self._driver.handle(Misread(self._clock()))
            raise

    def _plan_by(self, report: Report, progress: Progress) -> None:
        """Plan what follows from a batch, and raise alarms."""
        if self._blind is False and progress.real_time:
            # Without usable lengths there is no plan; an earlier one is withdrawn.
            self._blind = True
            self._let_go("real-time mode")
        if self._blind:
            self.alarms = (REAL_TIME,)
            self._driver.handle(BatchEnded(self._clock(), progress.batch))
        else:
            costs = None if self._dealing is None else self._dealing.news(progress)
            ended = BatchEnded(self._clock(), progress.batch, report, costs, report.rows_in, progress.offsets)
            try:
                self._driver.handle(ended)
            finally:  # A store that cannot be written is often why a batch was not judged.
                self.alarms = (*self._driver.loop.alarms, *self._batches.alarms(progress, report))
        for alarm in self.alarms:
            self._teller.tell(alarm)

    def _watch_progress(self, now_s: float) -> None:
        """Raise an alarm while a batch takes very long, or while batches are in no report."""
        others = [alarm for alarm in self.alarms if not alarm.startswith((NO_BATCH, ACCOUNT))]
        stalled = self._liveness.stalled(now_s)
        found = [*self._batches.account.alarms, *([] if stalled is None else [stalled])]
        self.alarms = (*others, *found)  # Replaced at once: a reader must not see a persisting alarm disappear.
        for alarm in found:
            self._teller.tell(alarm)

    def _let_go(self, note: str) -> None:
        """Keep every row from now on, because planning ends."""
        try:
            self._driver.stop(note)
        except Exception as error:  # noqa: BLE001 - the thread has more to say
            self._teller.error(f"the last plan of query {self._query.id} could not be written: {line_of(error)}")
