"""A MkDocs hook that turns equations into MathML, so that pages need no script from elsewhere."""

import html
import re

from latex2mathml.converter import convert

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(page: str, /, **_: object) -> str:
    """Replaces what arithmatex marked, in pages and in docstrings alike."""
    return EQUATION.sub(_mathml, page)


def _mathml(equation: re.Match[str]) -> str:
    element, latex = equation.groups()
    if element == "span":
        return convert(html.unescape(latex), display="inline")
    # A long equation scrolls by itself where the page is narrow.
    return f'<div style="overflow-x: auto">{convert(html.unescape(latex), display="block")}</div>'
