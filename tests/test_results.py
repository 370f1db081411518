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


AURORA = ROOT / "docs" / "papers" / "aurora"
POLICIES = {
    "greedy_group": 'greedy, `placement="group"`',
    "greedy": "greedy",
    "exact": "optimum",
    "penstock": "Penstock (`auto`)",
    "max_min": "`max_min`",
    "fresh": "after drift: a fresh map",
    "rebuilt": "after drift: the kept map",
    "stale": "after drift: the old map",
}


def road_map_table() -> str:
    figure = json.loads((AURORA / "aurora-plus.json").read_text(encoding="utf-8"))
    at = {(row["policy"], row["sharing"]): row for row in figure["rows"] if round(row["excess_load"], 2) == 2.05}
    lines = [
        "| thrice the load | nothing shared: loss | worst query | build | 30 % shared: loss | worst query | build |",
        "|---|---|---|---|---|---|---|",
    ]
    for policy, name in POLICIES.items():
        cells = []
        for sharing in (0.0, 0.3):
            row = at[policy, sharing]
            loss, worst, build = (row[column]["mean"] for column in ("utility_loss", "worst_query_utility", "build_ms"))
            cells += [f"{loss:.2f} %", f"{worst:.2f}", "-" if policy == "stale" else f"{build:.0f} ms"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    runs, boxes = figure["parameters"]["runs"], figure["parameters"]["boxes"]
    source = (
        f"*Means over {runs} irregular networks of {boxes} boxes, `penstock reproduce aurora --runs {runs}` on "
        f"{in_one_line(figure['machine'])}. The optimum is one linear program for each load.*"
    )
    return "\n".join([*lines, "", source])


def test_the_page_on_road_maps_shows_the_results_of_figure_plus() -> None:
    assert road_map_table() in (ROOT / "docs" / "policies" / "roadmap.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("figure", ["9", "10", "11", "12", "plus"])
def test_every_figure_of_aurora_has_its_data_and_picture(figure: str) -> None:
    data = json.loads((AURORA / f"aurora-{figure}.json").read_text(encoding="utf-8"))
    assert (data["paper"], data["figure"]) == ("aurora", figure)
    assert data["rows"]
    assert data["claims"]
    assert (AURORA / f"aurora-{figure}.png").read_bytes().startswith(b"\x89PNG")
    for claim in data["claims"]:
        assert claim["measured"] in (AURORA / "claims.md").read_text(encoding="utf-8")


def test_what_penstock_promises_of_road_maps_was_measured() -> None:
    claims = json.loads((AURORA / "aurora-plus.json").read_text(encoding="utf-8"))["claims"]
    broken = [
        claim["claim"] for claim in claims if claim["paper"].startswith("not in the paper") and not claim["holds"]
    ]
    assert broken == ["30% shared: greedy is next to the optimum (mean, and worst network and load)"]


OSG = ROOT / "docs" / "papers" / "osg"
GROUPINGS = {
    "full_knowledge": "Full Knowledge (the oracle)",
    "penstock": "Penstock",
    "jsq": "join-shortest-queue by count",
    "osg": "OSG, as published",
}


def grouping_table() -> str:
    figure = json.loads((OSG / "osg-plus.json").read_text(encoding="utf-8"))
    at = {(row["algorithm"], row["distribution"], row["feedback_ms"]): row["speed_up"] for row in figure["rows"]}
    late = [0.0, 20.0, 100.0, 500.0]
    delays = " | ".join(f"{value:g} ms" for value in late)
    lines = [
        f"| updates late by | {delays} | uniform keys, 500 ms | worst run of all |",
        "|---|---|---|---|---|---|---|",
    ]
    for algorithm, name in GROUPINGS.items():
        cells = [at[algorithm, "zipf-1.0", value]["mean"] for value in late]
        cells += [at[algorithm, "uniform", 500.0]["mean"]]
        cells += [min(speed_up["min"] for (one, *_), speed_up in at.items() if one == algorithm)]
        lines.append(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    runs = figure["parameters"]["runs"]
    source = (
        f"*Speed-up of completion times against Round-Robin, means of {runs} runs with 5 instances at 105 percent, "
        f"Zipf-1.0 keys where not said otherwise. `penstock reproduce osg --runs {runs}` on "
        f"{in_one_line(figure['machine'])}.*"
    )
    return "\n".join([*lines, "", source])


def test_the_page_on_osg_shows_the_results_of_figure_plus() -> None:
    assert grouping_table() in (ROOT / "docs" / "papers" / "osg.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "figure", ["4", "5", "6", "7", "8", "9", "10", "11", "13", "14", "plus", "batches", "readings"]
)
def test_every_figure_of_osg_has_its_data_and_picture(figure: str) -> None:
    data = json.loads((OSG / f"osg-{figure}.json").read_text(encoding="utf-8"))
    assert (data["paper"], data["figure"]) == ("osg", figure)
    assert data["rows"]
    assert data["claims"]
    assert (OSG / f"osg-{figure}.png").read_bytes().startswith(b"\x89PNG")
    for claim in data["claims"]:
        assert claim["measured"] in (OSG / "claims.md").read_text(encoding="utf-8")


def test_what_penstock_promises_of_grouping_was_measured() -> None:
    for figure in ("plus", "batches"):
        claims = json.loads((OSG / f"osg-{figure}.json").read_text(encoding="utf-8"))["claims"]
        assert [claim["claim"] for claim in claims if not claim["holds"]] == []


THEMIS = ROOT / "docs" / "papers" / "themis"
SHEDDERS = {
    "max_min": "the optimum, with all knowledge",
    "penstock": "Penstock",
    "balance_sic": "BALANCE-SIC, as published",
    "random": "random",
}


def fairness_table() -> str:
    figure = json.loads((THEMIS / "themis-plus.json").read_text(encoding="utf-8"))
    lines = ["| | Jain's index, every instant | poorest query | mean SIC | oscillation |", "|---|---|---|---|---|"]
    for shedder, name in SHEDDERS.items():
        (row,) = [row for row in figure["rows"] if (row["case"], row["shedder"]) == ("equal costs", shedder)]
        cells = (row["jain_instant"], row["sic_min"], row["sic_mean"])
        lines.append(f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} | {row['oscillation']:.1%} |")
    runs = figure["parameters"]["runs"]
    source = (
        "*18 sites, about 2,000 fragments, Zipf 0.5, capacity 0.3 of demand: means of "
        f"{runs} runs. `penstock reproduce themis --runs {runs}` on {in_one_line(figure['machine'])}.*"
    )
    return "\n".join([*lines, "", source])


def test_the_page_on_themis_shows_the_results_of_figure_plus() -> None:
    assert fairness_table() in (ROOT / "docs" / "papers" / "themis.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("figure", ["6", "7", "8", "9", "10", "11", "12", "13", "14", "comparison", "overhead", "plus"])
def test_every_figure_of_themis_has_its_data_and_picture(figure: str) -> None:
    data = json.loads((THEMIS / f"themis-{figure}.json").read_text(encoding="utf-8"))
    assert (data["paper"], data["figure"]) == ("themis", figure)
    assert data["rows"]
    assert data["claims"]
    assert (THEMIS / f"themis-{figure}.png").read_bytes().startswith(b"\x89PNG")
    for claim in data["claims"]:
        assert claim["measured"] in (THEMIS / "claims.md").read_text(encoding="utf-8")


def test_what_penstock_promises_of_fairness_was_measured() -> None:
    claims = json.loads((THEMIS / "themis-plus.json").read_text(encoding="utf-8"))["claims"]
    assert [claim["claim"] for claim in claims if not claim["holds"]] == []
