"""What a site writes down of its batches: their accounts, reports for the page, and alarms."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.federation.account import ACCOUNT, AccountLog, BatchAccount, SiteAccount
from penstock.messages.report import added
from penstock.store import retention
from penstock.store.report_log import Alarms, End, ReportLog, Watch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.config.site_file import SiteFile
    from penstock.messages.plan import Plan
    from penstock.messages.report import BoxStatistics, Report

_logger = logging.getLogger("penstock")


class Ledger:
    """The books of one epoch of a site."""

    def __init__(self, file: SiteFile, folder: Path, epoch: int) -> None:
        self._file, self._folder, self._epoch = file, folder, epoch
        self.log = AccountLog(folder / ACCOUNT / f"{epoch:018d}")  #: the accounts on disk
        self._reports = ReportLog(folder, f"{epoch:018d}")
        self._recent: dict[str, deque[tuple[float, float]]] = {}
        self._told: tuple[str, ...] = ()
        self._blank: set[str] = set()
        self.accounts: list[BatchAccount] = []  #: those of the last 1,000 batches of this run, or some more
        self.batches = 0
        self.errors = 0

    def begin(self) -> None:
        """Write that the site begins to run."""
        file = self._file
        watch = Watch(
            guard=file.site,
            query=f"{self._epoch}",
            began_s=time.time(),
            mode="enforce",
            policy=file.policy,
            target=f"at most {file.budget:.0%} of the time at work",
            target_rows_per_s=file.capacity,
        )
        self._reports.write(watch)

    def end(self) -> None:
        """Write that it has ended."""
        self._reports.write(End(time.time()))

    def close(self, account: BatchAccount, alarms: tuple[str, ...]) -> None:
        """A batch is done: report it, and the planner's alarms when they begin and when they are over."""
        self.batches += 1
        self.accounts.append(account)
        if len(self.accounts) > 2 * retention.BATCHES:
            del self.accounts[: -retention.BATCHES]
        self._reports.write(account.shown)
        if bool(alarms) != bool(self._told):
            for line in alarms:
                _logger.warning("site %s: %s", self._file.site, line)
            self._reports.write(Alarms(time.time(), alarms, self.errors))
        self._told = alarms

    def warn_of_blanks(self, blank: Mapping[str, int]) -> None:
        """Warn, once each, of inputs whose rows have no column of their schema."""
        for name, rows in blank.items():
            if name not in self._blank:
                self._blank.add(name)
                _logger.warning(
                    "site %s: %d rows of input %s have no column of its schema, so all values are null: give the "
                    "columns of the sender's sql",
                    self._file.site,
                    rows,
                    name,
                )

    def alarm(self, line: str, *, error: bool = False) -> None:
        """Raise an alarm; if it is an error, count it."""
        self.errors += error
        _logger.warning("site %s: %s", self._file.site, line)
        self._reports.write(Alarms(time.time(), (line,), self.errors))

    def account(self, report: Report, plan: Plan) -> BatchAccount:
        """The account of a batch, as it was written the first time."""
        number = report.sequence
        last = self.accounts[-1] if self.accounts else None
        if last is None or last.batch != number - 1:
            last = self.log.get(number - 1)
        report = replace(report, sic=self._measured(report.boxes, plan.elapsed_s))
        total = replace(added(report, *([last.total] if last else [])), sic={})
        account = BatchAccount(self._file.site, self._epoch, report, total, plan.queries)
        if not self.log.add(number, account):
            account = self.log.get(number) or account
        elif last is None and self.log.taken(number - 1):
            line = f"the account of batch {number - 1} cannot be read, so totals begin again with batch {number}"
            self.alarm(line, error=True)
        return account

    def _measured(self, fragments: Mapping[str, BoxStatistics], elapsed_s: float) -> dict[str, float]:
        """The SIC of results over the last window, of queries whose root is here."""
        found = {}
        for name, one in self._file.fragments.items():
            if one.sink is not None:
                recent = self._recent.setdefault(name, deque())
                recent.append((elapsed_s, fragments[name].sic))
                while len(recent) > 1 and sum(s for s, _ in recent) - recent[0][0] >= self._file.window_s:
                    recent.popleft()
                total_s = sum(s for s, _ in recent)
                found[one.query] = min(sum(sic for _, sic in recent) * self._file.window_s / total_s, 1.0)
        return found

    def read_before(self, site: str, fragment: str) -> str:
        """The last part of a link that an earlier epoch has read: after a reset it is not to be read again."""
        try:
            earlier = SiteAccount(self._folder)
        except PenstockError:
            return ""
        return max(
            (
                one.mark
                for epoch, last in earlier.last.items()
                if epoch < self._epoch
                for one in last.total.links.values()
                if one.sender == f"{site}.{fragment}"
            ),
            default="",
        )
