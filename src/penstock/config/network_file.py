"""Network files: keys, types and ranges, each with its error message, and checks of arcs, statistics and graphs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from penstock.config import fields
from penstock.config.fields import Accepts, Duration, Holds, Keys, Name, Number, Options, Share, Sql, Text, Words
from penstock.config.yaml_lines import Document, Where, dotted, nearest, read
from penstock.core.network.exact import Objective
from penstock.core.network.expressions import column_names
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import DelayQos, LossTolerance, Point, ValueInterval, ValueQos
from penstock.core.network.roadmap import Solver
from penstock.errors import PenstockError

Kind = Literal["random", "semantic"]

_LINE = LossTolerance([(100.0, 1.0), (0.0, 0.0)])
#: The placeholder for a selectivity until it is learned; others are 1.
_FILTER_SELECTIVITY = 0.5
#: Options that a sink needs.
SINK_NEEDS = {
    "parquet": ("path",),
    "json": ("path",),
    "csv": ("path",),
    "kafka": ("kafka.bootstrap.servers", "topic"),
}


def _python(value: object) -> object:
    module, colon, function = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), function]):
        raise ValueError
    return value


def _range(value: object) -> object:
    if isinstance(value, list) and sorted(set(value)) != value:
        raise ValueError
    return value


_Expression = Annotated[Sql, Accepts("an expression in Spark SQL, such as 'value * 2 + 1'")]
_Points = list[Annotated[list[float], Field(min_length=2, max_length=2)]]
_Losses = Annotated[
    _Points, Accepts("points [percent delivered, utility] from 100 percent down to 0, such as [[100, 1.0], [0, 0.0]]")
]
_Delays = Annotated[
    _Points, Accepts("points [seconds of delay, utility] from 0 s on, such as [[0, 1.0], [2, 1.0], [10, 0.0]]")
]
_Cost = Annotated[Number, Accepts("work on a row, a number from 0 up")]
_Selectivity = Annotated[
    Number | dict[str, Number], Accepts("rows out for each row in, a number from 0 up, or such a number by source")
]
_Columns = Annotated[list[str], Words("a column or a list of them")]
_One = Annotated[list[str], Words("the name of an input or a box", 1, 1)]
_Two = Annotated[list[str], Words("a list of two names of inputs or boxes", 2, 2)]
_Several = Annotated[list[str], Words("a list of two or more names of inputs or boxes", 2)]


class InputKeys(Keys):
    """An input."""

    rate: Annotated[Number, Accepts("rows a second, a number from 0 up")] | None = None
    format: fields.Format | None = None
    options: Options = Field(default_factory=dict)
    columns: fields.Columns | None = Field(None, alias="schema")
    arrival: Annotated[str, Field(min_length=1), Accepts("the column with the time at which a row came in")] | None = (
        None
    )


class _BoxKeys(Keys):
    op: str
    sources: list[str] = Field(alias="from")
    cost: _Cost | None = None
    selectivity: _Selectivity | None = None


class FilterKeys(_BoxKeys):
    """A filter."""

    op: Literal["filter"]
    sources: _One = Field(alias="from")
    where: Annotated[Sql, Accepts("a condition in Spark SQL, such as 'value > 10'")] | None = None
    selectivity: Annotated[Share | dict[str, Share], Accepts("the share of rows that pass, from 0 to 1")] | None = None


class MapKeys(_BoxKeys):
    """A map."""

    op: Literal["map"]
    sources: _One = Field(alias="from")
    select: Annotated[dict[str, _Expression], Holds("columns and what they become, in Spark SQL")] | None = None
    python: Annotated[str, BeforeValidator(_python), Accepts("a function of a row as 'module:function'")] | None = None
    returns: Annotated[str, Field(min_length=1), Accepts("the columns of its result, as in SQL")] | None = None


class UnionKeys(_BoxKeys):
    """A union."""

    op: Literal["union"]
    sources: _Several = Field(alias="from")


class JoinKeys(_BoxKeys):
    """A join."""

    op: Literal["join"]
    sources: _Two = Field(alias="from")
    on: _Columns | None = None
    window: Duration | None = None


class AggregateKeys(_BoxKeys):
    """An aggregate."""

    op: Literal["aggregate"]
    sources: _One = Field(alias="from")
    by: _Columns | None = None
    window: Duration | None = None
    select: Annotated[dict[str, _Expression], Holds("results by name, such as {n: count(1)}")] | None = None


_OPS = ("filter", "map", "union", "join", "aggregate")


def _has_op(data: object) -> object:
    """The op of a box determines its keys, so it is read first."""
    if not isinstance(data, dict):
        raise fields.refused("a mapping with keys among op, from, cost, selectivity")
    if "op" not in data:
        raise PydanticCustomError("missing", "", {"key": "op", "accepted": f"one of {', '.join(_OPS)}"})
    if data["op"] not in _OPS:
        raise fields.refused(f"one of {', '.join(_OPS)}", fix=nearest(str(data["op"]), _OPS), key="op")
    return data


BoxKeys = Annotated[
    FilterKeys | MapKeys | UnionKeys | JoinKeys | AggregateKeys, Field(discriminator="op"), BeforeValidator(_has_op)
]


class IntervalKeys(Keys):
    """Values of one utility."""

    range: Annotated[
        list[float],
        BeforeValidator(_range),
        Field(min_length=2, max_length=2),
        Accepts("two numbers, the lower one first"),
    ]
    utility: Share
    end_utility: Share | None = None


class ValueKeys(Keys):
    """A value graph."""

    column: Annotated[
        str, BeforeValidator(fields.parsed_sql), Accepts("the column with the values, in backticks if need be")
    ]
    intervals: Annotated[
        list[IntervalKeys], Field(min_length=1), Holds("a list of intervals, each with range and utility", list)
    ]
    histogram: Annotated[list[Number], Accepts("frequencies from 0 up, one an interval")] | None = None
    chunks: Annotated[int, Field(ge=1, le=1000), Accepts("a whole number from 1 to 1000")] = 10


class SinkKeys(Keys):
    """Where an output's rows go."""

    format: Annotated[
        Literal["console", "parquet", "json", "csv", "kafka", "memory"],
        Accepts("one of console, parquet, json, csv, kafka, memory"),
    ]
    options: Options = Field(default_factory=dict)


Sink = SinkKeys


class OutputKeys(Keys):
    """An output."""

    sources: _One = Field(alias="from")
    loss_tolerance: _Losses | None = None
    envelope: Annotated[bool, Accepts("true or false")] = False
    value: ValueKeys | None = None
    latency: _Delays | None = None
    to: SinkKeys = SinkKeys(format="console")


class NetworkKeys(Keys):
    """A whole file."""

    name: Text | None = None
    capacity: Annotated[float, Field(gt=0.0), Accepts("cost units per second, a number above 0")] | None = None
    headroom: Annotated[float, Field(gt=0.0, le=1.0), Accepts("a share of the capacity above 0, up to 1")] = 0.9
    inputs: Annotated[dict[Name, InputKeys], Field(min_length=1), Holds("one input or more, each by its name")]
    boxes: Annotated[dict[Name, BoxKeys], Holds("boxes, each by its name", least=0)] = Field(default_factory=dict)
    outputs: Annotated[dict[Name, OutputKeys], Field(min_length=1), Holds("one output or more, each by its name")]
    trigger: Duration = 2.0
    kind: Annotated[Literal["random", "semantic"], Accepts("one of random, semantic")] | None = None
    solver: Annotated[Literal["auto", "greedy", "exact"], Accepts("one of auto, greedy, exact")] = "auto"
    objective: Annotated[Literal["sum", "balanced", "max_min"], Accepts("one of sum, balanced, max_min")] = "sum"


@dataclass(frozen=True, slots=True)
class Source:
    """How Spark reads an input."""

    format: str | None  #: the format, such as `kafka`; None if the file does not say
    options: Mapping[str, str]  #: its options
    schema: str | None  #: the columns, as in SQL, for formats that need it
    arrival: str | None  #: the column with the time at which a row came in


@dataclass(frozen=True)
class NetworkFile:
    """What a network file says."""

    name: str  #: the network's name; the file's, if it gives none
    capacity: float | None  #: cost units per second; None if not known
    headroom: float  #: the share of it that may be used
    network: Network  #: inputs, boxes and outputs
    sources: dict[str, Source]  #: how each input is read
    sinks: dict[str, Sink]  #: where the rows of each output go
    trigger_s: float  #: how often a batch starts on Spark
    kind: Kind  #: whether rows are dropped at random or by their values
    solver: Solver  #: how a road map of drops by chance is made
    #: What counts: the sum of the outputs' utilities, a balance between them, or the worst of them.
    objective: Objective
    missing: frozenset[str]  #: missing statistics, such as `boxes.hot.cost`, which have placeholders
    document: Document = field(repr=False, compare=False)  #: the file, to name a line in further errors

    @property
    def limit(self) -> float | None:
        """The load above which the network is overloaded."""
        return None if self.capacity is None else self.headroom * self.capacity

    def excess(self, load: float) -> float:
        """By how much a load is above that; 0 if it is not, or if the capacity is not known."""
        return 0.0 if self.limit is None else max(load - self.limit, 0.0)


def load(path: str | Path, *, complete: bool = True, runnable: bool = False) -> NetworkFile:
    """Read a network file; a mistake is one line that names the file, the line and the field.

    Args:
        path: The file.
        complete: Whether rates, costs, selectivities and histograms must all be there. If not, placeholders
            are used: a rate and cost of 1, a selectivity of 0.5 for a filter and 1 for others, equal frequencies.
        runnable: Whether it must have everything that Spark needs, such as formats of inputs and conditions of filters.
    """
    document = read(path, "network file", "inputs, boxes and outputs")
    keys = fields.checked(document, NetworkKeys)
    _check_arcs(document, keys)
    _check_keys(document, keys, runnable=runnable)
    statistics = _Statistics(document, complete=complete)
    inputs = [
        Input(
            name, statistics.number(("inputs", name, "rate"), one.rate, 1.0, "rows a second"), column_names(one.columns)
        )
        for name, one in keys.inputs.items()
    ]
    boxes = [_box(name, box, statistics) for name, box in keys.boxes.items()]
    outputs = [_output(document, name, output, statistics) for name, output in keys.outputs.items()]
    try:
        network = Network(inputs, boxes, outputs)
    except PenstockError as error:
        raise PenstockError(f"{document.file}: {error}") from None
    judged = [output.value is not None for output in outputs]
    if keys.kind == "semantic" and not any(judged):
        raise document.refused(("kind",), "random, or an output with a value graph")
    return NetworkFile(
        name=keys.name or Path(path).stem,
        capacity=keys.capacity,
        headroom=keys.headroom,
        network=network,
        sources={name: Source(one.format, one.options, one.columns, one.arrival) for name, one in keys.inputs.items()},
        sinks={name: one.to for name, one in keys.outputs.items()},
        trigger_s=keys.trigger,
        kind=keys.kind or ("semantic" if all(judged) else "random"),
        solver=keys.solver,
        objective=keys.objective,
        missing=frozenset(statistics.missing),
        document=document,
    )


def schema() -> dict[str, Any]:
    """The JSON schema of network files."""
    return fields.schema(NetworkKeys)


class _Statistics:
    """Numbers that are required or learned."""

    def __init__(self, document: Document, *, complete: bool) -> None:
        self._document, self._complete = document, complete
        self.missing: list[str] = []

    def number(self, where: Where, given: float | None, placeholder: float, what: str) -> float:
        return placeholder if given is None and self.lacks(where, what) else given or 0.0

    def lacks(self, where: Where, what: str) -> bool:
        """Record a missing statistic, if it may be missing."""
        if self._complete:
            raise self._document.missing(where, f"{what}; only penstock run learns it")
        self.missing.append(dotted(where))
        return True


def _box(name: str, box: BoxKeys, statistics: _Statistics) -> Box:
    cost = statistics.number(("boxes", name, "cost"), box.cost, 1.0, "the work on a row")
    selectivity = box.selectivity
    if selectivity is None:
        selectivity = _FILTER_SELECTIVITY if box.op == "filter" else 1.0
        if box.op not in ("map", "union"):
            statistics.lacks(("boxes", name, "selectivity"), "rows out for each row in")
    columns = box.select if isinstance(box, MapKeys | AggregateKeys) else None
    return Box(
        name,
        box.op,
        tuple(box.sources),
        cost,
        selectivity,
        where=box.where if isinstance(box, FilterKeys) else None,
        select=columns or {},
        by=tuple(box.by or ()) if isinstance(box, AggregateKeys) else (),
        on=tuple(box.on or ()) if isinstance(box, JoinKeys) else (),
        window_s=box.window if isinstance(box, JoinKeys | AggregateKeys) else None,
        python=box.python if isinstance(box, MapKeys) else None,
        returns=box.returns if isinstance(box, MapKeys) else None,
    )


def _output(document: Document, name: str, output: OutputKeys, statistics: _Statistics) -> Output:
    where: Where = ("outputs", name)
    graph, value = _LINE, None
    try:
        if output.loss_tolerance is not None:
            graph = (LossTolerance.envelope if output.envelope else LossTolerance)(_points(output.loss_tolerance))
        latency = None if output.latency is None else DelayQos(_points(output.latency))
        if output.value is not None:
            where = (*where, "value")
            value = _value(where, output.value, statistics)
            graph = value.loss_tolerance()
    except PenstockError as error:
        raise _placed(document, where, error) from None
    return Output(name, output.sources[0], graph, value, latency)


def _value(where: Where, given: ValueKeys, statistics: _Statistics) -> ValueQos:
    intervals = [ValueInterval(one.range[0], one.range[1], one.utility, one.end_utility) for one in given.intervals]
    histogram = given.histogram
    if histogram is None:
        statistics.lacks((*where, "histogram"), "the frequency of each interval")
        histogram = [1.0] * len(intervals)
    return ValueQos(given.column, intervals, histogram, chunks=given.chunks)


def _points(given: list[list[float]]) -> list[Point]:
    return [(x, y) for x, y in given]


def _placed(document: Document, where: Where, error: PenstockError) -> PenstockError:
    """The core's error, which begins with the name of a field, with the file and line before it."""
    if str(error).startswith(document.file):
        return error
    name = str(error).split(" ", 1)[0]
    place = document.at((*where, name)).removesuffix(name)
    return PenstockError(f"{place}{error}")


def _check_arcs(document: Document, keys: NetworkKeys) -> None:
    """Names are unique, arcs start at a node, there is no cycle, and every node leads to an output."""
    parts: dict[str, Iterable[str]] = {"inputs": keys.inputs, "boxes": keys.boxes, "outputs": keys.outputs}
    places: dict[str, Where] = {}
    for part, members in parts.items():
        for name in members:
            if name in places:
                other = dotted(places[name])
                raise PenstockError(f"{document.at((part, name))} has the name of {other}: give each name once")
            places[name] = (part, name)
    producers = [*keys.inputs, *keys.boxes]
    consumers = {name: one.sources for part in (keys.boxes, keys.outputs) for name, one in part.items()}
    for name, sources in consumers.items():
        for source in sources:
            if source not in producers:
                at, accepted = document.at((*places[name], "from")), f"an input or a box: {_some(producers)}"
                raise PenstockError.setting(at, source, accepted, nearest(source, producers))
    try:
        TopologicalSorter(consumers).prepare()
    except CycleError as error:
        circle = error.args[1]
        fix = f"the cycle is {' -> '.join(circle)}"
        raise document.refused((*places[circle[0]], "from"), "sources that do not come from it", fix) from None
    taken = {source for sources in consumers.values() for source in sources}
    for name in producers:
        if name not in taken:
            raise PenstockError(
                f"{document.at(places[name])} leads nowhere: use it as from of a box or an output, or remove it"
            )


def _check_keys(document: Document, keys: NetworkKeys, *, runnable: bool) -> None:
    """Check keys that need or exclude each other."""
    if keys.objective != "sum" and keys.solver == "greedy":
        raise document.refused(("objective",), "sum, or solver: exact beside it: the greedy way only knows sums")
    for name, box in keys.boxes.items():
        where: Where = ("boxes", name)
        if isinstance(box.selectivity, dict) and set(box.selectivity) != set(box.sources):
            raise document.refused((*where, "selectivity"), f"one for each of {_some(box.sources)}")
        if isinstance(box, MapKeys):
            _check_map(document, where, box)
    for name, output in keys.outputs.items():
        _check_output(document, ("outputs", name), output)
    if runnable:
        _check_runnable(document, keys)


def _check_map(document: Document, where: Where, box: MapKeys) -> None:
    if box.python is not None and box.select is not None:
        raise document.refused((*where, "python"), "either python or select, in a box each")
    if box.python is not None and box.returns is None:
        raise document.missing((*where, "returns"), "the columns of the function's result, as in SQL")
    if box.python is None and box.returns is not None:
        raise document.refused((*where, "returns"), "it with python alone")


def _check_output(document: Document, where: Where, output: OutputKeys) -> None:
    if output.value is not None and output.loss_tolerance is not None:
        fix = "a loss tolerance follows from value and histogram"
        raise document.refused((*where, "loss_tolerance"), "either loss_tolerance or value", fix)
    if output.envelope and output.loss_tolerance is None:
        raise document.refused((*where, "envelope"), "it with loss_tolerance alone")
    for option in SINK_NEEDS.get(output.to.format, ()):
        if option not in output.to.options:
            raise document.missing((*where, "to", "options", option), f"it to write {output.to.format}")


def _check_runnable(document: Document, keys: NetworkKeys) -> None:
    needs: dict[str, dict[str, str]] = {
        "filter": {"where": "the condition in Spark SQL"},
        "join": {"on": "the columns that must be equal", "window": "how far apart in time two rows may be"},
        "aggregate": {"window": "the length of a window", "select": "results by name, in Spark SQL"},
    }
    for name, one in keys.inputs.items():
        if one.format is None:
            raise document.missing(("inputs", name, "format"), "a format that Spark can read as a stream")
    for name, box in keys.boxes.items():
        for key, what in needs.get(box.op, {}).items():
            if getattr(box, key) is None:
                raise document.missing(("boxes", name, key), what)


def _some(names: Iterable[str], most: int = 20) -> str:
    given = list(names)
    return ", ".join(given[:most]) + (f" and {len(given) - most} more" if len(given) > most else "")
