"""What Penstock's own grouping promises beyond the OSG paper, and the paper's numbers under every reading of it."""

from penstock.sim.figure import Claim, Row, Saying
from penstock.sim.osg.measures import (
    AT_20_MS,
    AT_500_MS,
    FEWER,
    NEVER_BELOW,
    OSG_NEAR,
    OSG_NEARER,
    OURS,
    near_known,
    near_number,
    reading_name,
    speed_of,
    values_of,
)


def figure_plus(rows: list[Row], reports: list[Row]) -> list[Claim]:
    """What Penstock's own grouping promises beyond the paper."""
    at = {(row["distribution"], row["feedback_ms"], row["algorithm"]): row for row in rows}
    own = {(distribution, late): row for (distribution, late, name), row in at.items() if name == "penstock"}
    found = [
        Saying(f"Penstock's mean speed-up with Zipf-1.0 keys, news {feedback:g} ms late", f"{OURS}{bar}").measured(
            f"{speed_of(own['zipf-1.0', feedback]):.2f} (Full Knowledge "
            f"{speed_of(at['zipf-1.0', feedback, 'full_knowledge']):.2f}, join-shortest-queue "
            f"{speed_of(at['zipf-1.0', feedback, 'jsq']):.2f}, OSG {speed_of(at['zipf-1.0', feedback, 'osg']):.2f})",
            speed_of(own["zipf-1.0", feedback]) >= bar,
        )
        for feedback, bar in ((20.0, AT_20_MS), (500.0, AT_500_MS))
    ]
    for name, what in (("uniform", "uniform keys"), ("constant", "constant costs")):
        feedback, row = min(
            ((late, row) for (distribution, late), row in own.items() if distribution == name),
            key=lambda pair: pair[1]["speed_up"]["min"],
        )
        found.append(
            Saying(
                f"Penstock's worst run with {what}, however late the news", f"{OURS}a speed-up of {NEVER_BELOW}"
            ).measured(
                f"{row['speed_up']['min']:.3f} with news {feedback:g} ms late", row["speed_up"]["min"] >= NEVER_BELOW
            )
        )
    told = [
        f"{row['report_rows']}: {row['speed_up_20_ms']['mean']:.2f} and {row['speed_up_500_ms']['mean']:.2f} "
        f"({row['messages_20_ms']:,.0f} and {row['messages_500_ms']:,.0f} messages)"
        for row in reports
    ]
    (fourth,) = [row for row in reports if row["report_rows"] == FEWER]
    found.append(
        Saying(
            f"Penstock still meets both bars if instances report every {FEWER} rows only",
            f"{OURS}{AT_20_MS} and {AT_500_MS}",
        ).measured(
            f"by rows a report, news 20 and 500 ms late: {'; '.join(told)}",
            fourth["speed_up_20_ms"]["mean"] >= AT_20_MS and fourth["speed_up_500_ms"]["mean"] >= AT_500_MS,
        )
    )
    return found


def figure_readings(rows: list[Row]) -> list[Claim]:
    """The paper's numbers on over-provisioning under every reading."""
    at = {(row["reading"], row["over_provisioning"], row["algorithm"]): row for row in rows}
    found = []
    for reading in values_of(rows, "reading"):
        for load, paper, near in ((1.0, 1.2, OSG_NEAR), (1.05, 1.29, OSG_NEAR), (1.15, 1.06, OSG_NEARER)):
            speed = speed_of(at[reading, load, "osg"])
            found.append(near_number(f"{reading_name(reading)}: OSG's speed-up at {load:.0%}", paper, speed, near))
        known = speed_of(at[reading, 1.15, "full_knowledge"])
        found.append(near_known(f"{reading_name(reading)}: Full Knowledge's speed-up at 115 %", 1.57, known))
    return found
