"""Where rows go that leave a stage to an output: its sink.

Files of a batch are in their own folder, so a rerun batch replaces them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.errors import PenstockError
from penstock.spark.network.drops import HIDDEN, WEIGHT, quoted
from penstock.spark.network.failures import SPARK_ERRORS, line_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.config.network_file import Sink

#: Rows that a console shows of a batch, and rows and batches that memory holds of an output.
SHOWN = 20
HELD, HELD_BATCHES = 1_000_000, 10_000


class Outputs:
    """The sinks of a network's outputs; those in memory are read with `table`."""

    def __init__(self, sinks: dict[str, Sink], place: str = "outputs.{}", *, within: str = "stage") -> None:
        """Write the rows of each output to its sink; errors name it as its place in the file.

        In a folder, what is `within` a stage, or an epoch, lies in a folder named after it.
        """
        self._sinks, self._place, self._within = sinks, place, within
        self._held: dict[str, dict[tuple[int, str], pa.Table]] = {}
        self._rows: Counter[str] = Counter()  # that are held

    def write(self, output: str, df: DataFrame, batch: int, stage: str = "") -> None:
        """Write one batch of a network; of an output that several stages write to, `stage` says whose."""
        own = [F.col(quoted(name)) for name in df.columns if name not in HIDDEN]
        self.write_rows(output, df.select(*own, WEIGHT), batch, stage)

    def write_rows(self, output: str, rows: DataFrame, batch: int, stage: str = "") -> None:
        """Write rows as they are."""
        try:
            self._write(output, rows, batch, stage)
        except SPARK_ERRORS as error:
            raise PenstockError(f"{self._place.format(output)} cannot be written: {line_of(error)}") from None

    def _write(self, output: str, rows: DataFrame, batch: int, stage: str) -> None:
        sink = self._sinks[output]
        if sink.format == "memory":
            self._hold(output, (batch, stage), _nullable(rows.toArrow()))
        elif sink.format == "console":
            kept = rows.persist()
            try:
                count = kept.count()
                print(f"-- {output}, batch {batch}: {count} rows")  # noqa: T201 - that is what a console is for
                if count:
                    kept.show(SHOWN, truncate=False)
            finally:
                kept.unpersist()
        elif sink.format == "kafka":
            key = [F.col("key").cast("string").alias("key")] if "key" in rows.columns else []
            message = rows.select(*key, F.to_json(F.struct("*")).alias("value"))
            message.write.format("kafka").options(**sink.options).save()
        else:
            part = f"{self._within}={stage}/batch={batch}" if stage else f"batch={batch}"
            path = f"{sink.options['path'].rstrip('/')}/{part}"
            rest = {name: value for name, value in sink.options.items() if name != "path"}
            rows.write.format(sink.format).options(**rest).mode("overwrite").save(path)

    def _hold(self, output: str, part: tuple[int, str], table: pa.Table) -> None:
        """Keep rows in memory, and drop the oldest."""
        held = self._held.setdefault(output, {})
        replaced = held.pop(part, None)
        held[part] = table
        self._rows[output] += table.num_rows - (replaced.num_rows if replaced else 0)
        while len(held) > 1 and (self._rows[output] > HELD or len(held) > HELD_BATCHES):
            self._rows[output] -= held.pop(next(iter(held))).num_rows

    def table(self, output: str) -> pa.Table | None:
        """What is held of an output in memory; None before its first batch."""
        held = self._held.get(output)
        return pa.concat_tables([held[batch] for batch in sorted(held)]) if held else None


def _nullable(table: pa.Table) -> pa.Table:
    """One schema for all batches: whether Spark takes a column for one without nulls depends on the drops."""
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))  # noqa: FBT003 - Arrow's own
