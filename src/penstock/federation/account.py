"""The account of every row: at each site, batch by batch, and over all sites.

At a site, rows in = kept + shed for each input. On a link, rows that the sender has sent up to the part that the reader
has read last = rows in at the reader; later parts are in transit. Different processes count both independently, so a
difference means lost or duplicated rows and is reported.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.messages.codec import Count, Message, Name, Record, Seconds, Share, Text, refusal
from penstock.messages.report import BoxStatistics, Report
from penstock.store.logs import Log
from penstock.store.report_log import Watch

if TYPE_CHECKING:
    from penstock.config.site_file import SiteFile

ACCOUNT, STARTS = "account", "starts"


@dataclass(frozen=True, slots=True)
class InputCount(Record):
    """Rows of an input; `link` is where they come from, as `site.fragment`, and `mark` the last part that was read."""

    rows_in: Count = 0
    kept: Count = 0
    shed: Count = 0
    link: Text = ""
    mark: Text = ""


@dataclass(frozen=True, slots=True)
class FragmentCount(Record):
    """The output of a fragment: rows, by part if they were sent, and the SIC of its input."""

    query: Name
    rows_out: Count = 0
    part_rows: tuple[Count, ...] = ()
    sic: Seconds = 0.0
    seconds: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class BatchAccount(Message):
    """One batch, and all batches of the epoch up to it."""

    site: Name  #: whose it is
    epoch: Count  #: in which epoch
    batch: Count  #: the micro-batch
    time_s: Seconds  #: when it ended
    elapsed_s: Seconds  #: time over which its rows came
    inputs: Mapping[Name, InputCount]  #: what came in, by input
    fragments: Mapping[Name, FragmentCount]  #: what came out, by fragment
    total_inputs: Mapping[Name, InputCount]  #: both for the whole epoch up to this batch
    total_fragments: Mapping[Name, FragmentCount]  #: as `total_inputs`
    give: Mapping[Name, Share]  #: the share of its rows that each query is given
    sic: Mapping[Name, Share]  #: the SIC measured on results, by query whose root is here
    levels: Mapping[Name, Share]  #: the SIC of each query as the site sees it: its own share and that of its peers

    def _check(self) -> None:
        for name, one in self.inputs.items():
            if one.rows_in != one.kept + one.shed:
                raise refusal(f"inputs[{name!r}]", one, "rows_in = kept + shed")


class AccountLog(Log[BatchAccount]):
    """Accounts by batch, of one epoch."""

    _kind, _word, _number, _time = BatchAccount, "account", "batch", "time_s"


@dataclass(frozen=True, slots=True)
class Start(Message):
    """A start of a site."""

    number: Count  #: from 0 on
    epoch: Count  #: grows when the site starts without its checkpoint
    site: Name  #: its name
    made_of: Text  #: a hash of what it runs; a checkpoint is usable only with the same hash


class StartLog(Log[Start]):
    """Starts by number."""

    _kind, _word, _number = Start, "start", "number"


def added(total: Mapping[str, InputCount], more: Mapping[str, InputCount]) -> dict[str, InputCount]:
    """Totals with one more batch; a batch without rows of a link leaves its mark as it was."""
    found = dict(total)
    for name, one in more.items():
        last = total.get(name, InputCount())
        found[name] = InputCount(
            last.rows_in + one.rows_in, last.kept + one.kept, last.shed + one.shed, one.link, one.mark or last.mark
        )
    return found


def added_fragments(total: Mapping[str, FragmentCount], more: Mapping[str, FragmentCount]) -> dict[str, FragmentCount]:
    """The same for fragments."""
    found = dict(total)
    for name, one in more.items():
        last = total.get(name, FragmentCount(one.query))
        found[name] = FragmentCount(
            one.query, last.rows_out + one.rows_out, (), last.sic + one.sic, last.seconds + one.seconds
        )
    return found


@dataclass
class LinkCount:
    """A link: rows sent, read, in transit, and unaccounted for."""

    sent: int = 0
    read: int = 0
    under_way: int = 0
    lost: int = 0

    @property
    def exact(self) -> bool:
        """Whether each row sent was read once or can still be read."""
        return self.lost == 0 and self.under_way >= 0


@dataclass
class Federation:
    """The account of several sites."""

    inputs: dict[str, InputCount] = field(default_factory=dict)  #: by site and input
    links: dict[str, LinkCount] = field(default_factory=dict)  #: by sending site and fragment
    results: Counter[str] = field(default_factory=Counter)  #: rows that roots have delivered, by query
    faults: list[str] = field(default_factory=list)  #: faults in the account, one line each

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "inputs": {
                name: {"rows_in": one.rows_in, "kept": one.kept, "shed": one.shed} for name, one in self.inputs.items()
            },
            "links": {
                name: {"sent": one.sent, "read": one.read, "under_way": one.under_way, "lost": one.lost}
                for name, one in self.links.items()
            },
            "results": dict(self.results),
            "faults": self.faults,
            "balances": not self.faults,
        }


class SiteAccount:
    """The accounts in a site's folder, all epochs."""

    def __init__(self, folder: Path) -> None:
        """Read them."""
        path = folder / ACCOUNT
        names = (
            sorted(one.name for one in path.iterdir() if re.fullmatch(r"[0-9]{18}", one.name)) if path.is_dir() else []
        )
        self.logs = {int(name): AccountLog(path / name) for name in names}
        self.last = {epoch: entry for epoch, log in self.logs.items() if (entry := log.latest())}
        if not self.last:
            raise PenstockError.setting("--account", str(folder), "the folder of a site that has run a batch")
        self.site = next(iter(self.last.values())).site

    def entries(self) -> list[BatchAccount]:
        """Every batch, oldest first."""
        return [one for log in self.logs.values() for one in log.entries()]

    def inputs(self) -> dict[str, InputCount]:
        """Totals of all epochs."""
        total: dict[str, InputCount] = {}
        for entry in self.last.values():
            total = added(total, entry.total_inputs)
        return total

    def fragments(self) -> dict[str, FragmentCount]:
        """Totals of all epochs."""
        total: dict[str, FragmentCount] = {}
        for entry in self.last.values():
            total = added_fragments(total, entry.total_fragments)
        return total

    def sent_up_to(self, fragment: str, mark: str) -> int | None:
        """Rows that a fragment had sent when it had sent a part; None if that part is not known."""
        if not mark:
            return 0
        epoch, batch, part = int(mark[:18]), int(mark[19:37]), int(mark[38:44])
        entry = self.logs[epoch].get(batch) if epoch in self.logs else None
        if entry is None or fragment not in entry.total_fragments:
            return None
        before = sum(
            last.total_fragments[fragment].rows_out
            for earlier, last in self.last.items()
            if earlier < epoch and fragment in last.total_fragments
        )
        rows = entry.fragments[fragment].part_rows
        return before + entry.total_fragments[fragment].rows_out - sum(rows[part + 1 :])


def add_up(folders: Iterable[Path]) -> Federation:
    """The account over the folders of sites."""
    sites: dict[str, SiteAccount] = {}
    for folder in folders:
        account = SiteAccount(folder)
        if account.site in sites:
            raise PenstockError.setting(
                "--account", str(folder), f"one folder a site; another is of {account.site} as well"
            )
        sites[account.site] = account
    found = Federation()
    for name, site in sites.items():
        for key, one in site.inputs().items():
            found.inputs[f"{name}.{key}"] = one
            if one.rows_in != one.kept + one.shed:
                found.faults.append(f"{name}.{key}: {one.rows_in} rows in, {one.kept} kept and {one.shed} shed")
        for fragment, made in site.fragments().items():
            roots = [last.fragments.get(fragment) for last in site.last.values()]
            if not any(one is not None and one.part_rows for one in roots):
                found.results[made.query] += made.rows_out
    for key, one in list(found.inputs.items()):
        if one.link:
            _add_link(found, sites, key, one)
    return found


def _add_link(found: Federation, sites: Mapping[str, SiteAccount], key: str, one: InputCount) -> None:
    sender, _, fragment = one.link.partition(".")
    if sender not in sites:
        found.faults.append(f"{key}: the account of {sender}, which sends it rows, is not among the folders")
        return
    made = sites[sender].fragments().get(fragment, FragmentCount("?"))
    up_to = sites[sender].sent_up_to(fragment, one.mark)
    if up_to is None:
        # It may be read before its sender has recorded the batch.
        found.faults.append(f"{key}: it has read part {one.mark} of {one.link}, of which its sender has no account")
        return
    count = LinkCount(made.rows_out, one.rows_in, made.rows_out - up_to, up_to - one.rows_in)
    found.links[f"{one.link} -> {key}"] = count
    if not count.exact:
        found.faults.append(
            f"{key}: of {up_to} rows that {one.link} had sent up to the part that was read last, {one.rows_in} came"
        )


def report_of(account: BatchAccount) -> Report:
    """A batch as the page shows it: rows are shed by input, and each query has the SIC that the site knows of.

    That is the one measured on results where the query's root is here; else what the site gives and others tell.

    >>> from penstock.federation.account import InputCount
    >>> rows = {"part.cpu": InputCount(10, 6, 4)}
    >>> account = BatchAccount("west", 1, 7, 100.0, 2.0, rows, {}, rows, {}, {"avg": 0.6}, {}, {"avg": 0.55})
    >>> report = report_of(account)
    >>> report.sequence, report.rows_kept, dict(report.rows_shed), dict(report.sic)
    (7, 6, {'beyond its share: part.cpu': 4}, {'avg': 0.55})
    """
    inputs = account.inputs
    return Report(
        sequence=account.batch,
        start_s=max(account.time_s - account.elapsed_s, 0.0),
        end_s=account.time_s,
        rows_in=sum(one.rows_in for one in inputs.values()),
        rows_kept=sum(one.kept for one in inputs.values()),
        rows_shed={f"beyond its share: {name}": one.shed for name, one in inputs.items() if one.shed},
        busy_s=sum(one.seconds for one in account.fragments.values()),
        boxes={name: BoxStatistics(one.rows_in, one.kept, 0.0) for name, one in inputs.items()},
        sic={**account.levels, **account.sic},
    )


def watch_of(file: "SiteFile", query: str, began_s: float) -> Watch:
    """The watch record of a site."""
    return Watch(
        guard=file.site,
        query=query,
        began_s=began_s,
        mode="enforce",
        policy=file.policy,
        target=f"at most {file.budget:.0%} of the time at work",
        target_rows_per_s=file.capacity,
    )
