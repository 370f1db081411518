"""Runs the tests of the guard on each supported version of Spark, and writes the table of docs/versions.md.

    python scripts/matrix.py              # all versions that pyproject.toml allows
    python scripts/matrix.py 4.0 4.2      # these; the other rows stay
    python scripts/matrix.py 4.0 -- tests/spark/test_guard.py -k waits   # a part of the tests; the table says which

Each version has a virtual environment in the cache outside the repository, kept between runs. Penstock is not installed
there: the tests find the checkout's by PYTHONPATH. Counts are read from pytest's own record of the run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "matrix"
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- the matrix: made by make matrix -->", "<!-- end of the matrix -->"
HEAD = "| Spark | Python | tests | passed | failed | refused |\n|---|---|---|---:|---:|---:|\n"
#: What runs on each version: gate parity, the source, the guard, exactly once, answers, quarantine, settings of Spark
#: beside it, grouping.
FILES = (
    "tests/core/test_gate_spark.py",
    "tests/core/test_hashing_spark.py",
    "tests/spark/test_source.py",
    "tests/spark/test_guard.py",
    "tests/spark/test_exactly_once.py",
    "tests/spark/test_answers.py",
    "tests/spark/test_quarantine.py",
    "tests/spark/interplay.py",
    "tests/spark/test_grouping.py",
)
#: Real tables, in a process of its own because the session needs other jars, and the versions that have them.
TABLES, TABLE_VERSIONS = "tests/tables/guarded_tables.py", ("4.1", "4.2")
#: Extras whose packages these tests import, and what they need besides.
EXTRAS = ("spark", "kafka", "cli", "network")
BESIDE = ("hypothesis", "pytest")
#: PySpark 4.0 leaves sockets open, which is a warning of Python's and an error in our tests.
LEAKS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
REFUSED = re.compile(r"needs Spark (\d+\.\d+): (.*)")
LONGEST_S = 3600.0


@dataclass
class Outcome:
    """What a run on one version gave."""

    spark: str
    python: str = ""
    tests: str = "all"
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)

    def row(self) -> str:
        """Its row of the table."""
        counts = self.passed, len(self.failed), sum(self.refused.values())
        return f"| {self.spark} | {self.python} | {self.tests} | {' | '.join(map(str, counts))} |"


def versions() -> list[str]:
    """The versions that pyproject.toml allows, such as `4.0`."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = (one for one in extras["spark"] if one.startswith("pyspark"))
    found = re.fullmatch(r"pyspark>=(\d+)\.(\d+),<\1\.(\d+)", wanted)
    if found is None:
        raise SystemExit(f"matrix: {wanted} in pyproject.toml does not say a range of versions")
    major, first, end = map(int, found.groups())
    return [f"{major}.{minor}" for minor in range(first, end)]


def requirements(version: str) -> list[str]:
    """What pip is to install for a version."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = about["project"]["optional-dependencies"]
    listed = [*about["project"]["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    listed += [one for one in about["dependency-groups"]["dev"] if one.startswith(BESIDE)]
    return [f"pyspark[connect]~={version}.0", *(one for one in listed if not one.startswith("pyspark"))]


def environment(version: str) -> Path:
    """The Python of a version's environment, made unless it is there; an interrupted installation is done again."""
    folder = CACHE / version
    python, stamp = folder / "bin" / "python", folder / "complete"
    wanted = "\n".join([sys.version, *requirements(version)])
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"matrix: making the environment of Spark {version} in {folder}", flush=True)  # noqa: T201
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, *requirements(version)], check=True)  # noqa: S603 - the words are those of pyproject.toml
        stamp.write_text(wanted)
    return python


def run(version: str, more: list[str]) -> Outcome:
    """Run the tests on a version; pytest prints to the terminal."""
    python = environment(version)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK_HOME"))}
    paths = {"PYTHONPATH": str(ROOT / "src"), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    about = "import platform, pyspark; print(pyspark.__version__, platform.python_version())"
    told = subprocess.run([python, "-c", about], capture_output=True, text=True, check=True)  # noqa: S603 - as above
    outcome = Outcome(*told.stdout.split(), tests=f"`{' '.join(more)}`" if more else "all")
    print(f"matrix: Spark {outcome.spark}, Python {outcome.python}", flush=True)  # noqa: T201
    environ = outside | paths | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    runs = [more] if any(one.startswith("tests/") for one in more) else [[*FILES, *more]]
    if not more and version in TABLE_VERSIONS:
        runs.append([TABLES])
    for what in runs:
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "record.xml"
            options = ["-q", "-p", "no:cacheprovider", *LEAKS, f"--junitxml={record}"]
            command = [str(python), "-m", "pytest", *options, *what]
            subprocess.run(command, cwd=ROOT, env=environ, check=False, timeout=LONGEST_S)  # noqa: S603 - as above
            if not record.exists():
                raise SystemExit(f"matrix: the tests on Spark {version} did not run: see above")
            count(record, outcome)
    return outcome


def count(record: Path, outcome: Outcome) -> None:
    """Count the tests in pytest's record."""
    for test in ET.parse(record).getroot().iter("testcase"):  # noqa: S314 - our own file
        skipped = test.find("skipped")
        if test.find("failure") is not None or test.find("error") is not None:
            outcome.failed.append(str(test.get("name")))
        elif skipped is None:
            outcome.passed += 1
        elif found := REFUSED.search(skipped.get("message", "")):
            why = f"{found[2]} (Spark {found[1]})"
            outcome.refused[why] = outcome.refused.get(why, 0) + 1
        else:
            outcome.skipped.append(str(skipped.get("message")))


def written(page: str, outcomes: list[Outcome]) -> str:
    """The page with these versions' rows and what they refuse; those of other versions stay."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {minor(line[2:].split(" ")[0]): line for line in table.splitlines() if re.match(r"\| \d", line)}
    lists = {minor(line[8:]): line for line in table.splitlines() if line.startswith("- Spark ")}
    for outcome in outcomes:
        rows[minor(outcome.spark)] = outcome.row()
        lists.pop(minor(outcome.spark), None)
        if outcome.tests != "all" and not outcome.refused:
            continue  # a part of the tests does not show that nothing is refused
        refused = "; ".join(f"{why}: {times}" for why, times in sorted(outcome.refused.items())) or "nothing"
        lists[minor(outcome.spark)] = f"- Spark {minor(outcome.spark)} refuses {refused}."
    body = HEAD + "\n".join(line for _, line in sorted(rows.items())) + "\n\n"
    body += "\n".join(line for _, line in sorted(lists.items()))
    return f"{before}{BEGIN}\n{body}\n{END}{after}"


def minor(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(re.split(r"[. ]", version)[:2])


def main(arguments: list[str]) -> int:
    """Run the versions asked for, or all; words that pytest is to get follow `--`."""
    chosen, more = arguments, []
    if "--" in arguments:
        place = arguments.index("--")
        chosen, more = arguments[:place], arguments[place + 1 :]
    if unknown := [one for one in chosen if one not in versions()]:
        print(f"matrix: version = {unknown[0]!r} is not usable: give one of {', '.join(versions())}", file=sys.stderr)  # noqa: T201
        return 2
    outcomes = []
    for version in chosen or versions():
        outcome = run(version, more)
        outcomes.append(outcome)
        print(f"matrix: {outcome.row()}", *outcome.failed, *outcome.skipped, sep="\n  ", flush=True)  # noqa: T201
        PAGE.write_text(written(PAGE.read_text(), [outcome]))
    return int(any(one.failed for one in outcomes))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
