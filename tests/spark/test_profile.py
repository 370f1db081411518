from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.rate_profile import RateProfile
from penstock.errors import PenstockError

LENGTHS = st.one_of(st.floats(1e-3, 100.0), st.integers(1, 60).map(float))
RATES = st.one_of(st.just(0.0), st.floats(0.05, 300.0), st.integers(1, 300).map(float))
PROFILES = st.builds(
    lambda phases, repeat: RateProfile(*zip(*phases, strict=True), repeat=repeat),
    st.lists(st.tuples(LENGTHS, RATES), min_size=1, max_size=5).filter(lambda phases: any(rate for _, rate in phases)),
    st.booleans(),
)


@given(PROFILES, st.one_of(st.floats(0.0, 300.0), st.integers(0, 300).map(float)))
def test_rows_by_counts_the_rows_that_have_arrived(profile: RateProfile, elapsed_s: float) -> None:
    arrived = profile.rows_by(elapsed_s)
    times = profile.arrival_s(np.arange(arrived + 200))

    assert arrived == np.count_nonzero(times <= elapsed_s)
    assert not np.isnan(times).any()
    assert times[0] > 0.0
    assert (times[1:] >= times[:-1]).all()


@given(PROFILES, st.integers(0, 10**12))
def test_a_row_is_there_when_it_arrives_and_not_before(profile: RateProfile, row: int) -> None:
    arrival_s = float(profile.arrival_s(np.array([row]))[0])
    if arrival_s == np.inf:
        assert not profile.repeat
        assert profile.rows_by(1e12) <= row
    else:
        assert profile.rows_by(arrival_s) > row
        assert profile.rows_by(np.nextafter(arrival_s, 0.0)) <= row


@given(PROFILES, st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_rows_never_leave_again(profile: RateProfile, one_s: float, other_s: float) -> None:
    assert profile.rows_by(min(one_s, other_s)) <= profile.rows_by(max(one_s, other_s))


@given(PROFILES, st.floats(1e-3, 1e5))
def test_the_count_is_the_area_under_the_rates(profile: RateProfile, elapsed_s: float) -> None:
    lengths, rates = list(profile.lengths_s), list(profile.rows_per_s)
    area, left_s = 0.0, elapsed_s
    if profile.repeat:
        rounds = left_s // sum(lengths)
        area, left_s = rounds * sum(np.multiply(lengths, rates)), left_s - rounds * sum(lengths)
    else:
        lengths[-1] = np.inf
    for length, rate in zip(lengths, rates, strict=True):
        spent_s = min(max(left_s, 0.0), length)
        area += spent_s * rate
        left_s -= spent_s

    assert profile.rows_by(elapsed_s) == pytest.approx(area, abs=1.001)


def test_nothing_has_arrived_before_the_start() -> None:
    profile = RateProfile.constant(1000)

    assert [profile.rows_by(at) for at in (-1.0, 0.0, 0.0009, 0.001)] == [0, 0, 0, 1]


def test_repeated_phases_begin_anew_and_others_go_on() -> None:
    text = "1 s: 10, 500 ms: 0, 1: 20"

    assert [RateProfile.phases(text, repeat=True).rows_by(at) for at in (1, 1.5, 2.5, 3.5, 5)] == [10, 10, 30, 40, 60]
    assert [RateProfile.phases(text).rows_by(at) for at in (1, 1.5, 2.5, 3.5, 5)] == [10, 10, 30, 50, 80]


def test_a_profile_may_run_dry() -> None:
    profile = RateProfile.phases("1 s: 10, 1 s: 0")

    assert profile.rows_by(1e9) == 10
    assert profile.arrival_s(np.array([9, 10])).tolist() == [1.0, np.inf]


def test_a_burst_ends_every_period() -> None:
    profile = RateProfile.bursts(10, burst_rate=100, burst_every="10 s", burst_for=2)

    assert [profile.rows_by(at) for at in (8, 9, 10, 18, 20)] == [80, 180, 280, 360, 560]


def test_high_rates_far_from_the_start_are_counted() -> None:
    assert RateProfile.constant(1e9).rows_by(1.7e9) == pytest.approx(1.7e18, rel=1e-12)


PHASES = "give lengths and rows per second (up to 1e+09), such as '20 s: 500, 60 s: 1000'"
CSV = "give a CSV with the header seconds,rows_per_s and lines of a length and a rate (up to 1e+09), such as 20,500"


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: RateProfile.constant("fast"), "rate = 'fast' is not usable: give a number from 0 to 1e+09"),
        (lambda: RateProfile.constant(-1), "rate = -1 is not usable: give a number from 0 to 1e+09"),
        (lambda: RateProfile.constant(0), "every rate of the profile is 0: give at least one above 0"),
        (
            lambda: RateProfile.bursts(1, burst_rate=2, burst_every="1 s", burst_for="2 s"),
            "burst_for = '2 s' is not usable: give a time shorter than burst_every, 1 s",
        ),
        (
            lambda: RateProfile.bursts(1, burst_rate=2, burst_every=2e9, burst_for="2 s"),
            "burst_every = 2000000000.0 is not usable: give at most 1e+09 s",
        ),
        (
            lambda: RateProfile.phases("20 s: 500, soon: 3"),
            f"phases = '20 s: 500, soon: 3' is not usable: {PHASES}; mend 'soon: 3'",
        ),
        (lambda: RateProfile.phases(""), f"phases = '' is not usable: {PHASES}; mend ''"),
        (
            lambda: RateProfile.phases("1 us: 0.01", repeat=True),
            "repeat = True is not usable: give a profile that brings rows in every round",
        ),
        (lambda: RateProfile.csv("20,500\n"), f"csv = '20,500' is not usable: {CSV}; the header is missing"),
        (
            lambda: RateProfile.csv("seconds,rows_per_s\n20,500\n\n20\n"),
            f"csv = '20' is not usable: {CSV}; mend line 4",
        ),
        (
            lambda: RateProfile.csv("seconds,rows_per_s\n"),
            f"csv = 'seconds,rows_per_s' is not usable: {CSV}; only the header is there",
        ),
        (
            lambda: RateProfile((1.0,), ()),
            "1 lengths and 0 rates make no profile: give one rate for each length, and at least one",
        ),
    ],
)
def test_a_wrong_profile_is_refused_in_one_line(make: Callable[[], RateProfile], line: str) -> None:
    with pytest.raises(PenstockError) as refused:
        make()

    assert str(refused.value) == line


def test_a_csv_may_have_a_byte_order_mark_spaces_and_windows_lines() -> None:
    assert RateProfile.csv("\ufeffseconds, rows_per_s\r\n 1.5, 20\r\n2,0.5\r\n") == RateProfile((1.5, 2.0), (20.0, 0.5))
