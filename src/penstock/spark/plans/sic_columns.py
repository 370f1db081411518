r"""The columns by which rows carry their source information content (SIC), and their sums at the gate.

A row of a source $s$ carries (THEMIS, equation 1)

$$\text{sic} = \frac{1}{n_s\,|S|}$$

where $n_s$ is the expected number of rows of the source in a source time window and $|S|$ the number of the query's
sources. $n_s$ is learned and is part of the plan, so a replayed row has the same SIC. Rows that already have a SIC,
from a fragment of the query elsewhere, keep it.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import NumericType

from penstock.core.fairness.sic import SIC
from penstock.errors import PenstockError
from penstock.spark.plans.control_row import ControlColumns

#: Prefixes of a gate's sums: incoming rows of each source, and kept rows.
CAME, PASSED = "came_", "passed_"
#: In the metadata of the column: a gate, or a rule for an operator behind one, made it.
MADE_SIC = "penstock_sic"


@dataclass(frozen=True)
class SicOfRows:
    """Sources of the rows of one gate, and the column that names them."""

    sources: tuple[str, ...]  #: names of all sources of the query, in the order of the plan's buckets
    source: str | None  #: the one source that all rows come from; `None`: see the column
    by: str | None = None  #: the column with the names of sources
    #: Whether the plan's buckets are those of a guard, by what rows cost and are worth, and not sources.
    by_class: bool = False
    #: The column with the SIC from a fragment elsewhere; `None`: there is none, or it is the column `sic`, if a gate
    #: made it.
    given: str | None = None

    def bucket(self, df: DataFrame) -> Column:
        """The number of the row's source; a row of an unknown source counts to the last."""
        if self.source is not None:
            return F.lit(self.sources.index(self.source))
        if self.by not in df.columns:
            raise PenstockError.setting("by", self.by, f"a column of the stream: {', '.join(df.columns)}")
        last = len(self.sources) - 1
        number = F.lit(last)
        for place, name in reversed(list(enumerate(self.sources[:-1]))):
            number = F.when(F.col(f"`{self.by}`") == F.lit(name), F.lit(place)).otherwise(number)
        return number

    def carried(self, df: DataFrame, control: ControlColumns) -> Column:
        """The row's SIC; null until a plan has the rate of its source."""
        own = control.sic(self.bucket(df))
        brought = self._brought(df)
        return own if brought is None else F.coalesce(brought, own)

    def without_plan(self, df: DataFrame) -> DataFrame:
        """Rows with the column, for a gate that is off: null, unless they already have it."""
        brought = self._brought(df)
        return marked_sic(df.withColumn(SIC, F.lit(None).cast("double") if brought is None else brought))

    def refuse_own(self, df: DataFrame) -> None:
        """A user's column of that name would be mistaken for SIC, or replaced."""
        named = self.given is not None and self.given.lower() == SIC
        made = any(one.name.lower() == SIC and MADE_SIC in (one.metadata or {}) for one in df.schema.fields)
        if _brings(df) and not named and not made:
            raise PenstockError(
                f"the stream has a column {SIC!r} that no gate made: if it is the source information content of the "
                f"rows, give sic={SIC!r}; if not, rename it, since rows carry theirs under this name"
            )

    def _brought(self, df: DataFrame) -> Column | None:
        """The SIC that rows already have; None if they have none."""
        if self.given is None and not _brings(df):
            return None
        name = SIC if self.given is None else self.given
        if name not in df.columns and self.given is not None:
            raise PenstockError.setting("sic", self.given, f"a column of the stream: {', '.join(df.columns)}")
        kind = df.schema[next(one for one in df.columns if one.lower() == name.lower())].dataType
        if not isinstance(kind, NumericType):
            raise PenstockError.setting("sic", name, "a column of numbers", f"it is {kind.simpleString()}")
        return F.col(f"`{name}`").cast("double")

    def sums(self, passes: Column) -> list[Column]:
        """The gate's counts of incoming and kept rows, by source."""
        sic = F.col(SIC)
        found = [F.sum(sic).alias("sic_came"), F.sum(F.when(passes, sic)).alias("sic_passed")]
        if self.source is not None:
            return found
        by = F.col(f"`{self.by}`")
        known = F.coalesce(by.isin(list(self.sources[:-1])), F.lit(False))  # noqa: FBT003 - a literal
        for place, name in enumerate(self.sources):
            here = by == F.lit(name) if place < len(self.sources) - 1 else ~known
            found.append(F.count(F.when(here, 1)).alias(f"{CAME}{name}"))
            found.append(F.count(F.when(here & passes, 1)).alias(f"{PASSED}{name}"))
        return found


def marked_sic(df: DataFrame) -> DataFrame:
    """The rows, with metadata that a gate made the column, as for weights."""
    return df.withMetadata(SIC, {MADE_SIC: True})


def _brings(df: DataFrame) -> bool:
    """Whether rows have a column of that name; Spark ignores case."""
    return SIC in (name.lower() for name in df.columns)
