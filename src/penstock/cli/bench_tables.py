"""How the result of each benchmark is printed: tables of its rows and a sentence below, as format strings."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import SIMPLE
from rich.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rich.console import Console

Result = dict[str, Any]


class _Cells(string.Formatter):
    """Format strings with three additions: `M` means millions, a spread shows its range, and None is a dash."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - JSON data of any shape
        if value is None:
            return "-"
        if isinstance(value, str):
            return value
        if isinstance(value, dict):
            middle, least, most = (self.format_field(value[part], format_spec) for part in ("median", "min", "max"))
            return f"{middle} ({least} to {most})"
        if format_spec.startswith("M"):
            return format(value / 1e6, format_spec[1:])
        return format(value, format_spec)


_CELLS = _Cells()


class Shown(NamedTuple):
    """A table: the format string of each column by its title, and of the sentence below, which shows the result."""

    columns: Mapping[str, str]
    closing: str = ""
    rows: Callable[[Result], Iterable[Result]] = lambda result: result["rows"]


def show(out: Console, result: Result, tables: Iterable[Shown], *, dense: bool = False) -> None:
    """Print the tables of a result, each with its sentence; a dense one has many columns, and no lines between them."""
    style: dict[str, Any] = {"box": SIMPLE, "padding": (0, 1, 0, 0)} if dense else {}
    for one in tables:
        table = Table(*(Column(title, no_wrap=dense) for title in one.columns), **style)
        for row in one.rows(result):
            table.add_row(*(_CELLS.format(cell, **row) for cell in one.columns.values()))
        out.print(table)
        if one.closing:
            out.print(_CELLS.format(one.closing, **result))


SIMULATOR = Shown(
    {
        "algorithm": "{algorithm}",
        "million verdicts per second and core": "{decisions_per_s_per_core[mean]:M.1f}",
        "slowest to fastest run": "{decisions_per_s_per_core[min]:M.1f} to {decisions_per_s_per_core[max]:M.1f}",
    },
    "Streams and the paper's four algorithms together: {whole_runs[decisions_per_s_per_core]:M.1f} million verdicts "
    "per second and core; 5000 runs take {whole_runs[seconds_for_paper_runs]:.0f} s on {parameters[jobs]} processes; "
    "peak memory {whole_runs[peak_memory_mib]:.0f} MiB.",
)
GRAINS = Shown(
    {
        "scenario": "{scenario}",
        "grain": "{grain}",
        "windows within target": "{windows_within_target:.0%}",
        "worst window": "{worst_window_s:.2f} s",
        "rows kept": "{kept_share:.1%}",
        "shed by the machine": "{shed_by_the_machine:.1%}",
    }
)
GATE = Shown(
    {
        "": "{label}",
        "million rows a second": "{rate[median]:M.1f}",
        "slowest to fastest": "{rate[min]:M.1f} to {rate[max]:M.1f}",
        "rows kept": "{kept:.1%}",
    },
    "guard.admit over sample(0.5): {ratio:.3f} ({ratio_spread[min]:.3f} to {ratio_spread[max]:.3f}).",
    lambda result: (
        {"label": label, "rate": result["rows_per_s"][name], "kept": result["kept_share"][name]}
        for name, label in (("everything", "no gate"), ("sample", "sample(0.5)"), ("gate", "guard.admit"))
    ),
)
IDLE = Shown(
    {
        "pipeline": "{name}",
        "batches of": "{rows} rows",
        "rows a second": "{rate[median]:.0f}",
        "slowest to fastest": "{rate[min]:.0f} to {rate[max]:.0f}",
    },
    "guarded over bare: {ratio:.3f} ({ratio_spread[min]:.3f} to {ratio_spread[max]:.3f}), in short batches "
    "{short_batches[ratio]:.3f}; rows shed: {rows_shed}; the gate adds {control_table_ms:.0f} ms to a micro-batch.",
    lambda result: (
        {"name": name, "rows": result["parameters"][rows], "rate": own["rows_per_s"][name]}
        for rows, own in (("rows_per_batch", result), ("short_batch_rows", result["short_batches"]))
        for name in ("bare", "guarded")
    ),
)
LATENCY = Shown(
    {
        "overload": "{overload:.0%}",
        "policy": "{policy}",
        "windows within target": "{windows_within_target:.0%}",
        "rows kept": "{kept}",
        "mean queuing latency by window, s": "{windows}",
    },
    rows=lambda result: (
        row | {"windows": ", ".join(_CELLS.format("{:.2f}", one) for one in row["queuing_latency_s"])}
        for row in result["rows"]
    ),
)
SERIES = Shown(
    {
        "rows": "{half}",
        "round-robin, mean ms": "{round_robin:.0f}",
        "by cost, mean ms": "{by_cost:.0f}",
        "gain": "{gain:.3f}",
    },
    "The first of {parameters[rows]} rows that is dealt by cost: {run_at[0]}; by costs measured after the change in "
    "the middle: {run_at[1]}.",
    lambda result: (
        {"half": half, "gain": gain} | {name: means[number] for name, means in result["completion_mean_ms"].items()}
        for number, (half, gain) in enumerate(zip(("first half", "second half"), result["speed_up"], strict=True))
    ),
)
BALANCE = Shown(
    {
        "decided by": "{way}",
        "ms": "{decide_ms[median]:.2f}",
        "fastest to slowest": "{decide_ms[min]:.2f} to {decide_ms[max]:.2f}",
    },
    "One node, {parameters[fragments]} fragments of as many queries with {parameters[tuples]} tuples, of which "
    "{parameters[capacity]} can be kept; {parameters[repeats]} repeats.",
)
ROADMAP = Shown(
    {
        "shared": "{sharing:.0%}",
        "solver": "{solver}",
        "entries": "{entries}",
        "build, s": "{build_s:.2f}",
        "look-up, µs": "{look_up_us:.0f}",
        "linear program, ms": "{program_ms:.1f}",
    },
    "A network of {parameters[boxes]} boxes; medians with least and most, of {parameters[repeats]} repeats. A linear "
    "program solved afresh takes {program_over_look_up:.0f} times as long as a look-up in the exact map with shared "
    "branches; to ask whether the map has drifted takes {ask_us:.0f} µs.",
)
DENSITY = Shown(
    {
        "queries": "{queries}",
        "alpha": "{alpha}",
        "ms": "{ms[median]:.0f}",
        "fastest to slowest": "{ms[min]:.0f} to {ms[max]:.0f}",
    },
    "Keep shares of {parameters[classes]} classes; medians of {parameters[repeats]} repeats, {slowest_ms:.0f} ms at "
    "most. To sort as many numbers takes {sort_ms[median]:.0f} ms.",
)
GROUPING = Shown(
    {
        "job": "{job}",
        "k": "{k}{slow}",
        "work": "{work}",
        "costs": "{costs}{long}",
        "dealt": "{way}",
        "stage, s": "{stage_s[median]:.2f}",
        "mean completion, s": "{completion_mean_s[median]:.2f}",
        "p99, s": "{completion_p99_s[median]:.2f}",
        "stage, gain": "{speed_up[stage_s]:.3f}",
        "mean": "{speed_up[completion_mean_s]:.3f}",
    },
    rows=lambda result: (
        row
        | {
            "slow": "" if row["slow_instance"] == 1.0 else f", one {row['slow_instance']:g} times slower",
            "long": "" if row["batches_of_s"] == 1 else f", batches of {row['batches_of_s']} s",
        }
        for row in result["rows"]
    ),
)


def answers(result: Result) -> Shown:
    """How often intervals hold the true value, by question and case."""
    cases = list(dict.fromkeys(row["case"] for row in result["rows"]))
    rows: dict[str, Result] = {}
    for row in result["rows"]:
        told = f"{100.0 * row['coverage']:.1f}"
        rows.setdefault(row["question"], {})[row["case"]] = told if row["promised"] else f"({told})"
    counted = {row["case"]: row["effective_rows"] for row in result["rows"] if row["question"] == "count"}
    rows["effective rows"] = {case: f"{number:.0f}" for case, number in counted.items()}
    return Shown(
        {"held, in percent": "{question}", **{case: f"{{cells[{case}]}}" for case in cases}},
        "In brackets: beyond what is promised, {parameters[promised][0]:.0%} to {parameters[promised][1]:.0%}.",
        lambda _: ({"question": question, "cells": cells} for question, cells in rows.items()),
    )


def balanced(result: Result) -> Shown:
    """The utility that each policy delivered to the queries."""
    columns = {"policy": "{way}", "mean": "{mean[median]:.2f}", "worst": "{worst[median]:.2f}"}
    columns |= {"Jain": "{jain[median]:.2f}"}
    columns |= {query: f"{{utility[{query}][median]:.2f}}" for query in result["parameters"]["queries"]}
    columns |= {"held": "{windows_within_target:.0%}", "wait, s": "{wait[median]:.1f}", "most, s": "{wait[max]:.1f}"}
    return Shown(
        columns,
        "Utility of queries: mean, worst, Jain's index, each; windows that held the target; waits by window. Worst "
        "query, balanced over BALANCE-SIC: {worst_over_balance_sic:.2f}. Mean, balanced over random: "
        "{mean_over_random:.2f}.",
        lambda found: (row | {"wait": row["wait_s"] or {"median": None, "max": None}} for row in found["rows"]),
    )


def growth(result: Result) -> list[Shown]:
    """Files, bytes, memory and time by age, by part, and whether they are flat."""
    ages = {
        "after batches": "{batches:,}",
        "files": "{files:,}",
        "MB": "{bytes:M.1f}",
        "memory, MiB": "{memory_mib:.0f}",
        "ms a batch": "{ms:.2f}",
    }
    parts = {name: f"{{parts[{name}][files]:,}}, {{parts[{name}][ms]:.2f}}" for name in result["rows"][0]["parts"]}
    return [Shown(ages), Shown({"files and ms a batch": "{batches:,}", **parts}), CLAIMS]


CHAOS = Shown(
    {"schedules": "{schedules:,}", "kept every promise": "{kept:,}", "batches": "{batches:,}"},
    rows=lambda result: [result | {"kept": result["claims"][0]["measured"]}],
)
CLAIMS = Shown(
    {"claim": "{claim}", "goal": "{goal:,.4g}", "measured": "{measured:,.4g}", "holds": "{verdict}"},
    rows=lambda result: (one | {"verdict": "yes" if one["holds"] else "NO"} for one in result["claims"]),
)


def fair(result: Result) -> list[Shown]:
    """The fairness of all queries' results, by policy."""
    columns = {"way": "{way}", "Jain": "{jain:.3f}", "by instant": "{jain_instant:.3f}"}
    columns |= {"mean SIC": "{sic_mean:.3f}", "poorest": "{sic_min:.3f}"}
    by_query = {name: f"{{sic[{name}]:.3f}}" for name in result["parameters"]["queries"]}
    return [Shown(columns, "A dash: no result came in time."), Shown({"SIC": "{way}", **by_query})]


def federation(result: Result) -> list[Shown]:
    """The fairness of the queries' SIC, and whether every row is accounted for."""
    columns = {"": "{name}", "Jain's index": "{jain:.3f}", "at each instant": "{jain_instant:.3f}"}
    columns |= {"poorest query": "{poorest:.3f}", "swing": "{oscillation:.3f}"}
    columns |= {query: f"{{sic[{query}]:.2f}}" for query in result["parameters"]["queries"]}
    named = [row | {"name": row.get("policy") or row["when"]} for row in result["rows"]]
    accounts = [row | row["account"] for row in named if "account" in row]
    if "account" in result:
        accounts.append({"name": "all", **result["account"]})
    account = {"account": "{name}", "rows in": "{rows_in:,}", "shed": "{shed:,}", "under way on links": "{under_way:,}"}
    account |= {"lost": "{lost:,}", "balances": "{verdict}"}
    return [
        Shown(columns, rows=lambda _: named),
        Shown(
            account,
            rows=lambda _: (one | {"verdict": "yes" if one["balances"] else "DOES NOT BALANCE"} for one in accounts),
        ),
    ]
