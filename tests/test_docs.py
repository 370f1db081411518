"""The documentation builds without a warning, its links lead somewhere, and its pages need no other host."""

import html
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import penstock

ROOT = Path(__file__).parents[1]

#: Attributes whose address a browser fetches by itself while it shows a page.
FETCHED = {"data", "href", "poster", "src", "srcset"}
FOLLOWED_BY_HAND = {("a", ""), ("link", "canonical"), ("link", "next"), ("link", "prev")}
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


class Page(HTMLParser):
    """One built page: the addresses it links to or fetches, its anchors, and its words."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.anchors: set[str] = set()
        self.classes: set[str] = set()
        self.prose = ""
        self.math = ""
        self._open: dict[str, int] = defaultdict(int)
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[tag] += 1
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.classes |= set(given.get("class", "").split())
        for name in FETCHED & given.keys():
            by_hand = (tag, "" if tag == "a" else given.get("rel")) in FOLLOWED_BY_HAND
            (self.links if by_hand else self.fetched).add(given[name])

    def handle_endtag(self, tag: str) -> None:
        self._open[tag] -= 1

    def handle_data(self, data: str) -> None:
        if not any(self._open[tag] for tag in ("code", "pre", "script", "style")):
            self.prose += data
        if self._open["math"]:
            self.math += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if result.returncode:
        pytest.fail(result.stdout, pytrace=False)
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_inside_the_site_resolves(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for page in pages.values():
        for address in page.links | page.fetched:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            base = site if parts.path.startswith("/") else page.path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else page.path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            known = pages[target].anchors if anchor and target in pages else {anchor}
            if not target.is_file() or anchor not in known:
                broken.append(f"{page.path.relative_to(site)}: {address}")

    assert not broken


def test_pages_ask_nothing_of_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    asked = {address for page in pages.values() for address in page.fetched if ELSEWHERE.match(address)}
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        asked |= set(re.findall(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')]+)", text))

    assert not asked


def test_equations_and_fences_were_understood(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        assert "$$" not in page.prose
        assert "```" not in page.prose
        assert "\\" not in page.math, "an equation has a command that latex2mathml does not know"
        assert "arithmatex" not in page.classes


def test_diagrams_are_pictures() -> None:
    sources = (ROOT / "docs").rglob("*.md")

    assert not [path.name for path in sources if "```mermaid" in path.read_text(encoding="utf-8")], "use SVG"


LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_links_of_the_readme_lead_to_pages_and_headings(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for address in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        parts = urlsplit(address)
        if parts.scheme:
            continue
        target = (ROOT / parts.path).resolve()
        if not target.is_file():
            broken.append(address)
        elif parts.fragment:
            folder = target.relative_to(ROOT / "docs").with_suffix("")
            page = site / (folder.parent if folder.name == "index" else folder) / "index.html"
            if parts.fragment not in pages[page].anchors:
                broken.append(address)

    assert not broken


def test_links_to_other_hosts_are_whole_and_encrypted() -> None:
    sources = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    addresses = {link for path in sources for link in LINK.findall(path.read_text(encoding="utf-8")) if ":" in link}

    assert addresses
    assert not [address for address in addresses if not re.fullmatch(r"https://[\w.-]+\.[a-z]+/\S*", address)]


def test_every_public_name_is_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    anchors = pages[site / "reference" / "index.html"].anchors
    missing = []
    for name in penstock.__all__:
        thing = getattr(penstock, name)
        home = getattr(thing, "__module__", None)
        # A module such as penstock.answers is a door to the one that its names are from.
        homes = {f"{home}.{name}"} if home else {getattr(thing, own).__module__ for own in thing.__all__}
        if not anchors.intersection(homes):
            missing.append(name)

    assert not missing


def test_the_list_of_figures_has_each_with_its_claim_and_command(site: Path) -> None:
    shown = (site / "papers" / "index.html").read_text(encoding="utf-8")
    figures = sorted((ROOT / "docs" / "papers").glob("*/*.json"))

    assert "<!-- figures -->" not in shown
    assert len(figures) > 20
    for path in figures:
        figure = json.loads(path.read_text(encoding="utf-8"))
        assert f"penstock reproduce {figure['paper']} --figure {figure['figure']}" in shown
        assert html.escape(figure["claims"][0]["measured"], quote=False) in shown
