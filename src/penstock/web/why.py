"""Why was this row dropped? The gate's own arithmetic, by key, and to the row where the row is named.

A row's bucket is the hash of its key, and what happens to it there stands in the plan. So the log of plans answers
without any row having been stored.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.bucket_costs import BUCKETS
from penstock.core.gate import coins_of_hashes
from penstock.core.hashing import bucket, xxhash64
from penstock.core.planner import SOURCE
from penstock.core.thresholds import thresholds
from penstock.errors import PenstockError
from penstock.web.words import seconds, share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.plan import KeepTable, Plan
    from penstock.web.followed import Json
    from penstock.web.guarded import GuardedQuery

#: Earlier plans that are looked at.
EARLIER = 40
_LETTERS = 200
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _date(text: str) -> np.int32:
    return np.int32((dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days)


def _microseconds(text: str) -> int:
    found = dt.datetime.fromisoformat(text)
    known = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return (known - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


#: How a value of each of Spark's types is read, so that it is hashed as Spark does.
_READ: dict[str, Callable[[str], object]] = {
    "string": str,
    "binary": str.encode,
    "bigint": int,
    "int": lambda text: np.int32(int(text)),
    "smallint": lambda text: np.int32(int(text)),
    "tinyint": lambda text: np.int32(int(text)),
    "double": float,
    "float": lambda text: np.float32(float(text)),
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "date": _date,
    "timestamp": _microseconds,
    "timestamp_ntz": _microseconds,
}


def typed(text: str, kind: str) -> object:
    """A value as Spark hashes one of that type.

    >>> typed("7", "bigint"), typed("7", "string"), typed("1970-01-03", "date")
    (7, '7', np.int32(2))
    """
    read = _READ.get("string" if kind.startswith(("varchar", "char")) else kind)
    if read is None:
        raise PenstockError(f"a value of type {kind} cannot be looked up here: text, numbers, dates and times can")
    try:
        return read(text)
    except (KeyError, ValueError, OverflowError):
        raise PenstockError.setting("value", text[:_LETTERS], f"one of type {kind}") from None


def why(query: GuardedQuery, key: Sequence[str], row: Sequence[str] = (), batch: int | None = None) -> Json:
    """What happens to rows of a key, and to one of them if what tells rows apart is given.

    Args:
        query: Of which query.
        key: The key, one value a column.
        row: What tells the row from others, one value a column; none: any row of the key.
        batch: Judged by the plan of that batch; None: by the newest plan.
    """
    watch = query.watch
    if watch is None:
        raise PenstockError("no guard has signed this log yet: ask again when its query runs")
    if watch.key and len(watch.key_types) != len(watch.key):
        raise PenstockError("this guard left no types of its key columns, so a key cannot be looked up")
    hashed = _hash("key", watch.key, watch.key_types, key)
    number = bucket(hashed, BUCKETS) if watch.key else 0
    plan = _plan_of(query, batch)
    known = query.known_costs
    own_s = float(known.costs_s()[number]) if known.rows[number] > 0.0 else None
    answer: Json = {
        "bucket": number,
        "plan": plan.version if plan else None,
        "keep": 1.0,
        "reason": "",
        "cost_s": own_s,
        "mean_cost_s": known.mean_s if known.known else None,
        "must_keep": watch.keep,
    }
    table = plan.gate(SOURCE) if plan else None
    if table is not None:
        answer |= {"keep": table.keep[place := number % table.buckets], "reason": table.reason(place)}
    if row and watch.row:
        answer["row"] = _row_verdict(plan, table, number, _salted(plan, watch.row, watch.row_types, row))
    answer["text"] = _sentences(answer, watch.mode)
    answer["earlier"] = _earlier(query, number)
    return answer


def _hash(what: str, columns: Sequence[str], kinds: Sequence[str], values: Sequence[str]) -> int:
    if len(values) != len(columns):
        raise PenstockError.setting(what, list(values), f"a value for each of {', '.join(columns) or 'no column'}")
    return xxhash64(*[typed(text, kind) for text, kind in zip(values, kinds, strict=True)])


def _salted(plan: Plan | None, columns: Sequence[str], kinds: Sequence[str], values: Sequence[str]) -> int:
    if len(values) != len(columns) or len(kinds) != len(columns):
        raise PenstockError.setting("row", list(values), f"a value for each of {', '.join(columns)}")
    return xxhash64(plan.salt if plan else 0, *[typed(text, kind) for text, kind in zip(values, kinds, strict=True)])


def _plan_of(query: GuardedQuery, batch: int | None) -> Plan | None:
    if batch is None:
        return query.plan
    point = next((one for one in reversed(query.points.kept) if one["n"] == batch), None)
    if point is None:
        raise PenstockError.setting("batch", batch, "a batch that is shown")
    return None if point["plan"] is None else query.plans.log.get(point["plan"])


def _row_verdict(plan: Plan | None, table: KeepTable | None, number: int, hashed: int) -> Json:
    coin = int(coins_of_hashes(np.array([hashed], np.int64))[0])
    limit = 2**63 - 1 if table is None or plan is None else int(thresholds(table)[number % table.buckets])
    return {"kept": coin <= limit, "coin": coin / 2.0**63}


def _sentences(answer: Json, mode: str) -> list[str]:
    keep, reason = float(answer["keep"]), answer["reason"]
    plan = "no plan is in force" if answer["plan"] is None else f"plan {answer['plan']} says so"
    if keep >= 1.0:
        said = [f"Every row of this key is kept: {plan}."]
    else:
        what = "would be kept if this were no dry run" if mode == "dry_run" else "are kept"
        said = [f"{share(keep, 1.0)} of the rows of this key {what}, the others are given up: {reason} ({plan})."]
    if (verdict := answer.get("row")) is not None:
        deed = "kept" if verdict["kept"] else "dropped"
        said.append(f"This very row is {deed}: its coin is {verdict['coin']:.4f}, and rows up to {keep:.4f} are kept.")
    if answer["cost_s"] is not None and answer["mean_cost_s"]:
        times = answer["cost_s"] / answer["mean_cost_s"]
        said.append(f"A row of its bucket costs {seconds(answer['cost_s'])}, {times:.2g} times the mean.")
    else:
        said.append("No row of its bucket was measured lately.")
    if answer["must_keep"]:
        said.append(f"A row with {answer['must_keep']} is kept whatever its key.")
    return said


def _earlier(query: GuardedQuery, number: int) -> list[Json]:
    """What earlier plans did with the bucket, newest first."""
    found = []
    for one in list(query.decisions.kept)[-EARLIER:]:
        plan = query.plans.log.get(one["version"])
        if plan is None:
            continue
        table = plan.gate(SOURCE)
        place = number % table.buckets if table else 0
        found.append(
            {
                "version": plan.version,
                "t": plan.decided_s,
                "keep": table.keep[place] if table else 1.0,
                "reason": table.reason(place) if table else "",
            }
        )
    return found[::-1]
