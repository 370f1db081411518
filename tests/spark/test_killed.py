"""A guarded query is killed without warning in the middle of an overload, and started again by another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engines import quick_start
from tests.spark.overloaded_query import TARGET_S

from penstock.messages.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("overloaded_query.py")
BEFORE, AFTER, OUTAGE_S = 8, 6, 3.0


@contextmanager
def running(folder: Path) -> Iterator[Iterator[Report]]:
    """The reports of the query, which is killed at the end, in the middle of a batch: there is no pause between two."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder)],
        env={**os.environ, **quick_start()},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield map(Report.from_json, process.stdout)
        finally:
            time.sleep(0.5)
            os.killpg(process.pid, signal.SIGKILL)


def wait_s(report: Report) -> float:
    assert report.queuing is not None
    return report.queuing.mean_s


@pytest.mark.usefixtures("java")
def test_a_query_killed_in_an_overload_holds_its_target_from_its_second_batch_on(tmp_path: Path) -> None:
    """Besides the replay: that batch was planned and bound by the killed run. The first new one has what waited."""
    with running(tmp_path) as reports:
        before = list(islice(reports, BEFORE))[BEFORE // 2 :]
    assert all(report.shed_total for report in before)
    time.sleep(OUTAGE_S)
    with running(tmp_path) as reports:
        replayed, waiting, *others = islice(reports, AFTER)
    assert replayed.replayed_s > OUTAGE_S, "the batch in which it was killed is the first of the next run"
    # What has come since then is cut to what fits one batch, however the machine works now.
    usual = max(report.rows_kept for report in before)
    assert waiting.rows_in > 5 * usual
    assert waiting.rows_kept < 2 * usual
    assert waiting.duration_s < max(3 * TARGET_S, 2 * max(report.duration_s for report in before))
    waits_s = list(map(wait_s, others))
    assert sum(waits_s) / len(waits_s) <= max(TARGET_S, *map(wait_s, before))
    assert max(waits_s) <= 1.5 * TARGET_S, "a busy machine is no reason to wait for a backlog"
