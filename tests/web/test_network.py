"""A network's run on disk, and what the page shows of it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.networks import figure_4
from tests.web.test_page import DESK, PHONE, WAIT_MS, expect, tile

from penstock.cli.main import main
from penstock.spark.network.record import Record, drawn
from penstock.views.network.snapshot import Snapshot
from penstock.web.app import Page
from penstock.web.board import Board

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.network.model import Network

NETWORK: Network = figure_4()
DROP = 'keeps <i>value</i> >= 25 and "x"'


def snapshot(batch: int, **more: Any) -> Snapshot:
    flows = NETWORK.flows()
    settings: dict[str, Any] = {
        "batch": batch,
        "time_s": 1000.0 + 2.0 * batch,
        "duration_s": 1.5,
        "rows": {name: round(2.0 * rate) for name, rate in (flows | NETWORK.rates).items()},
        "rates": NETWORK.rates,
        "flows": flows,
        "loads": {arc.name: arc.cost * flows[arc.name] for arc in NETWORK.arcs},
        "load": NETWORK.load(),
        "capacity": 2.0 * NETWORK.load(),
        "headroom": 0.9,
        "drops": {},
        "shed": {},
        "delivered": {one.name: 100.0 for one in NETWORK.outputs},
        "utilities": {one.name: 1.0 for one in NETWORK.outputs},
        "entries": 40,
        "rebuilt": 1,
    }
    return Snapshot(**{**settings, **more})


def overloaded(batch: int) -> Snapshot:
    place = NETWORK.arcs[0].name
    return snapshot(batch, capacity=0.5 * NETWORK.load(), drops={place: DROP}, shed={place: 7}, entry=3)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def record(run: Path) -> Record:
    return Record(run, "halls", NETWORK)


def test_a_run_is_followed_batch_by_batch(run: Path, record: Record) -> None:
    board, cursors = Board([run], clock=lambda: 1010.0), {}
    board.look()
    (first,) = board.news(cursors)
    assert (first["kind"], first["name"], first["head"]["state"]) == ("network", "halls", "waiting")
    record.add(snapshot(0))
    record.add(overloaded(1))
    record.add(overloaded(2))
    board.look()
    (second,) = board.news(cursors)
    assert [point["n"] for point in second["points"]] == [0, 1, 2]
    assert [(one["batch"], one["drops"]) for one in second["decisions"]] == [(1, {NETWORK.arcs[0].name: DROP})]
    head = second["head"]
    assert head["rows_shed"] == {NETWORK.arcs[0].name: 14}
    assert head["rows_in"] == 3 * sum(round(2.0 * rate) for rate in NETWORK.rates.values())
    assert head["verdict"]["level"] == "bad"
    assert head["state"] == "running"
    record.end()
    board.look()
    (third,) = board.news(cursors)
    assert third["head"]["state"] == "ended"


def test_numbers_that_are_none_and_lines_that_are_torn_do_no_harm(run: Path, record: Record) -> None:
    record.add(snapshot(0, load=math.inf, capacity=math.nan))
    with (run / "snapshots.journal").open("a") as file:
        file.write("snapshot {}\nsnapshot [1]\nnonsense\n")
    board = Board([run])
    board.look()
    (log,) = board.news({})
    json.dumps(log, allow_nan=False)
    assert log["points"][0]["load"] is None
    assert log["head"]["unreadable"] == 3


@pytest.mark.parametrize("text", ["{}", "[]", "3", '"x"', "no JSON", '{"network": "halls", "batches": 7}'])
def test_another_file_of_the_drawings_name_is_no_network(tmp_path: Path, run: Path, record: Record, text: str) -> None:
    """`penstock run --out` writes its numbers to a network.json too."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "network.json").write_text(text)
    record.add(snapshot(0))
    board = Board([tmp_path])
    board.look()
    assert [one["name"] for one in board.news({})] == ["halls"]
    (run / "network.json").write_text(text)
    board.look()
    (log,) = board.news({})
    assert (log["head"]["state"], log["head"]["batches"]) == ("gone", 1)


def test_numbers_are_not_written_over_the_drawing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["penstock", "run", "any.yaml", "--folder", "out", "--out", f"{tmp_path}/out"])
    with pytest.raises(SystemExit):
        main()
    assert "give another folder than --folder" in capsys.readouterr().err


def test_a_snapshot_of_another_release_is_left_out(run: Path, record: Record) -> None:
    record.add(snapshot(0))
    line = (run / "snapshots.journal").read_text()
    for change in ('"alarms"', '"rates"', '"entry"'):
        with (run / "snapshots.journal").open("a") as file:
            file.write(line.replace('"batch": 0', '"batch": 1').replace(change, '"renamed"'))
    board = Board([run])
    board.look()
    (log,) = board.news({})
    assert (log["head"]["batches"], log["head"]["unreadable"]) == (1, 3)


def test_a_run_that_is_deleted_is_told_and_another_one_replaces_it(run: Path, record: Record) -> None:
    record.add(snapshot(5))
    board, cursors = Board([run]), {}
    board.look()
    board.news(cursors)
    run.rename(run.parent / "gone")  # if deleted, the system may give the numbers of its files to the new ones
    board.look()
    (gone,) = board.news(cursors)
    assert (gone["head"]["state"], gone["head"]["batches"]) == ("gone", 1)
    Record(run, "other", NETWORK).add(snapshot(0))
    board.look()
    (again,) = board.news(cursors)
    assert again["reset"]
    assert (again["name"], [point["n"] for point in again["points"]]) == ("other", [0])


def test_a_folder_that_cannot_be_written_stops_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record = Record(tmp_path / "file" / "run", "halls", NETWORK)
    record.add(snapshot(0))
    record.end()


def test_every_part_has_its_place_in_the_drawing() -> None:
    found = drawn("halls", NETWORK)
    assert set(found["nodes"]) == set(NETWORK.order)
    assert [arc["name"] for arc in found["arcs"]] == [arc.name for arc in NETWORK.arcs]
    for left, top, width, height in found["nodes"].values():
        assert 0.0 <= left <= left + width <= found["width"]
        assert 0.0 <= top <= top + height <= found["height"]


def test_the_page_draws_drops_and_cursors(chromium: Any, run: Path, record: Record) -> None:
    record.add(snapshot(0))
    context = chromium.new_context(viewport=DESK)
    context.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    with Page(Board([run]), port=0).beside() as address:
        page.goto(address.url)
        expect(tile(page, "Rows in")).to_contain_text("1 batch")
        expect(page.get_by_role("img", name="Nothing is dropped")).to_be_visible()
        expect(page.locator("figcaption")).to_have_count(len(NETWORK.outputs))
        record.add(overloaded(1))
        expect(page.get_by_role("img", name=f"Drops: {NETWORK.arcs[0].name}: {DROP}")).to_be_visible()
        expect(page.locator(".net .disc")).to_have_count(1)
        assert page.locator(".net i").count() == 0
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
    assert wrong == []
