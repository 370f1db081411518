"""A guard's claim to a folder: by what it tells rows apart, written once, so that no other guard uses its plans."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from pathlib import Path

#: The file with the folder's identity: by it an executor knows that it sees the driver's folder.
IDENTITY = "id"


def claim(folder: Path, own: dict[str, Any]) -> str:
    """Sign the folder, or refuse one that was signed differently; then make what executors write into.

    Returns:
        The folder's identity.
    """
    sign = folder / "guard.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not sign.exists():
            FolderStore(folder).probe()
            FolderStore(folder).create(sign.name, json.dumps(own).encode())
        found = json.loads(sign.read_text())
    except OSError as error:
        raise _unwritable(folder, f"the system says: {error.strerror}") from None
    except StoreError as error:
        raise (_unwritable(folder, error.why) if error.why else error) from None
    except ValueError:
        found = None
    if found == own:
        return _made(folder)
    if not isinstance(found, dict):
        raise PenstockError.setting(
            "checkpoint",
            str(folder.parent),
            "the folder of this guard or grouping, or one of its own",
            f"{sign} is damaged",
        )
    names = [name for name in {**own, **found} if found.get(name) != own.get(name)]
    differs = [f"{name} {found.get(name)!r} there, {own.get(name)!r} here" for name in names]
    raise PenstockError.setting(
        "checkpoint",
        str(folder.parent),
        "the folder of this guard or grouping, or one of its own",
        f"another one wrote it: {', '.join(differs)}",
    )


def store_id(folder: Path) -> str | None:
    """The identity of a claimed folder; None if this one is none, or cannot be seen from here."""
    try:
        return (folder / IDENTITY).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def _made(folder: Path) -> str:
    try:
        for name in ("plans", "bindings"):
            (folder / name).mkdir(exist_ok=True)
        if store_id(folder) is None:
            FolderStore(folder).create(IDENTITY, uuid.uuid4().hex.encode())
    except OSError as error:
        raise _unwritable(folder, f"the system says: {error.strerror}") from None
    except StoreError as error:
        raise _unwritable(folder, error.why) from None
    return store_id(folder) or ""


def _unwritable(folder: Path, why: str) -> PenstockError:
    return PenstockError.setting("checkpoint", str(folder.parent), "a folder that can be written", why)
