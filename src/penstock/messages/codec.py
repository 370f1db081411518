"""What messages share: checked fields, and lossless conversion to JSON and Arrow and back.

A message is a frozen dataclass whose type hints are its whole description. They say what each field accepts,
and its JSON and its Arrow schema follow from the same hints, so the three cannot disagree.
"""

import base64
import inspect
import json
import math
import reprlib
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import MISSING, dataclass
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin

import pyarrow as pa

from penstock.errors import PenstockError, Shown

FORMAT = 1

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V]):
    """An immutable mapping: hashable, picklable, and equal to any mapping with the same items.

    >>> FrozenMap({"b": 2, "a": 1}) == {"a": 1, "b": 2}
    True
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: K) -> V:
        """Return the value under a key."""
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        """Walk over the keys."""
        return iter(self._items)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        """Whether there is a value under a key."""
        return key in self._items

    def keys(self) -> KeysView[K]:
        """The keys. These views are those of a dictionary: a mapping's own look every key up."""
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        """The values."""
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        """Keys with their values."""
        return self._items.items()

    def __hash__(self) -> int:
        """Agree with equality: the order of items does not matter."""
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        """Show the items."""
        return f"FrozenMap({self._items})"


def refusal(name: str, value: object, accepted: str) -> PenstockError:
    """The one-line error for a field that cannot be used.

    >>> print(refusal("keep", list(range(99)), "at least one number"))
    keep = [0, 1, 2, 3, 4, 5, ...] is not usable: give at least one number
    """
    return PenstockError.setting(name, Shown(" ".join(reprlib.repr(value).split())), accepted)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value."""

    arrow: pa.DataType
    plain: Callable[[object], object]  # the value in Python's own type; `None`: it is of another kind
    fits: Callable[[Any], bool]
    accepted: str

    def accept(self, value: object, name: str) -> object:
        """Return the value in Python's own type."""
        plain = self.plain(value)
        if plain is None or not self.fits(plain):
            raise refusal(name, value, self.accepted)
        return plain


@dataclass(frozen=True, slots=True)
class _Maybe:
    inner: "Kind"

    @property
    def arrow(self) -> pa.DataType:
        return self.inner.arrow

    def accept(self, value: object, name: str) -> object:
        return None if value is None else self.inner.accept(value, name)


@dataclass(frozen=True, slots=True)
class _Several:
    item: "Kind"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.item.arrow)

    def accept(self, value: object, name: str) -> object:
        if type(value) is tuple and not value:
            return value
        if not isinstance(value, tuple):
            if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
                raise refusal(name, value, "a sequence")
            value = tuple(value)
        if isinstance(self.item, Scalar):  # all at once, because a plan has a thousand; invalid ones are named below
            floats = self.item.plain is _real and set(map(type, value)) == {float}
            found = tuple([item + 0.0 for item in value]) if floats else tuple(map(self.item.plain, value))
            if None not in found and all(map(self.item.fits, set(found))):  # most are equal
                return found
        return tuple(self.item.accept(item, f"{name}[{number}]") for number, item in enumerate(value))


@dataclass(frozen=True, slots=True)
class _Keyed:
    key: "Kind"
    item: "Kind"

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, self.item.arrow)

    def accept(self, value: object, name: str) -> object:
        if not isinstance(value, Mapping):
            raise refusal(name, value, "a mapping")
        return FrozenMap(
            (self.key.accept(key, f"key of {name}"), self.item.accept(item, f"{name}[{key!r}]"))
            for key, item in value.items()
        )


@dataclass(frozen=True, slots=True)
class _Nested:
    record: "type[Record]"

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([(name, kind.arrow) for name, kind in self.record.kinds.items()])

    def accept(self, value: object, name: str) -> object:
        if isinstance(value, dict):
            value = self.record._of_today(value)  # noqa: SLF001 - a record reads its own fields
            check_names(value, self.record.kinds)
            return self.record(**value)
        if not isinstance(value, self.record):
            raise refusal(name, value, f"one of type {self.record.__name__}")
        return value


#: What a field may hold: its type in Arrow, and `accept`, which returns a value as it is stored or refuses it by name.
Kind = Scalar | _Maybe | _Several | _Keyed | _Nested


def kind_of(hint: object) -> Kind:
    """What a field with this hint may hold."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        scalar: Scalar = args[1]
        return scalar
    if origin in (Union, UnionType):
        return _Maybe(kind_of(args[0]))
    if origin is tuple:
        return _Several(kind_of(args[0]))
    if origin is Mapping:
        return _Keyed(kind_of(args[0]), kind_of(args[1]))
    if isinstance(hint, type) and issubclass(hint, Record):
        return _Nested(hint)
    raise TypeError(f"{hint!r} is no hint for a field of a message")


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def _real(value: object) -> float | None:
    if type(value) is float:
        return value or 0.0
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value) + 0.0  # -0.0 becomes 0.0: equal messages have equal JSON
    except OverflowError:
        return math.inf


def _text(value: object) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def _blob(value: object) -> bytes | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, dict) or list(value) != ["base64"]:
        return None
    try:
        return base64.b64decode(value["base64"], validate=True)
    except (TypeError, ValueError):
        return None


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


Count = Annotated[int, Scalar(pa.int64(), _whole, lambda n: 0 <= n < 2**63, "a whole number from 0 to 2**63 - 1")]
Int64 = Annotated[int, Scalar(pa.int64(), _whole, lambda n: -(2**63) <= n < 2**63, "a whole number that fits 64 bits")]
Seconds = Annotated[
    float, Scalar(pa.float64(), _real, lambda s: 0 <= s < math.inf, "seconds, a finite number from 0 up")
]
Share = Annotated[float, Scalar(pa.float64(), _real, lambda x: 0 <= x <= 1, "a number from 0 to 1")]
Factor = Annotated[float, Scalar(pa.float64(), _real, lambda x: 0 < x < math.inf, "a finite number above 0")]
Number = Annotated[float, Scalar(pa.float64(), _real, lambda x: not math.isnan(x), "a number")]
Flag = Annotated[
    bool, Scalar(pa.bool_(), lambda x: x if isinstance(x, bool) else None, lambda _: True, "true or false")
]
Text = Annotated[str, Scalar(pa.string(), _text, _is_utf8, "text that UTF-8 can hold")]
Name = Annotated[
    str, Scalar(pa.string(), _text, lambda t: t != "" and _is_utf8(t), "a name: text, not empty, in UTF-8")
]
Blob = Annotated[bytes, Scalar(pa.binary(), _blob, lambda _: True, "bytes")]


class Record:
    """A frozen dataclass that checks its fields against their hints when it is made.

    A field takes its value or the JSON form of it, so to read a message is to make one.
    """

    __slots__ = ()

    kinds: ClassVar[Mapping[str, Kind]] = FrozenMap()
    _accepts: ClassVar[tuple[tuple[str, Callable[[object, str], object], object], ...]] = ()

    def __init_subclass__(cls) -> None:
        """Derive once what each field may hold."""
        own = {name: kind_of(hint) for name, hint in inspect.get_annotations(cls).items()}
        cls.kinds = FrozenMap({**cls.kinds, **own})
        made = cls.__dict__.get("__dataclass_fields__", {})  # there once slots are made
        defaults = {name: made[name].default if name in made else MISSING for name in cls.kinds}
        cls._accepts = tuple((name, kind.accept, defaults[name]) for name, kind in cls.kinds.items())

    def __post_init__(self) -> None:
        """Store every field in its plain, immutable form, or refuse it."""
        for name, accept, default in self._accepts:
            given = getattr(self, name)
            if given is not default and (accepted := accept(given, name)) is not given:
                object.__setattr__(self, name, accepted)
        self._check()

    def _check(self) -> None:
        """Refuse fields that contradict each other."""

    @classmethod
    def _of_today(cls, document: dict[str, Any]) -> dict[str, Any]:
        """What an earlier release wrote, as this one writes it."""
        return document


class Message(Record):
    """A record that converts to JSON and Arrow and back without loss."""

    __slots__ = ()

    def to_json(self) -> str:
        """The message as one line of canonical JSON: equal messages give equal text."""
        return _CANONICAL.encode(_document(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The message that `to_json` wrote, or a `PenstockError` that names what is wrong with the text."""
        try:
            document = json.loads(text, object_pairs_hook=_unique)
        except PenstockError:
            raise
        except (TypeError, ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise refusal("text", text, f"the JSON of a {cls.__name__}")
        return cls._from_document(document)

    @classmethod
    def arrow_schema(cls) -> pa.Schema:
        """One column a field, and `format`; only a field that may be `None` is nullable."""
        columns = [pa.field(name, kind.arrow, nullable=isinstance(kind, _Maybe)) for name, kind in cls.kinds.items()]
        return pa.schema([pa.field("format", pa.int64(), nullable=False), *columns])

    @classmethod
    def to_arrow(cls, messages: Sequence[Self]) -> pa.Table:
        """The messages as a table, one row each, with the columns of `arrow_schema`."""
        for number, message in enumerate(messages):
            if not isinstance(message, cls):
                raise refusal(f"messages[{number}]", message, f"one of type {cls.__name__}")
        rows = [_document(message) for message in messages]
        return pa.Table.from_pylist(rows, schema=cls.arrow_schema())

    @classmethod
    def from_arrow(cls, table: pa.Table) -> list[Self]:
        """The messages that `to_arrow` wrote, also from Parquet."""
        if not table.num_rows:  # Otherwise each row is checked, and may be of an earlier release.
            check_names(table.column_names, ["format", *cls.kinds])
        try:
            rows = table.to_pylist(maps_as_pydicts="strict")
        except KeyError as error:
            raise PenstockError(f"the table has a map with one key twice: {error.args[0]}") from None
        return [cls._from_document(row) for row in rows]

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> Self:
        found = document.get("format")
        if type(found) is not int or found != FORMAT:
            raise refusal("format", found, f"{FORMAT}, the only format this release reads")
        document = cls._of_today(document)
        check_names(document, ["format", *cls.kinds])
        return cls(**{name: document[name] for name in cls.kinds})


def _document(message: Message) -> dict[str, object]:
    return {"format": FORMAT, **_fields(message)}


def _fields(record: Record) -> dict[str, object]:
    return {name: plain(getattr(record, name)) for name in record.kinds}


_AS_IT_IS = frozenset({bool, float, int, str, type(None)})


def plain(value: object) -> object:
    """A value as JSON can hold it."""
    if type(value) in _AS_IT_IS:  # what almost all are: a plan has a thousand
        return value
    match value:
        case tuple():
            return [item if type(item) in _AS_IT_IS else plain(item) for item in value]
        case Record():
            return _fields(value)
        case FrozenMap():
            return {key: plain(item) for key, item in value.items()}
    return value


def _base64(blob: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(blob).decode()}


_CANONICAL = json.JSONEncoder(default=_base64, sort_keys=True, separators=(",", ":"))


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key, times = next(one for one in Counter(key for key, _ in pairs).items() if one[1] > 1)
        raise refusal(repr(key), f"{times} values", "one value")
    return found


def check_names(found: Iterable[str], known: Iterable[str]) -> None:
    """Refuse fields that are not known, and their lack."""
    found, known = list(found), list(known)
    if set(found) == set(known):
        return
    for name in found:
        if name not in known:
            raise PenstockError(f"{name!r} is not a field: give {', '.join(known)}")
    for name in known:
        if name not in found:
            raise PenstockError(f"{name} is missing: give {', '.join(known)}")
