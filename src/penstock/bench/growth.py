"""Growth: files and memory of a long run, and whether its batches get slower.

Worlds of different ages run side by side, each in its own process: a thousand, ten thousand and a hundred thousand
batches. When all have reached their age they take turns, so that machine noise affects all equally.

A world has all parts that keep files and memory while a query runs, on virtual time and without Spark. Controller,
logs, bindings, feeds, journals and the writer of a quarantine are the real ones and write real files. What Spark does
is faked: its progress, the local properties of a task, and that it removes files that it has read.
"""

from __future__ import annotations

import ctypes
import gc
import json
import multiprocessing
import os
import statistics
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa

from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.loop.events import BatchEnded
from penstock.core.loop.machine import Loop
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import LossTolerance
from penstock.federation.account import AccountLog, BatchAccount, site_report
from penstock.messages.claim import Claim
from penstock.messages.plan import Drop, Plan, QueryShare
from penstock.messages.report import PlaceRows, Report
from penstock.spark.guard.controller import Controller
from penstock.spark.guard.reading import GuardReading
from penstock.spark.network.feeds import feed
from penstock.spark.network.record import Record
from penstock.spark.plans import binding
from penstock.spark.plans.binding import GateOptions, control_row
from penstock.spark.plans.control_row import VERSION
from penstock.spark.plans.places import LocalStore
from penstock.spark.probe.meter import TaskSums
from penstock.spark.quarantine import forwarded
from penstock.spark.quarantine.rows import COIN, PART, PLAN_VERSION, REASON_NUMBER, Sign, Writer
from penstock.store.bound_plans import BoundPlans, SitePlanLog, SitePlans
from penstock.store.logs import BindingLog
from penstock.views.network.history import History
from penstock.views.network.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    from penstock.store.place import Place

Facts = dict[str, Any]

#: Batches of each world that are timed, and how many in a row.
TIMED, IN_A_ROW = 400, 20
#: The accepted growth from the youngest world to the oldest, as a share.
FLAT = 0.1
#: Files with their own size limit, which the youngest world does not reach.
BOUNDED = {"journals": ("*.journal*", 2 * 16 * 2**20), "accounts": ("*.account", 10_050)}
_INTERVAL_S = 1.0
QUERY = "00000000-0000-0000-0000-000000000000"
#: Rows of a batch that come and that fit: an overload that changes from batch to batch, so that each has a plan.
ROWS, FIT, COST_S = 3000, 500, 0.001
#: How much progress Spark remembers.
_REMEMBERED = 100
#: Batches between two forwards of quarantine files.
_FORWARD_EVERY = 5


class Task:
    """A fake of Spark's `TaskContext`."""

    number = 0

    @classmethod
    def get(cls) -> type[Task]:
        """The task that runs."""
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str:  # noqa: N802 - Spark's name
        """The batch, or the query."""
        return str(cls.number) if name == "streaming.sql.batchId" else QUERY


@dataclass
class Query:
    """A fake of a streaming query."""

    id: str = QUERY
    isActive: bool = True  # noqa: N815 - Spark's name
    recentProgress: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))  # noqa: N815
    status: dict[str, Any] = field(default_factory=lambda: {"isDataAvailable": True, "isTriggerActive": True})

    @property
    def lastProgress(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The newest."""
        return self.recentProgress[-1]


class Guarded:
    """An overloaded query with a guard: each batch is bound, reported and planned for."""

    def __init__(self, folder: Path | Place, clock: Callable[[], float]) -> None:
        self._clock, self._query = clock, Query()
        store = LocalStore(folder)
        self._options = GateOptions(str(store.place), SOURCE, store.claim(Claim("guard")))
        self._costs = ";".join(f"{bucket} 1 1 {COST_S * (1 + bucket % 7):g}" for bucket in range(BUCKETS))
        self.controller = Controller(
            self._query,  # type: ignore[arg-type]  # as much of one as is needed
            LoadAware(prefer="cheap").planner(MeanQueueLatency("1 s")),
            store.plans(),
            store.bindings(QUERY),
            GuardReading("gate", "probe"),
            by_length=True,
            clock=clock,
            on_report=lambda _: None,
            kept_in=store.reports(QUERY),
            salt=7,
            store=store,
        )

    def batch(self, number: int) -> None:
        """A task binds the batch, Spark runs it, the controller processes it."""
        self.ran(number, self.gate(number))
        self.controller.step()

    def gate(self, number: int) -> int:
        """The version of the plan that a task finds for a batch."""
        Task.number = number
        return control_row(self._options)[VERSION]

    def ran(self, number: int, version: int) -> None:
        """Report to the controller that a batch ran under a plan."""
        self._query.recentProgress.append(self._progress(number, version, FIT + 200 * (number % 2)))

    def _progress(self, number: int, version: int, kept: int) -> dict[str, Any]:
        start_s = self._clock()
        busy_s = kept * COST_S
        sums = TaskSums(
            rows=kept,
            busy_s=busy_s,
            start_s=start_s + 0.2,
            end_s=start_s + 0.2 + busy_s,
            queued_s=0.5 * kept,
            queued_rows=kept,
            queued_max_s=1.0,
            oldest_s=start_s - 0.5,
            newest_s=start_s,
            costs="",
        )
        length_ms = round(1000.0 * (0.3 + busy_s))
        return {
            "batchId": number,
            "timestamp": datetime.fromtimestamp(start_s, UTC).isoformat(timespec="milliseconds"),
            "durationMs": {"triggerExecution": length_ms, "addBatch": length_ms},
            "numInputRows": ROWS,
            "observedMetrics": {
                "gate": {"rows_in": ROWS, "plan": version, "read_us": 1500, "shed_0": ROWS - kept},
                "probe": {"tasks": [json.dumps(asdict(sums))], "costs": self._costs},
            },
        }


def _frame(content: bytes) -> Any:  # noqa: ANN401 - as much of a data frame as a feed needs
    """A fake data frame that writes two files."""

    def parquet(path: str) -> None:
        Path(path).mkdir(parents=True)
        for part in range(2):
            (Path(path) / f"part-{part}.parquet").write_bytes(content)

    return SimpleNamespace(write=SimpleNamespace(mode=lambda _: SimpleNamespace(parquet=parquet)))


#: What planners of this module are given.
BATCH = Report(sequence=0, start_s=0.0, end_s=1.0, rows_in=0, rows_kept=0)


class Alternating:
    """A planner whose every decision is another than the last."""

    alarms = ()

    def __init__(self) -> None:
        self._decided = 0

    def decide(self, report: Report, now_s: float) -> Plan:
        """Drop another share."""
        del report
        self._decided += 1
        return Plan(0, "alternating", now_s, 0, drops=(Drop("I", keep=0.4 + 0.1 * (self._decided % 2)),))

    def release(self, version: int, now_s: float, note: str) -> Plan:
        """Keep everything."""
        return Plan(version, "alternating", now_s, 0, note=note)


class Networked:
    """A network with a join: three stages, whose feeds Spark empties."""

    STAGES = ("inputs", "pairs", "perkey")

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        self._plans = BoundPlans.below(folder, {name: name for name in self.STAGES}, Alternating(), clock=clock)
        self._feed = folder / "feeds" / "hot-pairs" / "inputs"
        line = LossTolerance([(100, 1.0), (0, 0.0)])
        network = Network([Input("I", 100.0)], [Box("hot", "filter", ("I",), 1.0, 0.5)], [Output("O", "hot", line)])
        self._record, self.snapshots = Record(folder, "network", network), History()

    def batch(self, number: int) -> None:
        """Each stage binds a batch; rows go from one to the next; there is a snapshot and a new plan."""
        for path in list(self._feed.glob("*.parquet")) if self._feed.exists() else []:
            path.unlink()  # as Spark does with what it has read
        feed(_frame(b"rows"), self._feed, number)
        for stage in self.STAGES:
            self._plans.of(stage, number)
        rows = {"I": 100, "I->hot": 100, "hot->O": 50}
        rates = {name: float(count) for name, count in rows.items()}
        now_s = self._clock()
        drops, shed, delivered = {"I": "drops 50 %"}, {"I": 50}, {"O": 50.0}
        snapshot = Snapshot(
            number, now_s, 1.0, rows, rates, rates, rates, 2.0, 1.0, 0.9, drops, shed, delivered, delivered
        )
        self.snapshots.append(snapshot)
        self._record.add(snapshot)
        self._plans.handle(BatchEnded(now_s, number, BATCH))


class Quarantined:
    """A quarantine that is forwarded to a table."""

    SCHEMA = json.dumps({"type": "struct", "fields": []})

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        del clock
        self._folder = folder / "penstock" / "quarantine"
        Sign("guard", "weight", self.SCHEMA).put(self._folder)
        self._writer = Writer(str(self._folder), str(self._folder.parent), SOURCE)
        numbers = np.arange(20)
        kinds = {"row": pa.int64(), COIN: pa.int64(), PART: pa.int32()}
        columns = {name: pa.array(numbers % (2 if name == PART else 20), kind) for name, kind in kinds.items()}
        columns[REASON_NUMBER] = pa.array([0] * len(numbers), pa.int32())
        columns[PLAN_VERSION] = pa.array([-1] * len(numbers), pa.int64())
        self._rows = pa.RecordBatch.from_pydict(columns)

    def batch(self, number: int) -> None:
        """Writes shed rows; forwards those of earlier batches and archives their files, as Spark does."""
        self._writer.write([self._rows], number, QUERY)
        if number % _FORWARD_EVERY == 0:
            aside = forwarded.kept_in(self._folder)
            aside.mkdir(parents=True, exist_ok=True)
            for path in self._folder.glob("*.parquet"):
                os.replace(path, aside / path.name)  # noqa: PTH105 - the same, and told so in fewer calls


class Sited:
    """A site: a plan and an account a batch."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._accounts = AccountLog(folder / "account")
        logs = SitePlanLog(folder / "plans"), BindingLog(folder / "bindings"), self._accounts
        self._plans = SitePlans(*logs, Loop(Alternating(), ""), clock=clock, tell=lambda _: None)

    def batch(self, number: int) -> None:
        """A batch is planned and accounted for."""
        self._plans.of(number, "", lambda: BATCH, lambda _: None)
        report = site_report(number, self._clock(), 1.0, {"root.part": PlaceRows(100, 50)})
        self._accounts.add(number, BatchAccount("west", 1, report, report, (QueryShare("query", 0.5, 0.5),)))


Part = Guarded | Networked | Quarantined | Sited
PARTS: dict[str, type[Part]] = {"guard": Guarded, "network": Networked, "quarantine": Quarantined, "site": Sited}


def ram_disk() -> str | None:
    """A folder in memory, if there is one, to exclude the disk from the measurement."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - what is made in it has a name of its own


def kept_below(folder: Path) -> dict[str, int]:
    """All files below a folder and their bytes, except those with their own bounds."""
    own = {path for pattern, _ in BOUNDED.values() for path in folder.rglob(pattern)}
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file() and path not in own]
    return {"files": len(sizes), "bytes": sum(sizes)}


class World:
    """All parts, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._now_s, self._number = folder, time.time(), 0
        self._patches = ExitStack()
        self._patches.enter_context(mock.patch.object(time, "time", self._time_s))
        self._patches.enter_context(mock.patch.object(binding, "TaskContext", Task))
        self.parts = {name: make(folder / name, self._time_s) for name, make in PARTS.items()}

    def close(self) -> None:
        """Restore Spark and the clock."""
        self._patches.close()

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
        gc.collect()
        with suppress(OSError, AttributeError):  # not available with this allocator
            ctypes.CDLL(None).malloc_trim(0)  # Free memory is released, because its fragmentation is random.
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found: Facts = {"memory_mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20}
        for name in self.parts:
            found[name] = kept_below(self._folder / name)
        for name, (pattern, _) in BOUNDED.items():
            files = list(self._folder.rglob(pattern))
            found[name] = max(_sizes(files), default=0) if name == "journals" else len(files)
        return found


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


def bench_growth(folder: Path, ages: Sequence[int], timed: int, done: Callable[[], None] = lambda: None) -> Facts:
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
        claim = f"{what}: no more than {FLAT:.0%} above that of the youngest run"
        found.append({"claim": claim, "goal": 1.0 + FLAT, "measured": worst, "holds": worst <= 1.0 + FLAT})
    for name, (_, most) in BOUNDED.items():
        largest = max(row[name] for row in rows)
        what = "bytes of a journal" if name == "journals" else "accounts of a site"
        found.append({"claim": what, "goal": most, "measured": largest, "holds": largest <= most})
    return found
