"""The options of the `penstock` command: what each accepts, and the line that says so otherwise."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from penstock.core.profile import parsed
from penstock.core.settings import duration_s

_N = TypeVar("_N", int, float)
_LEAST_EPS = 0.0001
_LEAST_GATE_ROWS = 1000
_LEAST_BOXES, _MOST_BOXES = 10, 20_000
_LEAST_RUN_S, _LONGEST_RUN_S = 10.0, 3600.0
_LEAST_TARGET_S, _MOST_TARGET_S = 0.1, 60.0


def _number(kind: Callable[[str], _N], accepted: str, fits: Callable[[_N], bool]) -> Callable[[str], _N]:
    """A parser for an option: the number, or one line that says what was given and what is accepted."""

    def parse(text: str) -> _N:
        try:
            number = kind(str(text))
        except ValueError:
            number = None
        if number is None or not fits(number):
            raise typer.BadParameter(f"{text!r} is not usable: give {accepted}")
        return number

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    """A parser for an option that takes one of a few words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise typer.BadParameter(f"{text!r} is not usable: give one of {', '.join(choices)}")
        return text

    return parse


Runs = Annotated[
    int,
    typer.Option(
        help="Independent runs for each point (figure 7 is one run).",
        metavar="R",
        parser=_number(int, "a whole number from 1 up", lambda runs: runs >= 1),
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Seed of streams and hashes.",
        metavar="S",
        parser=_number(int, "a whole number from 0 to 2147483647", lambda seed: 0 <= seed < 2**31),
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        help="Processes to use; 0 means one a core.",
        metavar="J",
        parser=_number(int, "a whole number from 0 up", lambda jobs: jobs >= 0),
    ),
]
Eps = Annotated[
    float,
    typer.Option(
        help="Precision of LAS's sketch; figure eps tries ten others.",
        metavar="E",
        parser=_number(float, "a number from 0.0001 to 2.718", lambda eps: _LEAST_EPS <= eps <= math.e),
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the results to this file.", metavar="FILE")]
Out = Annotated[
    Path | None, typer.Option(help="Write CSV, JSON, PNG and a page of claims to this folder.", metavar="DIR")
]


GateRows = Annotated[
    int,
    typer.Option(
        help="Rows to judge.",
        metavar="N",
        parser=_number(int, "a whole number from 1000 up", lambda rows: rows >= _LEAST_GATE_ROWS),
    ),
]
Boxes = Annotated[
    int,
    typer.Option(
        help="Boxes of the random network.",
        metavar="N",
        parser=_number(int, "a whole number from 10 to 20000", lambda boxes: _LEAST_BOXES <= boxes <= _MOST_BOXES),
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        help="How often each is measured, in turn.",
        metavar="R",
        parser=_number(int, "a whole number from 1 up", lambda repeats: repeats >= 1),
    ),
]
Learn = Annotated[
    float,
    typer.Option(
        help="Seconds each policy gets before it is measured.",
        metavar="S",
        parser=_number(float, "a number from 1 to 3600", lambda length_s: 1.0 <= length_s <= _LONGEST_RUN_S),
    ),
]
Measure = Annotated[
    float,
    typer.Option(
        help="Seconds each policy is measured for, in windows of 10.",
        metavar="S",
        parser=_number(float, "a number from 10 to 3600", lambda length_s: _LEAST_RUN_S <= length_s <= _LONGEST_RUN_S),
    ),
]
PreferRows = Annotated[
    str,
    typer.Option(
        help="Which rows las and full_knowledge keep first: cheap ones, or any.",
        metavar="any|cheap",
        parser=_one_of("any", "cheap"),
    ),
]


def _target_s(text: str) -> float:
    return duration_s("--target", parsed(text))


Seconds = Annotated[
    float,
    typer.Option(
        help="Length of each of the two runs.",
        metavar="S",
        parser=_number(float, "a number from 10 to 3600", lambda length_s: _LEAST_RUN_S <= length_s <= _LONGEST_RUN_S),
    ),
]
Target = Annotated[
    float,
    typer.Option(
        help="Mean queuing latency to hold, such as 2 s.",
        metavar="TIME",
        show_default="2 s",
        parser=_number(
            _target_s,
            "0.1 to 60 seconds, such as 2 s or 500 ms",
            lambda time_s: _LEAST_TARGET_S <= time_s <= _MOST_TARGET_S,
        ),
    ),
]
DemoOut = Annotated[Path, typer.Option(help="Write demo.html and demo.json to this folder.", metavar="DIR")]
