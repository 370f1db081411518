"""The demo's numbers as one self-contained HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.demo import plots, report
from penstock.views import html

if TYPE_CHECKING:
    from penstock.demo.report import Facts


def page(result: Facts, machine: str, made_by: str) -> bytes:
    """The page; `machine` says where it was measured and `made_by` is the command that makes one like it."""
    parts = [
        *html.sentences(report.verdicts(result), "verdict"),
        *html.sentences(report.notes(result), "note"),
        *html.sentences([report.introduction(result)], "about"),
        *(html.picture(alt, png) for alt, png in plots.plots(result).items()),
        *(html.table(*table) for table in report.tables(result)),
    ]
    return html.document("Penstock demo", parts, machine, made_by)


def picture(result: Facts) -> bytes:
    """The first picture alone: latency of both runs, as a PNG."""
    return next(iter(plots.plots(result).values()))
