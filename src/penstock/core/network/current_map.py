"""The road map of a running network, of random drops or of drops by value, as of the last batch."""

from collections.abc import Mapping

from penstock.core.network import roadmap
from penstock.core.network.by_value import roadmap as semantic
from penstock.core.network.by_value.histograms import Histograms
from penstock.core.network.exact import Objective
from penstock.core.network.map_upkeep import Keeper
from penstock.core.network.model import Network
from penstock.core.network.roadmap import Entry, RoadMap, Solver
from penstock.messages.report import Report


class CurrentMap:
    """Built at the first overload; rebuilt when the network has drifted, or the values by which rows are dropped."""

    def __init__(self, network: Network, solver: Solver, objective: Objective, *, by_value: bool) -> None:
        """Build nothing yet; the arguments are those of `NetworkPlanner`."""
        self._solver, self._objective = solver, objective
        self._histograms = Histograms(network) if by_value else None
        self._keeper: Keeper[RoadMap] | None = None

    @property
    def subjects(self) -> dict[str, str]:
        """The expressions to measure, by place."""
        return self._histograms.subjects if self._histograms else {}

    @property
    def built(self) -> int:
        """How often the map was built."""
        return self._keeper.built if self._keeper else 0

    def learn(self, report: Report) -> None:
        """Learn the distribution of values in a batch, if rows are dropped by value."""
        if self._histograms:
            self._histograms.learn({name: one.quantiles for name, one in report.places.items()})

    def find(self, excess: float, network: Network, cursor: int) -> tuple[int, int, Entry]:
        """The entry that sheds this much work: its number, how many there are, and the entry. `cursor` is a guess."""
        rates = network.rates
        if self._keeper is None:
            self._keeper = Keeper(self._build, network)
        elif self._histograms is not None and self._histograms.moved():
            self._keeper.renew(network, rates)
        road_map = self._keeper.map(network, rates)
        index = self._keeper.find(excess, network, rates, min(cursor, len(road_map) - 1))
        return index, len(road_map), road_map.entry(index)

    def scale(self, network: Network) -> float:
        """Current work per unit of the savings of an entry, which are in units of work at build time."""
        return self._keeper.scale(network, network.rates) if self._keeper else 1.0

    def _build(self, network: Network, rates: Mapping[str, float]) -> RoadMap:
        if self._histograms is None:
            return roadmap.build(network, rates, solver=self._solver, objective=self._objective)
        return semantic.build(network, rates, self._histograms.judged())
