"""Writes the results of the federation's benchmarks into docs/federation.md, where a test looks for them."""

import json
from pathlib import Path
from typing import Any

from penstock.hardware import in_one_line

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "federation.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
NAMES = {"balance": "Penstock", "random": "random"}


def result(name: str) -> dict[str, Any]:
    """A result that is kept."""
    found: dict[str, Any] = json.loads((ROOT / "docs" / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def table(found: dict[str, Any], first: str) -> str:
    """One line a policy, or a time."""
    queries = list(found["parameters"]["queries"])
    head = [first, "Jain's index", "at each instant", "poorest query", *(f"`{query}`" for query in queries)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in found["rows"]:
        name = NAMES[row["policy"]] if "policy" in row else row["when"]
        numbers = [f"{row[key]:.3f}" for key in ("jain", "jain_instant", "poorest")]
        sic = [f"{row['sic'][query]:.2f}" for query in queries]
        lines.append(f"| {' | '.join([name, *numbers, *sic])} |")
    return "\n".join(lines)


def account(found: dict[str, Any]) -> str:
    """Where rows went."""
    return (
        f"{found['rows_in']:,} rows in, {found['shed']:,} shed, {found['under_way']:,} under way on links at the end, "
        f"{found['lost']:,} lost. Sources had produced {found['source_rows']['produced']:,} rows, and "
        f"{found['source_rows']['taken']:,} were taken."
    )


def tables() -> str:
    """All that the page shows."""
    fair, faults = result("federation"), result("federation-faults")
    over = {"kafka": "over Kafka", "folder": "over a folder"}
    clock = f"the clock of `{faults['parameters']['skewed']}` is {faults['parameters']['skew_s']:g} s ahead"
    fair_head = over[fair["parameters"]["transport"]]
    faults_head = f"{over[faults['parameters']['transport']]}; {clock}"
    measured = f"*{fair['parameters']['measure_s']:.0f} s of each on {in_one_line(fair['machine'])}.*"
    return "\n\n".join(
        [
            table(fair, fair_head),
            f"{measured} With Penstock: {account(fair['rows'][0]['account'])}",
            table(faults, faults_head),
            f"*On {in_one_line(faults['machine'])}.* {account(faults['account'])}",
        ]
    )


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(f"{text[:begin]}\n{tables()}\n\n{text[end:]}", encoding="utf-8")
