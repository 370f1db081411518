"""Which rows are dropped where in a network: a message that is on disk before it acts."""

from dataclasses import dataclass

from penstock.messages.codec import Count, Message, Name, Record, Seconds, Share, Text, refusal


@dataclass(frozen=True, slots=True)
class Drop(Record):
    """A drop at a place: it keeps a share of the rows, or those that meet a condition in SQL.

    >>> Drop("hot->O1", keep=0.25).words, Drop("I1", condition="value > 75").words
    ('drops 75 %', 'keeps value > 75')
    """

    place: Name
    keep: Share = 1.0
    condition: Text = ""

    @property
    def words(self) -> str:
        """What it does, for people."""
        return f"keeps {self.condition}" if self.condition else f"drops {100.0 * (1.0 - self.keep):.3g} %"


@dataclass(frozen=True, slots=True)
class DropPlan(Message):
    """All drops in force.

    Attributes:
        version: Number of the plan.
        decided_s: When it was decided.
        drops: What is dropped; a place without a drop keeps every row.
        entry: Index of the road map's entry; 0 drops nothing.
        note: Why.
    """

    version: Count
    decided_s: Seconds
    drops: tuple[Drop, ...] = ()
    entry: Count = 0
    note: Text = ""

    def _check(self) -> None:
        places = [drop.place for drop in self.drops]
        if len(set(places)) < len(places):
            raise refusal("drops", places, "one drop a place")

    def at(self, place: str) -> Drop | None:
        """The drop at a place, if there is one."""
        return next((drop for drop in self.drops if drop.place == place), None)
