"""Shedding row by row, for your own queues: the events and instructions of `LoadAware(...).machines(target)`."""

from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.machines import Arrived, Drop, Executed, Forward

__all__ = ["Arrived", "CostSketch", "Drop", "Executed", "Forward"]
