"""Pictures of a network as SVG: rates, loads and drops on its arcs, and each output's QoS graph with its cursor.

Text has a fixed-width font, so that its width is known.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len

from penstock.views.network import formatting as fmt
from penstock.views.network.layout import Path, Size, Spot, arranged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.network.model import Arc, Network, Output
    from penstock.views.network.snapshot import Snapshot

_Line = tuple[str, str]  # text, and what it is

#: Width of a letter and height of a line.
LETTER, LINE = 6.1, 13.0
_NODE_LETTERS = 20
_DROP_LETTERS = 24
_DROP_LINES = 2
_PAD = 8.0
#: The width of a drop's symbol on an arc.
_SYMBOL = 18.0
#: Where an arc's line runs, below the top of its label: under its first line of text.
_RULE = LINE + 3.0
_THICKEST = 5.0
#: Colours: a drop, a cursor, the work of a box.
RED, PURPLE, ORANGE = "#b2182b", "#6a3d9a", "#fdb863"
_STYLE = (
    ".net text{font:10px 'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace;fill:#222}"
    ".net .name{font-weight:700}.net .dim{fill:#666}"
    f".net .drop{{fill:{RED};font-weight:700}}.net .cursor{{fill:{PURPLE};font-weight:700}}"
    ".net rect{stroke:#555;fill:#fff}.net .input rect{fill:#e8f1fa}.net .output rect{fill:#f4ecf7}"
    ".net .flow{fill:none;stroke:#8a8a8a}.net .dry .flow{stroke-dasharray:3 3}.net .head{fill:#8a8a8a;stroke:none}"
)


def drawing(network: Network, snapshot: Snapshot | None) -> str:
    """The network after a batch, or without numbers if there was none yet."""
    writing = _Writing(network, snapshot)
    layout = arranged(network, writing.nodes, writing.labels, _RULE)
    what = f"batch {snapshot.batch}" if snapshot else "before the first batch"
    parts = [_opening("net", layout.width, layout.height, f"The network, {what}"), f"<style>{_STYLE}</style>"]
    parts.extend(writing.arc(arc, layout.arcs[arc.name]) for arc in network.arcs)
    for kind, nodes in (("input", network.inputs), ("box", network.boxes), ("output", network.outputs)):
        parts.extend(writing.node(kind, one.name, layout.nodes[one.name]) for one in nodes)
    return "\n".join([*parts, "</svg>"])


class _Writing:
    """The labels of nodes and arcs, their sizes, and the parts of the picture."""

    def __init__(self, network: Network, snapshot: Snapshot | None) -> None:
        self.network, self.snapshot = network, snapshot
        self.rates: Mapping[str, float] = snapshot.rates if snapshot else {}
        self.flows: Mapping[str, float] = snapshot.flows if snapshot else {}
        self.loads: Mapping[str, float] = snapshot.loads if snapshot else {}
        self.drops: Mapping[str, str] = snapshot.drops if snapshot else {}
        self._outputs = {one.name for one in network.outputs}
        self._most = max([load for load in self.loads.values() if load > 0.0], default=0.0)
        self.written = {one.name: self._input(one.name) for one in network.inputs}
        self.written |= {box.name: self._box(box.name, box.op) for box in network.boxes}
        self.written |= {one.name: self._output(one.name) for one in network.outputs}
        self.nodes = {
            name: Size(max(cell_len(text) for text, _ in lines) * LETTER + 2 * _PAD, len(lines) * LINE + _PAD)
            for name, lines in self.written.items()
        }
        self.labels = {arc.name: self._label(arc) for arc in network.arcs}

    def dropped(self, place: str, letters: int = _DROP_LETTERS) -> list[str]:
        """The text of the drop at a place, in lines."""
        return fmt.folded(self.drops.get(place, ""), letters, _DROP_LINES)

    def _lines(self, arc: Arc) -> list[str]:
        """The text below an arc; outputs have no work."""
        worked = self.snapshot and arc.target not in self._outputs
        return [f"load {fmt.load(fmt.known(self.loads, arc.name))}"] if worked else []

    def _rate(self, arc: Arc) -> str:
        return f"{fmt.rows(fmt.known(self.flows, arc.name))} rows/s" if self.snapshot else ""

    def _label(self, arc: Arc) -> Size:
        lines, drop = self._lines(arc), self.dropped(arc.name)
        letters = max(cell_len(line) for line in [self._rate(arc), *lines, *drop])
        height = _RULE + LINE * max(len(lines + drop), 1) + 3.0
        return Size(letters * LETTER + 2 * _PAD + self._left(arc), height)

    def _left(self, arc: Arc) -> float:
        """Room for the symbol of a drop."""
        return _SYMBOL if arc.name in self.drops else 0.0

    def arc(self, arc: Arc, path: Path) -> str:
        """An arc with its rate, its load and its drop."""
        flow, load = fmt.known(self.flows, arc.name), fmt.known(self.loads, arc.name)
        drop = self.drops.get(arc.name)
        title = arc.name
        if self.snapshot:
            title += f": {fmt.rows(flow)} rows/s, load {fmt.load(load)}" + (f"; {drop}" if drop else "")
        thick = 1.2 + (_THICKEST - 1.2) * (load / self._most if load and self._most else 0.0)
        (left, line), left_text = path.points[-2], path.label.left + self._left(arc)
        flowing = f'<path class="flow" stroke-width="{thick:.1f}" d="{_curves(path)}"/>'
        parts = [_title(title), flowing, _head(*path.points[-1]), _text(left_text, line - 5.0, self._rate(arc))]
        below = [(text, "dim") for text in self._lines(arc)] + [(text, "drop") for text in self.dropped(arc.name)]
        for number, (text, kind) in enumerate(below, 1):
            parts.append(_text(left_text, line + LINE * number - 1.0, text, kind))
        if drop:
            parts.append(_symbol(left + _SYMBOL / 2.0, line))
        return _group("arc" if flow or not self.snapshot else "arc dry", arc.name, parts)

    def _input(self, name: str) -> list[_Line]:
        rate = f"{fmt.rows(fmt.known(self.rates, name))} rows/s" if self.snapshot else "input"
        drop = [(text, "drop") for text in self.dropped(name, _NODE_LETTERS)]
        return [_name(name), (rate, "dim"), *drop]

    def _box(self, name: str, op: str) -> list[_Line]:
        share = self._share(name)
        return [_name(name), (f"{op} {fmt.share(share)}" if share else op, "dim")]

    def _output(self, name: str) -> list[_Line]:
        if not self.snapshot:
            return [_name(name), ("output", "dim")]
        cursor, utility = (fmt.known(of, name) for of in (self.snapshot.delivered, self.snapshot.utilities))
        if cursor is None:
            return [_name(name), ("no rows", "dim")]
        told = f"{fmt.percent(cursor)} delivered", f"utility {fmt.utility(utility)}"
        return [_name(name), *((text, "cursor") for text in told), ("", "")]

    def _share(self, box: str) -> float:
        """A box's share of all work."""
        work = fmt.carried(self.snapshot) if self.snapshot else 0.0
        own = sum(fmt.known(self.loads, arc.name) or 0.0 for arc in self.network.into[box])
        return own / work if work > 0.0 else 0.0

    def node(self, kind: str, name: str, spot: Spot) -> str:
        """An input with its drop where rows leave it, a box coloured by its work, or an output with its cursor."""
        written, drop = self.written[name], self.drops.get(name)
        title = f"{name}: {', '.join(text for text, what in written[1:] if text and what != 'drop')}"
        rectangle = _rectangle(spot, heat=self._share(name)) if kind == "box" else _rectangle(spot, rounded=10.0)
        parts = [_title(f"{title}; {drop}" if drop else title), rectangle, *_lines(written, spot)]
        if drop:
            parts.append(_symbol(spot.right + 3.0, spot.middle))
        cursor = fmt.known(self.snapshot.delivered, name) if self.snapshot and kind == "output" else None
        if cursor is not None:
            left, top = spot.left + _PAD, spot.middle + LINE * len(written) / 2.0 - 9.0
            whole = spot.width - 2 * _PAD
            for width, color in ((whole, "#ddd"), (whole * min(max(cursor / 100.0, 0.0), 1.0), PURPLE)):
                place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="5"'
                parts.append(f'<rect {place} style="fill:{color};stroke:none"/>')
        return _group(kind, name, parts)


def _name(name: str) -> _Line:
    return fmt.cut(name, _NODE_LETTERS), "name"


def _lines(written: Sequence[_Line], spot: Spot) -> list[str]:
    """The lines of a node, in its middle."""
    top = spot.middle - len(written) * LINE / 2.0
    places = enumerate(written, 1)
    return [_text(spot.left + _PAD, top + LINE * number - 3.0, text, kind) for number, (text, kind) in places]


def graph(output: Output, last: tuple[float, float] | None, worst: tuple[float, float] | None) -> str:
    """An output's loss tolerance, with the last and the worst cursor: percent delivered and utility."""
    width, height, left, top = 222.0, 180.0, 36.0, 38.0
    wide, high = 170.0, 100.0

    def at(percent: float, utility: float) -> tuple[float, float]:
        return left + wide * (1.0 - percent / 100.0), top + high * (1.0 - utility)

    line = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in output.loss_tolerance.points)
    told = "no rows" if last is None else f"{fmt.percent(last[0])} delivered, utility {fmt.utility(last[1])}"
    parts = [
        _opening("net", width, height, f"QoS of {output.name}: {told}"),
        _text(4.0, 11.0, fmt.cut(output.name, 34), "name"),
        _text(4.0, 24.0, told, "dim" if last is None else "cursor"),
        f'<rect x="{left}" y="{top}" width="{wide}" height="{high}"/>',
        f'<polyline points="{line}" fill="none" stroke="#333" stroke-width="1.5"/>',
        *(_text(left - 9.0, top + high * (1.0 - one) + 3.5, f"{one:g}", "dim", "end") for one in (0.0, 0.5, 1.0)),
        *(_text(at(one, 0.0)[0], top + high + 13.0, f"{one:g}", "dim", "middle") for one in (100, 50, 0)),
        _text(left + wide / 2.0, top + high + 27.0, "percent delivered", "dim", "middle"),
    ]
    if worst is not None:
        x, y = at(*worst)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" stroke="{RED}" stroke-width="1.5"/>')
    if last is not None:
        x, y = at(*last)
        parts.append(
            f'<path fill="none" stroke="{PURPLE}" stroke-dasharray="2 3" '
            f'd="M{x:.1f} {top + high:.1f}V{y:.1f}H{left:.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{PURPLE}"/>'
        )
    return "\n".join([*parts, "</svg>"])


def _opening(kind: str, width: float, height: float, told: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(fmt.plain(told))}">'
    )


def _group(kind: str, place: str, parts: Sequence[str]) -> str:
    return f'<g class="{kind}" data-place="{escape(fmt.plain(place))}">{"".join(parts)}</g>'


def _title(text: str) -> str:
    return f"<title>{escape(fmt.plain(text))}</title>"


def _text(left: float, base: float, text: str, kind: str = "", anchor: str = "start") -> str:
    if not text:
        return ""
    kinds = f' class="{kind}"' if kind else ""
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{left:.1f}" y="{base:.1f}"{kinds}{anchored}>{escape(text)}</text>'


def _rectangle(spot: Spot, *, rounded: float = 2.0, heat: float = 0.0) -> str:
    style = f' style="fill:{ORANGE};fill-opacity:{min(heat * 1.5, 1.0):.2f}"' if heat else ""
    place = f'x="{spot.left:.1f}" y="{spot.top:.1f}" width="{spot.width:.1f}" height="{spot.height:.1f}"'
    return f'<rect {place} rx="{rounded:g}"{style}/>'


def _curves(path: Path) -> str:
    """Bends between straight parts."""
    (left, height), *rest = path.points
    found = f"M{left:.1f} {height:.1f}"
    for number, (right, below) in enumerate(rest):
        if number % 2:
            found += f"H{right:.1f}"
        else:
            half = (left + right) / 2.0
            found += f"C{half:.1f} {height:.1f} {half:.1f} {below:.1f} {right:.1f} {below:.1f}"
        left, height = right, below
    return found


def _head(right: float, line: float) -> str:
    back = f"{right - 7:.1f}"
    return f'<polygon class="head" points="{right:.1f},{line:.1f} {back},{line - 4:.1f} {back},{line + 4:.1f}"/>'


def _symbol(middle: float, line: float) -> str:
    """A drop: a red disc with a cross."""
    cross = f"M{middle - 3:.1f} {line - 3:.1f}l6 6m0-6l-6 6"
    return (
        f'<circle class="symbol" cx="{middle:.1f}" cy="{line:.1f}" r="7" fill="{RED}"/>'
        f'<path d="{cross}" stroke="#fff" stroke-width="2"/>'
    )
