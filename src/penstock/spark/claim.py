"""A guard's claim to a folder: by what it tells rows apart, written once, so that no other guard uses its plans."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pathlib import Path


def claim(folder: Path, own: dict[str, Any]) -> None:
    """Sign the folder, or refuse one that was signed differently."""
    sign = folder / "guard.json"
    temporary = folder / f".guard.{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not sign.exists():
            temporary.write_text(json.dumps(own))
            try:
                os.link(temporary, sign)  # refused if another was faster
            except FileExistsError:
                pass
            except OSError:  # a file system without links
                temporary.replace(sign)
            temporary.unlink(missing_ok=True)
        found = json.loads(sign.read_text())
    except OSError as error:
        raise PenstockError.setting(
            "checkpoint", str(folder.parent), "a folder that can be written", f"the system says: {error.strerror}"
        ) from None
    except ValueError:
        found = None
    if found == own:
        return
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
