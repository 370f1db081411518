"""Fair: several streaming queries of one application share its capacity, so that all results are equally good."""

import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from numbers import Real
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.balanced.planner import ByClass
from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.policies import LoadAware, Planner
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.by_source import Policy
from penstock.core.fairness.jain import jain
from penstock.core.fairness.member_planner import MemberPlanner
from penstock.core.fairness.members import Prefer, Terms
from penstock.core.fairness.planner import FairPlanner
from penstock.core.fairness.sic import SIC, STW_S
from penstock.core.settings import duration_s, int64, one_of
from penstock.errors import PenstockError
from penstock.spark.fair.member import FairReading
from penstock.spark.fair.sic_operators import observed
from penstock.spark.guard.checks import Control, columns_of
from penstock.spark.guard.guard import Backlog, Mode, Parts, QueryGuard
from penstock.spark.guard.misuse import GATE, ONE_GATE, check_frame
from penstock.spark.guard.reading import Reading
from penstock.spark.lifecycle import Metered
from penstock.spark.plans.rules import new_number
from penstock.spark.plans.sic_columns import SicOfRows

#: The maximum number of sources of a query; the gate counts each.
MOST_SOURCES = 64
#: From here on a result counts as complete; the rest is rounding of floating-point sums.
ALL_OF_IT = 1.0 - 1e-6
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Fair(Metered):
    """Queries that share one application.

    Each has a gate in front of its sources, its own log of plans, and a thread that watches it. They share one
    planner, which knows the demand of all of them and the capacity of the application.

    Attributes:
        target: The mean wait of every query.
        window_s: The source time window over which SIC is counted.
        queries: The queries by name.
        balanced: The policy, if work is shared by utility.
    """

    def __init__(
        self,
        target: str | float | MeanQueueLatency,
        *,
        window: str | float = STW_S,
        policy: Policy | Balanced | None = None,
        mode: Mode = "enforce",
        seed: int = 0,
        backlog: Backlog = "keep",
    ) -> None:
        """Set the target of all queries.

        Args:
            target: The mean wait, as seconds or text such as `2 s`.
            window: The source time window: longer than the latency from source to result, several times the target.
            policy: `Balanced(alpha=...)`: the most utility for the work, and no query far behind; the default is an
                infinite alpha, which maximizes the poorest query. `balance_sic`: equal shares of source information,
                as in THEMIS; `random`: the same share of rows for all, as a baseline.
            mode: `enforce`, `dry_run` or `off`.
            seed: Seed of the hash that selects rows, with the name of the query.
            backlog: The treatment of rows that waited while a query was stopped: `keep` or `thin`, as for a guard.
        """
        self.target = target if isinstance(target, MeanQueueLatency) else MeanQueueLatency(duration_s("target", target))
        self.window_s = duration_s("window", window)
        self.mode = one_of("mode", mode, ("enforce", "dry_run", "off"))
        self.salt = int64("seed", seed)
        self.backlog = one_of("backlog", backlog, ("keep", "thin"))
        chosen = Balanced(alpha=math.inf) if policy is None else policy
        self.balanced = chosen if isinstance(chosen, Balanced) else None
        self.planner = self._planner_of(chosen)
        self.lock = threading.Lock()
        self.queries: dict[str, FairQuery] = {}

    def _planner_of(self, policy: Policy | Balanced) -> FairPlanner:
        common = {"window_s": self.window_s, "salt": self.salt, "acts": self.mode == "enforce"}
        if not isinstance(policy, Balanced):
            if policy not in ("balance_sic", "random"):
                raise PenstockError.setting("policy", policy, "Balanced(alpha=...), 'balance_sic' or 'random'")
            return FairPlanner(self.target.limit_s, policy=policy, **common)
        if policy.key or policy.worth is not None:
            raise PenstockError("key and value of Balanced differ from query to query: give them to fair.query")
        if policy.seed:
            raise PenstockError.setting("seed", policy.seed, "it to Fair: all its queries have one seed")
        return FairPlanner(self.target.limit_s, policy=ByClass(policy), **common)

    def query(  # noqa: PLR0913 - each is one setting of a user's
        self,
        name: str,
        *,
        importance: float = 1.0,
        sources: str | Sequence[str] = ("source",),
        prefer: Prefer = "any",
        arrival: str | None = None,
        keep: str | Column | None = None,
        row: str | Sequence[str] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        weight_column: str | None = None,
        key: str | Sequence[str] = (),
        value: str | Worth | None = None,
        weight: float | None = None,
    ) -> "FairQuery":
        """Add a query.

        Args:
            name: Its name, under which reports and metrics know it.
            importance: A query of importance 2 gets twice the share of its sources.
            sources: Names of its sources; each contributes equally to its source information.
            prefer: `any`: all sources are thinned alike. `sic`, with `balance_sic`: those with the least SIC for their
                work first, as in THEMIS, for queries that do not join their sources.
            arrival: Column with a row's time of arrival; if not given, `arrival` or `timestamp`, if there is one.
            keep: Rows that are never shed: a condition in SQL or a column.
            row: Column or columns that identify a row, as for a guard.
            checkpoint: The query's checkpoint folder, under which its plans are kept.
            weight_column: Name of the column with each kept row's weight; `weight` if not given. An existing weight is
                multiplied: name its column here, unless its metadata shows that another guard made it.
            key: With `Balanced`, column or columns that determine a row's cost.
            value: With `Balanced`, what rows are worth: a column of utilities from 0 to 1, or `Worth`.
            weight: The old name of `importance`; deprecated.
        """
        if weight is not None:
            warnings.warn("weight of Fair.query is called importance now", DeprecationWarning, stacklevel=2)
            importance = weight
        if self.balanced is None and (key or value is not None):
            setting, given = ("key", key) if key else ("value", value)
            raise PenstockError.setting(setting, given, "it only together with policy=Balanced(...)")
        if _name("name", name) in self.queries:
            raise PenstockError(f"there is a query {name!r} already: give each query a name of its own")
        if not isinstance(importance, Real) or isinstance(importance, bool) or not 0.0 < importance < math.inf:
            raise PenstockError.setting("importance", importance, "a number above 0", "2 for twice the share")
        names = (sources,) if isinstance(sources, str) else tuple(sources) if isinstance(sources, Iterable) else ()
        if not names:
            raise PenstockError.setting("sources", sources, "the names of the query's sources, at least one")
        for one in names:
            _name("sources", one)
        if len(set(names)) < len(names) or len(names) > MOST_SOURCES:
            raise PenstockError.setting("sources", names, f"each name once, at most {MOST_SOURCES}")
        if one_of("prefer", prefer, ("any", "sic")) == "sic" and self.balanced is not None:
            raise PenstockError.setting("prefer", prefer, "it only together with policy='balance_sic'")
        own = None if self.balanced is None else replace(self.balanced, key=key, value=value, seed=self.salt)
        terms = Terms(names, float(importance), prefer, own.worth if own else None)
        made = FairQuery(
            self,
            name,
            terms,
            own or LoadAware(seed=self.salt),
            arrival=arrival,
            keep=keep,
            row=row,
            checkpoint=checkpoint,
            weight_column=weight_column,
        )
        self.join(made)
        self.queries = {**self.queries, name: made}  # Concurrent readers iterate over the old dictionary.
        return made

    def join(self, query: "FairQuery") -> None:
        """Forget the learned data of a query; called by its `watch`."""
        with self.lock:
            self.planner.join(query.name, query.terms)

    def __getitem__(self, name: str) -> "FairQuery":
        """The query of that name."""
        if not isinstance(name, str) or name not in self.queries:
            known = ", ".join(map(repr, self.queries)) or "none yet"
            raise PenstockError.setting("query", name, f"the name of one of the queries: {known}")
        return self.queries[name]

    @property
    def sic(self) -> dict[str, float]:
        """The source information content of each query's results in the last window."""
        return {name: sic for name, query in self.queries.items() if (sic := query.sic) is not None}

    @property
    def jain(self) -> float | None:
        """Jain's index of SIC over importance, of the queries with shed rows; None before reports."""
        found = self.sic
        if not found:
            return None
        # A complete query cannot get more, even with a higher importance.
        short = [sic / self.queries[name].terms.importance for name, sic in found.items() if sic < ALL_OF_IT]
        return jain(short) if short else 1.0

    def summary(self) -> str:
        """The current state, one line per query."""
        lines = []
        for name, query in self.queries.items():
            totals, sic, last = query.totals, query.sic, query.report()
            kept = totals.rows_kept / totals.rows_in if totals.rows_in else 1.0
            told = "not known yet" if sic is None else f"{sic:.3f}"
            waited = f"{last.queuing.mean_s:.2f} s" if last is not None and last.queuing else "not known"
            lines.append(
                f"{name}: source information content {told}, importance {query.terms.importance:g}, wait {waited} of "
                f"{self.target.limit_s:g} s, {kept:.1%} of {totals.rows_in:,} rows kept"
            )
        return "\n".join(lines)

    def _measured_guards(self) -> list[QueryGuard]:
        return [*self.queries.values()]

    def stop(self) -> None:
        """Stop planning for all queries; running queries keep every row from now on."""
        with ThreadPoolExecutor(max(len(self.queries), 1)) as each:  # Spark may delay all of them.
            list(each.map(FairQuery.stop, self.queries.values()))
        self.stop_metrics()


class FairQuery(QueryGuard):
    """One of several queries: a guard whose planning is shared.

    `admit` is the gate of a source, `results` observes the SIC of results, `measured` runs and measures an expensive
    function, `watch` starts the planning.

    Attributes:
        terms: Its settings in the shared planning.
    """

    def __init__(
        self,
        fair: Fair,
        name: str,
        terms: Terms,
        policy: Balanced | LoadAware,
        *,
        checkpoint: str | os.PathLike[str] | None,
        weight_column: str | None,
        **settings: Any,  # noqa: ANN401 - columns, as those of a guard
    ) -> None:
        """Made by `Fair.query`."""
        columns = columns_of(policy, weight=weight_column, weight_setting="weight_column", **settings)
        if columns.weight.lower() == SIC:
            raise PenstockError.setting(
                "weight_column", weight_column, f"another name than {SIC}, which rows carry too"
            )
        control = Control.of(fair.target, policy, fair.backlog, row_gate=False)
        rule = fair.planner.rule.name
        super().__init__(checkpoint, Parts(name, fair.mode, control, columns, f"{GATE}{name}", rule, terms.sources))
        self.terms = terms
        self._fair = fair
        self._gates: dict[str, str | None] = {}
        self._only: tuple[SparkSession, Column] | None = None

    @property
    def worth(self) -> Worth | None:
        """The worth of its rows, if they differ."""
        return self._columns.worth

    @property
    def sic(self) -> float | None:
        """The source information content of its results in the last window; None if it is not known yet."""
        last = self.report()
        return last.sic.get(self.name) if last is not None else None

    def admit(
        self, df: DataFrame, source: str | None = None, *, by: str | None = None, sic: str | None = None
    ) -> DataFrame:
        """The gate of a source, for `DataFrame.transform`: rows that pass, with their weights and their `sic`.

        Args:
            df: The rows.
            source: The source of the rows; optional if the query has only one. Each of several streams of a source is
                admitted under its name.
            by: The column with the source of a row, if the stream has several.
            sic: The column in which rows come with their source information content, from a fragment of the query
                elsewhere. A column `sic` need not be named if Spark still knows that a gate made it.
        """
        if source is not None and by is not None:
            raise PenstockError(
                f"source = {source!r} and by = {by!r} are given both: give source if all rows are of one, by if a "
                "column has the source"
            )
        if by is None and source is None and len(self.terms.sources) == 1:
            source = self.terms.sources[0]
        if source is None and by is None:
            raise PenstockError(
                f"query {self.name!r} has {len(self.terms.sources)} sources: say which one rows are of, as in "
                f".transform(query.admit, {self.terms.sources[0]!r}), or name the column with the source, with by="
            )
        if source is not None:
            one_of("source", source, self.terms.sources)
        self._columns.refuse_own_weight(df)
        check_frame(df, self.name, self._columns.decisive(df), self._parts.gate)
        rows = SicOfRows(self.terms.sources, source, by, by_class=self._fair.balanced is not None, given=sic)
        rows.refuse_own(df)
        if self.mode == "off":
            return rows.without_plan(self._unjudged(df))
        gate = self._gate_of(source)
        self._number = self._number or new_number()
        admitted = self._gated(df, gate, self._number, rows)
        self._gates = {**self._gates, gate: source}  # The watching thread iterates over the old ones.
        return admitted.filter(self._only_gates(df.sparkSession)) if df.isStreaming else admitted

    def _only_gates(self, spark: SparkSession) -> Column:
        """A condition that always holds, the same for all its gates, because Spark refuses a query with two.

        It names the one metric that all guards share, so that Spark refuses a query with gates of another guard before
        it runs. Spark removes the condition before it runs the query.
        """
        if self._only is None or self._only[0] is not spark:
            named = spark.range(1).observe(ONE_GATE, F.max(F.lit(self.name)).alias(f"{GATE}{self.name}"))
            self._only = spark, F.lit(True) | named.select("id").scalar().isNull()  # noqa: FBT003 - a literal
        return self._only[1]

    def _gate_of(self, source: str | None) -> str:
        """A name for another gate: Spark allows each only once in a query, and a source may have several streams."""
        first = f"{self._parts.gate}_{source}" if source is not None else self._parts.gate
        earlier = sum(one == source for one in self._gates.values())
        return f"{first}.{earlier + 1}" if earlier else first  # No name of a source has a dot.

    def results(self, df: DataFrame) -> DataFrame:
        """Observe the SIC of results, for `DataFrame.transform`.

        Put it in front of the sink; or in front of an aggregate whose results are updated, because each update repeats
        the last one.
        """
        if SIC not in df.columns:
            raise PenstockError(
                f"results of query {self.name!r} have no column {SIC}: select it along, or use what penstock.sic has"
            )
        return df.transform(observed(self.name))

    def _planning(self) -> tuple[Planner, Reading, Callable[[], None]]:
        planner = MemberPlanner(self._fair.planner, self.name, self._fair.lock)
        self._fair.join(self)  # Data of an earlier run does not apply to this one.
        dry = self.mode == "dry_run"
        reading = FairReading(self.name, self._probe, lambda: self._gates, window_s=self._fair.window_s, dry=dry)
        return planner, reading, planner.leave


def _name(setting: str, given: object) -> str:
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise PenstockError.setting(
            setting, given, "names of letters, digits, underscores and hyphens that begin with a letter or underscore"
        )
    return given
