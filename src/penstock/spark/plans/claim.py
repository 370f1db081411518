"""A guard's claim to a folder: the settings that identify rows, written once, so that no other guard uses its plans."""

import uuid
from pathlib import Path

from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

#: The file with the folder's identity, which tells an executor that this is the driver's folder.
IDENTITY = "id"
#: The file with the claim.
SIGN = "guard.json"


def claim(folder: Path, own: Claim) -> str:
    """Sign the folder, or refuse one that was signed differently; then create the folders that executors write to.

    Returns:
        The folder's identity.
    """
    try:
        store = FolderStore(folder)
        if not store.has(SIGN):
            store.create(SIGN, own.to_json().encode())
        found = Claim.from_json((store.read(SIGN) or b"").decode())
    except StoreError as error:
        raise _unwritable(folder, error) from None
    except ValueError:
        raise _refusal(folder, f"{folder / SIGN} is damaged") from None
    if found != own:
        raise _refusal(folder, f"another one wrote it: {', '.join(found.differences(own))}")
    return _made(folder)


def store_id(folder: Path) -> str | None:
    """The identity of a claimed folder; None if it is not claimed, or not visible here."""
    try:
        return (folder / IDENTITY).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def _made(folder: Path) -> str:
    try:
        for name in ("plans", "bindings"):
            FolderStore(folder / name)
        if store_id(folder) is None:
            FolderStore(folder).create(IDENTITY, uuid.uuid4().hex.encode())
    except StoreError as error:
        raise _unwritable(folder, error) from None
    return store_id(folder) or ""


def _refusal(folder: Path, why: str) -> PenstockError:
    return PenstockError.setting(
        "checkpoint", str(folder.parent), "the folder of this guard or grouping, or one of its own", why
    )


def _unwritable(folder: Path, error: StoreError) -> PenstockError:
    if not error.why:  # a file system that is refused, as its own line says
        return error
    return PenstockError.setting("checkpoint", str(folder.parent), "a folder that can be written", error.why)
