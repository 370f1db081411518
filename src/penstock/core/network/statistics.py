r"""Statistics of a network learned from batches: rates, selectivities, costs of boxes, and the bottleneck stage.

- A rate is incoming rows over time, of the last few batches. Rows that came while the last batch took too long wait for
  the next one, which must also process a part of them.
- A selectivity is rows out over rows in, with less weight for older batches. Where rows are dropped by value upstream,
  a filter on that value sees other rows than without drops. So such a batch is not used for it.
- A cost is in seconds of a task per row: measured for a Python box, calibrated for others. A stateful box begins a
  stage and has an arbitrary cost, because the stage's pace compensates for it.
- A stage is a query, and queries run side by side. Each must keep up alone, so load and capacity are those of the stage
  whose load is the largest share of its capacity. Boxes of other stages cost nothing then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.core.control.capacity import Capacity
from penstock.core.control.memory import Learned
from penstock.core.network.model import Network
from penstock.core.network.stages import LEAST_COST_S, StagedNetwork
from penstock.messages.codec import Count, Flag, Name, Number, Record
from penstock.messages.report import Report

#: Batches over which a rate is taken.
RATE_BATCHES = 2
#: Rates of an earlier run count for this long after its end.
RATES_LAST_S = 60.0
#: The share of waiting rows that the next batch should catch up on: all at once would drop too many.
MELT = 0.5
#: The decay of counts from batch to batch.
REMEMBER = 0.7
#: The cost of a row in a stateful box, until the stage's pace is known.
STATEFUL_COST_S = 1e-4


@dataclass(frozen=True, slots=True)
class _Came(Record):
    elapsed_s: Number
    rows: Mapping[Name, Count]


class NetworkStatistics(Learned):
    """The statistics of a running network.

    >>> from penstock.core.network.model import Box, Input, Output
    >>> from penstock.core.network.qos import LossTolerance
    >>> from penstock.messages.report import BoxStatistics, PlaceRows
    >>> some = Network([Input("I", 1)], [Box("b", "filter", ("I",), 1.0, 0.5)],
    ...                [Output("O", "b", LossTolerance([(100, 1.0), (0, 0.0)]))])
    >>> known = NetworkStatistics(some, trigger_s=2.0)
    >>> known.calibrate({"b": 0.001}, overhead_s=0.4)
    >>> known.learn(Report(sequence=0, start_s=0.0, end_s=1.4, span_s=1.4, elapsed_s=2.0, rows_in=2000, rows_kept=2000,
    ...                    sources={"I": PlaceRows(2000, 2000)},
    ...                    boxes={"b": BoxStatistics(2000, 500, 0.0)}))
    >>> known.rates, known.network.boxes[0].selectivity, round(known.capacity, 6), known.network.load()
    ({'I': 1000.0}, 0.25, 1.6, 1.0)
    """

    _recent: tuple[_Came, ...]
    _into: Mapping[Name, Number]
    _out: Mapping[Name, Number]
    _costs: Mapping[Name, Number]
    _python: Mapping[Name, tuple[Number, ...]]  # rows and seconds
    _pace: Capacity
    _calibrated: Flag
    _last_s: Number
    _until_s: Number  # when the last batch ended

    def __init__(
        self, network: Network, trigger_s: float, pace: float = 1.0, stages: Sequence[tuple[str, frozenset[str]]] = ()
    ) -> None:
        """Begin with the network's own selectivities; arguments are those of `NetworkPlanner`."""
        self._staged, self._trigger_s = StagedNetwork(network, stages), trigger_s
        self._recent, self._into, self._out, self._python = (), {}, {}, {}
        costs = dict.fromkeys([box.name for box in network.boxes], LEAST_COST_S)
        self._costs = costs | dict.fromkeys([name for name, _ in stages], STATEFUL_COST_S)
        self._pace = Capacity(unit_s=1.0 / pace)
        self.paces = {name: Capacity(unit_s=1.0 / pace) for name in self._staged.further}
        self._calibrated = False
        self._last_s = self._until_s = 0.0

    def calibrate(self, costs_s: Mapping[str, float], overhead_s: float | None = None) -> None:
        """Use costs measured outside of batches, and the time of a batch without rows."""
        self._costs = {**self._costs, **{name: max(cost, LEAST_COST_S) for name, cost in costs_s.items()}}
        if overhead_s is not None:
            self._pace.calibrate(overhead_s)
            self._calibrated = True

    def forget_old_rates(self, now_s: float) -> None:
        """Forget rates of rows that are too old to say what comes now."""
        if now_s - self._until_s > RATES_LAST_S:
            self._recent = ()

    def learn(self, report: Report) -> None:
        """Process one batch of the inputs. A `span_s` of 0 says that its length is not representative."""
        self._until_s = report.end_s
        if report.elapsed_s > 0.0:
            came = {name: one.rows_in for name, one in report.sources.items()}
            self._recent = (*self._recent, _Came(report.elapsed_s, came))[-RATE_BATCHES:]
        by_value = {name for name, one in report.places.items() if one.by_value}
        for name, box in report.boxes.items():
            if box.rows_in and not by_value & self._staged.upstream[name]:
                self._into = {**self._into, name: REMEMBER * self._into.get(name, 0.0) + box.rows_in}
                self._out = {**self._out, name: REMEMBER * self._out.get(name, 0.0) + box.rows_out}
            if box.rows_in and box.busy_s:
                rows, seconds = self._python.get(name, (0.0, 0.0))
                rows, seconds = REMEMBER * rows + box.rows_in, REMEMBER * seconds + box.busy_s
                self._python = {**self._python, name: (rows, seconds)}
                self._costs = {**self._costs, name: max(seconds / rows, LEAST_COST_S)}
        self._last_s = report.duration_s
        work_s = self._work_s(report, self._staged.first)
        if work_s and report.span_s:  # Without rows the pace is unknown.
            self._pace.learn(work_s, report.span_s)

    def learn_stage(self, stage: str, report: Report) -> None:
        """Process one batch of a further stage."""
        self.paces[stage].learn(self._work_s(report, self._staged.further[stage]), report.span_s)

    def _work_s(self, report: Report, boxes: frozenset[str]) -> float:
        return sum(one.rows_in * self._costs[name] for name, one in report.boxes.items() if name in boxes)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms: batches that take too long even with shedding."""
        period_s = self._pace.length_s(self._trigger_s)
        if not self.enough or period_s <= self._trigger_s:
            return ()
        alarm = (
            f"trigger = {self._trigger_s:g} s is too short: a batch takes {self._pace.overhead_s:.1f} s apart from its "
            f"work, so one is planned for every {period_s:.1f} s; give a longer trigger"
        )
        return (alarm,)

    @property
    def enough(self) -> bool:
        """Whether rates and costs are known, and so the load."""
        return self._calibrated and bool(self._recent)

    @property
    def rates(self) -> dict[str, float]:
        """Rows a second of each input."""
        span_s = sum(one.elapsed_s for one in self._recent)
        if not span_s:
            return self._staged.given.rates
        inputs = [one.name for one in self._staged.given.inputs]
        return {name: sum(batch.rows.get(name, 0) for batch in self._recent) / span_s for name in inputs}

    @property
    def due(self) -> dict[str, float]:
        """Rows a second that the next batch must process, including waiting rows."""
        times = 1.0 + MELT * max(self._last_s / self._pace.length_s(self._trigger_s) - 1.0, 0.0)
        return {name: times * rate for name, rate in self.rates.items()}

    @property
    def network(self) -> Network:
        """The network with learned figures, at the required rates.

        Only boxes of the bottleneck cost anything.
        """
        return self._learned(self._bottleneck()[0])

    @property
    def capacity(self) -> float:
        """Capacity of the bottleneck, in work a second."""
        return self._bottleneck()[1].per_s(self._trigger_s)

    def _bottleneck(self) -> tuple[frozenset[str], Capacity]:
        """The stage whose load is the largest share of its capacity."""
        found = [(self._staged.first, self._pace)]
        found += [(boxes, self.paces[name]) for name, boxes in self._staged.further.items()]
        if len(found) == 1:
            return found[0]
        return max(found, key=lambda stage: self._learned(stage[0]).load() / stage[1].per_s(self._trigger_s))

    def _learned(self, stage: frozenset[str]) -> Network:
        selectivities = {name: self._out[name] / rows for name, rows in self._into.items() if rows}
        return self._staged.measured(stage, self.due, self._costs, selectivities)
