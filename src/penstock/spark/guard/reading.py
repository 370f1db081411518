"""How the progress of a query is read: which gates and probes it has, and what they counted."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from penstock.core.grouping.partition_costs import PartitionCosts
from penstock.messages.plan import Costs, Plan
from penstock.messages.report import Report
from penstock.spark.guard.misuse import is_gate_of
from penstock.spark.progress import Progress, partition_costs, report_of


class Reading(Protocol):
    """What a controller asks about a batch that has ended, of a guard or of one of several queries."""

    @property
    def gated(self) -> bool:
        """Whether it has a gate."""

    @property
    def probe(self) -> str:
        """The name of its measurements."""

    def gates(self) -> Iterable[str]:
        """The names of the gates' counts."""

    def judged(self, progress: Progress) -> bool:
        """Whether the batch was judged by one of its gates."""

    def version(self, progress: Progress) -> int | None:
        """The version of the plan that judged the batch."""

    def report(self, progress: Progress, before: Progress | None, plan: Plan | None) -> Report | None:
        """The batch as a Report."""


class GuardReading(NamedTuple):
    """Reads the batches of a query with one gate, that of a guard of this name, or whose rows are only measured."""

    gate: str | None
    probe: str
    guard: str | None = None
    dry: bool = False

    @property
    def gated(self) -> bool:
        """Whether it has a gate."""
        return self.gate is not None

    def gates(self) -> Iterable[str]:
        """What the gate gives its counts under."""
        return () if self.gate is None else (self.gate,)

    def judged(self, progress: Progress) -> bool:
        """Whether the batch was judged by the gate of this guard; without a gate, whether its rows were measured."""
        if self.gate is None:
            return self.probe in progress.observed
        return is_gate_of(self.guard, progress.observed.get(self.gate))

    def version(self, progress: Progress) -> int | None:
        """The version of the plan that judged the batch."""
        return progress.observed.get(self.gate or self.probe, {}).get("plan")

    def report(self, progress: Progress, before: Progress | None, plan: Plan | None) -> Report | None:
        """The batch as a Report."""
        return report_of(progress, before, gate=self.gate, probe=self.probe, plan=plan, dry=self.dry)


class Dealing:
    """What rows are dealt to partitions by.

    Attributes:
        costs: What is in force so far.
    """

    def __init__(self, place: str, partitions: int, costs: Costs | None, probe: str) -> None:
        """Resume from the newest plan's costs at the place; `probe` is the name of its measurements."""
        self._place, self._probe, self.costs = place, probe, costs
        self._known = PartitionCosts.of(self.costs, partitions)

    def news(self, progress: Progress) -> Costs | None:
        """Learn from a batch; returns new costs to deal by, or None to keep the current ones."""
        self._known.learn(partition_costs(progress, self._probe))
        news = self._known.news(self.costs, self._place)
        self.costs = news or self.costs
        return news
