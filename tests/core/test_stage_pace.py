import pytest

from penstock.core.network.stage_pace import LINE_BATCHES, StagePace


def paced(overhead_s: float, pace: float, works: list[float], *, empty_s: float | None, trigger_s: float) -> StagePace:
    stage = StagePace(trigger_s)
    if empty_s is not None:
        stage.calibrate(empty_s)
    for work_s in works:
        stage.learn(work_s, overhead_s + work_s / pace)
    return stage


def test_batches_of_different_size_tell_overhead_and_pace_apart() -> None:
    stage = paced(0.8, 1.5, [3.0, 1.0, 2.0, 1.5], empty_s=0.2, trigger_s=4.0)
    assert stage.overhead_s == pytest.approx(0.8)
    assert stage.capacity == pytest.approx(1.5 * (1.0 - 0.8 / 4.0))


def test_batches_of_one_size_are_taken_to_have_the_overhead_of_a_batch_without_rows() -> None:
    stage = paced(0.8, 1.5, [3.0] * 5, empty_s=0.5, trigger_s=4.0)
    assert stage.overhead_s == pytest.approx(0.5)
    # The forecast for that size is right all the same.
    assert stage.overhead_s + 3.0 / (stage.capacity / (1.0 - stage.overhead_s / 4.0)) == pytest.approx(0.8 + 3.0 / 1.5)


def test_a_stall_does_not_bend_the_line() -> None:
    stage = paced(0.8, 1.5, [3.0, 1.0, 2.0, 1.5, 1.0, 2.5, 3.0], empty_s=0.2, trigger_s=4.0)
    before = stage.capacity
    stage.learn(1.0, 9.0)
    assert stage.capacity == pytest.approx(before, rel=0.15)


def test_a_slower_machine_shows_within_a_few_batches() -> None:
    stage = paced(0.4, 2.0, [3.0, 1.0, 2.0] * 3, empty_s=0.4, trigger_s=4.0)
    before = stage.capacity
    for work_s in (2.0, 1.0, 3.0):
        stage.learn(work_s, 2.0 * (0.4 + work_s / 2.0))
    assert stage.capacity < 0.6 * before


def test_overhead_beyond_the_trigger_makes_batches_longer_and_does_not_shed_everything() -> None:
    works = [2.0, 1.0]
    stage = StagePace(1.0)
    stage.calibrate(0.3)
    rate_s = 1.0  # work that comes a second
    for _ in range(40):
        period_s = max(1.0, 1.2 + works[-1] / 2.0)
        stage.learn(works[-1], 1.2 + works[-1] / 2.0)
        works.append(min(rate_s, 0.9 * stage.capacity) * period_s)
    assert stage.period_s == pytest.approx(2.4, rel=0.1)
    assert works[-1] > 0.5 * rate_s * period_s


def test_old_batches_are_forgotten() -> None:
    stage = paced(0.4, 2.0, [3.0, 1.0], empty_s=0.4, trigger_s=4.0)
    for number in range(LINE_BATCHES):
        work_s = 1.0 + number % 3
        stage.learn(work_s, 1.0 + work_s)
    assert stage.overhead_s == pytest.approx(1.0)


def test_nothing_known_is_the_guess() -> None:
    assert StagePace(2.0, guess=3.0).capacity == pytest.approx(3.0)
    without = paced(1.0, 2.0, [2.0], empty_s=None, trigger_s=4.0)
    assert without.overhead_s == pytest.approx(1.0)  # half of the only batch
