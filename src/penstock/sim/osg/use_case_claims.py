"""The OSG paper's sentences about its use cases (section 5.3), compared with the measured rows."""

from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean

from penstock.sim.figure import Claim, Row, Saying, means, values
from penstock.sim.osg.own_claims import not_behind_osg

_APPLICATION_NEAR = 0.15  #: of the stated speed-up: the stream is ours, the machine another
_EXACTLY = 0.01  #: times each other
_MOST = 0.5  #: of the points


def figure_13(rows: list[Row], messages: list[int]) -> list[Claim]:
    """Section 5.3, use case mentions."""
    done = means(rows, ("k", "algorithm"), "completion_ms")
    points = values(rows, "k")
    behind = max(done[value, "osg"] / done[value, "round_robin"] for value in points)
    rises = _rises_of(done, "round_robin")
    return [
        Saying(
            f"OSG's completion time is lower than or equal to Round-Robin's at every k (within {_EXACTLY:.0%})",
            "lower or equal",
        ).measured(f"{behind:.3f} times at most", behind <= 1.0 + _EXACTLY),
        *_application_speeds(rows, least=1.0, most=2.16, mean=1.27),
        Saying("OSG's completion time falls with every instance more", "always decreases").measured(
            _told_rises(_rises_of(done, "osg")), not _rises_of(done, "osg")
        ),
        Saying("Round-Robin's rises at k = 5 or k = 6", "unanticipated behavior").measured(
            _told_rises(rises), bool({5, 6} & set(rises))
        ),
        _few_messages("hundred", 1_000, messages),
        not_behind_osg(rows, "k"),
    ]


def figure_14(rows: list[Row], messages: list[int]) -> list[Claim]:
    """Section 5.3, use case reach."""
    done = means(rows, ("k", "algorithm"), "completion_ms")
    points = values(rows, "k")
    behind = max(done[value, "osg"] / done[value, "round_robin"] for value in points)
    most, least = (means(rows, ("k", "algorithm"), "completion_ms", part) for part in ("max", "min"))
    apart = [value for value in points if most[value, "osg"] <= least[value, "round_robin"]]
    rises = {name: _rises_of(done, name) for name in ("osg", "round_robin")}
    return [
        Saying("OSG's mean completion time is smaller than Round-Robin's at every k", "for all k").measured(
            f"{behind:.3f} times at most", behind < 1.0
        ),
        Saying("OSG's worst run is as good as Round-Robin's best for most k", "for most").measured(
            f"{len(apart)} of {len(points)}", len(apart) > _MOST * len(points)
        ),
        *_application_speeds(rows, least=1.05, most=3.4, mean=1.5),
        Saying(
            "completion times fall with every instance more, but for a spike of Round-Robin's at k = 5", "decreases"
        ).measured(
            f"OSG: {_told_rises(rises['osg'])}; Round-Robin: {_told_rises(rises['round_robin'])}",
            not rises["osg"] and set(rises["round_robin"]) <= {5},
        ),
        Saying("Round-Robin has a spike at k = 5", "a spike").measured(
            _told_rises(rises["round_robin"]),
            5 in rises["round_robin"],  # noqa: PLR2004 - the paper's
        ),
        _few_messages("thousand", 10_000, messages),
        not_behind_osg(rows, "k"),
    ]


def _application_speeds(rows: list[Row], *, least: float, most: float, mean: float) -> list[Claim]:
    """Of the mean speed-ups at every k."""
    speeds = [row["speed_up"]["mean"] for row in rows if row["algorithm"] == "osg"]
    near = f"(within {_APPLICATION_NEAR:.0%})"
    return [
        Saying(f"OSG's speed-up, {what} over k {near}", f"{paper}").measured(
            f"{value:.2f}", abs(value / paper - 1) <= _APPLICATION_NEAR
        )
        for what, paper, value in (
            ("mean", mean, fmean(speeds)),
            ("least", least, min(speeds)),
            ("most", most, max(speeds)),
        )
    ]


def _few_messages(unit: str, below: int, messages: list[int]) -> Claim:
    """Of the messages of OSG's instances, at every k and in every run."""
    told = f"{min(messages):,} to {max(messages):,}"
    return Saying(f"OSG's instances send a few {unit} messages (below {below:,})", f"a few {unit}").measured(
        told, max(messages) < below
    )


def _rises_of(completion: Mapping[tuple[int, str], float], name: str) -> list[int]:
    """Numbers of instances with which rows take longer than with one less."""
    counts = [instances for instances, algorithm in completion if algorithm == name]
    return [b for a, b in pairwise(counts) if completion[b, name] >= completion[a, name]]


def _told_rises(counts: list[int]) -> str:
    """Where completion times rise, in words."""
    return f"rises at k = {', '.join(map(str, counts))}" if counts else "never rises"
