"""Penstock keeps an overloaded stream within its latency target and says exactly what was dropped."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import answers, grouping, sic
    from penstock.core.balanced import Balanced
    from penstock.core.policy import BaseLine, FullKnowledge, LoadAware, Policy, RandomShed, StrawMan
    from penstock.core.shedding import Arrived, Drop, Executed, Forward
    from penstock.core.sketch import CostSketch
    from penstock.core.target import MaxLag, MeanQueueLatency, Throughput
    from penstock.core.worth import Worth
    from penstock.errors import PenstockError, PenstockWarning
    from penstock.log import PlanLog
    from penstock.plan import KeepTable, Plan
    from penstock.report import Report
    from penstock.spark.fair import Fair
    from penstock.spark.guard import Guard
    from penstock.spark.replay import replay, whole

__version__ = "0.1.0"

__all__ = [
    "Arrived",
    "Balanced",
    "BaseLine",
    "CostSketch",
    "Drop",
    "Executed",
    "Fair",
    "Forward",
    "FullKnowledge",
    "Guard",
    "KeepTable",
    "LoadAware",
    "MaxLag",
    "MeanQueueLatency",
    "PenstockError",
    "PenstockWarning",
    "Plan",
    "PlanLog",
    "Policy",
    "RandomShed",
    "Report",
    "StrawMan",
    "Throughput",
    "Worth",
    "answers",
    "grouping",
    "replay",
    "sic",
    "whole",
]

# Names are looked up when they are first used: a Spark worker that reads a plan at every micro-batch must not wait for
# a compiler to load, and a user without Spark can still use the rest.
_HOMES = {
    "penstock.core.balanced": ("Balanced",),
    "penstock.core.policy": ("BaseLine", "FullKnowledge", "LoadAware", "Policy", "RandomShed", "StrawMan"),
    "penstock.core.shedding": ("Arrived", "Drop", "Executed", "Forward"),
    "penstock.core.sketch": ("CostSketch",),
    "penstock.core.target": ("MaxLag", "MeanQueueLatency", "Throughput"),
    "penstock.core.worth": ("Worth",),
    "penstock.errors": ("PenstockError", "PenstockWarning"),
    "penstock.log": ("PlanLog",),
    "penstock.plan": ("KeepTable", "Plan"),
    "penstock.report": ("Report",),
    "penstock.spark.fair": ("Fair",),
    "penstock.spark.guard": ("Guard",),
    "penstock.spark.replay": ("replay", "whole"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Look up a public name in its module."""
    if name in {"answers", "grouping", "sic"}:
        return import_module(f"penstock.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
