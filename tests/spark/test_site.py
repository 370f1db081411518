"""One site of a federation on Spark: from its file to results, with shedding, a link to itself, and its account."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from tests.spark.rows import from_files

from penstock.config.site_file import load
from penstock.errors import PenstockError
from penstock.federation.account import SiteAccount, add_up
from penstock.spark.site.batch import inputs
from penstock.spark.site.run import SiteRun
from penstock.spark.source import SCHEMA
from penstock.store.bound_plans import SitePlanLog
from penstock.store.interface import StoreError
from penstock.web.board import Board

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

DEADLINE_S = 300.0
SITE = """\
site: west
sites: [west, north]
transport: {folder: bus}
folder: state
interval: 500 ms
window: 4 s
capacity: 300
queries:
  avg: {sources: 1}
  top: {sources: 2, importance: 1}
fragments:
  avg-part:
    query: avg
    inputs:
      cpu: {format: rate, options: {rowsPerSecond: 400, numPartitions: 1}}
    sql: SELECT value % 4 AS host, count(*) AS n, sum(penstock_weight) AS weight FROM cpu GROUP BY value % 4
  avg-root:
    query: avg
    inputs:
      part: {from: avg-part, site: west, schema: 'host bigint, n bigint, weight double'}
    sql: SELECT sum(n) AS n, sum(weight) AS weight FROM part
    to: {format: memory}
  top-part:
    query: top
    inputs:
      net: {format: rate, options: {rowsPerSecond: 200, numPartitions: 1}}
    sql: SELECT value FROM net WHERE value % 50 = 0
"""


def wait_until(condition: Callable[[], Any], run: SiteRun) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        run.refuse_failure()
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.05)


def assert_the_page_shows_it(folder: Path, run: SiteRun) -> None:
    board = Board([folder])
    board.look()
    (log,) = board.news({})
    assert (log["kind"], log["head"]["guard"], log["head"]["state"]) == ("site", "west", "ended")
    assert [point["n"] for point in log["points"]] == [account.batch for account in run.accounts]
    rows_in = sum(account.report.rows_in for account in run.accounts)
    assert log["head"]["rows_in"] == rows_in == log["head"]["rows_kept"] + sum(log["head"]["rows_shed"].values())
    assert set().union(*(point["sic"] for point in log["points"])) == {"avg", "top"}


def test_a_site_sheds_fairly_and_goes_on_after_a_crash_and_a_reset(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "west.yaml"
    path.write_text(SITE)
    file = load(path)
    first = SiteRun(spark, file, file.folder)
    first.start()
    wait_until(lambda: len(first.accounts) >= 8 and (first.outputs.table("avg-root") or ()), first)
    first.stop()
    first.refuse_failure()

    assert first.errors == 0
    assert_the_page_shows_it(file.folder, first)
    last = first.accounts[-1]
    # 400 + 200 rows a second come, 300 can be done, and top's other source gives, as far as is known, as much.
    give = {one.query: one.give for one in last.queries}
    assert give["avg"] == pytest.approx(give["top"], abs=0.02)
    assert 0.3 < give["avg"] < 0.7
    for account in first.accounts:
        assert account.report.rows_in == sum(one.rows_kept + one.rows_shed for one in account.report.places.values())
    # Rows on the link carry what they stand for.
    table = first.outputs.table("avg-root").to_pydict()
    kept = last.total.sources["avg-part.cpu"].rows_kept
    assert 0 < sum(table["n"]) <= kept
    assert 0.0 < max(table["penstock_sic"]) <= 1.0
    assert 0.0 < last.report.sic["avg"] <= 1.0

    # As after a crash before Spark has written that the last batch is done: it is run again, and nothing changes.
    checkpoint = file.folder / "checkpoint"
    number = max(int(one.name) for one in (checkpoint / "offsets").iterdir() if one.name.isdecimal())
    for name in (f"{number}", f".{number}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    # The stop may have come in the middle of it; then there is no account of it yet.
    told = [one for one in first.accounts if one.batch == number]
    again = SiteRun(spark, file, file.folder)
    again.start()
    wait_until(lambda: len(again.accounts) >= 2, again)
    again.stop()
    assert again.accounts[0] in (told or again.accounts)
    assert [one.batch for one in again.accounts[:2]] == [number, number + 1]
    assert add_up([file.folder]).faults == []

    # A checkpoint that is gone begins a new epoch: what the link holds and was not read yet is read once.
    shutil.rmtree(file.folder / "checkpoint")
    second = SiteRun(spark, file, file.folder)
    second.start()
    wait_until(lambda: len(second.accounts) >= 3, second)
    second.stop()
    wait_until(lambda: not second.active, second)

    assert second.accounts[0].epoch > first.accounts[0].epoch
    assert second.accounts[0].batch == 0
    found = add_up([file.folder])
    assert found.faults == []
    link = found.links["west.avg-part -> west.avg-root.part"]
    assert (link.lost, link.sent - link.read) == (0, link.under_way)
    assert link.read > 0
    assert SiteAccount(file.folder).site == "west"


_FOLDER = tempfile.TemporaryDirectory(prefix="penstock-inputs-", ignore_cleanup_errors=True)
FILES = Path(_FOLDER.name) / "net"
SINK_ONLY = """\
site: west
sites: [west]
transport: {folder: bus}
folder: state
window: 4 s
capacity: 300
queries:
  top: {sources: 1}
fragments:
  top-root:
    query: top
    inputs:
      net: {format: parquet, schema: "COLUMNS", options: {path: FILES, maxFilesPerTrigger: 1}}
    sql: SELECT value FROM net
    to: {format: memory}
""".replace("COLUMNS", SCHEMA).replace("FILES", str(FILES))
LINKED = SINK_ONLY.replace("    to: {format: memory}\n", "").replace("[west]", "[west, north]")


@pytest.fixture(scope="module", autouse=True)
def _files(spark: SparkSession) -> None:
    from_files(spark, FILES, rate=1000, available=1000, rows_per_batch=500, partitions=1, seed=1, keys=50)


def ran_once(spark: SparkSession, folder: Path, text: str) -> SiteRun:
    (folder / "site.yaml").write_text(text)
    file = load(folder / "site.yaml")
    run = SiteRun(spark, file, file.folder)
    run.start(once=True)
    assert run.query is not None
    with suppress(StreamingQueryException):
        assert run.query.awaitTermination(DEADLINE_S)
    run.stop()
    run.refuse_failure()
    return run


def uncommitted(folder: Path) -> int:
    """The last batch, as if Spark had not written that it is done."""
    commits = folder / "state" / "checkpoint" / "commits"
    number = max(int(one.name) for one in commits.iterdir() if one.name.isdecimal())
    for name in (f"{number}", f".{number}.crc"):
        (commits / name).unlink(missing_ok=True)
    return number


def test_a_replay_of_another_batch_or_with_a_damaged_plan_fails_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran_once(spark, tmp_path, SINK_ONLY)
    state = tmp_path / "state"
    number = uncommitted(tmp_path)
    (path,) = (state / "plans").glob(f"*/{number:020d}.siteplan")
    whole = path.read_text()
    path.write_text("torn")
    with pytest.raises(PenstockError, match=rf"site west failed: the plan of batch {number} in .* cannot be read"):
        ran_once(spark, tmp_path, SINK_ONLY)
    path.write_text(whole)
    offsets = state / "checkpoint" / "offsets" / f"{number}"
    before, now = (f'{{"logOffset":{last}}}' for last in (number, number - 1))
    assert before in offsets.read_text()
    offsets.write_text(offsets.read_text().replace(before, now))
    (offsets.parent / f".{number}.crc").unlink()
    with pytest.raises(PenstockError, match=rf"site west failed: batch {number} is not the batch of that number"):
        ran_once(spark, tmp_path, SINK_ONLY)


def test_a_batch_whose_plan_cannot_be_written_flows_and_fails_where_rows_are_sent(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError.setting("folder", "plans", "a folder that can be written", "the system says: no space left")

    with monkeypatch.context() as patch:
        patch.setattr(SitePlanLog, "add", full)
        for name in ("sink", "link"):
            (tmp_path / name).mkdir()
        run = ran_once(spark, tmp_path / "sink", SINK_ONLY)
        with pytest.raises(PenstockError, match="site west failed: the plan of batch 0 cannot be written: folder = "):
            ran_once(spark, tmp_path / "link", LINKED)
    assert run.errors == 2
    assert [place.rows_shed for account in run.accounts for place in account.report.places.values()] == [0, 0]
    board = Board([tmp_path / "sink" / "state"])
    board.look()
    (log,) = board.news({})
    assert any("its plan cannot be written: folder = " in alarm for alarm in log["head"]["alarms"])
    # Run again when there is room, the batch keeps what its account says that it kept.
    uncommitted(tmp_path / "sink")
    again = ran_once(spark, tmp_path / "sink", SINK_ONLY)
    assert again.outputs.table("top-root").num_rows == 500


def test_a_row_of_a_link_stays_one_row_whatever_its_text(spark: SparkSession, tmp_path: Path) -> None:
    """A carriage return between JSON's words would end a line where Spark reads lines of text as it usually does."""
    (tmp_path / "site.yaml").write_text(SITE)
    file = load(tmp_path / "site.yaml")
    link = file.inputs["avg-root.part"][1].link
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    forged = '{"penstock_sic":1.0,"row":{"host":9,"n":9}}'
    lines = [f'{{"penstock_sic":0.1,"row":{{"host":1,"x":[\r{forged}\r]}}}}']
    lines += [f'{{"penstock_sic":0.1,"row":{{"host":1,"x":"a{end}b"}}}}' for end in ("\x85", "\u2028", "\u2029")]
    (inbox / "0.json").write_bytes("\n".join([*lines, ""]).encode())
    frame = inputs(spark, file, {link: inbox})["avg-root.part"].selectExpr("penstock_sic", "`avg-root.part`.host")
    query = frame.writeStream.format("memory").queryName("one_row").trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_S)
    assert [tuple(row) for row in spark.table("one_row").collect()] == [(0.1, 1)] * 4


def test_mistakes_in_sql_and_inputs_are_told_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    for old, new, told in (
        (
            "SELECT value FROM net",
            "SELECT valu FROM net",
            r"site.yaml, line \d+, fragments.top-part.sql cannot be run: .*valu",
        ),
        ("'host bigint, n", "'host big, n", r"inputs.part cannot be read: "),
        (
            "format: rate, options: {rowsPerSecond: 400",
            "format: no, options: {rowsPerSecond: 400",
            r"inputs.cpu cannot",
        ),
    ):
        path = tmp_path / "site.yaml"
        path.write_text(SITE.replace(old, new))
        file = load(path)
        with pytest.raises(PenstockError, match=told):
            SiteRun(spark, file, tmp_path / "state")
