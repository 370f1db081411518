"""The driver is killed at random moments: every batch is judged by one plan, and every row ends in one place."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from tests.components import hadoop_aws
from tests.engines import quick_start
from tests.spark.committed import Judge, batch_rows, shed_rows, sink_rows

from penstock.core.control.gate import gate_salt
from penstock.core.control.planner import SOURCE
from penstock.spark.source import Population
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.object_server import ObjectServer

#: Runs, and queries that run side by side: a run takes about ten seconds, so the whole 30 are for `make kills`. Of
#: three the first and the third are killed in the midst of a batch, the second while it starts.
KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
QUERIES = 1 if KILLS <= 4 else 2
#: A checkpoint in a bucket for `make kills` alone: starts of Hadoop's client take long.
WHERE = ("folder",) if KILLS <= 4 else ("folder", "bucket")
RUNS = [KILLS // QUERIES + (query < KILLS % QUERIES) for query in range(QUERIES)]
#: Every fifth run is killed while it starts; the others once they have worked at a few batches, so that plans are in
#: force: one half of them at a random moment, the other in the midst of a batch, which is then replayed.
EARLY_EVERY, FEW_BATCHES, FEW_PLANS = 5, 3, 3
LONGEST_START_S, LONGEST_WORK_S = (1.5, 0.5) if KILLS <= 4 else (4.0, 2.0)
LONGEST_WAIT_S = 120.0
SCRIPT = Path(__file__).with_name("killed_query.py")
SEED, RATE = 5, 2000


class Case(NamedTuple):
    """A query, and where its checkpoint is."""

    folder: Path
    checkpoint: str
    settings: dict[str, str]  #: of its session

    def bindings(self) -> int:
        bindings = Place.of(self.checkpoint) / "penstock" / "bindings"
        return sum(len((bindings / query).below()) for query in bindings.below())

    def plans(self) -> int:
        return len((Place.of(self.checkpoint) / "penstock" / "plans").below())


def given_bytes(folder: Path) -> int:
    """How much the operator has noted of the rows it was given."""
    return sum(path.stat().st_size for path in folder.glob("seen-*"))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONGEST_WAIT_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.005)


def run_and_kill(case: Case, after_s: float, *, early: bool, within_a_batch: bool) -> None:
    """Start the query, and some time after its start or its first batches kill driver and JVM without warning."""
    before, plans_before, folder = case.bindings(), case.plans(), case.folder
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), case.checkpoint, json.dumps(case.settings)],
        env={**os.environ, **quick_start()},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        running = process.stdout.readline()
        if not early:
            wait_until(lambda: case.bindings() >= before + FEW_BATCHES and case.plans() >= plans_before + FEW_PLANS)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=after_s)
        if within_a_batch:
            given = given_bytes(folder)
            wait_until(lambda: given_bytes(folder) > given)
        ended = process.poll()
        os.killpg(process.pid, signal.SIGKILL)
    assert running
    assert ended is None, f"the query ended by itself: {ended}"


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("where", WHERE)
def test_a_killed_driver_loses_no_row_doubles_none_and_changes_no_verdict(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    folders = [tmp_path / f"query-{number}" for number in range(QUERIES)]
    if where == "folder":
        kill_and_check([Case(one, str(one / "checkpoint"), {}) for one in folders])
        return
    from tests.object_server import BUCKET  # noqa: PLC0415 - the matrix of versions has no such server

    bucket: ObjectServer = request.getfixturevalue("bucket")
    settings = {f"spark.hadoop.{name}": value for name, value in bucket.hadoop.items()}
    settings["spark.jars"] = ",".join(map(str, hadoop_aws()))
    cases = [Case(one, f"s3a://{BUCKET}/{one.name}", settings) for one in folders]
    kill_and_check(cases, lambda case: bring(bucket.objects(case.folder.name), case.folder / "checkpoint"))


def bring(objects: dict[str, bytes], folder: Path) -> None:
    """Copy what is in a bucket into a folder."""
    for name, content in objects.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def kill_and_check(cases: list[Case], bring: Callable[[Case], None] = lambda _: None) -> None:
    with ThreadPoolExecutor(QUERIES) as pool:
        list(pool.map(kill_many_times, cases, range(QUERIES), RUNS))
    judged_by = set[tuple[float, ...]]()
    replayed = 0
    for case in cases:
        bring(case)
        shares, again = check(case.folder)
        judged_by |= shares
        replayed += again
    assert len(judged_by) > 2, "too few plans were tried for this to mean anything"
    assert replayed, "no batch was ever replayed"


def kill_many_times(case: Case, seed: int, runs: int) -> None:
    moments = random.Random(seed)  # noqa: S311 - moments, not secrets
    case.folder.mkdir()
    for run in range(runs):
        early = runs > 2 and run % EARLY_EVERY == 1  # of two runs, the second has to replay what the first left
        after_s = moments.uniform(0.0, LONGEST_START_S if early else LONGEST_WORK_S)
        run_and_kill(case, after_s, early=early, within_a_batch=not early and run % 2 == 0)


def check(folder: Path) -> tuple[set[tuple[float, ...]], int]:
    """Hold what Spark committed against what the plans say; the keep shares met, and how often a row was replayed."""
    checkpoint = folder / "checkpoint"
    (query,) = (checkpoint / "penstock" / "bindings").iterdir()
    plans, bindings = PlanLog(checkpoint / "penstock" / "plans"), BindingLog(query)
    in_sink, in_quarantine = sink_rows(folder / "sink"), shed_rows(folder / "shed")
    gate = Judge(checkpoint, Population(seed=SEED), rate=RATE, salt=gate_salt(SEED, "guard"), keep_key=3)
    judged_by = set[tuple[float, ...]]()
    kept_in_all = np.empty(0, np.int64)
    for batch, (first, last) in batch_rows(checkpoint).items():
        if first == last:
            continue
        binding = bindings.get(batch)
        assert binding is not None
        plan = None
        if binding.plan_version is not None:
            plan = plans.get(binding.plan_version)
            judged_by.add(plan.gate(SOURCE).keep)
        kept = gate.kept(np.arange(first, last), binding, plan)
        assert np.array_equal(np.sort(in_sink[batch]), kept), f"batch {batch}"
        shed = np.setdiff1d(np.arange(first, last), kept)
        assert np.array_equal(np.sort(in_quarantine.get(batch, np.empty(0))), shed), f"shed rows of batch {batch}"
        kept_in_all = np.append(kept_in_all, kept)

    assert len(np.unique(kept_in_all)) == len(kept_in_all)
    assert len(in_sink) >= KILLS / QUERIES / 2, "too few batches were committed for this to mean anything"
    # What the operator was ever given, replayed attempts included, was never anything else than what its batch kept.
    last = max(last for _, last in batch_rows(checkpoint).values())
    given = np.concatenate([np.loadtxt(path, dtype=np.int64, ndmin=1) for path in folder.glob("seen-*")])
    given = given[given < last]
    assert set(np.unique(given)) == set(kept_in_all)
    return judged_by, len(given) - len(kept_in_all)
