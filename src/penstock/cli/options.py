"""The options of the `penstock` command, with their validation."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from penstock.core.rate_profile import parsed
from penstock.core.settings import duration_s
from penstock.errors import PenstockError

_N = TypeVar("_N", int, float)
_LONGEST_RUN_S = 3600.0
_SOLVERS, _KINDS = "auto|greedy|exact", "random|semantic|input_uniform"


def _number(kind: Callable[[str], _N], accepted: str, least: float, most: float) -> Callable[[str], _N]:
    """A parser for an option: the number, or one line that says what was given and what is accepted."""

    def parse(text: str) -> _N:
        try:
            number = kind(str(text))
        except ValueError:
            number = None
        if number is None or not (least <= number <= most and number < math.inf):
            raise typer.BadParameter(f"{text!r} is not usable: give {accepted}")
        return number

    return parse


def _whole(about: str, metavar: str = "N", least: int = 1, most: float = math.inf) -> Any:  # noqa: ANN401 - as Typer has it
    """An option that takes a whole number."""
    accepted = f"a whole number from {least} up" if most == math.inf else f"a whole number from {least} to {most}"
    return typer.Option(help=about, metavar=metavar, parser=_number(int, accepted, least, most))


def _real(about: str, metavar: str = "S", least: float = 0.0, most: float = math.inf) -> Any:  # noqa: ANN401 - the same
    """An option that takes a number."""
    accepted = f"a number from {least:g} up" if most == math.inf else f"a number from {least:g} to {most:.10g}"
    return typer.Option(help=about, metavar=metavar, parser=_number(float, accepted, least, most))


def _time(about: str, example: str, **settings: Any) -> Any:  # noqa: ANN401 - the same
    """An option that takes a length of time."""
    accepted = f"a time above 0, such as {example}"
    parser = _number(_target_s, accepted, 0.0, math.inf)  # what is not above 0 is refused before
    return option(about, "TIME", parser=parser, **settings)


def _target_s(text: str) -> float:
    return duration_s("--target", parsed(text))


def _argument(about: str, metavar: str) -> Any:  # noqa: ANN401 - the same
    return typer.Argument(help=about, metavar=metavar, show_default=False)


def option(about: str, metavar: str = "DIR", name: str | None = None, **settings: Any) -> Any:  # noqa: ANN401 - the same
    """An option that takes a path, or a text."""
    return typer.Option(*([name] if name else []), help=about, metavar=metavar, **settings)


def _word(about: str, choices: str) -> Any:  # noqa: ANN401 - the same
    """An option that takes one of a few words, given as `one|other`."""
    words = choices.split("|")

    def parse(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"{text!r} is not usable: give one of {', '.join(words)}")
        return text

    return typer.Option(help=about, metavar=choices, parser=parse)


Runs = Annotated[int, _whole("Independent runs for each point (figure 7 is one run).", "R")]
OsgRuns = Annotated[
    int, _whole("Independent runs for each point (figures 13 and 14: 10 at most; 11 shows the first).", "R")
]
ThemisRuns = Annotated[int, _whole("Independent runs for each point.", "R")]
StreamRows = Annotated[
    int | None,
    _whole("Figures 13 and 14: rows of the synthetic streams; as many as the paper's if not given.", least=1000),
]
Seed = Annotated[int, _whole("Seed of streams and hashes.", "S", 0, 2**31 - 1)]
Jobs = Annotated[int, _whole("Processes to use; 0 means one a core.", "J", 0)]
Eps = Annotated[float, _real("Precision of LAS's sketch; figure eps tries ten others.", "E", 0.0001, 2.718)]
Json = Annotated[Path | None, option("Write the results to this file.", "FILE", "--json")]
Out = Annotated[Path | None, option("Write CSV, JSON, PNG and a page of claims to this folder.")]

GateRows = Annotated[int, _whole("Rows to judge.", least=1000)]
Boxes = Annotated[int, _whole("Boxes of the random network.", least=10, most=20_000)]
ClassCount = Annotated[int, _whole("Classes of rows.", most=10_000_000)]
Schedules = Annotated[int, _whole("How many schedules of faults, from the seed on.")]
StoreBatches = Annotated[int, _whole("Batches whose requests are counted.", least=50, most=1_000_000)]
GrowthBatches = Annotated[
    int,
    _whole(
        "Batches of the oldest run, from 100,000 on: two others have a tenth and a hundredth of them, and files "
        "of 1,000 batches are kept, so a younger run still fills up.",
        least=100_000,
        most=10_000_000,
    ),
]
Fragments = Annotated[int, _whole("Fragments on the node.", most=1_000_000)]
Repeats = Annotated[int, _whole("How often each is measured, in turn.", "R")]
GroupingRepeats = Annotated[int | None, _whole("How often each is measured, in turn; 3 if not given.", "R")]
Learn = Annotated[float, _real("Seconds each policy gets before it is measured.", least=1, most=_LONGEST_RUN_S)]
Measure = Annotated[
    float, _real("Seconds each policy is measured for, in windows of 10.", least=10, most=_LONGEST_RUN_S)
]
PreferRows = Annotated[str, _word("Which rows las and full_knowledge keep first: cheap ones, or any.", "any|cheap")]

Seconds = Annotated[float, _real("Length of each of the two runs.", least=10, most=_LONGEST_RUN_S)]
_HELD, _HELD_S = "Mean queuing latency to hold, such as 2 s.", "0.1 to 60 seconds, such as 2 s or 500 ms"
Target = Annotated[float, option(_HELD, "TIME", show_default="2 s", parser=_number(_target_s, _HELD_S, 0.1, 60.0))]
LogTarget = Annotated[float, _time(_HELD, "2 s or 500 ms")]
LogPath = Annotated[
    Path, _argument("Progress as JSON lines or an array, or an event log; gzip and zstd will do.", "PROGRESS")
]
LogQuery = Annotated[str | None, option("Name or id of the query, if the log has several.", "NAME")]
Spread = Annotated[float, _real("Assume keys with this max/min cost ratio; 1: all rows cost alike.", "R", 1, 1e6)]
Trigger = Annotated[float | None, _time("The query's trigger, such as 10 s; found from the log if not given.", "10 s")]
GuardOverhead = Annotated[
    float | None,
    _time(
        "What a guard adds to a batch, such as 80 ms; `penstock bench idle` measures it.", "80 ms", show_default="50 ms"
    ),
]
DemoOut = Annotated[Path, option("Write demo.html, demo.png, demo.json and the guarded run's log to this folder.")]

NetworkPath = Annotated[Path, _argument("A network file.", "FILE")]
Kind = Annotated[
    str | None, _word("Drop rows at random or by their values; as the file says if not given.", "random|semantic")
]
Shed = Annotated[float | None, _real("Work a second to shed; what is above headroom * capacity if not given.", "LOAD")]
Placement = Annotated[
    str | None,
    _word("Whether each place is one of its own, or those upstream of a union are dropped at alike.", "single|group"),
]
Solver = Annotated[
    str | None,
    _word("How the map is made; exact also shows the best plan there is. As the file says if not given.", _SOLVERS),
]
Step = Annotated[
    float | None,
    _real("Share of a place's rows that one entry drops more than the one before it.", least=0.0001, most=1),
]

_SECONDS = _number(float, "a number of seconds above 0", math.ulp(0.0), math.inf)
RunSeconds = Annotated[
    float | None, option("Stop after this many seconds; without it and --batches, on Ctrl-C.", "S", parser=_SECONDS)
]
Batches = Annotated[int | None, _whole("Stop after this many batches.")]
RunKind = Annotated[
    str | None,
    _word("How rows are dropped; as the file says if not given. input_uniform knows nothing of utility.", _KINDS),
]
Pipeline = Annotated[
    str | None,
    option("What the guarded query does behind the gate; by default rows stay as they are.", "MODULE:FUNCTION"),
]
WhenCalm = Annotated[Path | None, option("Only while the query with this checkpoint sheds nothing.", "CHECKPOINT")]
Cores = Annotated[int, _whole("Cores of the local Spark session.", most=1024)]
Folder = Annotated[
    Path | None,
    option("Keep checkpoints, plans and bindings here, so that a later run resumes; by default they are deleted."),
]
RunOut = Annotated[Path | None, option("Write network.html and network.json to this folder.")]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Argument(help="Checkpoints of guarded queries, folders of penstock run, or folders with such in them."),
]
Dashboard = Annotated[bool, typer.Option("--dashboard", help="Show a live page in the browser while it runs.")]
Host = Annotated[str, option("Address to listen on; beyond this machine a token is required.", "H")]
_PORT = _number(int, "a port from 1 to 65535, or 0 for any that is free", 0, 2**16 - 1)
Port = Annotated[int, option("Port of the page; 0 for any that is free.", "P", parser=_PORT)]
Token = Annotated[
    str | None,
    option("Token that opens the page; generated and printed if needed and not given.", "T", envvar="PENSTOCK_TOKEN"),
]
PublicUrl = Annotated[str | None, option("Address at which a proxy shows the page; a token is then required.", "URL")]


def _spark_settings(given: list[str] | None) -> list[str] | None:
    for text in given or ():
        name, equals, _ = text.partition("=")
        if not name.startswith("spark.") or not equals:
            raise PenstockError.setting("--conf", text, "a setting as spark.NAME=VALUE")
    return given


SitePath = Annotated[Path | None, _argument("A site file.", "[FILE]")]
SiteFolder = Annotated[
    Path | None, option("Keep checkpoint, boxes, plans and accounts here instead of the folder in the file.")
]
SiteAccounts = Annotated[list[Path] | None, option("The folder of a site; give one for each site.", show_default=False)]
SparkConf = Annotated[
    list[str] | None,
    option("A setting of Spark, such as spark.jars=a.jar.", "NAME=VALUE", show_default=False, callback=_spark_settings),
]
