"""The demo's numbers as one self-contained HTML file."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from penstock.demo import plots, report

if TYPE_CHECKING:
    from penstock.demo.report import Facts, Table

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
img { width: 100%; } .verdict { font-weight: 600; }
table { border-collapse: collapse; } th, td { padding: .2rem .8rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; white-space: pre; } .note { color: #666; font-size: .9rem; }
"""


def page(result: Facts, machine: str, made_by: str) -> bytes:
    """The page; `machine` says where it was measured and `made_by` is the command that makes one like it."""
    parts = [
        "<h1>Penstock demo</h1>",
        *(f'<p class="verdict">{escape(sentence)}</p>' for sentence in report.verdicts(result)),
        *(f'<p class="note">{escape(line)}</p>' for line in report.notes(result)),
        f"<p>{escape(report.introduction(result))}</p>",
        *(_picture(alt, png) for alt, png in plots.plots(result).items()),
        *(_table(table) for table in report.tables(result)),
        f'<p class="note">Measured on {escape(machine)}. Made by <code>{escape(made_by)}</code>.</p>',
    ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Penstock demo</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    ).encode()


def picture(result: Facts) -> bytes:
    """The first picture alone: latency of both runs, as a PNG."""
    return next(iter(plots.plots(result).values()))


def _picture(alt: str, png: bytes) -> str:
    return f'<p><img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}"></p>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "\n".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    note = f'\n<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f"<h2>{escape(table.title)}</h2>\n<table>\n<tr>{head}</tr>\n{rows}\n</table>{note}"
