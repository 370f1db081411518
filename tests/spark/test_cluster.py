"""A standalone cluster on loopback: a worker is killed and comes back under a guarded pipeline that was submitted."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark")

from tests.spark.cluster import Cluster, Started, until
from tests.spark.committed import KEEP_LOGS, Judge, batch_rows, sink_rows

from penstock.core.control.gate import gate_salt
from penstock.messages.report import Report
from penstock.spark.source import Population
from penstock.store.logs import BindingLog, PlanLog

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "examples" / "cluster" / "pipeline.py"
WORKERS, CORES = 2, 1
#: Rows take 10 ms on average. So this is 1.4 s of work a second: less than two cores get done, more than one does.
RATE = 140
TARGET_S = 3.0
#: What a worker's end or return may take to be forgotten.
RECOVERY_S = 30.0
#: So many batches in a row tell that something holds.
BATCHES = 3
#: Nothing but the start may take so long; then the machine is too slow for this test to tell anything.
LONGEST_S = 120.0
SETTINGS = {"spark.python.unix.domain.socket.enabled": "true"}
#: With both workers at least so much is kept, and with one at most so much of that.
MOST_KEPT, LESS_KEPT = 0.85, 0.8
#: What Spark says of a task whose executor is gone.
TASK_LOST = "while it was being computed, its executor exited"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel under a name that Spark takes for an archive of Python modules."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel"]
    subprocess.run([*command, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("penstock-*.whl")
    return Path(shutil.copyfile(wheel, folder / "penstock.zip"))


@dataclass
class Phase:
    """The batches in a row that show what was waited for."""

    reports: list[Report]

    @property
    def kept_share(self) -> float:
        return sum(report.rows_kept for report in self.reports) / sum(report.rows_in for report in self.reports)

    @property
    def capacity(self) -> float:
        return statistics.median(capacity(report) for report in self.reports)

    def tell(self, what: str, since_s: float) -> None:
        """For the documentation: `pytest -s` shows it."""
        waits_s = ", ".join(f"{waited_s(report):.1f}" for report in self.reports)
        sys.stdout.write(
            f"\n{what}: after {self.reports[0].start_s - since_s:.0f} to {self.reports[-1].end_s - since_s:.0f} s "
            f"rows wait {waits_s} s, {self.capacity:.1f} s of work a second, {self.kept_share:.0%} of rows kept\n"
        )


@dataclass
class Pipeline:
    """The submitted program and what it writes down."""

    submitted: Started
    folder: Path

    def lines(self) -> list[dict[str, object]]:
        path = self.folder / "reports.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def reports(self) -> list[Report]:
        return [Report.from_json(json.dumps(line["report"])) for line in self.lines()]

    def tasks_running(self) -> int:
        """How many tasks run at the moment, by the driver's log."""
        log = self.submitted.log.read_text(errors="replace")
        return log.count("Starting task") - log.count("Finished task")

    def wait_for(self, what: str, since_s: float, *, slots: range, least_kept: float = 0.0) -> Phase:
        """The first batches in a row after a moment that hold the target with so many slots."""
        found: list[Phase] = []

        def look() -> bool:
            assert self.submitted.process.poll() is None, self.submitted.log.read_text()[-3000:]
            news = [report for report in self.reports() if report.start_s > since_s]
            for last in range(BATCHES, len(news) + 1):
                phase = Phase(news[last - BATCHES : last])
                held = all(waited_s(report) <= TARGET_S and report.slots in slots for report in phase.reports)
                if held and phase.kept_share >= least_kept:
                    found.append(phase)
                    return True
            return False

        try:
            until(look, f"the target is not held with {what}", LONGEST_S)
        except BaseException:
            sys.stdout.write("".join(f"\n{told(report, since_s)}" for report in self.reports()))
            raise
        return found[0]


def capacity(report: Report) -> float:
    return report.busy_s / report.span_s if report.span_s else 0.0


def waited_s(report: Report) -> float:
    return report.queuing.mean_s if report.queuing else 0.0


def told(report: Report, since_s: float) -> str:
    return (
        f"batch {report.sequence} at {report.start_s - since_s:.1f} to {report.end_s - since_s:.1f} s: "
        f"{report.rows_kept} of {report.rows_in} rows kept, waited {waited_s(report):.2f} s, {report.slots} slots, "
        f"{capacity(report):.2f} s of work a second in {report.span_s:.2f} s"
    )


@pytest.mark.usefixtures("java")
def test_a_worker_is_killed_and_comes_back_and_the_target_is_held_again(tmp_path: Path, archive: Path) -> None:
    shared = tmp_path / "shared"
    with Cluster(tmp_path, workers=WORKERS, cores=CORES) as cluster:
        begin_s = time.time()
        submitted = cluster.submit(
            PIPELINE,
            *(shared, "--rate", RATE, "--tasks", WORKERS * CORES, "--target", f"{TARGET_S} s"),
            archive=archive,
            settings=SETTINGS | KEEP_LOGS,
        )
        pipeline = Pipeline(submitted, shared)
        all_slots = range(CORES + 1, WORKERS * CORES + 1)
        both = pipeline.wait_for("two workers", begin_s, slots=all_slots, least_kept=MOST_KEPT)
        both.tell("two workers", begin_s)

        until(lambda: pipeline.tasks_running() == WORKERS * CORES, "tasks do not run on both workers")
        killed_s = time.time()
        cluster.kill_worker(1)
        one = pipeline.wait_for("one worker", killed_s, slots=range(1, CORES + 1))
        one.tell("one worker killed", killed_s)

        cluster.start_worker(1)
        back_s = time.time()
        again = pipeline.wait_for(
            "the worker that is back",
            back_s,
            slots=all_slots,
            least_kept=min(one.kept_share / LESS_KEPT, 1.0),
        )
        again.tell("it came back", back_s)
        submitted.kill()

    assert submitted.said(TASK_LOST), "the worker was killed when it had nothing to do"
    assert one.reports[-1].end_s - killed_s <= RECOVERY_S
    assert one.kept_share < LESS_KEPT * both.kept_share
    assert one.capacity < 0.75 * both.capacity
    assert again.reports[-1].end_s - back_s <= RECOVERY_S
    assert again.capacity > 1.2 * one.capacity

    assert_travelled_by(archive, shared)
    assert_nothing_lost(pipeline)


def assert_travelled_by(archive: Path, shared: Path) -> None:
    """Driver and executors took penstock out of the archive, and not from an installation."""
    found = json.loads((shared / "found.json").read_text())
    assert Path(found["driver"]) == archive / "penstock" / "__init__.py"
    # An executor has a copy in its own folder.
    assert found["tasks"] == ["./penstock.zip/penstock/__init__.py"]


def assert_nothing_lost(pipeline: Pipeline) -> None:
    """Every plan is in the log, every batch is bound to one, and every row is where the plan of its batch puts it."""
    checkpoint, reports = pipeline.folder / "checkpoint", pipeline.reports()
    assert [line["errors"] for line in pipeline.lines()] == [0] * len(reports)
    first = reports[0].sequence
    assert [report.sequence for report in reports] == list(range(first, first + len(reports)))

    plans = PlanLog(checkpoint / "penstock" / "plans")
    assert plans.versions() == list(range(plans.next_version()))
    assert not plans.skipped()
    named = [report.plan_version for report in reports]
    planned = named[next(place for place, version in enumerate(named) if version is not None) :]
    assert all(plans.get(version) is not None for version in planned)
    assert planned == sorted(planned)

    (query,) = (checkpoint / "penstock" / "bindings").iterdir()
    bindings = BindingLog(query)
    assert not bindings.skipped()
    committed, in_sink = batch_rows(checkpoint), sink_rows(pipeline.folder / "results")
    assert committed[first][0] == 0, "rows came before the first report"
    gate = Judge(checkpoint, Population(), rate=RATE, salt=gate_salt(0, "cluster"))
    for report in reports:
        batch = report.sequence
        start, stop = committed[batch]
        rows = np.arange(start, stop)
        binding = bindings.get(batch)
        assert binding is not None
        assert binding.plan_version == report.plan_version
        plan = None if binding.plan_version is None else plans.get(binding.plan_version)
        kept = gate.kept(rows, binding, plan)
        assert np.array_equal(np.sort(in_sink[batch]), kept), f"batch {batch}"
        assert (report.rows_in, report.rows_kept) == (len(rows), len(kept))
        assert report.rows_in == report.rows_kept + sum(report.rows_shed.values())
