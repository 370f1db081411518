"""A running network on disk, for the dashboard: its drawing once, and each batch's snapshot as a line of a journal.

Every arc has room for the longest label, so the layout is constant while numbers change.
"""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError
from penstock.store.journal import Journal, at
from penstock.views.network.drawing import LETTER, LINE
from penstock.views.network.layout import Size, arranged

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.network.model import Network
    from penstock.views.network.snapshot import Snapshot

_logger = logging.getLogger("penstock")

#: Room for what is written, in letters and lines.
_NODE, _LABEL = (22, 4), (17, 4)


class Record:
    """Records a network in the folder of its run."""

    def __init__(self, folder: Path, name: str, network: Network) -> None:
        """Draw the network and start; a resumed run continues its journal."""
        self._journal = Journal(*at(folder / "snapshots.journal"))
        try:
            FolderStore(folder).replace("network.json", json.dumps(drawn(name, network)).encode())
        except StoreError as error:
            _logger.warning(
                "the drawing of %s cannot be written, so the dashboard lacks it: %s", name, error.why or error
            )

    def add(self, snapshot: Snapshot) -> None:
        """Write a snapshot if possible."""
        self._journal.append(f"snapshot {json.dumps(_finite(asdict(snapshot)), allow_nan=False)}")

    def end(self) -> None:
        """The run is over."""
        self._journal.append(f"end {json.dumps({'ended_s': time.time()})}")


def drawn(name: str, network: Network) -> dict[str, Any]:
    """The network as plain data: what there is, and where it is drawn."""
    nodes = {node: _size(*_NODE) for node in network.order}
    labels = {arc.name: _size(*_LABEL) for arc in network.arcs}
    layout = arranged(network, nodes, labels, LINE + 3.0)
    return {
        "name": name,
        "inputs": [one.name for one in network.inputs],
        "boxes": [{"name": box.name, "op": box.op} for box in network.boxes],
        "outputs": [
            {"name": one.name, "qos": [list(map(float, point)) for point in one.loss_tolerance.points]}
            for one in network.outputs
        ],
        "width": layout.width,
        "height": layout.height,
        "nodes": {at: [spot.left, spot.top, spot.width, spot.height] for at, spot in layout.nodes.items()},
        "arcs": [
            {
                "name": arc.name,
                "source": arc.source,
                "target": arc.target,
                "points": [list(point) for point in layout.arcs[arc.name].points],
                "label": [layout.arcs[arc.name].label.left, layout.arcs[arc.name].label.top],
            }
            for arc in network.arcs
        ],
    }


def _size(letters: int, lines: int) -> Size:
    return Size(letters * LETTER + 16.0, lines * LINE + 8.0)


def _finite(value: Any) -> Any:  # noqa: ANN401 - any part of a snapshot
    """The same with nothing where a number is not one."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
