"""The simulator: the same machines on virtual time, and the figures of the papers."""

from penstock.sim.las.queueing import Outcome, simulate
from penstock.sim.workload import Stream

__all__ = ["Outcome", "Stream", "simulate"]
