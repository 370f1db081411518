import json
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.messages.report import BoxStatistics, Known, Latency, PlaceRows, Report

counts = st.integers(0, 2**40)
seconds = st.floats(0, allow_infinity=False, allow_nan=False)
shares = st.floats(0, 1)
names = st.text(min_size=1, max_size=8)
boxes = st.builds(
    BoxStatistics, counts, counts, seconds, query=st.text(), sic=seconds, parts=st.lists(counts, max_size=3)
)


@st.composite
def places(draw: st.DrawFn) -> PlaceRows:
    kept, shed = draw(counts), draw(counts)
    numbers = st.lists(st.floats(allow_nan=False), max_size=3)
    return PlaceRows(kept + shed, kept, draw(st.booleans()), tuple(draw(numbers)), draw(st.text()), draw(st.text()))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    start_s, end_s = sorted([draw(seconds), draw(seconds)])
    shed = draw(st.dictionaries(names, counts, max_size=4))
    kept = draw(counts)
    return Report(
        sequence=draw(st.integers(0, 2**63 - 1)),
        start_s=start_s,
        end_s=end_s,
        rows_in=kept + sum(shed.values()),
        rows_kept=kept,
        rows_shed=shed,
        backlog_rows=draw(counts),
        backlog_age_s=draw(seconds),
        source_rows_behind=draw(st.none() | counts),
        busy_s=draw(seconds),
        overhead_s=draw(seconds),
        slots=draw(st.integers(1, 64)),
        queuing=draw(st.none() | st.builds(Latency, counts, seconds, seconds)),
        cost_sketch=draw(st.none() | st.binary(max_size=40)),
        boxes=draw(st.dictionaries(names, boxes, max_size=3)),
        sic=draw(st.dictionaries(names, shares, max_size=3)),
        elapsed_s=draw(seconds),
        sources=draw(st.dictionaries(names, places(), max_size=3)),
        links=draw(st.dictionaries(names, places(), max_size=3)),
        peers=draw(st.dictionaries(names, st.builds(Known, seconds, seconds, counts), max_size=3)),
    )


REST = {"by_value": False, "quantiles": [], "sender": "", "mark": ""}


def report(**changes: object) -> Report:
    fields: dict[str, Any] = {"sequence": 1, "start_s": 2.0, "end_s": 3.0, "rows_in": 5, "rows_kept": 5}
    return Report(**fields | changes)


def document(**changes: object) -> str:
    return json.dumps(json.loads(report().to_json()) | changes)


def assert_refused(caught: pytest.ExceptionInfo[PenstockError], named: str) -> None:
    assert str(caught.value).startswith(named)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


@given(reports())
def test_json_and_pickle_lose_nothing(original: Report) -> None:
    text = original.to_json()
    copy = Report.from_json(text)
    assert copy == original
    assert hash(copy) == hash(original)
    assert copy.to_json() == text
    assert "\n" not in text
    assert pickle.loads(pickle.dumps(original)) == original  # noqa: S301, our own bytes


@given(st.lists(reports(), max_size=4))
def test_arrow_loses_nothing(originals: list[Report]) -> None:
    table = Report.to_arrow(originals)
    table.validate(full=True)
    assert table.schema == Report.arrow_schema()
    assert Report.from_arrow(table) == originals


@pytest.mark.parametrize("originals", [[], [report(), report(cost_sketch=b"", queuing=Latency(1, 0.1, 0.1))]])
def test_parquet_loses_nothing(originals: list[Report], tmp_path: Path) -> None:
    pq.write_table(Report.to_arrow(originals), tmp_path / "reports.parquet")
    assert Report.from_arrow(pq.read_table(tmp_path / "reports.parquet")) == originals


def test_json_is_canonical() -> None:
    one = report(rows_kept=2, rows_shed={"a": 1, "b": 2}, busy_s=-0.0, cost_sketch=b"\x00\xff")
    other = report(rows_kept=2, rows_shed={"b": 2, "a": 1}, busy_s=0, cost_sketch=bytearray(b"\x00\xff"))
    assert one == other
    assert hash(one) == hash(other)
    assert one.to_json() == other.to_json()
    assert one.to_json() == (
        '{"backlog_age_s":0.0,"backlog_rows":0,"batches_behind":null,"boxes":{},"busy_s":0.0,"control_s":0.0,'
        '"cores_wanted":null,"cost_sketch":{"base64":"AP8="},'
        '"delay_s":0.0,"elapsed_s":0.0,"end_s":3.0,"format":1,"lag_s":0.0,"links":{},"overhead_s":0.0,"peers":{},'
        '"plan_version":null,"queuing":null,"replayed_s":0.0,'
        '"rows_in":5,"rows_kept":2,"rows_must_keep":0,"rows_shed":{"a":1,"b":2},"rows_untimed":0,'
        '"rows_would_shed":{},"sequence":1,"sic":{},"slots":1,"source_rows_behind":null,"sources":{},"span_s":0.0,'
        '"start_s":2.0}'
    )


def test_bytes_are_not_shown_but_counted() -> None:
    report = Report(sequence=7, start_s=0, end_s=1, rows_in=5, rows_kept=5, cost_sketch=b"\0" * 5012)
    assert str(report) == repr(report)
    assert "Report(sequence=7, start_s=0.0, end_s=1.0, rows_in=5, rows_kept=5, " in str(report)
    assert "cost_sketch=<5,012 bytes>" in str(report)
    assert "cost_sketch=None" in str(replace(report, cost_sketch=None))
    assert Report.from_json(report.to_json()) == report


def test_arrow_schema_is_typed() -> None:
    schema = Report.arrow_schema()
    box = pa.struct(
        [
            ("rows_in", pa.int64()),
            ("rows_out", pa.int64()),
            ("busy_s", pa.float64()),
            ("query", pa.string()),
            ("sic", pa.float64()),
            ("parts", pa.list_(pa.int64())),
        ]
    )
    assert schema.field("format").type == pa.int64()
    assert schema.field("rows_in").type == pa.int64()
    assert schema.field("start_s").type == pa.float64()
    assert schema.field("rows_shed").type == pa.map_(pa.string(), pa.int64())
    assert schema.field("cost_sketch").type == pa.binary()
    assert schema.field("boxes").type == pa.map_(pa.string(), box)
    assert [field.name for field in schema if field.nullable] == [
        "plan_version",
        "source_rows_behind",
        "queuing",
        "cost_sketch",
        "batches_behind",
        "cores_wanted",
    ]


def test_numpy_values_become_plain() -> None:
    made = report(sequence=np.int32(1), end_s=np.float32(3), sic={np.str_("q"): np.float64(0.5)})
    assert made == report(sic={"q": 0.5})
    assert [type(made.sequence), type(made.end_s), type(made.sic["q"])] == [int, float, float]
    assert [type(name) for name in made.sic] == [str]


def test_derived_numbers() -> None:
    made = report(rows_in=9, rows_shed={"a": 1, "b": 3})
    assert (made.shed_total, made.duration_s) == (4, 1.0)
    assert BoxStatistics(4, 6, 0.0).selectivity == 1.5
    assert BoxStatistics(0, 0, 0.0).selectivity is None


def test_nothing_on_a_report_can_change() -> None:
    shed = {"a": 1}
    made = report(rows_kept=4, rows_shed=shed)
    shed["a"] = 2
    assert made.rows_shed == {"a": 1}
    with pytest.raises(FrozenInstanceError):
        made.rows_in = 6  # type: ignore[misc]
    mapping: Any = made.rows_shed
    with pytest.raises(TypeError):
        mapping["a"] = 2
    assert isinstance(mapping, Mapping)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sequence": -1}, "sequence = -1 "),
        ({"sequence": 2**63}, "sequence = 9223372036854775808 "),
        ({"sequence": True}, "sequence = True "),
        ({"sequence": 1.0}, "sequence = 1.0 "),
        ({"sequence": "1"}, "sequence = '1' "),
        ({"sequence": None}, "sequence = None "),
        ({"start_s": -0.1}, "start_s = -0.1 "),
        ({"start_s": math.nan}, "start_s = nan "),
        ({"end_s": math.inf}, "end_s = inf "),
        ({"end_s": 10**400}, "end_s = 1000"),
        ({"end_s": "3"}, "end_s = '3' "),
        ({"end_s": False}, "end_s = False "),
        ({"end_s": np.arange(99)}, "end_s = array("),
        ({"end_s": 1.0}, "end_s = 1.0 is not usable: give seconds from start_s up, 2.0"),
        ({"rows_in": 6}, "rows_in = 6 is not usable: give rows_kept + rows_shed, 5 + 0"),
        ({"rows_kept": 4}, "rows_in = 5 "),
        ({"rows_shed": {"a": 1}}, "rows_in = 5 "),
        ({"rows_shed": {"a": -1}}, "rows_shed['a'] = -1 "),
        ({"rows_shed": {"a\nb": True}}, r"rows_shed['a\nb'] = True "),
        ({"rows_shed": {"": 0}}, "key of rows_shed = '' "),
        ({"rows_shed": {1: 0}}, "key of rows_shed = 1 "),
        ({"rows_shed": {"\ud800": 0}}, r"key of rows_shed = '\ud800' "),
        ({"rows_shed": ["a"]}, "rows_shed = ['a'] "),
        ({"rows_shed": [("a", 0)]}, "rows_shed = [('a', 0)] "),
        ({"rows_shed": None}, "rows_shed = None "),
        ({"backlog_rows": -1}, "backlog_rows = -1 "),
        ({"backlog_age_s": -1.0}, "backlog_age_s = -1.0 "),
        ({"busy_s": math.nan}, "busy_s = nan "),
        ({"overhead_s": -1}, "overhead_s = -1 "),
        ({"slots": 0}, "slots = 0 "),
        ({"rows_must_keep": 10**6}, "rows_kept = "),
        ({"rows_would_shed": {"a": 10**6}}, "rows_kept = "),
        ({"plan_version": -1}, "plan_version = -1 "),
        ({"queuing": 0.5}, "queuing = 0.5 is not usable: give one of type Latency"),
        ({"queuing": {"rows": 1, "mean_s": 0.0}}, "max_s is missing"),
        ({"cost_sketch": "AP8="}, "cost_sketch = 'AP8=' is not usable: give bytes"),
        ({"cost_sketch": {"base64": "*"}}, "cost_sketch = {'base64': '*'} "),
        ({"cost_sketch": {"base64": 1}}, "cost_sketch = {'base64': 1} "),
        ({"cost_sketch": {"hex": "00"}}, "cost_sketch = {'hex': '00'} "),
        ({"boxes": {"a": 1}}, "boxes['a'] = 1 is not usable: give one of type BoxStatistics"),
        ({"sic": {"q": 1.1}}, "sic['q'] = 1.1 is not usable: give a number from 0 to 1"),
        ({"sic": {"q": math.nan}}, "sic['q'] = nan "),
    ],
)
def test_wrong_fields_are_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PenstockError) as caught:
        report(**changes)
    assert_refused(caught, named)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Latency(-1, 0.0, 0.0), "rows = -1 "),
        (lambda: Latency(1, math.nan, 0.0), "mean_s = nan "),
        (lambda: Latency(1, 0.0, -1.0), "max_s = -1.0 "),
        (lambda: BoxStatistics(-1, 0, 0.0), "rows_in = -1 "),
        (lambda: BoxStatistics(1, rows_out=True, busy_s=0.0), "rows_out = True "),
        (lambda: BoxStatistics(1, 0, math.inf), "busy_s = inf "),
        (lambda: replace(report(), rows_in=6), "rows_in = 6 "),
    ],
)
def test_wrong_parts_are_refused_by_name(make: Callable[[], object], named: str) -> None:
    with pytest.raises(PenstockError) as caught:
        make()
    assert_refused(caught, named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "text = '' is not usable: give the JSON of a Report"),
        ("[1]", "text = '[1]' "),
        ("{" * 10**5, "text = '{{{"),
        ("[" * 10**5, "text = '[[["),
        ('{"format":1' + "0" * 5000 + "}", "text = "),
        (None, "text = None "),
        ("{}", "format = None "),
        (document(format=2), "format = 2 is not usable: give 1, the only format this release reads"),
        (document(format=True), "format = True "),
        (document(format=1.0), "format = 1.0 "),
        ('{"format":1,"format":1}', "'format' = '2 values' "),
        ('{"format":1}', "sequence is missing"),
        (document(**{"colour\n": 1}), r"'colour\n' is not a field"),
        (document(sequence=True), "sequence = True "),
        (document(sequence=1.0), "sequence = 1.0 "),
        (document(start_s=math.nan), "start_s = nan "),
        (document(end_s=math.inf), "end_s = inf "),
        (document().replace("3.0", "1e999"), "end_s = inf "),
        (document(rows_shed=[]), "rows_shed = [] "),
        (document(rows_shed=[["a", 1]]), "rows_shed = [['a', 1]] "),
        (document(queuing=[1, 2.0, 3.0]), "queuing = [1, 2.0, 3.0] "),
        (document(queuing={"rows": 1, "mean_s": 0, "max_s": 0, "p99_s": 0}), "'p99_s' is not a field"),
        (document(cost_sketch="AP8="), "cost_sketch = 'AP8=' "),
        (document(boxes={"a": {"rows_in": 1}}), "rows_out is missing"),
    ],
)
def test_wrong_json_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(PenstockError) as caught:
        Report.from_json(text)
    assert_refused(caught, named)


def test_statistics_of_an_operator_need_only_the_fields_that_release_0_1_0_had() -> None:
    box = {"rows_in": 4, "rows_out": 3, "busy_s": 0.5}
    made = report(boxes={"a": BoxStatistics(4, 3, 0.5)})
    assert report(boxes={"a": box}) == made
    assert Report.from_json(document(boxes={"a": box})) == made


def test_a_place_keeps_no_more_rows_than_come() -> None:
    assert PlaceRows(5, 3).rows_shed == 2
    with pytest.raises(PenstockError) as caught:
        report(sources={"a": {"rows_in": 3, "rows_kept": 4, **REST}})
    assert_refused(caught, "rows_kept = 4 is not usable: give at most rows_in, 3")


#: Fields that reports on users' disks may lack.
NEW = {"batches_behind", "cores_wanted"}


def test_reports_of_earlier_builds_are_readable() -> None:
    shorter = {key: value for key, value in json.loads(report().to_json()).items() if key not in NEW}
    assert Report.from_json(json.dumps(shorter)) == report()


@pytest.mark.parametrize("name", sorted(json.loads(report().to_json()).keys() - NEW))
def test_every_field_must_be_there(name: str) -> None:
    shorter = {key: value for key, value in json.loads(report().to_json()).items() if key != name}
    with pytest.raises(PenstockError) as caught:
        Report.from_json(json.dumps(shorter))
    assert_refused(caught, name)


def test_wrong_arrow_is_refused_by_name() -> None:
    table = Report.to_arrow([report()])
    twice = pa.array([[("a", 0), ("a", 0)]], pa.map_(pa.string(), pa.int64()))
    for wrong, named in [
        (table.set_column(6, "rows_shed", twice), "the table has a map with one key twice: "),
        (table.drop_columns(["sic"]), "sic is missing"),
        (table.slice(0, 0).drop_columns(["sic"]), "sic is missing"),
        (table.append_column("colour", pa.array([1])), "'colour' is not a field"),
        (table.set_column(0, "format", pa.array([2])), "format = 2 "),
        (table.set_column(1, "sequence", pa.array(["1"])), "sequence = '1' "),
    ]:
        with pytest.raises(PenstockError) as caught:
            Report.from_arrow(wrong)
        assert_refused(caught, named)
    stranger: Any = "stranger"
    with pytest.raises(PenstockError) as caught:
        Report.to_arrow([report(), stranger])
    assert_refused(caught, "messages[1] = 'stranger' is not usable: give one of type Report")
