"""Runs of `penstock bench`, and how their results are printed."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.table import Column, Table

from penstock.errors import PenstockError
from penstock.federation.kafka_bus import KafkaBus

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


def in_folder(
    bench: Callable[..., dict[str, Any]], *given: object, where: str | None = None
) -> Callable[[Callable[[], None]], dict[str, Any]]:
    """A run of a benchmark that takes a folder, in one that is deleted afterwards."""

    def run(done: Callable[[], None]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="penstock-", dir=where, ignore_cleanup_errors=True) as folder:
            return bench(Path(folder), *given, done)

    return run


def show_simulator(out: Console, result: dict[str, Any]) -> None:
    """Verdicts per second of each algorithm, and the time of the paper's runs."""
    from penstock.bench.simulator import PAPER_RUNS

    table = Table("algorithm", "million verdicts per second and core", "slowest to fastest run")
    for row in result["rows"]:
        rate = {name: value / 1e6 for name, value in row["decisions_per_s_per_core"].items()}
        table.add_row(row["algorithm"], f"{rate['mean']:.1f}", f"{rate['min']:.1f} to {rate['max']:.1f}")
    out.print(table)
    whole = result["whole_runs"]
    out.print(
        f"Streams and the paper's four algorithms together: {whole['decisions_per_s_per_core'] / 1e6:.1f} million "
        f"verdicts per second and core; {PAPER_RUNS} runs take {whole['seconds_for_paper_runs']:.0f} s "
        f"on {result['parameters']['jobs']} processes; peak memory {whole['peak_memory_mib']:.0f} MiB.",
        highlight=False,
    )


def show_balanced(out: Console, result: dict[str, Any]) -> None:
    """The utility that each policy delivered to the queries."""
    queries = list(result["parameters"]["queries"])
    columns = ("policy", "mean", "worst", "Jain", *queries, "held", "wait", "most")
    table = Table(*(Column(name, no_wrap=True) for name in columns), box=SIMPLE, padding=(0, 1, 0, 0))
    for row in result["rows"]:
        own = [f"{row['utility'][name]['median']:.2f}" for name in queries]
        waits = ["-"] * 2 if row["wait_s"] is None else [f"{row['wait_s'][one]:.1f} s" for one in ("median", "max")]
        cells = [f"{row[name]['median']:.2f}" for name in ("mean", "worst", "jain")]
        table.add_row(row["way"], *cells, *own, f"{row['windows_within_target']:.0%}", *waits)
    out.print(table)
    told = "Utility of queries: mean, worst, Jain's index, each; windows that held the target; waits by window."
    out.print(told, highlight=False)
    for name, words in (
        ("worst_over_balance_sic", "Worst query, balanced over BALANCE-SIC"),
        ("mean_over_random", "Mean, balanced over random"),
    ):
        if (ratio := result[name]) is not None:
            spread = f"({ratio['min']:.2f} to {ratio['max']:.2f})"
            out.print(f"{words}: {ratio['median']:.2f} {spread}.", highlight=False)


def show_growth(out: Console, result: dict[str, Any]) -> None:
    """Files, bytes, memory and time by age, and whether they are flat."""
    table = Table("after batches", "files", "MB", "memory, MiB", "ms a batch")
    for row in result["rows"]:
        cells = f"{row['files']:,}", f"{row['bytes'] / 1e6:.1f}", f"{row['memory_mib']:.0f}", f"{row['ms']:.2f}"
        table.add_row(f"{row['batches']:,}", *cells)
    out.print(table)
    by_part = Table("files and ms a batch", *result["rows"][0]["parts"])
    for row in result["rows"]:
        own = [f"{one['files']:,}, {one['ms']:.2f}" for one in row["parts"].values()]
        by_part.add_row(f"{row['batches']:,}", *own)
    out.print(by_part)
    for claim in result["claims"]:
        goal, measured = (f"{claim[name]:,.4g}" for name in ("goal", "measured"))
        holds = "holds" if claim["holds"] else "DOES NOT HOLD"
        out.print(f"{claim['claim']}: {measured}, goal {goal}: {holds}.", highlight=False, soft_wrap=True)


def show_fair(out: Console, result: dict[str, Any]) -> None:
    """The fairness of all queries' results, by policy."""
    names = list(result["parameters"]["queries"])
    table = Table("way", "Jain", "by instant", "mean SIC", "poorest")
    by_query = Table("SIC", *names)
    for row in result["rows"]:
        numbers = (row[name] for name in ("jain", "jain_instant", "sic_mean", "sic_min"))
        table.add_row(row["way"], *("no result in time" if one is None else f"{one:.3f}" for one in numbers))
        by_query.add_row(row["way"], *(f"{row['sic'][name]:.3f}" for name in names))
    out.print(table)
    out.print(by_query)


def run_federation(
    settle_s: float, measure_s: float, servers: str | None, done: Callable[[], None], *, faults: bool
) -> dict[str, Any]:
    """Run the benchmark of three federated sites."""
    from penstock.bench import federation

    if faults and servers is not None:
        raise PenstockError.setting(
            "--kafka", servers, "it without --faults", "examples/federation/run.py stops a broker"
        )
    if servers is not None:
        KafkaBus(servers, "penstock", {}).reach()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the sites would keep running
    with tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        wire = federation.FolderWire(Path(folder) / "wire") if servers is None else federation.KafkaWire(servers)
        run = federation.bench_faults if faults else federation.bench_federation
        return run(Path(folder), federation.Effort(settle_s, measure_s), wire, done)


def show_federation(out: Console, result: dict[str, Any]) -> None:
    """The fairness of the queries' SIC, and whether every row is accounted for."""
    table = Table("", "Jain's index", "at each instant", "poorest query", "swing", *result["parameters"]["queries"])
    for row in result["rows"]:
        numbers = [row[name] for name in ("jain", "jain_instant", "poorest", "oscillation")]
        table.add_row(
            row.get("policy") or row["when"],
            *(f"{one:.3f}" for one in numbers),
            *(f"{sic:.2f}" for sic in row["sic"].values()),
        )
    out.print(table)
    for account in [row["account"] for row in result["rows"] if "account" in row] + [result.get("account")]:
        if account is not None:
            balances = "balances" if account["balances"] else "DOES NOT BALANCE"
            out.print(
                f"Rows in: {account['rows_in']:,}, shed: {account['shed']:,}, under way on links: "
                f"{account['under_way']:,}, lost: {account['lost']:,}; the account {balances}.",
                highlight=False,
            )


def show_grouping(out: Console, result: dict[str, Any]) -> None:
    """The times of each grouping, and its gain over round-robin."""
    table = Table(
        "job", "k", "work", "costs", "dealt", "stage, s", "mean completion, s", "p99, s", "stage, gain", "mean"
    )
    for row in result["rows"]:
        gains = [row["speed_up"][name] for name in ("stage_s", "completion_mean_s")]
        long = "" if row["batches_of_s"] == 1 else f", batches of {row['batches_of_s']} s"
        slow = "" if row["slow_instance"] == 1.0 else f", one {row['slow_instance']:g} times slower"
        table.add_row(
            row["job"],
            f"{row['k']}{slow}",
            row["work"],
            row["costs"] + long,
            row["way"],
            *(f"{row[name]['median']:.2f}" for name in ("stage_s", "completion_mean_s", "completion_p99_s")),
            *(f"{gain['median']:.3f} ({gain['min']:.3f} to {gain['max']:.3f})" for gain in gains),
        )
    out.print(table)


def show_series(out: Console, result: dict[str, Any]) -> None:
    """The times of both halves, and from which row costs were used."""
    table = Table("rows", "round-robin, mean ms", "by cost, mean ms", "gain")
    given = result["parameters"]
    means = result["completion_mean_ms"]
    for half, (label, gain) in enumerate(zip(("first half", "second half"), result["speed_up"], strict=True)):
        table.add_row(label, f"{means['round_robin'][half]:.0f}", f"{means['by_cost'][half]:.0f}", f"{gain:.3f}")
    out.print(table)
    first, again = ("never" if row is None else f"from row {row} on" for row in result["run_at"])
    out.print(
        f"Of {given['rows']} rows, costs are gone by {first}, and costs measured after the change at row "
        f"{given['rows'] // 2} {again}.",
        highlight=False,
    )


def show_gate(out: Console, result: dict[str, Any]) -> None:
    """Rows a second and their ratio."""
    table = Table("", "million rows a second", "slowest to fastest", "rows kept")
    for name, label in (("everything", "no gate"), ("sample", "sample(0.5)"), ("gate", "guard.admit")):
        rate = {part: value / 1e6 for part, value in result["rows_per_s"][name].items()}
        spread = f"{rate['min']:.1f} to {rate['max']:.1f}"
        table.add_row(label, f"{rate['median']:.1f}", spread, f"{result['kept_share'][name]:.1%}")
    out.print(table)
    spread = result["ratio_spread"]
    line = f"guard.admit over sample(0.5): {result['ratio']:.3f} ({spread['min']:.3f} to {spread['max']:.3f})."
    out.print(line, highlight=False)


def show_idle(out: Console, result: dict[str, Any]) -> None:
    """Throughput with and without a guard, and the cost of the control table."""
    table = Table("pipeline", "batches of", "rows a second", "slowest to fastest")
    given = result["parameters"]
    for rows, own in ((given["rows_per_batch"], result), (given["short_batch_rows"], result["short_batches"])):
        for name in ("bare", "guarded"):
            rate = own["rows_per_s"][name]
            table.add_row(name, f"{rows} rows", f"{rate['median']:.0f}", f"{rate['min']:.0f} to {rate['max']:.0f}")
    out.print(table)
    spread, short, control = result["ratio_spread"], result["short_batches"], result["control_table_ms"]
    out.print(
        f"guarded over bare: {result['ratio']:.3f} ({spread['min']:.3f} to {spread['max']:.3f}), in short batches "
        f"{short['ratio']:.3f}; rows shed: {result['rows_shed']}; the gate adds {control['median']:.0f} ms to a "
        f"micro-batch ({control['min']:.0f} to {control['max']:.0f}).",
        highlight=False,
    )


def show_latency(out: Console, result: dict[str, Any]) -> None:
    """How each policy held the target."""
    table = Table("overload", "policy", "windows within target", "rows kept", "mean queuing latency by window, s")
    for row in result["rows"]:
        latencies = ", ".join("-" if value is None else f"{value:.2f}" for value in row["queuing_latency_s"])
        cells = (
            f"{row['overload']:.0%}",
            row["policy"],
            f"{row['windows_within_target']:.0%}",
            f"{row['kept']}",
            latencies,
        )
        table.add_row(*cells)
    out.print(table)


def show_balance(out: Console, result: dict[str, Any]) -> None:
    """The time of each algorithm."""
    table = Table("decided by", "ms", "fastest to slowest")
    for row in result["rows"]:
        took = row["decide_ms"]
        table.add_row(row["way"], f"{took['median']:.2f}", f"{took['min']:.2f} to {took['max']:.2f}")
    out.print(table)
    given = result["parameters"]
    out.print(
        f"One node, {given['fragments']} fragments of as many queries with {given['tuples']} tuples, of which "
        f"{given['capacity']} can be kept; {given['repeats']} repeats.",
        highlight=False,
    )


def show_roadmap(out: Console, result: dict[str, Any]) -> None:
    """Times with their spread, and the gain of a look-up over solving a program."""
    given = result["parameters"]
    table = Table("shared", "solver", "entries", "build, s", "look-up, µs", "linear program, ms")
    for row in result["rows"]:
        cells = (_cell(row["build_s"], 2), _cell(row["look_up_us"], 0), _cell(row["program_ms"], 1))
        table.add_row(f"{row['sharing']:.0%}", row["solver"], f"{row['entries']}", *cells)
    out.print(table)
    ratios = sorted(row["program_over_look_up"] for row in result["rows"])
    out.print(
        f"A network of {given['boxes']} boxes; medians with least and most, of {given['repeats']} repeats. "
        f"A linear program solved afresh takes {ratios[0]:.0f} to {ratios[-1]:.0f} times as long as a look-up; to ask "
        f"whether the map has drifted takes {_cell(result['ask_us'], 0)} µs.",
        highlight=False,
    )


def _cell(spread: dict[str, float], digits: int) -> str:
    return f"{spread['median']:.{digits}f} ({spread['min']:.{digits}f} to {spread['max']:.{digits}f})"


def show_density(out: Console, result: dict[str, Any]) -> None:
    """Times with their spread."""
    given = result["parameters"]
    table = Table("queries", "alpha", "ms", "fastest to slowest")
    for row in result["rows"]:
        times = row["ms"]
        spread = f"{times['min']:.0f} to {times['max']:.0f}"
        table.add_row(f"{row['queries']}", row["alpha"], f"{times['median']:.0f}", spread)
    out.print(table)
    out.print(
        f"Keep shares of {given['classes']} classes; medians of {given['repeats']} repeats, "
        f"{result['slowest_ms']:.0f} ms at most. To sort as many numbers takes {result['sort_ms']['median']:.0f} ms.",
        highlight=False,
    )
