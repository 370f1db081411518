import json
import math
import pickle
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.messages.plan import (
    Backlog,
    Binding,
    Costs,
    Effect,
    Fits,
    KeepTable,
    OwnCost,
    Plan,
    RowSic,
    Rules,
)
from penstock.messages.report import Report

#: Fields that plans of earlier releases do not have.
LATER = {"sic", "fits", "query", "rows_per_offset", "memory", "drops", "entry", "queries", "elapsed_s"}

seconds = st.floats(0, allow_infinity=False, allow_nan=False)
shares = st.floats(0, 1)
names = st.text(min_size=1, max_size=8)


@st.composite
def keep_tables(draw: st.DrawFn) -> KeepTable:
    keep = draw(st.lists(shares, min_size=1, max_size=5))
    one_reason = draw(st.booleans())
    reasons = [draw(names)] if one_reason else [draw(st.text() if share == 1 else names) for share in keep]
    return KeepTable(draw(names), tuple(keep), tuple(reasons))


@st.composite
def costs(draw: st.DrawFn) -> Costs:
    partitions, buckets = draw(st.integers(1, 5)), 2 ** draw(st.integers(0, 3))
    own = st.builds(OwnCost, st.integers(0, partitions - 1), st.integers(0, buckets - 1), seconds)
    factors = draw(st.just([]) | st.lists(st.floats(0.1, 10), min_size=partitions, max_size=partitions))
    cost_s = draw(st.lists(seconds, min_size=buckets, max_size=buckets))
    return Costs(draw(names), partitions, tuple(cost_s), tuple(factors), tuple(draw(st.lists(own, max_size=3))))


plans = st.builds(
    Plan,
    version=st.integers(0, 2**63 - 1),
    policy=names,
    decided_s=seconds,
    salt=st.integers(-(2**63), 2**63 - 1),
    gates=st.lists(keep_tables(), max_size=3, unique_by=lambda table: table.place).map(tuple),
    costs=st.lists(costs(), max_size=3, unique_by=lambda one: one.place).map(tuple),
    sic=st.lists(
        st.builds(RowSic, names, st.lists(shares, min_size=1, max_size=4).map(tuple)),
        max_size=3,
        unique_by=lambda one: one.place,
    ).map(tuple),
    expected=st.none() | st.builds(Effect, shares, st.none() | seconds),
    fits=st.none() | st.builds(Fits, st.floats(0.001, 1e9), st.none() | st.floats(0.001, 1e9)),
    note=st.text(max_size=8),
)


def table(place: str = "source") -> KeepTable:
    return KeepTable(place, (0.5,), ("over capacity",))


def plan(**changes: object) -> Plan:
    fields: dict[str, object] = {
        "version": 1,
        "policy": "p",
        "decided_s": 2.0,
        "salt": 3,
        "gates": (table(),),
    }
    return Plan(**fields | changes)  # type: ignore[arg-type]


def document(**changes: object) -> str:
    return json.dumps(json.loads(plan().to_json()) | changes)


def assert_refused(caught: pytest.ExceptionInfo[PenstockError], named: str) -> None:
    assert str(caught.value).startswith(named)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


@given(plans)
def test_json_and_pickle_lose_nothing(original: Plan) -> None:
    text = original.to_json()
    copy = Plan.from_json(text)
    assert copy == original
    assert hash(copy) == hash(original)
    assert copy.to_json() == text
    assert "\n" not in text
    assert pickle.loads(pickle.dumps(original)) == original  # noqa: S301, our own bytes


@given(st.lists(plans, max_size=3))
def test_arrow_loses_nothing(originals: list[Plan]) -> None:
    arrow = Plan.to_arrow(originals)
    arrow.validate(full=True)
    assert arrow.schema == Plan.arrow_schema()
    assert Plan.from_arrow(arrow) == originals


@pytest.mark.parametrize("originals", [[], [plan(), plan(expected=Effect(0.5, None)), plan(gates=())]])
def test_parquet_loses_nothing(originals: list[Plan], tmp_path: Path) -> None:
    pq.write_table(Plan.to_arrow(originals), tmp_path / "plans.parquet")
    assert Plan.from_arrow(pq.read_table(tmp_path / "plans.parquet")) == originals


def test_json_is_canonical() -> None:
    assert plan(decided_s=2, expected=Effect(1, None)).to_json() == (
        '{"costs":[],"decided_s":2.0,"drops":[],"elapsed_s":0.0,"entry":0,'
        '"expected":{"keep_share":1.0,"queuing_latency_s":null},"fits":null,"format":1,'
        '"gates":[{"keep":[0.5],"place":"source","reasons":["over capacity"]}],"memory":"","note":"","policy":"p",'
        '"queries":[],"query":"","rows_per_offset":null,"salt":3,"sic":[],"version":1}'
    )


def test_arrow_schema_is_typed() -> None:
    schema = Plan.arrow_schema()
    gate = pa.struct([("place", pa.string()), ("keep", pa.list_(pa.float64())), ("reasons", pa.list_(pa.string()))])
    assert schema.field("version").type == pa.int64()
    assert schema.field("salt").type == pa.int64()
    assert schema.field("decided_s").type == pa.float64()
    assert schema.field("gates").type == pa.list_(gate)
    assert [field.name for field in schema if field.nullable] == ["expected", "fits", "rows_per_offset"]


def test_numpy_arrays_and_lists_become_tuples() -> None:
    made = KeepTable("source", np.array([1.0, 0.5]), ["busy"])  # type: ignore[arg-type]
    assert made == KeepTable("source", (1.0, 0.5), ("busy",))
    assert [type(share) for share in made.keep] == [float, float]


def test_reason_of_a_bucket() -> None:
    assert KeepTable("a", (0.0, 1.0), ("busy",)).reason(1) == "busy"
    assert KeepTable("a", (0.0, 1.0), ("busy", "")).reason(1) == ""
    for bucket in (-1, 1):
        with pytest.raises(PenstockError) as caught:
            table().reason(bucket)
        assert_refused(caught, f"bucket = {bucket} is not usable: give a bucket from 0 to 0")


def test_gate_of_a_place() -> None:
    made = plan(gates=(table("a"), table("b")))
    assert made.gate("b") == table("b")
    assert made.gate("c") is None


def test_costs_of_a_place() -> None:
    here = Costs("a", 2, (0.5,))
    made = plan(costs=(here,))
    assert made.costs_at("a") == here
    assert made.costs_at("b") is None


def test_keep_all_sheds_nothing() -> None:
    made = Plan.keep_all(4, "start", 1.5)
    assert (made.version, made.policy, made.decided_s, made.salt) == (4, "start", 1.5, 0)
    assert (made.gates, made.costs, made.expected) == ((), (), Effect(1.0))


def test_nothing_on_a_plan_can_change() -> None:
    with pytest.raises(FrozenInstanceError):
        plan().version = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": -1}, "version = -1 "),
        ({"version": True}, "version = True "),
        ({"version": 2**63}, "version = 9223372036854775808 "),
        ({"policy": ""}, "policy = '' "),
        ({"policy": 7}, "policy = 7 "),
        ({"decided_s": -1.0}, "decided_s = -1.0 "),
        ({"decided_s": math.nan}, "decided_s = nan "),
        ({"salt": 2**63}, "salt = 9223372036854775808 "),
        ({"salt": -(2**63) - 1}, "salt = -9223372036854775809 "),
        ({"salt": 0.0}, "salt = 0.0 "),
        ({"gates": None}, "gates = None is not usable: give a sequence"),
        ({"gates": {}}, "gates = {} "),
        ({"gates": "source"}, "gates = 'source' "),
        ({"gates": [1]}, "gates[0] = 1 is not usable: give one of type KeepTable"),
        ({"gates": (table(), table())}, "gates = 'source' is not usable: give each place once"),
        ({"costs": [table()]}, "costs[0] = KeepTable("),
        ({"costs": (Costs("a", 1, (0.5,)),) * 2}, "costs = 'a' "),
        ({"sic": (RowSic("a", (0.5,)),) * 2}, "sic = 'a' "),
        ({"expected": 0.5}, "expected = 0.5 is not usable: give one of type Effect"),
        ({"note": None}, "note = None "),
        ({"note": "\udfff"}, r"note = '\udfff' "),
    ],
)
def test_wrong_fields_are_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(PenstockError) as caught:
        plan(**changes)
    assert_refused(caught, named)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: KeepTable("", (1.0,), ("",)), "place = '' "),
        (lambda: KeepTable("a", (), ("",)), "keep = () "),
        (lambda: KeepTable("a", cast("Any", 0.5), ("busy",)), "keep = 0.5 is not usable: give a sequence"),
        (
            lambda: KeepTable("a", (1.0, 1.5), ("busy",)),
            "keep[1] = 1.5 is not usable: give a number from 0 to 1",
        ),
        (lambda: KeepTable("a", (-0.5,), ("busy",)), "keep[0] = -0.5 "),
        (lambda: KeepTable("a", (math.nan,), ("busy",)), "keep[0] = nan "),
        (lambda: KeepTable("a", (1.0,), cast("Any", "busy")), "reasons = 'busy' "),
        (lambda: KeepTable("a", (1.0,), ()), "reasons = () "),
        (lambda: KeepTable("a", (1.0,) * 3, ("x", "y")), "reasons = ('x', 'y') "),
        (
            lambda: KeepTable("a", (1.0, 0.9), ("",)),
            "reasons = ('',) is not usable: give a reason for bucket 1",
        ),
        (lambda: KeepTable("a", (1.0, 0.9), ("x", "")), "reasons = ('x', '') "),
        (lambda: Costs("", 1, (0.5,)), "place = '' "),
        (lambda: Costs("a", 0, (0.5,)), "partitions = 0 "),
        (lambda: Costs("a", 2, ()), "cost_s = () "),
        (lambda: Costs("a", 2, (1.0,) * 3), "cost_s = (1.0, 1.0, 1.0) is not usable: give a cost for each of a power"),
        (lambda: Costs("a", 2, (1.0, -1.0)), "cost_s[1] = -1.0 "),
        (
            lambda: Costs("a", 2, (1.0,), (1.0,)),
            "factors = (1.0,) is not usable: give one for each of the 2 partitions",
        ),
        (lambda: Costs("a", 2, (1.0,), (1.0, 0.0)), "factors[1] = 0.0 is not usable: give a finite number above 0"),
        (lambda: Costs("a", 2, (1.0,), own=(OwnCost(2, 0, 1.0),)), "own[0] = 2 is not usable: give a partition from 0"),
        (lambda: Costs("a", 2, (1.0,), own=(OwnCost(1, 1, 1.0),)), "own[0] = 1 is not usable: give a bucket from 0"),
        (lambda: Effect(1.5), "keep_share = 1.5 "),
        (lambda: Effect(0.5, -1.0), "queuing_latency_s = -1.0 "),
    ],
)
def test_wrong_parts_are_refused_by_name(make: Callable[[], object], named: str) -> None:
    with pytest.raises(PenstockError) as caught:
        make()
    assert_refused(caught, named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("null", "text = 'null' is not usable: give the JSON of a Plan"),
        (document(format="1"), "format = '1' "),
        (document(colour=1), "'colour' is not a field"),
        (document(version=1.0), "version = 1.0 "),
        (document(version=True), "version = True "),
        (document(decided_s=math.nan), "decided_s = nan "),
        (document(gates=[[]]), "gates[0] = [] "),
        (document(gates=[{"place": "a", "keep": [1.0]}]), "reasons is missing"),
        (document(gates=[{"place": "a", "keep": [True], "reasons": ["x"]}]), "keep[0] = True "),
        (document(expected={"keep_share": 1.0}), "queuing_latency_s is missing"),
    ],
)
def test_wrong_json_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(PenstockError) as caught:
        Plan.from_json(text)
    assert_refused(caught, named)


@pytest.mark.parametrize("name", [name for name in json.loads(plan().to_json()) if name not in LATER])
def test_every_field_must_be_there(name: str) -> None:
    shorter = {key: value for key, value in json.loads(plan().to_json()).items() if key != name}
    with pytest.raises(PenstockError) as caught:
        Plan.from_json(json.dumps(shorter))
    assert_refused(caught, name)


def test_sic_is_found_by_its_place() -> None:
    made = plan(sic=(RowSic("source", (0.5, 0.25)),))
    assert made.sic_at("source") == RowSic("source", (0.5, 0.25))
    assert made.sic_at("elsewhere") is None


def test_a_plan_that_release_0_1_0_wrote_is_read() -> None:
    """Its JSON, as that release wrote it; assignments have no successor, and none of its policies made any."""
    text = (
        '{"assignments":[],"decided_s":12.0,"expected":{"keep_share":0.75,"queuing_latency_s":0.5},"format":1,'
        '"gates":[{"keep":[0.5,1.0],"place":"source","reasons":["busy",""]}],'
        '"note":"n","policy":"uniform","salt":42,"version":3}'
    )
    gate, expected = KeepTable("source", (0.5, 1.0), ("busy", "")), Effect(0.75, 0.5)
    assert Plan.from_json(text) == Plan(3, "uniform", 12.0, 42, gates=(gate,), expected=expected, note="n")
    assigned = text.replace("[]", '[{"place":"a","partitions":1,"partition":[0]}]', 1)
    with pytest.raises(PenstockError, match="'assignments' is not a field"):
        Plan.from_json(assigned)


@pytest.mark.parametrize("message", [Plan, Binding, Rules, Report, KeepTable, Backlog])
def test_a_default_has_the_form_in_which_it_is_stored_as_it_is_not_checked_again(message: Any) -> None:
    for one in fields(message):
        if one.default is not MISSING:
            stored = message.kinds[one.name].accept(one.default, one.name)
            assert (type(stored), stored) == (type(one.default), one.default), one.name
