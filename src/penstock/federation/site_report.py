"""A site's journal for the dashboard: each batch's account as a `Report`, as a guard writes it."""

from penstock.config.site_file import SiteFile
from penstock.federation.account import BatchAccount
from penstock.messages.report import BoxStatistics, Report
from penstock.store.report_log import Watch


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


def watch_of(file: SiteFile, query: str, began_s: float) -> Watch:
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
