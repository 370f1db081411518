"""Penstock keeps an overloaded stream within its latency target and says exactly what was dropped."""

from penstock.core.policy import BaseLine, FullKnowledge, LoadAware, Policy, StrawMan
from penstock.core.shedding import Arrived, Drop, Executed, Forward
from penstock.core.sketch import CostSketch
from penstock.core.target import MeanQueueLatency
from penstock.errors import PenstockError
from penstock.log import PlanLog
from penstock.plan import KeepTable, Plan
from penstock.report import Report

__version__ = "0.1.0"

__all__ = [
    "Arrived",
    "BaseLine",
    "CostSketch",
    "Drop",
    "Executed",
    "Forward",
    "FullKnowledge",
    "KeepTable",
    "LoadAware",
    "MeanQueueLatency",
    "PenstockError",
    "Plan",
    "PlanLog",
    "Policy",
    "Report",
    "StrawMan",
]
