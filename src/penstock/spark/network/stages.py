"""A network cut into stages: a box with a state begins one, and everything behind it up to the next is part of it.

A stage is one streaming query. Its stateless boxes run in `foreachBatch`, where a plan can change from batch to batch
and a shared box is computed once. What goes to a box with a state, a join or an aggregate, is written to a folder, from
which that box's own query reads, so its state is Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.network.model import Arc, Network

STATEFUL = ("join", "aggregate")
#: The stage that the inputs begin.
INPUTS = "inputs"


@dataclass(frozen=True)
class Stage:
    """One streaming query."""

    name: str  #: the box with the state, or `inputs`
    roots: tuple[str, ...]  #: where its rows come from: all inputs, or that box
    boxes: tuple[str, ...]  #: its stateless boxes, each behind its sources
    ends: tuple[Arc, ...]  #: arcs on which rows leave it, to an output or to a box with a state


def stages(network: Network) -> list[Stage]:
    """All stages, each behind those that feed it."""
    boxes = {box.name: box for box in network.boxes}
    stateful = [name for name in network.order if name in boxes and boxes[name].op in STATEFUL]
    starts = [(INPUTS, tuple(one.name for one in network.inputs)), *((name, (name,)) for name in stateful)]
    return [_stage(network, name, roots, set(stateful)) for name, roots in starts]


def _stage(network: Network, name: str, roots: tuple[str, ...], stateful: set[str]) -> Stage:
    reached, ends = set(roots), []
    inner = []
    for node in network.order:
        if node not in reached:
            continue
        if node not in roots:
            inner.append(node)
        for arc in network.out_of[node]:
            if arc.target in stateful or not network.out_of[arc.target]:
                ends.append(arc)
            else:
                reached.add(arc.target)
    return Stage(name, roots, tuple(inner), tuple(ends))
