"""A guarded query as the page shows it: from the plans and the journal of reports in its guard's folder."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.control.bucket_costs import BUCKETS, CHEAPEST_S, BucketCosts, by_bucket
from penstock.core.control.planner import SOURCE
from penstock.errors import PenstockError
from penstock.federation.account import ACCOUNT
from penstock.messages.report import Report
from penstock.store.journal import Tail, at
from penstock.store.logs import PlanLog
from penstock.store.recent_reports import Totals
from penstock.store.report_log import ENDING, FOLDER, Alarms, Alive, End, Missing, Watch, line_of
from penstock.web import sentences
from penstock.web.followed import Followed, Json

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.messages.plan import KeepTable, Plan

#: How many of the newest plans are read from a new log.
MOST_PLANS = 300


class PlanTail:
    """The plans of a log that another process writes, read-only, and at each call the new ones.

    `restarts` counts how often the log was deleted and rewritten.
    """

    def __init__(self, folder: Path) -> None:
        self.log = PlanLog(folder, make=False)  # a deleted folder must not be created again
        self.restarts = 0
        self._last: tuple[int, int] | None = None  # version, and what the system calls its file

    def news(self) -> list[Plan]:
        """Plans since the last call, oldest first; raises `PenstockError` if the folder cannot be read."""
        versions = self.log.versions()
        if self._last is not None and self._file(self._last[0]) != self._last[1]:
            self.restarts += 1
            self._last = None
        seen = -1 if self._last is None else self._last[0]
        new = [version for version in versions if version > seen][-MOST_PLANS:]
        if new and (file := self._file(new[-1])) is not None:
            self._last = new[-1], file
        return [plan for version in new if (plan := self.log.get(version))]

    def _file(self, version: int) -> int | None:
        try:
            return (self.log.folder / f"{version:020d}.plan").stat().st_ino
        except OSError:
            return None


def classes(costs: BucketCosts, table: KeepTable | None) -> list[dict[str, Any]]:
    r"""The classes of keys, cheapest first; none before the first measurement.

    Key buckets are grouped by cost per row, in octaves from a microsecond up: $k = \lfloor \log_2(w / 1\,\mu s)
    \rfloor$. A million keys make a dozen classes.

    >>> costs = BucketCosts()
    >>> costs.add(np.array([7, 9]), np.array([0.001, 0.004]), np.array([1.0, 1.0]))
    >>> [(one["from_s"], one["rows"], one["work"], one["kept"]) for one in classes(costs, None)]
    [(0.000512, 0.5, 0.2, 1.0), (0.002048, 0.5, 0.8, 1.0)]
    """
    seen = np.flatnonzero(costs.rows > 0.0)
    if not len(seen):
        return []
    each_s, weight = costs.costs_s()[seen], costs.weight[seen]
    octaves = np.floor(np.log2(np.maximum(each_s, CHEAPEST_S) / CHEAPEST_S)).astype(np.int64)
    keep = (np.ones(BUCKETS) if table is None else by_bucket(table.keep))[seen]
    work = weight * each_s
    found = []
    for octave in np.unique(octaves).tolist():
        inside = octaves == octave
        rows = float(weight[inside].sum())
        found.append(
            {
                "from_s": round(CHEAPEST_S * 2.0**octave, 9),
                "to_s": round(CHEAPEST_S * 2.0 ** (octave + 1), 9),
                "buckets": int(inside.sum()),
                "rows": round(rows / float(weight.sum()), 4),
                "work": round(float(work[inside].sum()) / max(float(work.sum()), 1e-300), 4),
                "kept": round(float(keep[inside] @ weight[inside]) / rows, 4) if rows > 0.0 else 1.0,
            }
        )
    return found


#: Costs are merged over this many of the last reports with costs.
COST_REPORTS = 6
#: This many of the last reports are kept.
RECENT_REPORTS = 40
#: This many of the last watches are kept, for questions about their batches.
MOST_WATCHES = 100
#: This many of the last starts, and of the last gaps between reports, are shown.
MOST_STARTS, MOST_MISSING = 50, 1_000
#: The period that the verdict covers.
RECENT_S = 10.0
#: Why a batch between two guards may have no report.
UNSEEN = "it had no rows, or it ended while no guard was watching"


@dataclass
class Guards:
    """The guard that writes the journal, and those before it."""

    watch: Watch | None = None
    ended: End | None = None
    alarms: Alarms = field(default_factory=lambda: Alarms(0.0))
    alive: Alive | None = None  #: the guard's last message on it since its start
    starts: list[float] = field(default_factory=list)
    #: Each watch with its first batch.
    watches: deque[tuple[int, Watch]] = field(default_factory=lambda: deque(maxlen=MOST_WATCHES))

    def start(self, watch: Watch) -> None:
        """A guard has started."""
        self.watch, self.ended, self.alarms, self.alive = watch, None, Alarms(watch.began_s), None
        self.starts = [*self.starts[-MOST_STARTS + 1 :], watch.began_s]

    def report(self, batch: int) -> None:
        """The guard has reported a batch."""
        self.ended = None
        if self.watch is not None and (not self.watches or self.watches[-1][1] is not self.watch):
            self.watches.append((batch, self.watch))


@dataclass
class Batches:
    """What the reports of a query add up to, and batches without a report."""

    totals: Totals = field(default_factory=Totals)
    first_s: float | None = None  #: when the first of the summed batches began
    recent: deque[Report] = field(default_factory=lambda: deque(maxlen=RECENT_REPORTS))
    sketches: deque[bytes] = field(default_factory=lambda: deque(maxlen=COST_REPORTS))
    missing: deque[Missing] = field(default_factory=lambda: deque(maxlen=MOST_MISSING))
    newest: int | None = None  #: the newest batch with a report or a note that it has none
    watched_anew: bool = False  #: whether a guard has started since then

    def add(self, report: Report) -> bool:
        """Add a report; false if its batch was replayed: it was judged by the same plan, row for row."""
        if self.recent and report.sequence == self.recent[-1].sequence:
            self.watched_anew = False
            return False
        self._find_gap(report.sequence, report.end_s)
        self.newest = report.sequence
        self.recent.append(report)
        if report.cost_sketch:
            self.sketches.append(report.cost_sketch)
        self.totals.add(report)
        self.first_s = report.start_s if self.first_s is None else self.first_s
        return True

    def miss(self, missing: Missing) -> None:
        """Batches have no report, as the guard says."""
        self._find_gap(missing.first, missing.told_s)
        self.missing.append(missing)
        self.newest = missing.last

    def _find_gap(self, batch: int, now_s: float) -> None:
        """Record missing batches between two guards. A running guard reports its own gaps."""
        if self.watched_anew and self.newest is not None and self.newest < batch - 1:
            self.missing.append(Missing(now_s, self.newest + 1, batch - 1, UNSEEN))
        self.watched_anew = False

    def latest(self) -> list[Report]:
        """The reports of the last seconds."""
        return [one for one in self.recent if one.end_s >= self.recent[-1].end_s - RECENT_S]

    def since_s(self, starts: list[float]) -> float:
        """The time from which the latest batches could have let rows through."""
        latest = self.latest()
        if not latest:
            return 0.0
        earlier = list(self.recent)[: -len(latest)]
        ended_s = [one.end_s for one in earlier[-1:]] + starts[-1:]
        return min(max(ended_s), latest[0].start_s) if earlier else latest[0].start_s


class GuardedQuery(Followed):
    """One guard's folder, followed."""

    kind = "guard"

    def _forget(self) -> None:
        super()._forget()
        self.plans = PlanTail(self.folder / "plans")
        self._tail: Tail | None = None
        self._replaced = False  # whether another query has started to write
        self.plan: Plan | None = None
        self._guards, self._batches = Guards(), Batches()
        self._renewals = 0
        self._unreadable = 0
        self._classes: list[Json] = []

    @property
    def watch(self) -> Watch | None:
        """What the guard that writes the journal watches."""
        return self._guards.watch

    @property
    def known_costs(self) -> BucketCosts:
        """Recent costs of rows."""
        found = BucketCosts()
        for sketch in self._batches.sketches:
            found.merge(BucketCosts.from_bytes(sketch))
        return found

    def watch_of(self, batch: int) -> Watch | None:
        """The watch under which this batch was reported."""
        earlier = [watch for first, watch in self._guards.watches if first <= batch]
        return earlier[-1] if earlier else self.watch

    def _follow(self) -> None:
        lines, plans = self._read()
        if self.plans.restarts or self._replaced or (self._tail is not None and self._tail.restarts):
            self._forget()
            self.generation += 1
            lines, plans = self._read()
        for plan in plans:
            self._take_plan(plan)
        for text in lines:
            self._take_line(text)
        if plans or lines:  # merging reports takes most of a poll
            self._classes = classes(self.known_costs, self.plan.gate(SOURCE) if self.plan else None)

    def _read(self) -> tuple[list[str], list[Plan]]:
        """New lines of the newest journal, and new plans."""
        newest = _newest(self.folder / FOLDER)
        if newest is not None and (self._tail is None or self._tail.name != newest.name):
            self._replaced = self._tail is not None
            self._tail = Tail(*at(newest))
        return [] if self._tail is None else self._tail.news(), self.plans.news()

    def _take_plan(self, plan: Plan) -> None:
        self.plan = plan
        if plan.note == "renewed":
            self._renewals += 1
            return
        self._renewals = 0
        table = plan.gate(SOURCE)
        self.decisions.add(
            {
                "version": plan.version,
                "t": plan.decided_s,
                "policy": plan.policy,
                "note": plan.note,
                "keep": plan.expected.keep_share if plan.expected else None,
                "latency_s": plan.expected.queuing_latency_s if plan.expected else None,
                "reasons": [] if table is None else sentences.reasons(table),
            }
        )

    def _take_line(self, text: str) -> None:
        match line_of(text):
            case Watch() as watch:
                self._guards.start(watch)
                self._batches.watched_anew = True
            case Report() as report:
                self._take_report(report)
            case Missing() as missing:
                self._batches.miss(missing)
            case Alarms() as alarms:
                self._guards.alarms = alarms
            case Alive() as alive:
                self._guards.alive = alive
            case End() as end:
                self._guards.ended = end
            case None:
                self._unreadable += 1

    def _take_report(self, report: Report) -> None:
        if not self._batches.add(report):
            return
        self._guards.report(report.sequence)
        self.points.add(
            {
                "n": report.sequence,
                "t": report.end_s,
                "d": round(report.duration_s, 4),
                "in": report.rows_in,
                "kept": report.rows_kept,
                "must": report.rows_must_keep,
                "shed": dict(report.rows_shed),
                "would": dict(report.rows_would_shed),
                "mean_s": round(report.queuing.mean_s, 4) if report.queuing else None,
                "max_s": round(report.queuing.max_s, 4) if report.queuing else None,
                "age_s": round(report.backlog_age_s, 4),
                "waiting": report.backlog_rows,
                "plan": report.plan_version,
                "sic": dict(report.sic),
            }
        )

    def _shown(self, now_s: float) -> Json:
        guards, batches = self._guards, self._batches
        watch, totals = guards.watch, batches.totals
        last = batches.recent[-1] if batches.recent else None
        state = "gone" if self._gone else sentences.state(guards, last, self.plan, now_s)
        return {
            "folder": self.shown_as,
            "state": state,
            "trouble": self._gone,
            "verdict": sentences.verdict(watch, batches.latest(), state, batches.since_s(guards.starts)),
            "guard": watch.guard if watch else "",
            "mode": watch.mode if watch else "",
            "policy": watch.policy if watch else (self.plan.policy if self.plan else ""),
            "target": sentences.target(watch),
            "target_kind": watch.target if watch else "",
            "target_s": watch.target_s if watch else None,
            "target_rows_per_s": watch.target_rows_per_s if watch else None,
            "starts": guards.starts,
            "key": list(watch.key) if watch else [],
            "row": list(watch.row) if watch else [],
            "must_keep": watch.keep if watch else "",
            "alarms": [*guards.alarms.alarms, *sentences.missing(batches.missing)],
            "errors": guards.alarms.errors,
            "unreadable": self._unreadable,
            "since_s": batches.first_s,
            "batches": totals.batches,
            "rows_in": totals.rows_in,
            "rows_kept": totals.rows_kept,
            "rows_must_keep": totals.rows_must_keep,
            "rows_shed": dict(totals.rows_shed),
            "rows_would_shed": dict(totals.rows_would_shed),
            "plan": self.plan.version if self.plan else None,
            "renewals": self._renewals,
            "costs": self._classes,
        }


def _newest(folder: Path) -> Path | None:
    """The journal written last."""
    try:
        return max(folder.glob(f"*{ENDING}"), key=lambda path: (path.stat().st_mtime_ns, path), default=None)
    except OSError:
        return None  # It is being deleted.


class FollowedSite(GuardedQuery):
    """One site's folder, followed. A site keeps a share of each input regardless of keys, so there is no why-box."""

    kind = "site"

    def _forget(self) -> None:
        super()._forget()
        self.plans = _NoPlans(self.folder / ACCOUNT)


class _NoPlans(PlanTail):
    """A site's plans are not shown; a missing folder is."""

    def news(self) -> list[Plan]:
        if not self.log.folder.is_dir():
            raise PenstockError(f"{self.log.folder} is gone")
        return []
