"""One run of the LAS experiments: a stream, every algorithm on it, and what is measured.

All algorithms of a run see the same rows at the same times. While the published LAS is in NOP the stream comes at
90 percent of capacity, because the paper assumes no overload there. Algorithms without such a phase admit those rows
too, and all are measured afterwards. Penstock's shedder has no such phase: it acts from the first row on.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.core.hashing import HashFamily, unit_interval, xxhash64_ints
from penstock.core.row.baselines import full_knowledge
from penstock.core.row.cost_model import HEAVY_PLACES, SKETCH_COLUMNS, SKETCH_ROWS
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.las import LasOperator, LasShedder, Matrices
from penstock.core.row.latency_goals import RunningAverage
from penstock.core.row.load_aware import SYNC_EVERY, LoadAwareOperator, LoadAwareShedder
from penstock.sim import workload
from penstock.sim.las import compiled as fast
from penstock.sim.workload import Floats, Ints, Stream

#: The algorithms of every figure, in the order of its rows.
ALGORITHMS = ("base_line", "straw_man", "las", "full_knowledge", "full_knowledge_eps", "penstock")
#: Random associations of costs and items; runs beyond reuse them with another order of rows (section 5.1).
ASSOCIATIONS = 100


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of a figure: section 5.1's parameters."""

    under_provisioning: float = 0.25
    distribution: str = "zipf-1.0"
    target_s: float = 0.0064
    epsilon: float = 0.05
    delta: float = 0.1
    window_rows: int = 1024
    tolerance: float = 0.05
    delay_s: float = 0.0
    calm_start: bool = True
    heavy_places: int = HEAVY_PLACES  #: of Penstock's shedder, as is the next
    sync_every: int = SYNC_EVERY


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of one algorithm on one part of a stream."""

    queuing_s: float  #: mean over kept rows; NaN if none was kept
    dropped: int
    rows: int

    @property
    def dropped_ratio(self) -> float:
        """Share of rows dropped."""
        return self.dropped / self.rows if self.rows else 0.0


def measure(queuing_s: Floats) -> Measured:
    """Mean queuing latency of the kept rows and number of dropped ones (NaN)."""
    kept = queuing_s[~np.isnan(queuing_s)]
    mean = float(kept.mean()) if len(kept) else float("nan")
    return Measured(mean, len(queuing_s) - len(kept), len(queuing_s))


@dataclass(frozen=True, slots=True)
class RunResult:
    """One algorithm in one run: after LAS's NOP phase, and over the whole stream."""

    after_nop: Measured
    whole_stream: Measured


@dataclass(frozen=True, eq=False)
class LasRun:
    """A stream and the algorithms to run on it."""

    stream: Stream
    setting: Setting
    seed: int  #: of every hash
    calm_rows: int = 0  #: rows that pass before the comparison begins
    known_mean_s: float | None = None  #: the mean cost that Straw-Man knows; by default that of the stream

    def queuing_s(self, algorithm: str) -> Floats:
        """Queuing latency of every row under the algorithm, NaN where it was dropped."""
        stream, setting, calm = self.stream, self.setting, self.calm_rows
        costs, arrivals = stream.costs_s, stream.arrivals_s
        match algorithm:
            case "base_line":
                share = max(setting.under_provisioning, 0.0)
                return fast.base_line(arrivals, costs, self._coins(), share, calm)
            case "straw_man":
                mean_s = stream.mean_cost_s if self.known_mean_s is None else self.known_mean_s
                return fast.predictive(arrivals, costs, np.full(stream.rows, mean_s), setting.target_s, calm)
            case "full_knowledge":
                return fast.predictive(arrivals, costs, costs, setting.target_s, calm)
            case "full_knowledge_eps":
                return fast.predictive(arrivals, costs, costs * (1.0 + setting.epsilon), setting.target_s, calm)
            case "las" | "las_first_check":
                return self._las(first_check=algorithm == "las_first_check")[0]
            case "penstock" | "penstock_prefer_cheap":
                family = HashFamily(SKETCH_ROWS, SKETCH_COLUMNS, self.seed)
                return fast.load_aware_loop(
                    stream.keys,
                    costs,
                    arrivals,
                    family.columns_of_many(xxhash64_ints(np.arange(stream.items))),
                    self._coins(),
                    setting.target_s,
                    algorithm == "penstock_prefer_cheap",
                    setting.delay_s,
                    fast.Tuning(sync_every=setting.sync_every, heavy_places=setting.heavy_places),
                )
            case _:
                raise ValueError(f"no such algorithm: {algorithm}")

    def nop_rows(self) -> int:
        """The number of rows that the published LAS admits before it has any estimate."""
        return self._las(first_check=False, stop_after_nop=True)[1]

    def results(self, algorithms: tuple[str, ...]) -> dict[str, RunResult]:
        """Every algorithm on this stream."""
        found = {algorithm: self.queuing_s(algorithm) for algorithm in algorithms}
        return {name: RunResult(measure(one[self.calm_rows :]), measure(one)) for name, one in found.items()}

    def _las(self, *, first_check: bool, stop_after_nop: bool = False) -> tuple[Floats, int]:
        setting = self.setting
        sketch = CostSketch.sized(setting.epsilon, setting.delta, self.seed)
        return fast.las(
            self.stream.keys,
            self.stream.costs_s,
            self.stream.arrivals_s,
            sketch.family.columns_of_many(np.arange(self.stream.items)),
            sketch.columns,
            setting.window_rows,
            setting.tolerance,
            first_check,
            1.0 + setting.epsilon,
            setting.target_s,
            setting.delay_s,
            stop_after_nop,
        )

    def _coins(self) -> Floats:
        return unit_interval(xxhash64_ints(np.array([self.seed]), seed=xxhash64_ints(np.arange(self.stream.rows))))


def synthetic_run(setting: Setting, run: int, seed: int) -> LasRun:
    """The stream of section 5.1 for one run: association of costs and items, order of rows, hashes."""
    keys, costs, hash_seed = _drawn(setting.distribution, run, seed)
    mean_s = float(costs.mean())
    calm_gap_s = mean_s / workload.CALM_LOAD
    calm_rows = 0
    if setting.calm_start:
        calm = Stream(keys, costs, workload.arrivals(len(keys), calm_gap_s), workload.ITEMS)
        calm_rows = LasRun(calm, setting, hash_seed).nop_rows()
    gap_s = (1.0 - setting.under_provisioning) * mean_s
    arrivals = workload.arrivals(len(keys), gap_s, calm_rows=calm_rows, calm_gap_s=calm_gap_s)
    return LasRun(Stream(keys, costs, arrivals, workload.ITEMS), setting, hash_seed, calm_rows=calm_rows)


@lru_cache(maxsize=64)  # the settings of a figure run on the same rows, one setting after the other
def _drawn(distribution: str, run: int, seed: int) -> tuple[Ints, Floats, int]:
    """The keys and costs of a run's rows, and its seed of hashes."""
    by_item = workload.item_costs(np.random.default_rng([seed, 0, run % ASSOCIATIONS]))
    rng = np.random.default_rng([seed, 1, run])
    keys = workload.draw_keys(distribution, workload.ROWS, workload.ITEMS, rng)
    return keys, by_item[keys], int(rng.integers(2**31))


def memory_bytes(algorithm: str, setting: Setting) -> int:
    """Bytes of the numbers that the algorithm's two machines store once the first messages are in."""
    target_s = setting.target_s
    if algorithm.startswith("penstock"):
        own = LoadAwareShedder(target_s, heavy_places=setting.heavy_places)
        return own.memory_bytes + LoadAwareOperator().memory_bytes
    if algorithm.startswith("las"):
        sketch = CostSketch.sized(setting.epsilon, setting.delta)
        las_shedder = LasShedder(RunningAverage(target_s))
        las_shedder.receive(Matrices(sketch))
        return las_shedder.memory_bytes + LasOperator(sketch).memory_bytes
    return full_knowledge(RunningAverage(target_s)).memory_bytes
