"""The gate of a stream: its settings, its stored rules, and Spark's columns for both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.control.planner import SOURCE
from penstock.errors import PenstockError
from penstock.spark.guard.misuse import every_row_comes
from penstock.spark.plans.binding import GateOptions
from penstock.spark.plans.control_row import ControlColumns
from penstock.spark.plans.gate import control, gated
from penstock.spark.plans.rules import judging, judging_of_old, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from penstock.core.loop.binding import Start
    from penstock.messages.plan import Rules
    from penstock.spark.fair.sic_columns import SicOfRows
    from penstock.spark.plans.remote import Store
    from penstock.spark.plans.rules import Judging, Open
    from penstock.spark.quarantine.rows import Writer
    from penstock.spark.row_columns import RowColumns


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

    def admit(self, df: DataFrame, store: Store, sic: SicOfRows | None = None) -> tuple[DataFrame, GateOptions]:
        """The kept rows, and the options of the gate's control table."""
        rules = rules_of(self.columns, df, self.number, self.salt, self.mode, self.quarantine)
        rules = replace(rules, reads=self.reads)
        made = [judging(self.columns, df, self.salt, self.mode)]
        _try_columns(df, self.columns, sic)
        # Only now, so that a mistake in the settings leaves nothing behind.
        writer = self.writer()
        identity = self.claim()
        places = {self.number: 0}
        for old in store.begin(self.metric, rules) if df.isStreaming else ():
            if old.number in places:
                continue
            if old.rules is not None and old.rules.same_verdicts(rules):
                places[old.number] = 0
            elif again := self._again(df, old, rules):
                places[old.number] = len(made)
                made.append(again)
        start = self.start and self.start._replace(counted=df.isStreaming and every_row_comes(df))
        options = GateOptions(str(store.folder), SOURCE, identity, tuple(places.items()), start)
        found = gated(
            df,
            control(df, store, options),
            self.columns,
            made,
            metric=self.metric,
            made_by=self.name,
            sic=sic,
            quarantine=writer,
            reads=self.reads,
            shed_first=self.shed_first,
            folder=options.folder,
        )
        return found, options

    def _again(self, df: DataFrame, old: Open, rules: Rules) -> Judging | None:
        """The rules of an earlier batch; None if they cannot be restored and the batch may be done."""
        try:
            return judging_of_old(self.columns, df, old, rules)
        except PenstockError:
            if old.sure and (old.rules is not None or self.quarantine):
                raise
            return None


def _try_columns(df: DataFrame, columns: RowColumns, sic: SicOfRows | None) -> None:
    """Find mistakes in the gate's other settings."""
    columns.incoming_weight(df)
    if sic is None or sic.by_class:
        columns.bucket(df)
    if sic is not None:
        sic.carried(df, ControlColumns(F.array(F.lit(0))))
