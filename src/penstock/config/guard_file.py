"""A guard's settings from a YAML file: the same names as in Python, targets and policies by their own names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from penstock.core.balanced.policy import Balanced
from penstock.core.control.policies import BaseLine, FullKnowledge, LoadAware, RandomShed, StrawMan
from penstock.core.control.targets import MaxLag, MeanQueueLatency, Throughput
from penstock.errors import PenstockError

_TARGETS = {"mean_queue_latency": MeanQueueLatency, "max_lag": MaxLag, "throughput": Throughput}
#: What a target's one number is called.
_NUMBERS = {"mean_queue_latency": "limit", "max_lag": "age", "throughput": "rows_per_s"}
_POLICIES = {
    "load_aware": LoadAware,
    "random": RandomShed,
    "straw_man": StrawMan,
    "full_knowledge": FullKnowledge,
    "base_line": BaseLine,
    "balanced": Balanced,
}
_PLAIN = ("key", "arrival", "keep", "mode", "checkpoint", "row", "weight", "name", "row_gate", "quarantine", "backlog")
#: Settings that were renamed.
_OLD = {"fine": "row_gate"}


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in the file, as arguments of `Guard`."""
    found = {_OLD.get(name, name): value for name, value in _load(Path(path)).items()}
    for name in found:
        if name not in ("target", "policy", *_PLAIN):
            accepted = ", ".join(("target", "policy", *_PLAIN))
            raise PenstockError(f"{os.fspath(path)}: {name!r} is no setting of a guard: give {accepted}")
    if "target" not in found:
        raise PenstockError(f"{os.fspath(path)}: target is missing: give one of {', '.join(_TARGETS)}")
    settings = {name: found[name] for name in _PLAIN if name in found}
    for name in ("key", "row"):
        if settings.get(name) is None:
            settings.pop(name, None)
    # YAML reads a bare off as false.
    if settings.get("mode") is False:
        settings["mode"] = "off"
    settings["target"] = _made("target", found["target"], _TARGETS)
    if found.get("policy") is not None:
        settings["policy"] = _made("policy", found["policy"], _POLICIES)
    return settings


def _load(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PenstockError.setting(
            "path", str(path), "a YAML file that can be read", f"the system says: {error.strerror}"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PenstockError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise PenstockError(f"{path} holds no settings: give target: and others, one a line")
    return found


def _made(setting: str, given: object, kinds: dict[str, type[Any]]) -> object:
    """A target or policy from its name alone, or from its name with its settings below it."""
    accepted = f"one of {', '.join(kinds)}"
    if isinstance(given, str):
        given = {given: {}}
    if not isinstance(given, dict) or len(given) != 1:
        raise PenstockError.setting(setting, given, accepted, "with its settings below it")
    name, settings = next(iter(given.items()))
    if name not in kinds:
        raise PenstockError.setting(setting, name, accepted)
    if settings is None:
        settings = {}
    if not isinstance(settings, dict):
        if name not in _NUMBERS:
            raise PenstockError.setting(setting, given, f"the settings of {name} by their names")
        settings = {_NUMBERS[name]: settings}
    fields = [one for one in kinds[name].__dataclass_fields__ if one != "name"]
    for one in settings:
        if one not in fields:
            raise PenstockError(f"{one!r} is no setting of {name}: give {', '.join(fields) or 'none'}")
    try:
        return kinds[name](**settings)
    except TypeError:
        missing = ", ".join(one for one in fields if one not in settings)
        raise PenstockError(f"{name} is incomplete: give {missing}") from None
