"""Field types of user files, each with its error message, and the formatting of errors.

A file's model consists of `Keys`; `checked` validates a document, and `schema` is its JSON schema.
"""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from penstock.config.yaml_lines import Document, Where, nearest
from penstock.core.network import expressions as sql
from penstock.core.settings import duration_s
from penstock.errors import PenstockError

_NAME = r"^[\w.-]{1,100}$"
_NAME_RULE = "a name of up to 100 letters, digits, _, . and -"


def refused(accepted: str, *, fix: str = "", key: str = "") -> PydanticCustomError:
    """The error that a value cannot be used."""
    return PydanticCustomError("refused", "{accepted}", {"accepted": accepted, "fix": fix, "key": key})


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a field accepts: for errors, and as the description in the JSON schema."""

    text: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Every error uses this text."""
        return core_schema.no_info_wrap_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The text is the description."""
        return {**self._json(handler(schema)), "description": self.text}

    def _json(self, made: JsonSchemaValue) -> JsonSchemaValue:
        return made

    def _check(self, value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except (TypeError, ValueError, OverflowError):  # pydantic's own are ValueErrors
            raise refused(self.text) from None


@dataclass(frozen=True, slots=True)
class Holds(Accepts):
    """The same for a list or mapping whose members have their own errors."""

    kind: type = dict
    least: int = 1

    def _json(self, made: JsonSchemaValue) -> JsonSchemaValue:
        return made | ({"additionalProperties": False} if "patternProperties" in made else {})  # refuses invalid names

    def _check(self, value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        if not isinstance(value, self.kind) or len(value) < self.least:  # type: ignore[arg-type]
            raise refused(self.text)
        return handler(value)


@dataclass(frozen=True, slots=True)
class Words(Accepts):
    """The same for a list of words; one word may stand alone. A word may be a number."""

    least: int = 1
    most: int = 1000

    def _json(self, made: JsonSchemaValue) -> JsonSchemaValue:
        del made
        word: JsonSchemaValue = {"type": ["string", "integer"]}
        several = {"type": "array", "items": word, "minItems": self.least, "maxItems": self.most}
        return {"anyOf": [word, several] if self.least == 1 else [several]}

    def _check(self, value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        given = value if isinstance(value, list) else [value]
        given = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in given]
        if not (self.least <= len(given) <= self.most and all(isinstance(one, str) and one for one in given)):
            raise refused(self.text)
        return handler(given)


def parsed_sql(value: object) -> str:
    """An expression, which may be a mere number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    sql.parsed(str(value), "")
    return str(value)


def _options(value: object) -> object:
    """Spark takes options as text."""
    if not isinstance(value, dict):
        return value
    texts = {key: str(one) if isinstance(one, int | float) else one for key, one in value.items()}
    return {key: text.lower() if isinstance(value[key], bool) else text for key, text in texts.items()}


NUMBER_SCHEMA = {"type": ["string", "number"]}
Name = Annotated[str, Field(pattern=_NAME), Accepts(_NAME_RULE)]
Text = Annotated[str, Field(min_length=1), Accepts("text")]
Format = Annotated[str, Field(min_length=1), Accepts("a format that Spark can read as a stream")]
Columns = Annotated[str, Field(min_length=1), Accepts("columns as in SQL, such as 'key bigint, value double'")]
Number = Annotated[float, Field(ge=0.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0), Accepts("a number from 0 to 1")]
Duration = Annotated[
    float,
    BeforeValidator(lambda given: duration_s("", given)),
    WithJsonSchema(NUMBER_SCHEMA),
    Accepts("seconds above 0, or text like '200 ms' or '2 s'"),
]
Sql = Annotated[str, BeforeValidator(parsed_sql), WithJsonSchema(NUMBER_SCHEMA)]
Options = Annotated[
    dict[str, str],
    BeforeValidator(_options),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
    Accepts("options by name, each text, a number, true or false"),
]


class Keys(BaseModel):
    """A mapping with known keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: object) -> object:
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        keys = ", ".join(fields)
        if not isinstance(data, dict):
            raise refused(f"a mapping with keys among {keys}")
        for key, value in data.items():
            if key not in fields:
                raise refused(f"a key among {keys}", fix=nearest(key, fields), key=key)
            if value is None:
                raise PydanticCustomError("empty", "", {"key": key})
        for key, field in fields.items():
            if field.is_required() and key not in data:
                accepted = next(one.text for one in field.metadata if isinstance(one, Accepts))
                raise PydanticCustomError("missing", "", {"key": key, "accepted": accepted})
        return data


_K = TypeVar("_K", bound=Keys)


def checked(document: Document, model: type[_K]) -> _K:
    """The file's content; the first mistake in the file is the error."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        found = [_located(document, one) for one in error.errors(include_url=False)]
    raise min(found, key=lambda one: one[0])[1]


def _located(document: Document, error: ErrorDetails) -> tuple[int, PenstockError]:
    where: Where = ()
    for part in error["loc"]:
        if document.has((*where, part)):  # the rest names the types that were tried
            where = (*where, part)
    told = error["ctx"]
    if told["key"]:
        where = (*where, told["key"])
    line = document.line(where)
    if error["type"] == "missing":
        return line, document.missing(where, told["accepted"])
    if error["type"] == "empty":
        return line, PenstockError(f"{document.at(where)} is empty: give a value, or remove the key")
    if "[key]" in error["loc"]:
        return line, PenstockError.setting(document.at(where), where[-1], told["accepted"])
    return line, document.refused(where, told["accepted"], told["fix"])


class _Schema(GenerateJsonSchema):
    """A key may be omitted, but not empty."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - a title says what the key says
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def schema(model: type[Keys]) -> dict[str, Any]:
    """The JSON schema of such files."""
    return {"$schema": _Schema.schema_dialect} | model.model_json_schema(schema_generator=_Schema)
