"""`penstock roadmap`: the load of a network file, its road map, and the entry for an excess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from penstock.cli.printing import plain
from penstock.config.network_file import NetworkFile, load
from penstock.core.network import exact, roadmap
from penstock.core.network.by_value import roadmap as semantic
from penstock.core.network.drops import places
from penstock.errors import PenstockError
from penstock.wording import few

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

#: The most rows of a printed table; the JSON has all.
_MOST_ARCS, _MOST_ENTRIES, _MOST_NAMES = 40, 16, 4
_ALL = 100.0


@dataclass(frozen=True)
class Answer:
    """What the command found."""

    file: NetworkFile  #: the network file
    load: float  #: work a second without drops
    excess: float  #: the work to shed
    road: roadmap.RoadMap  #: the road map
    chosen: int  #: the entry for that excess
    optimum: dict[str, Any] | None  #: the exact optimum, if requested

    def saved(self, entry: roadmap.Entry) -> float:
        """Work a second that an entry saves."""
        return sum(self.file.network.rates[name] * saving for name, saving in entry.savings.items())


def answer(
    path: Path,
    *,
    kind: str | None = None,
    shed: float | None = None,
    placement: str | None = None,
    solver: str | None = None,
    step: float | None = None,
) -> Answer:
    """Read a network file, build its road map and look up the entry for an excess."""
    file = load(path)
    kind, network = kind or file.kind, file.network
    if kind == "semantic" and placement is not None:
        raise PenstockError.setting("--placement", placement, "it with --kind random")
    given: dict[str, Any] = {} if step is None else {"step": step}
    road: roadmap.RoadMap
    if kind == "semantic":
        if file.objective != "sum":
            raise PenstockError.setting("objective", file.objective, "sum, or --kind random")
        if all(output.value is None for output in network.outputs):
            raise PenstockError.setting("--kind", kind, f"random: no output in {path} has a value graph")
        try:
            road = semantic.build(network, **given)
        except PenstockError as error:
            raise PenstockError(f"{path}: {error}") from None
    else:
        given |= {"solver": solver or file.solver, "objective": file.objective}
        road = roadmap.build(network, placement="group" if placement == "group" else "single", **given)
    work = network.load()
    excess = file.excess(work) if shed is None else shed
    optimum = None
    if (solver or file.solver) == "exact":
        optimum = _best(file, road, max(work - excess, 0.0))
    return Answer(file, work, excess, road, road.find(excess, network.rates), optimum)


def _best(file: NetworkFile, road: roadmap.RoadMap, budget: float) -> dict[str, Any]:
    """The exact optimum within a budget of work."""
    if not isinstance(road, semantic.SemanticRoadMap):
        best = exact.best(file.network, budget, objective=file.objective)
        return {"drops": _shares(best.keep), "delivered": best.delivered, "utility": best.utility}
    best, delivered = exact.best(road.copy.network, budget), {}
    for name, rows in road.copy.outputs.items():
        got = sum(best.delivered[part] * each for part, each in rows.items())
        delivered[name] = got / sum(rows.values()) if sum(rows.values()) > 0.0 else _ALL
    # Flows of cells give the value of the optimum, but several sets of drops may achieve it.
    return {"delivered": delivered, "utility": best.utility}


def to_json(found: Answer) -> dict[str, Any]:
    """As data: a drop is the share of rows that is dropped, or the condition of those that are kept."""
    entries = [found.road.entry(index) for index in range(len(found.road))]
    data: dict[str, Any] = {
        "coefficients": found.file.network.coefficients,
        "load": found.load,
        "candidates": [place.name for place in places(found.file.network)],
        "roadmap": [
            {"savings": entry.savings, "drops": _drops(entry), "delivered": entry.delivered, "utility": entry.utility}
            for entry in entries
        ],
        "chosen": found.chosen,
    }
    if found.optimum is not None:
        data["exact"] = found.optimum
    return data


def show(out: Console, found: Answer) -> None:
    """Coefficients, the relevant part of the road map, and the chosen entry."""
    plain(out, f"{found.file.name}: {_load(found)}.")
    out.print(_arcs(found))
    out.print(_entries(found))
    entry, saved = found.road.entry(found.chosen), found.saved(found.road.entry(found.chosen))
    if found.excess <= 0.0:
        plain(out, f"Entry {found.chosen} is chosen: there is nothing to shed.")
        return
    enough = "" if saved >= found.excess * (1.0 - 1e-9) else " No entry saves as much; this is the last one."
    plain(out, f"Entry {found.chosen} is chosen to shed {found.excess:.6g}; it saves {saved:.6g}.{enough}")
    _plan(out, _drops(entry), entry.delivered, entry.utility)
    if found.optimum is not None:
        plain(out, f"The exact optimum for the same excess ({found.file.objective}):")
        _plan(out, found.optimum.get("drops", {}), found.optimum["delivered"], found.optimum["utility"])


def _load(found: Answer) -> str:
    file, text = found.file, f"load {found.load:.6g} a second"
    if file.capacity is None:
        return f"{text}; the capacity is not known"
    limit = file.headroom * file.capacity
    over = found.load - limit
    side = f"{over:.6g} above" if over > 0.0 else f"{-over:.6g} below"
    return f"{text}, {side} the {limit:.6g} that may be used ({file.headroom:g} of {file.capacity:g})"


def _arcs(found: Answer) -> Table:
    network = found.file.network
    flows = network.rates | network.flows()
    candidates = {place.name for place in places(network)}
    names = [*network.rates, *(arc.name for node in network.order for arc in network.out_of[node])]
    work = {name: flows[name] * network.coefficients[name] for name in names}
    shown = set(sorted(names, key=lambda name: -work[name])[:_MOST_ARCS])
    table = Table("arc", "rows a second", "load coefficient", "work a second", "candidate")
    if len(shown) < len(names):
        table.caption = f"{len(shown)} of {len(names)} arcs, those with the most work"
    for name in names:
        if name in shown:
            numbers = (f"{one:.6g}" for one in (flows[name], network.coefficients[name], work[name]))
            table.add_row(escape(name), *numbers, "yes" if name in candidates else "")
    return table


def _entries(found: Answer) -> Table:
    last = len(found.road) - 1
    spread = {round(part * last / _MOST_ENTRIES) for part in range(_MOST_ENTRIES + 1)}
    shown = sorted(spread | {index for index in range(found.chosen - 1, found.chosen + 2) if 0 <= index <= last})
    table = Table("entry", "saves", "utility", "delivered, percent", "drops")
    if len(shown) <= last:
        table.caption = f"{len(shown)} of {last + 1} entries"
    for index in shown:
        entry = found.road.entry(index)
        mark = "→ " if index == found.chosen else ""
        delivered = _delivered(entry.delivered)
        told = {at: f"keeps {drop}" if isinstance(drop, str) else f"{drop:.2%}" for at, drop in _drops(entry).items()}
        drops = few([f"{name}\N{NO-BREAK SPACE}{words}" for name, words in told.items()], _MOST_NAMES)
        saves, utility = f"{found.saved(entry):.6g}", f"{entry.utility:.4f}"
        table.add_row(f"{mark}{index}", saves, utility, escape(delivered), escape(drops))
    return table


def _plan(out: Console, drops: dict[str, float | str], delivered: dict[str, float], utility: float) -> None:
    for name, drop in list(drops.items())[:_MOST_ARCS]:
        plain(
            out, f"  at {name}: {f'keep rows with {drop}' if isinstance(drop, str) else f'drop {drop:.2%} of the rows'}"
        )
    if len(drops) > _MOST_ARCS:
        plain(out, f"  and {len(drops) - _MOST_ARCS} more drops")
    plain(out, f"  delivered, percent: {_delivered(delivered, _MOST_ARCS)}")
    plain(out, f"  utility: {utility:.4f}")


def _drops(entry: roadmap.Entry) -> dict[str, float | str]:
    conditions = {name: predicate.sql() for name, predicate in entry.predicates.items()}
    return _shares({name: keep for name, keep in entry.keep.items() if name not in conditions}) | conditions


def _shares(keep: dict[str, float]) -> dict[str, float | str]:
    return {name: round(1.0 - share, 12) for name, share in keep.items()}


def _delivered(percents: dict[str, float], most: int = _MOST_NAMES) -> str:
    """Outputs that lose rows come first if not all have room."""
    names = list(percents) if len(percents) <= most else sorted(percents, key=lambda name: percents[name] == _ALL)
    return few([f"{name} {percents[name]:.4g}" for name in names], most)
