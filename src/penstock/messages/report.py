"""The report of one interval or batch: the message from a query to its planner."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.messages import codec
from penstock.messages.codec import Blob, Count, FrozenMap, Message, Name, Number, Record, Seconds, Share, Text, refusal

_NONE: FrozenMap[str, Any] = FrozenMap()


@dataclass(frozen=True, slots=True)
class Latency(Record):
    """How long rows waited before the operator received them."""

    rows: Count
    mean_s: Seconds
    max_s: Seconds


@dataclass(frozen=True, slots=True)
class BoxStatistics(Record):
    """What one operator did: rows that entered and left it, and its work. A fragment of a site is an operator too.

    >>> BoxStatistics(rows_in=8, rows_out=2, busy_s=0.5).selectivity
    0.25
    """

    rows_in: Count
    rows_out: Count
    busy_s: Seconds  #: 0 if it was not measured
    query: Text = ""  #: the query of a fragment
    sic: Seconds = 0.0  #: the SIC that entered a fragment
    parts: tuple[Count, ...] = ()  #: rows that left a fragment for another site, by part

    def plus(self, more: "BoxStatistics") -> "BoxStatistics":
        """The sum of both, without parts."""
        rows_in, rows_out = self.rows_in + more.rows_in, self.rows_out + more.rows_out
        return BoxStatistics(rows_in, rows_out, self.busy_s + more.busy_s, self.query, self.sic + more.sic)

    @classmethod
    def _of_today(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Release 0.1.0 had the first three fields; reports are still made with them alone."""
        return {"query": "", "sic": 0.0, "parts": ()} | document

    @property
    def selectivity(self) -> float | None:
        """Rows out for each row in; `None` without rows in."""
        return self.rows_out / self.rows_in if self.rows_in else None


@dataclass(frozen=True, slots=True)
class PlaceRows(Record):
    """Rows at a source or on a link, before and after the drop there.

    >>> PlaceRows(10, 6).rows_shed
    4
    """

    rows_in: Count = 0
    rows_kept: Count = 0
    by_value: codec.Flag = False  #: whether the drop chose rows by their values
    quantiles: tuple[Number, ...] = ()  #: distribution of a value before the drop; empty if it was not measured
    sender: Text = ""  #: where a site's rows come from, as `site.fragment`
    mark: Text = ""  #: the last part of them that was read

    @property
    def rows_shed(self) -> int:
        """Rows that were dropped."""
        return self.rows_in - self.rows_kept

    def plus(self, more: "PlaceRows") -> "PlaceRows":
        """The sum of both; without a mark of its own, it has that of the other."""
        rows_in, rows_kept = self.rows_in + more.rows_in, self.rows_kept + more.rows_kept
        return replace(self, rows_in=rows_in, rows_kept=rows_kept, mark=self.mark or more.mark)

    def _check(self) -> None:
        if self.rows_kept > self.rows_in:
            raise refusal("rows_kept", self.rows_kept, f"at most rows_in, {self.rows_in}")


@dataclass(frozen=True, slots=True)
class Known(Record):
    """What the peers of a site give a query."""

    part: Seconds  #: the share of the query's sources that they have reported
    sic: Seconds  #: what they give: the sum of part times give
    sites: Count = 0  #: how many of them have reported


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Message):
    """What happened in one interval. Every row that came in is accounted for: kept, or shed for a reason.

        rows_in = rows_kept + sum of rows_shed

    >>> report = Report(
    ...     sequence=7, start_s=10, end_s=12, rows_in=100, rows_kept=90, rows_shed={"over capacity": 10}
    ... )
    >>> report.shed_total, report.duration_s
    (10, 2.0)
    >>> Report.from_json(report.to_json()) == report
    True
    >>> Report(sequence=7, start_s=10, end_s=12, rows_in=100, rows_kept=90)
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: rows_in = 100 is not usable: give rows_kept + rows_shed, 90 + 0

    Attributes:
        sequence: Number of the interval or micro-batch.
        start_s: When the interval began.
        end_s: When it ended.
        replayed_s: How long before that it began the first time, in a run that was killed; 0 if this is the first time.
        rows_in: Rows that arrived at the gate.
        rows_kept: Rows that the gate kept.
        rows_shed: Rows that the gate shed, by reason.
        rows_would_shed: Rows kept only because this is a dry run, by reason.
        rows_must_keep: Rows kept because of the `keep` condition.
        plan_version: Version of the plan that judged the rows; `None` if none was in force.
        control_s: Time that the gate took to read the plan.
        backlog_rows: Rows that wait at the source when the interval ends.
        backlog_age_s: How long the oldest of them has waited.
        source_rows_behind: Rows beyond this interval that the source reports; `None` if it does not report them.
        busy_s: Work of the measured operator in seconds, summed over tasks.
        slots: How many tasks can work at the same time.
        span_s: Wall time of that work, without pauses between rounds of tasks; 0 if it is not known.
        overhead_s: Rest of the interval, spent on anything else than that work.
        delay_s: The part of the overhead before the operator received the first row.
        lag_s: Age of the newest row when the interval began.
        queuing: Measured queuing latency; `None` if it was not measured.
        rows_untimed: Measured rows without a wait, because their arrival time is missing or impossible.
        cost_sketch: Costs of rows by key bucket (`BucketCosts`), serialised; `None` if they were not measured.
        boxes: Statistics of each operator of a query network, each fragment of a site, each source of a fair query.
        sic: Source information content of each query's results.
        elapsed_s: Time over which the rows came; 0 if it is not known.
        sources: Rows of each input of a network, and of each source of a site.
        links: Rows on each arc of a network, and on each link to a site.
        peers: What the peers of a site give each query.
        batches_behind: Batches like this one that the rows beyond it take, by the source's count; `None` if it does not
            report them.
        cores_wanted: Cores that would hold the target with nothing shed, as known before this interval; `None` if
            unknown.
    """

    sequence: Count
    start_s: Seconds
    end_s: Seconds
    rows_in: Count
    rows_kept: Count
    rows_shed: Mapping[Name, Count] = _NONE
    rows_would_shed: Mapping[Name, Count] = _NONE
    rows_must_keep: Count = 0
    plan_version: Count | None = None
    control_s: Seconds = 0.0
    backlog_rows: Count = 0
    backlog_age_s: Seconds = 0.0
    source_rows_behind: Count | None = None
    busy_s: Seconds = 0.0
    slots: Count = 1
    span_s: Seconds = 0.0
    overhead_s: Seconds = 0.0
    delay_s: Seconds = 0.0
    lag_s: Seconds = 0.0
    queuing: Latency | None = None
    rows_untimed: Count = 0
    cost_sketch: Blob | None = None
    boxes: Mapping[Name, BoxStatistics] = _NONE
    sic: Mapping[Name, Share] = _NONE
    elapsed_s: Seconds = 0.0
    replayed_s: Seconds = 0.0
    sources: Mapping[Name, PlaceRows] = _NONE
    links: Mapping[Name, PlaceRows] = _NONE
    peers: Mapping[Name, Known] = _NONE
    batches_behind: Seconds | None = None
    cores_wanted: Count | None = None

    def __repr__(self) -> str:
        """The fields, with the number of bytes instead of bytes; `to_json` has all of them."""
        return f"Report({', '.join(f'{name}={_shown(getattr(self, name))}' for name in self.kinds)})"

    @classmethod
    def _of_today(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Earlier builds had fewer fields."""
        return {"batches_behind": None, "cores_wanted": None} | document

    @property
    def first_start_s(self) -> float:
        """When the interval began the first time: it has no rows that arrived later."""
        return self.start_s - self.replayed_s

    @property
    def shed_total(self) -> int:
        """Rows shed, over all reasons."""
        return sum(self.rows_shed.values())

    @property
    def places(self) -> dict[str, PlaceRows]:
        """Rows at each source and on each link."""
        return {**self.sources, **self.links}

    @property
    def duration_s(self) -> float:
        """Length of the interval."""
        return self.end_s - self.start_s

    def _check(self) -> None:
        if self.end_s < self.start_s:
            raise refusal("end_s", self.end_s, f"seconds from start_s up, {self.start_s!r}")
        let_through = sum(self.rows_would_shed.values()) + self.rows_must_keep
        if let_through > self.rows_kept:
            raise refusal("rows_kept", self.rows_kept, f"at least rows_would_shed + rows_must_keep, {let_through}")
        if not self.slots:
            raise refusal("slots", self.slots, "a whole number from 1 up")
        if self.rows_in != self.rows_kept + self.shed_total:
            raise refusal("rows_in", self.rows_in, f"rows_kept + rows_shed, {self.rows_kept} + {self.shed_total}")


def added(report: Report, *others: Report) -> Report:
    """A report with the rows and the work of others added, place by place; the rest stays as it is.

    >>> one = Report(sequence=1, start_s=0, end_s=1, rows_in=3, rows_kept=2, rows_shed={"a": 1},
    ...              sources={"a": PlaceRows(3, 2, mark="x")})
    >>> both = added(one, one)
    >>> both.sequence, both.rows_in, dict(both.rows_shed), both.sources["a"].rows_kept, both.sources["a"].mark
    (1, 6, {'a': 2}, 4, 'x')
    """
    every = (report, *others)
    rows_shed = Counter[str]()
    sources, links = dict[str, PlaceRows](), dict[str, PlaceRows]()
    boxes: dict[str, BoxStatistics] = {}
    for one in every:
        rows_shed.update(one.rows_shed)
        for total, more in ((sources, one.sources), (links, one.links)):
            for name, place in more.items():
                total[name] = total[name].plus(place) if name in total else place
        for name, box in one.boxes.items():
            boxes[name] = boxes[name].plus(box) if name in boxes else replace(box, parts=())
    return replace(
        report,
        rows_in=sum(one.rows_in for one in every),
        rows_kept=sum(one.rows_kept for one in every),
        rows_shed=rows_shed,
        busy_s=sum(one.busy_s for one in every),
        elapsed_s=sum(one.elapsed_s for one in every),
        sources=sources,
        links=links,
        boxes=boxes,
    )


def _shown(value: object) -> str:
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else repr(value)
