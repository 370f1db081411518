"""Intervals of 95 percent hold the true value in 93 to 97 percent of groups, and the documentation says where."""

from pathlib import Path
from typing import Any

import pytest

from penstock.sim.coverage import CASES, LEAST, MOST, bench_coverage

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"
TRIALS = 6000


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["question"], row["case"]): row for row in bench_coverage(TRIALS, seed=7)["rows"]}


def test_intervals_hold_what_they_promise(found: dict[tuple[str, str], dict[str, Any]]) -> None:
    # So many groups scatter by 0.3 points themselves.
    wrong = {
        where: row["coverage"]
        for where, row in found.items()
        if row["promised"] and not LEAST <= row["coverage"] <= MOST
    }
    assert not wrong
    assert all(row["effective_rows"] >= 30.0 for row in found.values() if row["promised"])
    assert sum(row["promised"] for row in found.values()) >= 60


def test_the_page_shows_what_the_command_prints(found: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Another seed and fewer groups, so within one and a half points."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head = next(line for line in lines if line[1:] == [case.name for case in CASES])
    shown = {line[0]: line[1:] for line in lines[lines.index(head) + 2 :] if len(line) == len(head)}
    assert set(shown) == {question for question, _ in found} | {"effective rows"}
    for (question, case), row in found.items():
        cell = shown[question][[one.name for one in CASES].index(case)]
        assert float(cell.strip("()")) == pytest.approx(100.0 * row["coverage"], abs=1.5), (question, case)
        assert cell.startswith("(") != row["promised"]
