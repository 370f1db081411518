import pytest

from penstock.core.fairness.overload import OverloadDetector, TupleCost
from penstock.errors import PenstockError


def test_the_average_follows_a_change_and_smooths_a_spike() -> None:
    cost = TupleCost(alpha=0.2)
    for _ in range(20):
        cost.learn(tuples=1000, busy_s=0.1)
    cost.learn(tuples=10, busy_s=0.1)
    spiked = cost.mean_s
    for _ in range(40):
        cost.learn(tuples=1000, busy_s=0.4)

    assert spiked == pytest.approx(1e-4 + 0.2 * (1e-2 - 1e-4))
    assert cost.mean_s == pytest.approx(4e-4, rel=0.01)


def test_an_idle_call_teaches_nothing() -> None:
    cost = TupleCost()
    cost.learn(tuples=0, busy_s=0.1)
    assert cost.mean_s is None

    cost.learn(tuples=10, busy_s=0.1)
    cost.learn(tuples=10, busy_s=0.0)
    assert cost.mean_s == 0.01


def test_a_slower_node_has_a_lower_threshold() -> None:
    fast, slow = OverloadDetector(interval_s=0.25), OverloadDetector(interval_s=0.25)
    fast.learn(tuples=1000, busy_s=0.1)
    slow.learn(tuples=1000, busy_s=0.2)

    assert (fast.threshold, slow.threshold) == (2500, 1250)
    assert (fast.excess(2000), slow.excess(2000)) == (0, 750)


def test_a_slow_first_call_does_not_shut_a_node_for_ever() -> None:
    detector = OverloadDetector(interval_s=0.25)
    detector.learn(tuples=2, busy_s=30.0)
    for _ in range(60):
        kept = min(1000, detector.threshold or 1000)
        detector.learn(tuples=kept, busy_s=kept * 1e-3)

    assert detector.threshold == pytest.approx(250, rel=0.05)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(PenstockError, match="alpha = 0 is not usable"):
        TupleCost(alpha=0)
    with pytest.raises(PenstockError, match="interval_s = 0 is not usable"):
        OverloadDetector(interval_s=0)
