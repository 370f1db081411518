"""A make-believe guard: it leaves plans and reports on disk as a controller does, batch by batch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.planner import SOURCE
from penstock.messages.claim import Claim
from penstock.messages.plan import Effect, KeepTable, Plan
from penstock.messages.report import Latency, Report
from penstock.store.logs import PlanLog
from penstock.store.report_log import Alarms, Alive, End, Missing, ReportLog, Watch

if TYPE_CHECKING:
    from pathlib import Path

REASON = "costly <b>keys</b>"
BATCH_S = 2.0


@dataclass
class Writer:
    """A query under this checkpoint; each batch takes two seconds, of a clock that starts now."""

    checkpoint: Path
    query: str = "5c1f"
    name: str = "guard"
    now_s: float = field(default_factory=time.time)
    batches: int = 0

    @property
    def folder(self) -> Path:
        return self.checkpoint / "penstock"

    def start(self, **more: Any) -> None:
        """A guard begins to watch."""
        self.plans = PlanLog(self.folder / "plans")
        self.log = ReportLog(self.folder, self.query)
        (self.folder / "guard.json").write_text(Claim(self.name, key=("user",)).to_json())
        settings = {
            "guard": self.name,
            "query": self.query,
            "began_s": self.now_s,
            "mode": "enforce",
            "policy": "LoadAware",
            "target": "MeanQueueLatency",
            "target_s": 2.0,
            "key": ("user",),
            "key_types": ("bigint",),
        }
        self.log.write(Watch(**{**settings, **more}))

    def plan(self, keep: tuple[float, ...] | None, note: str = "") -> Plan:
        """A decision; None keeps every row."""
        version = self.plans.next_version()
        gates = () if keep is None else (KeepTable(SOURCE, keep, tuple(REASON if one < 1 else "" for one in keep)),)
        share = 1.0 if keep is None else float(np.mean(keep))
        plan = Plan(version, "load_aware", self.now_s, 7, gates, expected=Effect(share, 1.5), note=note)
        assert self.plans.add(version, plan)
        return plan

    def batch(self, rows: int = 1000, kept: int = 600, wait_s: float = 1.5, **more: Any) -> Report:
        """A batch ends."""
        newest = self.plans.latest()
        costs = BucketCosts()
        costs.add(np.array([1, 1, 2]), np.array([0.001, 0.001, 0.004]), np.array([1.0, 1.0, 2.0]))
        report = Report(
            **{
                "sequence": self.batches,
                "start_s": self.now_s,
                "end_s": self.now_s + BATCH_S,
                "rows_in": rows,
                "rows_kept": kept,
                "rows_shed": {REASON: rows - kept} if kept < rows else {},
                "rows_must_keep": 10,
                "plan_version": newest.version if newest else None,
                "backlog_rows": 40,
                "backlog_age_s": 1.25,
                "busy_s": 1.0,
                "queuing": Latency(kept, wait_s, 2 * wait_s),
                "cost_sketch": costs.to_bytes(),
                **more,
            }
        )
        self.batches += 1
        self.now_s += BATCH_S
        self.log.write(report)
        return report

    def alarm(self, *alarms: str) -> None:
        self.log.write(Alarms(self.now_s, alarms, errors=1))

    def missing(self, first: int, last: int, note: str) -> None:
        self.log.write(Missing(self.now_s, first, last, note))

    def alive(self) -> None:
        self.log.write(Alive(self.now_s))

    def end(self) -> None:
        self.log.write(End(self.now_s, "over"))
