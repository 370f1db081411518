"""The simulator: the same loop and planners as on Spark, on virtual time, and the figures of the papers.

`kernel` is the clock and the queue of events, `workload` the streams, `microbatch` a query of micro-batches,
`network_run` a network, `driver` the loop's driver. `chaos` schedules faults, `figure` and `plotting` make the papers'
figures. Rooms: `las`, `osg`, `aurora`, `themis`, `balanced`, `whatif`.
"""

from penstock.sim.las.queueing import Outcome, simulate
from penstock.sim.workload import Stream

__all__ = ["Outcome", "Stream", "simulate"]
