"""How much of the past is kept."""

import pytest

from penstock.messages.plan import Binding, Plan
from penstock.store import retention
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.memory import MemoryStore
from penstock.store.retention import AGE_S, BATCHES, LEAST_BATCHES, NEWEST_PLANS, oldest_kept, purge_plans

NOW_S = 1e9


def bound(made_s: list[float], versions: list[int | None] | None = None) -> BindingLog:
    """Bindings of batches from 0 on: when each was made, and to which plan."""
    log = BindingLog(MemoryStore())
    for batch, (time_s, version) in enumerate(zip(made_s, versions or [None] * len(made_s), strict=True)):
        log.add(batch, Binding(batch, "query", time_s, version))
    return log


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
    entries = bound([NOW_S - every_s * (batches - 1 - number) for number in range(batches)])
    entries.purge(oldest_kept(entries, batches - 1, NOW_S))
    assert len(entries.versions()) == kept


def test_more_can_be_kept_where_more_is_needed() -> None:
    entries = bound([NOW_S - (4_999 - number) for number in range(5_000)])
    assert oldest_kept(entries, 4_999, NOW_S, 3_000) == 1_999


def plans_left(many: int, versions: list[int | None]) -> int:
    """The oldest plan that stays, of so many."""
    plans = PlanLog(MemoryStore())
    for version in range(many):
        plans.add(version, Plan.keep_all(version, "test", NOW_S))
    purge_plans(plans, bound([NOW_S] * len(versions), versions))
    return plans.versions()[0]


def test_plans_stay_that_a_binding_needs_and_the_newest() -> None:
    assert plans_left(30, [7, 9]) == 7
    assert plans_left(30, [29]) == 30 - NEWEST_PLANS, "a batch may be about to be bound to one of these"
    assert plans_left(30, []) == 0
    assert plans_left(30, [None, 9]) == 0, "there are not so many that it matters"
    assert plans_left(BATCHES + 30, [None, 9, 12]) == 9
    assert plans_left(BATCHES + 30, [None, None]) == BATCHES + 30 - NEWEST_PLANS
    assert retention.PURGE_EVERY < BATCHES
