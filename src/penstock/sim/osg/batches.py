"""Grouping by cost as on Spark, on virtual time: the rows of a micro-batch are dealt to partitions, and costs learned.

A batch contains the rows that arrived during the previous one, deals them to the partitions and ends with the slowest
partition. Costs by key and partition are learned from each batch (`core.grouping.partition_costs`), carried by the
plans of the loop, and used by the next deal (`core.grouping.deal`). With Full Knowledge the deal uses each row's true
cost and each partition's true speed, as `grouping.by_cost(cost=..., factors=...)` does.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts, class_costs_s, cost_classes
from penstock.core.control.planner import NoGate
from penstock.core.grouping.deal import deal
from penstock.core.grouping.partition_costs import PartitionCosts, cost_table
from penstock.core.hashing import bucket, xxhash64_ints
from penstock.core.loop.binding import Planned
from penstock.core.loop.events import BatchEnded
from penstock.messages.plan import Costs
from penstock.messages.report import Report
from penstock.sim.driver import Driver
from penstock.sim.osg.runs import OsgRun

Floats = NDArray[np.float64]

#: How rows are dealt, in the order of a figure's rows; and what a batch takes besides work.
DEALT = ("round_robin", "by_cost", "full_knowledge")
PLACE, OVERHEAD_S = "grouping", 0.1
_ALIKE = np.ones(1)


def completion_ms(run: OsgRun, how: str) -> Floats:
    """From arrival until done, by row."""
    return _Batches(run, how).run() * 1e3


class _Batches:
    def __init__(self, run: OsgRun, how: str) -> None:
        self._stream, self._how, self._speeds = run.stream, how, run.speeds
        self._partitions = run.setting.instances
        self._strata = xxhash64_ints(self._stream.keys)
        self._driver = Driver(NoGate(), 0.0)
        self._known = PartitionCosts(self._partitions)
        self._costs: Costs | None = None  # what plans carry

    def run(self) -> Floats:
        """Run batch after batch until the stream ends; return the completion time of each row."""
        arrivals_s, finish_s = self._stream.arrivals_s, np.zeros(self._stream.rows)
        done, now_s, number = 0, 0.0, 0
        while done < len(arrivals_s):
            now_s = max(now_s, float(arrivals_s[done]))
            rows = slice(done, int(np.searchsorted(arrivals_s, now_s, side="right")))
            speeds = self._speeds[rows.start * len(self._speeds) // len(arrivals_s)]
            dealt = self._deal(number, now_s, rows, speeds)
            work_s = self._stream.costs_s[rows] * speeds[dealt]
            for part in range(self._partitions):
                own = np.flatnonzero(dealt == part)
                finish_s[rows.start + own] = now_s + OVERHEAD_S + np.cumsum(work_s[own])
            now_s = max(now_s + OVERHEAD_S, float(finish_s[rows].max()))
            self._learn(number, now_s, rows, dealt, work_s)
            done, number = rows.stop, number + 1
        return finish_s - arrivals_s

    def _deal(self, batch: int, now_s: float, rows: slice, speeds: Floats) -> NDArray[np.int32]:
        """The partition of each row, by the costs of the newest plan."""
        strata, table = self._strata[rows], _ALIKE
        plan, _ = self._driver.bind(batch, Planned(None, now_s, None))
        if self._how == "full_knowledge":
            strata = cost_classes(self._stream.costs_s[rows])
            table = cost_table(Costs(PLACE, self._partitions, tuple(class_costs_s().tolist()), tuple(speeds.tolist())))
        elif plan is not None and (costs := plan.costs_at(PLACE)) is not None:
            table = cost_table(costs)
        return deal(strata, np.arange(rows.start, rows.stop), table, self._partitions, batch % self._partitions)

    def _learn(self, batch: int, now_s: float, rows: slice, dealt: NDArray[np.int32], work_s: Floats) -> None:
        """Pass the costs of rows to the loop if the deal would change."""
        if self._how != "by_cost":
            return
        parts = {}
        for part in np.unique(dealt).tolist():
            own = dealt == part
            parts[part] = BucketCosts()
            parts[part].add(bucket(self._strata[rows][own], BUCKETS), work_s[own], np.ones(int(own.sum())))
        self._known.learn(parts)
        news = self._known.news(self._costs, PLACE)
        self._costs = news or self._costs
        count = rows.stop - rows.start
        report = Report(sequence=batch, start_s=now_s, end_s=now_s, rows_in=count, rows_kept=count)
        self._driver.handle(BatchEnded(now_s, batch, report, costs=news))
        self._driver.look()
