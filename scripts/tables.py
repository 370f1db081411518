"""Runs the tests with Delta and Iceberg tables, each on the version of Spark that has them.

    python scripts/tables.py              # both
    python scripts/tables.py 4.2          # Delta alone

The environments are those of `make matrix`; Maven brings the jars.
"""

from __future__ import annotations

import sys

from matrix import TABLE_VERSIONS, TABLES, run


def main(arguments: list[str]) -> int:
    """Run the versions asked for, or both."""
    if unknown := [one for one in arguments if one not in TABLE_VERSIONS]:
        accepted = ", ".join(TABLE_VERSIONS)
        print(f"tables: version = {unknown[0]!r} is not usable: give one of {accepted}", file=sys.stderr)  # noqa: T201
        return 2
    outcomes = [run(version, [TABLES]) for version in arguments or TABLE_VERSIONS]
    for one in outcomes:
        print(f"tables: {one.row()}", *one.failed, *one.skipped, sep="\n  ", flush=True)  # noqa: T201
    return int(any(one.failed or one.skipped or not one.passed for one in outcomes))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
