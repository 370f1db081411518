"""Writing results: a folder is tried before the work, and files appear whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import PenstockError


def writable_folder(setting: str, folder: Path) -> Path:
    """The folder, made if missing, once a file could be written in it; otherwise one clear error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".penstock-"):
            return folder
    except OSError as error:
        why = error.strerror or str(error)
        raise PenstockError.setting(setting, str(folder), "a folder that can be written", why) from None


def writable_file(setting: str, file: Path) -> Path:
    """The file's path, once its folder could be written; otherwise one clear error."""
    if file.is_dir():
        raise PenstockError.setting(setting, str(file), "the path of a file", "this is a folder")
    writable_folder(setting, file.parent)
    return file


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write every file beside its place first, then move all into place."""
    pending: list[tuple[str, Path]] = []
    try:
        for path, content in contents.items():
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".penstock-", delete=False) as file:
                pending.append((file.name, path))
                file.write(content)
            os.chmod(file.name, 0o666 & ~_umask())  # noqa: PTH101 - the name is a string here
        while pending:
            name, path = pending[0]
            Path(name).replace(path)
            pending.pop(0)
    except OSError as error:
        raise PenstockError(f"cannot write {error.filename}: {error.strerror}") from None
    finally:
        for name, _ in pending:
            Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
