"""`penstock reproduce PAPER`: the commands."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from penstock import hardware
from penstock.cli import options
from penstock.cli.printing import SCREEN, check_outputs, command_line, jobs_or_cores, print_files, progress_bar
from penstock.core.settings import one_of
from penstock.errors import PenstockError
from penstock.output import write_files
from penstock.sim import workload
from penstock.sim.aurora import figures as aurora
from penstock.sim.balanced import figures as plus
from penstock.sim.figure import Figure, to_json, to_markdown
from penstock.sim.las import figures as las
from penstock.sim.osg import figures as osg
from penstock.sim.osg.streams import MENTION, REACH, has_column
from penstock.sim.osg.streams import recorded as recorded_keys
from penstock.sim.parallel import Workers
from penstock.sim.themis import figures as themis
from penstock.sim.themis.data import CPU_COLUMN, FREE_COLUMN, NODE_COLUMN, Traces, recorded_traces
from penstock.sim.workload import Stream

group = typer.Typer(help="Rerun a paper's experiments on virtual time.", no_args_is_help=True, add_completion=False)


#: OSG: columns of a recorded stream if no others are named, and the figures that take one.
_KEY, _COST = "key", "cost_ms"
_APPLICATIONS = {"13": MENTION, "14": REACH}


def _one_of(figures: Iterable[str], metavar: str = "N") -> Any:  # noqa: ANN401 - as Typer has it
    return typer.Option(help=f"One of {', '.join(figures)}; all if not given.", metavar=metavar)


def _column(about: str, metavar: str = "COLUMN") -> Any:  # noqa: ANN401 - the same
    return typer.Option(help=about, metavar=metavar)


class _Paper(NamedTuple):
    """A paper: its name, its command, its figures with their steps, and the module that draws them."""

    title: str
    command: str
    figures: Mapping[str, Callable[[Any], Figure]]
    tasks: Callable[[str, int], int]
    effort: Callable[..., object]
    plots: str  #: loaded when figures are drawn

    def named(self, figure: str | None) -> list[str]:
        """The figures to make: all of them, or the one that is asked for."""
        return list(self.figures) if figure is None else [one_of("--figure", figure, self.figures)]


_LAS = _Paper("LAS", "las", las.FIGURES, las.tasks, las.Effort, "penstock.sim.las.plots")
_AURORA = _Paper("Aurora", "aurora", aurora.FIGURES, aurora.tasks, aurora.Effort, "penstock.sim.aurora.plots")
_OSG = _Paper("OSG", "osg", osg.FIGURES, osg.tasks, osg.Effort, "penstock.sim.osg.plots")
_PLUS = _Paper("Balanced", "plus", plus.FIGURES, plus.tasks, plus.Effort, "penstock.sim.balanced.plots")
_THEMIS = _Paper("THEMIS", "themis", themis.FIGURES, themis.tasks, themis.Effort, "penstock.sim.themis.plots")


def _reproduce(
    paper: _Paper,
    given: dict[str, Any],
    jobs: int,
    out: Path | None,
    json_file: Path | None,
    makers: Mapping[str, Callable[[Any], Figure]] | None = None,
    **effort: object,
) -> None:
    """Make one figure or all; print their claims, and write their files.

    `given` are the options that repeat the command, `makers` other functions for some figures, `effort` further fields.
    """
    names = paper.named(given["figure"])
    json_file = check_outputs(out, json_file)
    plot = None if out is None else import_module(paper.plots).plot  # a missing package is told before the work
    figures = []
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        for name in names:
            task = progress.add_task(f"figure {name}", total=paper.tasks(name, given["runs"]))
            done = partial(progress.advance, task)
            own = paper.effort(runs=given["runs"], seed=given["seed"], workers=workers, done=done, **effort)
            figures.append({**paper.figures, **(makers or {})}[name](own))
    machine = hardware.describe()
    made_by = command_line(f"penstock reproduce {paper.command}", given)
    contents: dict[Path, bytes] = {}
    if out is not None and plot is not None:
        for one in figures:
            place = out / one.name
            contents[place.with_suffix(".csv")] = one.to_csv().encode()
            contents[place.with_suffix(".json")] = to_json([one], machine).encode()
            contents[place.with_suffix(".png")] = plot(one)
        page = to_markdown(
            f"{paper.title}: what the paper says, what was measured", figures, made_by, hardware.in_one_line(machine)
        )
        contents[out / ("claims.md" if len(figures) > 1 else f"{figures[0].name}.md")] = page.encode()
    if json_file is not None:
        contents[json_file] = to_json(figures, machine).encode()
    write_files(contents)
    for one in figures:
        _print_claims(paper.title, one)
    SCREEN.print(f"Measured on {hardware.in_one_line(machine)}.")
    print_files(contents)


def _print_claims(title: str, figure: Figure) -> None:
    """What the paper says, what was measured, and whether it holds."""
    table = Table(
        "claim", "paper says", "measured", "holds", title=f"{title}, figure {figure.figure}", title_justify="left"
    )
    for claim in figure.claims:
        holds = "[green]yes[/green]" if claim.holds else "[red]no[/red]"
        table.add_row(claim.claim, claim.paper, claim.measured, holds)
    SCREEN.print(table)


@group.command("las")
def reproduce_las(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[str | None, _one_of(las.FIGURES)] = None,
    runs: options.Runs = 60,
    seed: options.Seed = 0,
    eps: options.Eps = las.Effort.epsilon,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
    data: Annotated[Path | None, _column("Figure 7: a recorded stream, Parquet or CSV.", "FILE")] = None,
    key: Annotated[str | None, _column("Figure 7: its key column.")] = None,
    cost: Annotated[
        str | None, _column("Figure 7: its column of costs in ms; by default keys get 1, 5 or 25 ms.")
    ] = None,
    arrival: Annotated[
        str | None,
        _column("Figure 7: its column of arrival times (timestamps or seconds); by default at the mean cost."),
    ] = None,
) -> None:
    """Load-Aware Shedding (Rivetti, Busnel, Querzoni, DEBS 2016): figures 4 to 7, eps, and ours against it (plus)."""
    names = _LAS.named(figure)
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
    given = {"figure": figure, "runs": runs, "seed": seed, "eps": eps, **columns}
    makers = {"7": partial(las.figure_7, recorded=recorded, origin=origin)}
    _reproduce(_LAS, given, jobs, out, json_file, makers, epsilon=eps)


@group.command("aurora")
def reproduce_aurora(
    *,
    figure: Annotated[str | None, _one_of(aurora.FIGURES)] = None,
    runs: options.Runs = aurora.Effort.runs,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
) -> None:
    """Load shedding in Aurora (Tatbul et al., VLDB 2003): figures 9 to 12; ours are plus and batches."""
    _reproduce(_AURORA, {"figure": figure, "runs": runs, "seed": seed}, jobs, out, json_file)


@group.command("osg")
def reproduce_osg(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[str | None, _one_of(osg.FIGURES)] = None,
    runs: options.OsgRuns = osg.Effort.runs,
    seed: options.Seed = 0,
    rows: options.StreamRows = None,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
    data: Annotated[Path | None, _column("Figures 13 and 14: a recorded stream, Parquet or CSV.", "FILE")] = None,
    key: Annotated[str | None, _column(f"Its key column; {_KEY} if not given.")] = None,
    cost: Annotated[
        str | None, _column(f"Its column of costs in ms; {_COST} if not given. Without one, keys get the figure's.")
    ] = None,
) -> None:
    """Online Shuffle Grouping (Rivetti et al., Middleware 2016): figures 4 to 14 but 12, and ours beside it (plus)."""
    if figure == "12":
        there = "it to 'penstock bench grouping --figure-12'"
        raise PenstockError.setting("--figure", figure, there, "Figure 12 is a prototype's, run on Spark")
    _check_osg_data(figure, data, key, cost, rows)
    given = {"figure": figure, "runs": runs, "seed": seed, "rows": rows, "data": data, "key": key, "cost": cost}
    makers = {} if data is None else {str(figure): _osg_maker(str(figure), data, key, cost, seed)}
    _reproduce(_OSG, given, jobs, out, json_file, makers, rows=rows)


@group.command("plus")
def reproduce_plus(
    *,
    figure: Annotated[str | None, _one_of(plus.FIGURES, "NAME")] = None,
    runs: options.Runs = plus.Effort.runs,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
) -> None:
    """One policy for cost, worth and fairness: each paper's scenario by its own measure, and what estimates cost."""
    _reproduce(_PLUS, {"figure": figure, "runs": runs, "seed": seed}, jobs, out, json_file)


@group.command("themis")
def reproduce_themis(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[str | None, _one_of(themis.FIGURES)] = None,
    runs: options.ThemisRuns = themis.Effort.runs,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
    data: Annotated[Path | None, _column("Figures 6 and 7: traces of machines, Parquet or CSV.", "FILE")] = None,
    node: Annotated[str | None, _column("Its column of machines; node if not given.")] = None,
    cpu: Annotated[str | None, _column("Its column of CPU use in percent; cpu if not given.")] = None,
) -> None:
    """THEMIS (Kalyvianaki et al., SIGMOD 2016): figures 6 to 14, sections 7.5 and 7.6, and ours beside it (plus)."""
    _THEMIS.named(figure)
    traces = _traces(figure, data, node, cpu, seed)
    given = {"figure": figure, "runs": runs, "seed": seed, "data": data, "node": node, "cpu": cpu}
    _reproduce(_THEMIS, given, jobs, out, json_file, traces=traces)


def _recorded(data: Path, key: str, cost: str | None, arrival: str | None, seed: int) -> Stream:
    keys, items = workload.read_keys(data, key)
    costs = workload.mention_costs(items, seed)[keys] if cost is None else workload.read_costs(data, cost)
    if arrival is not None:
        return Stream(keys, costs, workload.read_arrivals(data, arrival), items)
    return Stream(keys, costs, workload.arrivals(len(keys), float(costs.mean())), items)


def _osg_maker(figure: str, data: Path, key: str | None, cost: str | None, seed: int) -> Callable[[osg.Effort], Figure]:
    """The function that makes the figure with a recorded stream instead of the synthetic one."""
    if cost is None and has_column(data, _COST):
        cost = _COST
    stream = recorded_keys(data, key or _KEY, cost, _APPLICATIONS[figure], seed)
    origin = {"data": str(data), "key": key or _KEY, "cost": cost}
    return partial(osg.application, figure, _APPLICATIONS[figure], recorded=stream, origin=origin)


def _check_osg_data(figure: str | None, data: Path | None, key: str | None, cost: str | None, rows: int | None) -> None:
    """Refuse options that exclude each other."""
    applications = " or ".join(f"--figure {name}" for name in _APPLICATIONS)
    if data is None and (key is not None or cost is not None):
        raise PenstockError("--key and --cost name columns of --data: give --data as well")
    if data is not None and figure not in _APPLICATIONS:
        raise PenstockError.setting("--data", str(data), f"it with {applications}, which take a recorded stream")
    if rows is not None and figure not in {None, *_APPLICATIONS}:
        raise PenstockError.setting("--rows", rows, f"it with {applications}; the other streams have a fixed length")
    if rows is not None and data is not None:
        raise PenstockError.setting("--rows", rows, "--rows or --data, not both: a recorded stream is run whole")


def _traces(figure: str | None, data: Path | None, node: str | None, cpu: str | None, seed: int) -> Traces | None:
    """Recorded traces of machines, if a file is given; refuses options that exclude each other."""
    reading = " or ".join(f"--figure {name}" for name in themis.WITH_TRACES)
    if data is None:
        if node is not None or cpu is not None:
            raise PenstockError("--node and --cpu name columns of --data: give --data as well")
        return None
    if figure is not None and figure not in themis.WITH_TRACES:
        raise PenstockError.setting("--data", str(data), f"it with {reading}, which read traces of machines")
    free_kb = FREE_COLUMN if has_column(data, FREE_COLUMN) else None
    return recorded_traces(data, node or NODE_COLUMN, cpu or CPU_COLUMN, free_kb, seed)
