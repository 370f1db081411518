r"""A road map that is rebuilt when the network has drifted.

A map depends on the proportions at build time, not on absolute rates. The utility and the work of each place determine
which place sheds next. So for each place $p$ two shares are kept, of all work and of all delivered rows,

$$a_p = \frac{x_p L_p}{\sum_{p'} x_{p'} L_{p'}}, \qquad b_p = \frac1n \sum_o \frac{x_p w_{po}}{F_o}$$

with $x_p$ rows that pass it, $L_p$ its load coefficient, and $w_{po}$ of its rows coming to output $o$. The output gets
$F_o$ and is one of $n$. The map is rebuilt when either has moved by more than a limit in total (half the sum of
absolute differences). It is also rebuilt when the graphs of utility have, on average. If all costs change by one factor
the map stays valid. Its savings, and the excess in a search, are then in units of work at build time.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.network.drops import Skeleton
from penstock.core.network.model import Network
from penstock.core.network.roadmap import RoadMap

Floats = NDArray[np.float64]

#: The shift of work, or of delivered rows, at which the map is rebuilt. Measured in figure plus of the Aurora
#: reproduction: a map lost less than half a point of utility up to here.
LIMIT = 0.005
#: The smallest divisor.
_LEAST = 1e-300
#: Where graphs are compared.
_PERCENTS = tuple(range(0, 101, 5))


Map = TypeVar("Map", bound=RoadMap)


class Keeper(Generic[Map]):
    """Keeps a road map valid for the current network and rates."""

    def __init__(self, build: Callable[[Network, Mapping[str, float]], Map], network: Network) -> None:
        """Build the first map; `build` makes that of a network at given rates, such as `roadmap.build`."""
        self._build = build
        #: How often a map has been built.
        self.built = 0
        self.renew(network, network.rates)

    def drift(self, network: Network, rates: Mapping[str, float]) -> float:
        """The drift since the map was built, from 0 to 1."""
        known = self._shares_of(network)
        return max(0.5 * float(np.abs(now - then).sum()) for now, then in zip(known(rates), self._then, strict=True))

    def map(self, network: Network, rates: Mapping[str, float]) -> Map:
        """The map, rebuilt if necessary; a cheap call while the network is the same object."""
        if self.drift(network, rates) > LIMIT:
            self.renew(network, rates)
        return self._map

    def find(self, excess: float, network: Network, rates: Mapping[str, float], cursor: int = 0) -> int:
        """The entry of the current map that sheds the share of all work given by `excess`."""
        found = self.map(network, rates)
        load = max(self._shares_of(network).load(rates), _LEAST)
        return found.find(excess * self._at_build.load(rates) / load, rates, cursor)

    def scale(self, network: Network, rates: Mapping[str, float]) -> float:
        """Current work per unit of work at build time."""
        return self._shares_of(network).load(rates) / max(self._at_build.load(rates), _LEAST)

    def renew(self, network: Network, rates: Mapping[str, float]) -> None:
        """Build the map again, regardless of drift."""
        self._map = self._build(network, rates)
        self._known = network, _Shares(network)
        self._at_build = self._known[1]
        self._then = self._at_build(rates)
        self.built += 1

    def _shares_of(self, network: Network) -> "_Shares":
        if network is not self._known[0]:
            self._known = network, _Shares(network)
        return self._known[1]


class _Shares:
    """The share of each place in all work and in all delivered rows, as a function of the rates."""

    def __init__(self, network: Network) -> None:
        bones = Skeleton(network)
        self._inputs = [place.name for place in bones.places if place.arc is None]
        outputs = {bones.number[one.name]: column for column, one in enumerate(network.outputs)}
        splits, count = len(bones.ends), len(bones.places)
        self._work = np.array([network.coefficients[place.name] for place in bones.places])
        # Downstream first: the outputs that a row of a place reaches.
        comes, self._comes = np.zeros((splits, len(outputs))), np.zeros((count, len(outputs)))
        for end in reversed(range(splits)):
            if end in outputs:
                comes[end, outputs[end]] = 1.0
            comes[end] += self._comes[bones.branches[end]].sum(axis=0)
            for index in bones.feeders[end]:
                self._comes[index] += dict(bones.reach[index])[end] * comes[end]
        # Upstream first: the rows of each input that pass a place.
        self._rows, passed = np.zeros((count, len(self._inputs))), np.zeros((splits, len(self._inputs)))
        for index in range(len(self._inputs)):
            self._rows[index, index] = 1.0
            self._pour(bones, index, passed)
        for end in range(splits):
            for index in bones.branches[end]:
                self._rows[index] = passed[end]
                self._pour(bones, index, passed)
        graphs = [[one.loss_tolerance.utility(percent) for percent in _PERCENTS] for one in network.outputs]
        self._graphs = np.array(graphs) * 2.0 / (len(graphs) * len(_PERCENTS))

    def _pour(self, bones: Skeleton, index: int, passed: Floats) -> None:
        for end, share in bones.reach[index]:
            passed[end] += share * self._rows[index]

    def load(self, rates: Mapping[str, float]) -> float:
        """Work a second."""
        return float(self._work[: len(self._inputs)] @ [rates[name] for name in self._inputs])

    def __call__(self, rates: Mapping[str, float]) -> tuple[Floats, Floats, Floats]:
        coming = np.array([rates[name] for name in self._inputs])
        rows = self._rows @ coming
        work = rows * self._work
        full = self._comes[: len(coming)].T @ coming
        shares = self._comes @ np.divide(1.0, full, out=np.zeros_like(full), where=full > 0.0)
        total = max(float(work[: len(coming)].sum()), _LEAST)
        return work / total, rows * shares / len(full), self._graphs
