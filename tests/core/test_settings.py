import math

import numpy as np
import pytest

from penstock.core.control.targets import MeanQueueLatency
from penstock.core.settings import duration_s, number, whole_number
from penstock.errors import PenstockError


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("2 s", 2.0),
        ("200ms", 0.2),
        ("1.5 min", 90.0),
        (" 1 h ", 3600.0),
        ("250 us", 0.00025),
        ("2 seconds", 2.0),
        ("1 second", 1.0),
        ("500 milliseconds", 0.5),
        ("1 minute", 60.0),
        ("interval 2 seconds", 2.0),
        ("INTERVAL 1 Minute 30 Seconds", 90.0),
        ("2 days", 172_800.0),
        (3, 3.0),
        (np.float32(0.5), 0.5),
    ],
)
def test_a_length_of_time_is_read_as_people_write_it(given: object, seconds: float) -> None:
    assert MeanQueueLatency(given).limit_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "given",
    [
        0,
        -1.0,
        math.nan,
        math.inf,
        10**400,
        True,
        None,
        "soon",
        "2",
        "-2 s",
        "0 s",
        "2 parsecs",
        "2 months",
        "seconds",
        "2 ss",
        "2 seconds ago",
        [2.0],
    ],
)
def test_what_is_no_length_of_time_is_refused_in_one_line(given: object) -> None:
    with pytest.raises(PenstockError, match=r"^limit = .* is not usable: give seconds above 0, .*$"):
        MeanQueueLatency(given)
    with pytest.raises(PenstockError):
        duration_s("limit", given)


@pytest.mark.parametrize("given", [0, 1.5, True, "9", None, math.nan])
def test_what_is_no_whole_number_is_refused(given: object) -> None:
    with pytest.raises(PenstockError, match=r"^rows = .* is not usable: give a whole number from 1 up$"):
        whole_number("rows", given, 1)


@pytest.mark.parametrize("given", [-0.1, 1.1, True, "25%", math.nan, math.inf, 10**400])
def test_what_is_no_share_is_refused(given: object) -> None:
    with pytest.raises(PenstockError, match=r"^share = .* is not usable: give a number from 0 to 1$"):
        number("share", given, 0.0, 1.0)
