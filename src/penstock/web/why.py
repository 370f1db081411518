"""Why was this row dropped? The gate's arithmetic, by key, and for one row if it is given.

A row's bucket is the hash of its key, and the plan says what happens to each bucket. So the log of plans answers
without stored rows.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from penstock.core.control.backlog import age_thresholds
from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.gate import CERTAIN, KEEP_ALL, TOO_OLD, coins_of_hashes, gate_salt, scaled, thresholds
from penstock.core.control.planner import SOURCE
from penstock.core.hashing import bucket, xxhash64
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.store.logs import BindingLog
from penstock.web.sentences import seconds, share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.messages.plan import Backlog, Plan
    from penstock.store.report_log import Watch
    from penstock.web.followed import Json
    from penstock.web.guarded import GuardedQuery

_LETTERS = 200
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
#: Decimals of up to this many digits fit a bigint, and Spark hashes them as such.
_BIGINT_DIGITS = 18
#: More digits than any Spark type has, so nothing is rounded.
_EXACT = decimal.Context(prec=100, traps=[decimal.InvalidOperation])


def microseconds(text: str) -> int:
    """Microseconds since 1970 of a time, in UTC unless it names a zone."""
    found = dt.datetime.fromisoformat(text)
    known = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return (known - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _decimal(text: str, digits: int, behind_point: int) -> int | bytes:
    """The number without its point: up to 18 digits as a bigint, else as the bytes of Java's BigInteger."""
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise ValueError
    scaled = _EXACT.scaleb(number, behind_point)
    whole = int(scaled)
    if whole != scaled or abs(whole) >= 10**digits:
        raise ValueError
    if digits <= _BIGINT_DIGITS:
        return whole
    bits = (whole if whole >= 0 else ~whole).bit_length()
    return whole.to_bytes(bits // 8 + 1, "big", signed=True)


#: How a value of each Spark type is parsed, so that it hashes as in Spark.
_READ: dict[str, Callable[[str], object]] = {
    "string": str,
    "binary": str.encode,
    "bigint": int,
    **dict.fromkeys(("int", "smallint", "tinyint"), lambda text: np.int32(int(text))),
    "double": float,
    "float": lambda text: np.float32(float(text)),
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "date": lambda text: np.int32((dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days),
    "timestamp": microseconds,
    "timestamp_ntz": microseconds,
}


def typed(text: str | None, kind: str) -> object:
    """A value as Spark hashes one of that type; None is null."""
    if text is None:
        return None
    try:
        if sizes := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
            return _decimal(text, int(sizes[1]), int(sizes[2]))
        read = _READ.get("string" if kind.startswith(("varchar", "char")) else kind)
        if read is not None:
            return read(text)
    except (KeyError, ValueError, ArithmeticError):
        raise PenstockError.setting("value", text[:_LETTERS], f"one of type {kind}, or say that it is null") from None
    raise PenstockError(f"a value of type {kind} cannot be looked up here: text, numbers, dates and times can")


class Thinned(NamedTuple):
    """How a batch thinned its rows.

    >>> from penstock.core.control.backlog import rule
    >>> old = Thinned(rule(2.0), bound_s=1e9)
    >>> old.share(1e9 - 40.0), old.share(1e9 - 10.0), old.oldest_s(2**62), old.oldest_s(2**58)
    (0.05, 1.0, 30.0, 64.0)
    """

    backlog: Backlog
    bound_s: float  #: the age of rows is their age then

    def threshold(self, arrival_s: float) -> int:
        """The largest hash at which a row of that arrival is kept."""
        return int(age_thresholds(self.backlog, np.array([arrival_s]), self.bound_s)[0])

    def share(self, arrival_s: float) -> float:
        """The keep share of rows of that arrival."""
        threshold = self.threshold(arrival_s)
        return 1.0 if threshold >= CERTAIN else (threshold + 1) / 2.0**63

    def oldest_s(self, coin: int) -> float:
        """The greatest age at which a row with this hash is kept."""
        return max(self.backlog.grace_s, self.backlog.fresh_s * 2.0**63 / max(coin, 1))

    def to_json(self, arrival_s: float | None) -> Json:
        """For the page."""
        age_s = None if arrival_s is None else self.bound_s - arrival_s
        return {"grace_s": self.backlog.grace_s, "fresh_s": self.backlog.fresh_s, "age_s": age_s}


def seconds_since_1970(text: str) -> float:
    """A time as typed by a user.

    >>> seconds_since_1970("2001-09-09T01:46:40"), seconds_since_1970("1e9")
    (1000000000.0, 1000000000.0)
    """
    try:
        found = float(text)
    except ValueError:
        try:
            return microseconds(text) / 1e6
        except ValueError:
            found = np.nan
    if not np.isfinite(found):
        accepted = "a time such as 2026-01-31T12:00:00, in UTC, or seconds since 1970"
        raise PenstockError.setting("arrived", text[:40], accepted)
    return found


#: How many earlier plans are searched.
EARLIER = 40


def why(
    query: GuardedQuery,
    key: Sequence[str | None],
    row: Sequence[str | None] = (),
    batch: int | None = None,
    arrived: str = "",
) -> Json:
    """What happens to rows of a key, and to one of them if its identity is given.

    Args:
        query: Of which query.
        key: The key, one value a column; None is null.
        row: The columns that identify the row, one value a column, None is null; empty: any row of the key.
        batch: Use the plan of that batch; None: the newest plan.
        arrived: When the row arrived, as a time or in seconds since 1970; needed for a batch with a backlog.
    """
    watch = query.watch if batch is None else query.watch_of(batch)
    if watch is None:
        raise PenstockError("no guard has written to this log yet: ask again when its query runs")
    if watch.key and len(watch.key_types) != len(watch.key):
        raise PenstockError("this guard recorded no types of its key columns, so a key cannot be looked up")
    claim = _claim(query)
    hashed = xxhash64(*_typed("key", watch.key, watch.key_types, key))
    number = bucket(hashed, BUCKETS) if watch.key else 0
    plan = _plan_of(query, batch)
    bound = None if batch is None else BindingLog(query.folder / "bindings" / watch.query, make=False).get(batch)
    old = Thinned(bound.backlog, bound.bound_s) if bound is not None and bound.backlog is not None else None
    arrival_s = seconds_since_1970(arrived) if arrived else None
    known = query.known_costs
    own_s = float(known.costs_s()[number]) if known.rows[number] > 0.0 else None
    answer: Json = {
        "bucket": number,
        "plan": plan.version if plan else None,
        **_of_bucket(plan, number),
        "cost_s": own_s,
        "mean_cost_s": known.mean_s if known.known else None,
        "must_keep": watch.keep,
        "backlog": None if old is None else old.to_json(arrival_s),
    }
    table = plan.gate(SOURCE) if plan else None
    limit = KEEP_ALL
    if table is not None:
        limit = int(thresholds(table)[number % table.buckets])
    if bound is not None and bound.share < 1.0:  # the batch was too large
        limit = int(scaled(np.array([limit]), bound.share)[0])
        answer |= {"keep": answer["keep"] * bound.share, "reason": TOO_MANY}
    if old is not None and arrival_s is not None and old.threshold(arrival_s) < limit:
        limit = old.threshold(arrival_s)
        answer |= {"keep": old.share(arrival_s), "reason": TOO_OLD}
    if row and watch.row:
        hashed = xxhash64(_salt(watch, plan, claim), *_typed("row", watch.row, watch.row_types, row))
        coin = int(coins_of_hashes(np.array([hashed], np.int64))[0])
        answer["row"] = _row_verdict(coin, limit, old if arrival_s is None else None)
    answer["text"] = _sentences(answer, watch.mode) + ([] if batch is not None else _thinned_batches(query))
    answer["earlier"] = _earlier(query, number)
    return answer


def _claim(query: GuardedQuery) -> Claim | None:
    """The guard's watch record, if it can be read; raises one line if the guard uses more than the key."""
    try:
        claim = Claim.from_json((query.folder / "guard.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    column = claim.cost_column or (claim.value[0] if claim.value else None)
    if column:
        raise PenstockError(f"this guard also uses column {column}, so the key alone decides nothing")
    if not claim.key and len(claim.sources) > 1:
        raise PenstockError("this query's gates keep a share of each source, so the key alone decides nothing")
    return claim


def _salt(watch: Watch, plan: Plan | None, claim: Claim | None) -> int:
    """The salt of the gate's hash. If the journal lacks it, plans or the claim have it."""
    if watch.salt is not None:
        return watch.salt
    if plan is not None:
        return plan.salt
    return gate_salt(claim.seed if claim else 0, watch.guard)


def _typed(what: str, columns: Sequence[str], kinds: Sequence[str], values: Sequence[str | None]) -> list[object]:
    if not len(values) == len(columns) == len(kinds):
        raise PenstockError.setting(what, list(values), f"a value for each of {', '.join(columns) or 'no column'}")
    return [typed(text, kind) for text, kind in zip(values, kinds, strict=True)]


def _plan_of(query: GuardedQuery, batch: int | None) -> Plan | None:
    if batch is None:
        return query.plan
    point = next((one for one in reversed(query.points.kept) if one["n"] == batch), None)
    if point is None:
        raise PenstockError.setting("batch", batch, "a batch that is shown")
    if point["plan"] is None:
        return None
    plan = query.plans.log.get(point["plan"])
    if plan is None:
        raise PenstockError(f"plan {point['plan']}, which judged batch {batch}, is missing: ask for a newer batch")
    return plan


def _row_verdict(coin: int, limit: int, old: Thinned | None) -> Json:
    """Kept or not; None if that depends on the row's age, with the greatest age that is kept."""
    kept = coin <= limit or limit >= CERTAIN
    verdict: Json = {"kept": kept, "coin": coin / 2.0**63}
    if old is not None and kept:
        verdict |= {"kept": None, "oldest_s": old.oldest_s(coin)}
    return verdict


def _sentences(answer: Json, mode: str) -> list[str]:
    keep, reason = float(answer["keep"]), answer["reason"]
    plan = "no plan is in force" if answer["plan"] is None else f"plan {answer['plan']} says so"
    what = "would be kept if this were no dry run" if mode == "dry_run" else "are kept"
    if keep >= 1.0:
        said = [f"Every row of this key is kept: {plan}."]
    elif reason == TOO_OLD:
        age = seconds(answer["backlog"]["age_s"])
        said = [f"{share(keep, 1.0)} of the rows of its age, {age}, {what}, the others are shed: {reason}."]
    else:
        said = [f"{share(keep, 1.0)} of the rows of this key {what}, the others are shed: {reason} ({plan})."]
    if (old := answer["backlog"]) is not None and old["age_s"] is None:
        said.append(
            f"But this batch had a backlog: of rows that had waited longer than {seconds(old['grace_s'])}, fewer the "
            f"older they were: of age a, {seconds(old['fresh_s'])} / a of them are kept ({TOO_OLD})."
        )
    said += _of_the_row(answer.get("row"), keep, mode, answer["must_keep"])
    if answer["cost_s"] is not None and answer["mean_cost_s"]:
        times = answer["cost_s"] / answer["mean_cost_s"]
        said.append(f"A row of its bucket costs {seconds(answer['cost_s'])}, {times:.2g} times the mean.")
    else:
        said.append("No row of its bucket was measured recently.")
    if answer["must_keep"]:
        said.append(f"A row with {answer['must_keep']} is always kept, regardless of its key.")
    return said


def _of_the_row(verdict: Json | None, keep: float, mode: str, must_keep: str) -> list[str]:
    """The verdict on one row. Whether it must be kept is unknown, because not all its columns are given."""
    if verdict is None:
        return []
    coin = f"its coin is {verdict['coin']:.4f}"
    if verdict["kept"] is None:
        unless = " or must be kept" if must_keep else ""
        aged = f"had waited no longer than {seconds(verdict['oldest_s'])}{unless}"
        return [f"This row is kept if it {aged}: {coin}."]
    would = mode == "dry_run"
    deed = "is kept" if verdict["kept"] else f"{'would be' if would else 'is'} dropped"
    unless = ", unless it must be kept" if must_keep and not verdict["kept"] else ""
    return [f"This row {deed}{unless}: {coin}, and rows up to {keep:.4f} {'would be' if would else 'are'} kept."]


def _thinned_batches(query: GuardedQuery) -> list[str]:
    """Batches that the newest plan does not cover."""
    numbers = [one["n"] for one in query.points.kept if one["shed"].get(TOO_OLD)]
    if not numbers:
        return []
    named = f"batch {numbers[0]}" if len(numbers) == 1 else f"batches {numbers[0]} to {numbers[-1]}"
    return [f"Rows of {named} were shed for their age ({TOO_OLD}): name the batch to see the verdict on one."]


def _earlier(query: GuardedQuery, number: int) -> list[Json]:
    """What earlier plans did with the bucket, newest first."""
    plans = [query.plans.log.get(one["version"]) for one in list(query.decisions.kept)[-EARLIER:]]
    return [{"version": one.version, "t": one.decided_s, **_of_bucket(one, number)} for one in plans[::-1] if one]


def _of_bucket(plan: Plan | None, number: int) -> Json:
    """What a plan does with the rows of a bucket."""
    table = plan.gate(SOURCE) if plan else None
    place = number % table.buckets if table else 0
    return {"keep": table.keep[place] if table else 1.0, "reason": table.reason(place) if table else ""}
