from hypothesis import given
from hypothesis import strategies as st

from penstock.core.fairness.sic import SourceTimeWindow


@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(1, 9)), max_size=40), st.floats(30.0, 45.0))
def test_a_window_counts_what_it_spans_up_to_one_slide(amounts: list[tuple[float, int]], now_s: float) -> None:
    window = SourceTimeWindow(stw_s=10.0, slide_s=0.5)
    for at_s, amount in amounts:
        window.add(at_s, amount)

    total = window.total(now_s)

    surely = sum(amount for at_s, amount in amounts if now_s - 9.5 < at_s)
    at_most = sum(amount for at_s, amount in amounts if now_s - 10.5 < at_s)
    assert surely - 1e-9 <= total <= at_most + 1e-9
