"""The numbers in the README are those of the results in the documentation."""

import json
from pathlib import Path

import pytest

from penstock.hardware import in_one_line

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "papers" / "las"
NAMES = {
    "las": "LAS, as published",
    "full_knowledge": "Full Knowledge (the oracle)",
    "penstock": "Penstock",
    "penstock_prefer_cheap": 'Penstock, `prefer="cheap"`',
}


def readme_table() -> str:
    figure = json.loads((RESULTS / "las-plus.json").read_text(encoding="utf-8"))
    at = {row["variant"]: row for row in figure["rows"]}
    machine, runs = figure["machine"], figure["parameters"]["runs"]
    lines = [
        "| | mean latency | worst run | runs above 1.05 of the target | rows dropped | memory |",
        "|---|---|---|---|---|---|",
    ]
    for variant, name in NAMES.items():
        row = at[variant]
        latency = row["queuing_latency_ms"]
        lines.append(
            f"| {name} | {latency['mean']:.2f} ms | {latency['max']:.2f} ms | {row['above_1_05_tau']:.1%} "
            f"| {row['dropped_ratio']['mean']:.3f} | {row['memory_bytes']:,} bytes |"
        )
    lines += [
        "",
        f"*{runs:,} runs of `penstock reproduce las --figure plus --runs {runs}` on {in_one_line(machine)}.*",
    ]
    return "\n".join(lines)


def test_the_readme_shows_the_results_of_figure_plus() -> None:
    assert readme_table() in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("figure", ["4", "5", "6", "7", "eps", "plus"])
def test_every_figure_has_its_data_and_picture(figure: str) -> None:
    data = json.loads((RESULTS / f"las-{figure}.json").read_text(encoding="utf-8"))
    assert (data["paper"], data["figure"]) == ("las", figure)
    assert data["rows"]
    assert data["claims"]
    assert (RESULTS / f"las-{figure}.png").read_bytes().startswith(b"\x89PNG")
    for claim in data["claims"]:
        assert claim["measured"] in (RESULTS / "claims.md").read_text(encoding="utf-8")
