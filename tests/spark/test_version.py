"""What differs between versions of Spark, without Spark."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.extras import missing

pyspark = pytest.importorskip("pyspark")

from penstock.spark import version  # noqa: E402 - needs Spark
from penstock.spark.grouping.grouping import by_cost  # noqa: E402
from penstock.spark.source import RememberingReader, Settings  # noqa: E402

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
SOURCE = Path(penstock.__file__).parent
START_S = 1_700_000_000


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    spec = importlib.util.spec_from_file_location("matrix", ROOT / "scripts" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # data classes look for their module there
    spec.loader.exec_module(module)
    return module


def remembering(clock: list[float], **options: object) -> RememberingReader:
    settings = Settings.from_options({name: str(value) for name, value in options.items()})
    return RememberingReader(settings, lambda: clock[0])


def test_grouping_on_an_old_server_says_which_version_can() -> None:
    df: Any = SimpleNamespace(sparkSession=SimpleNamespace(version="4.0.2"))
    with pytest.raises(PenstockError, match=r"^grouping by cost needs Spark 4\.1 or later: this is Spark 4\.0\.2$"):
        by_cost("key", 2)(df)


def test_a_spark_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.6")
    lacking = ImportError("cannot import name 'VariantType'", name="pyspark.sql.types")
    assert str(missing(lacking)) == "Spark 3.5.6 is too old: Penstock needs Spark 4.0 or later"


def test_a_reader_that_is_not_told_the_start_remembers_it() -> None:
    clock = [float(START_S)]
    reader = remembering(clock, rate=10, rows_per_batch=15)
    clock[0] += 2.0
    first = reader.latestOffset()
    assert first["rows"] == 0  # the profile begins with the first question
    clock[0] += 2.0
    ends = []
    for _ in range(3):
        start, end = reader.initialOffset() if not ends else ends[-1], reader.latestOffset()
        assert reader.latestOffset() == end  # asked twice, a batch is still the same
        reader.partitions(start, end)
        ends.append(end)
    assert [end["rows"] for end in ends] == [15, 20, 20]


def test_a_reader_that_resumes_is_told_by_the_offset_in_the_checkpoint() -> None:
    clock = [START_S + 100.0]
    reader = remembering(clock, rate=10)
    stored = {"rows": 400, "start_us": START_S * 1_000_000}
    assert reader.partitions(stored, stored) == []
    assert reader.initialOffset()["rows"] == 0  # where the first batch starts, if it is the one to repeat
    assert reader.latestOffset() == stored | {"rows": 1000}


def test_versions_are_told_apart_in_one_module() -> None:
    told = re.compile(r"pyspark\.__version__|\.sparkSession\.version|pyspark\.sql\.streaming\.datasource")
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if told.search(path.read_text())}
    assert found - {"spark/version.py"} == {"spark/grouping/grouping.py"}  # it passes the session's on


def test_the_page_names_every_version_that_can_be_installed_and_its_table_no_other(matrix: ModuleType) -> None:
    page = matrix.PAGE.read_text()
    assert [one for one in matrix.versions() if one not in page.partition(matrix.BEGIN)[0]] == []
    row = re.compile(r"^\| (4\.\d+)\.\d+ \| 3\.\d+\.\d+ \| .+ \| (\d+) \| (\d+) \| \d+ \|$", re.MULTILINE)
    rows = row.findall(page)
    assert {row[0] for row in rows} <= {*matrix.versions()}
    assert all(int(passed) and not int(failed) for _, passed, failed in rows)


def test_a_row_of_the_table_replaces_its_own_alone(matrix: ModuleType) -> None:
    page = f"before\n{matrix.BEGIN}\n{matrix.END}\nafter\n"
    old = matrix.Outcome("4.0.2", "3.11.7", passed=7, failed=["test_a"], refused={"grouping (Spark 4.1)": 3})
    page = matrix.written(page, [old, matrix.Outcome("4.1.0", "3.11.7", passed=9)])
    page = matrix.written(page, [matrix.Outcome("4.1.1", "3.12.1", passed=10)])
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert re.findall(r"^[|-] (?:Spark )?\d.*", page, re.MULTILINE) == [
        "| 4.0.2 | 3.11.7 | all | 7 | 1 | 3 |",
        "| 4.1.1 | 3.12.1 | all | 10 | 0 | 0 |",
        "- Spark 4.0 refuses grouping (Spark 4.1): 3.",
        "- Spark 4.1 refuses nothing.",
    ]


def test_what_a_run_gave_is_counted_from_its_record(matrix: ModuleType, tmp_path: Path) -> None:
    record = tmp_path / "record.xml"
    record.write_text(
        '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure message="no"/></testcase>'
        '<testcase name="c"><skipped message="needs Spark 4.1: grouping by cost"/></testcase>'
        '<testcase name="d"><skipped message="no broker"/></testcase></testsuite></testsuites>'
    )
    outcome = matrix.Outcome("4.0.2")
    matrix.count(record, outcome)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, ["b"], ["no broker"])
    assert outcome.refused == {"grouping by cost (Spark 4.1)": 1}


def test_versions_compare_by_number() -> None:
    assert version.number("4.10.0") > version.number("4.9.1-SNAPSHOT")
