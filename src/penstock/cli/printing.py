"""What the commands share: the screen, the progress bar, results as files, and claims as a table."""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock import hardware
from penstock.core.settings import one_of
from penstock.output import writable_file, writable_folder, write_files
from penstock.sim.figure import Figure, to_json, to_markdown

SCREEN = Console()


def jobs_or_cores(jobs: int) -> int:
    """The number of processes; 0 means one per core."""
    return jobs or int(hardware.describe()["cores"])


def check_outputs(out: Path | None, json_file: Path | None) -> Path | None:
    """Check both paths before the work; with JSON on standard output nothing else is printed there."""
    if out is not None:
        writable_folder("--out", out)
    if json_file in {Path("-"), Path("/dev/stdout")}:
        SCREEN.stderr = True
        return Path("/dev/stdout")
    return None if json_file is None else writable_file("--json", json_file)


class Paper(NamedTuple):
    """A paper: its name, and the module that draws its figures, which is loaded when they are drawn."""

    name: str
    plots: str


def tell(
    paper: Paper,
    figures: list[Figure],
    out: Path | None,
    json_file: Path | None,
    made_by: str,
    about: hardware.Description,
) -> None:
    """Write the figures' files and print their claims."""
    contents: dict[Path, bytes] = {}
    if out is not None:
        plot = import_module(paper.plots).plot
        for figure in figures:
            contents[out / f"{figure.name}.csv"] = figure.to_csv().encode()
            contents[out / f"{figure.name}.json"] = to_json([figure], about).encode()
            contents[out / f"{figure.name}.png"] = plot(figure)
        title = f"{paper.name}: what the paper says, what was measured"
        page = to_markdown(title, figures, made_by, hardware.in_one_line(about))
        contents[out / ("claims.md" if len(figures) > 1 else f"{figures[0].name}.md")] = page.encode()
    if json_file is not None:
        contents[json_file] = to_json(figures, about).encode()
    write_files(contents)
    for one in figures:
        print_claims(paper.name, one)
    SCREEN.print(f"Measured on {hardware.in_one_line(about)}.", highlight=False)
    print_files(contents)


def json_bytes(data: object) -> bytes:
    """Results as JSON."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def named(figure: str | None, figures: Mapping[str, object]) -> list[str]:
    """The figures to make: all of them, or the one that is asked for."""
    return list(figures) if figure is None else [one_of("--figure", figure, figures)]


def write_json(json_file: Path | None, result: object) -> None:
    """The results as a file, if one is asked for."""
    contents = {json_file: json_bytes(result)} if json_file else {}
    write_files(contents)
    print_files(contents)


def print_claims(paper: str, figure: Figure) -> None:
    """What the paper says, what was measured, and whether it holds."""
    table = Table(
        "claim", "paper says", "measured", "holds", title=f"{paper}, figure {figure.figure}", title_justify="left"
    )
    for claim in figure.claims:
        holds = "[green]yes[/green]" if claim.holds else "[red]no[/red]"
        table.add_row(claim.claim, claim.paper, claim.measured, holds)
    SCREEN.print(table)


def plain(out: Console, text: str) -> None:
    """A line as it is."""
    out.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_files(contents: dict[Path, bytes]) -> None:
    """Which files were written."""
    for path in contents:
        plain(SCREEN, f"Wrote {path}")


def command_line(command: str, given: Mapping[str, object]) -> str:
    """The command line that gives the same results again."""
    options = [f"--{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None]
    return " ".join([command, *options])


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress bar, on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield progress
