r"""The cost model: what a row of a key will cost, learned from rows executed.

Three parts, each for one way costs behave:

- frequent keys: an exact table (`HeavyHitters`); every other key: the paper's sketch (`CostSketch`);
- slow change: every `FORGET_EVERY` rows the past loses a fifth of its weight;
- sudden change of everything at once (a slower disk, a busy neighbour): one drift factor $s$ on all estimates. Each
  batch of executed rows moves it by the ratio of what they cost to what they were expected to cost,
  $s \leftarrow s\,(\sum w / \sum \hat w)^{g}$, so a doubling is followed within some twenty batches and not key by key.
"""

import math
from collections.abc import Sequence

from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.heavy_hitters import HeavyHitters
from penstock.core.row.machines import Key
from penstock.errors import PenstockError

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
        """Start knowing nothing; `heavy_places` keys will be known exactly."""
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
        """Take in a batch of executed rows: first the drift of all costs, then the costs themselves.

        Costs must be finite and not negative; a batch with any other is refused whole.
        """
        for cost in costs:
            if not 0.0 <= cost < math.inf:
                raise PenstockError.setting("cost", cost, "a finite number from 0 up")
        expected = 0.0
        actual = 0.0
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
        """Fold the drift factor into the stored costs, so that it cannot wander off, and fade the past."""
        self._heavy.scale_costs(self._drift)
        self._sketch.scale_costs(self._drift)
        self._drift = 1.0
        self._heavy.decay(REMEMBER)
        self._sketch.decay(REMEMBER)
