r"""Dynamic load shedding: drops that follow measured delays (Carney et al. 2002).

An output suffers when its rows are later than its delay graph allows. Of these outputs, the one whose loss tolerance
falls least loses rows first. The walk follows its graph to the next bend, then the graph that falls least there. Delays
respond late, once queues are processed, so while they fall fast enough nothing more is shed. When no output suffers and
delays are well below their thresholds, rows are restored on the reverse path, in smaller steps.

A drop is placed as far upstream as possible without affecting another output. If rows already wait in front of a box,
only later rows would benefit, so while the queue is long the drop is placed there.

It needs no costs, selectivities or capacity: delays show whether enough is shed. That is also its weakness: a graph's
slope ignores how much work a row saves, so outputs with cheap and expensive rows are treated alike. On irregular
networks it loses much more utility than the road map, which divides loss by gain. Use it if costs are unknown.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.core.network.drops import pushed_upstream
from penstock.core.network.model import Arc, Network
from penstock.core.network.qos import LossTolerance
from penstock.core.settings import number
from penstock.errors import PenstockError

#: A share this little below 0 is 0.
_SAME = 1e-9
#: A delay falls fast enough if each step removes this share of its excess.
_FAST = 0.1
#: Steps back are this much shorter: too long a step makes rows late, too short a step costs a few rows.
_BACK = 0.25


@dataclass(frozen=True, slots=True)
class Plan:
    """What to drop until delays are measured again."""

    keep: dict[str, float]  #: the keep share of each drop, by place; a place is an input or an arc
    delivered: dict[str, float]  #: percent of its rows that each output is meant to get
    suffering: tuple[str, ...]  #: the outputs whose rows were too late


class DynamicShedder:
    """Sheds step by step while outputs suffer.

    >>> from penstock.core.network.model import Box, Input, Output
    >>> from penstock.core.network.qos import DelayQos
    >>> late = DelayQos([(0, 1.0), (2, 1.0), (10, 0.0)])
    >>> network = Network(
    ...     [Input("I", 10)],
    ...     [Box("left", "map", ("I",), 4), Box("right", "map", ("I",), 4)],
    ...     [Output("A", "left", LossTolerance([(100, 1.0), (90, 0.95), (0, 0.0)]), latency=late),
    ...      Output("B", "right", LossTolerance([(100, 1.0), (0, 0.0)]), latency=late)],
    ... )
    >>> shedder = DynamicShedder(network, step_percent=15)
    >>> plan = shedder.observe({"A": 3.0, "B": 2.5})  # A loses 10 percent until its graph bends, then B 5
    >>> plan.delivered, plan.keep
    ({'A': 90.0, 'B': 95.0}, {'I->left': 0.9, 'I->right': 0.95})
    >>> shedder.observe({"A": 0.5, "B": 0.5}).delivered  # B first: its last percent is worth more
    {'A': 90.0, 'B': 98.75}
    """

    def __init__(
        self, network: Network, *, step_percent: float = 10.0, relief: float = 0.7, long_queue_s: float = 1.0
    ) -> None:
        """Start with no drops.

        Args:
            network: Inputs, boxes and outputs; those without a delay graph are ignored.
            step_percent: How far to walk each time, in percent of an output's rows; a quarter of it on the way back.
            relief: Rows are given back when all delays are below this share of their threshold.
            long_queue_s: A queue is long if it holds the rows of this many seconds.
        """
        self._step = number("step_percent", step_percent, 0.0, 100.0)
        if not self._step:
            raise PenstockError.setting("step_percent", step_percent, "a number above 0 up to 100")
        self._relief = number("relief", relief, 0.0, 1.0)
        self._long_queue_s = number("long_queue_s", long_queue_s, 0.0, math.inf)
        self._network = network
        self._threshold_s = {one.name: one.latency.threshold_s for one in network.outputs if one.latency is not None}
        if not self._threshold_s:
            raise PenstockError("latency is missing: dynamic shedding needs an output with a delay graph")
        self._graphs = {one.name: one.loss_tolerance for one in network.outputs}
        self._last_s: dict[str, float] = {}
        self._percent = {one.name: 100.0 for one in network.outputs}
        self._own = {one.name: _Own(network, one.name) for one in network.outputs}

    def observe(
        self, delays_s: Mapping[str, float], queues: Mapping[str, float] | None = None, inactive: Collection[str] = ()
    ) -> Plan:
        """What to drop from now on.

        Args:
            delays_s: Delays of rows, by output; an output without rows is omitted.
            queues: Rows that wait on arcs, by their names.
            inactive: Outputs to skip: they do no work now, so dropping their rows would free nothing.
        """
        heeded = {name: limit for name, limit in self._threshold_s.items() if name not in inactive}
        suffering = tuple(name for name, limit in heeded.items() if delays_s.get(name, 0.0) > limit)
        if suffering:
            fallen_s = {name: self._last_s.get(name, 0.0) - delays_s[name] for name in suffering}
            # Delays that all move fast enough towards their thresholds need no further drops.
            if any(fallen_s[name] < _FAST * (delays_s[name] - heeded[name]) for name in suffering):
                self._shed(suffering)
        elif all(delays_s.get(name, 0.0) <= self._relief * limit for name, limit in heeded.items()):
            self._give_back(inactive)
        self._last_s = dict(delays_s)
        keep = dict[str, float]()
        for name, percent in self._percent.items():
            if percent < 100.0:  # noqa: PLR2004 - all of its rows
                keep |= self._own[name].drops(percent / 100.0, queues or {}, self._long_queue_s)
        return Plan(keep, dict(self._percent), suffering)

    def _shed(self, suffering: Collection[str]) -> None:
        """Walk down, always along the graph that falls least."""
        left = self._step
        while left > 0.0 and (flowing := [name for name in suffering if self._percent[name] > 0.0]):
            name = min(flowing, key=lambda one: self._graphs[one].loss_per_percent(self._percent[one]))
            far = self._percent[name] - self._graphs[name].next_break(self._percent[name])
            self._percent[name] -= min(far, left)
            left -= min(far, left)

    def _give_back(self, inactive: Collection[str]) -> None:
        """Walk up, always along the graph that rises most."""
        left = self._step * _BACK
        shed = [name for name in self._percent if name not in inactive]
        while left > 0.0 and (open_ := [name for name in shed if self._percent[name] < 100.0]):  # noqa: PLR2004 - all
            rises = {name: _rise(self._graphs[name], self._percent[name]) for name in open_}
            name = max(open_, key=lambda one: rises[one][0])
            far = rises[name][1] - self._percent[name]
            self._percent[name] += min(far, left)
            left -= min(far, left)


class _Own:
    """The part of a network whose rows go to one output alone."""

    def __init__(self, network: Network, output: str) -> None:
        self._network, self._output = network, output
        self._places = [place.name for place in pushed_upstream(network, output)]
        self._flows = network.flows()
        self._arcs = list[Arc]()
        #: Rows that come out at the output for each on an arc.
        self._yield = dict[str, float]()
        todo = [(arc, 1.0) for arc in network.into[output]]
        while todo:
            arc, rows = todo.pop()
            self._arcs.append(arc)
            self._yield[arc.name] = rows
            if len(network.out_of[arc.source]) == 1:
                todo += [(before, rows * before.selectivity) for before in network.into[arc.source]]

    def drops(self, share: float, queues: Mapping[str, float], long_s: float) -> dict[str, float]:
        """Where to drop so that a share of the output's rows comes through."""
        waits_s = {
            arc.name: queues.get(arc.name, 0.0) / self._flows[arc.name]
            for arc in self._arcs
            if self._flows[arc.name] > 0.0 and queues.get(arc.name, 0.0) > long_s * self._flows[arc.name]
        }
        if waits_s:
            longest = max(waits_s, key=lambda name: waits_s[name])
            full = self._flows[self._network.into[self._output][0].name]
            part = self._yield[longest] * self._flows[longest] / full if full > 0.0 else 0.0
            if part > 0.0 and (left := 1.0 - (1.0 - share) / part) >= -_SAME:
                return {longest: max(left, 0.0)}
        return dict.fromkeys(self._places, share)


def _rise(graph: LossTolerance, percent: float) -> tuple[float, float]:
    """How much the next percent given back is worth, and where the graph bends next."""
    above = min((point for point in graph.points if point[0] > percent), key=lambda point: point[0])
    return (above[1] - graph.utility(percent)) / (above[0] - percent), above[0]
