"""A Griffe extension that fences the doctests of docstrings, so that the reference shows them as code."""

import re

from griffe import Extension, Object

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)


class DoctestFences(Extension):
    """Puts a fence around every run of lines that begins with a prompt."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrites the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
