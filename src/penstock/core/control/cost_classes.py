r"""Buckets by true cost, for the oracle of an evaluation: who knows each row's cost needs no key.

Class $b = \lfloor 32 \log_2(w / 1\,\mu s) \rfloor$, cut to the table: classes are two percent wide, from a
microsecond to over an hour.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS

#: Classes to each doubling of the cost.
CLASSES_PER_OCTAVE = 32
CHEAPEST_S = 1e-6


def cost_classes(costs_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class of each cost.

    >>> cost_classes(np.array([0.0, 1e-6, 2.01e-6, 1e9])).tolist()
    [0, 0, 32, 1023]
    """
    octaves = np.log2(np.maximum(costs_s, CHEAPEST_S) / CHEAPEST_S)
    classes: NDArray[np.int64] = np.minimum(octaves * CLASSES_PER_OCTAVE, BUCKETS - 1).astype(np.int64)
    return classes


def class_costs_s() -> NDArray[np.float64]:
    """The cost in the middle of every class.

    >>> class_costs_s()[[0, 32]].round(9).tolist()
    [1.011e-06, 2.022e-06]
    """
    middles: NDArray[np.float64] = CHEAPEST_S * 2.0 ** ((np.arange(BUCKETS) + 0.5) / CLASSES_PER_OCTAVE)
    return middles
