"""An error of Spark, in one line."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

#: What Spark and its bridge to the JVM raise.
SPARK_ERRORS = (PySparkException, Py4JError)


def line_of(error: BaseException) -> str:
    r"""The error without its trace.

    >>> line_of(ValueError("[NO_SUCH_THING] There is no thing.\nline 1"))
    '[NO_SUCH_THING] There is no thing.'
    """
    lines = str(error).split("\n=== Streaming Query", 1)[0].strip().splitlines() or [type(error).__name__]
    named = [line.removeprefix(": ") for line in lines if re.match(r"(: )?[\w.$]*(Error|Exception|Interrupt)\b", line)]
    # A Python error that came through the JVM ends its traceback; one of Spark's own comes before its stack.
    if named and (lines[0].startswith("An error occurred while calling") or "Traceback (most recent" in str(error)):
        python = [line for line in named if not line.startswith(("pyspark.", "py4j.", "org.", "java."))]
        spark = [line for line in named if not line.startswith("py4j.")]
        lines = [(python[-1:] or spark[:1] or named)[0].removeprefix("penstock.errors.PenstockError: ")]
    return re.sub(r"^([\w$]+\.)+[\w$]*(Error|Exception): ", "", " ".join(lines[0].split()))[:400]
