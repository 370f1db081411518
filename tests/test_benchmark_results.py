"""The numbers of the benchmarks in the README and the documentation are those of the runs kept beside them."""

import json
import runpy
import statistics
from pathlib import Path
from typing import Any

import pytest

from penstock.hardware import in_one_line

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "benchmarks"
#: What tells the cases of the benchmark of grouping apart.
CASE = ("job", "k", "work", "costs", "slow_instance", "batches_of_s")
NAMES = {
    "unguarded": "unguarded",
    "random": "random",
    "straw_man": "straw-man",
    "las": 'Penstock, `prefer="cheap"`',
    "full_knowledge": "Full Knowledge (the oracle)",
}


def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def latency_table() -> str:
    """At twice the load: one row a policy."""
    found = result("latency")
    rows = {row["policy"]: row for row in found["rows"] if row["overload"] == 1.0}
    given = found["parameters"]
    arrived = 2.0 * given["capacity_rows_per_s"] * given["measure_s"]
    lines = [
        "| twice the load, target 2 s | windows within target | worst window | rows kept, of those that came |",
        "|---|---|---|---|",
    ]
    for policy, name in NAMES.items():
        row = rows[policy]
        known = [value for value in row["queuing_latency_s"] if value is not None]
        worst = f"{max(known):.2f} s" if len(known) == len(row["queuing_latency_s"]) else "no batch ended"
        # Unguarded, what was done by the end depends on when the last of a few long batches happens to end.
        kept = "all, but late" if policy == "unguarded" else f"{row['kept']:,} ({row['kept'] / arrived:.0%})"
        lines.append(f"| {name} | {row['windows_within_target']:.0%} | {worst} | {kept} |")
    return "\n".join([*lines, "", f"*`penstock bench latency` on {in_one_line(found['machine'])}.*"])


def whole_table() -> str:
    """Every overload: the page's table."""
    lines = [
        "| overload | policy | windows within target | rows kept | mean queuing latency by window, s |",
        "|---|---|---|---|---|",
    ]
    for row in result("latency")["rows"]:
        latencies = ", ".join("-" if value is None else f"{value:.2f}" for value in row["queuing_latency_s"])
        lines.append(
            f"| {row['overload']:.0%} | {row['policy']} | {row['windows_within_target']:.0%} | {row['kept']:,} "
            f"| {latencies} |"
        )
    return "\n".join(lines)


def cost_table() -> str:
    """What the guard costs: each ratio with what it is of, and its command."""
    gate, idle = result("gate"), result("idle")
    rows = gate["parameters"]["rows"] / 1e6
    gate_command = f"`penstock bench gate --repeats {gate['parameters']['repeats']}`"
    idle_command = f"`penstock bench idle --repeats {idle['parameters']['repeats']}`"
    lines = ["| rows a second | ratio | |", "|---|---|---|"]
    for what, spread, command in (
        (f"the gate over `sample(0.5)`, {rows:.0f} million rows of a batch", gate["ratio_spread"], gate_command),
        ("a guarded query over a bare one, no overload, batches of 5 s", idle["ratio_spread"], idle_command),
        ("the same, batches of 2 s", idle["short_batches"]["ratio_spread"], idle_command),
    ):
        ratio = f"{spread['median']:.3f} ({spread['min']:.3f} to {spread['max']:.3f})"
        lines.append(f"| {what} | {ratio} | {command} |")
    assert in_one_line(gate["machine"]) == in_one_line(idle["machine"])
    return "\n".join([*lines, "", f"*Median (lowest to highest) of the repeats, on {in_one_line(gate['machine'])}.*"])


def gate_line() -> str:
    found = result("gate")
    spread = found["ratio_spread"]
    return (
        f"`guard.admit` over `sample(0.5)`: {found['ratio']:.3f} ({spread['min']:.3f} to {spread['max']:.3f}) on "
        f"{found['parameters']['rows'] / 1e6:.0f} million rows of a batch query, "
        f"{found['rows_per_s']['gate']['median'] / 1e6:.0f} million rows a second."
    )


def idle_line() -> str:
    found = result("idle")
    spread, control = found["ratio_spread"], found["control_table_ms"]
    return (
        f"A guarded pipeline over the bare one, without overload: {found['ratio']:.3f} ({spread['min']:.3f} to "
        f"{spread['max']:.3f}) with batches of 5 s, and {found['short_batches']['ratio']:.3f} with batches of 2 s. "
        f"No row was shed. The gate adds {control['median']:.0f} ms to a micro-batch "
        f"({control['min']:.0f} to {control['max']:.0f})."
    )


def kafka_table() -> str:
    """Both modes between two topics: medians of the rounds, and from which to which they went."""
    found = result("kafka")
    lines = ["| | p50 | p99 |", "|---|---|---|"]
    for mode, rounds in found["modes"].items():
        cells = []
        for part in ("p50_s", "p99_s"):
            values_ms = sorted(1000.0 * one[part] for one in rounds)
            cells.append(f"{statistics.median(values_ms):.0f} ms ({values_ms[0]:.0f} to {values_ms[-1]:.0f})")
        lines.append(f"| {mode} | {' | '.join(cells)} |")
    source = (
        f"*{len(rounds)} rounds in turn, {found['rows_per_s']} rows a second for {found['seconds']:.0f} s in each, "
        f"on {in_one_line(found['machine'])}, with {found['machine']['connector']}.*"
    )
    return "\n".join([*lines, "", source])


def roadmap_line() -> str:
    found = result("roadmap")
    greedy = next(row for row in found["rows"] if (row["sharing"], row["solver"]) == (0.0, "greedy"))
    build, look_up, ask = found["build_s"], found["look_up_us"], found["ask_us"]
    return (
        f"A map of {found['parameters']['boxes']:,} boxes with sharing is built in {build['median']:.2f} s "
        f"({build['min']:.2f} to {build['max']:.2f}), one without in {greedy['build_s']['median']:.2f} s. A look-up "
        f"takes {look_up['median']:.0f} microseconds, {found['program_over_look_up']:.0f} times less than a new linear "
        f"program, and a check for drift {ask['median']:.0f}."
    )


WAYS = {"round_robin": "`repartition(k)`", "by_cost": "by cost, learned", "full_knowledge": "every cost known"}


def grouping_table() -> str:
    """Each case: what the three ways took, and what two of them gained over the first."""
    found = result("grouping")
    lines = [
        "| job | dealt | stage | mean completion | p99 | gain: stage | mean completion | p99 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = ("stage_s", "completion_mean_s", "completion_p99_s")
    for row in found["rows"]:
        job = f"{row['job']}, k = {row['k']}, {row['work']}, {row['costs']}"
        job += "" if row["slow_instance"] == 1.0 else f", one instance {row['slow_instance']:g} times slower"
        job += "" if row["batches_of_s"] == 1 else f", batches of {row['batches_of_s']} s"
        took = " | ".join(f"{row[name]['median']:.2f} s" for name in names)
        gains = [row["speed_up"][name] for name in names]
        gained = " | ".join(f"{one['median']:.3f} ({one['min']:.3f} to {one['max']:.3f})" for one in gains)
        lines.append(f"| {job} | {WAYS[row['way']]} | {took} | {gained if row['way'] != 'round_robin' else '| |'} |")
    return "\n".join([*lines, "", f"*`penstock bench grouping` on {in_one_line(found['machine'])}.*"])


def figure_12_line() -> str:
    found = result("osg-figure-12")
    given = found["parameters"]
    (first, again), means_ms = found["run_at"], found["completion_mean_ms"]
    cost, even = ([f"{means_ms[way][half] / 1000.0:.2f} s" for half in (0, 1)] for way in ("by_cost", "round_robin"))
    return (
        f"Of {given['rows']:,} rows, costs are used from row {first:,} on, and after the change at row "
        f"{given['rows'] // 2:,} again from row {again:,} on. Mean completion: {cost[0]} by cost against "
        f"{even[0]} with `repartition(k)` in the first half. In the second half it is {cost[1]} by cost "
        f"against {even[1]}."
    )


def balance_table() -> str:
    found = result("balance")
    lines = ["| decided by | ms | fastest to slowest |", "|---|---|---|"]
    for row in found["rows"]:
        took = row["decide_ms"]
        lines.append(f"| `{row['way']}` | {took['median']:.2f} | {took['min']:.2f} to {took['max']:.2f} |")
    given = found["parameters"]
    source = (
        f"*{given['fragments']:,} fragments with {given['tuples']:,} tuples, of which {given['capacity']:,} are kept; "
        f"{given['repeats']} repeats in turn, on {in_one_line(found['machine'])}.*"
    )
    return "\n".join([*lines, "", source])


def test_the_page_shows_how_long_fair_decisions_take() -> None:
    assert balance_table() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_bar_of_fair_decisions_was_reached() -> None:
    found = result("balance")
    assert found["parameters"]["fragments"] == 2000
    assert all(row["decide_ms"]["median"] < 10.0 for row in found["rows"])


def growth_table() -> str:
    found = result("growth")
    lines = ["| batches | files | MB | memory, MiB | ms a batch |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['batches']:,} | {row['files']:,} | {row['bytes'] / 1e6:.1f} | {row['memory_mib']:.0f} "
        f"| {row['ms']:.2f} |"
        for row in found["rows"]
    ]
    return "\n".join([*lines, "", f"*`penstock bench growth` on {in_one_line(found['machine'])}.*"])


def test_the_page_shows_what_a_long_run_leaves_behind() -> None:
    assert growth_table() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_nothing_grew_with_the_age_of_a_run() -> None:
    found = result("growth")
    assert found["parameters"]["ages"] == [1_000, 10_000, 100_000]
    assert len(found["claims"]) == 6
    assert all(claim["holds"] for claim in found["claims"])


def store_table() -> str:
    found = result("store")
    kinds = found["requests_per_batch"]
    lines = [f"| {' | '.join(kinds)} | $ a month | plan to gate, ms |", "|---" * (len(kinds) + 2) + "|"]
    cells = [*(f"{count:.2f}" for count in kinds.values()), f"{found['us_dollars_a_month']:.0f}"]
    took = found["plan_to_gate_ms"]
    lines.append(f"| {' | '.join(cells)} | {took['median']:.0f} ({took['min']:.0f} to {took['max']:.0f}) |")
    return "\n".join([*lines, "", f"*`penstock bench store` on {in_one_line(found['machine'])}.*"])


def test_the_page_shows_what_a_bucket_costs() -> None:
    assert store_table() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(claim["holds"] for claim in result("store")["claims"])


@pytest.mark.parametrize("shown", [grouping_table, figure_12_line])
def test_the_page_shows_what_grouping_gains(shown: Any) -> None:
    assert shown() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_bars_of_grouping_were_reached() -> None:
    rows = result("grouping")["rows"]
    ways = {(*(row[part] for part in CASE), row["way"]): row for row in rows}
    for row in rows:
        oracle = ways[(*(row[part] for part in CASE), "full_knowledge")]
        if row["way"] == "by_cost":
            for name in ("stage_s", "completion_mean_s", "completion_p99_s"):
                assert row["speed_up"][name]["median"] >= 0.9 * oracle["speed_up"][name]["median"]
            if row["costs"] == "constant":
                assert row["speed_up"]["stage_s"]["median"] >= 0.98
            # What dealing takes by itself is paid by every batch: a long one hardly feels it.
            if row["costs"] == "constant" and row["batches_of_s"] > 1:
                assert all(gain["median"] >= 0.98 for gain in row["speed_up"].values())


@pytest.mark.parametrize("page", ["benchmarks.md", "policies/fair.md"])
def test_the_pages_show_how_even_fair_shares_are(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    table = runpy.run_path(str(ROOT / "scripts" / "fair_table.py"))["table"]
    shown = table(result("fair")) if (RESULTS / "fair.json").exists() else "Not measured yet: "
    assert shown in text


def test_the_table_of_fair_shares_says_where_no_result_came_in_time() -> None:
    table = runpy.run_path(str(ROOT / "scripts" / "fair_table.py"))["table"]
    rows = [
        {"way": "fair", "jain": 0.9991, "jain_instant": 0.99, "sic_mean": 0.4, "sic_min": 0.39, "sic": {"count": 0.4}},
        {"way": "pools", "jain": None, "jain_instant": None, "sic_mean": 0.0, "sic_min": 0.0, "sic": {"count": 0.0}},
    ]
    shown = table({"rows": rows, "parameters": {"queries": {"count": {}}}, "machine": result("grouping")["machine"]})
    assert "| `Fair` | 0.999 | 0.990 | 0.400 | 0.390 | 0.400 |" in shown
    assert (
        "| Spark's FAIR pools, nothing shed | no result in time | no result in time | 0.000 | 0.000 | 0.000 |" in shown
    )


def test_the_bars_of_fair_shares_were_reached() -> None:
    if not (RESULTS / "fair.json").exists():
        return  # The pages say so.
    found = result("fair")
    rows = {row["way"]: row for row in found["rows"]}
    assert found["parameters"]["overload"] >= 2.0
    assert rows["fair"]["jain"] >= 0.97
    for way in ("random", "pools"):
        assert rows["fair"]["jain"] >= (rows[way]["jain"] or 0.0)
        assert rows["fair"]["sic_min"] >= rows[way]["sic_min"]


FAIR_WAYS = {
    "fair": "`Fair`",
    "random_rows": "rows dropped at random",
    "random": "batches of a source dropped at random",
    "alone": "a guard for each query",
    "pools": "Spark's FAIR pools, nothing shed",
}


def fair_table() -> str:
    found = result("fair")
    given, rows = found["parameters"], {row["way"]: row for row in found["rows"]}
    told = f"{len(given['queries'])} queries, {given['overload']:g} times the work of {given['cores']} cores"
    lines = [f"| {told} | Jain's index | share of the poorest query |", "|---|---|---|"]
    for way, name in FAIR_WAYS.items():
        row = rows[way]
        late = row["jain"] is None
        cells = "no result in time | - |" if late else f"{row['jain']:.3f} | {row['sic_min']:.3f} |"
        lines.append(f"| {name} | {cells}")
    return "\n".join([*lines, "", f"*`penstock bench fair` on {in_one_line(found['machine'])}.*"])


def fair_ages_line() -> str:
    found = result("fair")
    ages_s = {row["way"]: [age_s for age_s in row["wait_s"].values() if age_s is not None] for row in found["rows"]}
    told = {way: f"{min(ages):.1f} to {max(ages):.1f} s" for way, ages in ages_s.items()}
    return (
        f"At the end of their batch, rows were {told['fair']} old on average with `Fair`. They were {told['random']} "
        f"and {told['random_rows']} old with the two random alternatives. They were {told['alone']} old with a guard "
        f"for each query, and {told['pools']} with pools."
    )


def federation_line() -> str:
    found = result("federation")
    given, rows = found["parameters"], {row["policy"]: row for row in found["rows"]}
    scarce = min(given["capacity_rows_per_s"][site] / given["rows_per_s"][site] for site in given["sites"])
    jain, poorest = (
        f"{rows['balance'][name]:.3f}, and {rows['random'][name]:.3f} with random shedding"
        for name in ("jain_instant", "poorest")
    )
    account, transport = rows["balance"]["account"], given["transport"]
    return (
        f"`penstock site`, {len(given['sites'])} sites over {transport.capitalize()}, one of which can take "
        f"{scarce:.0%} of its rows. Jain's index of {len(given['queries'])} queries at each instant is {jain}. The SIC "
        f"of the poorest is {poorest}. Of {account['rows_in']:,} rows {account['shed']:,} were shed and "
        f"{account['lost']:,} lost (`examples/federation/run.py --bench --{transport}` on "
        f"{in_one_line(found['machine'])})."
    )


def federation_table() -> str:
    found = result("federation")
    given, rows = found["parameters"], {row["policy"]: row for row in found["rows"]}
    scarce = min(given["capacity_rows_per_s"][site] / given["rows_per_s"][site] for site in given["sites"])
    told = f"{len(given['sites'])} sites, {len(given['queries'])} queries; one site can take {scarce:.0%} of its rows"
    lines = [f"| {told} | Jain's index at each instant | share of the poorest query |", "|---|---|---|"]
    for policy, name in (("balance", "`penstock site`"), ("random", "random shedding")):
        lines.append(f"| {name} | {rows[policy]['jain_instant']:.3f} | {rows[policy]['poorest']:.3f} |")
    account, transport = rows["balance"]["account"], given["transport"]
    source = (
        f"*Over {transport.capitalize()}; of {account['rows_in']:,} rows {account['shed']:,} were shed and "
        f"{account['lost']:,} lost. `examples/federation/run.py --bench --{transport}` on "
        f"{in_one_line(found['machine'])}.*"
    )
    return "\n".join([*lines, "", source])


def themis_table() -> str:
    found = json.loads((ROOT / "docs" / "papers" / "themis" / "themis-plus.json").read_text(encoding="utf-8"))
    given, rows = found["parameters"], {row["shedder"]: row for row in found["rows"] if row["case"] == "equal costs"}
    told = f"18 sites with {given['capacity_share']:g} of the capacity that they need"
    lines = [f"| {told} | Jain's index at each instant | share of the poorest query | swing |", "|---|---|---|---|"]
    for shedder, name in (
        ("balance_sic", "BALANCE-SIC, as published"),
        ("penstock", "Penstock"),
        ("max_min", "the optimum"),
    ):
        row = rows[shedder]
        cells = f"{row['jain_instant']:.3f} | {row['sic_min']:.3f} | {row['oscillation']:.1%}"
        lines.append(f"| {name} | {cells} |")
    source = f"*Simulated: `penstock reproduce themis --figure plus --runs {given['runs']}`.*"
    return "\n".join([*lines, "", source])


@pytest.mark.parametrize("shown", [fair_table, federation_table, themis_table])
def test_the_readme_shows_how_even_queries_are(shown: Any) -> None:
    assert shown() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_says_how_old_rows_of_fair_queries_get() -> None:
    assert fair_ages_line() in (ROOT / "docs" / "policies" / "fair.md").read_text(encoding="utf-8")


def test_the_page_shows_the_benchmark_of_the_federation() -> None:
    assert federation_line() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["benchmarks.md", "policies/roadmap.md"])
def test_the_pages_show_the_benchmark_of_road_maps(page: str) -> None:
    assert roadmap_line() in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_bars_of_road_maps_were_reached() -> None:
    found = result("roadmap")
    assert found["parameters"]["boxes"] == 1000
    assert all(row["build_s"]["max"] < 1.0 for row in found["rows"])
    assert all(row["look_up_us"]["median"] < 100.0 for row in found["rows"])


def test_the_page_on_kafka_shows_what_both_modes_take() -> None:
    assert kafka_table() in (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8")
    for rounds in result("kafka")["modes"].values():
        assert all(0.45 < one["kept"] < 0.55 for one in rounds)


@pytest.mark.parametrize("shown", [latency_table, cost_table])
def test_the_readme_shows_the_benchmarks(shown: Any) -> None:
    assert shown() in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("shown", [whole_table, gate_line, idle_line])
def test_the_page_shows_the_benchmarks(shown: Any) -> None:
    assert shown() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_bars_were_reached() -> None:
    assert result("gate")["ratio"] >= 0.95
    idle = result("idle")
    assert idle["rows_shed"] == 0
    assert idle["ratio"] >= 0.98
    assert idle["control_table_ms"]["median"] <= 50.0
    rows = result("latency")["rows"]
    las = [row for row in rows if row["policy"] == "las"]
    assert all(row["windows_within_target"] >= 0.95 for row in las)
    oracle = {row["overload"]: row["kept"] for row in rows if row["policy"] == "full_knowledge"}
    assert all(row["kept"] >= 0.95 * oracle[row["overload"]] for row in las)


BALANCED = RESULTS / "balanced.json"
BALANCED_WAYS = {
    "random": "random",
    "load_aware": "`LoadAware`, a guard each",
    "semantic": "by value, a guard each",
    "balance_sic": "`Fair`, BALANCE-SIC",
    "balanced": "`Fair`, `Balanced(alpha=1)`",
}


def balanced_table() -> str:
    """One row a policy, and the two ratios that matter."""
    found = result("balanced")
    target_s = found["parameters"]["target_s"]
    lines = [
        f"| twice the load, target {target_s:g} s | mean utility | worst query | Jain | windows within target |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        cells = " | ".join(f"{row[name]['median']:.3f}" for name in ("mean", "worst", "jain"))
        lines.append(f"| {BALANCED_WAYS[row['way']]} | {cells} | {row['windows_within_target']:.0%} |")
    worst, mean = (
        f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
        for ratio in (found["worst_over_balance_sic"], found["mean_over_random"])
    )
    command = f"`penstock bench balanced --repeats {found['parameters']['repeats']}`"
    told = f"Worst query over BALANCE-SIC's: {worst}. Mean over random's: {mean}."
    return "\n".join([*lines, "", told, "", f"*{command} on {in_one_line(found['machine'])}.*"])


def test_the_page_shows_the_benchmark_of_balanced_or_says_that_there_is_none() -> None:
    shown = balanced_table() if BALANCED.exists() else "no run of the first is kept here yet"
    assert shown in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def density_table() -> str:
    """One row for each number of queries, a column for each alpha."""
    found = result("density")
    ms = {(row["queries"], row["alpha"]): row["ms"]["median"] for row in found["rows"]}
    alphas = list(dict.fromkeys(alpha for _, alpha in ms))
    head = " | ".join(f"alpha {alpha}" for alpha in alphas)
    lines = [f"| queries | {head} |", "|---" * (len(alphas) + 1) + "|"]
    lines += [
        f"| {queries:,} | {' | '.join(f'{ms[queries, alpha]:.0f} ms' for alpha in alphas)} |"
        for queries in dict.fromkeys(queries for queries, _ in ms)
    ]
    asked = found["parameters"]
    told = f"Keep shares of {asked['classes']:,} classes, medians of {asked['repeats']} repeats"
    return "\n".join([*lines, "", f"*{told}: `penstock bench density` on {in_one_line(found['machine'])}.*"])


def test_the_page_shows_how_long_shares_of_many_classes_take_and_that_it_is_not_long() -> None:
    assert density_table() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(row["ms"]["median"] < 100.0 for row in result("density")["rows"])
