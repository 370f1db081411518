"""A reproduced figure as JSON, CSV and a page."""

import csv
import io
import json
import math
from dataclasses import replace
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim.figure import Claim, Figure, spread, to_json, to_markdown

NAN = math.nan
MACHINE = {"cores": 2}
FIGURE = Figure(
    "las",
    "4",
    {"runs": 1, "cost_ms": (0.1, 6.4)},
    [
        {"under_provisioning": 0.25, "latency_ms": {"mean": 2.0, "min": NAN}, "whole": {"drops": {"mean": 0.5}}},
        {"under_provisioning": 0.5, "latency_ms": {"mean": math.inf, "min": 1.0}, "extra": "a, b"},
    ],
    [Claim("stays close", "quite close", "1.1 times", holds=True), Claim("recovers", "quickly", "not", holds=False)],
)


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def strict(text: str) -> object:
    return json.loads(text, parse_constant=no_constant)


def test_one_figure_is_one_object_of_the_agreed_shape() -> None:
    assert strict(to_json([FIGURE], MACHINE)) == {
        "paper": "las",
        "figure": "4",
        "parameters": {"runs": 1, "cost_ms": [0.1, 6.4]},
        "rows": [
            {"under_provisioning": 0.25, "latency_ms": {"mean": 2.0, "min": None}, "whole": {"drops": {"mean": 0.5}}},
            {"under_provisioning": 0.5, "latency_ms": {"mean": None, "min": 1.0}, "extra": "a, b"},
        ],
        "claims": [
            {"claim": "stays close", "paper": "quite close", "measured": "1.1 times", "holds": True},
            {"claim": "recovers", "paper": "quickly", "measured": "not", "holds": False},
        ],
        "machine": MACHINE,
    }


def test_several_figures_are_a_list_of_such_objects() -> None:
    one = strict(to_json([FIGURE], MACHINE))
    assert strict(to_json([FIGURE, FIGURE], MACHINE)) == [one, one]


def test_csv_has_a_column_for_every_nested_value_and_leaves_unknown_ones_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(FIGURE.to_csv(), newline="")))
    assert rows == [
        {
            "under_provisioning": "0.25",
            "latency_ms_mean": "2.0",
            "latency_ms_min": "",
            "whole_drops_mean": "0.5",
            "extra": "",
        },
        {
            "under_provisioning": "0.5",
            "latency_ms_mean": "",
            "latency_ms_min": "1.0",
            "whole_drops_mean": "",
            "extra": "a, b",
        },
    ]


def test_files_are_named_after_paper_and_figure() -> None:
    assert FIGURE.name == "las-4"


def test_the_page_tells_claims_that_do_not_hold_as_plainly_as_those_that_do() -> None:
    few = [{"variant": "las", "latency_ms": {"mean": 6.4, "min": 5.0, "max": 8.0}, "memory_bytes": 8904}]
    page = to_markdown("LAS", [replace(FIGURE, rows=few)], "penstock reproduce las", "a machine")
    assert "| stays close | quite close | 1.1 times | yes |" in page
    assert "| recovers | quickly | not | **no** |" in page
    assert "| las | 6.4 (5 to 8) | 8904 |" in page
    assert "![Figure 4](las-4.png)" in page
    assert "`penstock reproduce las` on a machine" in page


def test_the_page_leaves_long_tables_to_the_csv() -> None:
    page = to_markdown("LAS", [replace(FIGURE, rows=[{"window": number} for number in range(175)])], "", "")
    assert "window" not in page


@given(st.lists(st.floats(-1e9, 1e9) | st.just(NAN)))
def test_a_spread_leaves_out_what_is_not_a_number(values: list[float]) -> None:
    numbers = [value for value in values if not math.isnan(value)]
    result = spread(values)
    if numbers:
        assert result["min"] == min(numbers)
        assert result["max"] == max(numbers)
        assert result["mean"] == pytest.approx(sum(numbers) / len(numbers), rel=1e-6, abs=1e-3)
    else:
        assert all(math.isnan(value) for value in result.values())
