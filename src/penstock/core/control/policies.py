r"""Policies: the user's choice, as plain settings from which planners and machines are built.

A policy may work at two grains. Interval by interval, its planner turns a Report into a Plan for the gate in front of
the whole query. It returns `None` when the current plan is right. Row by row, its machines shed in front of one
operator, in the simulator and inside a measured operator. Both are pure: time and seed come from outside.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from penstock.core.control.allotment import ALIKE, CHEAPEST_FIRST
from penstock.core.control.bucket_costs import class_costs_s
from penstock.core.control.expected_costs import given, learned, recent_mean
from penstock.core.control.memory import from_text, to_text
from penstock.core.control.planner import BatchPlanner, FixedShare
from penstock.core.control.targets import MeanQueueLatency, Target
from penstock.core.row import baselines
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.las import LasOperator, LasShedder, Sending
from penstock.core.row.latency_goals import Check, RunningAverage
from penstock.core.row.load_aware import LoadAwareOperator, LoadAwareShedder, Prefer
from penstock.core.row.machines import Operator, Shedder
from penstock.core.settings import int64, one_of
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import Report

_CHOICES = {"variant": ("penstock", "paper"), "prefer": ("any", "cheap"), "sending": ("printed", "first_check")}
_RULES = {"any": ALIKE, "cheap": CHEAPEST_FIRST}
_PAPER_ONLY = ("epsilon", "delta", "window_rows", "tolerance", "sending", "check")
#: A target to check whether machines can be built from the settings.
_SOME_TARGET = MeanQueueLatency(1.0)


class Planner(Protocol):
    """Decides for the intervals of one query, a network or a site."""

    def decide(self, report: Report, now_s: float, /) -> Plan | None:
        """The plan for the interval after the report, or None to keep the current one."""

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything because no load is left, or None if none is needed."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms, one line each, as of the last report."""


@runtime_checkable
class Recalling(Protocol):
    """A planner that resumes from the state of an earlier run."""

    def save(self) -> Mapping[str, Any]:
        """What is learned so far, as JSON can hold it."""

    def restore(self, state: Mapping[str, Any], now_s: float) -> None:
        """Restore the state of `save`; an unusable state is refused, and changes nothing."""

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan | None:
        """Begin another run, with the reports that are newer than the state; a plan for its first batch, or None."""


@runtime_checkable
class Sizing(Protocol):
    """A planner that knows how many cores its query needs."""

    @property
    def cores_wanted(self) -> int | None:
        """The cores that would hold the target with nothing shed; None if that is unknown."""


def memory_of(planner: Recalling | None) -> str:
    """The learned state of a planner, as its plans carry it; empty if there is none that learns."""
    return "" if planner is None else to_text(planner.save())


def restore(planner: Recalling, newest: Plan | None, query: str, now_s: float) -> str:
    """Restore a planner from the newest plan, if it is of the same query; returns a warning if this fails."""
    if newest is None or newest.query != query or not newest.memory:
        return ""
    try:
        planner.restore(from_text(newest.memory), now_s)
    except PenstockError as error:
        return f"query {query}: what the planner learned in its last run is ignored: {error}"
    return ""


class Machines(NamedTuple):
    """The pair that sheds row by row."""

    shedder: Shedder
    operator: Operator


class Policy(Protocol):
    """Chooses the rows to shed."""

    @property
    def name(self) -> str:
        """The name under which plans and figures list the policy."""

    def planner(self, target: Target) -> Planner:
        """A fresh planner that holds the target."""


class RowPolicy(Policy, Protocol):
    """A policy that can also shed row by row, in front of one operator."""

    def machines(self, target: MeanQueueLatency) -> Machines:
        """A fresh shedder and operator machine that hold the target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadAware:
    """Load-aware shedding: predict each row's queuing latency from the cost of the rows before it.

    >>> policy = LoadAware(prefer="cheap")
    >>> type(policy.machines(MeanQueueLatency("2 s")).shedder).__name__
    'LoadAwareShedder'
    >>> LoadAware(prefer="dear")
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: prefer = 'dear' is not usable: give one of any, cheap

    Attributes:
        variant: `penstock`, our own, or `paper`, LAS as published.
        prefer: `any` row alike, or `cheap` rows kept first (`penstock` only).
        epsilon: Precision of the paper's sketch and its safety factor (`paper` only).
        delta: Failure probability of the paper's sketch (`paper` only).
        window_rows: Executed rows between two checks of the paper's sketch (`paper` only).
        tolerance: Relative change up to which the paper's sketch counts as stable (`paper` only).
        sending: `printed` or `first_check`: when the paper's operator sends its sketch (`paper` only).
        check: Makes the paper's latency goal from the target; by default its running average (`paper` only).
        seed: Seed of every hash.
    """

    name: ClassVar[str] = "load_aware"

    variant: str = "penstock"
    prefer: Prefer = "any"
    epsilon: float = 0.05
    delta: float = 0.1
    window_rows: int = 1024
    tolerance: float = 0.05
    sending: Sending = "printed"
    check: Callable[[float], Check] = RunningAverage
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        for setting, choices in _CHOICES.items():
            one_of(setting, getattr(self, setting), choices)
        if not callable(self.check):
            raise PenstockError.setting(
                "check", self.check, "RunningAverage or another class of penstock.core.row.latency_goals"
            )
        if self.variant == "paper" and self.prefer != "any":
            raise PenstockError.setting("prefer", self.prefer, "'any' with variant 'paper'", "LAS has no preference")
        self._paper_operator()
        self.machines(_SOME_TARGET)
        if self.variant != "paper":
            for own in fields(self):
                value = getattr(self, own.name)
                if own.name in _PAPER_ONLY and value != own.default:
                    raise PenstockError.setting(own.name, value, "it only together with variant='paper'")

    def planner(self, target: Target) -> Planner:
        """Keep the rows whose work fits the target: all alike, or the cheapest first."""
        return BatchPlanner(self.name, target, self.seed, _RULES[self.prefer])

    def machines(self, target: MeanQueueLatency) -> Machines:
        """LAS's pair, or our own."""
        if self.variant == "paper":
            shedder = LasShedder(self.check(target.limit_s), epsilon=self.epsilon)
            return Machines(shedder, self._paper_operator())
        return Machines(LoadAwareShedder(target.limit_s, prefer=self.prefer, seed=self.seed), LoadAwareOperator())

    def _paper_operator(self) -> LasOperator:
        return LasOperator(
            CostSketch.sized(self.epsilon, self.delta, self.seed),
            window_rows=self.window_rows,
            tolerance=self.tolerance,
            first_check=self.sending == "first_check",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomShed:
    """One keep share for all rows, from the mean cost of the last batch: a sampler with feedback.

    Attributes:
        seed: Seed of the gate's hash.
    """

    name: ClassVar[str] = "random"

    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an invalid seed."""
        int64("seed", self.seed)

    def planner(self, target: Target) -> Planner:
        """Keep the share of rows that fits if costs stay as in the last batch."""
        return BatchPlanner(self.name, target, self.seed, expected=recent_mean)


@dataclass(frozen=True, kw_only=True, slots=True)
class StrawMan:
    """LAS's strategy with one mean cost for every row: shedding regardless of content.

    Attributes:
        mean_cost_s: The assumed cost of every row, in seconds.
        seed: Seed of the gate's hash.
    """

    name: ClassVar[str] = "straw_man"

    mean_cost_s: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an invalid cost."""
        self.machines(_SOME_TARGET)

    def planner(self, target: Target) -> Planner:
        """Keep the share of rows whose work, by the given mean cost, fits the target."""
        return BatchPlanner(self.name, target, self.seed, expected=given(self.mean_cost_s))

    def machines(self, target: MeanQueueLatency) -> Machines:
        """A shedder that needs no feedback."""
        shedder = baselines.straw_man(RunningAverage(target.limit_s), self.mean_cost_s)
        return Machines(shedder, baselines.SilentOperator())


@dataclass(frozen=True, kw_only=True, slots=True)
class FullKnowledge:
    """LAS's strategy with the true cost of every row: the oracle of an evaluation.

    Attributes:
        epsilon: Safety factor on costs; 0 is exact.
        cost_column: Column with each row's true cost in seconds, for the gate of a Spark stream.
        prefer: `any` row alike, or `cheap` rows kept first, at the gate.
        seed: Seed of the gate's hash.
    """

    name: ClassVar[str] = "full_knowledge"

    epsilon: float = 0.0
    cost_column: str | None = None
    prefer: Prefer = "any"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an invalid factor, and an unknown preference."""
        self.machines(_SOME_TARGET)
        one_of("prefer", self.prefer, _CHOICES["prefer"])

    def planner(self, target: Target) -> Planner:
        """Keep the rows whose work fits the target, by their true costs if a column has them."""
        expected = learned if self.cost_column is None else given((1.0 + self.epsilon) * class_costs_s())
        return BatchPlanner(self.name, target, self.seed, _RULES[self.prefer], expected)

    def machines(self, target: MeanQueueLatency) -> Machines:
        """A shedder that needs only the true cost of every row."""
        shedder = baselines.full_knowledge(RunningAverage(target.limit_s), epsilon=self.epsilon)
        return Machines(shedder, baselines.SilentOperator())


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseLine:
    """Drop a fixed share at random: the overload must be known, and the target is ignored.

    Attributes:
        drop_share: Share of rows to drop, from 0 to 1.
        seed: Seed of the hash.
    """

    name: ClassVar[str] = "base_line"

    drop_share: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an invalid share."""
        self.machines(_SOME_TARGET)

    def planner(self, target: Target) -> Planner:  # noqa: ARG002 - blind to it
        """The same plan for every interval."""
        shedder = baselines.BaseLineShedder
        return FixedShare(self.name, keep_share=1.0 - self.drop_share, reason=shedder.reason, salt=self.seed)

    def machines(self, target: MeanQueueLatency) -> Machines:  # noqa: ARG002 - blind to it
        """Drops rows by their hash."""
        shedder = baselines.BaseLineShedder(drop_share=self.drop_share, seed=self.seed)
        return Machines(shedder, baselines.SilentOperator())
