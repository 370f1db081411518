"""How much of the past is kept."""

from dataclasses import dataclass, field

import pytest

from penstock.messages.plan import Binding
from penstock.store import retention
from penstock.store.retention import AGE_S, BATCHES, LEAST_BATCHES, NEWEST_PLANS, oldest_kept, purge_plans

NOW_S = 1e9


@dataclass
class Entries:
    """Entries by number, with the time each was made."""

    made_s: dict[int, float] = field(default_factory=dict)

    def made_before(self, time_s: float) -> int | None:
        return max((number for number, made_s in self.made_s.items() if made_s < time_s), default=None)

    def versions(self) -> list[int]:
        return sorted(self.made_s)

    def next_version(self) -> int:
        return max(self.made_s) + 1

    def purge(self, before: int) -> None:
        self.made_s = {number: made_s for number, made_s in self.made_s.items() if number >= before}


@pytest.mark.parametrize(
    ("batches", "every_s", "kept"),
    [
        (50, 1.0, 50),
        (5_000, 1.0, BATCHES + 1),
        (5_000, 3600.0, LEAST_BATCHES + 1),
        (5_000, 1200.0, round(AGE_S / 1200.0) + 1),
        (100, 24 * 3600.0, 100),
    ],
)
def test_batches_are_kept_up_to_a_number_and_an_age_but_the_last_always(
    batches: int, every_s: float, kept: int
) -> None:
    entries = Entries({number: NOW_S - every_s * (batches - 1 - number) for number in range(batches)})
    entries.purge(oldest_kept(entries, batches - 1, NOW_S))
    assert len(entries.made_s) == kept


def test_more_can_be_kept_where_more_is_needed() -> None:
    entries = Entries({number: NOW_S - (4_999 - number) for number in range(5_000)})
    assert oldest_kept(entries, 4_999, NOW_S, 3_000) == 1_999


@dataclass
class Bound(Entries):
    """Bindings by batch, with the version of the plan of each."""

    version: dict[int, int | None] = field(default_factory=dict)

    def get(self, batch: int) -> Binding | None:
        return Binding(batch, "query", NOW_S, self.version[batch])

    def oldest(self) -> Binding | None:
        return self.get(min(self.version)) if self.version else None

    def versions(self) -> list[int]:
        return sorted(self.version)


def plans_left(many: int, bound: list[int | None]) -> int:
    """The oldest plan that stays, of so many."""
    plans = Entries(dict.fromkeys(range(many), NOW_S))
    purge_plans(plans, Bound(version=dict(enumerate(bound))))
    return min(plans.made_s)


def test_plans_stay_that_a_binding_needs_and_the_newest() -> None:
    assert plans_left(30, [7, 9]) == 7
    assert plans_left(30, [29]) == 30 - NEWEST_PLANS, "a batch may be about to be bound to one of these"
    assert plans_left(30, []) == 0
    assert plans_left(30, [None, 9]) == 0, "there are not so many that it matters"
    assert plans_left(BATCHES + 30, [None, 9, 12]) == 9
    assert plans_left(BATCHES + 30, [None, None]) == BATCHES + 30 - NEWEST_PLANS
    assert retention.PURGE_EVERY < BATCHES
