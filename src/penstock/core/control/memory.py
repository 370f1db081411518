"""The learned state of planners, as plain data that is saved with their plans and restored in the next run.

A learned class annotates the attributes of its state. These hints determine what is saved and what is accepted at a
restore. So no attribute can be forgotten, and a damaged state, or one of another release, is refused as a whole.
"""

import base64
import binascii
import copy
import json
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from penstock.messages.codec import Blob, Kind, Scalar, check_names, kind_of, plain, refusal

#: The most characters of a memory: every plan has one, and every batch reads a plan.
MOST = 65_536


def _floats(value: object) -> NDArray[np.float64] | None:
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), "<f8").copy()  # type: ignore[arg-type] # if it is
    except (TypeError, ValueError):
        return None


Floats = Annotated[
    NDArray[np.float64],
    Scalar(get_args(Blob)[1].arrow, _floats, lambda x: np.isfinite(x).all(), "finite numbers, in base64"),
]


class Learned:
    """Something learned. Every attribute that its class annotates is part of its state; parts may be learned, too.

    >>> from penstock.messages.codec import Count, Number
    >>> class Speed(Learned):
    ...     per_s: Number
    ...     batches: Count
    ...     def __init__(self):
    ...         self.per_s, self.batches = 0.0, 0
    >>> before, after = Speed(), Speed()
    >>> before.per_s, before.batches = 0.1, 3
    >>> after.restore(before.save())
    >>> after.per_s, after.batches
    (0.1, 3)
    """

    def save(self) -> dict[str, Any]:
        """The state, as JSON can hold it."""
        return {name: _plain(getattr(self, name)) for name in _kinds(type(self))}

    def restore(self, state: object) -> None:
        """Restore the state of `save`; if it is refused, nothing changes."""
        kinds = _kinds(type(self))
        if not isinstance(state, Mapping):
            raise refusal(type(self).__name__, state, "its state")
        check_names(state, kinds)
        found = {name: _restored(kind, state[name], getattr(self, name), name) for name, kind in kinds.items()}
        for name, value in found.items():
            setattr(self, name, value)


def saved(settings: str, **parts: Learned) -> dict[str, Any]:
    """The state of a planner that learns these parts under these settings."""
    return {"settings": settings} | {name: part.save() for name, part in parts.items()}


def restored(state: Mapping[str, Any], settings: str, **parts: Learned) -> None:
    """Restore each part; if anything is refused, nothing changes."""
    check_names(state, ["settings", *parts])
    if state["settings"] != settings:
        raise refusal("settings", state["settings"], f"what was learned with {settings}")
    found = {name: copy.copy(part) for name, part in parts.items()}
    for name, part in found.items():
        part.restore(state[name])
    for name, part in found.items():
        vars(parts[name]).update(vars(part))


#: The kinds of the attributes of each class: to evaluate its hints takes longer than to save its state.
_known: dict[type, dict[str, Kind | type[Learned]]] = {}


def _kinds(learned: type[Learned]) -> dict[str, Kind | type[Learned]]:
    if learned not in _known:
        hints = get_type_hints(learned, include_extras=True)
        parts = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Learned)}
        _known[learned] = {name: parts.get(name) or kind_of(hint) for name, hint in hints.items()}
    return _known[learned]


def _plain(value: object) -> object:
    match value:
        case Learned():
            return value.save()
        case np.ndarray():
            return base64.b64encode(value.astype("<f8").tobytes()).decode()
    return plain(value)


def _restored(kind: Kind | type[Learned], value: object, own: Any, name: str) -> object:  # noqa: ANN401 - of any type
    if isinstance(kind, type):
        part = copy.copy(own)
        part.restore(value)
        return part
    found = kind.accept(value, name)
    if isinstance(found, np.ndarray):
        if found.size != own.size:
            raise refusal(name, found.size, f"{own.size} numbers")
        return found.reshape(own.shape)
    return found


def to_text(state: Mapping[str, Any]) -> str:
    """A state as a plan carries it; empty if there is none, or if it is larger than a plan should be.

    >>> from_text(to_text({"a": 1})), to_text({})
    ({'a': 1}, '')
    """
    if not state:
        return ""
    packed = zlib.compress(json.dumps(state, sort_keys=True, separators=(",", ":")).encode(), 1)
    text = base64.b64encode(packed).decode()
    return text if len(text) <= MOST else ""


def from_text(text: str) -> Mapping[str, Any]:
    """The inverse of `to_text`.

    >>> from_text("torn")
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: memory = 'torn' is not usable: give what a planner has saved
    """
    try:
        state = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        raise refusal("memory", text, "what a planner has saved")
    return state
