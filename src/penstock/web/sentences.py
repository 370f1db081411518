"""The sentences of the page, and the few numbers that it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.store.report_log import ALIVE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.messages.plan import KeepTable, Plan
    from penstock.messages.report import Report
    from penstock.store.report_log import Missing, Watch
    from penstock.web.guarded import Guards

#: A guard without an `alive` line for this long is quiet.
SILENT_S = 3.0 * ALIVE_S
#: The limit for a guard that has never written `alive`: this long, and this many batches of its query.
QUIET_S, QUIET_BATCHES = 60.0, 5.0
#: Up to this many different shares of one reason are listed.
MOST_SHARES = 3
#: Only a wait above the target by more than this share is a miss.
MISS = 1.05


def state(guards: Guards, last: Report | None, plan: Plan | None, now_s: float) -> str:
    """The guard's state: waiting, running, quiet or ended. A query without batches raises its own alarm."""
    if guards.ended is not None:
        return "ended"
    if last is None and guards.watch is None and plan is None:
        return "waiting"
    signs_s = [last.end_s if last else 0.0, plan.decided_s if plan else 0.0, guards.alarms.told_s]
    signs_s += [guards.watch.began_s if guards.watch else 0.0, guards.alive.told_s if guards.alive else 0.0]
    patience_s = SILENT_S if guards.alive else max(QUIET_S, QUIET_BATCHES * last.duration_s if last else 0.0)
    if now_s - max(signs_s) > patience_s:
        return "quiet"
    return "waiting" if last is None else "running"


def missing(found: Sequence[Missing]) -> list[str]:
    """One line about batches without a report; nothing if all have one."""
    if not found:
        return []
    count, last = sum(one.last - one.first + 1 for one in found), found[-1]
    if count == 1:
        return [f"Batch {last.last} has no report, so totals omit it: {last.note}."]
    return [f"{count} batches have no report, so totals omit them. The last is batch {last.last}: {last.note}."]


def target(watch: Watch | None) -> str:
    """The target, in words."""
    if watch is None:
        return ""
    if watch.target_rows_per_s is not None:
        return f"at most {watch.target_rows_per_s:,.0f} rows a second"
    if watch.target_s is None:
        return watch.target
    what = "no row waits longer than" if watch.target == "MaxLag" else "the mean wait is at most"
    return f"{what} {seconds(watch.target_s)}"


def verdict(watch: Watch | None, recent: Sequence[Report], shown_state: str, since_s: float) -> dict[str, str]:
    """The current state in a sentence, and whether it is good, bad or neither.

    `since_s` is when the batch before the recent ones ended, because rates include the time between batches.
    """
    if not recent:
        return {"level": "none", "text": "No batch with rows has ended yet."}
    rows_in, kept = sum(one.rows_in for one in recent), sum(one.rows_kept for one in recent)
    waited = [one.queuing for one in recent if one.queuing]
    mean_s = sum(one.rows * one.mean_s for one in waited) / max(sum(one.rows for one in waited), 1)
    over = shown_state != "running"
    held = f"{share(kept, rows_in)} of rows {'were' if over else 'are'} kept"
    wait = "waited" if over else "wait"
    when = {"running": "", "ended": "in its last 10 s: "}.get(shown_state, "when last seen: ")
    good = None
    if watch is not None and watch.target_rows_per_s is not None:
        span_s = recent[-1].end_s - since_s
        rate = kept / span_s if span_s > 0.0 else 0.0
        good, text = rate <= MISS * watch.target_rows_per_s, f"{rate:,.0f} rows a second kept"
    elif not waited:
        text = "how long rows wait was not measured"
    else:
        found_s = max(one.max_s for one in waited) if watch and watch.target == "MaxLag" else mean_s
        text = f"rows {wait} {seconds(found_s)}"
        if watch and watch.target_s is not None:
            good = found_s <= MISS * watch.target_s
            text = f"{'within' if good else 'above'} target, {text} of {seconds(watch.target_s)}"
    said = f"{when}{text}; {held}."
    return {"level": {None: "none", True: "good", False: "bad"}[good], "text": f"{said[0].upper()}{said[1:]}"}


def reasons(table: KeepTable) -> list[dict[str, object]]:
    """Why rows are shed, from how many buckets, and the keep share of these buckets.

    For a reason with many shares only their mean is given.
    """
    keep = np.asarray(table.keep)
    found: dict[str, dict[float, list[float]]] = {}
    for number in np.flatnonzero(keep < 1.0).tolist():
        kept = float(keep[number])
        found.setdefault(table.reason(number), {}).setdefault(round(kept, 2), []).append(kept)
    told: list[dict[str, object]] = []
    for reason, shares in found.items():
        if len(shares) <= MOST_SHARES:
            told += [_reason(reason, kept) for _, kept in sorted(shares.items())]
        else:
            told.append(_reason(f"{reason}, on average", [one for kept in shares.values() for one in kept]))
    return told


def _reason(reason: str, kept: list[float]) -> dict[str, object]:
    return {"reason": reason, "buckets": len(kept), "keep": round(sum(kept) / len(kept), 4)}


def seconds(length_s: float) -> str:
    """A readable length of time.

    >>> seconds(0.00042), seconds(0.25), seconds(2.0), seconds(1.625), seconds(95.0)
    ('0.42 ms', '250 ms', '2 s', '1.62 s', '95 s')
    """
    if length_s < 1.0:
        return f"{1e3 * length_s:.3g} ms"
    return f"{length_s:.0f} s" if length_s >= 10.0 else f"{length_s:.3g} s"  # noqa: PLR2004 - digits that matter


def share(part: float, whole: float) -> str:
    """A share in percent; 100% only for all, 0% only for none.

    >>> share(999, 1000), share(1000, 1000), share(0, 10), share(1, 1000), share(0, 0)
    ('>99%', '100%', '0%', '<1%', '100%')
    """
    if not whole or part >= whole:
        return "100%"
    percent = 100.0 * part / whole
    if percent > 99.0:  # noqa: PLR2004 - what would be rounded to all of it
        return ">99%"
    return "<1%" if 0.0 < percent < 1.0 else f"{percent:.0f}%"
