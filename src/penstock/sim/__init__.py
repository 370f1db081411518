"""The simulator: the same loop and planners as on Spark, on virtual time, and the figures of the papers.

`kernel` is the clock and the queue of events, `workload` the streams, `driver` the loop's driver. `microbatch` runs a
query of micro-batches, `slots` several that share task slots, `network_run` a network. `grains` compares the gate with
the row-by-row machine, `coverage` checks intervals of answers, `chaos` schedules faults. `figure` and `plotting` make
the papers' figures, `parallel` uses all cores, `compiled_costs` is shared by compiled loops, `kept_run` keeps a run for
the dashboard. Rooms: `las`, `osg`, `aurora`, `themis`, `balanced`, `whatif`.
"""

from penstock.sim.las.queueing import Outcome, simulate
from penstock.sim.workload import Stream

__all__ = ["Outcome", "Stream", "simulate"]
