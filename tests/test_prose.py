"""Docstrings, messages and pages are written in plain technical English; each room says what lives in it."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
#: Phrases that were replaced everywhere, with what to write instead.
BANNED = {
    "a hair": "just, slightly",
    "all the same": "anyway",
    "all there is": "everything",
    "as ever": "at the maximum shed rate",
    "at one stroke": "atomically",
    "be it": "for example",
    "became of": "the outcome of",
    "becomes of": "the outcome of",
    "by its own word": "as it reports",
    "for certain": "with certainty",
    "for good": "permanently",
    "hands? on": "passes on, returns",
    "handed on": "passed on",
    "hear of": "alarms",
    "heard of": "received",
    "hears of": "processes, receives",
    "held against": "compared with",
    "however (few|little|long|much)": "even if, without, for any",
    "in its stead": "instead",
    "in vain": "does not help",
    "is taken for": "is assumed to be",
    "knowing nothing": "without knowledge",
    "lets? through": "admits, keeps, passes",
    "met and survived": "caught",
    "next to nothing": "almost no",
    "no more to go by": "until more is known",
    "nobody(?= [a-z])": "no site, no reader; it is unknown",
    "nothing tells": "it is unknown",
    "nothing to go by": "no costs have been measured",
    "of late": "recent",
    "put right": "corrected",
    "says? of": "reports, states",
    "so long": "for this time",
    "so many": "this many",
    "so much": "this work",
    "stands for(?! each)": "represents, means",
    "stands still": "is idle",
    "stood still": "was idle",
    "takes in": "contains, processes",
    "tells? (of|rows) .{0,20}apart": "identifies",
    "tells of": "shows, reports",
    "this very": "this",
    "though it be": "even if",
    "to the test": "tests",
    "told apart": "distinguished, identified",
    "told of": "logged, reported",
    "tosses": "hashes",
    "whatever": "regardless of, for any, even if",
    "whoever": "the reader, the writer",
    "worked off": "processed",
}
#: The most words of a sentence, on a page or in a docstring.
LONGEST = 25
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "policies").glob("*.md"),
    *(ROOT / "docs" / "papers").glob("*.md"),
]
PROSE = sorted(set(PAGES) - {ROOT / "docs" / "changelog.md"})
#: Sentences about the papers are those of recorded results.
RECORDED = set((SOURCE / "sim").rglob("claims.py"))
TEXTS = sorted({*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *PROSE, ROOT / "CHANGELOG.md"} - RECORDED)
ROOMS = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
NO_PROSE = re.compile(r"^```.*?^```|<!--.*?-->|\$\$.*?\$\$|^ *(?:[|#!]|:::|--8<--).*?$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("phrase", BANNED)
def test_a_phrase_that_was_replaced_does_not_come_back(phrase: str) -> None:
    pattern = re.compile(rf"\b{phrase}\b".replace(" ", r"[\s#:\"]+"), re.IGNORECASE)
    found = [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(path.read_text(encoding="utf-8"))]
    assert not found, f"write {BANNED[phrase]} instead of {phrase!r}"


def sentences(page: str) -> list[str]:
    """The sentences of a page, without tables, code and equations; code in a sentence is one word."""
    text = re.sub(r"`[^`\n]*`|\$[^$\n]*\$", "code", NO_PROSE.sub("\n\n", page))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    blocks = re.split(r"\n\s*\n|\n\s*(?=(?:[-*]|\d+\.) )", text)
    return [" ".join(one.split()) for block in blocks for one in re.split(r"(?<=[.!?])[*)\]\"]*\s+", block)]


def words(text: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def test_sentences_are_counted_without_code_tables_and_links() -> None:
    page = "# No\n\nOne `a b` two [three](x.md). Four\nfive: six.\n\n| no |\n\n```\nno\n```\n- Seven $x + y$ eight."
    assert [words(one) for one in sentences(page) if one] == [4, 3, 3]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_pages_are_short(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    assert not [one for one in found if words(one) > LONGEST]


def docstrings(path: Path) -> list[str]:
    """The docstrings of a module, without examples."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))
    return [re.sub(r"^ *>>>.*?(?:\n\s*\n|\Z)", "\n\n", one, flags=re.DOTALL | re.MULTILINE) for one in found]


def test_sentences_of_docstrings_are_short() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {one}"
        for path in sorted(SOURCE.rglob("*.py"))
        for text in docstrings(path)
        for one in sentences(text)
        if words(one) > LONGEST
    ]
    assert not found


def modules(room: Path) -> set[str]:
    """The modules of a room and the rooms inside it."""
    inside = {path.parent.name for path in room.glob("*/__init__.py")}
    return inside | {path.stem for path in room.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SOURCE)))
def test_a_room_names_each_of_its_modules_and_no_other(room: Path) -> None:
    told = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"`([a-z][a-z_]+)`", told)) - {"penstock"}
    assert not named - modules(room), "the docstring names modules that are elsewhere: update it"
    assert not modules(room) - named, "say in a few words what these modules are for"


def test_the_page_on_architecture_names_every_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["penstock"])
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Layers")[1].split("```")[1]
    assert re.findall(r"^(\w+(?: \| \w+)*)", page.partition("\n")[2], re.MULTILINE) == layers
