import numpy as np
import pytest

from penstock.core.hashing import unit_interval, xxhash64
from penstock.core.row.baselines import BaseLineShedder, SilentOperator, full_knowledge, straw_man
from penstock.core.row.latency_goals import Maximum, RunningAverage
from penstock.core.row.machines import Arrived, Drop, Executed, Forward
from penstock.errors import PenstockError


def kept_rows(shedder: BaseLineShedder, rows: range) -> list[int]:
    return [row for row in rows if isinstance(shedder.judge(Arrived(now_s=0.0, key=0, row=row)), Forward)]


def test_base_line_drops_the_share_it_is_told() -> None:
    rows = 40_000
    kept = kept_rows(BaseLineShedder(drop_share=0.25, seed=3), range(rows))
    # Five standard deviations of a binomial count.
    assert abs(len(kept) - 0.75 * rows) < 5 * np.sqrt(rows * 0.25 * 0.75)


def test_base_line_tosses_the_coin_of_the_row_and_not_of_the_moment() -> None:
    shedder = BaseLineShedder(drop_share=0.4, seed=9)
    expected = [row for row in range(500) if unit_interval(xxhash64(row, 9)) >= 0.4]
    assert kept_rows(shedder, range(500)) == expected
    assert kept_rows(shedder, range(500)) == expected
    assert kept_rows(BaseLineShedder(drop_share=0.4, seed=10), range(500)) != expected


def test_base_line_drops_nested_sets() -> None:
    kept = [set(kept_rows(BaseLineShedder(drop_share=share, seed=1), range(2000))) for share in (0.0, 0.2, 0.7, 1.0)]
    assert kept[0] == set(range(2000))
    assert kept[0] > kept[1] > kept[2] > kept[3] == set()


def test_base_line_weights_a_kept_row_by_the_inverse_of_its_chance() -> None:
    shedder = BaseLineShedder(drop_share=0.75, seed=1)
    verdicts = [shedder.judge(Arrived(now_s=0.0, key=0, row=row, weight=2.0)) for row in range(100)]
    assert {verdict.weight for verdict in verdicts if isinstance(verdict, Forward)} == {8.0}
    assert {verdict.reason for verdict in verdicts if isinstance(verdict, Drop)} == {"random share"}


def test_base_line_never_drops_a_must_keep_row() -> None:
    shedder = BaseLineShedder(drop_share=1.0)
    assert shedder.judge(Arrived(now_s=0.0, key=0, weight=3.0, must_keep=True)) == Forward(3.0)
    assert isinstance(shedder.judge(Arrived(now_s=0.0, key=0)), Drop)


@pytest.mark.parametrize("drop_share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(drop_share: float) -> None:
    with pytest.raises(PenstockError, match=r"^drop_share = .* is not usable: give a number from 0 to 1$"):
        BaseLineShedder(drop_share=drop_share)


def test_calm_rows_pass_before_any_baseline_drops() -> None:
    base_line = BaseLineShedder(drop_share=1.0, calm_rows=3)
    assert kept_rows(base_line, range(6)) == [0, 1, 2]
    oracle = full_knowledge(Maximum(1.0), calm_rows=2)
    verdicts = [oracle.judge(Arrived(now_s=0.0, key=0, cost_s=5.0)) for _ in range(4)]
    assert [type(verdict) for verdict in verdicts] == [Forward, Forward, Drop, Drop]


def test_work_of_calm_rows_counts_but_their_waits_do_not() -> None:
    oracle = full_knowledge(RunningAverage(1.0), calm_rows=2)
    for _ in range(2):
        oracle.judge(Arrived(now_s=0.0, key=0, cost_s=5.0))
    # Free at t = 10. A first row in the average may wait 1 s, whatever the calm rows waited.
    assert isinstance(oracle.judge(Arrived(now_s=8.9, key=0, cost_s=5.0)), Drop)
    assert isinstance(oracle.judge(Arrived(now_s=9.0, key=0, cost_s=5.0)), Forward)


def test_straw_man_takes_every_row_to_cost_the_mean() -> None:
    shedder = straw_man(Maximum(1.0), mean_cost_s=0.6)
    verdicts = [shedder.judge(Arrived(now_s=0.0, key=0, cost_s=cost_s)) for cost_s in (100.0, 0.0, 0.0)]
    assert [type(verdict) for verdict in verdicts] == [Forward, Forward, Drop]


def test_full_knowledge_takes_the_true_cost_of_each_row() -> None:
    shedder = full_knowledge(Maximum(1.0))
    verdicts = [shedder.judge(Arrived(now_s=0.0, key=0, cost_s=cost_s)) for cost_s in (0.0, 1.0, 0.1, 0.1)]
    assert [type(verdict) for verdict in verdicts] == [Forward, Forward, Forward, Drop]


def test_full_knowledge_with_epsilon_raises_costs_as_las_does() -> None:
    drops = []
    for epsilon in (0.0, 0.5):
        shedder = full_knowledge(Maximum(1.0), epsilon=epsilon)
        shedder.judge(Arrived(now_s=0.0, key=0, cost_s=1.0))
        drops.append(isinstance(shedder.judge(Arrived(now_s=0.0, key=0, cost_s=1.0)), Drop))
    assert drops == [False, True]


def test_an_idle_operator_is_free_now_and_not_earlier() -> None:
    shedder = full_knowledge(Maximum(1.0))
    shedder.judge(Arrived(now_s=0.0, key=0, cost_s=2.0))
    assert isinstance(shedder.judge(Arrived(now_s=100.0, key=0, cost_s=2.0)), Forward)
    assert isinstance(shedder.judge(Arrived(now_s=100.5, key=0, cost_s=2.0)), Drop)


def test_dropped_rows_are_stood_for_by_the_next_row_of_about_the_same_cost() -> None:
    shedder = full_knowledge(Maximum(1.0))
    shedder.judge(Arrived(now_s=0.0, key=0, cost_s=2.0))
    for _ in range(3):
        shedder.judge(Arrived(now_s=0.0, key=0, cost_s=2.0))
    assert shedder.carried_weight == 3.0
    assert shedder.judge(Arrived(now_s=1.5, key=0, cost_s=2.0, must_keep=True)) == Forward(1.0)
    assert shedder.judge(Arrived(now_s=4.0, key=0, cost_s=0.001)) == Forward(1.0)
    assert shedder.judge(Arrived(now_s=4.0, key=0, cost_s=2.0)) == Forward(4.0)
    assert shedder.carried_weight == 0.0


def test_full_knowledge_without_costs_says_what_is_missing() -> None:
    with pytest.raises(PenstockError, match=r"^Full Knowledge needs the true cost of every row: give Arrived.cost_s$"):
        full_knowledge(Maximum(1.0)).judge(Arrived(now_s=0.0, key=0))


@pytest.mark.parametrize("mean_cost_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_mean_cost_that_is_none_is_refused(mean_cost_s: float) -> None:
    with pytest.raises(
        PenstockError, match=r"^mean_cost_s = .* is not usable: give seconds above 0, or text like '200 ms' or '2 s'$"
    ):
        straw_man(Maximum(1.0), mean_cost_s)


def test_a_negative_epsilon_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"^epsilon = -1 is not usable: give a number from 0 up$"):
        full_knowledge(Maximum(1.0), epsilon=-1)


def test_baselines_need_no_feedback() -> None:
    operator = SilentOperator()
    assert operator.executed(Executed(0, 0.0, 0.0, 1.0, 1.0)) == []
    assert operator.memory_bytes == 0
    shedder = full_knowledge(Maximum(1.0))
    shedder.receive("anything")
    assert isinstance(shedder.judge(Arrived(now_s=0.0, key=0, cost_s=1.0)), Forward)
