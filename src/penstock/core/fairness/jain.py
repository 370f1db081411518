r"""Fairness of a run: Jain's index over queries, at an instant and over time, and the oscillation of queries.

$$J = \frac{\left(\sum_q x_q\right)^2}{|Q| \sum_q x_q^2}$$

It is 1 when all are equal and $1/|Q|$ when one has everything (THEMIS, section 7.2). The paper takes $x_q$ as a query's
SIC averaged over time. That hides queries that are rich and poor in turn. So here the index is also taken at every
instant and then averaged, together with the oscillation of a query over time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from penstock.errors import PenstockError


def jain(values: ArrayLike) -> float:
    """Jain's fairness index; 1 if all values are 0, because they are equal.

    >>> jain([0.3, 0.3, 0.3]), jain([1.0, 0.0, 0.0, 0.0]), jain([0.0, 0.0])
    (1.0, 0.25, 1.0)
    """
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or not given.size:
        raise PenstockError("Jain's index needs a list of one value or more")
    top = np.abs(given).max()
    if top == 0.0:
        return 1.0
    given = given / top  # squares of tiny values underflow
    return float(given.sum() ** 2 / (given.size * (given @ given)))


@dataclass(frozen=True)
class Fairness:
    """The evenness of SIC over queries and over time."""

    jain: float  #: index over the queries' time-averaged SIC, as in the paper
    jain_instant: float  #: mean over time of the index at each instant
    mean: float  #: mean SIC of all queries
    std: float  #: standard deviation over queries of their time-averaged SIC
    poorest: float  #: the least time-averaged SIC
    poorest_instant: float  #: mean over time of the least SIC at each instant
    oscillation: float  #: mean over queries of a query's standard deviation over time

    @property
    def oscillation_share(self) -> float:
        """The oscillation as a share of the mean SIC."""
        return self.oscillation / self.mean if self.mean > 0.0 else 0.0


def fairness(instants: Iterable[ArrayLike]) -> Fairness:
    """Measure a run, given the SIC of every query at each instant: one row an instant, one column a query.

    Two queries that are rich in turn are fair by the index of means, and not at any instant:

    >>> swinging = fairness([[0.4, 0.0], [0.0, 0.4]])
    >>> swinging.jain, swinging.jain_instant, swinging.oscillation
    (1.0, 0.5, 0.2)
    """
    sic = np.asarray(list(instants), dtype=np.float64)
    if sic.ndim != 2 or not sic.size:  # noqa: PLR2004 - instants by queries
        raise PenstockError("fairness needs the SIC of one query or more at one instant or more")
    means = sic.mean(axis=0)
    return Fairness(
        jain=jain(means),
        jain_instant=float(np.mean([jain(row) for row in sic])),
        mean=float(means.mean()),
        std=float(means.std()),
        poorest=float(means.min()),
        poorest_instant=float(sic.min(axis=1).mean()),
        oscillation=float(sic.std(axis=0).mean()),
    )
