"""The gate of a stream: its settings, its stored rules, and Spark's columns for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.control.planner import SOURCE
from penstock.core.loop.binding import Start
from penstock.errors import PenstockError
from penstock.messages.plan import Rules
from penstock.spark.plans.binding import GateOptions
from penstock.spark.plans.control_row import ControlColumns
from penstock.spark.plans.foreach_batch import Inside
from penstock.spark.plans.gate import control, gated
from penstock.spark.plans.remote import Store
from penstock.spark.plans.rules import Open
from penstock.spark.plans.sic_columns import SicOfRows
from penstock.spark.quarantine.rows import Writer
from penstock.spark.row_columns import RowColumns


@dataclass(frozen=True)
class Judging:
    """One set of rules as columns of a stream."""

    must_keep: Column | None
    coin: Column
    arrival_s: Column | None
    mode: str


class Admission(NamedTuple):
    """The settings of a gate."""

    name: str  #: of the guard
    columns: RowColumns
    salt: int
    mode: str
    number: int  #: of the rules: gates of one query share it
    metric: str
    start: Start | None
    claim: Callable[[], str]  #: signs the guard's folder, and gives its identity
    quarantine: str = ""  #: the folder of shed rows
    writer: Callable[[], Writer | None] = lambda: None  #: makes their writer
    reads: int = 1  #: how often the source is read: twice with a quarantine
    shed_first: bool = True  #: whether tasks that write them come first; partitions are numbered behind them then
    inside: Inside | None = None  #: the micro-batch, if the gate is in a function for `foreachBatch`

    def admit(self, df: DataFrame, store: Store, sic: SicOfRows | None = None) -> tuple[DataFrame, GateOptions]:
        """The kept rows, and the options of the gate's control table."""
        rules = self._rules(df)
        columns = self.columns
        made = [Judging(columns.must_keep(df), columns.coin(df, self.salt), columns.arrival_s(df), self.mode)]
        # Mistakes in the gate's other settings are found first, so that they leave nothing behind.
        columns.incoming_weight(df)
        if sic is None or sic.by_class:
            columns.bucket(df)
        if sic is not None:
            sic.carried(df, ControlColumns(F.array(F.lit(0))))
        writer = self.writer()
        identity = self.claim()
        places = {self.number: 0}
        for old in self._opened(df, store, rules):
            if old.number in places:
                continue
            if old.rules is not None and old.rules.same_verdicts(rules):
                places[old.number] = 0
            elif again := self._again(df, old, rules):
                places[old.number] = len(made)
                made.append(again)
        options = GateOptions(str(store.place), SOURCE, identity, tuple(places.items()), self.start)
        batch = None if self.inside is None else self.inside.batch
        row = control(df, store, options, batch)
        found = gated(df, row, self, made, sic=sic, quarantine=writer, folder=options.folder)
        return found, options

    def _opened(self, df: DataFrame, store: Store, rules: Rules) -> Sequence[Open]:
        """The batches that Spark may run again."""
        if self.inside is not None:
            return self.inside.opened(lambda: store.begin(self.metric, rules))
        return store.begin(self.metric, rules) if df.isStreaming else ()

    def _rules(self, df: DataFrame) -> Rules:
        """The rules by which a stream is judged from now on."""
        row, keep = self.columns.identity(df), self.columns.keep
        key_types, row_types = self.columns.types(df, row)
        return Rules(
            number=self.number,
            mode=self.mode,
            salt=self.salt,
            row=row,
            arrival=self.columns.arrival_column(df) or "",
            keep=keep if isinstance(keep, str) else "",
            keep_column="" if keep is None or isinstance(keep, str) else str(keep),
            types=(*key_types, *row_types),
            quarantine=self.quarantine,
            reads=self.reads,
        )

    def _again(self, df: DataFrame, old: Open, rules: Rules) -> Judging | None:
        """The rules of an earlier batch; None if they cannot be restored and the batch may be done."""
        try:
            return judging_of_old(self.columns, df, old, rules)
        except PenstockError:
            if old.sure and (old.rules is not None or self.quarantine):
                raise
            return None


def judging_of_old(columns: RowColumns, df: DataFrame, old: Open, now: Rules) -> Judging:
    """The rules that a batch is bound under; raises one line if they cannot be restored."""
    rules = old.rules
    fix = "start the query with them once, until that batch is done, then change them"
    if rules is None:
        raise PenstockError(
            f"batch {old.batch} was bound under settings that can no longer be read, so it is unknown which of its "
            "rows are in quarantine: delete that batch's files there, and its binding in the checkpoint's folder "
            "penstock/bindings"
        )
    if rules.keep_column not in ("", now.keep_column):
        raise PenstockError.setting(
            "keep",
            now.keep_column or now.keep or None,
            f"{rules.keep_column}, by which batch {old.batch} was judged",
            fix,
        )
    own = replace(columns, row=rules.row, arrival=rules.arrival or None)
    if not rules.keep_column:
        own = replace(own, keep=rules.keep or None)
    try:
        key_types, row_types = columns.types(df, rules.row)
        if (*key_types, *row_types) != rules.types:
            raise PenstockError(f"their types were {', '.join(rules.types)}")  # noqa: TRY301 - told with the rest below
        arrival_s = own.arrival_s(df) if rules.arrival else None
        return Judging(own.must_keep(df), own.coin(df, rules.salt), arrival_s, rules.mode)
    except (AnalysisException, PenstockError) as error:
        why = " ".join(str(error).split())[:200]
        raise PenstockError(
            f"batch {old.batch} was judged by columns that the stream no longer has: {fix}; {why}"
        ) from None
