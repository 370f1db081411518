"""What the commands share: the screen, the progress bar, and results as files."""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock import hardware
from penstock.output import writable_file, writable_folder, write_files

SCREEN = Console(highlight=False)


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


def json_bytes(data: object) -> bytes:
    """Results as JSON."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def write_json(json_file: Path | None, result: object, others: Mapping[Path, bytes] | None = None) -> None:
    """Write the results as JSON, if a file is asked for, and other files; say which."""
    contents = {**(others or {}), **({json_file: json_bytes(result)} if json_file else {})}
    write_files(contents)
    print_files(contents)


def plain(out: Console, text: str) -> None:
    """A line as it is."""
    out.print(text, markup=False, emoji=False, soft_wrap=True)


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
