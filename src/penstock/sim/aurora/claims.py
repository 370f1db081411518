"""The Aurora paper's sentences about its figures, compared with the measured rows.

`holds` is computed, never written down. Where the paper uses a word and no number, the claim states the reading. Claims
of Penstock beyond the paper are marked as ours.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import fmean

from penstock.sim.aurora.runs import PlusRun
from penstock.sim.figure import Claim, Row, Saying, means, values

_OURS = "not in the paper; our bar: "
_ADMISSION = ("input_random", "input_cost_top", "input_uniform", "input_cost_uniform")

# Readings of words.
_MUCH_BETTER = 0.75  #: times the loss of the other
_SIGNIFICANTLY = 0.8  #: times the loss of the other
_CONSTANT = 2.0  #: times the smallest gap
_ALMOST_THE_SAME = 1.0  #: points

# Penstock's bars.
_NEXT_TO_EXACT = 0.3  #: points of utility
_NEXT_TO_FRESH = 0.5  #: points of utility


def figure_9(rows: list[Row]) -> list[Claim]:
    """Section 6.1, tuple utility."""
    loss = means(rows, ("excess_load", "algorithm"), "tuple_utility_loss")
    loads = values(rows, "excess_load")
    names = values(rows, "algorithm")
    falls = [name for name in names if any(loss[b, name] <= loss[a, name] for a, b in pairwise(loads))]
    better, closest = _against(loss, loads, ("random_ls", "semantic_ls"), _ADMISSION)
    gaps = [loss[load, "random_ls"] - loss[load, "semantic_ls"] for load in loads]
    poor = min(loss[load, one] - loss[load, other] for load in loads for one in _ADMISSION[:2] for other in names[:2])
    uniform = [loss[load, "input_uniform"] - loss[load, one] for load in loads for one in _ADMISSION[:2]]
    gain = [loss[load, "input_uniform"] - loss[load, "random_ls"] for load in loads]
    weighted = abs(loss[loads[0], "input_uniform"] - loss[loads[0], "input_cost_uniform"])
    return [
        Saying("all algorithms lose more the higher the rates", "clearly negatively affected").measured(
            "all" if not falls else f"not {', '.join(falls)}", not falls
        ),
        Saying("both QoS-driven algorithms lose less than every admission control, at every load", "better").measured(
            *better
        ),
        Saying(
            f"they perform much better (up to {_MUCH_BETTER} times the loss of the best admission control)",
            "much better",
        ).measured(
            f"{closest[0]:.2f} times at worst ({closest[1]} against {closest[2]} at {closest[3]:+.0%})",
            closest[0] <= _MUCH_BETTER,
        ),
        Saying("Semantic-LS loses less than Random-LS at every load", "less").measured(
            f"{min(gaps):.1f} to {max(gaps):.1f} points less", min(gaps) > 0.0
        ),
        Saying(f"by a constant amount (the largest gap up to {_CONSTANT:.0f} times the smallest)", "constant").measured(
            f"{min(gaps):.1f} to {max(gaps):.1f} points", min(gaps) > 0.0 and max(gaps) <= _CONSTANT * min(gaps)
        ),
        Saying(
            "Input-Random and Input-Cost-Top lose more than the QoS-driven ones at all rates", "perform poorly"
        ).measured(f"{poor:.1f} points more at least", poor > 0.0),
        Saying(
            "Input-Random and Input-Cost-Top lose more than Input-Uniform at all rates", "poorly compared to others"
        ).measured(f"by {-max(uniform):.1f} to {-min(uniform):.1f} points", max(uniform) < 0.0),
        Saying(
            "the QoS-driven gain on Input-Uniform grows with the load: Random-LS, first against last",
            "start observing the benefits",
        ).measured(f"{gain[0]:.1f} points at {loads[0]:+.0%}, {gain[-1]:.1f} at {loads[-1]:+.0%}", gain[-1] > gain[0]),
        Saying(
            f"Input-Cost-Uniform performs as Input-Uniform at the lowest load (within {_ALMOST_THE_SAME:g} point)",
            "almost exactly the same",
        ).measured(f"{weighted:.1f} points apart", weighted <= _ALMOST_THE_SAME),
    ]


def figure_10(rows: list[Row]) -> list[Claim]:
    """Section 6.2, value utility."""
    loss = means(rows, ("excess_load", "algorithm"), "value_utility_loss")
    loads = values(rows, "excess_load")
    others = [name for name in values(rows, "algorithm") if name != "semantic_ls"]
    better, closest = _against(loss, loads, ("semantic_ls",), others)
    return [
        Saying(
            "Semantic-LS loses less value utility than every other algorithm, at every load", "outperforms"
        ).measured(*better),
        Saying(
            f"it does so significantly (up to {_SIGNIFICANTLY} times the loss of the next best)", "significantly"
        ).measured(
            f"{closest[0]:.2f} times at worst (against {closest[2]} at {closest[3]:+.0%})", closest[0] <= _SIGNIFICANTLY
        ),
    ]


def figure_11(rows: list[Row]) -> list[Claim]:
    """Section 6.3, skew of utilities."""
    ratio = _ratios(rows, "random_ls")
    skews, loads = sorted({skew for skew, _ in ratio}), values(rows, "excess_load")
    grows = [ratio[skews[-1], load] / ratio[skews[0], load] for load in loads]
    low, high = ([ratio[skew, load] for skew in skews] for load in (loads[0], loads[-1]))
    effect = [ratio[skews[-1], load] - ratio[skews[0], load] for load in (loads[0], loads[-1])]
    return [
        Saying("Random-LS loses more value utility than Semantic-LS at every skew and load", "more effective").measured(
            f"{min(ratio.values()):.2f} to {max(ratio.values()):.2f} times as much", min(ratio.values()) > 1.0
        ),
        Saying(
            f"the larger the skew, the larger the ratio, at every load (skew {skews[-1]:g} against {skews[0]:g})",
            "increasingly more effective",
        ).measured(f"{min(grows):.2f} to {max(grows):.2f} times the ratio", min(grows) > 1.0),
        Saying(
            "the ratio is smaller at the highest load than at the lowest, at every skew", "tends to diminish"
        ).measured(
            f"{min(low):.2f} to {max(low):.2f} at {loads[0]:+.0%}, {min(high):.2f} to {max(high):.2f} "
            f"at {loads[-1]:+.0%}",
            all(after < before for before, after in zip(low, high, strict=True)),
        ),
        Saying("and so is what skew adds to it", "tends to diminish").measured(
            f"{effect[0]:.2f} at {loads[0]:+.0%}, {effect[1]:.2f} at {loads[-1]:+.0%}", effect[1] < effect[0]
        ),
    ]


def figure_12(rows: list[Row]) -> list[Claim]:
    """Section 6.4, sharing."""
    ratio = _ratios(rows, "input_uniform")
    skews, loads = sorted({skew for skew, _ in ratio}), values(rows, "excess_load")
    first = [ratio[skew, loads[0]] for skew in skews]
    everywhere = [ratio[skews[-1], load] / ratio[skews[0], load] for load in loads]
    last = [ratio[skew, loads[-1]] for skew in skews]
    return [
        Saying(
            "Input-Uniform loses more tuple utility than Random-LS at every skew and load", "performs better"
        ).measured(f"{min(ratio.values()):.2f} to {max(ratio.values()):.2f} times as much", min(ratio.values()) > 1.0),
        Saying(
            f"the more so the more skewed graphs are, at every load (skew {skews[-1]:g} against {skews[0]:g})",
            "performs better",
        ).measured(f"{min(everywhere):.2f} to {max(everywhere):.2f} times the ratio", min(everywhere) > 1.0),
        Saying(
            "at extremely high loads less so: the last ratio is below the first, at every skew", "starts to diminish"
        ).measured(
            f"{min(first):.2f} to {max(first):.2f} at {loads[0]:+.0%}, {min(last):.2f} to {max(last):.2f} "
            f"at {loads[-1]:+.0%}",
            all(after < before for before, after in zip(first, last, strict=True)),
        ),
    ]


def figure_plus(by_sharing: Mapping[float, list[PlusRun]]) -> list[Claim]:
    """What a road map can do beyond the paper."""
    return [claim for sharing, runs in by_sharing.items() for claim in _plus(f"{sharing:.0%} shared", runs)]


def _plus(where: str, runs: list[PlusRun]) -> list[Claim]:
    def behind(policy: str, than: str) -> list[float]:
        return [
            one.fares[excess, policy].loss - one.fares[excess, than].loss
            for one in runs
            for excess, name in one.fares
            if name == policy
        ]

    found = []
    for policy, name in (("greedy", "greedy"), ("penstock", "Penstock's own map")):
        gaps = behind(policy, "exact")
        found.append(
            Saying(
                f"{where}: {name} is next to the optimum (mean, and worst network and load)",
                f"{_OURS}{_NEXT_TO_EXACT} points",
            ).measured(f"{fmean(gaps):.3f} points, {max(gaps):.2f} at worst", max(gaps) <= _NEXT_TO_EXACT)
        )
    group, stale = behind("greedy_group", "exact"), behind("stale", "fresh")
    walked = max(one.behind for one in runs)
    worst, price = _worst(runs), behind("max_min", "exact")
    return [
        *found,
        Saying(
            f"{where}: one drop for all inputs of a query (the paper's text) loses more than one for each",
            "not in the paper",
        ).measured(
            f"{fmean(group):.2f} points behind the optimum, {max(group):.1f} at worst",
            fmean(group) > fmean(behind("greedy", "exact")),
        ),
        Saying(
            f"{where}: a map built anew on drift is next to a fresh one at every step",
            f"{_OURS}{_NEXT_TO_FRESH} points",
        ).measured(
            f"{walked:.2f} points at worst, built {fmean(one.built for one in runs):.1f} times in 7 steps",
            walked <= _NEXT_TO_FRESH,
        ),
        Saying(f"{where}: a stale one loses more", "not in the paper").measured(
            f"{fmean(stale):.1f} points on average, {max(stale):.1f} at worst", fmean(stale) > _NEXT_TO_FRESH
        ),
        Saying(f"{where}: max-min lifts the worst query at every load", f"{_OURS}no query shut off").measured(
            f"to {worst[0]:.2f} at least; the sum leaves {worst[1]:.2f}; price {fmean(price):.1f} points of the mean",
            worst[0] > 0.0 and worst[2],
        ),
    ]


def figure_batches(rows: list[Row]) -> list[Claim]:
    """Ours: what Spark's planner makes of a load that rises and falls."""
    at = {(row["turn"], row["algorithm"]): row for row in rows}
    over = [row for row in rows if row["load"] > 1.0]
    lengths = [row["batch_length"]["mean"] for row in over]
    gains = [
        at[row["turn"], "input_uniform"]["utility_loss"]["mean"] - row["utility_loss"]["mean"]
        for row in over
        if row["algorithm"] == "random"
    ]
    calm = [row["drops"]["max"] for row in rows if row["load"] < 1.0]
    return [
        Saying("batches last no longer than their trigger above capacity (mean)", f"{_OURS}1 trigger").measured(
            f"{min(lengths):.2f} to {max(lengths):.2f} triggers", max(lengths) <= 1.0
        ),
        Saying(
            "the road map loses less utility than Input-Uniform at every load above capacity", "not in the paper"
        ).measured(f"{min(gains):.1f} to {max(gains):.1f} points less", min(gains) > 0.0),
        Saying("nothing is dropped below capacity, also after an overload", f"{_OURS}no drop").measured(
            f"{max(calm):.0f} places at most", max(calm) == 0
        ),
    ]


def _worst(runs: list[PlusRun]) -> tuple[float, float, bool]:
    """The worst query of all with max-min and with the sum, and whether the first was better in every case."""
    pairs = [
        (fare.worst, one.fares[excess, "exact"].worst)
        for one in runs
        for (excess, policy), fare in one.fares.items()
        if policy == "max_min"
    ]
    return min(fair for fair, _ in pairs), min(best for _, best in pairs), all(a >= b - 0.01 for a, b in pairs)


def _ratios(rows: list[Row], algorithm: str) -> dict[tuple[float, float], float]:
    """By skew and load; a loss against no loss at all is as good as infinite."""
    return {
        (row["skew"], row["excess_load"]): math.inf if row["loss_ratio"] is None else row["loss_ratio"]
        for row in rows
        if row["algorithm"] == algorithm
    }


def _against(
    loss: Mapping[tuple[float, str], float], loads: list[float], ours: Iterable[str], others: Iterable[str]
) -> tuple[tuple[str, bool], tuple[float, str, str, float]]:
    """Whether these lose less than all others at every load; and the nearest that another comes."""
    cases = [
        (loss[load, one] / loss[load, other] if loss[load, other] > 0.0 else math.inf, one, other, load)
        for one in ours
        for other in others
        for load in loads
    ]
    closest = max(cases)
    worse = sum(case[0] >= 1.0 for case in cases)
    return (f"in {len(cases) - worse} of {len(cases)} cases", not worse), closest
