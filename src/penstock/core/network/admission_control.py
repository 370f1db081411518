r"""Admission control, the baseline of networks: rows are shed at the inputs, regardless of the outputs' utility.

Two rules, from Tatbul et al. 2003, 5.3, each with two orders. Inputs are shed completely, one after the other, until
the excess is shed: at random (Input-Random), or the one with the highest load first (Input-Cost-Top). Or all inputs
shed load at once: the same amount each (Input-Uniform), or in proportion to their load (Input-Cost-Uniform). The others
shed what one input lacks.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]


def one_by_one(loads: Sequence[float], excess: float, order: Sequence[int]) -> Shares:
    """The keep share of each input if inputs are shed completely in this order until the excess is shed.

    >>> one_by_one([10.0, 20.0, 30.0], excess=25.0, order=[1, 0, 2]).tolist()
    [0.5, 0.0, 1.0]
    """
    keep, left = np.ones(len(loads)), excess
    for number in order:
        given = min(loads[number], max(left, 0.0))
        if loads[number] > 0.0:
            keep[number] = 1.0 - given / loads[number]
        left -= given
    return keep


def costliest_first(loads: Sequence[float], excess: float) -> Shares:
    """One after the other, the highest load first.

    >>> costliest_first([10.0, 20.0, 30.0], excess=25.0).round(3).tolist()
    [1.0, 1.0, 0.167]
    """
    return one_by_one(loads, excess, sorted(range(len(loads)), key=lambda number: -loads[number]))


def evenly(loads: Sequence[float], excess: float, weights: Sequence[float] | None = None) -> Shares:
    """The keep share of each input if all shed load equally, or by weight; the others shed what one lacks.

    >>> evenly([10.0, 20.0, 30.0], excess=36.0).round(3).tolist()  # 10, 13 and 13 of it
    [0.0, 0.35, 0.567]
    """
    has = np.asarray(loads, np.float64)
    weight = np.ones(len(has)) if weights is None else np.asarray(weights, np.float64)
    if excess >= has.sum():
        return np.where(has > 0.0, 0.0, 1.0)
    given = np.zeros(len(has))
    left = max(excess, 0.0)
    while left > 1e-12 * has.sum():
        open_ = (given < has) & (weight > 0.0)
        if not open_.any():
            break
        part = np.where(open_, weight, 0.0)
        step = left * part / part.sum()
        step = np.minimum(step, has - given)
        given += step
        left = excess - math.fsum(given)
    return np.where(has > 0.0, 1.0 - given / np.where(has > 0.0, has, 1.0), 1.0)
