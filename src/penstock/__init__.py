"""Penstock keeps an overloaded stream within its latency target and says exactly what was dropped."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from penstock import answers, grouping, sic
    from penstock.core.balanced.policy import Balanced
    from penstock.core.balanced.worth import Worth
    from penstock.core.control.policies import LoadAware, RandomShed
    from penstock.core.control.targets import Deadline, MaxLag, MeanQueueLatency, Throughput
    from penstock.errors import PenstockError, PenstockWarning
    from penstock.messages.plan import Plan
    from penstock.messages.report import Report
    from penstock.spark.fair.fair import Fair
    from penstock.spark.guard.guard import Guard
    from penstock.spark.quarantine.replay import replay, whole
    from penstock.spark.session import local_session

__version__ = "0.1.0"

__all__ = [
    "Balanced",
    "Deadline",
    "Fair",
    "Guard",
    "LoadAware",
    "MaxLag",
    "MeanQueueLatency",
    "PenstockError",
    "PenstockWarning",
    "Plan",
    "RandomShed",
    "Report",
    "Throughput",
    "Worth",
    "answers",
    "grouping",
    "local_session",
    "replay",
    "sic",
    "whole",
]

# Names are looked up when they are first used. A Spark worker that reads a plan at every micro-batch must not wait for
# a compiler to load, and a user without Spark can still use the rest.
_HOMES = {
    "penstock.core.balanced.policy": ("Balanced",),
    "penstock.core.balanced.worth": ("Worth",),
    "penstock.core.control.policies": ("LoadAware", "RandomShed"),
    "penstock.core.control.targets": ("Deadline", "MaxLag", "MeanQueueLatency", "Throughput"),
    "penstock.errors": ("PenstockError", "PenstockWarning"),
    "penstock.messages.plan": ("Plan",),
    "penstock.messages.report": ("Report",),
    "penstock.spark.fair.fair": ("Fair",),
    "penstock.spark.guard.guard": ("Guard",),
    "penstock.spark.quarantine.replay": ("replay", "whole"),
    "penstock.spark.session": ("local_session",),
}
#: Where names are that were exported here before.
_MOVED = {
    "penstock.baselines": ("BaseLine", "FullKnowledge", "StrawMan"),
    "penstock.core.control.policies": ("Policy",),
    "penstock.logs": ("KeepTable", "PlanLog"),
    "penstock.machines": ("Arrived", "CostSketch", "Drop", "Executed", "Forward"),
}
_ROOMS = {"answers", "grouping", "sic"}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MOVED_TO = {name: home for home, names in _MOVED.items() for name in names}


class _OldNames:
    """Finds modules of this package by old names; Python asks it for those that are not there."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module, if it has moved."""
        del path, target
        if not name.startswith("penstock."):
            return None
        from penstock.moved import spec_of  # noqa: PLC0415 - a worker need not wait for it

        return spec_of(name)


sys.meta_path.append(_OldNames)


def __getattr__(name: str) -> object:
    """Look up a public name in its module."""
    if name in _MOVED_TO:
        from penstock.moved import names_of  # noqa: PLC0415

        return names_of(__name__, _MOVED_TO[name])(name)
    if name not in _HOME_OF and name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"penstock.{name}") if name in _ROOMS else getattr(import_module(_HOME_OF[name]), name)
    except ImportError as error:
        from penstock.extras import missing  # noqa: PLC0415

        raise missing(error) from None


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
