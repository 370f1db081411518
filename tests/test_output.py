"""Result files appear whole or not at all."""

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.errors import PenstockError
from penstock.output import writable_file, writable_folder, write_files


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Makes writing fail half-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_every_file_is_written_and_nothing_else_remains(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write_files({tmp_path / "a": b"1", tmp_path / "sub" / "b": b"2"})
    assert files(tmp_path) == {"a": b"1", "sub/b": b"2"}


def test_files_that_were_there_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a longer text than the new one")
    write_files({tmp_path / "a": b"1"})
    assert files(tmp_path) == {"a": b"1"}


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_who_may_read_a_file_is_what_the_user_set_for_all_files(tmp_path: Path, mask: int, mode: int) -> None:
    with umask(mask):
        write_files({tmp_path / "a": b"1"})
        assert os.umask(mask) == mask
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_no_file_is_touched_if_the_folder_of_one_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(PenstockError, match="a/b/c"):
        write_files({tmp_path / "a": b"1", tmp_path / "a" / "b" / "c": b"2"})
    assert files(tmp_path) == {"a": b"before"}


def test_no_file_is_touched_if_the_place_of_one_is_taken_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    (tmp_path / "b").mkdir()
    with pytest.raises(PenstockError):
        write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert files(tmp_path) == {"a": b"before"}


def test_the_file_that_could_not_be_written_is_named_as_the_user_knows_it(tmp_path: Path) -> None:
    (tmp_path / "las-4.png").mkdir()
    with pytest.raises(PenstockError, match=r"las-4\.png"):
        write_files({tmp_path / "las-4.png": b"1"})


def test_a_full_disk_leaves_nothing_behind_and_names_the_file(tmp_path: Path) -> None:
    with largest_file(1000), pytest.raises(PenstockError) as caught:
        write_files({tmp_path / "a": b"1", tmp_path / "large.csv": bytes(100_000)})
    assert files(tmp_path) == {}
    assert "large.csv" in str(caught.value)


def test_no_temporary_file_remains_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert files(tmp_path) == {}


def test_a_missing_folder_is_made_only_when_something_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"
    assert writable_folder("--out", folder) == folder
    assert not (tmp_path / "new").exists()
    write_files({folder / "a": b"1"})
    assert (folder / "a").read_bytes() == b"1"


def test_trying_a_folder_leaves_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    writable_folder("--out", tmp_path)
    writable_file("--json", tmp_path / "a")
    assert files(tmp_path) == {"a": b"1"}


def test_a_folder_below_an_ordinary_file_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with pytest.raises(PenstockError, match=r"--out = .*plain/results.*folder"):
        writable_folder("--out", tmp_path / "plain" / "results")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"--json = .*folder"):
        writable_file("--json", tmp_path)


def test_the_file_asked_for_is_named_when_its_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with pytest.raises(PenstockError, match=r"plain/results\.json"):
        writable_file("--json", tmp_path / "plain" / "results.json")


def test_a_pipe_or_device_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    """As with `--json /dev/stdout`, or /dev/null, for a user who may write in /dev."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # so that writing to it does not wait
    try:
        with suppress(PenstockError):
            write_files({writable_file("--json", pipe): b"{}"})
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    finally:
        os.close(reader)
