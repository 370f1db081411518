"""`penstock reproduce PAPER`: the commands."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import hardware
from penstock.cli import reproduce_osg as cli_osg
from penstock.cli import reproduce_themis as cli_themis
from penstock.cli.options import (
    Eps,
    Jobs,
    Json,
    OsgRuns,
    Out,
    Runs,
    Seed,
    StreamRows,
    ThemisRuns,
)
from penstock.cli.printing import (
    Paper,
    check_outputs,
    command_line,
    jobs_or_cores,
    progress_bar,
    tell,
)
from penstock.errors import PenstockError
from penstock.sim import workload
from penstock.sim.aurora import figures as aurora
from penstock.sim.balanced import figures as plus
from penstock.sim.las import figures as las
from penstock.sim.osg import figures as osg
from penstock.sim.parallel import Workers
from penstock.sim.themis import figures as themis
from penstock.sim.workload import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.sim.figure import Figure

group = typer.Typer(help="Rerun a paper's experiments on virtual time.", no_args_is_help=True, add_completion=False)


@group.command("las")
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
        typer.Option(help="Figure 7: its column of costs in ms; by default keys get 1, 5 or 25 ms.", metavar="COLUMN"),
    ] = None,
    arrival: Annotated[
        str | None,
        typer.Option(
            help="Figure 7: its column of arrival times (timestamps or seconds); by default at the mean cost.",
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
    json_file = check_outputs(out, json_file)
    makers: dict[str, Callable[[las.Effort], Figure]] = {
        **las.FIGURES,
        "7": partial(las.figure_7, recorded=recorded, origin=origin),
    }
    figures = []
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        effort = las.Effort(runs=runs, seed=seed, workers=workers, epsilon=eps)
        for name in names:
            task = progress.add_task(f"figure {name}", total=las.tasks(name, runs))
            done = partial(progress.advance, task)
            figures.append(makers[name](replace(effort, done=done)))
    given = {"figure": figure, "runs": runs, "seed": seed, "eps": eps, **columns}
    command = command_line("penstock reproduce las", given)
    tell(Paper("LAS", "penstock.sim.las.plots"), figures, out, json_file, command, hardware.describe())


@group.command("aurora")
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
    json_file = check_outputs(out, json_file)
    figures = []
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        for name in list(aurora.FIGURES) if figure is None else [figure]:
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=aurora.tasks(name, runs)))
            figures.append(aurora.FIGURES[name](aurora.Effort(runs=runs, seed=seed, workers=workers, done=done)))
    command = command_line("penstock reproduce aurora", {"figure": figure, "runs": runs, "seed": seed})
    tell(Paper("Aurora", "penstock.sim.aurora.plots"), figures, out, json_file, command, hardware.describe())


@group.command("osg")
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
    json_file = check_outputs(out, json_file)
    makers = {name: cli_osg.maker(name, data, key, cost, seed) for name in names}
    figures = []
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        for name, make in makers.items():
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=osg.tasks(name, runs)))
            figures.append(make(osg.Effort(runs=runs, seed=seed, workers=workers, rows=rows, done=done)))
    given = {"figure": figure, "runs": runs, "seed": seed, "rows": rows, "data": data, "key": key, "cost": cost}
    command = command_line("penstock reproduce osg", given)
    tell(Paper("OSG", "penstock.sim.osg.plots"), figures, out, json_file, command, hardware.describe())


@group.command("plus")
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
    json_file = check_outputs(out, json_file)
    figures = []
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        for name in list(plus.FIGURES) if figure is None else [figure]:
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=plus.tasks(name, runs)))
            figures.append(plus.FIGURES[name](plus.Effort(runs=runs, seed=seed, workers=workers, done=done)))
    command = command_line("penstock reproduce plus", {"figure": figure, "runs": runs, "seed": seed})
    tell(Paper("Balanced", "penstock.sim.balanced.plots"), figures, out, json_file, command, hardware.describe())


@group.command("themis")
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
    json_file = check_outputs(out, json_file)
    figures = []
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        for name in names:
            done = partial(progress.advance, progress.add_task(f"figure {name}", total=themis.tasks(name, runs)))
            effort = themis.Effort(runs=runs, seed=seed, workers=workers, done=done, traces=traces)
            figures.append(themis.FIGURES[name](effort))
    given = {"figure": figure, "runs": runs, "seed": seed, "data": data, "node": node, "cpu": cpu}
    command = command_line("penstock reproduce themis", given)
    tell(Paper("THEMIS", "penstock.sim.themis.plots"), figures, out, json_file, command, hardware.describe())


def _recorded(data: Path, key: str, cost: str | None, arrival: str | None, seed: int) -> Stream:
    keys, items = workload.read_keys(data, key)
    costs = workload.mention_costs(items, seed)[keys] if cost is None else workload.read_costs(data, cost)
    if arrival is not None:
        return Stream(keys, costs, workload.read_arrivals(data, arrival), items)
    return Stream(keys, costs, workload.arrivals(len(keys), float(costs.mean())), items)
