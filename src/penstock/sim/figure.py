"""A reproduced figure: rows, claims and parameters in one shape for every paper."""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

Row = dict[str, Any]
#: Up to this many rows are shown on a page; more are for plots.
_FEW_ROWS = 20


@dataclass(frozen=True, slots=True)
class Claim:
    """One tested sentence of a paper."""

    claim: str
    paper: str
    measured: str
    holds: bool


class Saying(NamedTuple):
    """A sentence and the paper's value; a claim once measured."""

    claim: str
    paper: str

    def measured(self, found: str, holds: bool) -> Claim:  # noqa: FBT001 - the verdict on what was found
        """What was found, in words, and whether the sentence holds."""
        return Claim(self.claim, self.paper, found, holds)


@dataclass(frozen=True, slots=True)
class Figure:
    r"""The data behind one figure and what it shows.

    >>> figure = Figure("las", "4", {"runs": 1}, rows=[{"x": 1, "y": {"mean": 2.0, "min": 1.0}}])
    >>> print(figure.to_csv().strip())
    x,y_mean,y_min
    1,2.0,1.0
    """

    paper: str
    figure: str
    parameters: Row
    rows: list[Row]
    claims: list[Claim] = field(default_factory=list)

    @property
    def name(self) -> str:
        """File name without ending."""
        return f"{self.paper}-{self.figure}"

    def to_dict(self, machine: Row) -> Row:
        """The figure as JSON data; a value that is not a number becomes null."""
        return {
            "paper": self.paper,
            "figure": self.figure,
            "parameters": _plain(self.parameters),
            "rows": [_plain(row) for row in self.rows],
            "claims": [asdict(one) for one in self.claims],
            "machine": machine,
        }

    def to_csv(self) -> str:
        """The rows as CSV, nested values flattened to `name_part`."""
        flat = [dict(_flattened(_plain(row))) for row in self.rows]
        names = list(dict.fromkeys(name for row in flat for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)
        return text.getvalue()


def to_json(figures: list[Figure], machine: Row) -> str:
    """One figure as an object, several as a list of such objects."""
    data = [figure.to_dict(machine) for figure in figures]
    return json.dumps(data[0] if len(data) == 1 else data, indent=2, allow_nan=False) + "\n"


def to_markdown(title: str, figures: list[Figure], made_by: str, machine: str) -> str:
    """A page with every figure's picture, claims and, if they are few, its rows; and how it was made."""
    lines = [f"# {title}", "", f"Made by `{made_by}` on {machine}.", ""]
    for figure in figures:
        lines += [f"## Figure {figure.figure}", "", f"![Figure {figure.figure}]({figure.name}.png)", ""]
        lines += ["| claim | paper says | measured | holds |", "|---|---|---|---|"]
        for claim in figure.claims:
            holds = "yes" if claim.holds else "**no**"
            lines.append(f"| {claim.claim} | {claim.paper} | {claim.measured} | {holds} |")
        lines.append("")
        if len(figure.rows) <= _FEW_ROWS:
            lines += [*_table(figure.rows), ""]
    return "\n".join(lines)


def _table(rows: list[Row]) -> list[str]:
    names = [name for name, value in rows[0].items() if not isinstance(value, dict) or "mean" in value]
    lines = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|---" * len(names) + "|"]
    return lines + ["| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows]


def _cell(value: Any) -> str:  # noqa: ANN401 - JSON data of any shape
    """A value for people; of a spread the mean, with minimum and maximum behind it."""
    if isinstance(value, dict) and "mean" in value:
        return f"{_cell(value['mean'])} ({_cell(value['min'])} to {_cell(value['max'])})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of a column, each once, in order."""
    return list(dict.fromkeys(row[name] for row in rows))


def means(rows: Iterable[Row], names: Sequence[str], column: str, part: str = "mean") -> dict[Any, float]:
    """The means of a column by the values of others, or another part of its spreads.

    >>> means([{"k": 2, "algorithm": "osg", "ms": {"mean": 1.5}}], ("k", "algorithm"), "ms")
    {(2, 'osg'): 1.5}
    """
    return {tuple(row[name] for name in names): float(row[column][part]) for row in rows}


def spread(numbers: Iterable[float]) -> dict[str, float]:
    """Mean, minimum and maximum; NaN for no values.

    >>> spread([1.0, 2.0, 6.0])
    {'mean': 3.0, 'min': 1.0, 'max': 6.0}
    """
    known = [number for number in numbers if not math.isnan(number)]
    if not known:
        return {"mean": math.nan, "min": math.nan, "max": math.nan}
    least, most = min(known), max(known)
    mean = math.fsum(known) / len(known)
    return {"mean": min(max(mean, least), most), "min": least, "max": most}  # equal values: their mean may be rounded


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON data of any shape
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _flattened(row: Row, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}_")
        else:
            yield f"{prefix}{name}", value
