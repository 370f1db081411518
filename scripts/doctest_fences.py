"""A Griffe extension for the reference: doctests are shown as code, and `#:` comments describe what they stand at."""

import re

from griffe import Attribute, Docstring, Extension, Object

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)


class DoctestFences(Extension):
    """Puts a fence around every run of lines that begins with a prompt."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrites the docstring of a module, class, function or attribute."""
        if isinstance(obj, Attribute) and not obj.docstring and (told := described(obj)):
            obj.docstring = Docstring(told, parent=obj)
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)


def described(field: Attribute) -> str:
    """The comment behind an attribute, or in the lines before it, as a sentence."""
    lines = field.module.source.splitlines()
    behind = lines[(field.endlineno or 0) - 1].partition("  #: ")[2]
    before: list[str] = []
    for line in reversed(lines[: (field.lineno or 1) - 1]):
        if not line.lstrip().startswith("#:"):
            break
        before.insert(0, line.lstrip().removeprefix("#:").strip())
    told = behind or " ".join(before)
    return f"{told[:1].upper()}{told[1:]}" + ("" if told.endswith(".") or not told else ".")
