"""Errors of Spark that Penstock expects and reports in one line: PySpark logs each of them too."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

#: The loggers by which PySpark writes an error of a query as one long line of JSON when it is raised.
LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark from logging errors that are raised in here by this thread."""
    own = threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != own

    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)
