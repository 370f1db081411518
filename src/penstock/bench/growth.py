"""Growth: files and memory of a long run, and whether its batches get slower.

Worlds of different ages run side by side, each in its own process: a thousand, ten thousand and a hundred thousand
batches. When all have reached their age they take turns, so that machine noise affects all equally. A world has all
parts that keep files and memory for a query, on virtual time: see `growth_parts`.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from penstock.bench.growth_parts import PARTS, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

Facts = dict[str, Any]

AGES = (1_000, 10_000, 100_000)
#: Batches of each world that are timed, and how many in a row.
TIMED, IN_A_ROW = 400, 20
#: The accepted growth from the youngest world to the oldest, as a share.
FLAT = 0.1
#: Files with their own size limit, which the youngest world does not reach.
BOUNDED = {"journals": ("*.journal*", 2 * 16 * 2**20), "accounts": ("*.account", 10_050)}
_INTERVAL_S = 1.0


def ram_disk() -> str | None:
    """A folder in memory, if there is one, to exclude the disk from the measurement."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - what is made in it has a name of its own


class Kept(NamedTuple):
    """Files, and their bytes."""

    files: int
    bytes: int

    @classmethod
    def below(cls, folder: Path) -> Kept:
        """All files below a folder, except those with their own bounds."""
        own = {path for pattern, _ in BOUNDED.values() for path in folder.rglob(pattern)}
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file() and path not in own]
        return cls(len(sizes), sum(sizes))


class World:
    """All parts, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._now_s, self._number = folder, time.time(), 0
        self._patches = [mock.patch.object(time, "time", self._time_s), without_spark()]
        for patch in self._patches:
            patch.start()
        self.parts = {name: make(folder / name, self._time_s) for name, make in PARTS.items()}

    def close(self) -> None:
        """Restore Spark and the clock."""
        for patch in self._patches:
            patch.stop()

    def _time_s(self) -> float:
        return self._now_s

    def run(self, batches: int) -> dict[str, list[float]]:
        """Run batches; returns the processor time of each in each part, in milliseconds."""
        took_ms: dict[str, list[float]] = {name: [] for name in self.parts}
        for _ in range(batches):
            for name, part in self.parts.items():
                begun_s = time.process_time()
                part.batch(self._number)
                took_ms[name].append(1e3 * (time.process_time() - begun_s))
            self._number += 1
            self._now_s += _INTERVAL_S
        return took_ms

    def kept(self) -> Facts:
        """Files on disk and memory in use."""
        _hand_back()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found: Facts = {"memory_mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20}
        for name in self.parts:
            found[name] = Kept.below(self._folder / name)._asdict()
        for name, (pattern, _) in BOUNDED.items():
            files = list(self._folder.rglob(pattern))
            found[name] = max(_sizes(files), default=0) if name == "journals" else len(files)
        return found


def _hand_back() -> None:
    """Release free memory, because its fragmentation is random."""
    gc.collect()
    with suppress(OSError, AttributeError):  # not available with this allocator
        ctypes.CDLL(None).malloc_trim(0)


def _sizes(files: Sequence[Path]) -> list[int]:
    """Bytes of each journal with its rotated part."""
    by_name: dict[Path, int] = {}
    for path in files:
        whole = path.with_name(path.name.removesuffix(".old"))
        by_name[whole] = by_name.get(whole, 0) + path.stat().st_size
    return list(by_name.values())


def _serve(folder: Path, orders: Connection) -> None:
    """Run a world by commands from a pipe."""
    world = World(folder)
    while (batches := orders.recv()) is not None:
        orders.send(world.run(batches) if batches else world.kept())


def bench_growth(
    folder: Path, ages: Sequence[int] = AGES, timed: int = TIMED, done: Callable[[], None] = lambda: None
) -> Facts:
    """Run worlds of these ages; `done` is called when one has reached its age, and once more at the end."""
    timed = min(timed, ages[0] // 2)
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for age in ages:
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(folder / f"{age}", theirs), daemon=True)
        process.start()
        pipes.append(ours)
        processes.append(process)
    try:
        for pipe, age in zip(pipes, ages, strict=True):
            pipe.send(age - timed)
        for pipe in pipes:
            pipe.recv()
            done()
        times = _take_turns(pipes, timed)
        kept = [_asked(pipe, 0) for pipe in pipes]
    finally:
        for process in processes:
            process.terminate()
            process.join()
    done()
    rows = [_row(age, own, took_ms) for age, own, took_ms in zip(ages, kept, times, strict=True)]
    return {
        "bench": "growth",
        "parameters": {"ages": list(ages), "timed": timed, "interval_s": _INTERVAL_S, "flat": FLAT},
        "rows": rows,
        "claims": _claims(rows),
    }


def _asked(pipe: Connection, batches: int) -> Facts:
    pipe.send(batches)
    found: Facts = pipe.recv()
    return found


def _take_turns(pipes: Sequence[Connection], timed: int) -> list[dict[str, list[float]]]:
    """The times of the last batches of each world."""
    found: list[dict[str, list[float]]] = [{name: [] for name in PARTS} for _ in pipes]
    for begun in range(0, timed, IN_A_ROW):
        for pipe, own in zip(pipes, found, strict=True):
            for name, took_ms in _asked(pipe, min(IN_A_ROW, timed - begun)).items():
                own[name] += took_ms
    return found


def _row(age: int, kept: Facts, took_ms: dict[str, list[float]]) -> Facts:
    parts = {name: kept[name] | {"ms": statistics.median(took_ms[name])} for name in PARTS}
    return {
        "batches": age,
        "files": sum(one["files"] for one in parts.values()),
        "bytes": sum(one["bytes"] for one in parts.values()),
        "memory_mib": kept["memory_mib"],
        "ms": sum(one["ms"] for one in parts.values()),
        "parts": parts,
        **{name: kept[name] for name in BOUNDED},
    }


def _claims(rows: Sequence[Facts]) -> list[Facts]:
    """Whether the oldest world is as small and fast as the youngest."""
    first = rows[0]
    words = {"files": "files", "bytes": "bytes of files", "memory_mib": "memory", "ms": "time a batch"}
    found = []
    for name, what in words.items():
        worst = max(row[name] / first[name] for row in rows[1:])
        found.append(
            {
                "claim": f"{what}: no more than {FLAT:.0%} above that of the youngest run",
                "goal": 1.0 + FLAT,
                "measured": worst,
                "holds": worst <= 1.0 + FLAT,
            }
        )
    for name, (_, most) in BOUNDED.items():
        largest = max(row[name] for row in rows)
        what = "bytes of a journal" if name == "journals" else "accounts of a site"
        found.append({"claim": what, "goal": most, "measured": largest, "holds": largest <= most})
    return found
