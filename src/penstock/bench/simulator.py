"""How fast the simulator is: verdicts per second and core, and the time a paper's 5,000 runs take."""

import math
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.sim.figure import Row, spread
from penstock.sim.las.runs import Setting, synthetic_run
from penstock.sim.parallel import BATCH, Workers
from penstock.sim.workload import ROWS

#: The paper's four algorithms at its default point.
ALGORITHMS = ("base_line", "straw_man", "las", "full_knowledge")
#: What the paper runs for each point of a figure.
PAPER_RUNS = 5_000


def bench_sim(runs: int, jobs: int, done: Callable[[int], None] = lambda _: None) -> Row:
    """Time each algorithm alone, interleaved run by run on one core, then all four together on `jobs` processes.

    Idle processes are not counted.
    """
    jobs = min(jobs, math.ceil(runs / BATCH))
    timed = (*ALGORITHMS, "penstock")
    _time_run(0, timed)  # compile first
    alone = Workers(1).run(partial(_time_run, algorithms=timed), range(runs), done)
    rows: list[Row] = [
        {"algorithm": algorithm, "decisions_per_s_per_core": spread(ROWS / times[algorithm] for times in alone)}
        for algorithm in timed
    ]
    with Workers(jobs) as workers:
        whole = partial(_run, algorithms=ALGORITHMS)
        workers.run(whole, range(jobs * BATCH))  # every process has started and loaded its code
        started = time.perf_counter()
        workers.run(whole, range(runs), done)
        elapsed_s = time.perf_counter() - started
        memory_mib = _memory_mib(workers)
    decisions = runs * len(ALGORITHMS) * ROWS
    return {
        "bench": "sim",
        "parameters": {"runs": runs, "jobs": jobs, "rows": ROWS, "algorithms": list(ALGORITHMS)},
        "rows": rows,
        "whole_runs": {
            "seconds": elapsed_s,
            "decisions_per_s_per_core": decisions / elapsed_s / jobs,
            "seconds_for_paper_runs": elapsed_s * PAPER_RUNS / runs,
            "peak_memory_mib": memory_mib,
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


def _memory_mib(workers: Workers) -> float:
    """Memory of this process and its workers, shared pages counted once; the compiler's peak if it was higher."""
    kib = 1 / 1024 if sys.platform == "darwin" else 1
    own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kib
    return max(own_peak, sum(_proportional_kib(process) for process in (os.getpid(), *workers.processes()))) / 1024


def _proportional_kib(process: int) -> float:
    """The memory of a process; 0 if the system does not report it."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return sum(float(line.split()[1]) for line in lines if line.startswith("Pss:"))
