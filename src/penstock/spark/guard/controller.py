"""The controller: one thread that closes the loop for a query. Progress in, Report, Plan, plan log out.

It fails safe. An error is told in one line, counted, and the loop goes on; a plan that sheds is only good for a lease,
which the controller renews; so if it dies, or cannot write, rows flow.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.control.batch_size import OffsetRatio
from penstock.core.control.policies import Recalling
from penstock.core.control.shed_alarms import ShedAlarms
from penstock.core.grouping.partition_costs import PartitionCosts
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.plan import Costs, Plan
from penstock.spark.feed import ProgressFeed
from penstock.spark.guard.account import ACCOUNT, Account
from penstock.spark.guard.judged import Judged
from penstock.spark.guard.liveness import NO_BATCH, Liveness
from penstock.spark.guard.misuse import is_gate_of, known_plan
from penstock.spark.plans.control_row import NO_PLAN, UNREADABLE, UNUSABLE
from penstock.spark.progress import arrival_trouble, partition_costs, report_of
from penstock.store import retention
from penstock.store.recent_reports import Recent
from penstock.store.report_log import ALIVE_S, Alarms, Alive, End, NoReports
from penstock.store.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.core.control.policies import Planner
    from penstock.messages.report import Report
    from penstock.spark.plans.places import Bindings, Plans, Store
    from penstock.spark.progress import Progress
    from penstock.store.report_log import Line, ReportSink

_logger = logging.getLogger("penstock")

#: Time between two looks at the query: a batch's plan should be there before the next batch reads it, 0.1 s later.
POLL_S = 0.03
#: A look costs a millisecond or more, so after a long batch looks are this share of its length apart. A batch is not
#: expected to end before the second share of it has passed; until then looks are rare.
LOOK_SHARE, QUIET_SHARE, QUIET_POLL_S = 0.02, 0.8, 0.25
#: After an error, wait longer.
RETRY_S = 1.0
#: Alarms of which only numbers have changed are kept again after so long: a journal has room for reports, too.
SAME_ALARMS_S = 60.0
#: So many different lines are remembered so as not to warn twice.
MOST_TOLD = 1_000
#: What the names of probes begin with.
PROBE = "penstock_probe_"
#: What is told when batches last as long as their trigger says, so that no plan can be made of how long they took.
REAL_TIME = (
    "in real-time mode nothing tells how long rows wait or what they cost, so this target cannot be held and every row "
    "is kept: take Throughput as the target, or another trigger"
)
#: A query about which nothing can be learned for so many looks in a row is lost.
LOST_AFTER = 120
#: Longest wait for a look that is under way, and then for the last plan, when the guard is stopped.
STOP_S = 2.0
STOPPED = "the guard was stopped"


class Dealing(NamedTuple):
    """What rows are dealt to partitions by: at which place of a plan, what is known, and what is in force so far."""

    place: str
    known: PartitionCosts
    in_force: Costs | None

    @classmethod
    def at(cls, place: str, partitions: int, newest: Plan | None) -> Dealing:
        """Go on from what the newest plan says of the place."""
        costs = newest.costs_at(place) if newest is not None else None
        return cls(place, PartitionCosts.of(costs, partitions), costs)


class Controller:
    """Watches one query and plans for it until it ends or the controller is stopped."""

    def __init__(  # noqa: PLR0913 - the parts it works on, and what it must know of them
        self,
        query: StreamingQuery,
        planner: Planner,
        plans: Plans,
        bindings: Bindings,
        *,
        names: tuple[str | None, str],
        dry: bool,
        by_length: bool,
        clock: Callable[[], float],
        on_report: Callable[[Report], None],
        dealing: Dealing | None = None,
        kept_in: ReportSink | None = None,
        salt: int | None = None,
        store: Store | None = None,
        guard: str | None = None,
        shed: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        """Watch the query.

        `names` are those of the gate's and the probe's observed metrics; there need not be a gate. `by_length` says
        that the planner goes by how long work takes. `dealing` says what rows are dealt to partitions by, if they
        are. `kept_in` is where reports are kept for people to look at. `salt` is that of the gate's coins: plans carry
        it, whatever the policy's seed, so that they tell which rows passed. `store` is where plans are kept, `guard`
        the name of the guard whose gate it is. `shed` says how many rows of a batch are in quarantine.
        """
        self._query, self._planner, self._plans, self._bindings = query, planner, plans, bindings
        self._gate, self._probe = names
        self._dry, self._by_length, self._clock, self._on_report = dry, by_length, clock, on_report
        self._dealing = dealing
        self._kept_in = kept_in or NoReports()
        self._salt, self._guard = salt, guard
        self._judged = Judged(str(query.id), store)
        self._alarms_kept = Alarms(0.0)
        self._began_s = self._kept_s = clock()  # when it began, and when something was last kept
        # A gate that holds a rate does so before there is a plan, until it finds one of this run.
        self._held_at_start = names[0] is not None and not by_length
        self._costs = dealing.in_force if dealing else None  # what every plan carries, like the ratio
        self._ratio = OffsetRatio(None)
        self._real_time = False
        self._query_id = str(query.id)
        self._before: Progress | None = None
        self._feed = ProgressFeed(query)
        self._pending: deque[Progress] = deque()  # batches that have ended and are to be taken in
        self._in_force: Plan | None = None
        self._unwritten: Plan | None = None  # decided, and not in the log yet
        self._renewed_s = 0.0  # when the plan in force was decided or last renewed
        self._purged: int | None = None  # the batch at which old entries were deleted last
        self._understood = True  # whether the last batch was taken in without an error
        self._liveness = Liveness(query, clock())
        self._told: set[str] = set()
        self._shed_alarms = ShedAlarms()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{query.id}", daemon=True)
        self.errors = 0
        self.alarms: tuple[str, ...] = ()
        self.reports = Recent()
        self.totals = Totals()
        self._account = Account(
            self._query_id,
            self.totals,
            bindings,
            accounted=self._kept_in.accounted(),
            tell=self._tell,
            keep=self._keep,
            clock=clock,
            plan=lambda: known_plan(query),
            shed=shed,
        )

    def start(self) -> None:
        """Begin, with what an earlier run measured."""
        self._recall()
        self._thread.start()

    def _recall(self) -> None:
        """Let the planner learn from the last reports, so that the first batches are planned for."""
        if not isinstance(self._planner, Recalling) or self._in_force is not None:
            return
        try:
            newest = self._plans.latest()
            if newest is not None and newest.query == self._query_id:
                self._ratio = OffsetRatio(newest.rows_per_offset)
            plan = self._planner.recall(self._kept_in.recent(), self._clock())
            if plan is not None:
                self._write(plan)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query must not suffer
            self.errors += 1
            self._tell(f"the last reports of query {self._query_id} cannot be learned from: {_line(error)}")

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End within a few seconds, also while Spark does not answer; the query then keeps every row."""
        self._stopping.set()  # No plan that sheds is written from now on.
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            return
        self._thread.join(STOP_S)
        if self._thread.is_alive():  # It waits for Spark, and ends when Spark answers.
            release = threading.Thread(target=self._let_go, args=(STOPPED,), daemon=True)
            release.start()
            release.join(STOP_S)

    def _run(self) -> None:
        try:
            self._loop()
        finally:
            now_s = self._clock()
            self._keep_alarms(now_s, again_after_s=0.0)
            self._keep(End(now_s, STOPPED if self._stopping.is_set() else "over"))

    def _loop(self) -> None:
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
            except Exception as error:  # noqa: BLE001 - whatever it is, the query must not suffer
                self.errors += 1
                self._tell(f"the controller of query {self._query_id} met an error and goes on: {_line(error)}")
                wait_s = RETRY_S
            if unanswered >= LOST_AFTER:
                self._tell(f"query {self._query_id} has not answered {unanswered} times in a row and is given up")
                break
            self._stopping.wait(wait_s)
        self._let_go(STOPPED)
        self._look_once_more()

    def _look_once_more(self) -> None:
        """A batch may have ended since the last look."""
        try:
            self.step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the query must not suffer
            self.errors += 1
            self._tell(f"the controller of query {self._query_id} met an error at its last look: {_line(error)}")

    def _until_next_look_s(self) -> float:
        last = self._before
        if last is None:
            return POLL_S
        expected_s = last.start_s + (1.0 + QUIET_SHARE) * last.duration_s
        return min(max(expected_s - self._clock(), POLL_S, LOOK_SHARE * last.duration_s), QUIET_POLL_S)

    def step(self) -> None:
        """Look at the query once."""
        if self._unwritten is not None:
            self._write(replace(self._unwritten, decided_s=self._clock()))
        self._look_for_news()
        while self._pending:  # after an error the others are taken in at the next look
            progress = self._pending.popleft()
            self._understood = False
            report = None if progress.empty else self._take_in(progress)
            if report is None:
                self._keep(Alive(self._clock(), progress.batch))
                self._understood = True
                continue
            try:
                self._plan_by(report, progress)
                self._understood = True
            finally:
                self._on_report(report)
        self._purge()
        now_s = self._clock()
        self._watch_idleness(now_s)
        self._watch_progress(now_s)
        self._keep_alarms(now_s)
        if not 0.0 <= now_s - self._kept_s < ALIVE_S:
            self._keep(Alive(now_s))
        plan = self._in_force
        # Who does not understand what happens does not renew: the lease runs out, and rows flow.
        if self._understood and plan is not None and plan.leased and now_s - self._renewed_s > LEASE_S / 3.0:
            self._plans.renew(plan.version, now_s)
            self._renewed_s = now_s

    def _look_for_news(self) -> None:
        """Have the batches that have ended since the last look taken in, oldest first."""
        news = self._feed.news()
        self._liveness.saw(news.newest, self._clock())
        self._pending.extend(news.batches)
        self._account.check(news)

    def _take_in(self, progress: Progress) -> Report | None:
        before, self._before = self._before, progress
        if self._gate is not None and not self._has_gate(progress):
            self._tell(f"query {self._query_id} has no gate of this guard: put .transform(guard.admit) into it")
            self._account.miss_gate(progress)
            return None
        if self._gate is None and self._probe not in progress.observed:
            self._tell(
                f"query {self._query_id} measures nothing for this grouping, so rows are dealt in turn: put "
                ".transform(grouping.measured(...)) behind it"
            )
            return None
        if self._probe not in progress.observed and any(name.startswith(PROBE) for name in progress.observed):
            self._tell(f"query {self._query_id} is measured by another guard: take admit and measured of the same one")
        try:
            report = self._report(progress, before, self._judged_by(progress))
        except Exception as error:
            self._account.miss(progress.batch, progress.batch, f"the guard met an error over it: {_line(error)}")
            raise
        if report is not None:
            self._ratio.learn(report.rows_in, progress.offsets)
            self.reports.append(report)
            self.totals.add(report)
            self._keep(report)
            self._account.compare(progress, report)
        return report

    def _plan_by(self, report: Report, progress: Progress) -> None:
        """Plan what follows from a batch, and say what a person should hear of."""
        if self._plans_blindly(progress):
            self.alarms = (REAL_TIME,)
        else:
            self._decide(report, progress)
            trouble = None if self._gate is None else arrival_trouble(progress, self._gate_names(), self._probe)
            found = [*self._planner.alarms, *self._shed_alarms.after(report), *self._judged.alarms]
            self.alarms = tuple(found if trouble is None else [*found, trouble])
        for alarm in self.alarms:
            self._tell(alarm)

    def _gate_names(self) -> Iterable[str]:
        """What the gates of the query give their counts under."""
        return () if self._gate is None else (self._gate,)

    def _has_gate(self, progress: Progress) -> bool:
        """Whether the batch was judged by the gate of this controller."""
        return self._gate is not None and is_gate_of(self._guard, progress.observed.get(self._gate))

    def _plan_version(self, progress: Progress) -> int | None:
        """The version of the plan that judged the batch, by the gate's own word."""
        version: int | None = progress.observed[self._gate].get("plan") if self._gate else None
        return version

    def _report(self, progress: Progress, before: Progress | None, plan: Plan | None) -> Report | None:
        """The batch as a Report; None if no row came to the gate."""
        return report_of(progress, before, gate=self._gate, probe=self._probe, plan=plan, dry=self._dry)

    def _decide(self, report: Report, progress: Progress) -> None:
        """Write a plan if rows are to be judged, or dealt, in another way than before."""
        decided = self._planner.decide(report, self._clock())
        news = None
        if self._dealing is not None:
            self._dealing.known.learn(partition_costs(progress, self._probe))
            news = self._dealing.known.news(self._costs, self._dealing.place)
        if news is not None:
            self._costs = news
            if decided is None:
                decided = self._in_force or Plan.keep_all(0, "by_cost", self._clock())
                decided = replace(decided, decided_s=self._clock(), note="costs learned")
        plan = self._in_force
        if decided is None and plan is not None and plan.fits and self._ratio.differs(plan.rows_per_offset):
            decided = replace(plan, decided_s=self._clock(), note="rows for each offset learned")
        if decided is not None:
            self._write(decided)

    def _plans_blindly(self, progress: Progress) -> bool:
        """Whether a plan would follow from lengths that say nothing; one made before that was known is taken back."""
        if not (self._by_length and progress.real_time) or self._real_time:
            return self._real_time
        self._real_time = True
        self._let_go("real-time mode")
        return True

    def _judged_by(self, progress: Progress) -> Plan | None:
        """The plan that judged a batch, by the gate's own word; if there was trouble, that is told."""
        if self._gate is None:
            bound = self._bindings.get(progress.batch)
            return None if bound is None or bound.plan_version is None else self._plans.get(bound.plan_version)
        version = self._plan_version(progress)
        note = ""
        if version in (UNREADABLE, UNUSABLE):
            bound = self._bindings.get(progress.batch)
            note = (bound.note if bound else "") or "see the log of the executors"
        self._judged.look(version, progress.start_s, self._in_force, self._renewed_s, self._clock(), note)
        if version is None or version == NO_PLAN:
            self._compare_clocks(progress.batch)
            return None
        if version < 0:
            self.errors += 1
            return None
        plan = self._in_force if self._in_force and self._in_force.version == version else self._plans.get(version)
        if plan is None:
            self.errors += 1
            self._tell(f"query {self._query_id}: plan {version} is gone from its log, so its reasons cannot be told")
        return plan

    def _compare_clocks(self, batch: int) -> None:
        """Tell if a plan did not act because an executor took it for old."""
        plan = self._in_force
        if plan is None or not plan.gates:
            return  # Only a plan that sheds has a lease; and with Spark Connect a look at a binding has its price.
        bound = self._bindings.get(batch)
        if bound and bound.bound_s - self._renewed_s > LEASE_S:
            self.errors += 1
            self._tell(
                f"query {self._query_id} kept every row of a batch because its plan was older than {LEASE_S:.0f} s by "
                "the executor's clock: set the clocks of driver and executors alike"
            )

    def _purge(self) -> None:
        """Now and then delete the bindings of batches long done, and the plans that only they needed."""
        batch = self._before.batch if self._before else None
        if batch is not None and (self._purged is None or batch - self._purged >= retention.PURGE_EVERY):
            self._purged = batch
            try:
                retention.purge_bindings(self._bindings, batch, self._clock())
                retention.purge_plans(self._plans, self._bindings.oldest())
            except (OSError, PenstockError) as error:
                self._tell(f"old plans and bindings of query {self._query_id} cannot be deleted: {_line(error)}")

    def _keep(self, message: Line) -> None:
        self._kept_s = self._clock()
        self._kept_in.write(message)

    def _keep_alarms(self, now_s: float, again_after_s: float = SAME_ALARMS_S) -> None:
        """Keep the alarms if there are others, or none any more; if only numbers are others, not before long."""
        kept, found = self._alarms_kept, Alarms(now_s, self.alarms, self.errors)
        if (found.alarms, found.errors) == (kept.alarms, kept.errors):
            return
        if _gists(found) != _gists(kept) or now_s - kept.told_s >= again_after_s:
            self._alarms_kept = found
            self._keep(found)

    def _watch_progress(self, now_s: float) -> None:
        """Raise an alarm while a batch takes very long, or while batches are in no report."""
        others = [alarm for alarm in self.alarms if not alarm.startswith((NO_BATCH, ACCOUNT))]
        stalled = self._liveness.stalled(now_s)
        found = [*self._account.alarms, *([] if stalled is None else [stalled])]
        self.alarms = (*others, *found)  # Replaced at once: a reader must not see a persisting alarm disappear.
        for alarm in found:
            self._tell(alarm)

    def _watch_idleness(self, now_s: float) -> None:
        """When input has ended, let go: the next row to come must not meet the gate of an overload long gone."""
        if self._in_force is None or not self._in_force.gates:
            return
        if self._liveness.input_ended(now_s):
            # A planner that does not go by load lets go of nothing: its plan stays in force.
            released = self._planner.release(0, now_s, "no input")
            if released is not None:
                self._write(replace(released, costs=self._in_force.costs))

    def _let_go(self, note: str) -> None:
        """Keep every row from now on, whatever the planner says: nobody will plan any more."""
        try:
            newest = self._plans.latest()
            held = self._held_at_start and (newest is None or newest.decided_s < self._began_s)
            newest = newest or Plan.keep_all(0, "start", 0.0)
            if held or newest.gates or newest.fits is not None:
                released = self._planner.release(0, self._clock(), note)
                released = released or Plan(0, newest.policy, self._clock(), newest.salt, note=note)
                self._write(replace(released, costs=newest.costs, fits=None))
        except (OSError, PenstockError) as error:
            self.errors += 1
            self._tell(f"the last plan of query {self._query_id} could not be written: {_line(error)}")

    def _write(self, plan: Plan) -> None:
        """Put the plan into the log under the next free version, with the costs that rows are dealt by."""
        if plan.gates and self._stopping.is_set():
            return
        plan = plan if self._costs is None else replace(plan, costs=(self._costs,))
        plan = replace(plan, query=self._query_id, salt=plan.salt if self._salt is None else self._salt)
        plan = replace(plan, rows_per_offset=self._ratio.value)
        self._unwritten = plan
        version = self._plans.next_version() if self._in_force is None else self._in_force.version + 1
        while not self._plans.add(version, numbered := replace(plan, version=version)):
            version += 1
        self._in_force, self._unwritten, self._renewed_s = numbered, None, numbered.decided_s

    def _tell(self, line: str) -> None:
        """Warn, once, whatever the numbers in the line."""
        if (gist := _gist(line)) not in self._told:
            if len(self._told) >= MOST_TOLD:  # lines that differ each time, by a path, say
                self._told.clear()
            self._told.add(gist)
            _logger.warning("%s", line)


def _gist(line: str) -> str:
    """A line whatever its numbers."""
    return re.sub(r"\d[\d.]*", "#", line)


def _gists(told: Alarms) -> tuple[list[str], bool]:
    return [_gist(line) for line in told.alarms], told.errors > 0


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
