"""The options of the `penstock` command, with their validation."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from penstock.core.rate_profile import parsed
from penstock.core.settings import duration_s
from penstock.errors import PenstockError

_N = TypeVar("_N", int, float)
_LEAST_EPS = 0.0001
_LEAST_GATE_ROWS = 1000
_LEAST_STREAM_ROWS = 1000
_LEAST_STEP = 0.0001
_MOST_CORES = 1024
_MOST_FRAGMENTS = 1_000_000
_LEAST_BOXES, _MOST_BOXES = 10, 20_000
_MOST_SPREAD = 1_000_000.0
_PORTS = 2**16
_MOST_CLASSES = 10_000_000
_LEAST_BATCHES, _MOST_BATCHES = 100_000, 10_000_000
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
OsgRuns = Annotated[
    int,
    typer.Option(
        help="Independent runs for each point (figures 13 and 14: 10 at most; 11 shows the first).",
        metavar="R",
        parser=_number(int, "a whole number from 1 up", lambda runs: runs >= 1),
    ),
]
ThemisRuns = Annotated[
    int,
    typer.Option(
        help="Independent runs for each point.",
        metavar="R",
        parser=_number(int, "a whole number from 1 up", lambda runs: runs >= 1),
    ),
]
StreamRows = Annotated[
    int | None,
    typer.Option(
        help="Figures 13 and 14: rows of the synthetic streams; as many as the paper's if not given.",
        metavar="N",
        parser=_number(int, "a whole number from 1000 up", lambda rows: rows >= _LEAST_STREAM_ROWS),
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
ClassCount = Annotated[
    int,
    typer.Option(
        help="Classes of rows.",
        metavar="N",
        parser=_number(int, "a whole number from 1 to 10000000", lambda classes: 1 <= classes <= _MOST_CLASSES),
    ),
]
Schedules = Annotated[
    int,
    typer.Option(
        help="How many schedules of faults, from the seed on.",
        metavar="N",
        parser=_number(int, "a whole number from 1 up", lambda schedules: schedules >= 1),
    ),
]
GrowthBatches = Annotated[
    int,
    typer.Option(
        help="Batches of the oldest run, from 100,000 on: two others have a tenth and a hundredth of them, and files "
        "of 1,000 batches are kept, so a younger run still fills up.",
        metavar="N",
        parser=_number(
            int, "a whole number from 100000 to 10000000", lambda batches: _LEAST_BATCHES <= batches <= _MOST_BATCHES
        ),
    ),
]
Fragments = Annotated[
    int,
    typer.Option(
        help="Fragments on the node.",
        metavar="N",
        parser=_number(int, "a whole number from 1 to 1000000", lambda count: 1 <= count <= _MOST_FRAGMENTS),
    ),
]
_repeats = _number(int, "a whole number from 1 up", lambda repeats: repeats >= 1)
Repeats = Annotated[int, typer.Option(help="How often each is measured, in turn.", metavar="R", parser=_repeats)]
GroupingRepeats = Annotated[
    int | None, typer.Option(help="How often each is measured, in turn; 3 if not given.", metavar="R", parser=_repeats)
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
LogTarget = Annotated[
    float,
    typer.Option(
        "--target",
        help="Mean queuing latency to hold, such as 2 s.",
        metavar="TIME",
        parser=_number(_target_s, "a time above 0, such as 2 s or 500 ms", lambda time_s: time_s > 0.0),
    ),
]
LogPath = Annotated[
    Path,
    typer.Argument(
        help="Progress as JSON lines or an array, or an event log; gzip and zstd will do.",
        metavar="PROGRESS",
        show_default=False,
    ),
]
LogQuery = Annotated[
    str | None, typer.Option("--query", help="Name or id of the query, if the log has several.", metavar="NAME")
]
Spread = Annotated[
    float,
    typer.Option(
        help="Assume keys, the dearest of which costs so many times what the cheapest does; 1: rows cost alike.",
        metavar="R",
        parser=_number(float, "a number from 1 to 1000000", lambda ratio: 1.0 <= ratio <= _MOST_SPREAD),
    ),
]
Trigger = Annotated[
    float | None,
    typer.Option(
        "--trigger",
        help="The query's trigger, such as 10 s; found from the log if not given.",
        metavar="TIME",
        parser=_number(_target_s, "a time above 0, such as 10 s", lambda time_s: time_s > 0.0),
    ),
]
GuardOverhead = Annotated[
    float | None,
    typer.Option(
        "--guard-overhead",
        help="What a guard adds to a batch, such as 80 ms; `penstock bench idle` measures it.",
        metavar="TIME",
        show_default="50 ms",
        parser=_number(_target_s, "a time above 0, such as 80 ms", lambda time_s: time_s > 0.0),
    ),
]
DemoOut = Annotated[
    Path,
    typer.Option(help="Write demo.html, demo.png, demo.json and the guarded run's log to this folder.", metavar="DIR"),
]


NetworkPath = Annotated[Path, typer.Argument(help="A network file.", metavar="FILE", show_default=False)]
Kind = Annotated[
    str | None,
    typer.Option(
        help="Drop rows at random or by their values; as the file says if not given.",
        metavar="random|semantic",
        parser=_one_of("random", "semantic"),
    ),
]
Shed = Annotated[
    float | None,
    typer.Option(
        help="Work a second to shed; what is above headroom * capacity if not given.",
        metavar="LOAD",
        parser=_number(float, "a number from 0 up", lambda load: 0.0 <= load < math.inf),
    ),
]
Placement = Annotated[
    str | None,
    typer.Option(
        help="Whether each place is one of its own, or those upstream of a union are dropped at alike.",
        metavar="single|group",
        parser=_one_of("single", "group"),
    ),
]
Solver = Annotated[
    str | None,
    typer.Option(
        help="How the map is made; exact also shows the best plan there is. As the file says if not given.",
        metavar="auto|greedy|exact",
        parser=_one_of("auto", "greedy", "exact"),
    ),
]
Step = Annotated[
    float | None,
    typer.Option(
        help="Share of a place's rows that one entry drops more than the one before it.",
        metavar="S",
        parser=_number(float, "a number from 0.0001 to 1", lambda step: _LEAST_STEP <= step <= 1.0),
    ),
]

RunSeconds = Annotated[
    float | None,
    typer.Option(
        help="Stop after so many seconds; without it and --batches, on Ctrl-C.",
        metavar="S",
        parser=_number(float, "a number of seconds above 0", lambda seconds: 0.0 < seconds < math.inf),
    ),
]
Batches = Annotated[
    int | None,
    typer.Option(
        help="Stop after so many batches.",
        metavar="N",
        parser=_number(int, "a whole number from 1 up", lambda batches: batches >= 1),
    ),
]
RunKind = Annotated[
    str | None,
    typer.Option(
        help="How rows are dropped; as the file says if not given. input_uniform knows nothing of utility.",
        metavar="random|semantic|input_uniform",
        parser=_one_of("random", "semantic", "input_uniform"),
    ),
]
Cores = Annotated[
    int,
    typer.Option(
        help="Cores of the local Spark session.",
        metavar="N",
        parser=_number(int, "a whole number from 1 to 1024", lambda cores: 1 <= cores <= _MOST_CORES),
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="Keep checkpoints, plans and bindings here, so that a later run resumes; by default they are deleted.",
        metavar="DIR",
    ),
]
RunOut = Annotated[
    Path | None, typer.Option("--out", help="Write network.html and network.json to this folder.", metavar="DIR")
]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Argument(help="Checkpoints of guarded queries, folders of penstock run, or folders with such in them."),
]
Dashboard = Annotated[bool, typer.Option("--dashboard", help="Show a live page in the browser while it runs.")]
Host = Annotated[str, typer.Option(help="Address to listen on; beyond this machine a token is required.", metavar="H")]
Port = Annotated[
    int,
    typer.Option(
        help="Port of the page; 0 for any that is free.",
        metavar="P",
        parser=_number(int, "a port from 1 to 65535, or 0 for any that is free", lambda port: 0 <= port < _PORTS),
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Token that opens the page; generated and printed if needed and not given.",
        metavar="T",
        envvar="PENSTOCK_TOKEN",
    ),
]


def _spark_setting(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not name.startswith("spark.") or not equals:
        raise PenstockError.setting("--conf", text, "a setting as spark.NAME=VALUE")
    return text


SitePath = Annotated[Path | None, typer.Argument(help="A site file.", metavar="[FILE]", show_default=False)]
SiteFolder = Annotated[
    Path | None,
    typer.Option(
        help="Keep checkpoint, boxes, plans and accounts here instead of the folder in the file.", metavar="DIR"
    ),
]
SiteAccounts = Annotated[
    list[Path] | None,
    typer.Option("--account", help="The folder of a site; give one for each site.", metavar="DIR", show_default=False),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        help="A setting of Spark, such as spark.jars=a.jar.",
        metavar="NAME=VALUE",
        show_default=False,
        callback=lambda given: [_spark_setting(one) for one in given] if given else given,
    ),
]
