"""The decision time of a node: BALANCE-SIC, its exact counterpart, random shedding, our planner."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from penstock.bench.spread import spread
from penstock.core.fairness.balance_sic import balance_sic
from penstock.core.fairness.max_min import max_min
from penstock.core.fairness.shedder import BalanceSicShedder, Buffer, Known, RandomShedder, Shedder
from penstock.core.fairness.sic import SLIDE_S, STW_S
from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
from penstock.messages.report import Known as Told
from penstock.sim.figure import Row

#: As in the paper's larger test-bed: numbers of sources of AVG-all, COV and TOP-5 fragments, with batches of 50.
_SOURCES, _BATCH, _TUPLES_A_WINDOW = (10, 2, 20), 50, 1500
#: Tuples that a node can process, of those that come.
_CAPACITY = 0.3


def bench_balance(fragments: int, repeats: int, seed: int, done: Callable[[int], None] = lambda _: None) -> Row:
    """Time all on the same buffers in turn, so that machine noise affects all equally.

    Each fragment is of another query and has all its tuples in one batch, as a node sees it that counts by fragment.
    Each query has a known SIC of about 0.3; `cold` is the first call, when nothing is known and all queries are equal.
    Times are processor times, so that other work on the machine matters little.
    """
    rng = np.random.default_rng(seed)
    sources = rng.choice(_SOURCES, fragments)
    count = rng.integers(1, 7, fragments)
    tuples = _BATCH * np.maximum(rng.binomial(sources, 3 * SLIDE_S), 1)
    sic = 1.0 / (_TUPLES_A_WINDOW * sources * count)
    capacity = float(int(_CAPACITY * tuples.sum()))
    told = np.clip(rng.normal(0.3, 0.05, fragments), 0.0, 1.0)
    batches = {query: [(int(size), float(value))] for query, (size, value) in enumerate(zip(tuples, sic, strict=True))}
    known = dict(enumerate(told.tolist()))
    buffer = Buffer.of(np.arange(fragments), tuples, sic)
    shedders: dict[str, Shedder] = {"random": RandomShedder(seed), "balance_sic": BalanceSicShedder(seed)}
    ways: dict[str, Callable[[], object]] = {
        "balance_sic(...)": partial(balance_sic, capacity, batches, known_sic=known, seed=seed),
        "balance_sic(...), cold": partial(balance_sic, capacity, batches, seed=seed),
        "max_min(...)": partial(max_min, capacity, batches, known_sic=known),
    }
    for name, shedder in shedders.items():
        ways[f"shedder {name}"] = partial(shedder.select, buffer, capacity, Known.of(told, 0.0), 0.0)
    names = [str(number) for number in range(fragments)]
    planner = SitePlanner(
        {name: SiteInput(name, name, source=True) for name in names},
        {name: SiteQuery(int(parts)) for name, parts in zip(names, count, strict=True)},
        rows_per_s=capacity / SLIDE_S,
    )
    came = dict(zip(names, tuples.tolist(), strict=True))
    heard = {
        name: Told(1.0 - 1.0 / parts, (1.0 - 1.0 / parts) * sic, int(parts) - 1)
        for name, parts, sic in zip(names, count, told.tolist(), strict=True)
    }
    ways["shedder penstock"] = partial(planner.decide, came, SLIDE_S, heard)
    for way in ways.values():
        way()  # compiled, and its memory laid out
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = time.process_time()
            way()
            times[name].append(1e3 * (time.process_time() - started))
        done(1)
    rows: list[Row] = [{"way": name, "decide_ms": spread(values)} for name, values in times.items()]
    return {
        "bench": "balance",
        "parameters": {
            "fragments": fragments,
            "tuples": int(tuples.sum()),
            "capacity": int(capacity),
            "repeats": repeats,
            "seed": seed,
            "stw_s": STW_S,
        },
        "decide_ms": spread(times["balance_sic(...)"]),
        "microseconds_a_batch": 1e3 * statistics.median(times["shedder balance_sic"]) / fragments,
        "rows": rows,
    }
