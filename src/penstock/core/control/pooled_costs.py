r"""What each class of rows brings and costs, when most classes were hardly seen.

A class is a key's place in a grade of worth (`core.balanced.worth`), and there are up to 1,024 of them: a query of some
tens of rows a second takes minutes to see each. To take a class that was never seen for free, and for no rows, lets
most of an overload through while its costs are learned. So what is known of a class is pooled with what is known of its
key in all grades, and that with what is known of all rows:

$$\hat w_k = \frac{\text{work}_k + \kappa \bar w}{\text{rows}_k + \kappa}, \qquad
\hat w_{gk} = \frac{\text{work}_{gk} + \kappa \hat w_k}{\text{rows}_{gk} + \kappa}, \qquad
\hat f_{gk} = f_k \, \frac{\text{rows}_k\, f_{g \mid k} + \kappa f_g}{\text{rows}_k + \kappa}$$

with $\kappa = 1$: what was seen often speaks for itself. Keys that were never seen are expected to bring what those
bring that were seen once, as Good and Turing found (Good, 1953, Biometrika 40).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts

Floats = NDArray[np.float64]

#: What is known of all counts as so many rows of a class.
_PRIOR_ROWS = 1.0


class Pooled(NamedTuple):
    """By bucket: its share of the rows that come, and what one costs. Both are 0 where no row can be."""

    shares: Floats
    costs_s: Floats


def pooled(costs: BucketCosts, keys: int, grades: int, came: float | None = None) -> Pooled:
    """What is expected of each of so many grades with so many places for keys.

    A class that is all but shed tells of itself by a row now and then that stands for a hundred, so the sum of weights
    swings. If it is known how many rows came, shares are of those, and the others' do not swing with it.

    >>> costs = BucketCosts()
    >>> costs.add(np.array([0] * 9 + [512 + 1]), np.array([1.0] * 9 + [4.0]), np.ones(10))
    >>> found = pooled(costs, keys=512, grades=2)
    >>> found.costs_s[[0, 1, 512, 2]].round(2).tolist()  # cheap, dear by its other grade, cheap by it, never seen: mean
    [1.0, 2.65, 1.03, 1.3]
    >>> round(float(found.shares[[0, 1, 512, 513]].sum()), 2)  # one row in ten was of a key that no other was of
    0.9
    """
    used = grades * keys
    rows, weight, work_s = (part[:used].reshape(grades, keys) for part in (costs.rows, costs.weight, costs.work_s))
    total = float(weight.sum())
    if total <= 0.0:
        return Pooled(_padded(np.full(used, 1.0 / used)), _padded(np.zeros(used)))
    seen = rows.sum(axis=0)
    by_key_s = (work_s.sum(axis=0) + _PRIOR_ROWS * costs.mean_s) / (seen + _PRIOR_ROWS)
    by_class_s = (work_s + _PRIOR_ROWS * by_key_s) / (rows + _PRIOR_ROWS)
    never = seen <= 0.0
    rare = float(seen[seen <= 1.0].sum() / seen.sum()) if never.any() else 0.0
    of_key = np.where(never, rare / max(int(never.sum()), 1), (1.0 - rare) * weight.sum(axis=0) / (came or total))
    own = np.divide(weight, weight.sum(axis=0), out=np.zeros_like(weight), where=~never)
    of_grade = (seen * own + _PRIOR_ROWS * weight.sum(axis=1, keepdims=True) / total) / (seen + _PRIOR_ROWS)
    return Pooled(_padded((of_key * of_grade).ravel()), _padded(by_class_s.ravel()))


def _padded(values: Floats) -> Floats:
    return np.concatenate([values, np.zeros(BUCKETS - len(values))])
