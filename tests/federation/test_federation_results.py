"""The benchmark of the federation: the page shows what was measured, and the bars were reached."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("federation_tables", ROOT / "scripts" / "federation_tables.py")
assert SPEC is not None
assert SPEC.loader is not None
shown = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(shown)


def test_the_page_shows_what_was_measured() -> None:
    assert shown.tables() in (ROOT / "docs" / "federation.md").read_text(encoding="utf-8")


def test_sic_is_even_and_more_so_than_with_random_shedding() -> None:
    fair, by_chance = shown.result("federation")["rows"]
    assert (fair["policy"], by_chance["policy"]) == ("balance", "random")
    assert fair["jain"] >= 0.9
    assert fair["jain_instant"] >= 0.9
    assert fair["jain_instant"] > by_chance["jain_instant"]
    assert fair["poorest"] > 1.5 * by_chance["poorest"]


def test_sites_converge_again_after_each_fault() -> None:
    rows = {row["when"]: row for row in shown.result("federation-faults")["rows"]}
    assert len(rows) == 5
    for when, row in rows.items():
        if "away" not in when:
            assert row["jain"] >= 0.9, when


@pytest.mark.parametrize("name", ["federation", "federation-faults"])
def test_no_row_is_lost_beyond_what_was_shed(name: str) -> None:
    found = shown.result(name)
    for account in [row["account"] for row in found["rows"] if "account" in row] or [found["account"]]:
        assert account["balances"]
        assert account["faults"] == []
        assert account["lost"] == 0
        assert account["source_rows"]["produced"] == account["source_rows"]["taken"] > 0
        assert all(one["rows_in"] == one["kept"] + one["shed"] for one in account["inputs"].values())
        assert any(one["shed"] for one in account["inputs"].values())
