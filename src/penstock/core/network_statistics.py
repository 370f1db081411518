r"""What batches teach about a network: rates, selectivities, costs of boxes, and how fast work gets done.

- A rate is rows that came over the time in which they came, of the last few batches.
- A selectivity is rows out over rows in, older batches counting less. Where rows are dropped by value upstream, a
  filter on that value meets other rows than it would without drops; such a batch teaches nothing about it.
- A cost is in seconds of a task for each row: of a Python box as it was measured, of others as they were calibrated.
- With work $W = \sum_a n_a c_a$ a batch takes $o + W / P$: overhead $o$, and pace $P$ as the last batches had it. The
  overhead is that of a batch without rows; when batches of different size were seen, a line through them may say that
  it is more. Started every $T$ seconds, batches get $C = P\,(1 - o / T)$ done a second. If all costs are off by one
  factor, $P$ is off by the same, and the forecast holds.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.network import Box, Input, Network

#: Batches over which a rate is taken, and whose pace is remembered.
RATE_BATCHES, PACE_BATCHES = 2, 6
#: What is remembered of counts from one batch to the next.
REMEMBER = 0.7
#: However long the overhead, so much of a batch's time counts as left for work.
LEAST_SHARE = 0.1
#: A batch that works less than this share of its time is mostly overhead: nothing is learned of the pace.
WORTH_TIMING = 0.2
#: What a box costs at least: a free one would be worth no drop, whatever comes of it.
LEAST_COST_S = 1e-8
#: Batches tell overhead and pace apart if the largest of them is so many times as much work as the smallest.
APART = 1.3
#: However the line lies, no more than this share of the shortest batch is overhead.
MOST_OVERHEAD = 0.9


@dataclass(frozen=True)
class Measured:
    """One batch.

    Attributes:
        elapsed_s: The time in which its rows came: since the batch before it began.
        duration_s: How long it took.
        rows: Rows that came from each input, before any drop.
        arcs: Rows that went along each arc, behind its drop.
        leaving: Rows that each box put out.
        python_s: Seconds that each Python box took.
        by_value: Places at which rows were dropped by value.
        cold: Whether its length says nothing, as that of the first batch does.
    """

    elapsed_s: float
    duration_s: float
    rows: Mapping[str, int]
    arcs: Mapping[str, int]
    leaving: Mapping[str, int]
    python_s: Mapping[str, float] = field(default_factory=dict)
    by_value: frozenset[str] = frozenset()
    cold: bool = False


class NetworkStatistics:
    """What is known of a running network.

    >>> from penstock.core.network import Output
    >>> from penstock.core.qos import LossTolerance
    >>> some = Network([Input("I", 1)], [Box("b", "filter", ("I",), 1.0, 0.5)],
    ...                [Output("O", "b", LossTolerance([(100, 1.0), (0, 0.0)]))])
    >>> known = NetworkStatistics(some, trigger_s=2.0)
    >>> known.calibrate({"b": 0.001}, overhead_s=0.4)
    >>> known.learn(Measured(2.0, 1.4, {"I": 2000}, {"I->b": 2000, "b->O": 500}, {"b": 500}))
    >>> known.rates, known.network.boxes[0].selectivity, round(known.pace, 6), round(known.capacity, 6)
    ({'I': 1000.0}, 0.25, 2.0, 1.6)
    """

    def __init__(self, network: Network, trigger_s: float, pace: float = 1.0) -> None:
        """Begin with the network's own figures and a guess of the pace, in task seconds a second."""
        self._given, self._trigger_s, self._guess = network, trigger_s, pace
        self._recent = deque[tuple[float, Mapping[str, int]]](maxlen=RATE_BATCHES)
        self._into: dict[str, float] = {}
        self._out: dict[str, float] = {}
        self._costs = {box.name: box.cost for box in network.boxes}
        self._python: dict[str, tuple[float, float]] = {}
        self._timed = deque[tuple[float, float]](maxlen=PACE_BATCHES)  # work, and how long it took
        self._upstream = _upstream(network)
        self._empty_s: float | None = None

    def calibrate(self, costs_s: Mapping[str, float], overhead_s: float | None = None) -> None:
        """Take over costs that were measured apart from any batch, and how long a batch without rows takes."""
        self._costs |= {name: max(cost, LEAST_COST_S) for name, cost in costs_s.items()}
        if overhead_s is not None:
            self._empty_s = overhead_s
            self._timed.clear()

    def learn(self, batch: Measured) -> None:
        """Take in one batch."""
        if batch.elapsed_s > 0.0:
            self._recent.append((batch.elapsed_s, batch.rows))
        for box in self._given.boxes:
            came = sum(batch.arcs.get(arc.name, 0) for arc in self._given.into[box.name])
            if came and not batch.by_value & self._upstream[box.name]:
                self._into[box.name] = REMEMBER * self._into.get(box.name, 0.0) + came
                self._out[box.name] = REMEMBER * self._out.get(box.name, 0.0) + batch.leaving.get(box.name, 0)
            if came and box.name in batch.python_s:
                rows, seconds = self._python.get(box.name, (0.0, 0.0))
                rows, seconds = REMEMBER * rows + came, REMEMBER * seconds + batch.python_s[box.name]
                self._python[box.name] = rows, seconds
                self._costs[box.name] = max(seconds / rows, LEAST_COST_S)
        work_s = sum(batch.arcs.get(arc.name, 0) * self._costs.get(arc.target, 0.0) for arc in self._given.arcs)
        if work_s > 0.0 and not batch.cold:
            self._timed.append((work_s, batch.duration_s))

    @property
    def enough(self) -> bool:
        """Whether rates and costs are known, so that a load can be told."""
        return self._empty_s is not None and bool(self._recent)

    @property
    def overhead_s(self) -> float:
        """How long a batch takes apart from its work."""
        empty_s = self._empty_s or 0.0
        if len(self._timed) < 2:  # noqa: PLR2004 - a line needs two points
            return empty_s
        work_s, took_s = (np.array(column) for column in zip(*self._timed, strict=True))
        if work_s.max() < APART * work_s.min():
            return empty_s
        slope, start = np.polyfit(work_s, took_s, 1)
        return float(np.clip(start, empty_s, MOST_OVERHEAD * took_s.min())) if slope > 0.0 else empty_s

    @property
    def rates(self) -> dict[str, float]:
        """Rows a second of each input."""
        span_s = sum(elapsed_s for elapsed_s, _ in self._recent)
        if not span_s:
            return self._given.rates
        return {
            one.name: sum(rows.get(one.name, 0) for _, rows in self._recent) / span_s for one in self._given.inputs
        }

    @property
    def network(self) -> Network:
        """The network with the figures that were learned."""
        rates = self.rates
        boxes = [replace(box, cost=self._costs[box.name], selectivity=self._selectivity(box)) for box in self._given.boxes]
        return Network([Input(one.name, rates[one.name]) for one in self._given.inputs], boxes, self._given.outputs)

    def _selectivity(self, box: Box) -> float | Mapping[str, float]:
        return self._out[box.name] / self._into[box.name] if self._into.get(box.name) else box.selectivity

    @property
    def pace(self) -> float:
        """Seconds of work that get done in a second."""
        overhead_s = self.overhead_s
        paces = [work / (took - overhead_s) for work, took in self._timed if took - overhead_s > WORTH_TIMING * took]
        return float(np.median(paces)) if paces else self._guess

    @property
    def capacity(self) -> float:
        """Work a second that batches get done, overhead taken off."""
        return self.pace * max(1.0 - self.overhead_s / self._trigger_s, LEAST_SHARE)


def _upstream(network: Network) -> dict[str, frozenset[str]]:
    """For each node, the places above it: inputs and arcs."""
    found: dict[str, frozenset[str]] = {}
    for name in network.order:
        own = {name} if not network.into[name] else set()
        above = [found[arc.source] | {arc.name} for arc in network.into[name]]
        found[name] = frozenset(own.union(*above))
    return found
