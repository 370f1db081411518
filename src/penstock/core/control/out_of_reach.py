"""Why a target cannot be held however much is shed, in words."""

from penstock.core.control.forecast import Knowledge
from penstock.core.control.targets import Target


def why_out_of_reach(target: Target, known: Knowledge) -> str:
    """Why the target cannot be held, with what was seen of it."""
    pace = known.steady
    old_s = known.lateness_s + pace.error_s
    if old_s > known.interval_s and (old_s > known.fixed_s or not known.recent):
        return (
            f"target = {target} is out of reach, so no rows are shed: rows are {old_s:.0f} s old when their batch "
            "starts, before any work; set arrival to the column with the time at which rows reached the source, or "
            "raise the target"
        )
    wait_s = target.wait_s(pace._replace(lag_s=0.0), 0.0) or 0.0
    if known.interval_s > known.fixed_s:
        return (
            f"target = {target} is out of reach, so no rows are shed: a batch starts only every {known.interval_s:.1f} "
            f"s, and rows wait {wait_s:.2f} s even if few are kept; give a longer target or a shorter trigger"
        )
    fewest, most = (choose(known.recent, key=lambda one: one.rows_kept) for choose in (min, max))
    return (
        f"target = {target} is out of reach, so no rows are shed: a batch takes {known.fixed_s:.2f} s whatever is shed "
        f"({fewest.rows_kept} rows took {fewest.duration_s:.2f} s, {most.rows_kept} rows {most.duration_s:.2f} s), and "
        f"rows wait {wait_s:.2f} s even if few are kept; give a longer target, or shorten batches, for example with a "
        "lower spark.sql.shuffle.partitions"
    )
