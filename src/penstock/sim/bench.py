"""How fast the simulator is: verdicts per second and core, and the time a paper's 5,000 runs take."""

import math
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

from penstock.sim.figures.result import Row, spread
from penstock.sim.las_runs import Setting, synthetic_run
from penstock.sim.parallel import BATCH, Workers
from penstock.sim.workload import ROWS

#: The paper's four algorithms at its default point.
ALGORITHMS = ("base_line", "straw_man", "las", "full_knowledge")
#: What the paper runs for each point of a figure.
PAPER_RUNS = 5_000


def bench_sim(runs: int, jobs: int, done: Callable[[int], None] = lambda _: None) -> Row:
    """Time each algorithm alone, interleaved run by run on one core, then all four together on `jobs` processes.

    Processes that would find nothing to do are not counted.
    """
    jobs = min(jobs, math.ceil(runs / BATCH))
    timed = (*ALGORITHMS, "penstock")
    _time_run(0, timed)  # compile first
    alone = Workers(1).run(partial(_time_run, algorithms=timed), range(runs), done)
    rows: list[Row] = [
        {
            "algorithm": algorithm,
            "decisions_per_s_per_core": spread(ROWS / times[algorithm] for times in alone),
        }
        for algorithm in timed
    ]
    with Workers(jobs) as workers:
        whole = partial(_run, algorithms=ALGORITHMS)
        workers.run(whole, range(jobs * BATCH))  # every process has started and loaded its code
        started = time.perf_counter()
        workers.run(whole, range(runs), done)
        elapsed_s = time.perf_counter() - started
    decisions = runs * len(ALGORITHMS) * ROWS
    return {
        "bench": "sim",
        "parameters": {"runs": runs, "jobs": jobs, "rows": ROWS, "algorithms": list(ALGORITHMS)},
        "rows": rows,
        "whole_runs": {
            "seconds": elapsed_s,
            "decisions_per_s_per_core": decisions / elapsed_s / jobs,
            "seconds_for_paper_runs": elapsed_s * PAPER_RUNS / runs,
            "peak_memory_mib": _peak_memory_mib(jobs),
        },
    }


def _run(run: int, *, algorithms: tuple[str, ...]) -> int:
    return len(synthetic_run(Setting(), run, seed=0).results(algorithms))


def _time_run(run: int, algorithms: tuple[str, ...]) -> dict[str, float]:
    las_run = synthetic_run(Setting(), run, seed=0)
    times = {}
    for algorithm in algorithms:
        started = time.perf_counter()
        las_run.queuing_s(algorithm)
        times[algorithm] = time.perf_counter() - started
    return times


def _peak_memory_mib(jobs: int) -> float:
    """This process's peak plus, for each job, that of the largest child so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (own + (jobs * child if jobs > 1 else 0)) * unit / 2**20
