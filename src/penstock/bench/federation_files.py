"""The federation of the benchmark: three sites, queries of two and three fragments in chains and a tree, one starved.

Site `east` can take a tenth of its rows. Queries `cov` and `cnt` have no fragment there; they feel it only through the
sites that they share with queries that have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.fairness.sites.planner import Policy

SITES = ("west", "north", "east")
#: Rows a second that each site can take.
CAPACITY = {"west": 400, "north": 450, "east": 90}
INTERVAL_S, WINDOW_S = 1.0, 10.0


@dataclass(frozen=True)
class Part:
    """A fragment: where it is, rows a second of its source, the sites whose fragments feed it."""

    site: str
    rows_per_s: int
    feeders: tuple[str, ...] = ()


#: By query, the root last.
QUERIES = {
    "cov": (Part("west", 300), Part("north", 200, ("west",))),
    "cnt": (Part("north", 100), Part("west", 200, ("north",))),
    "max": (Part("east", 350), Part("west", 150, ("east",))),
    "avg": (Part("west", 200), Part("east", 250), Part("north", 150, ("west", "east"))),
    "top": (Part("east", 300), Part("west", 150, ("east",)), Part("north", 0, ("west",))),
}
PARTS = [part for parts in QUERIES.values() for part in parts]
_LINKED = "host bigint, total double, n double"
#: Both the rows of the source and those of links, as sums by host; kept rows represent shed ones.
_OWN = (
    "SELECT value % 10 AS host, penstock_weight * (pmod(xxhash64(value), 100)) AS total, penstock_weight AS n FROM own"
)
_SUMS = "SELECT host, sum(total) AS total, sum(n) AS n FROM ({}) GROUP BY host"
_RESULTS = {
    "cov": "SELECT covar_pop(total / n, n) AS cov FROM ({})",
    "cnt": "SELECT sum(n) AS n FROM ({})",
    "max": "SELECT max(total / n) AS highest FROM ({})",
    "avg": "SELECT sum(total) / sum(n) AS mean FROM ({})",
    "top": "SELECT host, total FROM ({}) ORDER BY total DESC LIMIT 5",
}


def sources(query: str) -> int:
    """How many sources a query has."""
    return sum(part.rows_per_s > 0 for part in QUERIES[query])


def write(folder: Path, transport: dict[str, Any], policy: Policy) -> dict[str, Path]:
    """Write the site files; their paths, by site."""
    found = {}
    for site in SITES:
        fragments = {
            f"{query}-{site}": _fragment(query, part, root=number == len(parts) - 1, out=folder / "results" / query)
            for query, parts in QUERIES.items()
            for number, part in enumerate(parts)
            if part.site == site
        }
        own = sorted({str(one["query"]) for one in fragments.values()})
        content = {
            "site": site,
            "sites": list(SITES),
            "transport": transport,
            "folder": str(folder / site),
            "interval": INTERVAL_S,
            "window": WINDOW_S,
            "capacity": float(CAPACITY[site]),
            "policy": policy,
            "queries": {query: {"sources": sources(query)} for query in own},
            "fragments": fragments,
        }
        found[site] = folder / f"{site}.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        found[site].write_text(yaml.safe_dump(content, sort_keys=False, width=200), encoding="utf-8")
    return found


def _fragment(query: str, part: Part, *, root: bool, out: Path) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    rows = []
    if part.rows_per_s:
        inputs["own"] = {"format": "rate", "options": {"rowsPerSecond": part.rows_per_s, "numPartitions": 1}}
        rows.append(_OWN)
    for feeder in part.feeders:
        inputs[f"from_{feeder}"] = {"from": f"{query}-{feeder}", "site": feeder, "schema": _LINKED}
        rows.append(f"SELECT host, total, n FROM from_{feeder}")  # noqa: S608 - a name of our own
    sums = _SUMS.format(" UNION ALL ".join(rows))
    if not root:
        return {"query": query, "inputs": inputs, "sql": sums}
    sink = {"format": "json", "options": {"path": str(out)}}
    return {"query": query, "inputs": inputs, "sql": _RESULTS[query].format(sums), "to": sink}
