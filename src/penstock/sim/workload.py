r"""Streams to run: the paper's generators (LAS, section 5.1), phases, and recorded streams.

A stream is three columns: the key of each row, what it really costs, and when it arrives. Under-provisioning u fixes
the arrivals: constant gaps of $(1-u)\,\bar w$ with the stream's own mean cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.core.hashing import xxhash64_ints
from penstock.core.rate_profile import RateProfile
from penstock.errors import PenstockError

#: The phases of Figure 6, and how long each is.
PHASES, PHASE_ROWS = "ABCDEFG", 20_000
#: The paper's stream unless it says otherwise.
ROWS, ITEMS, COST_VALUES = 32_768, 4_096, 64
CHEAPEST_S, DEAREST_S = 0.0001, 0.0064
#: Load while a shedder still learns: the paper assumes it is not overloaded then.
CALM_LOAD = 0.9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows in the order they arrive; keys are numbered from 0 to `items` - 1."""

    keys: Ints
    costs_s: Floats
    arrivals_s: Floats
    items: int

    def __post_init__(self) -> None:
        """Refuse columns that do not fit together or cannot be run."""
        if not len(self.keys) == len(self.costs_s) == len(self.arrivals_s):
            lengths = f"{len(self.keys)}, {len(self.costs_s)} and {len(self.arrivals_s)}"
            raise PenstockError(f"keys, costs_s and arrivals_s have {lengths} rows: give columns of one length")
        if not np.all(np.isfinite(self.costs_s) & (np.asarray(self.costs_s) >= 0.0)):
            raise PenstockError("costs_s has negative, infinite or NaN values: give finite seconds from 0 up")
        if not (np.all(np.isfinite(self.arrivals_s)) and np.all(np.diff(self.arrivals_s) >= 0.0)):
            raise PenstockError(
                "arrivals_s has infinite, NaN or falling values: give finite seconds in ascending order"
            )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.keys)

    @property
    def mean_cost_s(self) -> float:
        """The stream's own mean cost."""
        return float(self.costs_s.mean())


@lru_cache(maxsize=32)
def cumulated(distribution: str, items: int) -> Floats:
    """The cumulated probabilities of `uniform` or `zipf-ALPHA` over item ranks 0, 1, ...

    >>> cumulated("zipf-1.0", 3).round(3).tolist()
    [0.545, 0.818, 1.0]
    """
    exponent = _exponent(distribution)
    weights = np.arange(1, items + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(weights / weights.sum())
    total[-1] = 1.0
    total.setflags(write=False)
    return total


def _exponent(distribution: str) -> float:
    if distribution == "uniform":
        return 0.0
    try:
        exponent = float(distribution.removeprefix("zipf-")) if distribution.startswith("zipf-") else -1.0
    except ValueError:
        exponent = -1.0
    if not 0.0 <= exponent < float("inf"):
        raise PenstockError.setting("distribution", distribution, "'uniform' or 'zipf-ALPHA', such as 'zipf-1.0'")
    return exponent


def draw_keys(distribution: str, rows: int, items: int, rng: np.random.Generator) -> Ints:
    """Keys drawn independently; key 0 is the most frequent."""
    return np.searchsorted(cumulated(distribution, items), rng.random(rows), side="right").astype(np.int64)


def item_costs(rng: np.random.Generator, *, items: int = ITEMS, values: int = COST_VALUES) -> Floats:
    """What each item costs: `values` costs at equal distance, each given to items / values random items.

    >>> costs = item_costs(np.random.default_rng(0), items=128)
    >>> [round(float(cost), 4) for cost in np.unique(costs)[[0, 1, -1]]], len(costs)
    ([0.0001, 0.0002, 0.0064], 128)
    """
    if values < 1 or items % values:
        raise PenstockError.setting("values", values, f"a number that divides the {items} items")
    costs = np.repeat(np.linspace(CHEAPEST_S, DEAREST_S, values), items // values)
    rng.shuffle(costs)
    return costs


def arrivals(rows: int, gap_s: float, *, calm_rows: int = 0, calm_gap_s: float = 0.0) -> Floats:
    """Arrival times at constant gaps; the first `calm_rows` rows come at a gap of their own.

    >>> arrivals(4, 1.0, calm_rows=2, calm_gap_s=5.0).tolist()
    [0.0, 5.0, 10.0, 11.0]
    """
    gaps = np.full(rows, gap_s)
    gaps[:calm_rows] = calm_gap_s
    times = np.zeros(rows)
    np.cumsum(gaps[:-1], out=times[1:])
    return times


def phases(seed: int, *, phase_rows: int = PHASE_ROWS) -> Stream:
    """Figure 6: phases A to G, each with an abrupt change of rate, of frequencies or of costs.

    A: rate equal to capacity. B: twice that. C: as A. D: the most frequent item changes places with one that costs
    most. E: 1.5 times over-provisioned. F: back to the rate of D's capacity, every cost doubled. G: as A.
    """
    rng = np.random.default_rng([seed, 6])
    by_item = item_costs(rng)
    dearest = np.flatnonzero(by_item == np.max(by_item))
    swap = int(dearest[dearest > 0][len(dearest) // 2])  # a middling rank: rare, but seen
    share = np.diff(cumulated("zipf-1.0", ITEMS), prepend=0.0)
    swapped = share.copy()
    swapped[[0, swap]] = share[[swap, 0]]
    mean_s, mean_swapped_s = float(share @ by_item), float(swapped @ by_item)
    keys, costs, gaps = [], [], []
    for phase, gap_s in zip(
        PHASES, [mean_s, mean_s / 2, mean_s, mean_s, mean_swapped_s * 1.5, mean_swapped_s, mean_s], strict=True
    ):
        drawn = draw_keys("zipf-1.0", phase_rows, ITEMS, rng)
        if phase in "DEF":
            drawn = np.where(drawn == 0, swap, np.where(drawn == swap, 0, drawn))
        keys.append(drawn)
        costs.append(by_item[drawn] * (2.0 if phase == "F" else 1.0))
        gaps.append(np.full(phase_rows, gap_s))
    times = np.concatenate([[0.0], np.cumsum(np.concatenate(gaps))[:-1]])
    return Stream(np.concatenate(keys), np.concatenate(costs), times, ITEMS)


def under_loads(phases: Sequence[tuple[float, float]], seed: int, *, items: int, cores: int) -> Stream:
    """Zipf-1.0 keys in phases of a length in seconds and a load as a multiple of the capacity of these cores."""
    rng = np.random.default_rng(seed)
    costs_s = item_costs(rng, items=items)
    mean_s = float(np.diff(cumulated("zipf-1.0", items), prepend=0.0) @ costs_s)
    lengths_s, loads = zip(*phases, strict=True)
    profile = RateProfile(lengths_s, tuple(load * cores / mean_s for load in loads))
    arrivals_s = profile.arrival_s(np.arange(profile.rows_by(sum(lengths_s))))
    keys = draw_keys("zipf-1.0", len(arrivals_s), items, rng)
    return Stream(keys, costs_s[keys], arrivals_s, items)


#: Section 5.3: what decorating a tweet costs for each kind of entity it mentions: others, politicians, media.
MENTION_COSTS_S = (0.001, 0.005, 0.025)
#: How often each kind is mentioned. The paper does not say; fitted, with the two below, to what it does say.
MENTION_SHARES = (0.632, 0.213, 0.155)
#: Stated of the stream: distinct entities, share of the most frequent one, costliest tweet.
MENTION_ENTITIES, MENTION_TOP_SHARE, MENTION_DEAREST_S = 35_000, 0.065, 0.152
#: Tweets with one mention, and the chance of each mention beyond the second. With these the stated mean (9.7 ms) and
#: share of 1 ms tweets (36 percent) come out.
_SINGLE_SHARE, _ANOTHER = 0.57, 0.42


def mentions(seed: int, *, rows: int = 500_000) -> tuple[Ints, Floats, int]:
    """Keys, costs and number of keys of a stream like the paper's tweets (section 5.3, Figure 7).

    A tweet mentions one or more entities; its key is the set of them, its cost the sum over them.
    """
    rng = np.random.default_rng([seed, 7])
    share = np.diff(
        cumulated(f"zipf-{exponent_for_top(MENTION_TOP_SHARE, MENTION_ENTITIES)}", MENTION_ENTITIES), prepend=0.0
    )
    kind = _kinds_by_share(share, rng)
    counts = np.where(rng.random(rows) < _SINGLE_SHARE, 1, 1 + rng.geometric(1.0 - _ANOTHER, rows))
    owner = np.repeat(np.arange(rows), counts)
    entity = np.searchsorted(np.cumsum(share), rng.random(len(owner)), side="right").clip(max=MENTION_ENTITIES - 1)
    cost = np.bincount(owner, np.asarray(MENTION_COSTS_S)[kind[entity]], rows).astype(np.float64)
    key = np.zeros(rows, np.uint64)
    np.add.at(key, owner, xxhash64_ints(entity).view(np.uint64))  # the same entities in any order, the same key
    fits = cost <= MENTION_DEAREST_S + 1e-9
    kept = np.flatnonzero(fits)
    # A more expensive tweet is replaced by another.
    filled = np.where(fits, np.arange(rows), kept[np.arange(rows) % len(kept)])
    distinct, numbered = np.unique(key[filled], return_inverse=True)
    return numbered.astype(np.int64), cost[filled], len(distinct)


def mention_costs(items: int, seed: int) -> Floats:
    """Costs of the entities of a recorded stream: each item is given one of the three kinds at random."""
    kinds = np.random.default_rng([seed, 8]).choice(len(MENTION_COSTS_S), size=items, p=MENTION_SHARES)
    return np.asarray(MENTION_COSTS_S)[kinds]


def exponent_for_top(top_share: float, items: int) -> float:
    """The Zipf exponent at which the first of `items` has this share, by bisection."""
    low, high = 0.0, 4.0
    for _ in range(50):
        middle = (low + high) / 2.0
        if 1.0 / np.sum(np.arange(1, items + 1, dtype=np.float64) ** -middle) < top_share:
            low = middle
        else:
            high = middle
    return low


def _kinds_by_share(share: Floats, rng: np.random.Generator) -> Ints:
    """A kind for every entity so that each kind gets its share of all mentions: always to the kind that lacks most."""
    kinds = np.empty(len(share), np.int64)
    lacking = np.asarray(MENTION_SHARES) * (1.0 + rng.uniform(-0.001, 0.001, len(MENTION_SHARES)))
    order = np.concatenate([rng.permutation(100), np.arange(100, len(share))])
    for entity in order:
        kinds[entity] = int(np.argmax(lacking))
        lacking[kinds[entity]] -= share[entity]
    return kinds


def read_keys(path: Path, column: str) -> tuple[Ints, int]:
    """The keys of a recorded stream, numbered in order of first appearance, and how many there are."""
    table = read_columns(path, [column])
    if not table.num_rows:
        raise PenstockError(f"{path} has no rows: give a recorded stream with at least one")
    values = table.column(column).combine_chunks()
    try:
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        encoded = plain.dictionary_encode()
    except pa.ArrowException:
        raise PenstockError(
            f"column {column!r} of {path} is {values.type}: give a key column of plain values"
        ) from None
    if encoded.null_count:
        raise PenstockError(f"column {column!r} of {path} has {encoded.null_count} nulls: give a column without nulls")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def read_costs(path: Path, column: str) -> Floats:
    """The costs of a recorded stream, in milliseconds there and in seconds here."""
    values = read_columns(path, [column]).column(column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise PenstockError(f"column {column!r} of {path} is {values.type}: give a column of costs in milliseconds")
    costs: Floats = values.to_numpy().astype(np.float64) / 1e3
    if not (np.isfinite(costs).all() and (costs >= 0.0).all() and costs.any()):
        raise PenstockError(
            f"column {column!r} of {path} has nulls, negative or only zero costs: give costs from 0 ms up"
        )
    return costs


def read_arrivals(path: Path, column: str) -> Floats:
    """When the rows of a recorded stream came, in seconds after the first; from timestamps or numbers of seconds."""
    values = read_columns(path, [column]).column(column)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
        unit = 1e-6
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        unit = 1.0
    else:
        raise PenstockError(f"column {column!r} of {path} is {values.type}: give timestamps or seconds")
    if values.null_count:
        raise PenstockError(f"column {column!r} of {path} has {values.null_count} nulls: give a column without nulls")
    moments = values.to_numpy()
    times: Floats = (moments - moments[0]).astype(np.float64) * unit
    if not np.all(np.diff(times) >= 0.0):
        raise PenstockError(f"column {column!r} of {path} is not in ascending order: sort the rows by it")
    return times


#: How a file of the other kind is named.
OTHER_KIND = {"CSV": "Parquet has another name than .csv or .csv.gz", "Parquet": "CSV is named .csv or .csv.gz"}


def read_columns(path: Path, columns: list[str]) -> pa.Table:
    """Columns of a Parquet file, or of a CSV file (named .csv or .csv.gz) with a line of names; or one clear error."""
    kind = "CSV" if path.name.endswith((".csv", ".csv.gz")) else "Parquet"
    try:
        whole = pyarrow.csv.read_csv(path) if kind == "CSV" else None
        present = pq.read_schema(path).names if whole is None else whole.schema.names
        missing = [column for column in columns if column not in present]
        if missing:
            raise PenstockError.setting("column", missing[0], f"one of the columns of {path}: {', '.join(present)}")
        return pq.read_table(path, columns=columns) if whole is None else whole.select(columns)
    except FileNotFoundError:
        raise PenstockError.setting("data", str(path), f"an existing {kind} file") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        accepted = f"a readable {kind} file ({OTHER_KIND[kind]})"
        raise PenstockError.setting("data", str(path), accepted, f"reading failed: {reason}") from None
