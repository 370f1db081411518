"""How often intervals of `penstock.core.answers.estimates` hold the true value: many groups, drawn and shed by chance.

In each trial a group of rows is drawn, and each row is kept with the share of its stratum. Then the answers' intervals
are compared with the values of all rows of the group. Some questions are beyond the promise of the intervals, to show
by how much.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.answers.estimates import Answer, Quantile, ratio, share, total
from penstock.core.answers.sums import Arrays, summed

Floats = NDArray[np.float64]
#: Makes values of a shape.
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

#: What an interval of 95 percent promises.
LEAST, MOST = 0.93, 0.97
#: Rows that are drawn at once.
_AT_ONCE = 400_000
_NUMBERS, _QUANTILE = Arrays(), Quantile(0.95)


@dataclass(frozen=True)
class Case:
    """A kind of group: a number of rows, each in a stratum with one of the shares, some of them must-keep rows."""

    name: str
    rows: int
    shares: tuple[float, ...]
    must_keep: float = 0.0
    promised: bool = True


CASES = (
    Case("half of 80 rows", 80, (0.5,)),
    Case("a tenth of 400", 400, (0.1,)),
    Case("strata of 0.2, 0.5, 1", 400, (0.2, 0.5, 1.0)),
    Case("0.1, 0.3, a fifth must be kept", 600, (0.1, 0.3), 0.2),
    Case("half of 40", 40, (0.5,), promised=False),
    Case("0.05 and 0.5 of 400", 400, (0.05, 0.5), promised=False),
)
#: Values, and whether their answers are promised to hold.
VALUES: dict[str, tuple[Draw, bool]] = {
    "even": (lambda random, shape: random.uniform(0.0, 1.0, shape), True),
    "exponential": (lambda random, shape: random.exponential(1.0, shape), True),
    "both signs": (lambda random, shape: random.normal(0.2, 1.0, shape), True),
    "below zero": (lambda random, shape: -random.exponential(1.0, shape), True),
    "log-normal": (lambda random, shape: random.lognormal(0.0, 1.0, shape), False),
}
#: Shares of rows that meet a condition.
CONDITIONS = {0.03: False, 0.2: True, 0.5: True}


def bench_coverage(trials: int, seed: int, done: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """The share of trials in which each interval of 95 percent holds the true value, and the mean effective rows.

    >>> found = bench_coverage(20, seed=1)
    >>> found["rows"][0]["case"], found["rows"][0]["question"], found["rows"][0]["trials"]
    ('half of 80 rows', 'count', 20)
    """
    rows = []
    for number, case in enumerate(CASES):
        random = np.random.default_rng([seed, number])
        held: dict[tuple[str, bool], int] = {}
        effective_rows = 0.0
        at_once = max(_AT_ONCE // case.rows, 1)
        for start in range(0, trials, at_once):
            shape = min(at_once, trials - start), case.rows
            for question, promised, answer, true in _asked(case, random, shape):
                inside = int(np.sum((answer.low <= true) & (true <= answer.high)))
                held[question, promised] = held.get((question, promised), 0) + inside
                effective_rows += float(answer.effective_rows.sum()) if question == "count" else 0.0
        rows += [
            {
                "case": case.name,
                "question": question,
                "promised": case.promised and promised,
                "coverage": inside / trials,
                "effective_rows": effective_rows / trials,
                "trials": trials,
            }
            for (question, promised), inside in held.items()
        ]
        done()
    return {"parameters": {"trials": trials, "seed": seed, "promised": [LEAST, MOST]}, "rows": rows}


def _asked(
    case: Case, random: np.random.Generator, shape: tuple[int, int]
) -> Iterator[tuple[str, bool, Answer, Floats]]:
    """Every question: its name, whether it is promised, the answers of all groups, and the truth."""
    shares = np.asarray(case.shares)[random.integers(len(case.shares), size=shape)]
    shares[random.random(shape) < case.must_keep] = 1.0
    kept, weights = random.random(shape) < shares, 1.0 / shares
    ones = np.ones(shape)
    counted = total(summed(weights, ones, present=kept), _QUANTILE, _NUMBERS, counted=True)
    yield "count", True, counted, ones.sum(-1)
    for part, promised in CONDITIONS.items():
        hits = (random.random(shape) < part).astype(np.float64)
        sums = summed(weights, hits, present=kept)
        found = total(sums, _QUANTILE, _NUMBERS, counted=True)
        yield f"count, {part:.0%} of rows", promised, found, hits.sum(-1)
        yield f"share, {part:.0%} of rows", promised, share(sums, _QUANTILE, _NUMBERS), hits.mean(-1)
    for name, (draw, promised) in VALUES.items():
        values, below = draw(random, shape), random.uniform(0.5, 1.5, shape)
        sums = summed(weights, values, present=kept)
        yield f"sum, {name}", promised, total(sums, _QUANTILE, _NUMBERS), values.sum(-1)
        yield f"mean, {name}", promised, ratio(sums, _QUANTILE, _NUMBERS), values.mean(-1)
        both = summed(weights, values * below, below, present=kept)
        true = (values * below).sum(-1) / below.sum(-1)
        yield f"ratio, {name}", promised, ratio(both, _QUANTILE, _NUMBERS), true
