"""The `penstock` command: every command takes `--json FILE`, and a mistake in its use is one line and exit status 2."""

import json
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import penstock
from penstock import (
    cli_aurora,
    cli_bench,
    cli_dashboard,
    cli_osg,
    cli_plus,
    cli_replay,
    cli_roadmap,
    cli_run,
    cli_site,
    cli_themis,
    cli_whatif,
    hardware,
)
from penstock.cli_options import (
    Batches,
    Boxes,
    Checkpoints,
    ClassCount,
    Cores,
    Dashboard,
    DemoOut,
    Eps,
    Folder,
    Fragments,
    GateRows,
    GroupingRepeats,
    Host,
    Jobs,
    Json,
    Kind,
    Learn,
    LogPath,
    LogQuery,
    LogTarget,
    Measure,
    NetworkPath,
    OsgRuns,
    Out,
    Placement,
    Port,
    PreferRows,
    Repeats,
    RunKind,
    RunOut,
    Runs,
    RunSeconds,
    Seconds,
    Seed,
    Shed,
    SiteAccounts,
    SiteFolder,
    SitePath,
    Solver,
    SparkConf,
    Spread,
    Step,
    StreamRows,
    Target,
    ThemisRuns,
    Token,
    Trigger,
)
from penstock.errors import PenstockError
from penstock.output import writable_file, writable_folder, write_files
from penstock.sim import workload
from penstock.sim.bench import PAPER_RUNS, bench_sim
from penstock.sim.figures import (
    aurora,
    aurora_plots,
    las,
    las_plots,
    osg,
    osg_plots,
    plus,
    plus_plots,
    themis,
    themis_plots,
)
from penstock.sim.figures.result import Figure, to_json, to_markdown
from penstock.sim.grains import GRAIN_RUNS, bench_grains
from penstock.sim.parallel import Workers
from penstock.sim.workload import Stream
from penstock.web.serve import PORT

#: What Typer returns after Ctrl-C, and what a shell expects.
_INTERRUPTED = 130
_GROUPING_REPEATS = 3

app = typer.Typer(
    name="penstock",
    help="Keeps an overloaded stream within its latency target and says exactly what was dropped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
reproduce = typer.Typer(help="Rerun a paper's experiments on virtual time.", no_args_is_help=True)
bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")
app.add_typer(bench, name="bench")

_out = Console()


@app.callback(invoke_without_command=True)
def _penstock(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        _out.print(f"penstock {penstock.__version__}", highlight=False)
        raise typer.Exit


@reproduce.command("las")
def reproduce_las(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(las.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: Runs = 60,
    seed: Seed = 0,
    eps: Eps = las.Effort.epsilon,
    jobs: Jobs = 0,
    out: Out = None,
    json_file: Json = None,
    data: Annotated[
        Path | None, typer.Option(help="Figure 7: a recorded stream, Parquet or CSV.", metavar="FILE")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Figure 7: its key column.", metavar="COLUMN")] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="Figure 7: its column of costs in ms; without it keys get 1, 5 or 25 ms.", metavar="COLUMN"),
    ] = None,
    arrival: Annotated[
        str | None,
        typer.Option(
            help="Figure 7: its column of arrival times, timestamps or seconds; else rows come at the mean cost.",
            metavar="COLUMN",
        ),
    ] = None,
) -> None:
    """Load-Aware Shedding (Rivetti, Busnel, Querzoni, DEBS 2016): figures 4 to 7, eps, and ours against it (plus)."""
    names = list(las.FIGURES) if figure is None else [figure]
    if figure is not None and figure not in las.FIGURES:
        raise PenstockError.setting("--figure", figure, f"one of {', '.join(las.FIGURES)}")
    if (data is None) != (key is None):
        raise PenstockError("--data and --key go together: give a Parquet or CSV file and the name of its key column")
    if (cost is not None or arrival is not None) and data is None:
        raise PenstockError("--cost and --arrival name columns of --data: give --data and --key as well")
    if data is not None and "7" not in names:
        raise PenstockError.setting(
            "--data", str(data), "it with --figure 7, the only one that reads a recorded stream"
        )
    columns = {"data": data, "key": key, "cost": cost, "arrival": arrival}
    origin = {name: value and str(value) for name, value in columns.items()} if data is not None else None
    recorded = _recorded(data, key, cost, arrival, seed) if data is not None and key is not None else None
    json_file = _check_outputs(out, json_file)
    makers: dict[str, Callable[[las.Effort], Figure]] = {
        **las.FIGURES,
        "7": partial(las.figure_7, recorded=recorded, origin=origin),
    }
    figures = []
    with _progress() as progress, Workers(_jobs(jobs)) as workers:
        effort = las.Effort(runs=runs, seed=seed, workers=workers, epsilon=eps)
        for name in names:
            task = progress.add_task(f"figure {name}", total=las.tasks(name, runs))
            done = partial(progress.advance, task)
            figures.append(makers[name](replace(effort, done=done)))
    about = hardware.describe()
    given = {"figure": figure, "runs": runs, "seed": seed, "eps": eps, **columns}
    _tell(_Paper("LAS", las_plots.plot), figures, out, json_file, _command("penstock reproduce las", given), about)


@reproduce.command("aurora")
def reproduce_aurora(
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(aurora.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: Runs = aurora.Effort.runs,
    seed: Seed = 0,
    jobs: Jobs = 0,
    out: Out = None,
    json_file: Json = None,
) -> None:
    """Load shedding in Aurora (Tatbul et al., VLDB 2003): figures 9 to 12, and road maps beyond the paper (plus)."""
    if figure is not None and figure not in aurora.FIGURES:
        raise PenstockError.setting("--figure", figure, f"one of {', '.join(aurora.FIGURES)}")
    json_file = _check_outputs(out, json_file)
    figures = []
    with _progress() as progress, Workers(_jobs(jobs)) as workers:
        for name in list(aurora.FIGURES) if figure is None else [figure]:
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=aurora.tasks(name, runs)))
            figures.append(aurora.FIGURES[name](aurora.Effort(runs=runs, seed=seed, workers=workers, done=done)))
    command = _command("penstock reproduce aurora", {"figure": figure, "runs": runs, "seed": seed})
    _tell(_Paper("Aurora", aurora_plots.plot), figures, out, json_file, command, hardware.describe())


@reproduce.command("osg")
def reproduce_osg(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(osg.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: OsgRuns = osg.Effort.runs,
    seed: Seed = 0,
    rows: StreamRows = None,
    jobs: Jobs = 0,
    out: Out = None,
    json_file: Json = None,
    data: Annotated[
        Path | None, typer.Option(help="Figures 13 and 14: a recorded stream, Parquet or CSV.", metavar="FILE")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help=f"Its key column; {cli_osg.KEY_COLUMN} if not given.", metavar="COLUMN")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            help=f"Its column of costs in ms; {cli_osg.COST_COLUMN} if not given. Without one, keys get the figure's.",
            metavar="COLUMN",
        ),
    ] = None,
) -> None:
    """Online Shuffle Grouping (Rivetti et al., Middleware 2016): figures 4 to 14 but 12, and ours beside it (plus)."""
    names = cli_osg.names(figure)
    cli_osg.check_data(figure, data, key, cost, rows)
    json_file = _check_outputs(out, json_file)
    makers = {name: cli_osg.maker(name, data, key, cost, seed) for name in names}
    figures = []
    with _progress() as progress, Workers(_jobs(jobs)) as workers:
        for name, make in makers.items():
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=osg.tasks(name, runs)))
            figures.append(make(osg.Effort(runs=runs, seed=seed, workers=workers, rows=rows, done=done)))
    given = {"figure": figure, "runs": runs, "seed": seed, "rows": rows, "data": data, "key": key, "cost": cost}
    command = _command("penstock reproduce osg", given)
    _tell(_Paper("OSG", osg_plots.plot), figures, out, json_file, command, hardware.describe())


@reproduce.command("plus")
def reproduce_plus(
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(plus.FIGURES)}; all if not given.", metavar="NAME")
    ] = None,
    runs: Runs = plus.Effort.runs,
    seed: Seed = 0,
    jobs: Jobs = 0,
    out: Out = None,
    json_file: Json = None,
) -> None:
    """One policy for cost, worth and fairness: each paper's scenario by its own measure, and what estimates cost."""
    if figure is not None and figure not in plus.FIGURES:
        raise PenstockError.setting("--figure", figure, f"one of {', '.join(plus.FIGURES)}")
    json_file = _check_outputs(out, json_file)
    figures = []
    with _progress() as progress, Workers(_jobs(jobs)) as workers:
        for name in list(plus.FIGURES) if figure is None else [figure]:
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=plus.tasks(name, runs)))
            figures.append(plus.FIGURES[name](plus.Effort(runs=runs, seed=seed, workers=workers, done=done)))
    command = _command("penstock reproduce plus", {"figure": figure, "runs": runs, "seed": seed})
    _tell(_Paper("Balanced", plus_plots.plot), figures, out, json_file, command, hardware.describe())


@reproduce.command("themis")
def reproduce_themis(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(themis.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: ThemisRuns = themis.Effort.runs,
    seed: Seed = 0,
    jobs: Jobs = 0,
    out: Out = None,
    json_file: Json = None,
    data: Annotated[
        Path | None, typer.Option(help="Figures 6 and 7: traces of machines, Parquet or CSV.", metavar="FILE")
    ] = None,
    node: Annotated[
        str | None, typer.Option(help="Its column of machines; node if not given.", metavar="COLUMN")
    ] = None,
    cpu: Annotated[
        str | None, typer.Option(help="Its column of CPU use in percent; cpu if not given.", metavar="COLUMN")
    ] = None,
) -> None:
    """THEMIS (Kalyvianaki et al., SIGMOD 2016): figures 6 to 14, sections 7.5 and 7.6, and ours beside it (plus)."""
    names = cli_themis.names(figure)
    traces = cli_themis.traces(figure, data, node, cpu, seed)
    json_file = _check_outputs(out, json_file)
    figures = []
    with _progress() as progress, Workers(_jobs(jobs)) as workers:
        for name in names:
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=themis.tasks(name, runs)))
            effort = themis.Effort(runs=runs, seed=seed, workers=workers, done=done, traces=traces)
            figures.append(themis.FIGURES[name](effort))
    given = {"figure": figure, "runs": runs, "seed": seed, "data": data, "node": node, "cpu": cpu}
    command = _command("penstock reproduce themis", given)
    _tell(_Paper("THEMIS", themis_plots.plot), figures, out, json_file, command, hardware.describe())


@bench.command("sim")
def bench_simulator(*, runs: Runs = 200, jobs: Jobs = 0, json_file: Json = None) -> None:
    """Verdicts per second and core of the simulator, and the time that the paper's 5,000 runs take."""
    json_file = _check_outputs(None, json_file)
    with _progress() as progress:
        task = progress.add_task("simulator", total=2 * runs)
        result = bench_sim(runs, _jobs(jobs), partial(progress.advance, task))
    result["machine"] = hardware.describe()
    table = Table("algorithm", "million verdicts per second and core", "slowest to fastest run")
    for row in result["rows"]:
        rate = {name: value / 1e6 for name, value in row["decisions_per_s_per_core"].items()}
        table.add_row(row["algorithm"], f"{rate['mean']:.1f}", f"{rate['min']:.1f} to {rate['max']:.1f}")
    _out.print(table)
    whole = result["whole_runs"]
    _out.print(
        f"Streams and the paper's four algorithms together: {whole['decisions_per_s_per_core'] / 1e6:.1f} million "
        f"verdicts per second and core; {PAPER_RUNS} runs take {whole['seconds_for_paper_runs']:.0f} s "
        f"on {result['parameters']['jobs']} processes; peak memory {whole['peak_memory_mib']:.0f} MiB.",
        highlight=False,
    )
    _out.print(f"Measured on {hardware.in_one_line(result['machine'])}.", highlight=False)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@bench.command("grains")
def bench_shedding_grains(*, seed: Seed = 0, json_file: Json = None) -> None:
    """What the gate, the row-by-row machine, and both together do for a micro-batch query, on virtual time."""
    json_file = _check_outputs(None, json_file)
    with _progress() as progress:
        result = bench_grains(seed, partial(progress.advance, progress.add_task("grains", total=GRAIN_RUNS)))
    table = Table("scenario", "grain", "windows within target", "worst window", "rows kept", "shed by the machine")
    for row in result["rows"]:
        worst, kept, late = row["worst_window_s"], row["kept_share"], row["shed_by_the_machine"]
        within = f"{row['windows_within_target']:.0%}"
        table.add_row(row["scenario"], row["grain"], within, f"{worst:.2f} s", f"{kept:.1%}", f"{late:.1%}")
    _out.print(table)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@bench.command("roadmap")
def bench_roadmap(*, boxes: Boxes = 1000, repeats: Repeats = 9, seed: Seed = 0, json_file: Json = None) -> None:
    """How long a road map of a random network takes to build and to read, against a linear program at every change."""
    json_file = _check_outputs(None, json_file)
    with _progress() as progress:
        done = partial(progress.advance, progress.add_task("road map", total=repeats))
        result = cli_aurora.bench(boxes, repeats, seed, done)
    result["machine"] = hardware.describe()
    cli_aurora.show(_out, result)
    _out.print(f"Measured on {hardware.in_one_line(result['machine'])}.", highlight=False)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@bench.command("density")
def bench_density(
    *, classes: ClassCount = 100_000, repeats: Repeats = 9, seed: Seed = 0, json_file: Json = None
) -> None:
    """How long Balanced takes to allot work to many classes of rows, for alpha 0, 1, 2 and infinity."""
    json_file = _check_outputs(None, json_file)
    with _progress() as progress:
        done = partial(progress.advance, progress.add_task("density", total=repeats))
        result = cli_plus.bench_density(classes, repeats, seed, done)
    result["machine"] = hardware.describe()
    cli_plus.show_density(_out, result)
    _out.print(f"Measured on {hardware.in_one_line(result['machine'])}.", highlight=False)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@bench.command("gate")
def bench_gate(*, rows: GateRows = 60_000_000, repeats: Repeats = 7, json_file: Json = None) -> None:
    """Rows a second of the gate on Spark, against DataFrame.sample on the same rows."""
    run = partial(cli_bench.run_gate, rows, repeats)
    _bench_on_spark("gate", repeats + 3, run, cli_bench.show_gate, json_file)


@bench.command("idle")
def bench_idle(*, repeats: Repeats = 5, json_file: Json = None) -> None:
    """What a guard costs on Spark while nothing is overloaded: a guarded pipeline against the bare one."""
    _bench_on_spark("idle", repeats + 1, partial(cli_bench.run_idle, repeats), cli_bench.show_idle, json_file)


@bench.command("latency")
def bench_latency(
    *,
    learn: Learn = 20.0,
    measure: Measure = 60.0,
    prefer: PreferRows = "cheap",
    repeats: Repeats = 1,
    json_file: Json = None,
) -> None:
    """How each policy holds a 2 s target on Spark at 25, 50 and 100 percent overload; 22 minutes a repeat."""
    run = partial(cli_bench.run_latency, learn, measure, prefer, repeats)
    _bench_on_spark("latency", 15 * repeats, run, cli_bench.show_latency, json_file)


@bench.command("grouping")
def bench_grouping(
    *,
    figure_12: Annotated[
        bool, typer.Option("--figure-12", help="OSG's figure 12 in its place: completion times as speeds change.")
    ] = False,
    repeats: GroupingRepeats = None,
    json_file: Json = None,
) -> None:
    """What grouping by cost gains on Spark over repartition(k), and over knowing every cost; 40 minutes."""
    if figure_12 and repeats is not None:
        raise PenstockError.setting("--repeats", repeats, "it without --figure-12, which is one run")
    if figure_12:
        _bench_on_spark("figure 12", 3, cli_bench.run_series, cli_bench.show_series, json_file)
        return
    cli_bench.require_spark()
    run = partial(cli_bench.run_grouping, repeats or _GROUPING_REPEATS)
    _bench_on_spark(
        "grouping", cli_bench.grouping_steps(repeats or _GROUPING_REPEATS), run, cli_bench.show_grouping, json_file
    )


@bench.command("balanced")
def bench_balanced(
    *, repeats: Repeats = 3, learn: Learn = 30.0, measure: Measure = 40.0, json_file: Json = None
) -> None:
    """What policies deliver to three queries that differ in cost and worth, at twice the load; 7 minutes a repeat."""
    cli_bench.require_spark()
    run = partial(cli_bench.run_balanced, repeats, learn, measure)
    _bench_on_spark("balanced", cli_bench.balanced_steps(repeats), run, cli_bench.show_balanced, json_file)


@bench.command("fair")
def bench_fair(*, settle: Learn = 30.0, measure: Measure = 40.0, json_file: Json = None) -> None:
    """How even the results of four overloaded queries are: Fair, random shedding, a guard each, and Spark's pools."""
    cli_bench.require_spark()
    run = partial(cli_bench.run_fair, settle, measure)
    _bench_on_spark("fair", cli_bench.fair_steps(), run, cli_bench.show_fair, json_file)


@bench.command("balance")
def bench_balance(
    *, fragments: Fragments = 2000, repeats: Repeats = 101, seed: Seed = 0, json_file: Json = None
) -> None:
    """How long an overloaded node takes to decide what it keeps, fairly and at random."""
    json_file = _check_outputs(None, json_file)
    with _progress() as progress:
        done = partial(progress.advance, progress.add_task("balance", total=repeats))
        result = cli_bench.run_balance(fragments, repeats, seed, done)
    result["machine"] = hardware.describe()
    cli_bench.show_balance(_out, result)
    _out.print(f"Measured on {hardware.in_one_line(result['machine'])}.", highlight=False)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@bench.command("federation")
def bench_federation(
    *,
    settle: Annotated[float, typer.Option(help="Seconds before measuring begins.", min=0.0, metavar="S")] = 40.0,
    measure: Measure = 60.0,
    kafka: Annotated[
        str | None, typer.Option(help="A Kafka broker between the sites, in place of a folder.", metavar="HOST:PORT")
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="A site killed, the transport away, bad messages, a clock that is off.")
    ] = False,
    json_file: Json = None,
) -> None:
    """How even three sites make the SIC of queries that they share, against random shedding; 5 minutes."""
    run = partial(cli_bench.run_federation, settle, measure, kafka, faults=faults)
    _bench_on_spark("federation", 2, run, cli_bench.show_federation, json_file)


def _bench_on_spark(
    name: str,
    steps: int,
    run: Callable[[Callable[[], None]], dict[str, Any]],
    show: Callable[[Console, dict[str, Any]], None],
    json_file: Path | None,
) -> None:
    cli_bench.require_spark()
    json_file = _check_outputs(None, json_file)
    with _progress() as progress:
        result = run(partial(progress.advance, progress.add_task(name, total=steps)))
    result["machine"] = hardware.describe()
    show(_out, result)
    _out.print(f"Measured on {hardware.in_one_line(result['machine'])}.", highlight=False)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@app.command()
def demo(
    *,
    seconds: Seconds = 40.0,
    target: Target = 2.0,
    seed: Seed = 0,
    out: DemoOut = Path("out/demo"),
    dashboard: Dashboard = False,
    json_file: Json = None,
) -> None:
    """An overloaded Spark query on this machine, first unguarded, then guarded; takes about two minutes."""
    cli_bench.require_spark()
    json_file = _check_outputs(out, json_file)
    from penstock.spark.demo import page, report  # noqa: PLC0415 - the other commands need no Spark
    from penstock.spark.demo.both_runs import MODES, run_demo  # noqa: PLC0415

    with (
        tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as name,
        cli_dashboard.beside(_out, [Path(name) / run for run in MODES], wanted=dashboard),
    ):
        result = run_demo(_out, Path(name), seconds=seconds, target_s=target, seed=seed)
    result["machine"] = hardware.describe()
    machine = hardware.in_one_line(result["machine"])
    report.show(_out, result)
    _out.print(f"Measured on {machine}.", highlight=False)
    made_by = _command("penstock demo", {"seconds": seconds, "target": f"{target:g} s", "seed": seed})
    contents = {out / "demo.html": page.page(result, machine, made_by), out / "demo.json": _json_bytes(result)}
    contents[out / "demo.png"] = page.picture(result)
    if json_file is not None:
        contents[json_file] = _json_bytes(result)
    write_files(contents)
    _print_files(contents)


@app.command()
def roadmap(
    file: NetworkPath,
    *,
    kind: Kind = None,
    shed: Shed = None,
    placement: Placement = None,
    solver: Solver = None,
    step: Step = None,
    json_file: Json = None,
) -> None:
    """The load of a query network, the plans that shed more and more of it, and the one for a given excess."""
    json_file = _check_outputs(None, json_file)
    found = cli_roadmap.answer(file, kind=kind, shed=shed, placement=placement, solver=solver, step=step)
    contents = {json_file: _json_bytes(cli_roadmap.to_json(found))} if json_file else {}
    cli_roadmap.show(_out, found)
    write_files(contents)
    _print_files(contents)


@app.command()
def whatif(
    progress: LogPath,
    *,
    target: LogTarget,
    query: LogQuery = None,
    spread: Spread = 1.0,
    trigger: Trigger = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write whatif.png and whatif.json to this folder.", metavar="DIR")
    ] = None,
    json_file: Json = None,
) -> None:
    """A recorded progress log of Spark, replayed under each policy: what would have been shed, and what latency."""
    json_file = _check_outputs(out, json_file)
    settings = cli_whatif.Settings(target, query, spread, trigger, seed)
    with _progress() as bar:
        found = cli_whatif.answer(progress, settings, partial(bar.advance, bar.add_task("replay", total=7)))
    cli_whatif.show(_out, found)
    contents = {} if out is None else cli_whatif.files(out, found)
    if json_file is not None:
        contents[json_file] = _json_bytes(cli_whatif.to_json(found))
    write_files(contents)
    _print_files(contents)


@app.command("run")
def run_network(  # noqa: PLR0913 - one argument an option
    file: NetworkPath,
    *,
    seconds: RunSeconds = None,
    batches: Batches = None,
    once: Annotated[bool, typer.Option("--once", help="Work off what is there now, and end.")] = False,
    kind: RunKind = None,
    cores: Cores = 2,
    shed: Annotated[bool, typer.Option(help="Drop rows when overloaded.")] = True,
    explain: Annotated[bool, typer.Option("--explain", help="Print Spark's plan of each output.")] = False,
    folder: Folder = None,
    dashboard: Dashboard = False,
    out: RunOut = None,
    json_file: Json = None,
) -> None:
    """Run a query network on Spark: shared boxes once a batch, drops where they cost least utility; Ctrl-C ends it."""
    cli_bench.require_spark()
    json_file = _check_outputs(out, json_file)
    if folder is not None:
        writable_folder("--folder", folder)
    settings = cli_run.Settings(seconds, batches, once, kind, cores, shed, explain, folder)
    page_of = partial(cli_dashboard.beside, _out, wanted=dashboard)
    network, made = cli_run.run(file, settings, _out, lambda folder: page_of([folder]))
    result = cli_run.facts(network, made) | {"machine": hardware.describe()}
    machine = hardware.in_one_line(result["machine"])
    cli_run.show(_out, result)
    _out.print(f"Measured on {machine}.", highlight=False)
    contents: dict[Path, bytes] = {}
    if out is not None:
        from penstock.spark.network.page import page  # noqa: PLC0415 - the other commands need no Spark

        given = {"seconds": seconds, "batches": batches, "kind": kind, "cores": cores}
        made_by = _command(f"penstock run {shlex.quote(str(file))}", given)
        contents[out / "network.html"] = page(network.name, network.network, made.snapshots, machine, made_by)
        contents[out / "network.json"] = _json_bytes(result)
    if json_file is not None:
        contents[json_file] = _json_bytes(result)
    write_files(contents)
    _print_files(contents)


@app.command("dashboard")
def show_dashboard(
    checkpoints: Checkpoints = None,
    *,
    sample: Annotated[bool, typer.Option("--sample", help="Show a simulated query in place of a log.")] = False,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    token: Token = None,
    json_file: Json = None,
) -> None:
    """A live page over the logs of guarded queries and networks; with --json, what it shows, once."""
    json_file = _check_outputs(None, json_file)
    with cli_dashboard.board(checkpoints or [], sample=sample) as shown:
        if json_file is None:
            cli_dashboard.serve(_out, shown, host=host, port=port, token=token)
            return
        contents = {json_file: _json_bytes({"logs": cli_dashboard.state(shown)})}
        write_files(contents)
    _print_files(contents)


@app.command("replay")
def replay_quarantine(
    folder: Annotated[Path, typer.Argument(help="The quarantine of a guard.", metavar="DIR")],
    *,
    into: Annotated[
        str, typer.Option(help="A folder of its own, table:NAME or kafka:TOPIC@HOST:PORT.", metavar="PLACE")
    ],
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="What the guarded query does behind the gate; else rows as they are.", metavar="MODULE:FUNCTION"
        ),
    ] = None,
    when_calm: Annotated[
        Path | None,
        typer.Option(help="Only while the query with this checkpoint sheds nothing.", metavar="CHECKPOINT"),
    ] = None,
    cores: Cores = 2,
    json_file: Json = None,
) -> None:
    """Feed the rows that a guard has shed through the pipeline, each once."""
    cli_bench.require_spark()
    json_file = _check_outputs(None, json_file)
    result = cli_replay.run(folder, into, pipeline, when_calm, cores, _out)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)


@app.command("site")
def run_site(
    file: SitePath = None,
    *,
    seconds: RunSeconds = None,
    batches: Batches = None,
    cores: Cores = 2,
    folder: SiteFolder = None,
    conf: SparkConf = None,
    account: SiteAccounts = None,
    json_file: Json = None,
) -> None:
    """Run one site of a federation on Spark, until Ctrl-C; or, with --account, add up the accounts of several sites."""
    json_file = _check_outputs(None, json_file)
    if (file is None) == (account is None):
        raise PenstockError("give either a site file, or --account with the folder of each site")
    if account is not None:
        added = cli_site.account(account)
        cli_site.show_account(_out, added)
        result = added.to_json()
    elif file is not None:
        cli_bench.require_spark()
        if folder is not None:
            writable_folder("--folder", folder)
        result = cli_site.run(file, cli_site.Settings(seconds, batches, cores, folder, tuple(conf or ())), _out)
        cli_site.show(_out, result)
    contents = {json_file: _json_bytes(result)} if json_file else {}
    write_files(contents)
    _print_files(contents)
    if result.get("balances") is False:
        sys.exit(1)


def main() -> None:
    """Run the command; a mistake in its use ends in one line on standard error and exit status 2."""
    try:
        code: int | None = app(standalone_mode=False)
    except typer.BadParameter as error:
        _fail(error.format_message())
    except (typer.TyperException, PenstockError) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"cannot write the output: {error.strerror}", status=1)
    except BrokenProcessPool:
        _fail("a worker process died, perhaps for want of memory: try again with fewer --jobs", status=1)
    except SystemError as error:
        # So Numba puts a Ctrl-C that reached compiled code.
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        _fail("stopped", status=_INTERRUPTED)
    sys.exit(code or 0)


def _fail(message: str, status: int = 2) -> NoReturn:
    if message:  # without one, help was printed in its place
        sys.stderr.write(f"penstock: {' '.join(message.split())}\n")
    sys.exit(status)


def _jobs(jobs: int) -> int:
    return jobs or int(hardware.describe()["cores"])


def _check_outputs(out: Path | None, json_file: Path | None) -> Path | None:
    """Try both places before the work; JSON that goes to standard output gets it for itself."""
    if out is not None:
        writable_folder("--out", out)
    if json_file in {Path("-"), Path("/dev/stdout")}:
        _out.stderr = True
        return Path("/dev/stdout")
    return None if json_file is None else writable_file("--json", json_file)


def _recorded(data: Path, key: str, cost: str | None, arrival: str | None, seed: int) -> Stream:
    keys, items = workload.read_keys(data, key)
    costs = workload.mention_costs(items, seed)[keys] if cost is None else workload.read_costs(data, cost)
    if arrival is not None:
        return Stream(keys, costs, workload.read_arrivals(data, arrival), items)
    return Stream(keys, costs, workload.arrivals(len(keys), float(costs.mean())), items)


class _Paper(NamedTuple):
    """What it is called, and how its figures are drawn."""

    name: str
    plot: Callable[[Figure], bytes]


def _tell(
    paper: _Paper,
    figures: list[Figure],
    out: Path | None,
    json_file: Path | None,
    made_by: str,
    about: hardware.Description,
) -> None:
    """Write the figures' files and print their claims."""
    contents: dict[Path, bytes] = {}
    if out is not None:
        for figure in figures:
            contents[out / f"{figure.name}.csv"] = figure.to_csv().encode()
            contents[out / f"{figure.name}.json"] = to_json([figure], about).encode()
            contents[out / f"{figure.name}.png"] = paper.plot(figure)
        title = f"{paper.name}: what the paper says, what was measured"
        page = to_markdown(title, figures, made_by, hardware.in_one_line(about))
        contents[out / ("claims.md" if len(figures) > 1 else f"{figures[0].name}.md")] = page.encode()
    if json_file is not None:
        contents[json_file] = to_json(figures, about).encode()
    write_files(contents)
    for one in figures:
        _print_claims(paper.name, one)
    _out.print(f"Measured on {hardware.in_one_line(about)}.", highlight=False)
    _print_files(contents)


def _json_bytes(data: object) -> bytes:
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def _print_claims(paper: str, figure: Figure) -> None:
    table = Table(
        "claim", "paper says", "measured", "holds", title=f"{paper}, figure {figure.figure}", title_justify="left"
    )
    for claim in figure.claims:
        holds = "[green]yes[/green]" if claim.holds else "[red]no[/red]"
        table.add_row(claim.claim, claim.paper, claim.measured, holds)
    _out.print(table)


def _print_files(contents: dict[Path, bytes]) -> None:
    for path in contents:
        _out.print(f"Wrote {path}", highlight=False, markup=False, emoji=False, soft_wrap=True)


def _command(command: str, given: Mapping[str, object]) -> str:
    """The command line that gives the same results again."""
    options = [f"--{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None]
    return " ".join([command, *options])


@contextmanager
def _progress() -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield progress
