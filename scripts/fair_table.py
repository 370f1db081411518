"""Writes the table of `penstock bench fair` into the pages that show it, from docs/benchmarks/fair.json."""

import json
import re
from pathlib import Path
from typing import Any

from penstock.hardware import in_one_line

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs" / "benchmarks" / "fair.json"
PAGES = (ROOT / "docs" / "policies" / "fair.md", ROOT / "docs" / "benchmarks.md")
BLOCK = re.compile(r"(<!-- fair-table[^\n]*-->\n).*?(\n<!-- /fair-table -->)", re.DOTALL)
NAMES = {
    "fair": "`Fair`",
    "random": "random, by batches of a source",
    "random_rows": "random, by rows",
    "alone": "a guard for each query",
    "pools": "Spark's FAIR pools, nothing shed",
}


def table(found: dict[str, Any]) -> str:
    """One row a way."""
    queries = list(found["parameters"]["queries"])
    lines = [
        f"| twice the load | Jain's index | by instant | mean SIC | poorest | {' | '.join(queries)} |",
        f"|---|---|---|---|---|{'---|' * len(queries)}",
    ]
    for row in found["rows"]:
        numbers = [row[name] for name in ("jain", "jain_instant", "sic_mean", "sic_min")]
        cells = [
            "no result in time" if one is None else f"{one:.3f}"
            for one in (*numbers, *(row["sic"][name] for name in queries))
        ]
        lines.append(f"| {NAMES[row['way']]} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"*`penstock bench fair` on {in_one_line(found['machine'])}.*"])


if __name__ == "__main__":
    shown = table(json.loads(RESULT.read_text(encoding="utf-8")))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(BLOCK.sub(lambda block: f"{block[1]}{shown}{block[2]}", text), encoding="utf-8")
