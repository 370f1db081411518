"""The plan of a data frame or a streaming query, read from what `explain` prints.

`explain` is the one public way to a plan, on classic Spark and on Spark Connect. The analysed logical plan is read:
it has the operators as the user wrote them.
"""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO, TextIOBase
from typing import Any, TextIO, cast

_ANALYSED = "== Analyzed Logical Plan =="
#: A line of a plan: three characters for each level, and a mark unless it is the root; `~` says that it streams.
_LINE = re.compile(r"(?P<levels>(?:[: ] {2})*)(?P<mark>[+:]- )?[~']*(?P<node>[A-Z]\w*.*)")
#: What Spark adds to a column's name: its number, and the delay of its watermark.
_NUMBERED = re.compile(r"#\d+L?(?:-T\d+ms)?$")
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Node:
    """An operator of a plan, with those that it takes rows from."""

    text: str
    children: list["Node"] = field(default_factory=list)

    @property
    def operator(self) -> str:
        """Its name: `Aggregate`, `Deduplicate`, `Join`."""
        return re.split(r"\W", self.text, maxsplit=1)[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns in its first pair of brackets, such as what a `Deduplicate` compares rows by."""
        found = re.search(r"\[([^]]*)\]", self.text)
        names = found[1].split(", ") if found and found[1] else []
        return tuple(_NUMBERED.sub("", name) for name in names)

    def walk(self) -> Iterator["Node"]:
        """This one and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def plan_of(explainable: Any) -> Node | None:  # noqa: ANN401 - a data frame or a streaming query
    """The plan of a data frame, or of a streaming query's last batch; None if there is none yet."""
    return read_plan(explained(explainable))


def read_plan(text: str) -> Node | None:
    r"""The analysed logical plan in what `explain(True)` prints; None if there is none.

    >>> top = read_plan("== Analyzed Logical Plan ==\nid: bigint\n~Deduplicate [id#3L]\n+- ~Range (0, 9)\n\n== ")
    >>> top.operator, top.columns, [one.operator for one in top.walk()]
    ('Deduplicate', ('id',), ['Deduplicate', 'Range'])
    """
    _, found, after = text.partition(_ANALYSED + "\n")
    if not found:
        return None
    path: list[tuple[int, Node]] = []
    for line in after.split("\n== ", maxsplit=1)[0].splitlines():
        parts = _LINE.fullmatch(line)
        if parts is None:
            continue
        if parts["mark"] is None:
            # A schema may stand before the root. Later ones are the rest of a text that goes over several lines.
            path = path if path and path[0][1].children else [(0, Node(parts["node"]))]
            continue
        level = len(parts["levels"]) // 3 + 1
        while len(path) > 1 and path[-1][0] >= level:
            path.pop()
        node = Node(parts["node"])
        if path:
            path[-1][1].children.append(node)
            path.append((level, node))
    return path[0][1] if path else None


def explained(explainable: Any) -> str:  # noqa: ANN401 - a data frame or a streaming query
    """What its `explain(True)` prints."""
    with _one_at_a_time:
        heard = _Heard()
        with redirect_stdout(cast("TextIO", heard)):
            try:
                explainable.explain(True)  # noqa: FBT003 - data frames and queries name it differently
            finally:
                heard.listening = False  # Another thread may have kept this as its output.
    return heard.taken.getvalue()


class _Heard(TextIOBase):
    """Takes what this thread prints; what others print goes where it went before."""

    def __init__(self) -> None:
        self._before, self._thread = sys.stdout, threading.get_ident()
        self.taken, self.listening = StringIO(), True

    def write(self, text: str, /) -> int:
        own = self.listening and threading.get_ident() == self._thread
        return (self.taken if own else self._before).write(text)

    def flush(self) -> None:
        self._before.flush()
