"""Runs a notebook of plain Python in this process and keeps its outputs: what is printed, and pictures of matplotlib.

A kernel and its messages are not needed for that, and a test can run the notebook beside others on one Spark session.

    python scripts/run_notebook.py examples/tour.ipynb
"""

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib as mpl

Output = dict[str, Any]


def run(notebook: dict[str, Any], names: dict[str, Any]) -> list[list[Output]]:
    """Run all code cells in `names`; the outputs of each, as a notebook keeps them."""
    mpl.use("Agg")
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_outputs("".join(cell["source"]), number, names) for number, cell in enumerate(cells, start=1)]


def _outputs(source: str, number: int, names: dict[str, Any]) -> list[Output]:
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    tree = ast.parse(source, f"cell {number}")
    left_over = tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if left_over else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - the notebook is ours; running it is the point
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307 - the same
    outputs: list[Output] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    pictures = [_png(plt.figure(number)) for number in plt.get_fignums()]
    outputs += [{"output_type": "display_data", "data": {"image/png": png}, "metadata": {}} for png in pictures]
    plt.close("all")
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}})
    return outputs


def _png(figure: Any) -> str:  # noqa: ANN401 - a figure of matplotlib
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=90, metadata={"Software": None})
    return base64.b64encode(png.getvalue()).decode()


def keep(notebook: dict[str, Any], outputs: list[list[Output]]) -> None:
    """Put outputs into the notebook."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, made) in enumerate(zip(cells, outputs, strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, made


def main() -> None:
    """Run the notebook named on the command line, and write it with its outputs."""
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text(encoding="utf-8"))
    keep(notebook, run(notebook, {"__name__": "__main__"}))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
