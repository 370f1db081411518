"""Seeded schedules of faults over the classes that run on Spark, on virtual time and a faulty store.

`faults` draws what goes wrong, and `query` checks the promises about batches and plans. A `world` lets time pass.
`watched` is that of guards and `Fair`, whose loops run apart from their queries. `own_batches` is that of networks and
sites, whose process runs its batches itself. `schedules` runs many of them. A broken promise raises `BrokenPromise`.
"""

from penstock.sim.chaos.faults import BrokenPromise
from penstock.sim.chaos.query import Kinds
from penstock.sim.chaos.schedules import command, run, run_all

__all__ = ["BrokenPromise", "Kinds", "command", "run", "run_all"]
