"""Docstrings, messages and pages are written in plain technical English; each room says what lives in it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
#: Phrases that were replaced everywhere, with what to write instead.
BANNED = {
    "of late": "recent",
    "in its stead": "instead",
    "though it be": "even if",
    "told of": "logged, reported",
    "tells of": "shows, reports",
    "hear of": "alarms",
    "for good": "permanently",
    "whoever": "the reader, the writer",
    "told apart": "distinguished, identified",
    "at one stroke": "atomically",
    "next to nothing": "almost no",
    "worked off": "processed",
    "put right": "corrected",
    "met and survived": "caught",
    "nothing to go by": "no costs have been measured",
    "as ever will be": "at the maximum shed rate",
    "tosses": "hashes",
}
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "policies").glob("*.md"),
]
TEXTS = sorted({*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *PAGES} - {ROOT / "docs" / "changelog.md"})
ROOMS = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


@pytest.mark.parametrize("phrase", BANNED)
def test_a_phrase_that_was_replaced_does_not_come_back(phrase: str) -> None:
    pattern = re.compile(rf"\b{phrase}\b".replace(" ", r"[\s#:\"]+"), re.IGNORECASE)
    found = [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(path.read_text(encoding="utf-8"))]
    assert not found, f"write {BANNED[phrase]} instead of {phrase!r}"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SOURCE)))
def test_a_room_names_modules_that_it_has(room: Path) -> None:
    told = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    there = {path.stem for path in room.iterdir()}
    named = set(re.findall(r"`([a-z][a-z_]+)`", told)) - {"penstock"}
    assert told, "say what lives in the room"
    assert named <= there, "the docstring names modules that are elsewhere: update it"
