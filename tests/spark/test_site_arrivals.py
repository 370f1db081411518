"""The rows that came between two batches of a site, the time over which they came, and their totals."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.federation.account import site_report
from penstock.messages.plan import Plan
from penstock.messages.report import PlaceRows
from penstock.spark.site.ledger import Ledger
from penstock.spark.site.run import Arrivals

CAME = {"part.cpu": 30, "part.net": 10}


def arrivals(told: list[str], before_s: float | None, backlog: str = "thin") -> Arrivals:
    file: Any = SimpleNamespace(interval_s=2.0, window_s=10.0, backlog=backlog)
    return Arrivals(file, before_s, told.append)


def test_rows_came_since_the_last_batch_and_the_first_ones_within_an_interval() -> None:
    told: list[str] = []
    found = arrivals(told, None)
    first, second = (found.report(number, now_s, CAME) for number, now_s in ((0, 100.0), (1, 103.5)))
    assert (first.elapsed_s, second.elapsed_s) == (2.0, 3.5)
    assert (first.sequence, first.end_s, first.rows_in, first.backlog_rows) == (0, 100.0, 40, 0)
    assert {name: one.rows_kept for name, one in second.sources.items()} == CAME
    assert told == []


def test_after_a_long_outage_thinning_is_told_once_with_the_share_that_is_kept() -> None:
    told: list[str] = []
    found = arrivals(told, before_s=60.0)
    assert [found.report(number, 100.0 + number, CAME).elapsed_s for number in range(2)] == [40.0, 1.0]
    assert told == ["40 rows have waited for 40 s, and backlog = 'thin' keeps at most 25.0% of them"]


def test_a_backlog_that_is_kept_is_counted_apart_in_the_first_batch_only() -> None:
    told: list[str] = []
    found = arrivals(told, before_s=60.0, backlog="keep")
    first, second = (found.report(number, 100.0 + number, CAME) for number in range(2))
    assert (first.elapsed_s, first.backlog_rows) == (40.0, 40)
    assert (second.elapsed_s, second.backlog_rows) == (1.0, 0)
    assert told == []


@pytest.mark.parametrize(("before_s", "once", "waits"), [(None, False, [0.0, 1.0]), (60.0, True, [0.0, 0.0])])
def test_the_time_over_which_a_kept_backlog_came_may_be_unknown(
    before_s: float | None,
    once: bool,  # noqa: FBT001 - of a parameter
    waits: list[float],
) -> None:
    found = arrivals([], before_s, backlog="keep")
    found.once = once
    assert [found.report(number, 100.0 + number, CAME).elapsed_s for number in range(2)] == waits


def test_a_clock_that_was_set_back_gives_a_short_time_and_never_a_negative_one() -> None:
    found = arrivals([], before_s=200.0)
    assert [found.report(number, now_s, CAME).elapsed_s for number, now_s in ((0, 100.0), (1, 90.0))] == [1e-3, 1e-3]


def ledger(folder: Path) -> Ledger:
    return Ledger(SimpleNamespace(site="west", fragments={}, window_s=10.0), folder, 1)  # type: ignore[arg-type]


def test_totals_need_no_account_on_disk_while_a_site_runs_and_begin_again_aloud_without_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = Plan.keep_all(0, "by hand", 0.0)
    reports = [site_report(number, 10.0 * number, 2.0, {"part.cpu": PlaceRows(100, 60)}) for number in range(3)]
    running = ledger(tmp_path)
    running.close(running.account(reports[0], plan), ())
    for path in (tmp_path / "account" / f"{1:018d}").iterdir():
        path.write_bytes(b"torn")
    running.close(running.account(reports[1], plan), ())
    assert running.accounts[-1].total.rows_in == 200
    assert ledger(tmp_path).account(reports[2], plan).total.rows_in == 300, "the account of batch 1 can be read"
    for path in (tmp_path / "account" / f"{1:018d}").iterdir():
        path.write_bytes(b"torn")
    again = ledger(tmp_path)
    assert again.account(site_report(3, 30.0, 2.0, {"part.cpu": PlaceRows(100, 60)}), plan).total.rows_in == 100
    assert again.errors == 1
    assert "the account of batch 2 cannot be read, so totals begin again with batch 3" in caplog.text


def test_the_totals_of_a_replayed_batch_are_those_of_its_account_even_if_the_one_before_is_damaged(
    tmp_path: Path,
) -> None:
    plan = Plan.keep_all(0, "by hand", 0.0)
    reports = [site_report(number, 10.0 * number, 2.0, {"part.cpu": PlaceRows(100, 60)}) for number in range(2)]
    running = ledger(tmp_path)
    for report in reports:
        running.close(running.account(report, plan), ())
    (damaged, _) = sorted((tmp_path / "account" / f"{1:018d}").glob("0*"))
    damaged.write_bytes(b"torn")
    again = ledger(tmp_path)
    assert again.account(reports[1], plan).total.rows_in == 200
    assert again.errors == 0, "they do not begin again"
