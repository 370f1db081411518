r"""Planners: from the Report of one micro-batch to the Plan for the next.

The target allows the next batch a work span $S$ (`core.control.targets`), tasks together get $p$ seconds of work done a
second, $n_b$ rows are expected in each bucket, and each is expected to cost $\hat w_b$ (`core.control.forecast`). So
the rows kept may bring

$$\sum_b s_b\, n_b\, \hat w_b \;\le\; p\,S$$

and the shares $s_b$ follow by one of the rules of `core.control.allotment`.

None of it depends on what was shed before, so shedding ends with the overload: there is no loop that keeps itself
alive. And no state is stuck: each bucket keeps a floor, and when a batch measures nothing the costs remembered are
halved.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.allotment import LEAST_SHARE, alike, cheapest_first, densest_first, row_share
from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.bucket_costs import BUCKETS, pooled
from penstock.core.control.forecast import Knowledge
from penstock.core.control.memory import Learned, restored, saved
from penstock.core.control.out_of_reach import why_out_of_reach
from penstock.core.control.targets import AIM, Target, Throughput
from penstock.messages.plan import Effect, Fits, KeepTable, Plan
from penstock.messages.report import Report

#: The place of the one gate in front of a query.
SOURCE = "source"
OVER_CAPACITY = "more work than capacity"
DEAR = "costly keys, more work than capacity"
POOR = "little utility for their cost, more work than capacity"

#: A plan stays in force while about as many rows fit as it says, within this factor.
FITS_BAND = 3.0
#: Rows that bring work for less than this share of the time are not shed: without any of them batches would be nearly
#: as long. While it is in doubt what they bring, less counts as little: work that is not seen yet must show.
LIGHT_LOAD, LIGHT_IN_DOUBT = 0.3, 0.2
#: What helps where nothing is shed, since rows are not what takes the time.
SHORTER = (
    "shorten batches, for example with a lower spark.sql.shuffle.partitions, because most of their time is overhead"
)
#: What is noted on a plan that follows from what an earlier run measured.
RECALLED = "by what the last run learned"
#: A batch fits a plan if it is up to so many times as large as planned for: rows never come quite evenly.
SPARE = 1.25
#: A plan stays in force while it lets through what a new one would, within this share: every new one is a file.
DEAD_BAND = 0.05


class Forecast(NamedTuple):
    """The next batch, kept whole, and what it may bring."""

    rows: NDArray[np.float64]  #: rows by bucket
    costs_s: NDArray[np.float64]  #: cost of a row by bucket
    budget_s: float  #: work that fits
    most_rows: float  #: rows that fit

    @property
    def work_s(self) -> float:
        """Work that comes."""
        return float(self.rows @ self.costs_s)

    def reason(self, over_capacity: str) -> str:
        """Why rows are shed: for their number, as in a batch that is too large, or for their work."""
        return TOO_MANY if self.work_s <= self.budget_s else over_capacity

    def let_through(self, table: KeepTable | None, utilities: NDArray[np.float64] | None = None) -> tuple[float, float]:
        """Work and rows that a table keeps; in place of rows their utility, if they differ in it."""
        rows = self.rows if table is None else self.rows * np.resize(np.asarray(table.keep), BUCKETS)
        return float(rows @ self.costs_s), float(rows.sum() if utilities is None else rows @ utilities)

    def without(self, share: float) -> "Forecast":
        """What is left when a share of the rows is kept in any case and paid for first."""
        return Forecast(
            rows=self.rows * (1.0 - share),
            costs_s=self.costs_s,
            budget_s=self.budget_s - share * self.work_s,
            most_rows=self.most_rows - share * float(self.rows.sum()),
        )


class InForce(Learned):
    """The plan in force, as far as the planner knows."""

    plan: Plan | None

    def __init__(self) -> None:
        """Start without one."""
        self.plan = None


@dataclass
class BatchPlanner:
    """Plans each batch so that it fits, by one rule of allotment.

    >>> from penstock.core.control.targets import MeanQueueLatency
    >>> planner = BatchPlanner("load_aware", MeanQueueLatency("1 s"), salt=0)
    >>> calm = Report(sequence=1, start_s=0, end_s=1, rows_in=100, rows_kept=100, busy_s=0.9, backlog_rows=80)
    >>> planner.decide(calm, now_s=1.0).gates  # nobody knows yet what of a batch rows cost: everything is kept
    ()
    >>> hot = Report(sequence=2, start_s=1, end_s=2, rows_in=80, rows_kept=80, busy_s=0.9, backlog_rows=720)
    >>> round(planner.decide(hot, now_s=2.0).gate("source").keep[0], 3)  # 4.3 s of work come, 0.35 s fit
    0.082

    Attributes:
        policy: Name under which plans are signed.
        target: What to hold.
        salt: Seed of the gate's coins.
        prefer_cheap: Cheapest buckets first, instead of all rows alike.
        mean_cost_s: One cost taken for every row, instead of what is learned.
        recent_mean: The mean of the last batch taken for every row, instead of all that is learned.
        true_costs_s: The cost of each bucket, if it is known.
        utilities: What a row of each bucket is worth: most utility for its work first, instead of all rows alike.
        min_keep: With utilities, the least share kept of a bucket.
        grid: With utilities, places for keys and grades of worth (`core.control.bucket_costs`).
        alarms: Alarms, one line each, as of the last report.
    """

    policy: str
    target: Target
    salt: int
    prefer_cheap: bool = False
    mean_cost_s: float | None = None
    recent_mean: bool = False
    true_costs_s: NDArray[np.float64] | None = None
    utilities: NDArray[np.float64] | None = None
    min_keep: float = LEAST_SHARE
    grid: tuple[int, int] = (BUCKETS, 1)
    alarms: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        """Start knowing nothing."""
        self._known, self._in_force = Knowledge(self.target), InForce()

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """A plan for the batch after the report, or None to go on with the one in force."""
        self._known.learn(report)
        if not self._known.costs.known:
            return None
        forecast = self._forecast()
        must_keep = report.rows_must_keep / max(report.rows_in, 1)
        self.alarms = tuple(self._alarms(report, must_keep * forecast.work_s))
        table = None if self._keeps_up(forecast) else self._table(forecast.without(must_keep))
        gates = () if table is None else (table,)
        share = forecast.let_through(table)[1] / max(float(forecast.rows.sum()), 1e-9) if gates else 1.0
        fits = self._fits(forecast, table, min(share, 1.0))
        if self._in_force.plan is not None and not (
            self._differs(forecast, table) or fits_else(self._in_force.plan.fits, fits)
        ):
            return None
        self._in_force.plan = Plan(
            report.sequence + 1,
            self.policy,
            now_s,
            self.salt,
            gates,
            expected=Effect(min(share, 1.0)),
            fits=fits,
        )
        return self._in_force.plan

    def _keeps_up(self, forecast: Forecast) -> bool:
        """Whether rows wait for something else than the work on rows before them.

        The query stood still, or its first batch was slow: that ends without help. Or batches are long whatever their
        rows. Shedding helps in neither case.
        """
        if self.target.fresh_s is None:
            return False
        known = self._known
        load = forecast.work_s / max(known.capacity * known.pace.cycle_s, 1e-9)
        if known.batches == 1:
            return load <= 1.0
        return known.catching_up or known.shrinking or load <= (LIGHT_IN_DOUBT if known.in_doubt else LIGHT_LOAD)

    def save(self) -> dict[str, Any]:
        """What is learned so far."""
        return saved(f"{self.policy}, {self.target}", known=self._known, in_force=self._in_force)

    def restore(self, state: Mapping[str, Any], now_s: float) -> None:  # noqa: ARG002 - no part of it goes by the clock
        """Take over what `save` gave."""
        restored(state, f"{self.policy}, {self.target}", known=self._known, in_force=self._in_force)

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan | None:
        """Learn from reports of an earlier run; a plan that says what fits, or None if that is not known.

        It sheds nothing, because the current load is not known yet.
        """
        for report in reports:
            if report.end_s > self._known.until_s:
                self._known.learn(report)
        # The first batch may hold all that came in between, so it gets no spare room: rows wait for it.
        fits = self._fits(self._forecast(), None, 1.0, spare=1.0) if self._known.costs.known else None
        self._known.pause()
        self._in_force.plan = None
        if fits is None:
            return None
        known_s = min(self._known.until_s, now_s)
        return Plan(0, self.policy, known_s, self.salt, expected=Effect(keep_share=1.0), note=RECALLED, fits=fits)

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything, if one that sheds is in force: there is no load any more."""
        if self._in_force.plan is None or not self._in_force.plan.gates:
            return None
        fits = self._fits(self._forecast(), None, 1.0)
        self._in_force.plan = Plan(
            version, self.policy, now_s, self.salt, expected=Effect(keep_share=1.0), note=note, fits=fits
        )
        return self._in_force.plan

    def _fits(self, forecast: Forecast, table: KeepTable | None, share: float, spare: float = SPARE) -> Fits | None:
        """Up to how many rows a table that keeps this share is right; None if that is not known."""
        if isinstance(self.target, Throughput):
            rate = self.target.rows_per_s
            return Fits(rows_per_s=rate if table is None else AIM * rate / max(share, 1e-9))
        rows, known = float(forecast.rows.sum()), self._known
        if known.catching_up or (known.in_doubt and not known.measured):
            return None
        if rows <= 0.0:  # No rate is known yet, as after a first batch of one row; what rows cost is.
            forecast, rows = forecast._replace(rows=known.costs.frequencies()), 1.0
        work_s = forecast.let_through(table)[0] / rows
        span_s = known.span_s(known.steady._replace(lag_s=0.0))
        if not (work_s > 0.0 and 0.0 < span_s < math.inf):
            return None
        # What is kept up with, if only it works long enough at a time.
        rows_per_s = known.capacity / work_s
        return Fits(rows_per_s, rows=spare * span_s * rows_per_s)

    def _forecast(self) -> Forecast:
        pace = self._known.pace
        rows, costs_s, allowance = self._known.next_rows(), self._costs_s(), self.target.allowance(pace)
        if self.utilities is not None:
            expected = pooled(self._known.costs, *self.grid)
            rows = float(rows.sum()) * expected.shares
            costs_s = self._known.surprise * self._known.reach * expected.costs_s
        costs_s = costs_s + self._known.outside_s
        return Forecast(
            rows=rows,
            costs_s=costs_s,
            budget_s=self._known.span_s(pace) * self._known.capacity,
            most_rows=allowance.rows if rows.sum() > allowance.enough else math.inf,
        )

    def _costs_s(self) -> NDArray[np.float64]:
        if self.true_costs_s is not None:
            return self.true_costs_s
        if self.mean_cost_s is not None:
            return np.full(BUCKETS, self.mean_cost_s)
        if self.recent_mean:
            return np.full(BUCKETS, self._known.last_mean_s)
        # A bucket never seen is assumed to be free, that is, kept first: at the floor learning its cost would take
        # long. It brings no work to the forecast either way.
        level = self._known.surprise * self._known.reach
        return np.where(self._known.costs.rows > 0.0, level * self._known.costs.costs_s(), 0.0)

    def _table(self, forecast: Forecast) -> KeepTable | None:
        """The shares of what may be shed; None if everything fits."""
        if self.utilities is not None:
            keep = densest_first(*forecast[:2], self.utilities, *forecast[2:], min_keep=self.min_keep)
            return _sheds(keep.tolist(), forecast.reason(POOR))
        if self.prefer_cheap:
            keep = cheapest_first(forecast.rows, forecast.costs_s, forecast.budget_s, forecast.most_rows)
            return _sheds(keep.tolist(), forecast.reason(DEAR))
        share = min(
            alike(forecast.work_s, forecast.budget_s),
            row_share(float(forecast.rows.sum()), forecast.most_rows),
        )
        return _sheds([share], forecast.reason(OVER_CAPACITY))

    def _differs(self, forecast: Forecast, table: KeepTable | None) -> bool:
        """Whether the table would let through other work, or more rows or utility, than the plan in force does."""
        old_table = self._in_force.plan.gate(SOURCE) if self._in_force.plan else None
        if table is None:
            return old_table is not None  # What need not be shed is not shed, however little it is.
        (old_work, old), (new_work, new) = (forecast.let_through(one, self.utilities) for one in (old_table, table))
        return abs(old_work - new_work) > DEAD_BAND * new_work or new > (1.0 + DEAD_BAND) * old

    def _alarms(self, report: Report, must_keep_s: float) -> list[str]:
        """Alarms, one line each."""
        found = []
        known, ratio = self._known, self.target.ratio(report)
        missed = ratio is not None and ratio > 1.0
        if known.out_of_reach and (missed or ratio is None) and not known.resumes:
            found.append(why_out_of_reach(self.target, known))
        elif known.settled and known.capped and missed and known.late and report.lag_s > report.duration_s:
            # Younger ones need not have waited: some sources date rows a second back.
            found.append(
                f"rows are {report.lag_s:.0f} s old when their batch starts: the source has a backlog; read more rows "
                "per batch, or start from the latest rows"
            )
        elif known.misses_for_long and report.queuing is not None:
            found.append(
                f"target = {self.target} is missed in {known.misses} batches in a row: rows waited "
                f"{report.queuing.mean_s:.2f} s in the last one, which took {report.duration_s:.2f} s for "
                f"{report.rows_in} rows, {report.rows_kept} of them kept; give a longer target, or "
                + ("add cores, because shed rows must be read too" if report.shed_total else SHORTER)
            )
        if must_keep_s > known.capacity * known.pace.cycle_s > 0.0:
            found.append(
                f"keep matches {report.rows_must_keep} of {report.rows_in} rows, which alone exceed capacity, so the "
                "target is missed; narrow keep or add cores"
            )
        return found


def _sheds(keep: list[float], reason: str) -> KeepTable | None:
    """A table with these shares; None if all are kept."""
    return None if min(keep) >= 1.0 else KeepTable(SOURCE, keep=tuple(keep), reasons=(reason,))


def fits_else(old: Fits | None, new: Fits | None) -> bool:
    """Whether far more rows fit than the plan in force says, or far fewer."""
    if old is None or new is None:
        return old is not new
    if old.rows is None or new.rows is None:
        return False  # A rate does not change.
    return not 1.0 / FITS_BAND < new.rows / old.rows < FITS_BAND


class FixedShare:
    """Keeps the same share of rows, whatever happens.

    >>> planner = FixedShare("half", keep_share=0.5, reason="random share", salt=0)
    >>> report = Report(sequence=4, start_s=0.0, end_s=1.0, rows_in=8, rows_kept=8)
    >>> planner.decide(report, now_s=1.0).gate("source").keep
    (0.5,)
    >>> planner.decide(report, now_s=2.0) is None  # it stays in force
    True
    """

    alarms: tuple[str, ...] = ()

    def __init__(self, policy: str, *, keep_share: float, reason: str, salt: int) -> None:
        """Plan for the policy of this name."""
        self._policy, self._reason, self._salt = policy, reason, salt
        self._keep_share = keep_share
        self._decided = False

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """The plan, once."""
        if self._decided:
            return None
        self._decided = True
        share = self._keep_share
        gates = () if share >= 1.0 else (KeepTable(SOURCE, keep=(share,), reasons=(self._reason,)),)
        return Plan(report.sequence + 1, self._policy, now_s, self._salt, gates=gates, expected=Effect(share))

    def release(self, version: int, now_s: float, note: str) -> Plan | None:  # noqa: ARG002 - it never lets go
        """None: the share does not depend on load, so it stays in force while there is none."""
        return None


class NoGate:
    """Plans no gate: for a query whose rows are dealt, and all kept."""

    alarms: tuple[str, ...] = ()

    def decide(self, report: Report, now_s: float) -> Plan | None:  # noqa: ARG002 - nothing follows from them
        """None: there is nothing to plan."""
        return None

    def release(self, version: int, now_s: float, note: str) -> Plan | None:  # noqa: ARG002 - nothing follows from them
        """None: nothing is held back."""
        return None
