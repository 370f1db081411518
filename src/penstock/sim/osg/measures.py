"""Parts of claims about OSG: tolerances of numbers, readings of words, and values from rows."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.sim.figure import Claim, Row, Saying, means, values

OURS = "not in the paper; our bar: "
PAPER = ("round_robin", "osg", "full_knowledge")
NAMES = {"round_robin": "Round-Robin", "osg": "OSG", "full_knowledge": "Full Knowledge"}

# Tolerances of measured numbers around stated ones.
OSG_NEAR = 0.05  #: speed-up of OSG
OSG_NEARER = 0.03  #: speed-up of OSG where the stated one is below 1.1
KNOWN_NEAR = 0.10  #: of the stated speed-up of Full Knowledge
GAIN_NEAR = 0.05  #: of Round-Robin's completion time
SMALL_GAIN_NEAR = 0.03  #: the same where the stated gain is 4 percent
PLACE = 1  #: points of the x axis by which a peak may lie beside
ROW_NEAR = 0.10  #: of the rows read until RUN
APPLICATION_NEAR = 0.15  #: of the stated speed-up: the stream is ours, the machine another

# Readings of words.
SAME = 0.10  #: times each other
SAME_THROUGHPUT = 0.01  #: times each other
ROUGHLY_SAME_THROUGHPUT = 0.02
EXACTLY = 0.01  #: times each other
DIP = 0.02  #: by which a speed-up that grows may fall on the way
SLIGHT = 0.10  #: times each other
NOT_GOOD = 1.05  #: a speed-up that is none
MOST = 0.5  #: of the points
AFTERMATH = 10_000  #: rows: about as long as the paper's OSG takes to recover

# Penstock's bars.
AT_20_MS, AT_500_MS, NEVER_BELOW = 1.75, 1.5, 0.99
#: Where rows are dealt in micro-batches: keys that share a bucket share a cost, so there is less to gain.
DEALT_AT_LEAST = {
    "zipf-1.0": 1.05,
    "uniform": 1.0,
    "constant": 1.0,
    "speeds of figure 11": 1.05,
    "two of five slow": 2.0,
}
FEWER = 4  #: rows a report


class Reached(NamedTuple):
    """The rows before which OSG reached RUN in one run: at first, and again after the change; None is never."""

    printed: tuple[int | None, int | None]
    first_check: tuple[int | None, int | None]


def reading_name(name: str) -> str:
    """The name of a reading of the paper."""
    return {
        "printed": "as printed",
        "first_check": "matrices at the first check",
        "clamp": "idle instances pulled up to now",
        "clamp_first_check": "both",
    }[name]


def near_number(what: str, paper: float, measured: float, near: float) -> Claim:
    """A number that is near the stated one."""
    return Saying(f"{what} (within {near})", f"{paper}").measured(f"{measured:.2f}", abs(measured - paper) <= near)


def near_known(what: str, paper: float, measured: float) -> Claim:
    """A speed-up of Full Knowledge that is near the stated one."""
    holds = abs(measured / paper - 1.0) <= KNOWN_NEAR
    return Saying(f"{what} (within {KNOWN_NEAR:.0%})", f"{paper}").measured(f"{measured:.2f}", holds)


def near_gain(what: str, paper: float, measured: float, near: float) -> Claim:
    """A gain that is near the stated one."""
    holds = abs(measured - paper) <= near
    return Saying(f"{what} (within {100 * near:.0f} points)", f"{paper:.0%}").measured(f"{measured:.1%}", holds)


def near_place(what: str, paper: float, measured: float, places: list[Any], show: Callable[[Any], str]) -> Claim:
    """A peak that lies where it is stated, or one point beside."""
    beside = abs(places.index(measured) - places.index(paper))
    return Saying(f"{what} (or one beside)", show(paper)).measured(show(measured), beside <= PLACE)


def near_row(what: str, paper: int, reached: list[Reached], which: int, *, origin: int) -> list[Claim]:
    """The first run's row, with the least and most of all runs; near by its distance from where counting begins."""
    found = []
    for reading in ("printed", "first_check"):
        rows = [getattr(run, reading)[which] for run in reached]
        seen = [row for row in rows if row is not None]
        told = f"{rows[0]:,}" if rows[0] is not None else "never"
        told += f" ({min(seen):,} to {max(seen):,} in {len(rows)} runs)" if seen else ""
        near = ROW_NEAR * (paper - origin)
        found.append(
            Saying(f"{what}, {reading_name(reading)} (within {near:,.0f} rows)", f"{paper:,}").measured(
                told, rows[0] is not None and abs(rows[0] - paper) <= near
            )
        )
    return found


def application_speeds(rows: list[Row], *, least: float, most: float, mean: float) -> list[Claim]:
    """Of the mean speed-ups at every k."""
    speeds = [row["speed_up"]["mean"] for row in rows if row["algorithm"] == "osg"]
    near = f"(within {APPLICATION_NEAR:.0%})"
    return [
        Saying(f"OSG's speed-up, {what} over k {near}", f"{paper}").measured(
            f"{value:.2f}", abs(value / paper - 1) <= APPLICATION_NEAR
        )
        for what, paper, value in (
            ("mean", mean, fmean(speeds)),
            ("least", least, min(speeds)),
            ("most", most, max(speeds)),
        )
    ]


def few_messages(unit: str, below: int, messages: list[int]) -> Claim:
    """Of the messages of OSG's instances, at every k and in every run."""
    told = f"{min(messages):,} to {max(messages):,}"
    return Saying(f"OSG's instances send a few {unit} messages (below {below:,})", f"a few {unit}").measured(
        told, max(messages) < below
    )


def not_behind_osg(rows: list[Row], x: str) -> Claim:
    """Whether Penstock is as fast as OSG at every point."""
    speed = means(rows, (x, "algorithm"), "speed_up")
    worst = min(values(rows, x), key=lambda value: speed[value, "penstock"] / speed[value, "osg"])
    own, osg = speed[worst, "penstock"], speed[worst, "osg"]
    return Saying("Penstock's mean speed-up is at least OSG's everywhere", f"{OURS}OSG's").measured(
        f"{own:.2f} against {osg:.2f} where it is nearest", own >= osg
    )


def speed_ups(rows: list[Row], x: str) -> tuple[dict[Any, float], dict[Any, float]]:
    """Mean speed-up of OSG and of Full Knowledge, by x value."""
    speed = means(rows, (x, "algorithm"), "speed_up")
    osg, known = ({value: speed[value, name] for value in values(rows, x)} for name in ("osg", "full_knowledge"))
    return osg, known


def throughputs_apart(rows: list[Row], x: str) -> dict[Any, float]:
    """By x value, how far the throughputs of the paper's algorithms lie apart."""
    found = {}
    for value in values(rows, x):
        rates = [row["throughput_per_s"] for row in rows if row[x] == value and row["algorithm"] in PAPER]
        found[value] = max(rates) / min(rates) - 1.0
    return found


def rises_of(completion: Mapping[tuple[int, str], float], name: str) -> list[int]:
    """Numbers of instances with which rows take longer than with one less."""
    counts = [instances for instances, algorithm in completion if algorithm == name]
    return [b for a, b in pairwise(counts) if completion[b, name] >= completion[a, name]]


def told_rises(counts: list[int]) -> str:
    """Where completion times rise, in words."""
    return f"rises at k = {', '.join(map(str, counts))}" if counts else "never rises"


def both_of(osg: NDArray[np.float64], robin: NDArray[np.float64], part: slice) -> str:
    """The means of both over a part of the rows, in words."""
    if part.start >= part.stop:
        return "never reached"
    means, deviations = ((float(f(osg[part])), float(f(robin[part]))) for f in (np.mean, np.std))
    return (
        f"mean {means[0]:.0f} against {means[1]:.0f} ms, "
        f"standard deviation {deviations[0]:.0f} against {deviations[1]:.0f} ms"
    )


def is_better(osg: NDArray[np.float64], robin: NDArray[np.float64], part: slice) -> bool:
    """Whether OSG is better over a part of the rows."""
    if part.start >= part.stop:
        return False
    return bool(osg[part].mean() < robin[part].mean() and osg[part].std() < robin[part].std())
