"""`penstock reproduce PAPER`: the commands."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import hardware
from penstock.cli import options
from penstock.cli import reproduce_osg as cli_osg
from penstock.cli import reproduce_themis as cli_themis
from penstock.cli.printing import (
    Paper,
    check_outputs,
    command_line,
    jobs_or_cores,
    named,
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
    from penstock.sim.figure import Figure

group = typer.Typer(help="Rerun a paper's experiments on virtual time.", no_args_is_help=True, add_completion=False)


@group.command("las")
def reproduce_las(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(las.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: options.Runs = 60,
    seed: options.Seed = 0,
    eps: options.Eps = las.Effort.epsilon,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
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
    names = named(figure, las.FIGURES)
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
    with _steps(names, jobs, partial(las.tasks, runs=runs)) as steps:
        figures = [makers[name](las.Effort(runs=runs, seed=seed, epsilon=eps, **step)) for name, step in steps]
    given = {"figure": figure, "runs": runs, "seed": seed, "eps": eps, **columns}
    command = command_line("penstock reproduce las", given)
    tell(Paper("LAS", "penstock.sim.las.plots"), figures, out, json_file, command, hardware.describe())


@group.command("aurora")
def reproduce_aurora(
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(aurora.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: options.Runs = aurora.Effort.runs,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
) -> None:
    """Load shedding in Aurora (Tatbul et al., VLDB 2003): figures 9 to 12, and road maps beyond the paper (plus)."""
    names = named(figure, aurora.FIGURES)
    json_file = check_outputs(out, json_file)
    with _steps(names, jobs, partial(aurora.tasks, runs=runs)) as steps:
        figures = [aurora.FIGURES[name](aurora.Effort(runs=runs, seed=seed, **step)) for name, step in steps]
    command = command_line("penstock reproduce aurora", {"figure": figure, "runs": runs, "seed": seed})
    tell(Paper("Aurora", "penstock.sim.aurora.plots"), figures, out, json_file, command, hardware.describe())


@group.command("osg")
def reproduce_osg(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(osg.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: options.OsgRuns = osg.Effort.runs,
    seed: options.Seed = 0,
    rows: options.StreamRows = None,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
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
    with _steps(names, jobs, partial(osg.tasks, runs=runs)) as steps:
        figures = [makers[name](osg.Effort(runs=runs, seed=seed, rows=rows, **step)) for name, step in steps]
    given = {"figure": figure, "runs": runs, "seed": seed, "rows": rows, "data": data, "key": key, "cost": cost}
    command = command_line("penstock reproduce osg", given)
    tell(Paper("OSG", "penstock.sim.osg.plots"), figures, out, json_file, command, hardware.describe())


@group.command("plus")
def reproduce_plus(
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(plus.FIGURES)}; all if not given.", metavar="NAME")
    ] = None,
    runs: options.Runs = plus.Effort.runs,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
) -> None:
    """One policy for cost, worth and fairness: each paper's scenario by its own measure, and what estimates cost."""
    names = named(figure, plus.FIGURES)
    json_file = check_outputs(out, json_file)
    with _steps(names, jobs, partial(plus.tasks, runs=runs)) as steps:
        figures = [plus.FIGURES[name](plus.Effort(runs=runs, seed=seed, **step)) for name, step in steps]
    command = command_line("penstock reproduce plus", {"figure": figure, "runs": runs, "seed": seed})
    tell(Paper("Balanced", "penstock.sim.balanced.plots"), figures, out, json_file, command, hardware.describe())


@group.command("themis")
def reproduce_themis(  # noqa: PLR0913 - one argument an option
    *,
    figure: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(themis.FIGURES)}; all if not given.", metavar="N")
    ] = None,
    runs: options.ThemisRuns = themis.Effort.runs,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    out: options.Out = None,
    json_file: options.Json = None,
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
    names = named(figure, themis.FIGURES)
    traces = cli_themis.traces(figure, data, node, cpu, seed)
    json_file = check_outputs(out, json_file)
    with _steps(names, jobs, partial(themis.tasks, runs=runs)) as steps:
        figures = [
            themis.FIGURES[name](themis.Effort(runs=runs, seed=seed, traces=traces, **step)) for name, step in steps
        ]
    given = {"figure": figure, "runs": runs, "seed": seed, "data": data, "node": node, "cpu": cpu}
    command = command_line("penstock reproduce themis", given)
    tell(Paper("THEMIS", "penstock.sim.themis.plots"), figures, out, json_file, command, hardware.describe())


@contextmanager
def _steps(
    names: Sequence[str], jobs: int, tasks: Callable[[str], int]
) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    """Each figure in turn, with the workers and the progress that its effort is given."""
    with progress_bar() as progress, Workers(jobs_or_cores(jobs)) as workers:
        bars = ((name, progress.add_task(f"figure {name}", total=tasks(name))) for name in names)
        yield ((name, {"workers": workers, "done": partial(progress.advance, bar)}) for name, bar in bars)


def _recorded(data: Path, key: str, cost: str | None, arrival: str | None, seed: int) -> Stream:
    keys, items = workload.read_keys(data, key)
    costs = workload.mention_costs(items, seed)[keys] if cost is None else workload.read_costs(data, cost)
    if arrival is not None:
        return Stream(keys, costs, workload.read_arrivals(data, arrival), items)
    return Stream(keys, costs, workload.arrivals(len(keys), float(costs.mean())), items)
