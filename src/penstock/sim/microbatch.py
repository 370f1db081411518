r"""A micro-batch query on virtual time, with the loop of Spark: a model of Spark with everything that affects latency.

A batch contains the rows that have arrived, judges them by the plan in force, and deals the kept rows to its cores in
turn. Its length is the overhead, the time of the slowest core, and the time of its $n$ rows outside the operator, as in
a sink:

$$T = o + \max_c \sum_{i \in c} w_i + r\,n$$

The next one starts at once, or at its trigger, or when a row arrives. Reports hold only what can be measured on
Spark: for example, the rows that wait at the source are estimated from the rate of rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.gate import coins, judge
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import Machines, Planner
from penstock.core.control.shed_alarms import ShedAlarms
from penstock.core.hashing import bucket, xxhash64_ints
from penstock.core.loop.binding import Planned
from penstock.core.loop.events import BatchEnded, Passed
from penstock.core.row.machines import Arrived, Drop, Executed
from penstock.messages.plan import KeepTable, Plan
from penstock.messages.report import Latency, Report
from penstock.sim.driver import Driver, Earlier
from penstock.sim.workload import Stream


def by_key(stream: Stream) -> NDArray[np.int64]:
    """What the gate of a stream looks up: the hash of each row's key."""
    return xxhash64_ints(stream.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """How a query runs."""

    #: How many tasks work at the same time, by the time a batch starts.
    cores: Callable[[float], int] = lambda _now_s: 2
    overhead_s: float = 0.25  #: what a batch takes besides work
    #: What each row adds to it behind the operator, by the time a batch starts.
    row_overhead_s: Callable[[float], float] = lambda _now_s: 0.0
    #: What each row that comes adds to it before the first row is taken up, whether it is kept or shed.
    read_s: float = 0.0
    cold_s: float = 0.0  #: how much longer the first batch takes: it starts machines
    #: Whether the operator is measured; otherwise reports hold the length of batches and the age of rows.
    measured: bool = True
    delay_share: float = 0.5  #: the part of the overhead before the first row is taken up
    noise: float = 0.2  #: how far an overhead, with that of rows, may be from the mean, as a share of it
    first_start_s: float = 0.0  #: when the first batch starts: rows pile up while a query warms up
    trigger_s: float = 0.0  #: time between the starts of two batches that do not take longer; 0 starts each one at once
    rows_per_batch: int | None = None  #: the most rows that the source hands out at a time
    late_plans: float = 0.0  #: share of plans that are too late for the next batch and act on the one after it
    true_backlog: bool = False  #: whether reports hold what really waits, and not what the rate of rows suggests
    counted: bool = True  #: whether the source says how many rows a batch has before it runs, as Kafka does
    killed_s: float = np.inf  #: when the query is killed: no batch starts after that
    idle_s: float = 10.0  #: after this time without a row the planner is asked to release
    gate_hashes: Callable[[Stream], NDArray[np.int64]] = by_key  #: what the gate looks a row up by
    #: Makes the machines that shed once more, row by row, inside each task; None: the gate alone sheds.
    row_gate: Callable[[], Machines] | None = None
    seed: int = 0  #: seed of the noise


@dataclass(slots=True)
class Run:
    """The outcome of each row, and the input and output of the planner."""

    stream: Stream
    starts_s: NDArray[np.float64]  #: when work on a row began; NaN if it was shed or never handed out
    reports: list[Report] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    alarms: list[tuple[str, ...]] = field(default_factory=list)  #: after each report

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which rows were kept."""
        return ~np.isnan(self.starts_s)

    @property
    def waits_s(self) -> NDArray[np.float64]:
        """How long each row waited for its work to begin; NaN for one that was not kept."""
        return self.starts_s - self.stream.arrivals_s

    def waits_by_window(self, window_s: float = 10.0) -> dict[float, NDArray[np.float64]]:
        """The waits of rows taken up in each window of time, by the window's start."""
        rows = np.flatnonzero(self.kept)
        windows = (self.starts_s[rows] // window_s).astype(np.int64)
        return {number * window_s: self.waits_s[rows[windows == number]] for number in np.unique(windows).tolist()}


def simulate(
    planner: Planner,
    stream: Stream,
    query: Query,
    must_keep: NDArray[np.bool_] | None = None,
    earlier: Earlier = Earlier(),  # noqa: B008 - immutable
    last: Sequence[Report] = (),
) -> Run:
    """Run the whole stream through the query, which resumes from an earlier run and follows its last batches."""
    return _Batches(planner, stream, query, must_keep, earlier, last).run()


class _Batches:
    def __init__(
        self,
        planner: Planner,
        stream: Stream,
        query: Query,
        must_keep: NDArray[np.bool_] | None,
        earlier: Earlier,
        last: Sequence[Report],
    ) -> None:
        self._stream, self._query = stream, query
        self._rng = np.random.default_rng(query.seed)
        self._hashes = query.gate_hashes(stream)
        self._must_keep = np.zeros(stream.rows, np.bool_) if must_keep is None else must_keep
        self._driver = Driver(planner, query.first_start_s, counted=query.counted, earlier=earlier)
        self._plan: Plan | None = None  # that judges the current batch
        self._shed_alarms = ShedAlarms()
        self._out = Run(stream, np.full(stream.rows, np.nan), list(last), self._driver.written)
        self._machines: dict[int, Machines] = {}  # of each core, if there is a row gate
        self._first, self._replay = len(last), earlier.unfinished  # its first batch, which may be a replay

    def run(self) -> Run:
        """Batch after batch until the stream is used up."""
        start_s, done = self._query.first_start_s, 0
        while done < self._stream.rows:
            start_s = self._start_of_next(start_s, done)
            if start_s > self._query.killed_s:
                break
            arrived = int(np.searchsorted(self._stream.arrivals_s, start_s, side="right"))
            most = self._replay.rows if self._replay else self._query.rows_per_batch or arrived
            end = min(arrived, done + most)
            report = self._batch(start_s, slice(done, end))
            start_s, done, self._replay = report.end_s, end, None
            self._ask(report)
        return self._out

    def _start_of_next(self, now_s: float, done: int) -> float:
        """When the next batch starts: now, or at the trigger, and not before a row waits."""
        arrival_s = float(self._stream.arrivals_s[done])
        if arrival_s - now_s > self._query.idle_s:
            self._look(self._driver.handle(Passed(now_s + self._query.idle_s, idle=True)))
        trigger_s, reports = self._query.trigger_s, self._out.reports
        if not trigger_s or not reports:
            return max(now_s, arrival_s)
        # A trigger fires at whole multiples of its interval; a batch that missed its own starts at once.
        missed = reports[-1].start_s // trigger_s < now_s // trigger_s and arrival_s <= now_s
        return now_s if missed else float(np.ceil(max(now_s, arrival_s) / trigger_s)) * trigger_s

    def _batch(self, start_s: float, rows: slice) -> Report:
        kept, weights, shed = self._judge(start_s, rows)
        noise = 1.0 + self._query.noise * self._rng.uniform(-1.0, 1.0)
        cold_s = self._query.cold_s if len(self._out.reports) == self._first else 0.0
        overhead_s = self._query.overhead_s * noise + cold_s
        read_s = self._query.read_s * (rows.stop - rows.start)
        delay_s = self._query.delay_share * overhead_s + read_s
        overhead_s += read_s
        slots = self._query.cores(start_s)
        if self._query.row_gate is not None:
            passed = self._through_row_gate(np.flatnonzero(kept) + rows.start, start_s + delay_s, slots)
            shed = {**shed, "too late": int((~passed).sum())}
            kept[kept] = passed
            weights = weights[passed]
        costs_s = self._stream.costs_s[rows][kept]
        before_s, span_s = _dealt_out(costs_s, slots)
        starts_s = start_s + delay_s + before_s
        self._out.starts_s[rows] = np.where(kept, 0.0, np.nan)
        self._out.starts_s[rows][kept] = starts_s
        waits_s = starts_s - self._stream.arrivals_s[rows][kept]
        overhead_s += self._query.row_overhead_s(start_s) * noise * len(costs_s)
        end_s = start_s + overhead_s + span_s
        measured = BucketCosts()
        measured.add(bucket(self._hashes[rows][kept], BUCKETS), costs_s, weights)
        report = Report(
            sequence=len(self._out.reports),
            start_s=start_s,
            end_s=end_s,
            rows_in=len(kept),
            rows_kept=int(kept.sum()),
            rows_shed=shed,
            rows_must_keep=int(self._must_keep[rows].sum()),
            plan_version=None if self._plan is None else self._plan.version,
            backlog_rows=self._backlog_rows(start_s, end_s, rows),
            busy_s=float(costs_s.sum()),
            slots=slots,
            span_s=span_s,
            overhead_s=overhead_s,
            delay_s=delay_s,
            lag_s=max(start_s - float(self._stream.arrivals_s[rows][kept][-1]), 0.0) if kept.any() else 0.0,
            queuing=Latency(len(waits_s), float(waits_s.mean()), float(waits_s.max())) if kept.any() else None,
            cost_sketch=measured.to_bytes(),
            batches_behind=self._batches_behind(start_s, rows) if self._query.counted else None,
            cores_wanted=self._driver.loop.cores_wanted,
            replayed_s=start_s - self._replay.bound.bound_s if self._replay else 0.0,
        )
        return report if self._query.measured else _by_length(report, self._stream.arrivals_s[rows][kept])

    def _judge(self, start_s: float, rows: slice) -> tuple[NDArray[np.bool_], NDArray[np.float64], dict[str, int]]:
        """Which rows are kept, the weights of those, and how many are shed for each reason."""
        count = rows.stop - rows.start
        self._driver.pass_time(start_s)
        plan, share = self._driver.bind(len(self._out.reports), self._planned(start_s, count))
        self._plan = plan
        if plan is None or (plan.gate(SOURCE) is None and share >= 1.0):
            return np.ones(count, np.bool_), np.ones(count), {}
        table = plan.gate(SOURCE) or KeepTable(SOURCE, keep=(1.0,), reasons=("",))
        numbers = np.arange(rows.start, rows.stop)
        verdicts = judge(
            table,
            key_hashes=self._hashes[rows],
            coins=coins(plan.salt, numbers),
            must_keep=self._must_keep[rows],
            share=share,
        )
        return verdicts.kept, verdicts.weights[verdicts.kept], verdicts.shed_by_reason(table)

    def _planned(self, start_s: float, rows: int) -> Planned:
        reports = self._out.reports
        before_s, done_s = (reports[-1].first_start_s, reports[-1].end_s) if reports else (None, None)
        return Planned(rows, start_s, before_s, reports[-2].first_start_s if len(reports) > 1 else None, done_s)

    def _through_row_gate(self, numbers: NDArray[np.int64], start_s: float, slots: int) -> NDArray[np.bool_]:
        """The rows that the machine of their core admits."""
        passed = np.ones(len(numbers), np.bool_)
        for core in range(slots):
            shedder, operator = self._machines.setdefault(core, self._query.row_gate())  # type: ignore[misc] # set if here
            now_s = start_s
            for place in range(core, len(numbers), slots):
                row = int(numbers[place])
                key, arrived_s = int(self._stream.keys[row]), float(self._stream.arrivals_s[row])
                cost_s = float(self._stream.costs_s[row])
                verdict = shedder.judge(Arrived(arrived_s, key, row, must_keep=bool(self._must_keep[row])))
                if isinstance(verdict, Drop):
                    passed[place] = False
                    continue
                done = Executed(key, arrived_s, now_s, now_s + cost_s, cost_s, verdict.request)
                for send in operator.executed(done):
                    shedder.receive(send.message)
                now_s += cost_s
        return passed

    def _backlog_rows(self, start_s: float, end_s: float, rows: slice) -> int:
        if self._query.true_backlog:
            waiting: int = np.searchsorted(self._stream.arrivals_s, end_s, side="right") - rows.stop
            return int(waiting)
        arrivals_s = self._stream.arrivals_s[rows]
        before = self._out.reports[-1] if self._out.reports and not self._replay else None
        first_s = before.first_start_s if before else float(arrivals_s[0])
        came_in_s = (start_s if before else float(arrivals_s[-1])) - first_s
        return round(len(arrivals_s) * (end_s - start_s) / came_in_s) if came_in_s > 0.0 else 0

    def _batches_behind(self, start_s: float, rows: slice) -> float:
        arrived = int(np.searchsorted(self._stream.arrivals_s, start_s, side="right"))
        return float((arrived - rows.stop) / (rows.stop - rows.start))

    def _ask(self, report: Report) -> None:
        self._out.reports.append(report)
        self._driver.look()  # A plan that was late has come by now.
        self._driver.pass_time(report.end_s)
        offsets = report.rows_in if self._query.counted else None
        ended = BatchEnded(report.end_s, report.sequence, report, rows=report.rows_in, offsets=offsets)
        self._look(self._driver.handle(ended))
        self._out.alarms.append((*self._driver.loop.alarms, *self._shed_alarms.after(report)))

    def _look(self, written: int) -> None:
        """Find the plans just written, unless they are late."""
        late = written > 0 and self._rng.random() < self._query.late_plans
        if not late:
            self._driver.look()


def _by_length(report: Report, arrivals_s: NDArray[np.float64]) -> Report:
    """What is known of the batch if no operator is measured: all of it behind the delay is work on its rows."""
    work_s = report.duration_s - report.delay_s
    ages_s = report.start_s - arrivals_s
    queuing = None
    if len(ages_s):
        mean_s, oldest_s = float(ages_s.mean()) + work_s / 2.0, float(ages_s.max()) + work_s
        queuing = Latency(len(ages_s), mean_s + report.delay_s, oldest_s + report.delay_s)
    return replace(
        report, busy_s=work_s, slots=1, span_s=work_s, overhead_s=report.delay_s, queuing=queuing, cost_sketch=None
    )


def _dealt_out(costs_s: NDArray[np.float64], cores: int) -> tuple[NDArray[np.float64], float]:
    """Rows dealt out to cores in turn: the work before each row on its own core, and the longest core's work."""
    padded = np.zeros(-(-len(costs_s) // cores) * cores)
    padded[: len(costs_s)] = costs_s
    done_s = np.cumsum(padded.reshape(-1, cores), axis=0)
    span_s = float(done_s[-1].max()) if len(costs_s) else 0.0
    return done_s.ravel()[: len(costs_s)] - costs_s, span_s
