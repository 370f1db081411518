"""A network on virtual time, with the loop, the planner and the statistics that run it on Spark.

Batches start every `trigger_s`, or when the one before is done. Each is bound to the newest plan, whose drops are
applied to its rows. It takes an overhead and the work of the rows that boxes get, at a given pace. Rows have a value
from 0 to 100, by which filters and drops judge them. The planner knows counts, times and quantiles, as on Spark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.loop.binding import Planned
from penstock.core.loop.events import BatchEnded
from penstock.core.network.exact import Objective
from penstock.core.network.expressions import narrowed
from penstock.core.network.model import Box, Network
from penstock.core.network.planner import Kind, NetworkPlanner
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import BoxStatistics, PlaceRows, Report
from penstock.sim.driver import Driver

Values = NDArray[np.float64]

#: The column that has the value of a row, its highest value, and the steps in which quantiles are measured.
VALUE, HIGHEST, STEPS = "value", 100.0, 50


@dataclass(frozen=True)
class Machine:
    """What a network runs on."""

    trigger_s: float = 2.0
    pace: float = 2.0  #: seconds of work done in a second
    overhead_s: float = 0.3  #: time of a batch without its work
    noise: float = 0.0  #: how far the time of a batch may be from the mean, as a share of it
    level: Callable[[int], float] = lambda _batch: 1.0  #: factor of times, by the number of the batch
    above: float = 10.0  #: the value that a filter with a condition passes rows above


class Batch(NamedTuple):
    """One batch."""

    plan: Plan | None  #: what judged it
    rows: dict[str, int]  #: rows that came, by input
    arcs: dict[str, int]  #: rows on each arc, behind its drop
    work_s: float
    duration_s: float


class Flow(NamedTuple):
    """Rows on their way through a network."""

    arcs: dict[str, int]  #: rows on each arc, behind its drop
    leaving: dict[str, int]  #: rows that leave each node
    quantiles: dict[str, tuple[float, ...]]  #: of values in front of the drops of measured places


class NetworkRun:
    """A network that runs, batch by batch; `done` has the batches so far."""

    def __init__(
        self,
        network: Network,
        kind: Kind = "random",
        machine: Machine = Machine(),
        *,
        empty_s: float | None = None,
        objective: Objective = "sum",
        seed: int = 7,
    ) -> None:
        """Begin with measured costs; a batch without rows was measured to take `empty_s`, or its overhead."""
        self.network, self.machine = network, machine
        self.planner = NetworkPlanner(network, trigger_s=machine.trigger_s, kind=kind, objective=objective)
        costs_s = {box.name: box.cost for box in network.boxes}
        self.planner.known.calibrate(costs_s, machine.overhead_s if empty_s is None else empty_s)
        self.done: list[Batch] = []
        self._driver = Driver(self.planner, 0.0, query="")
        self._rng = np.random.default_rng(seed)
        self._now_s, self._span_s = 0.0, machine.trigger_s

    def run(self, rates: Mapping[str, float], batches: int) -> None:
        """Run this many batches, with rows at these rates."""
        for _ in range(batches):
            self._batch(rates)

    def _batch(self, rates: Mapping[str, float]) -> None:
        machine, number = self.machine, len(self.done)
        self._driver.look()
        plan, _ = self._driver.bind(number, Planned(None, self._now_s, None))
        rows = {name: round(rate * self._span_s) for name, rate in rates.items()}
        flow = self._flow(rows, plan)
        work_s = sum(flow.arcs[arc.name] * arc.cost for arc in self.network.arcs)
        level = machine.level(number) * (1.0 + machine.noise * self._rng.uniform(-1.0, 1.0))
        duration_s = level * (machine.overhead_s + work_s / machine.pace)
        self._now_s += duration_s
        report = self._report(number, plan, rows, flow, duration_s)
        self.done.append(Batch(plan, rows, flow.arcs, work_s, duration_s))
        self._driver.handle(BatchEnded(self._now_s, number, report))
        self._span_s = max(machine.trigger_s, duration_s)
        self._now_s += self._span_s - duration_s

    def _report(self, number: int, plan: Plan | None, rows: Mapping[str, int], flow: Flow, duration_s: float) -> Report:
        """The report of a batch, as a network on Spark makes it."""
        by_value = {drop.place for drop in plan.drops if drop.condition} if plan else set[str]()
        places = {
            name: PlaceRows(count, count, name in by_value, flow.quantiles.get(name, ()))
            for name, count in {**rows, **flow.arcs}.items()
        }
        into = {box.name: sum(flow.arcs[arc.name] for arc in self.network.into[box.name]) for box in self.network.boxes}
        return Report(
            sequence=number,
            start_s=self._now_s - duration_s,
            end_s=self._now_s,
            elapsed_s=self._span_s,
            span_s=duration_s,
            rows_in=sum(rows.values()),
            rows_kept=sum(rows.values()),
            sources={name: places.pop(name) for name in rows},
            links=places,
            boxes={name: BoxStatistics(came, flow.leaving[name], 0.0) for name, came in into.items()},
        )

    def _flow(self, rows: Mapping[str, int], plan: Plan | None) -> Flow:
        on: dict[str, Values] = {}
        leaving, quantiles = dict[str, int](), dict[str, tuple[float, ...]]()
        boxes, subjects = {box.name: box for box in self.network.boxes}, self.planner.subjects

        def dropped(place: str, given: Values) -> Values:
            if place in subjects and len(given):
                quantiles[place] = tuple(np.quantile(given, np.linspace(0.0, 1.0, STEPS + 1)).tolist())
            return self._dropped(place, given, plan)

        for name in self.network.order:
            into = self.network.into[name]
            if into:
                given = np.concatenate([on[arc.name] for arc in into])
                given = self._passed(boxes[name], given) if name in boxes else given
            else:
                given = dropped(name, self._rng.uniform(0.0, HIGHEST, rows[name]))
            leaving[name] = len(given)
            for arc in self.network.out_of[name]:
                on[arc.name] = dropped(arc.name, given)
        return Flow({name: len(values) for name, values in on.items()}, leaving, quantiles)

    def _passed(self, box: Box, given: Values) -> Values:
        """The rows that a box puts out."""
        if box.where:
            return given[given > self.machine.above]
        return given[self._rng.random(len(given)) < self.network.into[box.name][0].selectivity]

    def _dropped(self, place: str, given: Values, plan: Plan | None) -> Values:
        """The rows that a plan keeps at a place."""
        drop = None if plan is None else plan.drop(place)
        if drop is None:
            return given
        if drop.condition:
            kept = narrowed(drop.condition, VALUE)
            if not kept.exact:
                raise PenstockError(f"the drop at {place} must judge {VALUE} alone, not {drop.condition}")
            return given[kept.values.has(given)]
        return given[self._rng.random(len(given)) < drop.keep]
