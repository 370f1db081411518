"""A guard's claim to a folder: the settings that identify rows, written once, so that no other guard uses its plans."""

import os
import uuid

from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.store.interface import StoreError
from penstock.store.place import Place

#: The file with the folder's identity, which tells an executor that this is the driver's folder.
IDENTITY = "id"
#: The file with the claim.
SIGN = "guard.json"


def claim(folder: str | os.PathLike[str] | Place, own: Claim) -> str:
    """Sign the folder, or refuse one that was signed differently; then create the folders that executors write to.

    Returns:
        The folder's identity.
    """
    place = Place.of(folder)
    try:
        store = place.store()
        if not store.has(SIGN):
            store.create(SIGN, own.to_json().encode())
        found = Claim.from_json((store.read(SIGN) or b"").decode())
    except StoreError as error:
        raise _unwritable(place, error) from None
    except ValueError:
        raise _refusal(place, f"{place / SIGN} is damaged") from None
    if found != own:
        raise _refusal(place, f"another one wrote it: {', '.join(found.differences(own))}")
    return _made(place)


def store_id(folder: str | os.PathLike[str] | Place) -> str | None:
    """The identity of a claimed folder; None if it is not claimed, or not visible here."""
    try:
        found = Place.of(folder).store(make=False).read(IDENTITY)
        return None if found is None else found.decode("ascii")
    except ValueError:
        return None


def _made(place: Place) -> str:
    try:
        for name in ("plans", "bindings"):
            (place / name).store()
        if store_id(place) is None:
            place.store().create(IDENTITY, uuid.uuid4().hex.encode())
    except StoreError as error:
        raise _unwritable(place, error) from None
    return store_id(place) or ""


def _refusal(place: Place, why: str) -> PenstockError:
    return PenstockError.setting(
        "checkpoint", str(place.parent), "the folder of this guard or grouping, or one of its own", why
    )


def _unwritable(place: Place, error: StoreError) -> PenstockError:
    if not error.why:  # a file system that is refused, as its own line says
        return error
    accepted = error.accepted or "a folder that can be written"
    return PenstockError.setting("checkpoint", str(place.parent), accepted, error.why)
