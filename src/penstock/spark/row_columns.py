"""The columns that gate and probe share: a row's bucket, its coin, its arrival, its weight, must it be kept.

A guard leaves a mark in the metadata of its weight column, which distinguishes its weights from other numbers. Spark
keeps metadata when it reads Parquet or a table. JSON, Kafka, and functions with a schema of their own lose it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from penstock.core.control.bucket_costs import BUCKETS, CLASSES_PER_OCTAVE
from penstock.errors import PenstockError
from penstock.spark.expected_errors import quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from penstock.core.balanced.worth import Worth

#: Where arrival times are looked for when no column is named: `timestamp` is Kafka's, the next one is of Kinesis, then
#: of Event Hubs, then of the change feed of a Delta table.
_USUAL_ARRIVALS = ("arrival", "timestamp", "approximatearrivaltimestamp", "enqueuedtime", "_commit_timestamp")
#: The time at which a file was complete; Spark has it in a column that is not listed.
_FILE_ARRIVAL = "_metadata.file_modification_time"
#: What identifies a record of Kafka, of Kinesis (of two connectors), and of Event Hubs.
_USUAL_ROWS = (
    ("topic", "partition", "offset"),
    ("stream", "shardId", "sequenceNumber"),
    ("streamName", "partitionKey", "sequenceNumber"),
    ("partition", "sequenceNumber", "enqueuedTime"),
)
#: The same for a row of a Parquet file, and of an Iceberg table; in columns that are not listed.
_FILE_ROW, _TABLE_ROW = ("_metadata.file_path", "_metadata.row_index"), ("_file", "_pos")
#: The columns that are not listed.
_HIDDEN = ("_metadata", "_file", "_pos")
#: What the column is called if nothing else is said.
WEIGHT = "weight"
#: Under this key a weight column's metadata names the guard that made it, also in a Parquet file that a query wrote.
MADE_BY = "penstock_guard"


@dataclass(frozen=True)
class RowColumns:
    """Which columns of a stream say what about a row; checked against a data frame when they are used."""

    key: tuple[str, ...]  #: columns whose values decide the bucket; none: all rows share one
    #: Columns that identify a row; none: those of the source, such as Kafka's topic, partition and offset, or else all.
    row: tuple[str, ...]
    arrival: str | None  #: column with the time of arrival; `None`: `arrival` or that of the source, if there is one
    keep: str | Column | None  #: rows that must be kept: a condition in SQL, or a column
    cost: str | None  #: column with a row's true cost in seconds, which then decides the bucket in place of the key
    weight: str  #: column with the weights
    cost_setting: str = "cost_column"  #: what the user knows `cost` by
    worth: Worth | None = None  #: the worth of rows by a column's values, which is then part of the bucket
    #: Whether the user named it, so that numbers in it are weights although no guard made them.
    weight_named: bool = True
    weight_setting: str = "weight"  #: what the user knows `weight` by

    def refuse_overlap(self) -> None:
        """The weight needs a column to itself."""
        for setting, names in (
            ("key", self.key),
            ("row", self.row),
            ("arrival", (self.arrival,)),
            (self.cost_setting, (self.cost,)),
            ("value", (self.worth.column if self.worth else None,)),
        ):
            if self.weight in names:
                given = f"a column of its own, not that of {setting}"
                raise PenstockError.setting(self.weight_setting, self.weight, given)

    def bucket(self, df: DataFrame) -> Column:
        """The row's place in the gate's table."""
        return self.stratum(df).bitwiseAND(F.lit(BUCKETS - 1)).cast("int")

    def stratum(self, df: DataFrame) -> Column:
        """What the row's cost depends on, as a number whose low bits are the bucket: the hash of its key.

        If rows differ in worth, the low bits have the grade first, as in `Worth.strata`.
        """
        if self.cost is not None:
            self._type_of(df, self.cost_setting, self.cost, (NumericType,), "a column of numbers")
            classes = F.floor(F.log2(F.col(self.cost) * F.lit(1e6)) * F.lit(float(CLASSES_PER_OCTAVE)))
            within = F.least(F.greatest(classes, F.lit(0).cast("bigint")), F.lit(BUCKETS - 1).cast("bigint"))
            return F.coalesce(within, F.lit(0).cast("bigint"))
        for name in self.key:
            self._type_of(df, "key", name)
        hashed = F.xxhash64(*self.key) if self.key else F.lit(0).cast("bigint")
        if self.worth is None:
            return hashed
        grade = self._grade(df, self.worth) * F.lit(self.worth.keys)
        return hashed.bitwiseAND(F.lit(~(BUCKETS - self.worth.keys))).bitwiseOR(grade.cast("bigint"))

    def _grade(self, df: DataFrame, worth: Worth) -> Column:
        self._type_of(df, "value", worth.column, (NumericType,), "a column of numbers")
        value = F.col(worth.column).cast("double")
        grade = F.when(value.isNull() | F.isnan(value), F.lit(worth.missing))
        for number, end in enumerate(worth.ends):
            grade = grade.when(value <= F.lit(end), F.lit(number))
        return grade.otherwise(F.lit(len(worth.ends)))

    def decisive(self, df: DataFrame) -> tuple[str, ...]:
        """Names of the columns whose values decide which rows pass."""
        row = self.row or _source_row(df) or tuple(df.columns)
        worth = () if self.worth is None else (self.worth.column,)
        return (*self.key, *row, *worth, *(() if self.cost is None else (self.cost,)))

    def types(self, df: DataFrame, row: Sequence[str] | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The types of the key's columns and of those that identify a row (the named ones), as Spark spells them."""
        for name in self.key:
            self._type_of(df, "key", name)
        names = (*self.key, *(self.row if row is None else row))
        schema = df.select(*[F.col(name).alias(str(number)) for number, name in enumerate(names)]).schema
        found = tuple(field.dataType.simpleString() for field in schema.fields)
        return found[: len(self.key)], found[len(self.key) :]

    def coin(self, df: DataFrame, salt: int) -> Column:
        """The row's number from 0 to 2**63 - 1, the same whenever it is judged."""
        hashed = F.xxhash64(F.lit(salt).cast("bigint"), *self.identity(df))
        return F.shiftrightunsigned(hashed, 1)

    def arrival_s(self, df: DataFrame) -> Column | None:
        """When the row arrived, in seconds since 1970; None if no column has it."""
        name = self.arrival_column(df)
        if name is None:
            return None
        accepted = "a column of timestamps, or of seconds since 1970"
        kind = self._type_of(df, "arrival", name, (TimestampType, NumericType), accepted)
        if isinstance(kind, TimestampType):
            return F.unix_micros(F.col(name)) / F.lit(1e6)
        return F.col(name).cast("double")

    def arrival_column(self, df: DataFrame) -> str | None:
        """The column with the arrival time of rows: the named one, or a usual one; None if there is none."""
        if self.arrival is not None:
            return self.arrival
        present = {column.lower(): column for column in df.columns}
        usual = [present[one] for one in _USUAL_ARRIVALS if one in present]
        found = next((one for one in usual if isinstance(df.schema[one].dataType, TimestampType)), None)
        return _FILE_ARRIVAL if found is None and _has(df, (_FILE_ARRIVAL,)) else found

    def must_keep(self, df: DataFrame) -> Column | None:
        """Whether the row must be kept; None if no row must."""
        if self.keep is None:
            return None
        condition = F.expr(self.keep) if isinstance(self.keep, str) else self.keep
        shown = self.keep if isinstance(self.keep, str) else str(self.keep)
        try:
            with quiet():
                kind = df.select(condition.alias("keep")).schema["keep"].dataType
                # Refuses what is no condition on one row: an aggregate, say. A Connect client knows a filter's schema.
                _ = df.filter(condition.cast("boolean")).select(F.lit(1)).schema
        except (AnalysisException, ParseException) as error:
            parses = "PARSE" not in str(error)
            accepted = _columns_of(df, "a condition on") if parses else "a condition in Spark SQL"
            raise PenstockError.setting("keep", shown, accepted, _first_line(error)) from None
        if not isinstance(kind, BooleanType):
            raise PenstockError.setting(
                "keep", shown, f"a condition that is true or false, not a {kind.simpleString()}"
            )
        if not _deterministic(df, condition):
            raise PenstockError.setting(
                "keep", shown, "a condition that says the same of a row each time", "a batch may be run again"
            )
        return F.coalesce(condition, F.lit(False))  # noqa: FBT003 - a literal

    def has_weight(self, df: DataFrame) -> bool:
        """Whether rows already carry a weight; Spark takes names that differ in case for the same."""
        return self.weight.lower() in (name.lower() for name in df.columns)

    def refuse_own_weight(self, df: DataFrame) -> None:
        """A column of the user's that has the name of the weights by chance would be multiplied."""
        if not self.weight_named:
            refuse_unmarked(df, self.weight, self.weight_setting)

    def incoming_weight(self, df: DataFrame) -> Column:
        """The number of rows that this one already represents."""
        if not self.has_weight(df):
            return F.lit(1.0)
        self._type_of(df, "weight", self.weight, (NumericType,), "a column of numbers")
        return F.coalesce(F.col(f"`{self.weight}`").cast("double"), F.lit(1.0))

    def identity(self, df: DataFrame) -> tuple[str, ...]:
        """The columns that identify a row."""
        for name in self.row:
            self._type_of(df, "row", name)
        if self.row:
            return self.row
        if own := _source_row(df):
            return own
        usable = [
            f"`{field.name}`" for field in df.schema.fields if _hashable(field.dataType) and field.name != self.weight
        ]
        if not usable:
            raise PenstockError(
                "row is missing: no column of the stream can be hashed; name columns that identify a row"
            )
        twice = next((name for name in usable if [one.lower() for one in usable].count(name.lower()) > 1), None)
        if twice:
            raise PenstockError(f"row is missing: two columns are named {twice}; rename one, or name columns as row")
        return tuple(usable)

    def _type_of(
        self, df: DataFrame, setting: str, name: str, kinds: tuple[type[DataType], ...] = (), accepted: str = ""
    ) -> DataType:
        absent = PenstockError.setting(setting, name, _columns_of(df, "a column of the stream:"))
        # Looked up here first, because Spark takes a name such as `user` for one of its functions.
        quoted = re.match("`([^`]+)`", name)
        first = quoted[1] if quoted else name.split(".", maxsplit=1)[0]
        if name in df.columns and not quoted and "." in name:
            raise PenstockError.setting(setting, name, f"it in backticks, `{name}`, because of the dot")
        if first.lower() not in (*(column.lower() for column in df.columns), *_HIDDEN):
            raise absent
        try:
            with quiet():
                kind = df.select(F.col(name).alias("found")).schema["found"].dataType
        except (AnalysisException, ParseException):
            raise absent from None
        if kinds and not isinstance(kind, kinds):
            raise PenstockError.setting(setting, name, accepted, f"it is {kind.simpleString()}")
        if not _hashable(kind):
            raise PenstockError.setting(setting, name, "a column that can be hashed", f"it is {kind.simpleString()}")
        return kind


def _source_row(df: DataFrame) -> tuple[str, ...]:
    """The columns by which a source identifies its rows; none if they are unknown."""
    present = set(df.columns)
    found = next((names for names in _USUAL_ROWS if present.issuperset(names)), None)
    if found:
        return found
    # In a stream Spark finds such columns of a table by their names, but a task that reads them fails.
    hidden = (_FILE_ROW,) if df.isStreaming and not present.issuperset(_TABLE_ROW) else (_FILE_ROW, _TABLE_ROW)
    return next((names for names in hidden if _has(df, names)), ())


def _has(df: DataFrame, hidden: tuple[str, ...]) -> bool:
    """Whether Spark finds these columns, which it does not list; asked once per data frame."""
    known = _found.setdefault(df, {})
    if hidden not in known:
        try:
            with quiet():
                kinds = [field.dataType for field in df.select(*map(F.col, hidden)).schema.fields]
            # Columns of the user's may have these names by chance.
            known[hidden] = all(isinstance(kind, StringType | LongType | TimestampType) for kind in kinds)
        except (AnalysisException, ParseException):
            known[hidden] = False
    return known[hidden]


#: Which hidden columns a data frame has.
_found: WeakKeyDictionary[DataFrame, dict[tuple[str, ...], bool]] = WeakKeyDictionary()


def _columns_of(df: DataFrame, words: str) -> str:
    return f"{words} {', '.join(df.columns)}"


def _deterministic(df: DataFrame, value: Column) -> bool:
    """Whether a value is the same each time: Spark itself knows, and takes no aggregate over one that is not."""
    try:
        with quiet():
            _ = df.agg(F.max(value)).schema
    except AnalysisException as error:
        return "NONDETERMINISTIC" not in str(error)
    return True


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _hashable(kind: DataType) -> bool:
    if isinstance(kind, MapType | VariantType):
        return False
    if isinstance(kind, ArrayType):
        return _hashable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    return True


def marks(df: DataFrame, name: str) -> dict[str, Any]:
    """The metadata of a column that a guard made; none otherwise. Spark takes names of another case for the same."""
    found = (field.metadata or {} for field in df.schema.fields if field.name.lower() == name.lower())
    return next((one for one in found if MADE_BY in one), {})


def maker(df: DataFrame, name: str) -> str | None:
    """The guard that made the column, by its mark; None without one."""
    return marks(df, name).get(MADE_BY)


def made_by(df: DataFrame, name: str, guard: str) -> DataFrame:
    """The frame, with the guard's mark on its weights."""
    return df if maker(df, name) is not None else df.withMetadata(name, {MADE_BY: guard})


def passed_on(made: DataFrame, df: DataFrame, name: str) -> DataFrame:
    """What a function made of the frame, with the mark on the weights that it passed on."""
    mark = marks(df, name)
    own = next((one for one in made.columns if one.lower() == name.lower()), None)
    return made.withMetadata(own, mark) if mark and own is not None else made


def refuse_unmarked(df: DataFrame, name: str, setting: str, where: str = "the stream") -> None:
    """Numbers of the user's that happen to have the default name of weights."""
    if name.lower() in (one.lower() for one in df.columns) and maker(df, name) is None:
        raise PenstockError(
            f"{where} has a column {name!r} that no guard made: if it has weights, give "
            f"{setting}={name!r}; if not, rename it or give {setting}= another name"
        )


def refuse_another(df: DataFrame, name: str) -> None:
    """Numbers of the user's under the default name, where a guard's weights are in another column."""
    others = [field.name for field in df.schema.fields if (field.metadata or {}).get(MADE_BY) is not None]
    if others and maker(df, name) is None:
        raise PenstockError.setting(
            "weight", name, f"the guard's column of weights, weight={others[0]!r}", f"no guard made {name!r}"
        )
