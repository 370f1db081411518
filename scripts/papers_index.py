"""A MkDocs hook that lists the papers' figures from their results, so that the list is never older than they are."""

import json
from pathlib import Path
from typing import Any

#: What is not written like a word.
NAMES = {"las": "LAS", "osg": "OSG", "themis": "THEMIS"}
PAGE, MARK = "papers/index.md", "<!-- figures -->"


def on_page_markdown(text: str, /, *, page: Any, config: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own
    """Put the tables where the page has its mark."""
    if page.file.src_uri != PAGE:
        return text
    return text.replace(MARK, tables(Path(config["docs_dir"]) / "papers"))


def tables(folder: Path) -> str:
    """A table for each paper that has results."""
    found = sorted(path.parent for path in folder.glob("*/claims.md"))
    return "\n\n".join(_table(results) for results in found)


def _table(results: Path) -> str:
    figures = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"), key=_order)]
    lines = [
        f"### {NAMES.get(results.name, results.name.capitalize())}",
        "",
        "| figure | what it says first | paper | ours | holds | claims that hold | run again |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        name, claims = figure["figure"], figure["claims"]
        first, holding = claims[0], sum(claim["holds"] for claim in claims)
        runs = figure["parameters"].get("runs")
        command = f"penstock reproduce {figure['paper']} --figure {name}" + (f" --runs {runs}" if runs else "")
        cells = [
            f"[{name}]({results.name}/claims.md#figure-{name})",
            *(first[part].replace("|", "\\|") for part in ("claim", "paper", "measured")),
            "yes" if first["holds"] else "**no**",
            f"{holding} of {len(claims)}",
            f"`{command}`",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _order(path: Path) -> tuple[bool, int, str]:
    """Figures by their numbers, then those with names."""
    name = path.stem.rpartition("-")[2]
    return not name.isdigit(), int(name) if name.isdigit() else 0, name
