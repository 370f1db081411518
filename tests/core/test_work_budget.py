"""The work that fits, in a loop with the batches that follow from it."""

import pytest

from penstock.core.fairness.work_budget import LEAST_SHARE, WorkBudget

TARGET_S, CAPACITY, COMES = 2.0, 2.0, 4.0


def lengths_s(
    overhead_s: float, first_s: float, batches: int, *, over: float = 1.0, pace_per_s: float = CAPACITY
) -> tuple[list[float], WorkBudget]:
    """Batches that take in what came during the one before; plans act on the batch after the next.

    Plans let through so many times what they were given.
    """
    budget, now_s, length_s, kept_per_s, due = WorkBudget(TARGET_S), 0.0, first_s, COMES, COMES
    found = [length_s]
    for _ in range(batches):
        came_s, length_s = length_s, overhead_s + length_s * kept_per_s / CAPACITY
        now_s += length_s
        done_per_s = came_s * kept_per_s / length_s
        wait_s = (came_s + length_s) / 2.0
        budget.follow(
            now_s,
            wait_s=wait_s,
            cycle_s=max(came_s, length_s),
            done_per_s=min(done_per_s, CAPACITY),
            comes_per_s=COMES,
            pace_per_s=pace_per_s,
        )
        kept_per_s, due = due, COMES if budget.now_per_s is None else min(over * budget.now_per_s, COMES)
        found.append(length_s)
    return found, budget


@pytest.mark.parametrize("overhead_s", [0.1, 0.3, 0.5])
def test_a_long_queue_before_the_first_plan_is_worked_off_in_a_few_batches(overhead_s: float) -> None:
    found, _ = lengths_s(overhead_s, 2.0, 60)
    longest = found.index(max(found))
    assert max(found) > 2.0 * TARGET_S
    assert min(found[longest : longest + 4]) <= TARGET_S
    assert max(found[-20:]) <= 1.5 * TARGET_S


def test_where_overhead_makes_batches_long_half_of_the_capacity_is_given() -> None:
    found, budget = lengths_s(3.0, 3.0, 60)
    assert budget.now_per_s == pytest.approx(LEAST_SHARE * CAPACITY)
    assert found[-1] == pytest.approx(6.0, rel=0.1)


@pytest.mark.parametrize("pace_per_s", [CAPACITY, 0.0])
@pytest.mark.parametrize("over", [1.0, 1.2, 1.4])
def test_plans_that_let_through_more_than_they_were_given_hold_the_target_too(over: float, pace_per_s: float) -> None:
    found, _ = lengths_s(0.3, 2.0, 200, over=over, pace_per_s=pace_per_s)
    assert sum(found[-60:]) / 60 <= TARGET_S
