"""The notebook: it runs, its outputs are kept, and they are of the kind that it makes."""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from types import ModuleType


ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "tour.ipynb"


def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_notebook", ROOT / "scripts" / "run_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kinds(outputs: list[dict[str, Any]]) -> list[object]:
    return [sorted(one["data"]) if "data" in one else one["name"] for one in outputs]


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.usefixtures("spark")  # the notebook finds this session and makes none of its own
def test_the_tour_runs_and_its_answers_hold() -> None:
    notebook, names = json.loads(TOUR.read_text(encoding="utf-8")), {"__name__": "__main__"}

    made: Any = runner().run(notebook, names)

    assert [kinds(cell["outputs"]) for cell in code_cells(notebook)] == [kinds(outputs) for outputs in made]
    found: dict[str, Any] = names
    assert len(found["watched"].history()) >= 2
    assert found["watched"].totals.rows_shed == {}
    assert len(found["guarded"].history()) >= 6
    assert sum(found["totals"].rows_shed.values()) > 0

    assert found["kept"].where("key % 100 = 7").count() == found["everything"].where("key % 100 = 7").count()
    # Not of 95 in 100 times, but of five standard errors: a test must not fail by chance.
    for name in ("rows", "sum", "mean"):
        assert abs(found["found"][name]["estimate"] - found["truth"][name]) <= 5.0 * found["found"][name]["error"]


def test_outputs_are_kept_and_nobody_is_named_in_them() -> None:
    notebook = json.loads(TOUR.read_text(encoding="utf-8"))

    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    pictures = [
        base64.b64decode(output["data"]["image/png"])
        for cell in code_cells(notebook)
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 2
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    printed = "".join("".join(out.get("text", ())) for cell in code_cells(notebook) for out in cell["outputs"])
    assert "rows in = " in printed
    assert "/" not in printed.replace("%", "")


def test_a_cell_keeps_what_is_printed_drawn_and_left_over() -> None:
    cells = [
        {"cell_type": "code", "source": ["x = 2\n", "print('hello')\n", "x + 1"]},
        {"cell_type": "markdown", "source": ["x"]},
        {"cell_type": "code", "source": ["import matplotlib.pyplot as plt\n", "plt.plot([x]);"]},
    ]
    first, second = runner().run({"cells": cells}, {})

    assert first[0] == {"output_type": "stream", "name": "stdout", "text": ["hello\n"]}
    assert first[1]["data"] == {"text/plain": ["3"]}
    assert kinds(second)[0] == ["image/png"]
