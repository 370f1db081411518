"""Reports as one HTML file that needs no other: its frame, sentences, tables and pictures."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from penstock.views.network.formatting import plain


def safe(text: str) -> str:
    """The text without control characters, escaped."""
    return escape(plain(text))


def document(title: str, parts: Iterable[str], machine: str, made_by: str) -> bytes:
    """The file; `machine` says where it was measured and `made_by` is the command that makes one like it."""
    end = f"Measured on {safe(machine)}. Made by <code>{safe(made_by)}</code>."
    body = "\n".join([f"<h1>{safe(title)}</h1>", *parts, f'<p class="note">{end}</p>'])
    style = (files("penstock.views") / "report.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    ).encode(errors="replace")


def sentences(texts: Iterable[str], kind: str) -> list[str]:
    """Paragraphs of a kind: a verdict, or a note."""
    return [f'<p class="{kind}">{safe(text)}</p>' for text in texts]


def picture(alt: str, png: bytes) -> str:
    """A picture, within the file."""
    return f'<p><img alt="{safe(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}"></p>'


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "", *, words: bool = False
) -> str:
    """A table; `words` says that its last column holds words."""
    kinds = [""] * (len(columns) - words) + [' class="words"'] * words
    head = "".join(f"<th{kind}>{safe(column)}</th>" for column, kind in zip(columns, kinds, strict=True))
    lines = ["".join(f"<td{kind}>{safe(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    whole = f'<h2>{safe(title)}</h2>\n<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'
    return "\n".join([whole, *sentences([note] if note else [], "note")])
