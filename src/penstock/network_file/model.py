"""What may stand in a network file: keys, types and ranges, each with the words that an error says.

Checks that take more than one value, such as where arcs lead, are made in `load`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import sqlglot
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema
from sqlglot import expressions
from sqlglot.errors import SqlglotError

from penstock.core import expressions as sql
from penstock.core.settings import duration_s
from penstock.errors import PenstockError
from penstock.network_file.document import Document, Where, nearest

_NAME = r"^[\w.-]{1,100}$"
_NAME_RULE = "a name of up to 100 letters, digits, _, . and -"


def _refused(accepted: str, *, fix: str = "", key: str = "") -> PydanticCustomError:
    return PydanticCustomError("refused", "{accepted}", {"accepted": accepted, "fix": fix, "key": key})


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a field accepts, in words: for errors, and as the description in the JSON schema."""

    text: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Whatever is wrong is told in these words."""
        return core_schema.no_info_wrap_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The words are the description."""
        return {**handler(schema), "description": self.text}

    def _check(self, value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except (TypeError, ValueError, OverflowError):  # pydantic's own are ValueErrors
            raise _refused(self.text) from None


@dataclass(frozen=True, slots=True)
class Holds(Accepts):
    """The same for a list or mapping whose members speak for themselves."""

    kind: type = dict
    least: int = 1

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The words are the description; names that do not fit are refused."""
        made = {**handler(schema), "description": self.text}
        return made | ({"additionalProperties": False} if "patternProperties" in made else {})

    def _check(self, value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        if not isinstance(value, self.kind) or len(value) < self.least:  # type: ignore[arg-type]
            raise _refused(self.text)
        return handler(value)


@dataclass(frozen=True, slots=True)
class Words(Accepts):
    """The same for a list of words; if one will do, it need not be a list. A word may be a number."""

    least: int = 1
    most: int = 1000

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A word or a list of them."""
        word: JsonSchemaValue = {"type": ["string", "integer"]}
        several = {"type": "array", "items": word, "minItems": self.least, "maxItems": self.most}
        _ = schema, handler
        return {"anyOf": [word, several] if self.least == 1 else [several], "description": self.text}

    def _check(self, value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        given = value if isinstance(value, list) else [value]
        given = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in given]
        if not (self.least <= len(given) <= self.most and all(isinstance(one, str) and one for one in given)):
            raise _refused(self.text)
        return handler(given)


def _sql(value: object) -> str:
    """An expression, which may be a mere number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    sql.parsed(str(value), "")
    return str(value)


def column_names(columns: str | None) -> tuple[str, ...]:
    """The names in a schema; none if it cannot be read, for Spark takes more forms than one.

    >>> column_names("key bigint, value struct<a: int, b: double>")
    ('key', 'value')
    """
    try:
        made = sqlglot.parse_one(f"CREATE TABLE made ({columns or ''})", dialect="spark")
    except SqlglotError:
        return ()
    return tuple(one.name for one in made.this.expressions if isinstance(one, expressions.ColumnDef))


def _option(value: object) -> object:
    """Spark takes options as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _options(value: object) -> object:
    return {key: _option(one) for key, one in value.items()} if isinstance(value, dict) else value


def _python(value: object) -> object:
    module, colon, function = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), function]):
        raise ValueError
    return value


def _range(value: object) -> object:
    if isinstance(value, list) and sorted(set(value)) != value:
        raise ValueError
    return value


_NUMBER_SCHEMA = {"type": ["string", "number"]}
_Name = Annotated[str, Field(pattern=_NAME), Accepts(_NAME_RULE)]
_Text = Annotated[str, Field(min_length=1), Accepts("text")]
_Number = Annotated[float, Field(ge=0.0)]
_Share = Annotated[float, Field(ge=0.0, le=1.0), Accepts("a number from 0 to 1")]
_Duration = Annotated[
    float,
    BeforeValidator(lambda given: duration_s("", given)),
    WithJsonSchema(_NUMBER_SCHEMA),
    Accepts("seconds above 0, or text like '200 ms' or '2 s'"),
]
_Sql = Annotated[str, BeforeValidator(_sql), WithJsonSchema(_NUMBER_SCHEMA)]
_Expression = Annotated[_Sql, Accepts("an expression in Spark SQL, such as 'value * 2 + 1'")]
_Options = Annotated[
    dict[str, str],
    BeforeValidator(_options),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
    Accepts("options by name, each text, a number, true or false"),
]
_Points = list[Annotated[list[float], Field(min_length=2, max_length=2)]]
_Cost = Annotated[_Number, Accepts("work on a row, a number from 0 up")]
_Selectivity = Annotated[
    _Number | dict[str, _Number], Accepts("rows out for each row in, a number from 0 up, or such a number by source")
]
_Columns = Annotated[list[str], Words("a column or a list of them")]
_One = Annotated[list[str], Words("the name of an input or a box", 1, 1)]
_Two = Annotated[list[str], Words("a list of two names of inputs or boxes", 2, 2)]
_Several = Annotated[list[str], Words("a list of two or more names of inputs or boxes", 2)]


class _Keys(BaseModel):
    """A mapping with known keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: object) -> object:
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        keys = ", ".join(fields)
        if not isinstance(data, dict):
            raise _refused(f"a mapping with keys among {keys}")
        for key, value in data.items():
            if key not in fields:
                raise _refused(f"a key among {keys}", fix=nearest(key, fields), key=key)
            if value is None:
                raise PydanticCustomError("empty", "", {"key": key})
        for key, field in fields.items():
            if field.is_required() and key not in data:
                raise PydanticCustomError("missing", "", {"key": key, "accepted": _words_for(field)})
        return data


def _words_for(field: FieldInfo) -> str:
    return next(one.text for one in field.metadata if isinstance(one, Accepts))


class InputKeys(_Keys):
    """An input."""

    rate: Annotated[_Number, Accepts("rows a second, a number from 0 up")] | None = None
    format: Annotated[str, Field(min_length=1), Accepts("a format that Spark can read as a stream")] | None = None
    options: _Options = Field(default_factory=dict)
    columns: (
        Annotated[str, Field(min_length=1), Accepts("columns as in SQL, such as 'key bigint, value double'")] | None
    ) = Field(None, alias="schema")
    arrival: Annotated[str, Field(min_length=1), Accepts("the column with the time at which a row came in")] | None = (
        None
    )


class _BoxKeys(_Keys):
    op: str
    sources: list[str] = Field(alias="from")
    cost: _Cost | None = None
    selectivity: _Selectivity | None = None


class FilterKeys(_BoxKeys):
    """A filter."""

    op: Literal["filter"]
    sources: _One = Field(alias="from")
    where: Annotated[_Sql, Accepts("a condition in Spark SQL, such as 'value > 10'")] | None = None
    selectivity: Annotated[_Share | dict[str, _Share], Accepts("the share of rows that pass, from 0 to 1")] | None = (
        None
    )


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
    window: _Duration | None = None


class AggregateKeys(_BoxKeys):
    """An aggregate."""

    op: Literal["aggregate"]
    sources: _One = Field(alias="from")
    by: _Columns | None = None
    window: _Duration | None = None
    select: Annotated[dict[str, _Expression], Holds("results by name, such as {n: count(1)}")] | None = None


_OPS = ("filter", "map", "union", "join", "aggregate")


def _has_op(data: object) -> object:
    """Which keys a box has follows from its op, so that is looked at first."""
    if not isinstance(data, dict):
        raise _refused("a mapping with keys among op, from, cost, selectivity")
    if "op" not in data:
        raise PydanticCustomError("missing", "", {"key": "op", "accepted": f"one of {', '.join(_OPS)}"})
    if data["op"] not in _OPS:
        raise _refused(f"one of {', '.join(_OPS)}", fix=nearest(str(data["op"]), _OPS), key="op")
    return data


BoxKeys = Annotated[
    FilterKeys | MapKeys | UnionKeys | JoinKeys | AggregateKeys, Field(discriminator="op"), BeforeValidator(_has_op)
]


class IntervalKeys(_Keys):
    """Values of one utility."""

    range: Annotated[
        list[float],
        BeforeValidator(_range),
        Field(min_length=2, max_length=2),
        Accepts("two numbers, the lower one first"),
    ]
    utility: _Share
    end_utility: _Share | None = None


class ValueKeys(_Keys):
    """A value graph."""

    column: Annotated[str, BeforeValidator(_sql), Accepts("the column with the values, in backticks if need be")]
    intervals: Annotated[
        list[IntervalKeys], Field(min_length=1), Holds("a list of intervals, each with range and utility", list)
    ]
    histogram: Annotated[list[_Number], Accepts("frequencies from 0 up, one an interval")] | None = None
    chunks: Annotated[int, Field(ge=1, le=1000), Accepts("a whole number from 1 to 1000")] = 10


class SinkKeys(_Keys):
    """Where an output's rows go."""

    format: Annotated[
        Literal["console", "parquet", "json", "csv", "kafka", "memory"],
        Accepts("one of console, parquet, json, csv, kafka, memory"),
    ]
    options: _Options = Field(default_factory=dict)


class OutputKeys(_Keys):
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


class NetworkKeys(_Keys):
    """A whole file."""

    name: _Text | None = None
    capacity: Annotated[float, Field(gt=0.0), Accepts("cost units per second, a number above 0")] | None = None
    headroom: Annotated[float, Field(gt=0.0, le=1.0), Accepts("a share of the capacity above 0, up to 1")] = 0.9
    inputs: Annotated[dict[_Name, InputKeys], Field(min_length=1), Holds("one input or more, each by its name")]
    boxes: Annotated[dict[_Name, BoxKeys], Holds("boxes, each by its name", least=0)] = Field(default_factory=dict)
    outputs: Annotated[dict[_Name, OutputKeys], Field(min_length=1), Holds("one output or more, each by its name")]
    trigger: _Duration = 2.0
    kind: Annotated[Literal["random", "semantic"], Accepts("one of random, semantic")] | None = None
    solver: Annotated[Literal["auto", "greedy", "exact"], Accepts("one of auto, greedy, exact")] = "auto"
    objective: Annotated[Literal["sum", "balanced", "max_min"], Accepts("one of sum, balanced, max_min")] = "sum"


def checked(document: Document) -> NetworkKeys:
    """The file's content; what is wrong first in the file is the error."""
    try:
        return NetworkKeys.model_validate(document.data)
    except ValidationError as error:
        found = [_located(document, one) for one in error.errors(include_url=False)]
    raise min(found, key=lambda one: one[0])[1]


def _located(document: Document, error: ErrorDetails) -> tuple[int, PenstockError]:
    where: Where = ()
    for part in error["loc"]:
        if document.has((*where, part)):  # the rest is which of several types was tried
            where = (*where, part)
    told = error["ctx"]
    if told["key"]:
        where = (*where, told["key"])
    line = document.line(where)
    if error["type"] == "missing":
        return line, document.missing(where, told["accepted"])
    if error["type"] == "empty":
        return line, PenstockError(f"{document.at(where)} is empty: give a value, or take the key out")
    if "[key]" in error["loc"]:
        return line, PenstockError.setting(document.at(where), where[-1], told["accepted"])
    return line, document.refused(where, told["accepted"], told["fix"])


class _Schema(GenerateJsonSchema):
    """As the code has it: a key may be left out, but not empty."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - a title says what the key says
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def schema() -> dict[str, Any]:
    """The JSON schema of network files."""
    return {"$schema": _Schema.schema_dialect} | NetworkKeys.model_json_schema(schema_generator=_Schema)
