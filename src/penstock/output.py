"""Writing results: paths are checked before the work, and files appear whole or not at all."""

import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import PenstockError


def writable_folder(setting: str, folder: Path) -> Path:
    """The folder, if files could be written in it (it need not be there yet); otherwise one clear error."""
    _try_folder(folder, setting, folder, "a folder that can be written")
    return folder


def writable_file(setting: str, file: Path) -> Path:
    """The file's path, if its folder could be written (it need not be there yet); otherwise one clear error."""
    if file.is_dir():
        raise PenstockError.setting(setting, str(file), "the path of a file", "this is a folder")
    if not _is_special(file):
        _try_folder(file.resolve().parent, setting, file, "a file that can be written")
    return file


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write every file beside its place first, then move all into place; a pipe or device is written straight."""
    pending: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, content in contents.items():
            if path.is_dir():
                raise IsADirectoryError(0, "this is a folder")
            if not _is_special(path):
                path.resolve().parent.mkdir(parents=True, exist_ok=True)
                pending.append((_written_beside(path.resolve(), content), path))
        while pending:
            written, path = pending[0]
            written.replace(path.resolve())
            pending.pop(0)
        for path, content in contents.items():
            if _is_special(path):
                path.write_bytes(content)
    except OSError as error:
        raise PenstockError(f"cannot write {path}: {_why(error)}") from None
    finally:
        for written, _ in pending:
            written.unlink(missing_ok=True)


def _try_folder(folder: Path, setting: str, given: Path, accepted: str) -> None:
    """Write and remove a file in the folder, or in the nearest one above it that is there."""
    try:
        there = next(path for path in (folder, *folder.resolve().parents) if os.path.lexists(path))
        with tempfile.NamedTemporaryFile(dir=there, prefix=".penstock-"):
            pass
    except OSError as error:
        raise PenstockError.setting(setting, str(given), accepted, _why(error)) from None


def _written_beside(path: Path, content: bytes) -> Path:
    beside = path.with_name(f".penstock-{secrets.token_hex(8)}")
    try:
        beside.write_bytes(content)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return beside


def _is_special(path: Path) -> bool:
    """Whether this is a pipe, a device or the like, which must be written and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _why(error: OSError) -> str:
    return error.strerror or str(error)
