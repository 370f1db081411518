"""What sources send: values with a mean of 50 from a distribution, or traces of machines as PlanetLab's.

A trace is what a machine reported of its CPU (percent in use) and, if known, of its free memory. The synthetic traces
are like those of PlanetLab: most machines idle, some busy, each with a mean of its own, sudden changes, many zeros.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.sim.workload import Floats, read_columns

SYNTHETIC = ("gaussian", "uniform", "exponential", "mixed")
DATASETS = (*SYNTHETIC, "planetlab")
MEAN = 50.0
_DEVIATION = 10.0
#: Synthetic traces: machines and readings of each. Means are log-normal, with this median and log deviation.
_MACHINES, _READINGS = 400, 288
_MEDIAN_CPU, _LOG_DEVIATION, _FULL = 6.7, 1.03, 99.0
#: Readings around a machine's mean: a gamma distribution of this shape, and this share is 0.
_SHAPE, _IDLE = 1.7, 0.16
#: Free memory, log-normal: one machine in sixteen has less than TOP-5 asks for.
_MEDIAN_FREE_KB, _LOG_FREE = 500_000.0, 1.05

NODE_COLUMN, CPU_COLUMN, FREE_COLUMN = "node", "cpu", "free_kb"
_FEWEST_MACHINES, _FEWEST_READINGS = 10, 2


@dataclass(frozen=True)
class Traces:
    """Readings of machines, machine by machine: CPU in percent, and free memory in KB."""

    cpu: list[Floats]
    free_kb: list[Floats]
    origin: str


def synthetic_traces(seed: int) -> Traces:
    """Traces like PlanetLab's.

    >>> cpu = np.concatenate(synthetic_traces(0).cpu)
    >>> f"mean {cpu.mean():.0f}, deviation {cpu.std():.0f}, zeros {(cpu == 0).mean():.0%}, most {cpu.max():.0f}"
    'mean 10, deviation 17, zeros 25%, most 99'
    """
    rng = np.random.default_rng([seed, 2])
    means = _MEDIAN_CPU * np.exp(rng.normal(0.0, _LOG_DEVIATION, _MACHINES))
    readings = rng.gamma(_SHAPE, 1.0 / _SHAPE, (_MACHINES, _READINGS)) / (1.0 - _IDLE)
    readings[rng.random(readings.shape) < _IDLE] = 0.0
    cpu = np.minimum(np.floor(means[:, None] * readings), _FULL)
    return Traces(list(cpu), _free_kb(_MACHINES, _READINGS, rng), "synthetic")


def _free_kb(machines: int, readings: int, rng: np.random.Generator) -> list[Floats]:
    level = _MEDIAN_FREE_KB * np.exp(rng.normal(0.0, _LOG_FREE, machines))
    return list(level[:, None] * np.exp(rng.normal(0.0, 0.2, (machines, readings))))


def recorded_traces(path: Path, node: str, cpu: str, free_kb: str | None, seed: int) -> Traces:
    """Traces from a Parquet or CSV file in order of time; without a column of free memory that is synthetic."""
    names = [node, cpu] if free_kb is None else [node, cpu, free_kb]
    table = read_columns(path, names)
    keys = table.column(node).combine_chunks()
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    machine = pc.rank(keys, tiebreaker="dense").to_numpy()
    order = np.argsort(machine, kind="stable")
    starts = np.flatnonzero(np.diff(machine[order])) + 1
    series = [np.split(_numbers(table, path, name)[order], starts) for name in names[1:]]
    long_enough = [len(one) >= _FEWEST_READINGS for one in series[0]]
    if sum(long_enough) < _FEWEST_MACHINES:
        raise PenstockError.setting(
            "--data",
            str(path),
            f"a trace with at least {_FEWEST_MACHINES} nodes of {_FEWEST_READINGS} readings or more",
            f"{sum(long_enough)} are in column {node!r}",
        )
    kept = [[one for one, enough in zip(each, long_enough, strict=True) if enough] for each in series]
    rng = np.random.default_rng([seed, 3])
    memory = kept[1] if free_kb is not None else _free_kb(len(kept[0]), _READINGS, rng)
    return Traces(kept[0], memory, str(path))


def _numbers(table: pa.Table, path: Path, name: str) -> Floats:
    values = table.column(name)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise PenstockError(f"column {name!r} of {path} is {values.type}: give a column of numbers")
    numbers: Floats = values.to_numpy().astype(np.float64)
    if not np.isfinite(numbers).all():
        raise PenstockError(f"column {name!r} of {path} has values that are missing or not finite: give numbers")
    return numbers


def drawn(dataset: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Values of a synthetic data set, with a mean of 50.

    >>> rng = np.random.default_rng(0)
    >>> {name: round(float(drawn(name, (100_000,), rng).mean())) for name in SYNTHETIC}
    {'gaussian': 50, 'uniform': 50, 'exponential': 50, 'mixed': 50}
    """
    if dataset == "gaussian":
        return rng.normal(MEAN, _DEVIATION, shape)
    if dataset == "uniform":
        return rng.uniform(0.0, 2.0 * MEAN, shape)
    if dataset == "exponential":
        return rng.exponential(MEAN, shape)
    which = rng.integers(0, 3, shape)
    parts = [drawn(name, shape, rng) for name in SYNTHETIC[:3]]
    return np.choose(which, parts)


def values(dataset: str, traces: Traces, streams: str, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Values of sources with this many tuples each; a trace starts at a random point and repeats.

    `nodes` streams are CPU of the first half of the sources and free memory of the second, machine by machine.
    """
    sources, tuples = shape
    if streams == "nodes":
        half = sources // 2
        if dataset != "planetlab":
            free_kb = np.concatenate([_free_kb(1, tuples, rng) for _ in range(half)])
            return np.concatenate([drawn(dataset, (half, tuples), rng), free_kb])
        chosen = rng.permutation(len(traces.cpu))[:half]
        return np.stack([_entered(each[one], tuples, rng) for each in (traces.cpu, traces.free_kb) for one in chosen])
    if dataset != "planetlab":
        return drawn(dataset, shape, rng)
    chosen = rng.permutation(len(traces.cpu))[:sources]
    return np.stack([_entered(traces.cpu[one], tuples, rng) for one in chosen])


def _entered(trace: Floats, tuples: int, rng: np.random.Generator) -> Floats:
    times = math.ceil(tuples / len(trace)) + 1
    start = int(rng.integers(len(trace)))
    return np.tile(trace, times)[start : start + tuples]
