r"""Decides the drops of a running network: detects overload, looks up the road map, and withdraws drops.

Load is the work without drops. It may be up to headroom times capacity; the rest is the excess, for which the road map
has an entry. The map is rebuilt when the statistics have drifted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.core.control.memory import Learned, restored, saved
from penstock.core.network.admission_control import evenly
from penstock.core.network.current_map import CurrentMap
from penstock.core.network.exact import Objective
from penstock.core.network.model import Network
from penstock.core.network.roadmap import Entry, Solver
from penstock.core.network.statistics import NetworkStatistics
from penstock.messages.plan import Drop, Plan
from penstock.messages.report import Report

Kind = Literal["random", "semantic", "input_uniform"]

#: A plan stays in force while its admitted work is within the limit, and at most this share below it.
DEAD_BAND = 0.1
#: At least this share of rows is kept at random where a plan would keep none, so that learning continues.
LEAST_KEPT = 0.01


@dataclass(frozen=True)
class Decision:
    """What to drop from now on."""

    entry: Entry  #: shares and conditions by place, and what they deliver
    index: int  #: number of the entry; 0 drops nothing
    entries: int  #: how many there are
    load: float  #: work a second without drops
    capacity: float  #: work a second that can be done
    changed: bool  #: whether it differs from the previous decision


class NetworkPlanner:
    """Learns from batches of a network and decides what the next ones drop.

    Attributes:
        known: The learned statistics.
        start: The drops from the first batch on, until the next decision.
        last: The last decision.
        headroom: The share of capacity that may be used.
        entry: The road map's entry in force.
        entries: How many entries that map has.
    """

    def __init__(  # noqa: PLR0913 - each is one setting of a user's
        self,
        network: Network,
        *,
        trigger_s: float,
        headroom: float = 0.9,
        kind: Kind = "random",
        solver: Solver = "auto",
        objective: Objective = "sum",
        pace: float = 1.0,
        stages: Sequence[tuple[str, frozenset[str]]] = (),
        shed: bool = True,
    ) -> None:
        """Plan for a network whose batches start every `trigger_s` seconds.

        Args:
            network: What runs.
            trigger_s: How often batches start.
            headroom: The share of capacity that may be used.
            kind: How rows are dropped.
            solver: How a road map of random drops is made.
            objective: The sum of utilities, a balance between outputs, or the worst of them.
            pace: A first guess, in seconds of work a second.
            stages: The box that begins each further stage, and all boxes of it.
            shed: Whether rows are dropped when there are too many.
        """
        self.known = NetworkStatistics(network, trigger_s, pace, stages)
        self.headroom, self._kind, self._shed = headroom, kind, shed
        self._map = CurrentMap(network, solver, objective, by_value=kind == "semantic")
        self.start: tuple[Drop, ...] = ()
        self.last = Decision(nothing_dropped(network), 0, 0, 0.0, 0.0, changed=False)
        self.entry, self.entries = nothing_dropped(network), 0

    @property
    def subjects(self) -> dict[str, str]:
        """The expressions to measure, by place."""
        return self._map.subjects

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """Learn from a batch; returns the plan for the next, or None to keep the current one."""
        return self._plan(now_s) if self.learn(report).changed and self._shed else None

    def _plan(self, now_s: float, note: str = "") -> Plan:
        found = self.last
        self.entry, self.entries = found.entry, found.entries
        return Plan(0, self._kind, now_s, 0, drops=_drops(found.entry), entry=found.index, note=note)

    def release(self, version: int, now_s: float, note: str) -> Plan:
        """A plan that keeps every row; the next decision counts as new in any case."""
        network = self.known.network
        self.last = Decision(nothing_dropped(network), 0, 0, 0.0, 0.0, changed=False)
        self.entry, self.entries = nothing_dropped(network), 0
        return Plan(version, self._kind, now_s, 0, note=note)

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan:
        """The plan for the first batch of a run: the next plan of the last run, if its state is known and recent.

        The distributions for drops by value are not known: that batch measures them, and the next one has a plan.
        """
        del reports
        self.known.forget_old_rates(now_s)
        known = self._shed and self._kind != "semantic" and self.known.enough
        if self.start or not (known and self._choose().changed):
            return Plan(0, self._kind, now_s, 0, drops=self.start, note="start")
        return self._plan(now_s, "goes on from the last run")

    def save(self) -> dict[str, Any]:
        """The learned state, without distributions for drops by value, which are measured again."""
        return saved(self._kind, **self._parts)

    def restore(self, state: Mapping[str, Any], now_s: float) -> None:
        """Restore the state of `save`."""
        del now_s
        restored(state, self._kind, **self._parts)

    @property
    def _parts(self) -> dict[str, Learned]:
        return {"known": self.known, **{f"stage {name}": pace for name, pace in self.known.paces.items()}}

    def learn(self, report: Report) -> Decision:
        """Learn from a batch; returns the drops of the next."""
        self.known.learn(report)
        self._map.learn(report)
        return self._choose()

    def _choose(self) -> Decision:
        network, capacity = self.known.network, self.known.capacity
        if not self.known.enough:
            self.last = Decision(nothing_dropped(network), 0, 0, 0.0, capacity, changed=False)
            return self.last
        load, limit = network.load(), self.headroom * capacity
        if self._fits(network, load, limit):
            self.last = replace(self.last, load=load, capacity=capacity, changed=False)
            return self.last
        index, entries, entry = self._chosen(network, load, limit)
        changed = entry.keep != self.last.entry.keep or entry.predicates != self.last.entry.predicates
        self.last = Decision(entry, index, entries, load, capacity, changed)
        return self.last

    def _fits(self, network: Network, load: float, limit: float) -> bool:
        """Whether the plan in force is still right: Spark recompiles at every new plan."""
        if not self.last.index:
            return False
        rates = network.rates
        saved = sum(rates[name] * saved for name, saved in self.last.entry.savings.items())
        left = load - saved * self._map.scale(network)
        return (1.0 - DEAD_BAND) * limit <= left <= limit

    def _chosen(self, network: Network, load: float, limit: float) -> tuple[int, int, Entry]:
        excess = load - limit
        if excess <= 0.0:
            return 0, 0, nothing_dropped(network)
        if self._kind == "input_uniform":
            return 1, 2, _input_uniform(network, excess)
        return self._map.find(excess, network, self.last.index)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms."""
        return self.known.alarms

    @property
    def rebuilt(self) -> int:
        """How often the road map was made."""
        return self._map.built


def nothing_dropped(network: Network) -> Entry:
    """The entry that keeps every row."""
    whole = {one.name: 100.0 for one in network.outputs}
    utility = sum(one.loss_tolerance.utility(100.0) for one in network.outputs)
    return Entry(savings={one.name: 0.0 for one in network.inputs}, keep={}, delivered=whole, utility=utility)


def _drops(entry: Entry) -> tuple[Drop, ...]:
    by_value = {place: one.sql() for place, one in entry.predicates.items()}
    # A condition that no row meets is a share too: Spark would remove it together with the count before it.
    keep = entry.keep | {place: 0.0 for place, text in by_value.items() if text in ("false", "")}
    return (
        *(Drop(place, keep=max(share, LEAST_KEPT)) for place, share in keep.items()),
        *(Drop(place, condition=text) for place, text in by_value.items() if place not in keep),
    )


def _input_uniform(network: Network, excess: float) -> Entry:
    """Every input sheds the same amount of load, as admission control without utility."""
    names = [one.name for one in network.inputs]
    loads = [one.rate * network.coefficients[one.name] for one in network.inputs]
    keep = dict(zip(names, evenly(loads, excess).tolist(), strict=True))
    full, left = network.flows(), network.flows({name: rate * keep[name] for name, rate in network.rates.items()})
    arcs = {one.name: network.into[one.name][0].name for one in network.outputs}
    delivered = {name: 100.0 * left[arc] / full[arc] if full[arc] else 100.0 for name, arc in arcs.items()}
    utility = sum(one.loss_tolerance.utility(delivered[one.name]) for one in network.outputs)
    savings = {name: (1.0 - keep[name]) * network.coefficients[name] for name in names}
    return Entry(savings, {name: share for name, share in keep.items() if share < 1.0}, delivered, utility)
