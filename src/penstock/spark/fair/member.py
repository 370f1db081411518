"""Reading of a query that shares an application: it has several gates, and its reports have SIC."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.core.fairness.sic import SourceTimeWindow
from penstock.messages.plan import Plan
from penstock.messages.report import BoxStatistics, Latency, Report
from penstock.spark.fair.sic_operators import delivered
from penstock.spark.plans.control_row import WHY
from penstock.spark.plans.sic_columns import CAME, PASSED
from penstock.spark.progress import Progress, report_of


class FairReading:
    """Reads the batches of one query; its gates are those of its sources."""

    gated = True

    def __init__(
        self, member: str, probe: str, gates: Callable[[], Mapping[str, str | None]], *, window_s: float, dry: bool
    ) -> None:
        """Read the query of this name, whose gates report their sums under these names, each for its source or for all.

        SIC is computed over source time windows of this length.
        """
        self.probe = probe
        self._member, self._gates, self._dry = member, gates, dry
        self._came, self._delivered = SourceTimeWindow(window_s), SourceTimeWindow(window_s)

    def gates(self) -> Iterable[str]:
        """The names of the gates' counts."""
        return self._gates()

    def judged(self, progress: Progress) -> bool:
        """Whether the batch was judged by one of its gates."""
        return any(gate in progress.observed for gate in self._gates())

    def version(self, progress: Progress) -> int | None:
        """The version of the plan that judged the batch; if one gate could not find it, the reason."""
        found = [progress.observed.get(gate, {}).get("plan") for gate in self._gates()]
        versions = [version for version in found if version is not None]
        return next((version for version in versions if version in WHY), max(versions, default=None))

    def report(self, progress: Progress, before: Progress | None, plan: Plan | None) -> Report | None:
        """The batch as a Report, with SIC; None if no row came to a gate."""
        parts = {
            gate: report
            for gate in self._gates()
            if (report := report_of(progress, before, gate=gate, probe=self.probe, plan=plan, dry=self._dry))
        }
        if not parts:
            return None
        report = together(list(parts.values()))
        sources = {gate: source for gate, source in self._gates().items() if gate in parts}
        boxes = boxes_of(rows_by_source(progress.observed[gate], own, parts[gate]) for gate, own in sources.items())
        counts = [progress.observed[gate] for gate in parts]
        return replace(report, boxes=boxes, sic=self._sic(progress, counts))

    def _sic(self, progress: Progress, counts: list[Mapping[str, Any]]) -> dict[str, float]:
        """SIC of the results of the last source time window; nothing if unknown."""
        came = sum(float(one.get("sic_came") or 0.0) for one in counts)
        if came <= 0.0:
            return {}
        passed = came if self._dry else sum(float(one.get("sic_passed") or 0.0) for one in counts)
        reached = delivered(progress.observed, self._member)
        now_s = progress.start_s + progress.duration_s
        self._came.add(now_s, came)
        self._delivered.add(now_s, passed if reached is None else reached)
        return {self._member: min(max(self._delivered.total(now_s) / self._came.total(now_s), 0.0), 1.0)}


def together(parts: list[Report]) -> Report:
    """The reports of one batch's gates as one; fields that do not count rows, and measurements, are the same in all."""
    shed: dict[str, dict[str, int]] = {}
    for kind in ("rows_shed", "rows_would_shed"):
        sums = Counter[str]()
        for part in parts:
            sums.update(getattr(part, kind))
        shed[kind] = dict(sums)
    counts = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("rows_in", "rows_kept", "rows_must_keep", "backlog_rows")
    }
    control_s = max(part.control_s for part in parts)
    whole = replace(parts[0], control_s=control_s, **counts, **shed)  # type: ignore[arg-type]  # names are the fields'
    if whole.cost_sketch is not None:
        return whole
    # Nothing was measured, so each gate reports the waits of its own rows.
    waits = [part.queuing for part in parts if part.queuing]
    rows = sum(one.rows for one in waits)
    queuing = None
    if rows:
        queuing = Latency(rows, sum(one.rows * one.mean_s for one in waits) / rows, max(one.max_s for one in waits))
    return replace(
        whole,
        queuing=queuing,
        lag_s=min(part.lag_s for part in parts),
        rows_untimed=sum(part.rows_untimed for part in parts),
    )


def rows_by_source(counts: Mapping[str, Any], source: str | None, report: Report) -> dict[str, tuple[int, int]]:
    """Incoming and kept rows by source: all of one, or as the gate counted them by its column."""
    if source is not None:
        return {source: (report.rows_in, report.rows_kept)}
    names = [name.removeprefix(CAME) for name in counts if name.startswith(CAME)]
    return {name: (int(counts[f"{CAME}{name}"] or 0), int(counts[f"{PASSED}{name}"] or 0)) for name in names}


def boxes_of(gates: Iterable[Mapping[str, tuple[int, int]]]) -> dict[str, BoxStatistics]:
    """Incoming and kept rows by source, over all gates; a source with several streams has several gates.

    >>> {name: (box.rows_in, box.rows_out) for name, box in boxes_of([{"cpu": (8, 4)}, {"cpu": (2, 1)}]).items()}
    {'cpu': (10, 5)}
    """
    rows_in, rows_out = Counter[str](), Counter[str]()
    for gate in gates:
        rows_in.update({name: came for name, (came, _) in gate.items()})
        rows_out.update({name: kept for name, (_, kept) in gate.items()})
    return {name: BoxStatistics(rows_in[name], rows_out[name], 0.0) for name in rows_in}
