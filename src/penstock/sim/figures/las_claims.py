"""The LAS paper's sentences about its figures, held against the rows measured.

A claim that does not hold is told as such: `holds` is computed, never written down.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.sim.figures.result import Claim, Row
from penstock.sim.las_runs import Setting
from penstock.sim.workload import PHASES

#: Runs x windows x (latency in ms, dropped ratio).
Series = Mapping[str, NDArray[np.float64]]

_TARGET_MS = Setting().target_s * 1e3
_PAPER = ("base_line", "straw_man", "las", "full_knowledge")
#: Windows of Figure 6: five a phase.
_WINDOWS = 5


def figure_4(rows: list[Row]) -> list[Claim]:
    """Section 5.2, input throughput."""
    at = {(row["under_provisioning"], row["algorithm"]): row for row in rows}
    overloads = sorted({row["under_provisioning"] for row in rows if row["under_provisioning"] > 0})
    las = [_latency(at[u, "las"]) / _TARGET_MS for u in overloads]
    blind = [_latency(at[0.25, name]) / _TARGET_MS for name in ("base_line", "straw_man")]
    calm = [_latency(at[-0.10, name]) for name in _PAPER]
    drops = {name: at[0.25, name]["dropped_ratio"]["mean"] for name in _PAPER}
    known = max(row["violations"] for row in rows if row["algorithm"] == "full_knowledge")
    own = max(_latency(at[u, "penstock"]) / _TARGET_MS for u in overloads)
    with_factor = max(_latency(at[u, "full_knowledge_eps"]) / _TARGET_MS for u in overloads)
    violated = max(at[u, "las"]["violations"] for u in overloads)
    return [
        Claim("Full Knowledge never violates the target", "0 % of runs", f"{known:.0%} of runs", known == 0),
        Claim(
            "LAS stays close to the target",
            "quite close to 6.4 ms",
            f"{min(las):.2f} to {max(las):.2f} times the target",
            max(las) <= 1.5,  # noqa: PLR2004 - our reading of "quite close"
        ),
        Claim("LAS violates it in some runs", "some of the tests", f"up to {violated:.0%} of runs", violated > 0),
        Claim(
            "Base Line and Straw-Man are far above it at 25 %",
            "a huge amount",
            f"{blind[0]:.0f} and {blind[1]:.0f} times the target",
            min(blind) >= 10,  # noqa: PLR2004 - an order of magnitude
        ),
        Claim(
            "over-provisioned by 10 %, all perform alike",
            "same level",
            f"{min(calm):.2f} to {max(calm):.2f} ms",
            max(calm) <= 1.1 * min(calm),
        ),
        Claim(
            "Base Line and Straw-Man drop the same amount at 25 %",
            "the same",
            f"{drops['base_line']:.4f} and {drops['straw_man']:.4f}",
            abs(drops["base_line"] - drops["straw_man"]) <= 0.005,  # noqa: PLR2004 - half a percent of the rows
        ),
        Claim(
            "LAS drops slightly more, Full Knowledge in the middle",
            "Base Line <= Full Knowledge <= LAS",
            f"{drops['base_line']:.3f}, {drops['full_knowledge']:.3f}, {drops['las']:.3f}",
            drops["base_line"] <= drops["full_knowledge"] <= drops["las"] <= 1.2 * drops["base_line"],
        ),
        Claim(
            "Full Knowledge has a much lower latency (with LAS's factor 1 + eps)",
            "much lower",
            f"at most {with_factor:.2f} times the target; without the factor it sits at the target",
            with_factor <= 0.75,  # noqa: PLR2004 - our reading of "much lower"
        ),
        Claim("Penstock's mean is within the target", "not in the paper", f"at most {own:.3f} times it", own <= 1.0),
    ]


def figure_5(rows: list[Row]) -> list[Claim]:
    """Section 5.2, frequency probability distributions."""
    at = {(row["distribution"], row["algorithm"]): row for row in rows}
    names = list(dict.fromkeys(row["distribution"] for row in rows))
    blind = [_latency(at[name, algorithm]) / _TARGET_MS for name in names for algorithm in ("base_line", "straw_man")]
    las = [_latency(at[name, "las"]) for name in names]
    ratio = [at[name, "las"]["shedding_ratio"]["mean"] for name in names]
    span = [_span(at[name, "straw_man"]) for name in (names[0], names[-1])]
    own = max(at[name, "penstock"]["queuing_latency_ms"]["max"] / _TARGET_MS for name in names)
    return [
        Claim(
            "Straw-Man and Base Line are bad with any distribution",
            "invariably bad",
            f"{min(blind):.0f} to {max(blind):.0f} times the target",
            min(blind) >= 10,  # noqa: PLR2004 - an order of magnitude
        ),
        Claim(
            "their best and worst runs lie further apart with skew (Straw-Man, span / mean)",
            "increases",
            f"{span[0]:.2f} uniform, {span[1]:.2f} {names[-1]}",
            span[1] > span[0],
        ),
        Claim(
            "LAS's latency improves with skew",
            "improves",
            f"{las[0]:.1f} ms uniform, {las[-1]:.1f} ms {names[-1]}",
            las[-1] <= 0.5 * las[0],
        ),
        Claim(
            "LAS's shedding ratio decreases with skew",
            "decreases on average",
            f"{ratio[0]:.3f} uniform, {ratio[-1]:.3f} {names[-1]}: the factor 1 + eps rules it",
            ratio[-1] < 0.95 * ratio[0],
        ),
        Claim(
            "Penstock holds the target with any distribution",
            "not in the paper",
            f"worst run {own:.3f} times the target",
            own <= 1.01,  # noqa: PLR2004 - the bar
        ),
    ]


def figure_eps(rows: list[Row]) -> list[Claim]:
    """Section 5.1's precision parameter; its results are in the companion report, so what the theory says is tested."""
    las = {row["epsilon"]: row for row in rows if row["algorithm"] == "las"}
    own = max(row["queuing_latency_ms"]["max"] for row in rows if row["algorithm"] == "penstock") / _TARGET_MS
    small, default, large = min(las), 0.05, max(las)
    return [
        Claim(
            "a smaller eps brings LAS closer to the optimum: latency near the target",
            "(eps, delta)-optimal",
            f"{_latency(las[small]):.1f} ms at {small}, {_latency(las[default]):.1f} ms at {default}: "
            "the safety factor shrinks with eps",
            _latency(las[small]) <= _latency(las[default]),
        ),
        Claim(
            "a smaller eps brings LAS closer to the optimum: fewer drops",
            "(eps, delta)-optimal",
            f"{_dropped(las[small]):.3f} at {small}, {_dropped(las[large]):.3f} at {large}",
            _dropped(las[small]) <= _dropped(las[large]),
        ),
        Claim(
            "Penstock has no such parameter and holds the target",
            "not in the paper",
            f"worst run {own:.3f} times the target",
            own <= 1.01,  # noqa: PLR2004 - the bar
        ),
    ]


def figure_6(series: Series, target_ms: float) -> list[Claim]:
    """Section 5.2, time series: phases A to G."""
    names = ("straw_man", "las", "las_first_check", "full_knowledge")
    straw, las, first, known = (_mean_latency(series[name]) for name in names)
    drops = {name: np.nanmean(values[:, :, 1], axis=0) for name, values in series.items()}
    end = {phase: number * _WINDOWS + _WINDOWS - 1 for number, phase in enumerate(PHASES)}
    calm = max(float(drops[name][end["E"]]) for name in series)
    doubled = end["F"] - _WINDOWS + 1
    return [
        Claim(
            "A: Straw-Man's latency grows, LAS's does not",
            "diverge",
            f"Straw-Man {straw[end['A']]:.0f} ms, LAS {las[end['A']]:.0f} ms at the end",
            bool(straw[end["A"]] > target_ms > las[end["A"]]),
        ),
        Claim(
            "A: Full Knowledge and LAS drop slightly more than Straw-Man",
            "slightly more",
            f"{drops['full_knowledge'][: end['A'] + 1].mean():.3f}, {drops['las'][: end['A'] + 1].mean():.3f} against "
            f"{drops['straw_man'][: end['A'] + 1].mean():.3f}",
            bool(
                drops["straw_man"][: end["A"] + 1].mean()
                < min(drops[name][: end["A"] + 1].mean() for name in ("full_knowledge", "las"))
            ),
        ),
        Claim(
            "B: drops rise to half the rows, LAS and Full Knowledge near the target at the end",
            "slight changes",
            f"LAS {las[end['B']]:.0f}, Full Knowledge {known[end['B']]:.0f} ms; LAS drops {drops['las'][end['B']]:.2f}",
            bool(max(las[end["B"]], known[end["B"]]) <= 1.1 * target_ms and drops["las"][end["B"]] >= 0.4),  # noqa: PLR2004 - half, roughly
        ),
        Claim(
            "D: LAS and Full Knowledge drop more and stay near the target, Straw-Man deteriorates",
            "strong deterioration",
            f"LAS {las[end['D']]:.0f}, Full Knowledge {known[end['D']]:.0f}, Straw-Man {straw[end['D']]:.0f} ms",
            bool(max(las[end["D"]], known[end["D"]]) <= 1.1 * target_ms and straw[end["D"]] >= 10 * target_ms),
        ),
        Claim("E: nothing needs to be dropped", "no tuple", f"at most {calm:.1%} at the end", calm <= 0.001),  # noqa: PLR2004 - one in a thousand
        Claim(
            "F: LAS starts far above the target and converges within the phase (as printed)",
            "quickly converges",
            f"{las[doubled]:.0f} ms, then {_ms(las[end['F']])} at the end",
            _converges(las, doubled, end["F"], target_ms),
        ),
        Claim(
            "F: the same, sending at the first check",
            "quickly converges",
            f"{first[doubled]:.0f} ms, then {_ms(first[end['F']])} at the end",
            _converges(first, doubled, end["F"], target_ms),
        ),
        Claim(
            "G: Straw-Man does not recover",
            "cannot be recovered",
            f"{straw[end['G']]:.0f} ms at the end",
            bool(straw[end["G"]] >= 10 * target_ms),
        ),
        *_penstock_in_phases(series, target_ms),
    ]


def figure_7(whole: Mapping[str, tuple[float, float]]) -> list[Claim]:
    """Section 5.3: completion latency and drops over the whole stream, by algorithm."""
    known, las, straw = whole["full_knowledge"], whole["las"], whole["straw_man"]
    return [
        Claim(
            "LAS's completion latency is extremely close to Full Knowledge's",
            "extremely close",
            f"{las[0]:.0f} against {known[0]:.0f} ms",
            las[0] <= 1.25 * known[0],
        ),
        Claim(
            "Straw-Man's is at least an order of magnitude larger",
            ">= 10 times",
            f"{straw[0] / las[0]:.0f} times LAS's",
            straw[0] >= 10 * las[0],
        ),
        Claim("Straw-Man drops nothing", "0 %", f"{straw[1]:.2%}", straw[1] <= 0.001),  # noqa: PLR2004 - one in a thousand
        Claim(
            "Full Knowledge and LAS drop 5 to 10 percent",
            "5 to 10 %",
            f"{known[1]:.1%} and {las[1]:.1%}",
            all(0.05 <= share <= 0.10 for share in (known[1], las[1])),  # noqa: PLR2004 - the paper's range
        ),
    ]


def figure_plus(rows: list[Row], series: Series, target_ms: float) -> list[Claim]:
    """What Penstock's own shedder promises beyond the paper."""
    at = {row["variant"]: row for row in rows}
    own, cheap, uniform = at["penstock"], at["penstock_prefer_cheap"], at["penstock_uniform"]
    las_start = float(np.nanmin(series["las"][:, _doubling(), 0]))
    return [
        Claim(
            "within 1.01 of the target",
            "at least 99 % of runs",
            f"{1 - own['above_1_01_tau']:.1%} of runs (LAS: {1 - at['las']['above_1_01_tau']:.0%})",
            own["above_1_01_tau"] <= 0.01,  # noqa: PLR2004 - the bar
        ),
        Claim("drops", "at most 0.270", _drops(own), own["dropped_ratio"]["mean"] <= 0.270),  # noqa: PLR2004 - the bar
        Claim(
            "drops with cheap rows preferred",
            "at most 0.22",
            _drops(cheap),
            cheap["dropped_ratio"]["mean"] <= 0.22 and cheap["above_1_01_tau"] <= 0.01,  # noqa: PLR2004 - the bars
        ),
        Claim(
            "uniform keys, which a sketch cannot tell apart: target held",
            "within the target",
            f"worst run {uniform['queuing_latency_ms']['max']:.2f} ms",
            uniform["queuing_latency_ms"]["max"] <= _TARGET_MS,
        ),
        Claim(
            "no more memory than LAS",
            f"{at['las']['memory_bytes']} bytes",
            f"{own['memory_bytes']} bytes",
            own["memory_bytes"] <= at["las"]["memory_bytes"],
        ),
        *_penstock_in_phases(series, target_ms),
        Claim(
            "LAS as printed in the first window after costs double",
            "more than 5 s",
            f"{las_start / 1e3:.1f} s or more",
            las_start > 5_000,  # noqa: PLR2004 - the study's figure
        ),
    ]


def _penstock_in_phases(series: Series, target_ms: float) -> list[Claim]:
    latency = series["penstock"][:, :, 0]
    settled = latency[:, [window for window in range(latency.shape[1]) if window % _WINDOWS >= 2]]  # noqa: PLR2004 - from the third on
    start_ms = float(np.nanmax(latency[:, _doubling()]))
    return [
        Claim(
            "Penstock in the phases: every window from the third of a phase on within the target",
            "all windows",
            f"{np.mean(settled <= target_ms):.1%} of windows, worst {np.nanmax(settled):.1f} ms of {target_ms:.0f}",
            bool(np.all(settled <= target_ms)),
        ),
        Claim(
            "Penstock in the first window after costs double",
            "under 1.2 s",
            f"worst {start_ms / 1e3:.3f} s",
            start_ms < 1_200,  # noqa: PLR2004 - the bar
        ),
    ]


def _doubling() -> int:
    return PHASES.index("F") * _WINDOWS


def _converges(latency: NDArray[np.float64], start: int, end: int, target_ms: float) -> bool:
    return bool(latency[start] > 10 * target_ms and latency[end] <= 1.1 * target_ms)


def _mean_latency(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over runs by window; NaN where no run kept a row."""
    counts = np.sum(~np.isnan(values[:, :, 0]), axis=0)
    means: NDArray[np.float64] = np.full(len(counts), np.nan)
    np.divide(np.nansum(values[:, :, 0], axis=0), counts, out=means, where=counts > 0)
    return means


def _ms(value: float) -> str:
    return "every row dropped" if np.isnan(value) else f"{value:.0f} ms"


def _latency(row: Row) -> float:
    return float(row["queuing_latency_ms"]["mean"])


def _dropped(row: Row) -> float:
    return float(row["dropped_ratio"]["mean"])


def _drops(row: Row) -> str:
    dropped = row["dropped_ratio"]
    return f"{dropped['mean']:.4f} (runs {dropped['min']:.3f} to {dropped['max']:.3f})"


def _span(row: Row) -> float:
    latency = row["queuing_latency_ms"]
    return float((latency["max"] - latency["min"]) / latency["mean"])
