"""Alarms: why a target is missed, or cannot be held even with shedding."""

from penstock.core.control.forecast import Knowledge
from penstock.core.control.targets import Deadline, Target
from penstock.messages.report import Report

#: The number of batches of a run after which the age of rows tells how many are left.
PLANNED_BY = 4
#: Advice if nothing is shed because rows do not take the time.
SHORTER = (
    "shorten batches, for example with a lower spark.sql.shuffle.partitions, because most of their time is overhead"
)


def missed_target(target: Target, known: Knowledge, report: Report, must_keep_s: float) -> list[str]:
    """Alarms after a report, one line each, given the work of must-keep rows."""
    if isinstance(target, Deadline):
        return _missed_deadline(target, known, report, must_keep_s)
    found = []
    ratio = target.ratio(report)
    missed = ratio is not None and ratio > 1.0
    if known.out_of_reach and (missed or ratio is None) and not known.history.resumes:
        found.append(why_out_of_reach(target, known))
    elif known.settled and known.history.capped and missed and known.late and report.lag_s > report.duration_s:
        # Younger rows need not have waited: some sources date rows a second back.
        found.append(
            f"rows are {report.lag_s:.0f} s old when their batch starts: the source has a backlog; read more rows "
            "per batch, or start from the latest rows"
        )
    elif known.history.misses_for_long and report.queuing is not None:
        found.append(
            f"target = {target} is missed in {known.history.misses} batches in a row: rows waited "
            f"{report.queuing.mean_s:.2f} s in the last one, which took {report.duration_s:.2f} s for "
            f"{report.rows_in} rows, {report.rows_kept} of them kept; give a longer target, or "
            + ("add cores, because shed rows must be read too" if report.shed_total else SHORTER)
        )
    if must_keep_s > known.capacity * known.pace.cycle_s > 0.0:
        found.append(
            f"keep matches {report.rows_must_keep} of {report.rows_in} rows, which alone exceed capacity, so the "
            "target is missed; narrow keep or add cores"
        )
    return found


def _missed_deadline(target: Deadline, known: Knowledge, report: Report, must_keep_s: float) -> list[str]:
    left, elapsed_s = known.batches_left, known.history.elapsed_s
    found = []
    if left is None and known.history.batches >= PLANNED_BY:
        found.append(
            f"target = {target} cannot be planned, so no rows are shed: neither the source nor the age of rows tells "
            "how many are left; name the column with the time at which rows reached the source as arrival"
        )
    if elapsed_s > target.within_s:
        rest = f"about {left * report.rows_in:,.0f} rows are left" if left else "the last rows were late"
        found.append(
            f"target = {target} is missed: {elapsed_s:.0f} s after the start {rest}; give a later deadline, add cores, "
            "or read fewer rows per batch, because the first batch of a new query is not planned"
        )
    elif left and must_keep_s > known.capacity * known.span_s(known.pace):
        found.append(
            f"keep matches {report.rows_must_keep} of {report.rows_in} rows, which alone take longer than the time "
            "that is left, so the deadline is missed; narrow keep or add cores"
        )
    return found


def why_out_of_reach(target: Target, known: Knowledge) -> str:
    """The reason why the target cannot be held, with measurements."""
    pace = known.steady
    old_s = known.history.lateness_s + pace.error_s
    if old_s > known.history.interval_s and (old_s > known.fixed_s or not known.recent):
        return (
            f"target = {target} is out of reach, so no rows are shed: rows are {old_s:.0f} s old when their batch "
            "starts, before any work; set arrival to the column with the time at which rows reached the source, or "
            "raise the target"
        )
    wait_s = target.wait_s(pace._replace(lag_s=0.0), 0.0) or 0.0
    if known.history.interval_s > known.fixed_s:
        return (
            f"target = {target} is out of reach, so no rows are shed: a batch starts only every "
            f"{known.history.interval_s:.1f} s, and rows wait {wait_s:.2f} s even if few are kept; give a "
            "longer target or a shorter trigger"
        )
    seen = known.recent or tuple(one for one in (known.history.last,) if one)
    fewest, most = (choose(seen, key=lambda one: one.rows_kept) for choose in (min, max))
    return (
        f"target = {target} is out of reach, so no rows are shed: a batch takes {known.fixed_s:.2f} s without any rows "
        f"({fewest.rows_kept} rows took {fewest.duration_s:.2f} s, {most.rows_kept} rows {most.duration_s:.2f} s), and "
        f"rows wait {wait_s:.2f} s even if few are kept; give a longer target, or shorten batches, for example with a "
        "lower spark.sql.shuffle.partitions"
    )
