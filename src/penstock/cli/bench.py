"""`penstock bench NAME`: the commands; `bench_runs` runs them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from penstock import hardware
from penstock.cli import bench_runs as runs_of
from penstock.cli import options
from penstock.cli.printing import SCREEN, check_outputs, jobs_or_cores, progress_bar, write_json
from penstock.errors import PenstockError
from penstock.extras import require_spark

_GROUPING_REPEATS = 3
#: Broken promises that are shown.
_MOST_TOLD = 10

#: Runs a benchmark with a progress callback, and prints its result.
_Run = Callable[[Callable[[], None]], dict[str, Any]]
_Show = Callable[[Console, dict[str, Any]], None]

group = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True, add_completion=False)


@group.command("sim")
def bench_simulator(*, runs: options.Runs = 200, jobs: options.Jobs = 0, json_file: options.Json = None) -> None:
    """Verdicts per second and core of the simulator, and the time of the paper's 5,000 runs."""
    from penstock.bench.simulator import bench_sim

    _bench("simulator", 2 * runs, partial(bench_sim, runs, jobs_or_cores(jobs)), runs_of.show_simulator, json_file)


@group.command("answers")
def bench_answers(*, runs: options.Runs = 20_000, seed: options.Seed = 0, json_file: options.Json = None) -> None:
    """How often 95 percent intervals contain the true value, for groups drawn and shed at random."""
    from penstock.sim.coverage import CASES, LEAST, MOST, bench_coverage

    json_file = check_outputs(None, json_file)
    with progress_bar() as progress:
        result = bench_coverage(runs, seed, partial(progress.advance, progress.add_task("answers", total=len(CASES))))
    found = {(row["question"], row["case"]): row for row in result["rows"]}
    table = Table("held, in percent", *(case.name for case in CASES))
    for question in dict.fromkeys(row["question"] for row in result["rows"]):
        cells = [found[question, case.name] for case in CASES]
        told = [f"{100.0 * one['coverage']:.1f}" for one in cells]
        table.add_row(
            question, *(text if one["promised"] else f"({text})" for text, one in zip(told, cells, strict=True))
        )
    table.add_row("effective rows", *(f"{found['count', case.name]['effective_rows']:.0f}" for case in CASES))
    SCREEN.print(table)
    SCREEN.print(
        f"In brackets: beyond what is promised, {100 * LEAST:.0f} to {100 * MOST:.0f} percent.", highlight=False
    )
    write_json(json_file, result)


@group.command("grains")
def bench_shedding_grains(*, seed: options.Seed = 0, json_file: options.Json = None) -> None:
    """The gate, the row gate, and both together on a micro-batch query, on virtual time."""
    from penstock.sim.grains import GRAIN_RUNS, bench_grains

    json_file = check_outputs(None, json_file)
    with progress_bar() as progress:
        result = bench_grains(seed, partial(progress.advance, progress.add_task("grains", total=GRAIN_RUNS)))
    table = Table("scenario", "grain", "windows within target", "worst window", "rows kept", "shed by the machine")
    for row in result["rows"]:
        worst, kept, late = row["worst_window_s"], row["kept_share"], row["shed_by_the_machine"]
        within = f"{row['windows_within_target']:.0%}"
        table.add_row(row["scenario"], row["grain"], within, f"{worst:.2f} s", f"{kept:.1%}", f"{late:.1%}")
    SCREEN.print(table)
    write_json(json_file, result)


@group.command("roadmap")
def bench_roadmap(
    *, boxes: options.Boxes = 1000, repeats: options.Repeats = 9, seed: options.Seed = 0, json_file: options.Json = None
) -> None:
    """Time to build and read a road map of a random network, against a linear program at every change."""
    from penstock.bench import roadmap

    run = partial(roadmap.bench_roadmap, boxes, repeats, seed)
    _bench("road map", repeats, run, runs_of.show_roadmap, json_file)


@group.command("density")
def bench_density(
    *,
    classes: options.ClassCount = 100_000,
    repeats: options.Repeats = 9,
    seed: options.Seed = 0,
    json_file: options.Json = None,
) -> None:
    """Time of Balanced to allot work to many classes of rows, for alpha 0, 1, 2 and infinity."""
    from penstock.bench import density

    run = partial(density.bench_density, classes, repeats, seed)
    _bench("density", repeats, run, runs_of.show_density, json_file)


@group.command("gate")
def bench_gate(
    *, rows: options.GateRows = 60_000_000, repeats: options.Repeats = 7, json_file: options.Json = None
) -> None:
    """Rows a second of the gate on Spark, against DataFrame.sample on the same rows."""
    require_spark()
    from penstock.bench import gate

    run = runs_of.in_folder(gate.bench_gate, rows, repeats)
    _bench("gate", repeats + 3, run, runs_of.show_gate, json_file)


@group.command("idle")
def bench_idle(*, repeats: options.Repeats = 5, json_file: options.Json = None) -> None:
    """Cost of a guard on Spark without overload: a guarded pipeline against the bare one."""
    require_spark()
    from penstock.bench import idle

    _bench("idle", repeats + 1, runs_of.in_folder(idle.bench_idle, repeats), runs_of.show_idle, json_file)


@group.command("latency")
def bench_latency(
    *,
    learn: options.Learn = 20.0,
    measure: options.Measure = 60.0,
    prefer: options.PreferRows = "cheap",
    repeats: options.Repeats = 1,
    json_file: options.Json = None,
) -> None:
    """How each policy holds a 2 s target on Spark at 25, 50 and 100 percent overload; 22 minutes a repeat."""
    require_spark()
    from penstock.bench import latency

    effort = latency.Effort(repeats, learn_s=learn, measure_s=measure, prefer="cheap" if prefer == "cheap" else "any")
    run = runs_of.in_folder(latency.bench_latency, effort)
    _bench("latency", 15 * repeats, run, runs_of.show_latency, json_file)


@group.command("grouping")
def bench_grouping(
    *,
    figure_12: Annotated[
        bool, typer.Option("--figure-12", help="OSG's figure 12 in its place: completion times as speeds change.")
    ] = False,
    repeats: options.GroupingRepeats = None,
    json_file: options.Json = None,
) -> None:
    """Gain of grouping by cost on Spark over repartition(k), and against known costs; 40 minutes."""
    if figure_12 and repeats is not None:
        raise PenstockError.setting("--repeats", repeats, "it without --figure-12, which is one run")
    require_spark()
    from penstock.bench import grouping, grouping_series

    if figure_12:
        run = runs_of.in_folder(grouping_series.bench_series, grouping_series.Series())
        _bench("figure 12", 3, run, runs_of.show_series, json_file)
        return
    effort = grouping.Effort(repeats or _GROUPING_REPEATS)
    run = runs_of.in_folder(grouping.bench_grouping, effort)
    _bench("grouping", effort.steps, run, runs_of.show_grouping, json_file)


@group.command("balanced")
def bench_balanced(
    *,
    repeats: options.Repeats = 3,
    learn: options.Learn = 45.0,
    measure: options.Measure = 30.0,
    json_file: options.Json = None,
) -> None:
    """Utility of policies for three queries of different cost and worth, at twice the load; 8 minutes a repeat."""
    require_spark()
    from penstock.bench import balanced

    effort = balanced.Effort(repeats, settle_s=learn, measure_s=measure)
    run = runs_of.in_folder(balanced.bench_balanced, effort)
    _bench("balanced", effort.steps, run, runs_of.show_balanced, json_file)


@group.command("chaos")
def bench_chaos(
    *,
    schedules: options.Schedules = 10_000,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    json_file: options.Json = None,
) -> None:
    """Whether loop, store and planner keep their promises under seeded schedules of faults; a minute for 10,000."""
    from penstock.sim import chaos

    json_file = check_outputs(None, json_file)
    with progress_bar() as progress:
        task = progress.add_task("chaos", total=schedules)
        found = chaos.run_all(schedules, seed, jobs_or_cores(jobs), partial(progress.advance, task))
    kept = schedules - len(found.broken)
    claim = {"claim": "schedules in which every promise is kept", "goal": schedules, "measured": kept}
    result = {
        "schedules": schedules,
        "seed": seed,
        "batches": found.batches,
        "broken": {str(one): promise for one, promise in found.broken.items()},
        "claims": [claim | {"holds": kept == schedules}],
        "machine": hardware.describe(),
    }
    SCREEN.print(
        f"{kept:,} of {schedules:,} schedules kept every promise; {found.batches:,} batches ran.", highlight=False
    )
    for one, promise in list(found.broken.items())[:_MOST_TOLD]:
        again = f"penstock bench chaos --schedules 1 --seed {one}"
        SCREEN.print(f"Broken: {promise}. Repeat it with: {again}", highlight=False, soft_wrap=True)
    write_json(json_file, result)
    if found.broken:
        raise typer.Exit(1)


@group.command("growth")
def bench_growth(*, batches: options.GrowthBatches = 100_000, json_file: options.Json = None) -> None:
    """Growth of files, memory and batch time over a day of batches; 30 minutes."""
    require_spark()
    from penstock.bench import growth

    ages = batches // 100, batches // 10, batches
    run = runs_of.in_folder(growth.bench_growth, ages, growth.TIMED, where=growth.ram_disk())
    _bench("growth", 4, run, runs_of.show_growth, json_file)


@group.command("fair")
def bench_fair(
    *, settle: options.Learn = 30.0, measure: options.Measure = 40.0, json_file: options.Json = None
) -> None:
    """Fairness of four overloaded queries: Fair, random shedding, a guard each, and Spark's pools."""
    require_spark()
    from penstock.bench import fair

    effort = fair.Effort(settle_s=settle, measure_s=measure)
    _bench("fair", effort.steps, runs_of.in_folder(fair.bench_fair, effort), runs_of.show_fair, json_file)


@group.command("balance")
def bench_balance(
    *,
    fragments: options.Fragments = 2000,
    repeats: options.Repeats = 101,
    seed: options.Seed = 0,
    json_file: options.Json = None,
) -> None:
    """Time of an overloaded node to decide which tuples to keep, fairly and at random."""
    from penstock.bench import balance

    run = partial(balance.bench_balance, fragments, repeats, seed)
    _bench("balance", repeats, run, runs_of.show_balance, json_file)


@group.command("federation")
def bench_federation(
    *,
    settle: options.Learn = 40.0,
    measure: options.Measure = 60.0,
    kafka: Annotated[
        str | None, typer.Option(help="Connect the sites by a Kafka broker instead of a folder.", metavar="HOST:PORT")
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="Kill a site, cut the transport, send bad messages, shift a clock.")
    ] = False,
    json_file: options.Json = None,
) -> None:
    """Fairness of the SIC of queries shared by three sites, against random shedding; 5 minutes."""
    require_spark()
    run = partial(runs_of.run_federation, settle, measure, kafka, faults=faults)
    _bench("federation", 2, run, runs_of.show_federation, json_file)


def _bench(name: str, steps: int, run: _Run, show: _Show, json_file: Path | None) -> None:
    json_file = check_outputs(None, json_file)
    with progress_bar() as progress:
        result = run(partial(progress.advance, progress.add_task(name, total=steps)))
    result["machine"] = hardware.describe()
    show(SCREEN, result)
    SCREEN.print(f"Measured on {hardware.in_one_line(result['machine'])}.", highlight=False)
    write_json(json_file, result)
