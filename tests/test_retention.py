"""How much of the past is kept."""

from dataclasses import dataclass, field

import pytest

from penstock.messages.plan import Binding
from penstock.store import retention
from penstock.store.retention import AGE_S, BATCHES, LEAST_BATCHES, SKEW_S, oldest_kept, purge_plans

NOW_S = 1e9


@dataclass
class Entries:
    """Entries by number, with the time each was made."""

    made_s: dict[int, float] = field(default_factory=dict)

    def made_before(self, time_s: float) -> int | None:
        return max((number for number, made_s in self.made_s.items() if made_s < time_s), default=None)

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


@pytest.mark.parametrize(("version", "kept"), [(7, 7), (None, 9), (20, 9)])
def test_the_plan_in_force_when_the_oldest_batch_was_bound_is_kept(version: int | None, kept: int) -> None:
    plans = Entries({number: NOW_S + 100.0 * number for number in range(30)})
    bound_s = NOW_S + 950.0 + SKEW_S  # plan 9 was in force
    purge_plans(plans, Binding(3, "query", bound_s, version))
    assert min(plans.made_s) == kept


def test_without_a_binding_no_plan_is_deleted() -> None:
    plans = Entries({0: 0.0, 1: 1.0})
    purge_plans(plans, None)
    assert len(plans.made_s) == 2
    assert retention.PURGE_EVERY < BATCHES
