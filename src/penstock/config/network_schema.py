"""The schema of a network file: keys, types and ranges, each with its error message.

`load` makes checks over several values, such as where arcs lead.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from penstock.config import fields
from penstock.config.fields import (
    Accepts,
    Duration,
    Holds,
    Keys,
    Name,
    Number,
    Options,
    Share,
    Sql,
    Text,
    Words,
    parsed_sql,
    refused,
)
from penstock.config.yaml_lines import Document, nearest


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
    format: Annotated[str, Field(min_length=1), Accepts("a format that Spark can read as a stream")] | None = None
    options: Options = Field(default_factory=dict)
    columns: (
        Annotated[str, Field(min_length=1), Accepts("columns as in SQL, such as 'key bigint, value double'")] | None
    ) = Field(None, alias="schema")
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
        raise refused("a mapping with keys among op, from, cost, selectivity")
    if "op" not in data:
        raise PydanticCustomError("missing", "", {"key": "op", "accepted": f"one of {', '.join(_OPS)}"})
    if data["op"] not in _OPS:
        raise refused(f"one of {', '.join(_OPS)}", fix=nearest(str(data["op"]), _OPS), key="op")
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

    column: Annotated[str, BeforeValidator(parsed_sql), Accepts("the column with the values, in backticks if need be")]
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


class OutputKeys(Keys):
    """An output."""

    sources: _One = Field(alias="from")
    loss_tolerance: (
        Annotated[
            _Points,
            Accepts("points [percent delivered, utility] from 100 percent down to 0, such as [[100, 1.0], [0, 0.0]]"),
        ]
        | None
    ) = None
    envelope: Annotated[bool, Accepts("true or false")] = False
    value: ValueKeys | None = None
    latency: (
        Annotated[
            _Points, Accepts("points [seconds of delay, utility] from 0 s on, such as [[0, 1.0], [2, 1.0], [10, 0.0]]")
        ]
        | None
    ) = None
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


def checked(document: Document) -> NetworkKeys:
    """The file's content; the first mistake in the file is the error."""
    return fields.checked(document, NetworkKeys)


def schema() -> dict[str, Any]:
    """The JSON schema of network files."""
    return fields.schema(NetworkKeys)
