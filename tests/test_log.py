import errno
import logging
import multiprocessing
import os
import pickle
import random
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.messages.plan import KeepTable, Plan
from penstock.store.logs import PlanLog, Skipped
from penstock.testing import CrashingPlanLog, SimulatedCrash, Step


def plan(version: int, note: str = "") -> Plan:
    gate = KeepTable("source", (1.0, 0.5, 0.25), ("", "busy", "busy"))
    return Plan(version, "test", decided_s=1.5 * version, salt=version, gates=(gate,), note=note)


def file_of(log: PlanLog, version: int) -> Path:
    return log.folder / f"{version:020d}.plan"


def no_hard_links(monkeypatch: pytest.MonkeyPatch, code: int = errno.EPERM) -> None:
    def link(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)


@pytest.fixture
def log(tmp_path: Path) -> PlanLog:
    return PlanLog(tmp_path / "deep" / "plans")


@pytest.fixture(params=["links", "no links"])
def any_log(request: pytest.FixtureRequest, log: PlanLog, monkeypatch: pytest.MonkeyPatch) -> PlanLog:
    if request.param == "no links":
        no_hard_links(monkeypatch)
    return log


def test_an_empty_log(log: PlanLog, caplog: pytest.LogCaptureFixture) -> None:
    assert log.folder.is_dir()
    assert (log.versions(), list(log.plans()), log.skipped()) == ([], [], [])
    assert (log.latest(), log.get(0), log.next_version()) == (None, None, 0)
    assert log.get(-1) is None
    assert caplog.messages == []


def test_first_writer_of_a_version_wins(any_log: PlanLog) -> None:
    assert any_log.add(7, plan(7, "first"))
    assert not any_log.add(7, plan(7, "second"))
    assert any_log.add(3, plan(3))
    assert any_log.versions() == [3, 7]
    assert any_log.get(7) == plan(7, "first")
    assert list(any_log.plans()) == [plan(3), plan(7, "first")]
    assert any_log.latest() == plan(7, "first")
    assert any_log.next_version() == 8
    assert any_log.skipped() == []
    assert not list(any_log.folder.glob(".*.tmp"))


def test_version_must_be_the_plans_own(log: PlanLog) -> None:
    with pytest.raises(PenstockError, match=r"^version = 2 is not usable: give the version of the plan, 1$"):
        log.add(2, plan(1))
    assert log.versions() == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS])
def test_every_answer_that_means_no_hard_links(log: PlanLog, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    no_hard_links(monkeypatch, code)
    assert log.add(0, plan(0))
    assert log.get(0) == plan(0)


def test_a_link_that_succeeded_but_was_reported_taken(log: PlanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lose_the_answer(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", lose_the_answer)
    assert log.add(0, plan(0))
    monkeypatch.undo()
    assert not log.add(0, plan(0))


def test_plan_and_folder_are_synced_before_add_returns(log: PlanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, link = os.fsync, os.link

    def note_fsync(descriptor: int) -> None:
        events.append("folder" if Path(f"/dev/fd/{descriptor}").is_dir() else "file")
        fsync(descriptor)

    def note_link(source: Path, target: Path) -> None:
        events.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "link", note_link)
    log.add(0, plan(0))
    log.add(0, plan(0))
    assert events == ["file", "link", "folder"] * 2


def test_new_folders_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def note_fsync(descriptor: int) -> None:
        synced.append(Path(f"/dev/fd/{descriptor}").resolve())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_fsync)
    PlanLog(tmp_path / "a" / "b")
    PlanLog(tmp_path / "a" / "b")
    assert synced == [(tmp_path / "a").resolve(), tmp_path.resolve()]


def test_a_file_system_that_cannot_sync_folders(log: PlanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def refuse(code: int) -> Callable[[int], None]:
        def fsync_files_only(descriptor: int) -> None:
            if Path(f"/dev/fd/{descriptor}").is_dir():
                raise OSError(code, os.strerror(code))
            fsync(descriptor)

        return fsync_files_only

    monkeypatch.setattr(os, "fsync", refuse(errno.EINVAL))
    assert log.add(0, plan(0))
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(PenstockError, match=r"^folder = '.*' is not usable: .*; the system says: .*$"):
        log.add(1, plan(1))


def test_a_folder_that_cannot_be_used(tmp_path: Path, log: PlanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    one_line = r"^folder = '[^\n]*' is not usable: give a folder that can be [^\n]*; the system says: [^\n]*$"
    for path in (tmp_path / "file", tmp_path / "file" / "plans"):
        with pytest.raises(PenstockError, match=one_line):
            PlanLog(path)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", deny)
        with pytest.raises(PenstockError, match=one_line):
            PlanLog(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", deny)
        with pytest.raises(PenstockError, match=one_line):
            log.add(0, plan(0))
    assert list(log.folder.iterdir()) == []
    log.folder.rmdir()
    with pytest.raises(PenstockError, match=one_line):
        log.latest()


def test_a_log_survives_pickling(log: PlanLog) -> None:
    log.add(0, plan(0))
    assert pickle.loads(pickle.dumps(log)).get(0) == plan(0)  # noqa: S301, our own bytes


def test_truncation_at_every_byte_is_noticed(log: PlanLog) -> None:
    log.add(0, plan(0))
    log.add(1, plan(1))
    whole = file_of(log, 1).read_bytes()
    for length in range(len(whole)):
        file_of(log, 1).write_bytes(whole[:length])
        assert log.get(1) is None
        assert log.latest() == plan(0)
        assert [skipped.path_name for skipped in log.skipped()] == [file_of(log, 1).name]
        assert log.next_version() == 2
    file_of(log, 1).write_bytes(whole)
    assert log.latest() == plan(1)


@given(st.data())
def test_altered_bytes_are_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    log = PlanLog(tmp_path_factory.getbasetemp() / "altered")
    log.add(1, plan(1))
    whole = file_of(log, 1).read_bytes()
    try:
        altered = bytearray(whole)
        position = data.draw(st.integers(0, len(whole) - 1))
        altered[position] ^= data.draw(st.integers(1, 255))
        file_of(log, 1).write_bytes(altered)
        assert log.get(1) is None
        file_of(log, 1).write_bytes(data.draw(st.binary(max_size=300)))
        assert log.latest() is None
    finally:
        file_of(log, 1).write_bytes(whole)


def test_what_is_skipped_is_named_and_warned_of_once(log: PlanLog, caplog: pytest.LogCaptureFixture) -> None:
    log.add(0, plan(0))
    file_of(log, 1).write_bytes(b"")
    file_of(log, 2).write_bytes(file_of(log, 0).read_bytes())
    file_of(log, 3).mkdir()
    for version, text in ((4, b'{"format":9}'), (5, b"\xff")):
        seal = xxhash.xxh64_hexdigest(text).encode()
        file_of(log, version).write_bytes(seal + b"\n" + text + b"\n")
    (log.folder / "notes.txt").touch()
    expected = [
        Skipped(file_of(log, 1).name, "its checksum does not match: it is torn or altered"),
        Skipped(file_of(log, 2).name, "it holds version 0"),
        Skipped(file_of(log, 3).name, f"the system says: {os.strerror(errno.EISDIR)}"),
        Skipped(
            file_of(log, 4).name,
            "format = 9 is not usable: give 1, the only format this release reads",
        ),
        Skipped(file_of(log, 5).name, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        Skipped("notes.txt", "it is not named as a plan is"),
    ]
    with caplog.at_level(logging.WARNING, logger="penstock.store.logs"):
        assert list(log.plans()) == [plan(0)]
        assert log.latest() == plan(0)
        assert log.skipped() == expected
        assert log.skipped() == expected
    assert len(caplog.messages) == len(expected)
    for skipped, message in zip(expected, sorted(caplog.messages), strict=True):
        assert message == f"plan log {log.folder}: {skipped.path_name} is skipped: {skipped.why}"
    assert log.versions() == [0, 1, 2, 3, 4, 5]
    assert not log.add(1, plan(1))
    assert log.add(log.next_version(), plan(6))


def test_a_writers_unfinished_file_is_invisible_and_goes_when_it_is_old(log: PlanLog) -> None:
    with pytest.raises(SimulatedCrash):
        CrashingPlanLog(log.folder, crash_at=Step.AFTER_WRITE).add(0, plan(0))
    assert (log.versions(), log.skipped()) == ([], [])
    (temp,) = log.folder.iterdir()
    PlanLog(log.folder)
    assert temp.exists(), "its writer may be slow"
    os.utime(temp, (0, 0))
    PlanLog(log.folder, make=False)
    assert (temp.exists(), log.skipped()) == (True, []), "a reader changes nothing"
    PlanLog(log.folder)
    assert not temp.exists()
    assert log.add(0, plan(0))


@pytest.mark.parametrize("step", Step)
def test_after_a_crash_at_any_step_a_plan_is_whole_or_absent(any_log: PlanLog, step: Step) -> None:
    any_log.add(0, plan(0))
    with pytest.raises(SimulatedCrash):
        CrashingPlanLog(any_log.folder, crash_at=step).add(1, plan(1))
    fresh = PlanLog(any_log.folder)
    published = step in (Step.AFTER_PUBLISH, Step.AFTER_ALL)
    assert fresh.get(1) == (plan(1) if published else None)
    assert fresh.skipped() == []
    assert fresh.add(1, plan(1, "again")) is not published
    assert fresh.get(1) == plan(1, "" if published else "again")
    assert fresh.add(fresh.next_version(), plan(2))
    assert fresh.versions() == [0, 1, 2]


def test_threads_race(any_log: PlanLog) -> None:
    writers, versions = 8, 25
    start = threading.Barrier(writers)

    def write(writer: int) -> list[bool]:
        start.wait()
        return [any_log.add(version, plan(version, str(writer))) for version in range(versions)]

    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(write, range(writers)))
    for version in range(versions):
        (winner,) = [writer for writer in range(writers) if won[writer][version]]
        assert any_log.get(version) == plan(version, str(winner))
    assert any_log.versions() == list(range(versions))
    assert any_log.skipped() == []


NO_HARD_LINKS = """
import errno, os
def link(*_):
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))
os.link = link
"""


@pytest.mark.parametrize("setup", ["", NO_HARD_LINKS], ids=["links", "no links"])
def test_processes_race(log: PlanLog, setup: str) -> None:
    writers, versions = 4, 60
    tries = [plan(version, str(writer)) for version in range(versions) for writer in range(writers)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(writers, spawn, initializer=exec, initargs=(setup, {})) as pool:
        won = list(pool.map(log.add, [one.version for one in tries], tries))
    winners = [one for one, has_won in zip(tries, won, strict=True) if has_won]
    assert [winner.version for winner in winners] == list(range(versions))
    assert list(log.plans()) == winners
    assert log.skipped() == []
    assert (log.folder / ".lock").exists() == (setup == NO_HARD_LINKS)


def test_a_killed_writer_loses_nothing_it_had_promised(log: PlanLog) -> None:
    rng = random.Random(20)  # noqa: S311, the moments of death need no secrecy
    for _ in range(4):
        first = log.next_version()
        promised = _write_until_killed(log, first, survive=rng.randrange(1, 60))
        assert promised
        fresh = PlanLog(log.folder)
        assert [fresh.get(version) for version in promised] == [plan(version) for version in promised]
        assert fresh.skipped() == []
        assert list(fresh.plans()) == [plan(version) for version in fresh.versions()]


def _write_until_killed(log: PlanLog, first: int, survive: int) -> list[int]:
    """Kill a writing process once so many of its adds have returned; it is then amid another one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        writer = pool.submit(os.getpid).result()
        writes = {pool.submit(log.add, v, plan(v)): v for v in range(first, first + survive + 200)}
        unfinished: set[Future[bool]] = set(writes)
        while len(writes) - len(unfinished) < survive:
            unfinished = wait(unfinished, return_when=FIRST_COMPLETED).not_done
        os.kill(writer, signal.SIGKILL)
        wait(writes)
    assert any(isinstance(write.exception(), BrokenProcessPool) for write in writes)
    return [version for write, version in writes.items() if write.exception() is None and write.result()]


def test_a_reader_beside_a_writer_never_sees_a_torn_plan(any_log: PlanLog) -> None:
    versions = 200
    reader = PlanLog(any_log.folder)
    newest_seen = -1
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [any_log.add(version, plan(version)) for version in range(versions)])
        while not writing.done():
            latest = reader.latest()
            if latest is not None:
                assert latest == plan(latest.version)
                assert latest.version >= newest_seen
                newest_seen = latest.version
            assert reader.skipped() == []
    assert all(writing.result())
    assert list(reader.plans()) == [plan(version) for version in range(versions)]


def test_old_entries_can_be_purged_but_never_the_newest(log: PlanLog) -> None:
    for version in range(5):
        log.add(version, plan(version))
    log.purge(before=3)
    assert log.versions() == [3, 4]
    assert log.get(2) is None
    log.purge(before=100)
    assert log.versions() == [4]
    assert log.next_version() == 5
    PlanLog(log.folder / "empty").purge(before=3)


@pytest.mark.parametrize(
    "folder", ["s3a://bucket/plans", "hdfs://host/plans", "dbfs:/plans", "topic:plans", "~", "~/plans", ""]
)
def test_a_place_that_is_no_folder_of_this_machine_is_refused(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PenstockError, match=r"^folder = .* is not usable: give .*$"):
        PlanLog(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_file_address_and_a_relative_path_name_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = [PlanLog("my plans"), PlanLog((tmp_path / "my plans").as_uri())]
    assert logs[0].folder == logs[1].folder == tmp_path / "my plans"
