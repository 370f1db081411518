"""All parts that keep files and memory while a query runs, on virtual time and without Spark.

Controller, logs, bindings, feeds, journals and the writer of a quarantine are the real ones and write real files. What
Spark does is faked: its progress, the local properties of a task, and that it removes files that it has read.
"""

from __future__ import annotations

import json
import os
from collections import deque
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
from penstock.spark.plans.binding import GateOptions, bindings_of, control_row
from penstock.spark.plans.places import LocalStore
from penstock.spark.probe.meter import TaskSums
from penstock.spark.quarantine import forwarded
from penstock.spark.quarantine.rows import COIN, PART, PLAN_VERSION, REASON_NUMBER, Sign, Writer
from penstock.store.bound_plans import BoundPlans, SitePlanLog, SitePlans
from penstock.store.logs import BindingLog
from penstock.store.report_log import ReportLog
from penstock.views.network.history import History
from penstock.views.network.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._clock, self._query = clock, Query()
        store = LocalStore(folder)
        store.claim(Claim("guard"))
        self._options = GateOptions(str(store.folder), SOURCE)
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
            kept_in=ReportLog(store.folder, QUERY),
            salt=7,
        )

    def batch(self, number: int) -> None:
        """A task binds the batch, Spark runs it, the controller processes it."""
        Task.number = number
        control_row(self._options)
        bound = bindings_of(self._options.folder, QUERY).get(number)
        version = -1 if bound is None or bound.plan_version is None else bound.plan_version
        self._query.recentProgress.append(self._progress(number, version, FIT + 200 * (number % 2)))
        self.controller.step()

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


def without_spark() -> Any:  # noqa: ANN401 - a patch has no public type
    """Replaces Spark's task context by ours for bindings."""
    return mock.patch.object(binding, "TaskContext", Task)
