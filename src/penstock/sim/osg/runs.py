"""One run of the OSG experiments: a stream, the algorithms on it, and when every row was done.

All algorithms of a run see the same rows at the same times, at constant gaps (section 5.1). There are 100 streams, that
is, associations of costs and items; runs beyond reuse them with other hash functions, as the paper does.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from penstock.core.grouping.ready_time import SKETCH_COLUMNS, SKETCH_ROWS
from penstock.core.hashing import HashFamily, xxhash64_ints
from penstock.core.row.cost_sketch import CostSketch
from penstock.errors import PenstockError
from penstock.sim.osg import compiled as fast_osg
from penstock.sim.osg.compiled_ready_time import Tuning, ready_time_loop
from penstock.sim.workload import Floats, Ints, Stream, arrivals, draw_keys

#: The algorithms of every figure, in the order of its rows.
ALGORITHMS = ("round_robin", "osg", "full_knowledge", "jsq", "penstock")
#: Random associations of costs and items; runs beyond reuse them with other hash functions (section 5.1).
ASSOCIATIONS = 100


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of a figure: section 5.1's parameters."""

    rows: int = 100_000
    items: int = 4_096
    cost_values: int = 64  #: n(w)
    least_ms: float = 1.0
    most_ms: float = 64.0
    distribution: str = "zipf-1.0"  #: `uniform` or `zipf-ALPHA`
    instances: int = 5  #: k
    over_provisioning: float = 1.0  #: k / mean(w) divided by the input rate
    window_rows: int = 1024  #: N
    tolerance: float = 0.05  #: mu
    epsilon: float = 0.05
    delta: float = 0.1
    feedback_ms: float = 0.0  #: the delay of every message from an instance to a scheduler
    schedulers: int = 1  #: section 4.1's parallelised S
    #: Factors on cost by instance, a tuple for each equal stretch of the stream; none: 1 everywhere.
    speeds: tuple[tuple[float, ...], ...] = ()
    first_check: bool = False  #: send the matrices at the first check, as some of the paper's numbers imply
    clamp: bool = False  #: an idle instance's estimated time is raised to the current time
    report_rows: int = 1  #: executed rows in one report to Penstock's own scheduler


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one algorithm in one run."""

    completion_ms: Floats  #: from arrival until done, by row
    makespan_s: float  #: from the first arrival until the last row is done
    run_at: tuple[int, ...] = ()  #: rows before which a scheduler of OSG entered RUN; the others know no such state
    messages: int = 0  #: sent by instances to schedulers until the last row arrived

    @property
    def throughput_per_s(self) -> float:
        """Rows done in a second, over the whole run."""
        return len(self.completion_ms) / self.makespan_s


@dataclass(frozen=True, eq=False)
class OsgRun:
    """A stream and the algorithms to run on it.

    >>> run = OsgRun.of_stream(Setting(instances=2), [0, 1, 0], [10_000.0, 1_000.0, 10_000.0], items=2, gaps_ms=1_000.0)
    >>> run.run("round_robin").completion_ms.sum(), run.run("full_knowledge").completion_ms.sum()  # section 2
    (np.float64(29000.0), np.float64(21000.0))
    """

    setting: Setting
    stream: Stream
    hash_seed: int

    @classmethod
    def synthetic(cls, setting: Setting, number: int, seed: int = 0) -> Self:
        """The synthetic stream of run `number`; another `seed` gives other streams."""
        association = number % ASSOCIATIONS
        by_item_s = _item_costs_s(setting, np.random.default_rng([seed, 40, association]))
        rng = np.random.default_rng([seed, 41, association])
        keys = draw_keys(setting.distribution, setting.rows, setting.items, rng)
        costs_s = by_item_s[keys]
        stream = Stream(keys, costs_s, arrivals(setting.rows, _gap_s(setting, costs_s)), setting.items)
        return cls(setting, stream, int(np.random.default_rng([seed, 42, number]).integers(2**31)))

    @classmethod
    def of_stream(
        cls,
        setting: Setting,
        keys: Ints | list[int],
        costs_ms: Floats | list[float],
        *,
        items: int,
        gaps_ms: Floats | float | None = None,
        seed: int = 0,
    ) -> Self:
        """A given stream: keys numbered from 0 to `items` - 1, costs, and the gap, or gaps, between rows.

        Without gaps the rows come at the constant rate given by `over_provisioning`. Rows, items, costs and their
        distribution in the setting are ignored. `seed` is that of the hash functions.
        """
        costs_s = np.asarray(costs_ms, np.float64) / 1e3
        times = arrivals(len(costs_s), _gap_s(setting, costs_s))
        if gaps_ms is not None:
            gaps_s = np.broadcast_to(np.asarray(gaps_ms, np.float64) / 1e3, len(costs_s) - 1)
            times = np.append(0.0, np.cumsum(gaps_s))
        return cls(setting, Stream(np.asarray(keys, np.int64), costs_s, times, items), seed)

    @property
    def speeds(self) -> Floats:
        """Factors on cost, by stretch and instance."""
        return np.array(self.setting.speeds or [[1.0] * self.setting.instances])

    def run(self, algorithm: str) -> Result:
        """The whole stream under the algorithm."""
        stream, setting = self.stream, self.setting
        times = stream.arrivals_s, stream.costs_s, self.speeds
        delay_s = setting.feedback_ms / 1e3
        match algorithm:
            case "round_robin":
                return self._result(fast_osg.round_robin(*times, setting.schedulers))
            case "full_knowledge":
                return self._result(fast_osg.full_knowledge(*times, setting.schedulers, setting.clamp))
            case "jsq":
                finish_s = fast_osg.jsq(*times, setting.schedulers, delay_s)
                return self._result(finish_s, messages=int((finish_s <= stream.arrivals_s[-1]).sum()))
            case "osg":
                sketch = CostSketch.sized(setting.epsilon, setting.delta, self.hash_seed)
                columns = sketch.family.columns_of_many(np.arange(stream.items))
                finish_s, run_at, messages = fast_osg.osg(
                    stream.keys,
                    *times,
                    columns,
                    sketch.columns,
                    setting.window_rows,
                    setting.tolerance,
                    setting.first_check,
                    setting.clamp,
                    setting.schedulers,
                    delay_s,
                )
                return self._result(finish_s, run_at=tuple(run_at.tolist()), messages=messages)
            case "penstock":
                family = HashFamily(SKETCH_ROWS, SKETCH_COLUMNS, self.hash_seed)
                columns = family.columns_of_many(xxhash64_ints(np.arange(stream.items)))
                finish_s, messages = ready_time_loop(
                    stream.keys, *times, columns, setting.schedulers, setting.report_rows, delay_s, Tuning()
                )
                return self._result(finish_s, messages=messages)
            case _:
                raise PenstockError.setting("algorithm", algorithm, f"one of {', '.join(ALGORITHMS)}")

    def _result(self, finish_s: Floats, *, run_at: tuple[int, ...] = (), messages: int = 0) -> Result:
        arrivals_s = self.stream.arrivals_s
        makespan_s = float(finish_s.max() - arrivals_s[0])
        return Result((finish_s - arrivals_s) * 1e3, makespan_s, run_at, messages)


def _item_costs_s(setting: Setting, rng: np.random.Generator) -> Floats:
    """The cost of each item: n(w) values at constant distance, each assigned to equally many random items."""
    values_s = np.linspace(setting.least_ms, setting.most_ms, setting.cost_values) / 1e3
    costs_s = np.repeat(values_s, setting.items // setting.cost_values)
    rng.shuffle(costs_s)
    return costs_s


def _gap_s(setting: Setting, costs_s: Floats) -> float:
    """The gap at which k / mean(w) is `over_provisioning` times the input rate."""
    return float(costs_s.mean()) / setting.instances * setting.over_provisioning
