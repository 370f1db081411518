r"""The places of a network from which rows are judged by value.

Rows are judged from the first place on at which all outputs below judge them by one expression, their subject. That is
an input, or a branch below one whose outputs disagree. Further down, branches can drop by value too. What is kept there
is expressed at the place where judging began, and by the input of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.network.expressions import Peeled, peeled
from penstock.core.network.lineage import Columns, Tracer
from penstock.core.network.model import Arc, Network


class Group(NamedTuple):
    """Rows judged from the same place on, whose columns were changed alike since."""

    start: str
    columns: Columns


@dataclass(frozen=True)
class JudgingPlaces:
    """Where judging begins, and where else rows can be dropped by value."""

    tracer: Tracer  #: what boxes do to columns
    subjects: dict[str, str]  #: the subject of each place where rows begin to be judged
    #: The inputs that rows come from, by node and group; None are rows that are not judged.
    origins: dict[str, dict[Group | None, frozenset[str]]]
    #: Branches further down at which a group can be dropped by value: their subject in terms of where the group's
    #: judging began.
    views: dict[tuple[str, Group], Peeled]
    named: dict[str, str]  #: the subject of every place where rows can be dropped by value
    by_chance: tuple[str, ...]  #: places where rows are dropped regardless of their value

    @classmethod
    def of(cls, network: Network) -> "JudgingPlaces":
        """Follow rows from the inputs on."""
        found = cls(Tracer(network), {}, {name: {} for name in network.order}, {}, {}, ())
        random = []
        for name in network.order:
            if network.into[name]:
                found._gather(network, name)
            elif (subject := found.tracer.subject(name)) is None:
                random.append(name)
                found.origins[name] = {None: frozenset([name])}
            else:
                found.subjects[name] = found.named[name] = subject
                found.origins[name] = {Group(name, Columns()): frozenset([name])}
            arcs = network.out_of[name]
            random += [arc.name for arc in arcs if len(arcs) > 1 and found._branch(arc)]
        object.__setattr__(found, "by_chance", tuple(random))
        return found

    def _branch(self, arc: Arc) -> bool:
        """Check whether rows can be dropped by value on a branch; returns whether all can be dropped at random."""
        groups = self.origins[arc.source]
        judged = [group for group in groups if group is not None]
        shared = _twice(groups)
        subject = self.tracer.subject(arc.name)
        for group in judged:
            sql = None if subject is None or groups[group] & shared else group.columns.of(subject)
            view = None if sql is None else peeled(sql)
            if subject is not None and view is not None and view.core == self.subjects[group.start]:
                self.views[arc.name, group] = view
                self.named[arc.name] = subject
        if None in groups and subject is not None and not groups[None] & shared:
            self.subjects[arc.name] = self.named[arc.name] = subject
        return not judged and arc.name not in self.subjects

    def _gather(self, network: Network, name: str) -> None:
        """Which groups come to a node."""
        arcs = network.into[name]
        join = name in self.tracer.boxes and self.tracer.boxes[name].op == "join"
        judged = [arc.name for arc in arcs if join and self.judged_side(arc)]
        found = self.origins[name]
        for arc in arcs:
            for group, origins in self.origins[arc.source].items():
                if judged and arc.name not in judged:
                    continue
                onward = self.onward(group, arc)
                found[onward] = found.get(onward, frozenset()) | origins
        if len(judged) > 1:
            # A row out of this join comes from both sides: no condition by origin is right for it.
            both = frozenset(one for origins in found.values() for one in origins)
            found.update(dict.fromkeys(found, both))

    def judged_side(self, arc: Arc) -> bool:
        """Whether rows are judged that come along an arc."""
        return any(self.onward(group, arc) is not None for group in self.origins[arc.source])

    def onward(self, group: Group | None, arc: Arc) -> Group | None:
        """What a group is behind an arc, before the box there."""
        if group is None and arc.name in self.subjects:
            group = Group(arc.name, Columns())
        if group is None or arc.target not in self.tracer.boxes:
            return group
        return Group(group.start, self.tracer.through(group.columns, arc.target, arc.source))


def _twice(groups: Mapping[Group | None, frozenset[str]]) -> frozenset[str]:
    """Origins whose rows are in more than one group, which a condition cannot distinguish."""
    found, seen = set[str](), set[str]()
    for origins in groups.values():
        found |= origins & seen
        seen |= origins
    return frozenset(found)
