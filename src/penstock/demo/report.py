"""The demo's numbers as sentences and tables, for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table as RichTable

from penstock.demo.result import TOP_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

Facts = dict[str, Any]


class Table(NamedTuple):
    """A table with a note."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def show(console: Console, result: Facts) -> None:
    """Print all of it."""
    console.print(introduction(result), highlight=False)
    for table in tables(result):
        shown = RichTable(title=table.title, title_justify="left")
        for number, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if number else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print()
        console.print(shown)
        if table.note:
            console.print(table.note, highlight=False)
    console.print()
    for sentence in verdicts(result):
        console.print(sentence, style="bold", highlight=False)
    for line in notes(result):
        console.print(line, style="yellow", highlight=False, markup=False)


def introduction(result: Facts) -> str:
    """The setup, in a few sentences."""
    load = result["workload"]
    ends = " and ".join(f"{run['end_s']:.0f} s" for run in result["runs"])
    return (
        f"The same query twice on {load['cores']} cores, {result['seconds']:g} s each and until the batch that then "
        f"ran had ended ({ends}). A row costs {load['min_cost_ms']:g} to {load['max_cost_ms']:g} ms of work, by its "
        f"key; {load['mean_cost_ms']:.2f} ms on average. For {load['calm_s']:g} s rows arrive at "
        f"{load['calm_load']:.0%} of what the cores can do ({load['calm_rows_per_s']:,.0f} rows/s), then at "
        f"{load['overload']:.0%} ({load['overload_rows_per_s']:,.0f} rows/s). Target: rows wait "
        f"{result['target_s']:g} s on average until they are taken up. Rows with {load['must_keep']} must be kept. "
        "Unguarded is a dry run, which keeps every row and measures alike; its batches have at most "
        f"{load['rows_per_batch']:,} rows, or each would be twice as long as the one before. Guarded there is no such "
        "limit."
    )


def verdicts(result: Facts) -> list[str]:
    """The result: one sentence a run, with the account."""
    target_s = result["target_s"]
    found = []
    for run in result["runs"]:
        means = _means(run)
        held = sum(mean_s <= target_s for mean_s in means)
        last = f", {means[-1]:.2f} s in the last" if means else ""
        account = run["account"]
        shed = sum(account["shed"].values())
        lost = account["must_keep_in"] - account["must_keep_kept"]
        found.append(
            f"{run['name'].capitalize()}: {held} of {len(means)} windows within {target_s:g} s{last}; "
            f"{shed:,} of {account['rows_in']:,} rows shed, and {lost:,} of the "
            f"{account['must_keep_in']:,} that must be kept."
        )
    return found


def notes(result: Facts) -> list[str]:
    """Problems: the guard's alarms, and why the target was missed."""
    guarded = result["runs"][-1]
    found = [f"The guard says: {alarm}" for alarm in guarded["alarms"]]
    if not (means := _means(guarded)) or means[-1] > result["target_s"]:
        longest = max(guarded["batches"], key=lambda batch: batch["end_s"] - batch["start_s"])
        found.append(
            "The target was missed in the last window. The longest batch took "
            f"{longest['end_s'] - longest['start_s']:.1f} s, in which each core worked on rows for "
            f"{longest['busy_s'] / result['workload']['cores']:.1f} s; the rest went to Spark and to what else runs on "
            "this machine. Try again when it is idle, or give a longer --target."
        )
    return found


def tables(result: Facts) -> list[Table]:
    """All tables, in the order of reading."""
    guarded = result["runs"][-1]
    return [latency(result), account(result["runs"]), answers(guarded), by_cost(guarded), top_keys(guarded)]


def latency(result: Facts) -> Table:
    """Mean wait by window, for both runs."""
    runs, target_s = result["runs"], result["target_s"]
    rows = []
    for windows in zip(*(run["windows"] for run in runs), strict=True):
        time = f"{windows[0]['start_s']:g} to {windows[0]['end_s']:g} s"
        rows.append((time, *(_wait(window["mean_wait_s"], target_s) for window in windows)))
    rows.append(("longest wait", *(_longest(run["windows"]) for run in runs)))
    note = f"By the time at which rows were taken up; ! is above the target, {target_s:g} s."
    return Table("Mean queuing latency", ("", *(run["name"] for run in runs)), rows, note)


def account(runs: list[Facts]) -> Table:
    """The account of every row."""
    reasons = dict.fromkeys(reason for run in runs for reason in run["account"]["shed"])
    names = ["rows in", "= kept", "+ shed", *(f"  {reason}" for reason in reasons)]
    names += ["must be kept", "  of these kept", "batches", "exact in each batch"]
    columns = []
    for found in (run["account"] for run in runs):
        shed = found["shed"]
        counts = [found["rows_in"], found["kept"], sum(shed.values()), *(shed.get(reason, 0) for reason in reasons)]
        counts += [found["must_keep_in"], found["must_keep_kept"], found["batches"]]
        columns.append([*(f"{count:,}" for count in counts), "yes" if found["exact"] else "NO"])
    rows = list(zip(names, *columns, strict=True))
    note = "Exact: rows in = kept + shed, and the query's results hold the rows kept, each once."
    return Table("The account", ("", *(run["name"] for run in runs)), rows, note)


def answers(run: Facts) -> Table:
    """What weighted rows say about all rows."""
    rows = []
    for answer in run["answers"]:
        digits = 0 if answer["name"] == "rows" else 3
        truth, weighted, plain = (f"{answer[name]:,.{digits}f}" for name in ("truth", "weighted", "plain"))
        margin = f"{2.0 * answer['standard_error']:,.{digits}f}"
        off = f"{answer['weighted'] / answer['truth'] - 1.0:+.1%}" if answer["truth"] else ""
        rows.append((answer["name"], truth, weighted, margin, off, plain))
    columns = ("", "truth", "by weight", "± 2 s.e.", "off by", "without weights")
    return Table("Answers from the rows kept, guarded", columns, rows)


def by_cost(run: Facts) -> Table:
    """What was kept by cost of a row."""
    rows = [
        (
            "must be kept" if one["must_keep"] else f"{one['above_ms']:g} to {one['to_ms']:g} ms",
            f"{one['rows_in']:,}",
            f"{one['kept']:,}",
            _share(one["kept"], one["rows_in"]),
            f"{one['weight']:,.0f}",
        )
        for one in run["by_cost"]
    ]
    columns = ("a row costs", "rows in", "kept", "keep share", "counted by weight")
    return Table("By cost, guarded", columns, rows)


def top_keys(run: Facts) -> Table:
    """The keys that lost most rows."""
    rows = [
        (
            str(one["key"]),
            f"{one['cost_ms']:.1f} ms",
            f"{one['rows_in']:,}",
            f"{one['rows_in'] - one['kept']:,}",
            _share(one["kept"], one["rows_in"]),
        )
        for one in run["keys"][:TOP_KEYS]
        if one["kept"] < one["rows_in"]
    ]
    columns = ("key", "cost", "rows in", "shed", "keep share")
    return Table("Keys with most rows shed, guarded", columns, rows)


def _means(run: Facts) -> list[float]:
    """Mean waits by the window in which rows were processed."""
    return [window["mean_wait_s"] for window in run["windows"] if window["mean_wait_s"] is not None]


def _wait(mean_s: float | None, target_s: float) -> str:
    if mean_s is None:
        return "no rows"
    return f"{mean_s:.2f} s" if mean_s <= target_s else f"! {mean_s:.2f} s"


def _longest(windows: list[Facts]) -> str:
    waits_s = [window["max_wait_s"] for window in windows if window["max_wait_s"] is not None]
    return f"{max(waits_s):.2f} s" if waits_s else "no rows"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else ""
