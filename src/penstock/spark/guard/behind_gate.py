"""Operators behind a gate that weights alone cannot correct: read from the query's plan and logged once.

Some rows must stay together: two deliveries of one row, the rows of a session or of a state's key. They do if the
gate's coin is the same for all of them. That is so if the guard's `row` is among the columns that the operator groups
by.
"""

import logging
import re
from collections.abc import Callable, Sequence

from pyspark.sql.streaming.query import StreamingQuery

from penstock.messages.report import Report
from penstock.spark.guard.misuse import GATE
from penstock.spark.plan_text import Node, plan_of

#: Reports after which the plan is looked for; before its first batch a query has none.
_LOOKS = 3
_GATE_NODE = re.compile(rf"CollectMetrics ({GATE}[^,]*),")
_SESSION = "session_window"
_STATE = re.compile(r"FlatMapGroups\w*WithState|TransformWithState\w*")
#: Spark prints this operator's result first, and how many columns of its input are the key.
_KEYS_FIRST = re.compile(r"#\d+, (\d+), \[")
#: Joins that show no row whose partner may have been shed, by the sides that have a gate.
_SOUND = {
    (True, False): ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"),
    (False, True): ("Inner", "Cross", "RightOuter"),
    (True, True): ("Inner", "Cross"),
}
#: The name of one side's weights in `answers.join` and `sic.join`.
_MULTIPLIED = "__penstock_weight"

_logger = logging.getLogger("penstock")


class LookBehind:
    """Checks the plan of a query after its first batch, and passes reports on."""

    def __init__(
        self, query: StreamingQuery, on_report: Callable[[Report], None], *, row: Sequence[str], weight: str
    ) -> None:
        self._query, self._on_report, self._row, self._weight = query, on_report, row, weight
        self._looks = _LOOKS if row else 0  # A guard that has admitted nothing has no gate in the query.

    def __call__(self, report: Report) -> None:
        """Process a report."""
        if self._looks > 0:
            self._looks -= 1
            self._look()
        self._on_report(report)

    def _look(self) -> None:
        try:
            plan = plan_of(self._query)
        except Exception as error:  # noqa: BLE001 - a warning that is not given must not stop the control of the query
            _logger.debug("the plan of query %s cannot be read: %s", self._query.id, error)
            return
        if plan is None:
            return
        self._looks = 0
        for line in found_behind(plan, self._row, self._weight):
            _logger.warning("query %s: %s", self._query.name or self._query.id, line)


def found_behind(plan: Node, row: Sequence[str], weight: str) -> list[str]:
    """One line for each operator behind a gate that makes answers wrong, and what to do.

    Args:
        plan: The plan.
        row: The columns that the gate hashes.
        weight: The column of weights.
    """
    lines = [line for node in plan.walk() if (line := _line(node, {one.strip("`") for one in row}, weight))]
    return list(dict.fromkeys(lines))


def _line(node: Node, row: set[str], weight: str) -> str | None:
    if node.operator == "Join":
        return _about_join(node)
    if not _gated(node):
        return None
    told_by = ", ".join(sorted(row))
    if node.operator in ("Deduplicate", "DeduplicateWithinWatermark", "Distinct"):
        return _about_duplicates(node, row, weight)
    if node.operator == "Aggregate" and _SESSION in node.columns:
        keys = tuple(name for name in node.columns if name != _SESSION)
        what = "a shed row splits or ends a session, so the number of sessions is wrong"
        return None if _together(row, keys) else f"session windows behind the gate: {what}; {_fix(keys, told_by)}"
    if _STATE.fullmatch(node.operator):
        keys = _state_keys(node)
        what = "states miss the shed rows, and weights cannot correct them"
        return None if _together(row, keys) else f"{node.operator} behind the gate: {what}; {_fix(keys, told_by)}"
    return None


def _about_duplicates(node: Node, row: set[str], weight: str) -> str | None:
    keys = node.columns if node.operator != "Distinct" else ()
    by = f"dropDuplicates by {', '.join(keys)}" if keys else "DISTINCT"
    others = [name for name in keys if name != weight]
    if weight in keys or not keys:
        return (
            f"{by} behind the gate compares {weight}, which differs between two deliveries of a row: give "
            "dropDuplicates the columns that identify a row, and the guard the same as row="
        )
    if _together(row, others):
        return None
    what = "two deliveries of a row are kept or shed independently, so rows are counted too often"
    return f"{by} behind the gate: {what}; {_fix(others, ', '.join(sorted(row)))}, or drop duplicates before admit"


def _about_join(node: Node) -> str | None:
    sides = tuple(_gated(child) for child in node.children[:2])
    if sides not in _SOUND:
        return None
    kind = node.text.removeprefix("Join ").split(",", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    if kind not in _SOUND[sides]:
        return f"a {kind} join behind the gate shows rows without a partner whose partner may have been shed"
    if sides == (True, True) and not any(_MULTIPLIED in one.text for one in node.walk()):
        return (
            "a join of two gated streams: a pair exists only if both rows were kept; multiply their weights as "
            "answers.join does, and give each side's guard its own name"
        )
    return None


def _fix(keys: Sequence[str], told_by: str) -> str:
    asked = ", ".join(repr(one) for one in keys)
    named = f"row={asked}" if len(keys) == 1 else f"row=[{asked}]"
    return f"give the guard {named if keys else 'as row= the columns it groups by'} (now {told_by})"


def _together(row: set[str], keys: Sequence[str]) -> bool:
    """Whether rows that are equal in the keys share a coin."""
    return bool(row) and row <= set(keys)


def _state_keys(node: Node) -> tuple[str, ...]:
    counted = _KEYS_FIRST.search(node.text)
    if node.operator.startswith("TransformWithState"):
        return node.children[0].columns[: int(counted[1])] if counted and node.children else ()
    return node.columns


def _gated(node: Node) -> bool:
    return any(_GATE_NODE.match(one.text) for one in node.walk())
