"""Penstock keeps an overloaded stream within its latency target and says exactly what was dropped."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.moved import OldNames

if TYPE_CHECKING:
    from penstock import answers, grouping, sic
    from penstock.core.balanced.policy import Balanced
    from penstock.core.balanced.worth import Worth
    from penstock.core.control.policies import BaseLine, FullKnowledge, LoadAware, Policy, RandomShed, StrawMan
    from penstock.core.control.targets import MaxLag, MeanQueueLatency, Throughput
    from penstock.core.row.cost_sketch import CostSketch
    from penstock.core.row.machines import Arrived, Drop, Executed, Forward
    from penstock.errors import PenstockError, PenstockWarning
    from penstock.messages.plan import KeepTable, Plan
    from penstock.messages.report import Report
    from penstock.spark.fair.fair import Fair
    from penstock.spark.guard.guard import Guard
    from penstock.spark.quarantine.replay import replay, whole
    from penstock.store.logs import PlanLog

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
    "penstock.core.balanced.policy": ("Balanced",),
    "penstock.core.control.policies": ("BaseLine", "FullKnowledge", "LoadAware", "Policy", "RandomShed", "StrawMan"),
    "penstock.core.row.machines": ("Arrived", "Drop", "Executed", "Forward"),
    "penstock.core.row.cost_sketch": ("CostSketch",),
    "penstock.core.control.targets": ("MaxLag", "MeanQueueLatency", "Throughput"),
    "penstock.core.balanced.worth": ("Worth",),
    "penstock.errors": ("PenstockError", "PenstockWarning"),
    "penstock.store.logs": ("PlanLog",),
    "penstock.messages.plan": ("KeepTable", "Plan"),
    "penstock.messages.report": ("Report",),
    "penstock.spark.fair.fair": ("Fair",),
    "penstock.spark.guard.guard": ("Guard",),
    "penstock.spark.quarantine.replay": ("replay", "whole"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

sys.meta_path.append(OldNames())


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
