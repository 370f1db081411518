"""How results of benchmarks are printed: chosen columns of their rows, chosen facts, and their claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

Result = dict[str, Any]
#: Numbers from here on have no decimals.
_LARGE = 1e4


class Shown(NamedTuple):
    """What is printed of a result, by paths: `ms.median` is one part of a value, `sic.*` every part of it."""

    columns: str = ""  #: of each of its rows; `|` begins another table
    facts: str = ""  #: of the result itself


SHOWN = {
    "sim": Shown(
        "algorithm decisions_per_s_per_core",
        "parameters.jobs whole_runs.decisions_per_s_per_core whole_runs.seconds_for_paper_runs "
        "whole_runs.peak_memory_mib",
    ),
    "grains": Shown("scenario grain windows_within_target worst_window_s kept_share shed_by_the_machine"),
    "roadmap": Shown(
        "sharing solver entries build_s | sharing solver look_up_us program_ms program_over_look_up",
        "parameters.boxes ask_us",
    ),
    "density": Shown("queries alpha ms", "parameters.* slowest_ms sort_ms"),
    "balance": Shown("way decide_ms", "parameters.*"),
    "gate": Shown(facts="rows_per_s.* kept_share.* ratio_spread"),
    "idle": Shown(
        facts="rows_per_s.* ratio_spread short_batches.rows_per_s.* short_batches.ratio_spread rows_shed "
        "control_table_ms"
    ),
    "latency": Shown("overload policy windows_within_target kept queuing_latency_s", "parameters.*"),
    "grouping": Shown(
        "job k slow_instance batches_of_s work costs way stage_s.median completion_mean_s.median speed_up.stage_s"
    ),
    "figure 12": Shown(facts="parameters.rows completion_mean_ms.* speed_up run_at"),
    "balanced": Shown(
        "way mean.median worst.median jain.median windows_within_target wait_s | way utility.*",
        "worst_over_balance_sic mean_over_random",
    ),
    "growth": Shown("batches files bytes memory_mib ms | batches parts.*.files | batches parts.*.ms"),
    "fair": Shown("way jain jain_instant sic_mean sic_min | way sic.*"),
    "federation": Shown(
        "policy when jain jain_instant poorest oscillation | policy when sic.* | policy account.rows_in account.shed "
        "account.under_way account.lost account.balances",
        "account.rows_in account.shed account.under_way account.lost account.balances",
    ),
    "store": Shown(facts="requests_per_batch.* us_dollars_a_month plan_to_gate_ms"),
    "chaos": Shown(facts="schedules seed batches"),
}


def show(out: Console, result: Result, name: str) -> None:
    """Print a result: a table of its rows, one of its claims, and facts, one a line."""
    columns, facts = SHOWN[name]
    for part in columns.split("|") if columns else ():
        if (table := _table(result["rows"], part)).columns:
            out.print(table)
    if "claims" in result:
        out.print(_table(result["claims"], "claim goal measured holds"))
    for path, value in _found(result, facts):
        out.print(f"{_words(path)}: {_cell(value)}")


def show_answers(out: Console, result: Result) -> None:
    """How often intervals hold the true value, by question and case."""
    cases = list(dict.fromkeys(row["case"] for row in result["rows"]))
    table = Table("held, in percent", *cases)
    for question in dict.fromkeys(row["question"] for row in result["rows"]):
        own = [row for row in result["rows"] if row["question"] == question]
        told = [f"{100.0 * row['coverage']:.1f}" for row in own]
        table.add_row(question, *(t if row["promised"] else f"({t})" for t, row in zip(told, own, strict=True)))
    counted = [row for row in result["rows"] if row["question"] == "count"]
    table.add_row("effective rows", *(f"{row['effective_rows']:.0f}" for row in counted))
    out.print(table)
    least, most = result["parameters"]["promised"]
    out.print(f"In brackets: beyond what is promised, {least:.0%} to {most:.0%}.")


def _table(rows: list[Result], columns: str) -> Table:
    """Columns that no row has are left out."""
    found = [dict(_found(row, columns)) for row in rows]
    found = [row for row in found if len(row) > 1]
    paths = list(dict.fromkeys(path for row in found for path in row))
    table = Table(*map(_words, paths))
    for row in found:
        table.add_row(*(_cell(row.get(path)) for path in paths))
    return table


def _found(data: Result, paths: str) -> Iterator[tuple[str, Any]]:
    """The values at these paths that are there."""
    for path in paths.split():
        found: list[tuple[str, Any]] = [("", data)]
        for part in path.split("."):
            found = [
                (f"{before}.{name}" if before else name, value[name])
                for before, value in found
                if isinstance(value, dict)
                for name in (value if part == "*" else [part])
                if name in value
            ]
        yield from found


def _words(path: str) -> str:
    return path.removesuffix(".median").replace(".", ", ").replace("_", " ")


def _cell(value: Any) -> str:  # noqa: ANN401 - JSON data of any shape
    """A value for people; of a spread the median or mean, with minimum and maximum behind it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "NO"
        case int() | float():
            return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:,.4g}"
        case {"min": least, "max": most}:
            return f"{_cell(value.get('median', value.get('mean')))} ({_cell(least)} to {_cell(most)})"
        case list() | tuple():
            return ", ".join(map(_cell, value))
    return str(value)
