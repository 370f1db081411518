r"""Planners: from the Report of one micro-batch to the Plan for the next.

The target allows the next batch a work span $S$ (`core.control.targets`), and tasks together complete $p$ seconds of
work a second. $n_b$ rows are expected in each bucket, and each is expected to cost $\hat w_b$
(`core.control.forecast`). So the work of kept rows is limited to

$$\sum_b s_b\, n_b\, \hat w_b \;\le\; p\,S$$

and the shares $s_b$ follow by one of the rules of `core.control.allotment`.

None of it depends on earlier shedding, so shedding ends with the overload. No state is stuck: each bucket keeps a
floor, and when a batch measures nothing, the learned costs are halved.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.core.control.allotment import ALIKE, Forecast, Rule
from penstock.core.control.batch_size import share_that_fits
from penstock.core.control.cores import CoresWanted, cores_needed
from penstock.core.control.expected_costs import Expectation, learned
from penstock.core.control.forecast import SPARE, Knowledge
from penstock.core.control.memory import Learned, restored, saved
from penstock.core.control.out_of_reach import missed_target
from penstock.core.control.targets import AIM, Target, Throughput
from penstock.messages.plan import Effect, Fits, KeepTable, Plan
from penstock.messages.report import Report

#: The place of the one gate in front of a query.
SOURCE = "source"
#: A plan stays in force while the number of rows that fit is within this factor of it.
FITS_BAND = 3.0
#: Rows that account for less than this share of a batch's time are not shed: without them batches would be nearly as
#: long. While their share is uncertain, the limit is lower, so that unseen work can show.
LIGHT_LOAD, LIGHT_IN_DOUBT = 0.3, 0.2
#: The note on a plan from measurements of an earlier run.
RECALLED = "by what the last run learned"
#: A plan stays in force while it keeps what a new one would, within this share, because every new one is a file.
DEAD_BAND = 0.05


class InForce(Learned):
    """The plan in force, as known to its planner; a new one must differ enough."""

    plan: Plan | None

    def __init__(self) -> None:
        self.plan = None

    @property
    def table(self) -> KeepTable | None:
        """The keep table; None if everything is kept."""
        return None if self.plan is None else self.plan.gate(SOURCE)

    def stays(self, fits: Fits | None, rows: float = 0.0, over_s: float = 0.0, *, moved: bool) -> bool:
        """Whether it is as good as a new one, whose gates have `moved` and which fits this many rows.

        The next batch is expected to have `rows` rows, which come in `over_s` seconds; 0 if that is not known.
        """
        if self.plan is None or moved or _fits_else(self.plan.fits, fits):
            return False
        if self.plan.fits is None or fits is None:
            return True
        # The first plan may be from a batch of few rows, which does not show what all cores can do.
        old, new = (share_that_fits(one, rows, over_s) for one in (self.plan.fits, fits))
        return old >= (1.0 - DEAD_BAND) * new

    def moved(self, forecast: Forecast, table: KeepTable | None, rule: Rule) -> bool:
        """Whether a table would keep other work, or more rows or utility."""
        if table is None:
            return self.table is not None  # Even a small amount is not shed without need.
        (old_work, old), (new_work, new) = (forecast.let_through(one, rule.utilities) for one in (self.table, table))
        return abs(old_work - new_work) > DEAD_BAND * new_work or new > (1.0 + DEAD_BAND) * old


@dataclass
class BatchPlanner:
    """Plans each batch so that it fits.

    >>> from penstock.core.control.targets import MeanQueueLatency
    >>> planner = BatchPlanner("load_aware", MeanQueueLatency("1 s"), salt=0)
    >>> calm = Report(sequence=1, start_s=0, end_s=1, rows_in=100, rows_kept=100, busy_s=0.9, backlog_rows=80)
    >>> planner.decide(calm, now_s=1.0).gates  # the cost of rows is unknown: everything is kept
    ()
    >>> hot = Report(sequence=2, start_s=1, end_s=2, rows_in=80, rows_kept=80, busy_s=0.9, backlog_rows=720)
    >>> round(planner.decide(hot, now_s=2.0).gate("source").keep[0], 3)  # 4.3 s of work come, 0.35 s fit
    0.082
    """

    policy: str  #: name under which plans are signed
    target: Target  #: what to hold
    salt: int  #: seed of the gate's hash
    rule: Rule = ALIKE  #: by which rule rows are kept
    expected: Expectation = learned  #: what rows of the next batch cost
    alarms: tuple[str, ...] = field(default=(), init=False)  #: alarms, one line each, as of the last report

    def __post_init__(self) -> None:
        """Start without knowledge."""
        self._known, self._in_force = Knowledge(self.target), InForce()
        self._cores = CoresWanted()

    @property
    def cores_wanted(self) -> int | None:
        """The cores that would hold the target with nothing shed; None if that is unknown."""
        return self._cores.cores

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """A plan for the batch after the report, or None to keep the current one."""
        self._known.learn(report)
        if not self._known.costs.known:
            return None
        forecast = self._forecast()
        if rows := float(forecast.rows.sum()):
            self._cores.learn(cores_needed(self._known, forecast.work_s / rows - self._known.outside_s), report.end_s)
        must_keep = report.rows_must_keep / max(report.rows_in, 1)
        self.alarms = tuple(missed_target(self.target, self._known, report, must_keep * forecast.work_s))
        table = None if self._keeps_up(forecast) else self._table(forecast.without(must_keep))
        share = 1.0 if table is None else forecast.let_through(table)[1] / max(float(forecast.rows.sum()), 1e-9)
        share = min(share, 1.0)
        fits = self._fits(forecast, table, share)
        moved = self._in_force.moved(forecast, table, self.rule)
        if self._in_force.stays(fits, float(forecast.rows.sum()), self._known.next_s, moved=moved):
            return None
        gates = () if table is None else (table,)
        self._in_force.plan = replace(self._plan(report.sequence + 1, now_s, fits), gates=gates, expected=Effect(share))
        return self._in_force.plan

    def _table(self, forecast: Forecast) -> KeepTable | None:
        """The shares of what may be shed; None if everything fits."""
        keep = tuple(self.rule.shares(forecast).tolist())
        return None if min(keep) >= 1.0 else KeepTable(SOURCE, keep, (forecast.reason(self.rule.reason),))

    def _plan(self, version: int, now_s: float, fits: Fits | None, note: str = "") -> Plan:
        """One that keeps everything."""
        return Plan(version, self.policy, now_s, self.salt, expected=Effect(1.0), note=note, fits=fits)

    def _keeps_up(self, forecast: Forecast) -> bool:
        """Whether rows wait for something else than the processing of earlier rows.

        The query was idle, or its first batch was slow: this ends by itself. Or batches are long independent of their
        rows. Shedding helps in neither case.
        """
        if self.target.fresh_s is None:
            return False
        known = self._known
        load = forecast.work_s / max(known.capacity * known.next_s, 1e-9)
        if known.history.batches <= 1:
            return load <= 1.0
        light = load <= (LIGHT_IN_DOUBT if known.in_doubt else LIGHT_LOAD)
        return known.history.catching_up or known.shrinking or light

    def save(self) -> dict[str, Any]:
        """What is learned so far."""
        return saved(self._settings, known=self._known, in_force=self._in_force)

    def restore(self, state: Mapping[str, Any], now_s: float) -> None:  # noqa: ARG002 - it does not use the clock
        """Restore the state of `save`."""
        restored(state, self._settings, known=self._known, in_force=self._in_force)

    @property
    def _settings(self) -> str:
        return f"{self.policy}, {self.target}, {self.rule.grades}"

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan | None:
        """Learn from reports of an earlier run; returns a plan with the rows that fit, or None if unknown.

        It sheds nothing, because the current load is not known yet.
        """
        for report in reports:
            if report.end_s > self._known.history.until_s:
                self._known.learn(report)
        # The first batch may contain all rows since then, so it gets no spare capacity: later rows wait for it.
        fits = self._fits(self._forecast(), None, 1.0, spare=1.0) if self._known.costs.known else None
        self._known.history.pause()
        self._in_force.plan = None
        return None if fits is None else self._plan(0, min(self._known.history.until_s, now_s), fits, RECALLED)

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything, if one that sheds is in force, because there is no load."""
        if self._in_force.table is None:
            return None
        self._in_force.plan = self._plan(version, now_s, self._fits(self._forecast(), None, 1.0), note)
        return self._in_force.plan

    def _fits(self, forecast: Forecast, table: KeepTable | None, share: float, spare: float = SPARE) -> Fits | None:
        """The number of rows up to which a table with this share is valid; None if unknown."""
        if isinstance(self.target, Throughput):
            rate = self.target.rows_per_s
            return Fits(rows_per_s=rate if table is None else AIM * rate / max(share, 1e-9))
        rows = float(forecast.rows.sum())
        if rows <= 0.0:  # No rate is known yet, as after a first batch of one row, but the cost of rows is.
            forecast, rows = forecast._replace(rows=self._known.costs.frequencies()), 1.0
        work_s = forecast.let_through(table)[0] / rows
        # The sustainable rate with long enough batches.
        return self._known.fits(self._known.capacity / work_s, spare) if work_s > 0.0 else None

    def _forecast(self) -> Forecast:
        pace, (rows, costs_s) = self._known.pace, self.expected(self._known)
        allowance = self.target.allowance(pace)
        return Forecast(
            rows=rows,
            costs_s=costs_s + self._known.outside_s,
            budget_s=self._known.span_s(pace) * self._known.capacity,
            most_rows=allowance.rows if rows.sum() > allowance.enough else math.inf,
        )


def _fits_else(old: Fits | None, new: Fits | None) -> bool:
    """Whether far more or far fewer rows fit than by the current plan."""
    if old is None or new is None:
        return old is not new
    if old.rows is None or new.rows is None:
        return False  # A rate does not change.
    return not 1.0 / FITS_BAND < new.rows / old.rows < FITS_BAND


class FixedShare:
    """Keeps the same share of rows at all times.

    >>> planner = FixedShare("half", keep_share=0.5, reason="random share", salt=0)
    >>> report = Report(sequence=4, start_s=0.0, end_s=1.0, rows_in=8, rows_kept=8)
    >>> planner.decide(report, now_s=1.0).gate("source").keep
    (0.5,)
    >>> planner.decide(report, now_s=2.0) is None  # it stays in force
    True
    """

    alarms: tuple[str, ...] = ()

    def __init__(self, policy: str, *, keep_share: float, reason: str, salt: int) -> None:
        self._policy, self._reason, self._salt = policy, reason, salt
        self._keep_share, self._decided = keep_share, False

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """The plan, once."""
        if self._decided:
            return None
        self._decided = True
        share = self._keep_share
        gates = () if share >= 1.0 else (KeepTable(SOURCE, keep=(share,), reasons=(self._reason,)),)
        return Plan(report.sequence + 1, self._policy, now_s, self._salt, gates=gates, expected=Effect(share))

    def release(self, version: int, now_s: float, note: str) -> None:
        """None: the share does not depend on load, so it stays in force while there is none."""


class NoGate:
    """Plans no gate: for a query whose rows are dealt, and all kept."""

    alarms: tuple[str, ...] = ()

    def decide(self, report: Report, now_s: float) -> None:
        """None: there is nothing to plan."""

    def release(self, version: int, now_s: float, note: str) -> None:
        """None: nothing is shed."""
