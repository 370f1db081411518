"""A network as it runs: a drawing that changes in a terminal, or one line every few seconds elsewhere."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.live import Live
from rich.text import Text

from penstock.views.network import formatting as fmt
from penstock.wording import few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

    from penstock.core.network.model import Network
    from penstock.views.network.snapshot import Snapshot

#: Time between two plain lines.
LINE_S = 5.0
_ALARMS = 3
#: Outputs and places named in a plain line.
_NAMED = 3
_RATE, _LOAD = 8, 7
_LEAST_NAME, _LEAST_DROP = 14, 16
_BAR = 24
_DROP = "\N{MULTIPLICATION SIGN}"
#: Below this utility an output is shown in red.
_POOR = 0.5


@contextmanager
def watching(console: Console, network: Network) -> Iterator[Callable[[Snapshot], None]]:
    """Yields a function to call with each new snapshot."""
    if console.is_terminal:
        # Standard error stays as it is: it goes to a file, and Rich would print it.
        with Live(Panel(network, None), console=console, auto_refresh=False, redirect_stderr=False) as live:
            yield lambda snapshot: live.update(Panel(network, snapshot), refresh=True)
    else:
        lines = _Lines(console)
        yield lines.update
        lines.close()


class _Lines:
    """Plain lines: the first batch, one every few seconds, and the last; alarms as soon as they are raised."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told_s = -math.inf
        self._alarms: tuple[str, ...] = ()
        self._untold: Snapshot | None = None

    def update(self, snapshot: Snapshot) -> None:
        for alarm in snapshot.alarms:
            if alarm not in self._alarms:
                self._print(f"batch {snapshot.batch}: ALARM: {fmt.plain(alarm)}")
        self._alarms = snapshot.alarms
        self._untold = snapshot
        if snapshot.time_s >= self._told_s + LINE_S:
            self._told_s = snapshot.time_s
            self.close()

    def close(self) -> None:
        if self._untold:
            self._print(line(self._untold))
            self._untold = None

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def line(snapshot: Snapshot) -> str:
    """The state of a network in one line."""
    shed = {place: rows for place, rows in snapshot.shed.items() if rows}
    told = "no rows shed"
    if shed:
        most = sorted(shed, key=lambda place: -shed[place])
        told = f"{sum(shed.values()):,} rows shed at {few([*map(fmt.plain, most)], _NAMED)}"
    elif snapshot.drops:
        told = f"no rows shed by {len(snapshot.drops)} drops"
    return (
        f"batch {snapshot.batch} in {snapshot.duration_s:.1f} s: {fmt.rows(sum(snapshot.rates.values()))} rows/s in, "
        f"load {fmt.load(snapshot.load)} due, {fmt.load(fmt.carried(snapshot))} done, "
        f"{fmt.load(fmt.limit(snapshot))} allowed, {told}, entry {snapshot.entry} of {snapshot.entries}, "
        f"{_cursors(snapshot)}"
    )


def _cursors(snapshot: Snapshot) -> str:
    """Outputs with losses, the worst first."""
    lost = [name for name in snapshot.delivered if snapshot.delivered[name] < 100.0]  # noqa: PLR2004 - percent
    lost.sort(key=lambda name: snapshot.utilities.get(name, 1.0))
    if not lost:
        return "outputs whole" if snapshot.delivered else "no output yet"
    cursors = [
        f"{fmt.plain(name)} at {fmt.percent(fmt.known(snapshot.delivered, name))} "
        f"(utility {fmt.utility(fmt.known(snapshot.utilities, name))})"
        for name in lost
    ]
    return few(cursors, _NAMED)


@dataclass(frozen=True)
class Panel:
    """The network after a batch, cut to the terminal: drops and the highest loads stay."""

    network: Network
    snapshot: Snapshot | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of the terminal."""
        width = options.max_width
        # The last line is the cursor's.
        height = max((options.height or console.height) - 1, 1)
        head = [*_head(self.snapshot, width), *_alarms(self.snapshot)]
        left = height - len(head)
        outputs = _outputs(self.network, self.snapshot, width, max(left // 3, 1))
        rows = _drawn(self.network, self.snapshot, width, left - len(outputs))
        for text in [*head, *rows, *outputs][:height]:
            text.truncate(width, overflow="ellipsis")
            yield text


def _head(snapshot: Snapshot | None, width: int) -> list[Text]:
    if not snapshot:
        return [Text("no batch yet", style="bold")]
    first = Text(f"batch {snapshot.batch} in {snapshot.duration_s:.1f} s", style="bold")
    first.append(f", entry {snapshot.entry} of {snapshot.entries}, road map {snapshot.rebuilt}", style="not bold")
    return [first, _load(snapshot, width)]


def _load(snapshot: Snapshot, width: int) -> Text:
    """The load as a bar: work done, work dropped, and the limit."""
    due, done, limit = snapshot.load, fmt.carried(snapshot), fmt.limit(snapshot)
    told = Text(" ").append(f"{fmt.load(due)} due", style="bold red" if due > limit else "bold green")
    told.append(f", {fmt.load(done)} done, ", style="" if done <= limit else "yellow")
    told.append(f"{fmt.load(limit)} allowed ({snapshot.headroom:.0%} of {fmt.load(snapshot.capacity)})")
    length = min(width - len("load ") - told.cell_len, _BAR)
    text = Text("load ")
    if length >= len("done") and all(map(math.isfinite, (due, done, limit))):
        scale = max(due, done, limit) or 1.0
        for cell in range(length):
            end = (cell + 1) * scale / length
            at_limit = end - scale / length < limit <= end
            style = "green" if end <= done + scale / length / 2.0 else "red" if end <= due else "bright_black"
            text.append("┃" if at_limit else "━", style="bold" if at_limit else style)
    return text + told if length >= len("done") else Text("load") + told


def _alarms(snapshot: Snapshot | None) -> list[Text]:
    alarms = snapshot.alarms if snapshot else ()
    shown = [Text(fmt.plain(alarm), style="yellow") for alarm in alarms[:_ALARMS]]
    if len(alarms) > _ALARMS:
        shown.append(Text(f"… {len(alarms) - _ALARMS} more alarms", style="yellow"))
    return shown


def _outputs(network: Network, snapshot: Snapshot | None, width: int, lines: int) -> list[Text]:
    """Each output's cursor on a bar from 0 to 100 percent delivered; if there are too many, the worst."""
    if not snapshot:
        return []
    names = [one.name for one in network.outputs]
    if len(names) > lines:
        names.sort(key=lambda name: (snapshot.utilities.get(name, 1.0), snapshot.delivered.get(name, 100.0)))
        names = names[: max(lines - 1, 1)]
    room = max(min(max(map(cell_len, names)), width - 45, 30), 8)
    bar = min(_BAR, max(width - room - 26, 5))
    found = []
    for name in names:
        cursor, utility = fmt.known(snapshot.delivered, name), fmt.known(snapshot.utilities, name)
        text = Text(set_cell_size(fmt.cut(name, room), room), style="bold").append(" ")
        if cursor is None:
            found.append(text.append("no rows", style="not bold bright_black"))
            continue
        color = _color(cursor, utility)
        spot = min(int(min(max(cursor, 0.0), 100.0) / 100.0 * bar), bar - 1)
        text.append("━" * spot, style=f"not bold {color}").append("●", style=color)
        text.append("─" * (bar - 1 - spot), style="not bold bright_black")
        text.append(f" {fmt.percent(cursor):>6}", style=color).append(f" utility {fmt.utility(utility)}", "not bold")
        found.append(text)
    if len(network.outputs) > len(names):
        found.append(Text(f"… {len(network.outputs) - len(names)} outputs that lose less", style="bright_black"))
    return found


def _color(cursor: float, utility: float | None) -> str:
    if cursor >= 100.0:  # noqa: PLR2004 - percent
        return "green"
    return "red" if utility is not None and utility < _POOR else "yellow"


@dataclass(slots=True, eq=False)
class _Row:
    """A line of the drawing: an input, or an arc and the node it leads to."""

    place: str  #: the name of the input or arc
    node: str  #: the name of the node
    note: str  #: the box's kind
    parent: _Row | None  #: the line that it comes from
    drawn: _Row | None = None  #: the line below which the node's own arcs are, if that is another
    below: list[_Row] = field(default_factory=list)  #: the lines that are joined to this one
    prefix: str = ""  #: what is drawn before the name
    skips: bool = False  #: whether lines between this one and the one above it are left out


def _rows(network: Network) -> list[_Row]:
    """The network as a tree from the inputs; a box with several sources is drawn below the first."""
    notes: dict[str, str] = {box.name: box.op for box in network.boxes}
    found, drawn = list[_Row](), dict[str, _Row]()
    todo = [_Row(one.name, one.name, "", None) for one in reversed(network.inputs)]
    while todo:
        row = todo.pop()
        found.append(row)
        if row.node in drawn:
            row.drawn = drawn[row.node]
            continue
        drawn[row.node] = row
        arcs = reversed(network.out_of[row.node])
        todo.extend(_Row(arc.name, arc.target, notes.get(arc.target, "output"), row) for arc in arcs)
    return found


def _drawn(network: Network, snapshot: Snapshot | None, width: int, lines: int) -> list[Text]:
    every = _rows(network)
    head = 1 if snapshot else 0
    rows = every if len(every) + head <= lines else _chosen(every, snapshot, max(lines - head - 1, 0))
    _connect(rows)
    texts = _texts(rows, snapshot, width) if rows else []
    if len(rows) < len(every):
        drops = len(snapshot.drops) - sum(row.place in snapshot.drops for row in rows) if snapshot else 0
        among = f", {drops} drops among them" if drops > 0 else ""
        texts.append(
            Text(f"… {len(every) - len(rows)} arcs not shown{among}", style="bold red" if among else "bright_black")
        )
    return texts


def _chosen(rows: list[_Row], snapshot: Snapshot | None, lines: int) -> list[_Row]:
    """Drops first, then inputs, then arcs with most load; in the order in which they are drawn."""
    drops, loads = (snapshot.drops, snapshot.loads) if snapshot else ({}, {})

    def weight(row: _Row) -> tuple[bool, bool, float]:
        return row.place in drops, row.parent is None, fmt.known(loads, row.place) or 0.0

    kept = set(map(id, sorted(rows, key=weight, reverse=True)[:lines]))
    return [row for row in rows if id(row) in kept]


def _connect(rows: list[_Row]) -> None:
    """Join each line to the nearest one upstream that is shown; only where arcs fork are lines moved in."""
    shown = set(map(id, rows))
    roots = []
    for row in rows:
        if row.drawn and id(row.drawn) in shown:
            row.note = "see above"
        above = row.parent
        while above and id(above) not in shown:
            above, row.skips = above.parent, True
        if above:
            above.below.append(row)
        else:
            roots.append(row)
    todo = [(row, "") for row in roots]
    while todo:
        row, guide = todo.pop()
        only = len(row.below) == 1
        for one in row.below:
            last = one is row.below[-1]
            one.prefix = guide + ("↓ " if only else "└ " if last else "├ ")
            todo.append((one, guide + ("" if only else "  " if last else "│ ")))


def _texts(rows: list[_Row], snapshot: Snapshot | None, width: int) -> list[Text]:
    """Lines in columns: the tree, rows a second, load, and the words of a drop."""
    names = [_label(row) for row in rows]
    numbers = _RATE + _LOAD + 2 if snapshot else 0
    drops = {
        row.place: fmt.plain(snapshot.drops[row.place]) for row in rows if snapshot and row.place in snapshot.drops
    }
    drop_room = max((cell_len(drop) + 3 for drop in drops.values()), default=0)
    room = min(max(cell_len(prefix + name + note) for prefix, name, note in names), width - numbers)
    room = max(min(room, width - numbers - min(drop_room, max(_LEAST_DROP, width // 3))), _LEAST_NAME)
    found = []
    if snapshot:
        found.append(Text(f"{'':{room}} {'rows/s':>{_RATE}} {'load':>{_LOAD}}", style="bright_black"))
    for row, (prefix, name, note) in zip(rows, names, strict=True):
        label = Text().append(prefix, style="bright_black")
        left = max(room - cell_len(prefix), 3)
        noted = cell_len(name + note) <= left
        label.append(fmt.cut(name, left), style="bold" if row.parent is None else "default")
        label.append(note if noted else "", style="bright_black")
        if snapshot:
            label.append(" " * (room - label.cell_len))
            label.append_text(_numbers(row, snapshot))
        if row.place in drops:
            label.append(f" {_DROP} {drops[row.place]}", style="bold red")
        found.append(label)
    return found


def _label(row: _Row) -> tuple[str, str, str]:
    prefix = row.prefix + ("… " if row.skips else "")
    # The nodes in between are hidden, so the arc's full name shows its source.
    return prefix, fmt.plain(row.place if row.skips else row.node), f" {row.note}" if row.note else ""


def _numbers(row: _Row, snapshot: Snapshot) -> Text:
    rate = fmt.known(snapshot.rates if row.parent is None else snapshot.flows, row.place)
    load = fmt.load(fmt.known(snapshot.loads, row.place)) if row.parent else ""
    dry = "bright_black" if not rate else "default"
    return Text(f" {fmt.rows(rate):>{_RATE}} {load if row.note != 'output' else '':>{_LOAD}}", style=dry)
