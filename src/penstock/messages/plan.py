"""The plan of a query: the message from a planner to the gates, with a reason for each shed row."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from penstock.messages.codec import Count, Factor, Flag, Int64, Message, Name, Record, Seconds, Share, Text, refusal


@dataclass(frozen=True, slots=True)
class KeepTable(Record):
    """The probability that a gate keeps a row of each key bucket, with the reasons for shedding.

    One entry in `keep` means the same for every row. One entry in `reasons` applies to the whole table.

    >>> table = KeepTable("source", keep=(1.0, 0.25), reasons=("", "costly keys"))
    >>> table.buckets, table.reason(1)
    (2, 'costly keys')
    """

    place: Name
    keep: tuple[Share, ...]
    reasons: tuple[Text, ...]

    @property
    def buckets(self) -> int:
        """Number of key buckets."""
        return len(self.keep)

    def reason(self, bucket: int) -> str:
        """Why rows of this bucket are shed; empty if none is."""
        if not 0 <= bucket < self.buckets:
            raise refusal("bucket", bucket, f"a bucket from 0 to {self.buckets - 1}")
        return self.reasons[bucket if len(self.reasons) > 1 else 0]

    def _check(self) -> None:
        if not self.keep:
            raise refusal("keep", self.keep, "a share for at least one bucket")
        if len(self.reasons) not in (1, self.buckets):
            raise refusal("reasons", self.reasons, f"1 reason or one for each of the {self.buckets} buckets")
        if all(self.reasons):
            return
        reasons = self.reasons if len(self.reasons) > 1 else self.reasons * self.buckets
        for bucket, (share, reason) in enumerate(zip(self.keep, reasons, strict=True)):
            if share < 1 and not reason:
                raise refusal("reasons", self.reasons, f"a reason for bucket {bucket}, whose keep is {share!r}")


@dataclass(frozen=True, slots=True)
class OwnCost(Record):
    """The cost of a row of one bucket on one partition, where it differs from other partitions."""

    partition: Count
    bucket: Count
    cost_s: Seconds


@dataclass(frozen=True, slots=True)
class Costs(Record):
    """The expected cost of a row of each key bucket, by which rows are dealt to partitions.

    One entry in `cost_s` means the same for every row. A row costs `cost_s` times the factor of its partition; without
    factors partitions are alike. `own` has the exceptions.

    The rest says what factors were drawn from, so that learning can go on. `ratios` are averages as measured, over
    `batches`. `deviation` is how far a partition's time is off from one batch to the next, as a share of it.

    >>> costs = Costs("enrich", partitions=2, cost_s=(0.1, 0.3), factors=(1.0, 1.5))
    >>> costs.buckets, costs.factors[1]
    (2, 1.5)
    """

    place: Name
    partitions: Count
    cost_s: tuple[Seconds, ...]
    factors: tuple[Factor, ...] = ()
    own: tuple[OwnCost, ...] = ()
    ratios: tuple[Factor, ...] = ()
    batches: Count = 0
    deviation: Share = 0.0

    @property
    def buckets(self) -> int:
        """Number of key buckets."""
        return len(self.cost_s)

    def _check(self) -> None:
        if not self.partitions:
            raise refusal("partitions", self.partitions, "a whole number from 1 up")
        if not self.cost_s or self.buckets & (self.buckets - 1):
            raise refusal("cost_s", self.cost_s, "a cost for each of a power of two of buckets")
        for name, each in (("factors", self.factors), ("ratios", self.ratios)):
            if each and len(each) != self.partitions:
                raise refusal(name, each, f"one for each of the {self.partitions} partitions, or none")
        for number, one in enumerate(self.own):
            if one.partition >= self.partitions:
                raise refusal(f"own[{number}]", one.partition, f"a partition from 0 to {self.partitions - 1}")
            if one.bucket >= self.buckets:
                raise refusal(f"own[{number}]", one.bucket, f"a bucket from 0 to {self.buckets - 1}")


@dataclass(frozen=True, slots=True)
class RowSic(Record):
    """The source information content (SIC) that a row of each key bucket carries.

    That of a source: one over its rows in a source time window, over the number of sources.

    >>> RowSic("source", sic=(0.01, 0.002)).sic[1]
    0.002
    """

    place: Name
    sic: tuple[Share, ...]

    def _check(self) -> None:
        if not self.sic:
            raise refusal("sic", self.sic, "a number for at least one bucket")


@dataclass(frozen=True, slots=True)
class Drop(Record):
    """A drop at a place of a network: it keeps a share of the rows, or those that meet a condition in SQL.

    >>> Drop("hot->O1", keep=0.25).words, Drop("I1", condition="value > 75").words
    ('drops 75 %', 'keeps value > 75')
    """

    place: Name
    keep: Share = 1.0
    condition: Text = ""

    @property
    def words(self) -> str:
        """What it does, as text."""
        return f"keeps {self.condition}" if self.condition else f"drops {100.0 * (1.0 - self.keep):.3g} %"


@dataclass(frozen=True, slots=True)
class QueryShare(Record):
    """What a site gives one query."""

    query: Name  #: its name
    give: Share  #: the share of its sources' rows that it is given here
    level: Share  #: its SIC as the site sees it: what it gives and what peers have sent


@dataclass(frozen=True, slots=True)
class Fits(Record):
    """The most rows before the gate for which a plan's keep shares are right (`core.control.batch_size`)."""

    rows_per_s: Factor  #: rows a second that can be processed
    rows: Factor | None = None  #: rows of one batch that fit; `None` if any batch at that rate fits
    by_deadline: Flag = False  #: whether they are all that fit, regardless of the time in which they came

    @classmethod
    def _of_today(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Earlier builds had no deadlines."""
        return {"by_deadline": False} | document


@dataclass(frozen=True, slots=True)
class Effect(Record):
    """What a policy expects of its plan; a latency of `None` means it has no estimate."""

    keep_share: Share
    queuing_latency_s: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Plan(Message):
    """What to keep from now on. A place without a gate keeps every row.

    >>> table = KeepTable("source", keep=(0.5,), reasons=("over capacity",))
    >>> plan = Plan(version=3, policy="uniform", decided_s=12.0, salt=42, gates=(table,))
    >>> plan.gate("source").keep, plan.gate("elsewhere")
    ((0.5,), None)
    >>> Plan.from_json(plan.to_json()) == plan
    True

    Attributes:
        version: Number of the plan, higher than that of every plan before it.
        policy: Name of the policy that decided.
        decided_s: When it decided.
        salt: Seed of the hash by which the gates choose rows.
        gates: Keep probabilities, one table a place.
        drops: Drops in a network, one a place.
        costs: What rows cost where they are dealt to partitions, one a place.
        sic: Source information content of rows, one a place; for queries that share an application fairly.
        expected: What the policy expects of the plan.
        fits: Up to how many rows its gates are right; a larger batch is thinned in proportion. `None`: of any size.
        note: A comment on the decision.
        query: Identity of the streaming query that the plan is for; its gates act on no other. Empty: on any.
        rows_per_offset: Rows that come to the gate for each that the source's offsets count; `None` if not known.
        memory: What the planner had learned, for the next run of the query (`core.control.memory`); may be empty.
        entry: Index of the road map's entry that the drops are; 0 drops nothing.
        queries: What a site gives each query.
        elapsed_s: The time over which the rows came that a site's plan is for.
    """

    version: Count
    policy: Name
    decided_s: Seconds
    salt: Int64
    gates: tuple[KeepTable, ...] = ()
    costs: tuple[Costs, ...] = ()
    sic: tuple[RowSic, ...] = ()
    expected: Effect | None = None
    note: Text = ""
    fits: Fits | None = None
    query: Text = ""
    rows_per_offset: Factor | None = None
    memory: Text = field(default="", repr=False)
    drops: tuple[Drop, ...] = ()
    entry: Count = 0
    queries: tuple[QueryShare, ...] = ()
    elapsed_s: Seconds = 0.0

    @classmethod
    def keep_all(cls, version: int, policy: str, decided_s: float, salt: int = 0) -> Self:
        """A plan that sheds nothing.

        >>> Plan.keep_all(0, "start", decided_s=0.0).gates
        ()
        """
        return cls(version, policy, decided_s, salt, expected=Effect(keep_share=1.0))

    @classmethod
    def _of_today(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Release 0.1.0 wrote assignments instead of costs, and fewer fields."""
        if document.get("assignments") == [] and "costs" not in document:
            document = {name: value for name, value in document.items() if name != "assignments"} | {"costs": []}
        later: dict[str, Any] = {"sic": [], "fits": None, "query": "", "rows_per_offset": None, "memory": ""}
        return {**later, "drops": [], "entry": 0, "queries": [], "elapsed_s": 0.0} | document

    @property
    def leased(self) -> bool:
        """Whether it sheds or cuts large batches, and so acts only while it is renewed."""
        return bool(self.gates) or self.fits is not None

    @property
    def sheds(self) -> bool:
        """Whether it may shed rows, with a lease or without."""
        return self.leased or bool(self.drops)

    def drop(self, place: str) -> Drop | None:
        """The drop at a place; `None` if there is none."""
        return next((drop for drop in self.drops if drop.place == place), None)

    def gate(self, place: str) -> KeepTable | None:
        """The keep table of a place; `None` if every row is kept there."""
        return next((table for table in self.gates if table.place == place), None)

    def costs_at(self, place: str) -> Costs | None:
        """The costs of rows at a place where they are dealt; `None` if they are not known."""
        return next((costs for costs in self.costs if costs.place == place), None)

    def sic_at(self, place: str) -> RowSic | None:
        """The SIC of rows at a place; `None` if it is not known."""
        return next((sic for sic in self.sic if sic.place == place), None)

    def _check(self) -> None:
        for name in ("gates", "costs", "sic", "drops"):
            _check_unique(name, [one.place for one in getattr(self, name)])
        _check_unique("queries", [one.query for one in self.queries])


@dataclass(frozen=True, slots=True)
class Backlog(Record):
    """How rows are thinned by their age: beyond `grace_s`, one of age a is kept with probability `fresh_s` / a."""

    grace_s: Seconds
    fresh_s: Seconds

    def _check(self) -> None:
        if not 0.0 < self.fresh_s <= self.grace_s:
            raise refusal("fresh_s", self.fresh_s, f"seconds above 0, up to grace_s, {self.grace_s!r}")


@dataclass(frozen=True, slots=True)
class Binding(Message):
    """The plan that judges a micro-batch, the first time and at every replay."""

    batch: Count  #: number of the micro-batch
    query: Text  #: identity of the streaming query
    bound_s: Seconds  #: when the batch was bound; the age of its rows is their age then
    plan_version: Count | None = None  #: version of the plan; `None` if none is in force
    backlog: Backlog | None = None  #: how its rows are thinned by age, regardless of the plan; `None` if they are not
    note: Text = ""  #: why no plan is in force; empty if one is, or if there is none to follow
    #: Factor on the keep shares of all rows, below 1 if the batch is larger than what fits.
    share: Share = 1.0
    #: Number of the `Rules` by which the batch is judged; `None` in networks and sites.
    rules: Count | None = None
    offsets: Text = ""  #: hash of the offsets that the batch covers, by Spark's log; empty if that could not be read


@dataclass(frozen=True, slots=True)
class Rules(Message):
    """The settings that decide a gate's verdict beside the plan; written whenever a gate is made.

    A batch that is replayed is judged by the rules that it was bound under, even if settings or columns have changed
    since.
    """

    number: Count  #: number of the rules, higher than that of rules before them
    mode: Name  #: `enforce`, `dry_run` or `off`
    salt: Int64  #: seed of the hash by which the gate chooses rows
    row: tuple[Text, ...] = ()  #: columns that identify rows
    arrival: Text = ""  #: column with the time of arrival; empty if there is none
    keep: Text = ""  #: rows that must be kept, as SQL; empty if none must, or if a column says so
    keep_column: Text = ""  #: that column, as Spark shows it; it cannot be restored from this text
    types: tuple[Text, ...] = ()  #: types of the key columns and of the identifying columns: hashes depend on them
    quarantine: Text = ""  #: folder for shed rows; empty if they are deleted
    reads: Count = 1  #: how often the query reads its source: twice if it began with a quarantine

    def same_verdicts(self, other: "Rules") -> bool:
        """Whether each row gets the same verdict by the other rules."""
        own = replace(self, number=0, quarantine="", reads=1)
        return own == replace(other, number=0, quarantine="", reads=1)


def _check_unique(name: str, places: list[str]) -> None:
    if len(set(places)) < len(places):
        raise refusal(name, next(place for place in places if places.count(place) > 1), "each place once")
