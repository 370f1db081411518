r"""Policies: what a user chooses, as plain settings that build machines and plans.

A policy works at two grains with the same settings. Row by row, `machines` gives the shedder and the operator's machine
(the simulator, and inside a measured operator). Interval by interval, `decide` turns a Report into a Plan for the gate
in front of the whole query, or `None` when it has no opinion. Both are pure: time and seed come from outside.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple, Protocol

from penstock.core import baselines
from penstock.core.check import Check, RunningAverage
from penstock.core.las import LasOperator, LasShedder, Sending
from penstock.core.load_aware import LoadAwareOperator, LoadAwareShedder, Prefer
from penstock.core.share import share_that_fits
from penstock.core.shedding import Operator, Shedder
from penstock.core.sketch import CostSketch
from penstock.errors import PenstockError
from penstock.plan import Effect, KeepTable, Plan
from penstock.report import Report

#: The place of the one gate in front of a query.
SOURCE = "source"
VARIANTS = ("penstock", "paper")
PREFERENCES = ("any", "cheap")
_PAPER_ONLY = ("epsilon", "delta", "window_rows", "tolerance", "sending", "check")


class Machines(NamedTuple):
    """The pair that sheds row by row."""

    shedder: Shedder
    operator: Operator


class Policy(Protocol):
    """Chooses the rows to shed."""

    @property
    def name(self) -> str:
        """The name under which plans and figures list the policy."""

    def machines(self) -> Machines:
        """A fresh shedder and operator machine."""

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """The plan for the interval after the report, or None to go on with the current one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _LatencyPolicy(ABC):
    """What the policies with a latency target share."""

    name: ClassVar[str]

    target_s: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that no machine can be built from."""
        self.machines()

    @abstractmethod
    def machines(self) -> Machines:
        """A fresh shedder and operator machine."""

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """Keep the share of rows whose work fits before the target is broken."""
        share = share_that_fits(report, self.target_s)
        if share is None:
            return None
        return _plan_of_share(self.name, report, now_s, share, "more work than capacity", self.seed)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadAware(_LatencyPolicy):
    """Load-aware shedding: predict each row's queuing latency from the cost of the rows before it.

    >>> policy = LoadAware(target_s=2.0)
    >>> type(policy.machines().shedder).__name__
    'LoadAwareShedder'
    >>> LoadAware(target_s=2.0, prefer="dear")
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: prefer = 'dear' is not usable: give one of any, cheap

    Attributes:
        target_s: The mean queuing latency to hold, in seconds.
        variant: `penstock`, our own, or `paper`, LAS as published.
        prefer: `any` row alike, or `cheap` rows kept first (`penstock` only).
        epsilon: Precision of the paper's sketch and its safety factor (`paper` only).
        delta: Failure probability of the paper's sketch (`paper` only).
        window_rows: Executed rows between two checks of the paper's sketch (`paper` only).
        tolerance: Relative change up to which the paper's sketch counts as stable (`paper` only).
        sending: `printed` or `first_check`: when the paper's operator sends its sketch (`paper` only).
        check: Makes the paper's latency goal from the target; its running average unless told otherwise (`paper` only).
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

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        _one_of("variant", self.variant, VARIANTS)
        _one_of("prefer", self.prefer, PREFERENCES)
        _one_of("sending", self.sending, ("printed", "first_check"))
        if self.variant == "paper" and self.prefer != "any":
            raise PenstockError.setting("prefer", self.prefer, "'any' with variant 'paper'", "LAS has no preference")
        if self.variant != "paper":
            for setting in fields(self):
                value = getattr(self, setting.name)
                if setting.name in _PAPER_ONLY and value != setting.default:
                    raise PenstockError.setting(setting.name, value, "it only together with variant='paper'")
        self._paper_operator()
        self.machines()

    def _paper_operator(self) -> LasOperator:
        return LasOperator(
            CostSketch.sized(self.epsilon, self.delta, self.seed),
            window_rows=self.window_rows,
            tolerance=self.tolerance,
            sending=self.sending,
        )

    def machines(self) -> Machines:
        """LAS's pair, or our own."""
        if self.variant == "paper":
            shedder = LasShedder(self.check(self.target_s), epsilon=self.epsilon)
            return Machines(shedder, self._paper_operator())
        return Machines(LoadAwareShedder(self.target_s, prefer=self.prefer, seed=self.seed), LoadAwareOperator())


@dataclass(frozen=True, kw_only=True, slots=True)
class StrawMan(_LatencyPolicy):
    """LAS's strategy with one mean cost for every row: what shedding blind to content can do.

    Attributes:
        target_s: The mean queuing latency to hold, in seconds.
        mean_cost_s: What every row is taken to cost, in seconds.
        calm_rows: Rows let through first, to compare with a shedder that still learns.
    """

    name: ClassVar[str] = "straw_man"

    mean_cost_s: float
    calm_rows: int = 0

    def machines(self) -> Machines:
        """A shedder that needs no feedback."""
        check = RunningAverage(self.target_s)
        shedder = baselines.straw_man(check, self.mean_cost_s, calm_rows=self.calm_rows)
        return Machines(shedder, baselines.SilentOperator())


@dataclass(frozen=True, kw_only=True, slots=True)
class FullKnowledge(_LatencyPolicy):
    """LAS's strategy with the true cost of every row: the oracle of an evaluation.

    Attributes:
        target_s: The mean queuing latency to hold, in seconds.
        epsilon: Safety factor on costs; 0 is exact.
        calm_rows: Rows let through first, to compare with a shedder that still learns.
    """

    name: ClassVar[str] = "full_knowledge"

    epsilon: float = 0.0
    calm_rows: int = 0

    def machines(self) -> Machines:
        """A shedder that needs no feedback but the true cost with every row."""
        check = RunningAverage(self.target_s)
        shedder = baselines.full_knowledge(check, epsilon=self.epsilon, calm_rows=self.calm_rows)
        return Machines(shedder, baselines.SilentOperator())


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseLine:
    """Drop a fixed share at random: the overload must be known.

    >>> policy = BaseLine(drop_share=0.25)
    >>> report = Report(sequence=4, start_s=0.0, end_s=1.0, rows_in=8, rows_kept=8)
    >>> policy.decide(report, now_s=1.0).gate("source").keep
    (0.75,)

    Attributes:
        drop_share: Share of rows to drop, from 0 to 1.
        seed: Seed of the coins.
        calm_rows: Rows let through first, to compare with a shedder that still learns.
    """

    name: ClassVar[str] = "base_line"

    drop_share: float
    seed: int = 0
    calm_rows: int = 0

    def __post_init__(self) -> None:
        """Refuse a share that is none."""
        self.machines()

    def machines(self) -> Machines:
        """A coin a row."""
        shedder = baselines.BaseLineShedder(drop_share=self.drop_share, seed=self.seed, calm_rows=self.calm_rows)
        return Machines(shedder, baselines.SilentOperator())

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """The same plan for every interval."""
        share = 1.0 - self.drop_share
        reason = baselines.BaseLineShedder.reason
        return _plan_of_share(self.name, report, now_s, share, reason, self.seed)


def _plan_of_share(name: str, report: Report, now_s: float, share: float, reason: str, salt: int) -> Plan:
    version = report.sequence + 1
    if share >= 1.0:
        return Plan.keep_all(version, name, now_s, salt)
    table = KeepTable(SOURCE, keep=(share,), reasons=(reason,))
    return Plan(version, name, now_s, salt, gates=(table,), expected=Effect(keep_share=share))


def _one_of(name: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise PenstockError.setting(name, value, f"one of {', '.join(accepted)}")
