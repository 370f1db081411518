"""The account of every row: at each site, batch by batch, and over all sites.

At a site, rows in = kept + shed for each input. On a link, rows that the sender has sent up to the part that the reader
has read last = rows in at the reader. Later parts are in transit. Different processes count both independently, so a
difference means lost or duplicated rows and is reported.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.messages.codec import Count, FrozenMap, Message, Name, Text
from penstock.messages.plan import QueryShare
from penstock.messages.report import BoxStatistics, PlaceRows, Report, added
from penstock.store.logs import Log

ACCOUNT, STARTS = "account", "starts"
_NONE: FrozenMap[str, BoxStatistics] = FrozenMap()


@dataclass(frozen=True, slots=True)
class BatchAccount(Message):
    """One batch, and all batches of the epoch up to it."""

    site: Name  #: whose it is
    epoch: Count  #: in which epoch
    report: Report  #: the batch: rows by source and link, fragments, and the SIC of queries whose root is here
    total: Report  #: the epoch up to this batch
    queries: tuple[QueryShare, ...] = ()  #: what the site gave each query

    @property
    def batch(self) -> int:
        """The number of the micro-batch."""
        return self.report.sequence

    @property
    def time_s(self) -> float:
        """When it ended."""
        return self.report.end_s

    @property
    def shown(self) -> Report:
        """The report for the page, in which a query whose root is elsewhere has the SIC that the site knows of.

        >>> batch = site_report(7, 100.0, 2.0, {"part.cpu": PlaceRows(10, 6)})
        >>> shown = BatchAccount("west", 1, batch, batch, (QueryShare("avg", 0.6, 0.55),)).shown
        >>> shown.sequence, shown.rows_kept, dict(shown.rows_shed), dict(shown.sic)
        (7, 6, {'beyond its share: part.cpu': 4}, {'avg': 0.55})
        """
        return replace(self.report, sic={**{one.query: one.level for one in self.queries}, **self.report.sic})


def site_report(
    batch: int,
    end_s: float,
    elapsed_s: float,
    places: Mapping[str, PlaceRows],
    boxes: Mapping[str, BoxStatistics] = _NONE,
) -> Report:
    """The report of a batch of a site, by its inputs and fragments; an input with a sender is a link."""
    return Report(
        sequence=batch,
        start_s=max(end_s - elapsed_s, 0.0),
        end_s=end_s,
        elapsed_s=elapsed_s,
        rows_in=sum(one.rows_in for one in places.values()),
        rows_kept=sum(one.rows_kept for one in places.values()),
        rows_shed={f"beyond its share: {name}": one.rows_shed for name, one in places.items() if one.rows_shed},
        busy_s=sum(one.busy_s for one in boxes.values()),
        sources={name: one for name, one in places.items() if not one.sender},
        links={name: one for name, one in places.items() if one.sender},
        boxes=boxes,
    )


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

    inputs: dict[str, PlaceRows] = field(default_factory=dict)  #: by site and input
    links: dict[str, LinkCount] = field(default_factory=dict)  #: by sending site and fragment
    results: Counter[str] = field(default_factory=Counter)  #: rows that roots have delivered, by query
    faults: list[str] = field(default_factory=list)  #: faults in the account, one line each

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "inputs": {
                name: {"rows_in": one.rows_in, "kept": one.rows_kept, "shed": one.rows_shed}
                for name, one in self.inputs.items()
            },
            "links": {name: asdict(one) for name, one in self.links.items()},
            "results": dict(self.results),
            "faults": self.faults,
            "balances": not self.faults,
        }


class SiteAccount:
    """The accounts in a site's folder, all epochs."""

    def __init__(self, folder: Path) -> None:
        path = folder / ACCOUNT
        found = path.iterdir() if path.is_dir() else ()
        names = sorted(one.name for one in found if re.fullmatch(r"[0-9]{18}", one.name))
        self.logs = {int(name): AccountLog(path / name, make=False) for name in names}
        self.last = {epoch: entry for epoch, log in self.logs.items() if (entry := log.latest())}
        if not self.last:
            raise PenstockError.setting("--account", str(folder), "the folder of a site that has run a batch")
        self.site = next(iter(self.last.values())).site

    def entries(self) -> list[BatchAccount]:
        """Every batch, oldest first."""
        return [one for log in self.logs.values() for one in log.entries()]

    @property
    def total(self) -> Report:
        """Totals of all epochs."""
        return added(*(entry.total for _, entry in sorted(self.last.items(), reverse=True)))

    def sent_up_to(self, fragment: str, mark: str) -> int | None:
        """Rows that a fragment had sent when it had sent a part; None if that part is not known."""
        if not mark:
            return 0
        epoch, batch, part = int(mark[:18]), int(mark[19:37]), int(mark[38:44])
        entry = self.logs[epoch].get(batch) if epoch in self.logs else None
        if entry is None or fragment not in entry.total.boxes:
            return None
        before = sum(
            last.total.boxes[fragment].rows_out
            for earlier, last in self.last.items()
            if earlier < epoch and fragment in last.total.boxes
        )
        return before + entry.total.boxes[fragment].rows_out - sum(entry.report.boxes[fragment].parts[part + 1 :])


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
        for key, one in sorted(site.total.places.items()):
            found.inputs[f"{name}.{key}"] = one
        for fragment, made in site.total.boxes.items():
            if not any(last.report.boxes.get(fragment, made).parts for last in site.last.values()):
                found.results[made.query] += made.rows_out
    for key, one in list(found.inputs.items()):
        if one.sender:
            _add_link(found, sites, key, one)
    return found


def _add_link(found: Federation, sites: Mapping[str, SiteAccount], key: str, one: PlaceRows) -> None:
    sender, _, fragment = one.sender.partition(".")
    if sender not in sites:
        found.faults.append(f"{key}: the account of {sender}, which sends it rows, is not among the folders")
        return
    made = sites[sender].total.boxes.get(fragment, BoxStatistics(0, 0, 0.0))
    up_to = sites[sender].sent_up_to(fragment, one.mark)
    if up_to is None:
        # It may be read before its sender has recorded the batch.
        found.faults.append(f"{key}: it has read part {one.mark} of {one.sender}, of which its sender has no account")
        return
    count = LinkCount(made.rows_out, one.rows_in, made.rows_out - up_to, up_to - one.rows_in)
    found.links[f"{one.sender} -> {key}"] = count
    if not count.exact:
        found.faults.append(
            f"{key}: of {up_to} rows that {one.sender} had sent up to the part that was read last, {one.rows_in} came"
        )
