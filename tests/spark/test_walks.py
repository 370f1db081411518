"""The walks on the page about the architecture are those of real calls, and short.

A program runs a guard, a Fair, a site and a network; a recorder notes in its process and in Spark's workers which file
hands what to another file. A file is on a walk if it returns one of the things that the walk follows to another file,
or gives one as an argument to a file that is on the walk.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engines import quick_start

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PROGRAM = Path(__file__).with_name("walked.py")
ROWS = {"DataFrame", "Column", "RecordBatch"}
FEEDBACK = {"News", "Progress", "Report", "Plan", "Write", "Binding", "PlanTableReader"}
#: Each walk on the page: the run that shows it, and the kinds of things that are followed.
WALKS = {
    "A row": ("guard", ROWS),
    "Feedback": ("guard", FEEDBACK),
    "`penstock run`": ("run", ROWS | FEEDBACK | {"NetworkFile", "Snapshot", "Decision"}),
    "Fair": ("fair", ROWS | FEEDBACK),
    "Site": ("site", ROWS | FEEDBACK | {"SiteFile", "BatchAccount", "Known"}),
}
MOST = {"A row": 10, "Feedback": 12, "`penstock run`": 18}
#: By count: a fair query or a site passes parts of its own instead of some of the guard's.
MORE_THAN_A_GUARD = 5
LONGEST_S = 900.0


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The files of each walk, below the package."""
    pytest.importorskip("pyspark")
    folder = tmp_path_factory.mktemp("walks")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env={**os.environ, **quick_start(), "PENSTOCK_WALKS": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    handed = [line.split("\t") for path in folder.glob("*.seen") for line in path.read_text().splitlines()]
    return {
        name: on_the_walk({(file, to) for walk, kind, file, to in handed if walk == run and kind in kinds})
        for name, (run, kinds) in WALKS.items()
    }


def on_the_walk(handed: set[tuple[str, str]]) -> set[str]:
    """The files that hand things on, given who hands to whom; a result has no name of a file behind it."""
    handed = {(file, to) for file, to in handed if not file.startswith("messages/")}
    found = {file for file, to in handed if not to}
    while more := {file for file, to in handed if to in found} - found:
        found |= more
    return found


def on_the_page(name: str) -> set[str]:
    """The files that the page lists under this heading."""
    found = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE.name} has no heading {name!r}"
    return set(re.findall(r"^\| `([\w/]+\.py)` \|", found[1], re.MULTILINE))


@pytest.mark.parametrize("name", ["A row", "Feedback", "`penstock run`", "Site"])
def test_a_walk_on_the_page_is_that_of_real_calls(walks: dict[str, set[str]], name: str) -> None:
    listed = on_the_page(name)
    assert (sorted(walks[name] - listed), sorted(listed - walks[name])) == ([], []), "(not on the page, not walked)"


def test_the_page_says_what_fair_adds_to_a_guard(walks: dict[str, set[str]]) -> None:
    added, listed = walks["Fair"] - walks["A row"] - walks["Feedback"], on_the_page("Fair")
    assert (sorted(added - listed), sorted(listed - added)) == ([], []), "(not on the page, not walked)"


def test_walks_are_short(walks: dict[str, set[str]]) -> None:
    for name, most in MOST.items():
        assert 0 < len(walks[name]) <= most, sorted(walks[name])
    guard = walks["A row"] | walks["Feedback"]
    for name in ("Fair", "Site"):
        assert 0 < len(walks[name]) <= len(guard) + MORE_THAN_A_GUARD, sorted(walks[name] - guard)
