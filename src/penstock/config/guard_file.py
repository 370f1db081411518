"""A guard's settings from a YAML file: the same names as in Python, targets and policies by their own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.config.yaml_lines import Document, Where, nearest, read
from penstock.core.balanced.policy import Balanced
from penstock.core.control.policies import BaseLine, FullKnowledge, LoadAware, RandomShed, StrawMan
from penstock.core.control.targets import Deadline, MaxLag, MeanQueueLatency, Throughput
from penstock.errors import PenstockError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_T = TypeVar("_T")

_TARGETS = {
    "mean_queue_latency": MeanQueueLatency,
    "max_lag": MaxLag,
    "throughput": Throughput,
    "deadline": Deadline,
}
#: What a target's one number is called.
_NUMBERS = {"mean_queue_latency": "limit", "max_lag": "age", "throughput": "rows_per_s", "deadline": "within"}
_POLICIES: tuple[type[Any], ...] = (LoadAware, RandomShed, StrawMan, FullKnowledge, BaseLine, Balanced)
_KINDS: dict[str, dict[str, type[Any]]] = {"target": _TARGETS, "policy": {one.name: one for one in _POLICIES}}
_PLAIN = ("key", "arrival", "keep", "mode", "checkpoint", "row", "weight", "name", "row_gate", "quarantine", "backlog")
#: Settings that were renamed.
_OLD = {"fine": "row_gate"}
_NEEDS = "target: and others, one a line"


def read_guard(path: str | os.PathLike[str], make: Callable[..., _T]) -> _T:
    """What `make`, given the settings in the file as arguments of `Guard`, makes of them."""
    document = read(path, "guard file", _NEEDS)
    if not isinstance(document.data, dict):
        raise PenstockError(f"{document.at(())} holds no settings: give {_NEEDS}")
    known = ("target", "policy", *_PLAIN)
    for name in document.data:
        if name not in (*known, *_OLD):
            raise document.refused((name,), f"a key among {', '.join(known)}", nearest(name, known))
    given = {str(_OLD.get(name, name)): value for name, value in document.data.items() if value is not None}
    if "target" not in given:
        raise document.missing(("target",), f"one of {', '.join(_TARGETS)}")
    made = {name: _made(document, name, kinds) for name, kinds in _KINDS.items() if name in given}
    return _located(document, (), lambda: make(**given | made))


def _made(document: Document, setting: str, kinds: dict[str, type[Any]]) -> object:
    """A target or policy from its name alone, or from its name with its settings below it."""
    given = document.data[setting]  # type: ignore[index]  # looked up there before
    accepted = f"one of {', '.join(kinds)}"
    if isinstance(given, str):
        given = {given: None}
    if not isinstance(given, dict) or len(given) != 1:
        raise document.refused((setting,), accepted, "with its settings below it")
    name, settings = next(iter(given.items()))
    if name not in kinds:
        raise PenstockError.setting(document.at((setting,)), name, accepted)
    where, kind = (setting, name), kinds[name]
    if settings is not None and not isinstance(settings, dict):
        if name not in _NUMBERS:
            raise document.refused(where, f"the settings of {name} by their names")
        settings = {_NUMBERS[name]: settings}
    settings = settings or {}
    fields = [one for one in kind.__dataclass_fields__ if one != "name"]
    for one in settings:
        if one not in fields:
            raise document.refused((*where, one), f"a key among {', '.join(fields)}", nearest(one, fields))
    try:
        return _located(document, where, lambda: kind(**settings))
    except TypeError:
        missing = ", ".join(one for one in fields if one not in settings)
        raise PenstockError(f"{document.at(where)} is incomplete: give {missing}") from None


def _located(document: Document, where: Where, make: Callable[[], _T]) -> _T:
    """What is made; an error over one of the settings names its line."""
    try:
        return make()
    except PenstockError as error:
        setting, _, rest = str(error).partition(" ")
        if document.has((*where, setting)):
            raise PenstockError(f"{document.at((*where, setting))} {rest}") from None
        raise PenstockError(f"{document.at(where)}: {error}") from None
