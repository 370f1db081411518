"""Streams with the rows of the embedded source, read from files: without the Python process that each such source has.

A test whose subject is behind the source takes these: a stream starts in half the time.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.source import SCHEMA, BatchReader, Settings

_FOLDER = tempfile.TemporaryDirectory(prefix="penstock-rows-", ignore_cleanup_errors=True)


def from_files(spark: SparkSession, into: Path | None = None, **options: object) -> DataFrame:
    """What `format("penstock")` reads with these options, of which `available` is one.

    A folder is given for a query that is started again: rows that are there stay, and those behind them are added.
    """
    settings = Settings.from_options({name: str(value) for name, value in options.items()})
    folder = Path(tempfile.mkdtemp(dir=_FOLDER.name)) if into is None else into
    folder.mkdir(parents=True, exist_ok=True)
    there = max((int(path.stem.split("-")[0]) for path in folder.iterdir()), default=0)
    for number, (stop, rows) in enumerate(_files(settings, there)):
        path = folder / f"{stop}-{number}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (time.time(), time.time() + number))  # Spark takes the oldest first
    reader = spark.readStream.schema(SCHEMA)
    if settings.rows_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", settings.partitions)
    return reader.parquet(str(folder))


def _files(settings: Settings, first: int) -> Iterator[tuple[int, pa.Table]]:
    """A file for each task of each batch, in their order, and the number of the row behind the batch."""
    available, reader = settings.available or 0, BatchReader(settings)
    tasks = [pa.Table.from_batches(reader.read(task)) for task in reader.partitions()]
    size = settings.rows_per_batch or available
    while first < available:
        stop = min(first + size, available)
        for task in tasks:
            numbers = task["row"].to_numpy()
            yield stop, task.filter(pa.array((first <= numbers) & (numbers < stop)))
        first = stop
