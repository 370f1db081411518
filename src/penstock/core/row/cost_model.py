r"""The cost model: the expected cost of a row by key, learned from executed rows.

Three parts:

- frequent keys: an exact table (`HeavyHitters`); every other key: the paper's sketch (`CostSketch`);
- slow change: every `FORGET_EVERY` rows the past loses a fifth of its weight;
- sudden change of everything at once (a slower disk, a busy neighbour): one drift factor $s$ on all estimates. Each
  batch of executed rows moves it by the ratio of actual to expected cost, $s \leftarrow
  s\,(\sum w / \sum \hat w)^{g}$. So the model follows a doubling within about twenty batches instead of key by key.
"""

import math
from collections.abc import Sequence

import numpy as np

from penstock.core.row.cost_sketch import FORGOTTEN, CostSketch
from penstock.core.row.machines import Key
from penstock.core.settings import whole_number
from penstock.errors import PenstockError


class HeavyHitters:
    """Mean cost of up to `places` frequent keys.

    A sketch mixes keys that share its cells. Most work comes from few keys, so the frequent ones get their own entries
    (Space-Saving). A new key replaces the one with the lowest count and inherits its count, so that frequent keys stay.
    The mean covers the rows since the key entered, so it is exact.

    A. Metwally, D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT
    2005.

    >>> table = HeavyHitters(places=2)
    >>> for key, cost in [("a", 1.0), ("a", 3.0), ("b", 5.0), ("c", 7.0)]:
    ...     table.add(key, cost)
    >>> table.mean("a"), table.mean("b"), table.mean("c")  # c took b's place
    (2.0, None, 7.0)
    """

    def __init__(self, places: int) -> None:
        whole_number("places", places, 1)
        self._place_of: dict[Key, int] = {}
        self._key_at: list[Key | None] = [None] * places
        self._count, self._seen, self._cost = np.zeros((3, places))

    @property
    def memory_bytes(self) -> int:
        """A key hash and three numbers a place."""
        return len(self._key_at) * 8 + self._count.nbytes + self._seen.nbytes + self._cost.nbytes

    def mean(self, key: Key) -> float | None:
        """Mean cost of the key, or None if it has no place."""
        place = self._place_of.get(key)
        return None if place is None else float(self._cost[place] / self._seen[place])

    def add(self, key: Key, cost: float) -> None:
        """Count one row of the key; add the key if it has no place."""
        place = self._place_of.get(key)
        if place is None:
            place = int(np.argmin(self._count))
            evicted = self._key_at[place]
            if evicted is not None:
                del self._place_of[evicted]
            self._place_of[key] = place
            self._key_at[place] = key
            self._seen[place] = self._cost[place] = 0.0
        self._count[place] += 1.0
        self._seen[place] += 1.0
        self._cost[place] += cost

    def decay(self, factor: float) -> None:
        """Decay: all past rows count this much less from now on; a key with almost no rows left is removed."""
        self._count *= factor
        self._seen *= factor
        self._cost *= factor
        for key in [key for key, place in self._place_of.items() if self._seen[place] < FORGOTTEN]:
            place = self._place_of.pop(key)
            self._key_at[place] = None
            self._count[place] = self._seen[place] = self._cost[place] = 0.0

    def scale_costs(self, factor: float) -> None:
        """All costs have changed by this factor at once."""
        self._cost *= factor


#: Places for frequent keys.
HEAVY_PLACES = 64
#: Shape of the sketch for all others: the paper's.
SKETCH_ROWS, SKETCH_COLUMNS = 4, 54
#: Executed rows between two steps of forgetting, and how much of the past each step keeps.
FORGET_EVERY, REMEMBER = 1024, 0.8
#: Exponent g with which one batch moves the drift factor, and the largest ratio one batch may claim.
DRIFT_GAIN, DRIFT_LIMIT = 0.1, 4.0


class CostModel:
    """Estimates the cost of a row by its key.

    >>> model = CostModel(seed=1)
    >>> model.estimate("a")  # nothing known yet
    0.0
    >>> model.learn(["a", "b"], [1.0, 3.0])
    >>> model.estimate("a"), model.estimate("unseen")  # exact; mean of all
    (1.0, 2.0)
    """

    def __init__(self, seed: int = 0, *, heavy_places: int = HEAVY_PLACES) -> None:
        """Start without knowledge; `heavy_places` keys will be known exactly."""
        self._heavy = HeavyHitters(heavy_places)
        self._sketch = CostSketch(SKETCH_ROWS, SKETCH_COLUMNS, seed)
        self._drift = 1.0
        self._rows = 0

    @property
    def memory_bytes(self) -> int:
        """Fixed size of table and sketch."""
        return self._heavy.memory_bytes + self._sketch.nbytes

    @property
    def mean(self) -> float:
        """Mean cost of a row, 0 before the first."""
        return self._drift * self._sketch.mean

    def estimate(self, key: Key) -> float:
        """Expected cost of a row with this key, 0 before anything is known."""
        exact = self._heavy.mean(key)
        return self._drift * (self._sketch.estimate(key) if exact is None else exact)

    def learn(self, keys: Sequence[Key], costs: Sequence[float]) -> None:
        """Process a batch of executed rows: first the drift of all costs, then the costs themselves.

        Costs must be finite and not negative; a batch with any other is refused whole.
        """
        for cost in costs:
            if not 0.0 <= cost < math.inf:
                raise PenstockError.setting("cost", cost, "a finite number from 0 up")
        expected = actual = 0.0
        for key, cost in zip(keys, costs, strict=True):
            expected += self.estimate(key)
            actual += cost
        if expected > 0.0:
            ratio = min(max(actual / expected, 1.0 / DRIFT_LIMIT), DRIFT_LIMIT)
            self._drift *= ratio**DRIFT_GAIN
        for key, cost in zip(keys, costs, strict=True):
            self._heavy.add(key, cost / self._drift)
            self._sketch.update(key, cost / self._drift)
            self._rows += 1
            if self._rows % FORGET_EVERY == 0:
                self._forget()

    def _forget(self) -> None:
        """Fold the drift factor into the stored costs, so that it stays bounded, and decay the past."""
        self._heavy.scale_costs(self._drift)
        self._sketch.scale_costs(self._drift)
        self._drift = 1.0
        self._heavy.decay(REMEMBER)
        self._sketch.decay(REMEMBER)
