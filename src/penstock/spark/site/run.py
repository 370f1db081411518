"""A running site: one streaming query over all inputs; each batch is planned, processed, sent and accounted for.

A batch's plan is on disk before it acts, and put there once: a replay keeps the same rows. Its results are in outboxes
and sinks, and its account is on disk, before Spark commits it; a replay makes all three alike. If planning fails, every
row is kept.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import xxhash
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import StructType

from penstock.core.fairness.sites.decisions import SiteDecisions
from penstock.core.fairness.sites.planner import SitePlanner
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.federation.account import STARTS, BatchAccount, Start, StartLog, site_report
from penstock.federation.bus import FolderBus
from penstock.federation.exchange import Exchange
from penstock.federation.kafka_bus import KafkaBus
from penstock.messages.plan import Plan
from penstock.messages.report import PlaceRows
from penstock.spark import file_log
from penstock.spark.checkpoint import batch_id
from penstock.spark.network.failures import line_of
from penstock.spark.network.sinks import Outputs
from penstock.spark.site.batch import SIC, WEIGHT, Batch, inputs, sql, together
from penstock.spark.site.ledger import Ledger
from penstock.store import retention
from penstock.store.bound_plans import SitePlanLog, SitePlans
from penstock.store.interface import StoreError
from penstock.store.logs import BindingLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.config.site_file import Fragment, SiteFile
    from penstock.federation.bus import Bus
    from penstock.messages.report import BoxStatistics, Report

_logger = logging.getLogger("penstock")


class SiteRun:
    """A site.

    Attributes:
        exchange: Its side of the transport.
        planner: What it has learned.
        query: The streaming query.
    """

    def __init__(
        self,
        spark: SparkSession,
        file: SiteFile,
        folder: Path,
        *,
        bus: Bus | None = None,
        on_batch: Callable[[BatchAccount], None] | None = None,
    ) -> None:
        """Run the site of a file, with checkpoint, boxes, plans and accounts in `folder`."""
        self._file, self._checkpoint, self._on_batch = file, folder / "checkpoint", on_batch
        self.planner = SitePlanner(
            file.planned,
            file.queries,
            rows_per_s=file.capacity,
            busy_share=file.budget,
            window_s=file.window_s,
            policy=file.policy,
        )
        start = _started(file, folder)
        self._epoch = start.epoch
        self.exchange = Exchange(
            file, bus or _bus(file), folder, self.planner.parts, epoch=start.epoch, start=start.number
        )
        self._frames = inputs(spark, file, {link: box.folder for link, box in self.exchange.inboxes.items()})
        _check_sql(spark, file, self._frames)
        self._ledger = Ledger(file, folder, start.epoch)
        epoch = f"{start.epoch:018d}"
        self._plans = SitePlans(
            SitePlanLog(folder / "plans" / epoch),
            BindingLog(folder / "bindings" / epoch),
            self._ledger.log,
            Loop(SiteDecisions(self.planner, file.policy), ""),
            tell=lambda line: _logger.warning("site %s: %s", file.site, line),
        )
        self.outputs = Outputs(
            {name: one.sink for name, one in file.fragments.items() if one.sink is not None},
            "fragments.{}.to",
            within="epoch",
        )
        self._arrivals = Arrivals(file, self._plans.last_s, self._ledger.alarm)
        self.query: StreamingQuery | None = None

    def start(self, *, once: bool = False) -> None:
        """Start the query and the exchange; with `once`, process the available rows and end."""
        self._arrivals.once = once
        for link, inbox in self.exchange.inboxes.items():
            inbox.forget(self._ledger.read_before(link.site, link.fragment))
        self._ledger.begin()
        self.exchange.start()
        writer = together(self._frames).writeStream.queryName(f"site {self._file.site}")
        writer = writer.option("checkpointLocation", str(self._checkpoint)).foreachBatch(self._run_batch)
        trigger = (
            {"availableNow": True} if once else {"processingTime": f"{round(self._file.interval_s * 1e3)} milliseconds"}
        )
        self.query = writer.trigger(**trigger).start()

    @property
    def accounts(self) -> list[BatchAccount]:
        """The accounts of the last 1,000 batches of this run, or some more."""
        return self._ledger.accounts

    @property
    def batches(self) -> int:
        """How many batches it has run."""
        return self._ledger.batches

    @property
    def errors(self) -> int:
        """Errors that were caught."""
        return self._ledger.errors

    @property
    def active(self) -> bool:
        """Whether the query runs."""
        return self.query is not None and self.query.isActive

    def refuse_failure(self) -> None:
        """Raise an error in one line if the query has failed."""
        error = None if self.query is None or self.query.isActive else self.query.exception()
        if error is not None:
            raise PenstockError(f"site {self._file.site} failed: {line_of(error)}")

    def stop(self) -> None:
        """Stop the query, write a last plan that keeps every row, send what is left, and disconnect."""
        if self.query is not None:
            self.query.stop()
            self._plans.stop()
            self._ledger.end()
        self.exchange.stop()

    def _run_batch(self, rows: DataFrame, number: int) -> None:
        begun_s = time.monotonic()
        batch = Batch(self._file, rows)
        try:
            self._forget(number)
            plan = self._planned(batch, number)
            counts, sic = batch.counted(plan)
            self._ledger.warn_of_blanks(batch.blank)
            boxes: dict[str, BoxStatistics] = {}
            for name, fragment in self._file.fragments.items():
                made, box = batch.worked(fragment, plan, counts, sic)
                boxes[name] = replace(box, parts=self._written(fragment, made, box, number))
            report = site_report(number, time.time(), plan.elapsed_s, counts, boxes)
            account = self._ledger.account(report, plan)
        finally:
            batch.close()
        took_s = time.monotonic() - begun_s
        self._plans.learn(replace(report, overhead_s=max(took_s - report.busy_s, 0.0)))
        self.exchange.updates.say({one.query: one.give for one in account.queries}, account.report.sic)
        self._ledger.close(account, self.planner.capacity.alarms)
        if self._on_batch is not None:
            self._on_batch(account)

    def _planned(self, batch: Batch, number: int) -> Plan:
        """The plan of a batch: the one of its first attempt, or a new one, which is on disk before it acts."""
        flow = Plan(0, self._file.policy, time.time(), 0, elapsed_s=self._file.interval_s, note="rows flow")
        own_id = batch_id(self._checkpoint, number)
        if self._ledger.log.taken(number) and not self._plans.bound(number):
            return flow  # It could not be planned the first time, and its rows are counted already.

        def unplanned(error: Exception) -> None:
            if isinstance(error, StoreError | OSError):
                self._refuse_unwritten(number, error)
            else:
                self._ledger.alarm(f"batch {number} keeps every row: {error}", error=True)

        try:
            plan = self._plans.of(number, own_id, lambda: self._arrived(number, batch.came()), unplanned)
        except (OSError, StoreError) as error:
            self._refuse_unwritten(number, error)
            return flow
        return plan if plan.elapsed_s else flow

    def _refuse_unwritten(self, number: int, error: Exception) -> None:
        if self.exchange.outboxes:  # A replay would send other rows, or other counts.
            raise PenstockError(f"the plan of batch {number} cannot be written: {line_of(error)}") from None
        self._ledger.alarm(
            f"batch {number} keeps every row, since its plan cannot be written: {line_of(error)}", error=True
        )

    def _arrived(self, number: int, came: Mapping[str, int]) -> Report:
        return replace(self._arrivals.report(number, time.time(), came), peers=self.exchange.updates.known())

    def _written(self, fragment: Fragment, rows: DataFrame | None, box: BoxStatistics, number: int) -> tuple[int, ...]:
        """Give a fragment's rows to its sink, or to its outbox: then, rows by part."""
        if fragment.sink is not None:
            if rows is not None:
                self.outputs.write_rows(fragment.name, rows, number, str(self._epoch))
            return ()
        lines: list[str] = []
        if rows is not None and box.rows_out:
            text = rows.drop(SIC).select(F.to_json(F.struct("*")).alias("row")).toArrow()
            lines = text.column("row").to_pylist()
        return tuple(self.exchange.outboxes[fragment.name].put(number, lines, box.sic)) if lines or box.sic else (0,)

    def _forget(self, number: int) -> None:
        """The batch before is complete: delete what it has read, and old entries."""
        last = self._ledger.log.get(number - 1)
        for name, one in last.total.links.items() if last else ():
            link = self._file.inputs[name][1].link
            if link is not None and one.mark:
                self.exchange.inboxes[link].forget(one.mark)
        if number % retention.PURGE_EVERY == 0:
            file_log.shorten(self._checkpoint)  # Spark waits for this batch.


class Arrivals:
    """The rows that came since the last batch, also since the last one of an earlier run, and over what time.

    Attributes:
        once: Whether the run processes the available rows and ends, so that all of them have waited.
    """

    def __init__(self, file: SiteFile, before_s: float | None, alarm: Callable[[str], None]) -> None:
        """Count for the site of a file; `before_s` is when an earlier run planned last, None if there was none."""
        self._file, self._before_s, self._alarm = file, before_s, alarm
        self._last_s: float | None = None
        self.once = False

    def report(self, number: int, now_s: float, came: Mapping[str, int]) -> Report:
        """The report of a batch before it is planned, by rows of each input; `elapsed_s` is 0 if that is unknown."""
        first, before_s = self._last_s is None, self._before_s
        if self._last_s is None:
            self._last_s = now_s - self._file.interval_s if before_s is None else min(before_s, now_s)
        elapsed_s = max(now_s - self._last_s, 1e-3)
        self._last_s = now_s
        waited = self._file.backlog == "keep" and (first or self.once)
        if first and not waited and elapsed_s > self._file.window_s:
            share = self._file.window_s / elapsed_s
            self._alarm(
                f"{sum(came.values())} rows have waited for {elapsed_s:.0f} s, and backlog = 'thin' keeps at most "
                f"{share:.1%} of them"
            )
        timed = not (waited and (before_s is None or self.once))  # Otherwise the time over which they came is unknown.
        report = site_report(number, now_s, elapsed_s, {name: PlaceRows(rows, rows) for name, rows in came.items()})
        return replace(report, elapsed_s=elapsed_s if timed else 0.0, backlog_rows=report.rows_in if waited else 0)


def _bus(file: SiteFile) -> Bus:
    one = file.transport
    if one.folder is not None:
        return FolderBus(one.folder)
    return KafkaBus(str(one.kafka), one.prefix, one.client)


def _started(file: SiteFile, folder: Path) -> Start:
    """Write down that the site starts: in its last epoch if its checkpoint is there, else in a new one.

    A new epoch is also later than any that the site had in a folder that is lost, by its clock.
    """
    log = StartLog(folder / STARTS)
    last = log.latest()
    needs = {  # what Spark's checkpoint depends on
        name: [one.link.channel if one.link else "", one.source.format if one.source else "", one.schema or ""]
        for name, (_, one) in file.inputs.items()
    }
    made_of = xxhash.xxh64_hexdigest(json.dumps(needs, sort_keys=True).encode())
    if last is not None and last.site != file.site:
        raise PenstockError.setting("folder", str(folder), f"a folder for site {file.site}; this one is of {last.site}")
    checkpoint = folder / "checkpoint"
    if last is not None and checkpoint.exists() and last.made_of != made_of:
        raise PenstockError(
            f"{folder} holds the checkpoint of other inputs: delete {checkpoint} to start over, or give another folder"
        )
    reset = last is None or not checkpoint.exists()
    if last is None:
        shutil.rmtree(checkpoint, ignore_errors=True)
    epoch = max((last.epoch if last else 0) + 1, int(time.time())) if reset or last is None else last.epoch
    start = Start(log.next_version(), epoch, file.site, made_of)
    log.add(start.number, start)
    return start


def _check_sql(spark: SparkSession, file: SiteFile, frames: Mapping[str, DataFrame]) -> None:
    """Find mistakes in SQL before anything runs."""
    for fragment in file.fragments.values():
        views = {}
        for name in fragment.inputs:
            kind = frames[f"{fragment.name}.{name}"].schema[f"{fragment.name}.{name}"].dataType
            if not isinstance(kind, StructType):
                raise PenstockError.setting("the rows of an input", kind, "a struct")
            empty = spark.createDataFrame([], kind)
            views[name] = empty.withColumns({WEIGHT: F.lit(1.0), SIC: F.lit(0.0)})
        sql(spark, file, fragment, views)
