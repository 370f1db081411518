import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.fairness.sic import OperatorWindow, SourceRates, SourceTimeWindow, derived_sic, query_sic, source_sic
from penstock.errors import PenstockError


def figure_2(b_keeps: int, c_keeps: int, c_passes_on: int) -> float:
    """Figure 2: operator b puts out 2 for 4 source tuples, c 2 for 2, and a 2 results for what both pass on."""
    at_b, at_c = source_sic(4, sources=2), source_sic(2, sources=2)
    from_b = [derived_sic([at_b] * b_keeps, outputs=2)] * 2
    from_c = [derived_sic([at_c] * c_keeps, outputs=2)] * c_passes_on
    return query_sic([derived_sic(from_b + from_c, outputs=2)] * 2)


def test_figure_2() -> None:
    assert figure_2(b_keeps=4, c_keeps=2, c_passes_on=2) == 1.0
    # Two of b's inputs are shed, and one of c's, or else one of c's outputs: the text says both.
    assert figure_2(b_keeps=2, c_keeps=1, c_passes_on=2) == 0.5
    assert figure_2(b_keeps=2, c_keeps=2, c_passes_on=1) == 0.5


@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(1, 9)), max_size=40), st.floats(30.0, 45.0))
def test_a_window_counts_what_it_spans_up_to_one_slide(amounts: list[tuple[float, int]], now_s: float) -> None:
    window = SourceTimeWindow(stw_s=10.0, slide_s=0.5)
    for at_s, amount in amounts:
        window.add(at_s, amount)

    total = window.total(now_s)

    surely = sum(amount for at_s, amount in amounts if now_s - 9.5 < at_s)
    at_most = sum(amount for at_s, amount in amounts if now_s - 10.5 < at_s)
    assert surely - 1e-9 <= total <= at_most + 1e-9


def test_sources_of_unknown_rate_lose_nothing_from_the_first_second_on() -> None:
    rates = SourceRates(sources=3, stw_s=10.0, slide_s=0.25, start_s=0.0)
    per_s = {"a": 4, "b": 20, "c": 400}
    results = SourceTimeWindow(stw_s=10.0, slide_s=0.25, start_s=0.0)
    for tick in range(1, 81):
        now_s = tick / 4
        for source, rate in per_s.items():
            rates.add(source, now_s, rate / 4)
            results.add(now_s, rates.sic(source, now_s) * rate / 4)
        assert results.scaled(now_s) == pytest.approx(1.0)
    assert rates.sic("silent", 20.0) == 0.0


def test_a_source_that_changes_its_rate_is_worth_as_much_a_window_later() -> None:
    rates = SourceRates(sources=1, stw_s=10.0, slide_s=0.5)
    for second in range(1, 41):
        rates.add("s", second, 10 if second <= 20 else 50)

    assert rates.sic("s", 40.0) == pytest.approx(1 / 500)


@given(st.lists(st.tuples(st.floats(0.01, 20.0), st.floats(0.0, 0.1)), max_size=30), st.integers(1, 6))
def test_sliding_windows_pass_on_what_came_in_once(inputs: list[tuple[float, float]], overlap: int) -> None:
    window = OperatorWindow(range_s=3.0, slide_s=3.0 / overlap)
    for at_s, sic in inputs:
        window.add(at_s, sic)

    assert sum(sic for _, sic in window.close(100.0)) == pytest.approx(sum(sic for _, sic in inputs))
    assert window.close(100.0) == []


def test_a_window_with_gaps_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"slide_s = 2.0 is not usable: give seconds up to range_s, 1"):
        OperatorWindow(range_s=1.0, slide_s=2.0)
