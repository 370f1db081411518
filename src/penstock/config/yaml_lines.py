"""YAML whose values remember their lines, so that every error can name the file, the line and the field.

Plain values are read by the rules of YAML 1.2: `on` is a word, not a truth value, and `1e3` is a number. A key is its
text, and may occur once.
"""

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr

import yaml

from penstock.errors import PenstockError, Shown

#: The path of a value: keys of mappings, positions in lists.
Where = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_READ: dict[str, Callable[[str], object]] = {
    "str": str,
    "int": int,
    "float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - as the base class has it


def _plain(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_TAG + kind, re.compile(rf"(?:{pattern})\Z"), list(first) or [""])


_plain("null", "~|null|Null|NULL", "~nN")
_plain("null", "", "")
_plain("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_plain("int", "[-+]?[0-9]+", "-+0123456789")
_plain("float", _FLOAT, "-+.0123456789")

_shorten = Repr()
_shorten.maxstring = _shorten.maxother = 80
_shorten.maxdict, _shorten.maxlist, _shorten.maxlevel = 3, 8, 3


@dataclass(frozen=True, repr=False)
class Document:
    """A file's values with their positions."""

    file: str  #: the file's name, as it was given
    data: object  #: its values
    root: yaml.Node  #: the nodes they were made from

    def line(self, where: Where) -> int:
        """The line of a value; if it is missing, of its parent."""
        node, line = self.root, self.root.start_mark.line
        for part in where:
            found = None
            if isinstance(node, yaml.MappingNode):
                found = next(((key, value) for key, value in node.value if key.value == part), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                found = (node.value[part], node.value[part])
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        return int(line) + 1

    def at(self, where: Where) -> str:
        """File, line and field.

        >>> parse("net.yaml", "inputs: {I1: {rate: 10}}").at(("inputs", "I1", "rate"))
        'net.yaml, line 1, inputs.I1.rate'
        """
        return f"{self.file}, line {self.line(where)}, {dotted(where)}" if where else f"{self.file}, line 1"

    def refused(self, where: Where, accepted: str, fix: str = "") -> PenstockError:
        """The error that a value cannot be used."""
        value = self.data
        for part in where:
            value = value[part]  # type: ignore[index]
        return PenstockError.setting(self.at(where), Shown(_shorten.repr(value)), accepted, fix)

    def missing(self, where: Where, accepted: str) -> PenstockError:
        """The error that a value is not there."""
        return PenstockError(f"{self.at(where)} is missing: give {accepted}")

    def has(self, where: Where) -> bool:
        """Whether there is such a value."""
        value = self.data
        for part in where:
            if isinstance(value, dict):
                found = part in value
            else:
                found = isinstance(value, list) and isinstance(part, int) and part < len(value)
            if not found:
                return False
            value = value[part]  # type: ignore[index]
        return True


def dotted(where: Where) -> str:
    """A field as it is written in errors.

    >>> dotted(("outputs", "O2", "value", "intervals", 1, "range"))
    'outputs.O2.value.intervals[1].range'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")


def nearest(word: str, known: Collection[str]) -> str:
    """A hint to the nearest known word, if there is one.

    >>> nearest("Selectivty", ["op", "selectivity"]), nearest("x", ["op", "from"])
    ('selectivity comes nearest', '')
    """
    found = get_close_matches(word.lower(), {one.lower(): one for one in known}, 1)
    return next(f"{one} comes nearest" for one in known if one.lower() == found[0]) if found else ""


def read(path: str | os.PathLike[str], kind: str, needs: str) -> Document:
    """Read a file of a kind, which needs some keys at least."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        why = error.strerror or str(error)
        raise PenstockError.setting(kind, os.fspath(path), "the path of a YAML file", why) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PenstockError(f"{path}, line {line} is not UTF-8: save the file in that encoding") from None
    return parse(os.fspath(path), text, needs)


def parse(file: str, text: str, needs: str = "values") -> Document:
    """The values of a text."""
    try:
        root = yaml.compose(text, _Loader)
        if root is None:
            raise PenstockError(f"{file} is empty: give {needs}")
        return Document(file, _Builder(file).value(root, ()), root)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"the character {chr(error.character)!r} has no place there"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, what = (mark.line + 1 if mark else 1), error.problem or "it cannot be read"
        if what.startswith("but "):
            what = f"{error.context}, {what}"
        elif error.context and error.context_mark:
            what = f"{what} {error.context} from line {error.context_mark.line + 1} on"
    except RecursionError:
        line, what = 1, "lists and mappings are nested too deeply"
    raise PenstockError(f"{file}, line {line} is not YAML: {what}; look at indentation, colons, quotes and brackets")


class _Builder:
    """Turns nodes into values."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._made: dict[int, object] = {}
        self._within: set[int] = set()

    def value(self, node: yaml.Node, where: Where) -> object:
        """The value of a node; an aliased node is built once."""
        key = id(node)
        if key in self._within:
            raise self._error(node, where, "contains itself: remove the alias")
        if key not in self._made:
            self._within.add(key)
            self._made[key] = self._new(node, where)
            self._within.remove(key)
        return self._made[key]

    def _new(self, node: yaml.Node, where: Where) -> object:
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(one, (*where, position)) for position, one in enumerate(node.value)]
        if not isinstance(node, yaml.ScalarNode) or kind not in _READ:
            raise self._error(node, where, f"has the tag {node.tag}: write plain values")
        try:
            return _READ[kind](node.value)
        except ValueError:
            raise self._error(node, where, f"is no {kind} that can be read: write another one") from None

    def _mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, where, "has a key that is a list or a mapping: write a word")
            if key.value in found:
                first = next(one for one, _ in node.value if one.value == key.value).start_mark.line + 1
                raise self._error(key, (*where, key.value), f"is there twice, first in line {first}: give it once")
            found[key.value] = self.value(value, (*where, key.value))
        return found

    def _error(self, node: yaml.Node, where: Where, what: str) -> PenstockError:
        place = f", {dotted(where)}" if where else ""
        return PenstockError(f"{self._file}, line {node.start_mark.line + 1}{place} {what}")
