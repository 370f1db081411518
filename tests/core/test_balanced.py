"""The policy of utility per cycle, planned batch by batch on virtual time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.core.balanced.policy import Balanced
from penstock.core.balanced.worth import Worth
from penstock.core.control.allotment import POOR
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.policies import LoadAware, Policy, RandomShed
from penstock.core.control.targets import MeanQueueLatency, Throughput
from penstock.core.hashing import xxhash64_ints
from penstock.errors import PenstockError
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.workload import Stream

TARGET = MeanQueueLatency("2 s")
WORTH = Worth("value", [(0, 0.6, 0.1), (0.6, 1, 1.0)])
SECONDS, LOAD, CORES = 60.0, 2.0, 2


def stream(seed: int = 3, kinds: int = 300, least_s: float = 0.002) -> tuple[Stream, NDArray[np.float64]]:
    """Keys that cost 2, 8 or 32 ms, and values that have nothing to do with keys, at twice what can be done."""
    rng = np.random.default_rng(seed)
    by_key = least_s * 4.0 ** rng.integers(0, 3, kinds)
    rate = LOAD * CORES / by_key.mean()
    rows = int(rate * SECONDS)
    keys = rng.integers(0, kinds, rows)
    return Stream(keys, by_key[keys], np.arange(rows) / rate, kinds), rng.random(rows)


def run(
    policy: Policy,
    target: MeanQueueLatency | Throughput = TARGET,
    given: tuple[Stream, NDArray[np.float64]] | None = None,
) -> tuple[Run, NDArray[np.float64]]:
    """The run, and what its rows are worth."""
    rows, values = given or stream()
    worth = policy.worth if isinstance(policy, Balanced) else None

    def hashes(some: Stream) -> NDArray[np.int64]:
        by_key = xxhash64_ints(some.keys)
        return by_key if worth is None else worth.strata(by_key, values)

    return simulate(policy.planner(target), rows, replace(Query(), gate_hashes=hashes)), np.where(
        values > 0.6, 1.0, 0.1
    )


def utility(done: Run, worth: NDArray[np.float64]) -> float:
    """The share of what came that was kept, once costs are known."""
    late = done.stream.arrivals_s > 20.0
    return float(worth[late & done.kept].sum() / worth[late].sum())


def test_it_holds_the_target_and_delivers_more_than_policies_that_know_less() -> None:
    delivered = {}
    for name, policy in {
        "random": RandomShed(),
        "cost alone": LoadAware(prefer="cheap"),
        "both": Balanced(value=WORTH),
    }.items():
        done, worth = run(policy)
        waits = [float(waits_s.mean()) for start_s, waits_s in done.waits_by_window().items() if start_s >= 20.0]
        assert max(waits) <= TARGET.limit_s
        delivered[name] = utility(done, worth)
    assert delivered["both"] > 1.04 * delivered["cost alone"] > 1.04 * 1.5 * delivered["random"]


def test_it_holds_the_target_while_most_kinds_of_rows_were_never_seen() -> None:
    """Some hundred rows of 1,024 classes in the first windows: what was not seen is not free."""
    done, _ = run(Balanced(value=WORTH), given=stream(kinds=600, least_s=0.006))
    waits_s = {start_s: float(waits.mean()) for start_s, waits in done.waits_by_window().items()}
    assert max(waits_s.values()) <= TARGET.limit_s


def test_without_values_it_keeps_the_cheapest_rows() -> None:
    cheap, worth = run(LoadAware(prefer="cheap"))
    balanced, _ = run(Balanced())
    assert utility(balanced, np.ones(len(worth))) == pytest.approx(utility(cheap, np.ones(len(worth))), rel=0.02)


def test_no_class_disappears_and_weights_add_up() -> None:
    done, _ = run(Balanced(value=WORTH, min_keep=0.05))
    sheds = [plan for plan in done.plans if plan.gates]
    assert sheds
    for plan in sheds:
        table = plan.gates[0]
        assert table.buckets == BUCKETS
        assert min(table.keep) >= 0.05
        assert table.reasons == (POOR,)
    rows_in = sum(report.rows_in for report in done.reports)
    assert rows_in == len(done.kept)
    assert rows_in == sum(report.rows_kept + report.shed_total for report in done.reports)


def test_a_limit_on_rows_keeps_the_most_useful_ones() -> None:
    rows, _ = stream()
    rate = rows.rows / SECONDS
    done, worth = run(Balanced(value=WORTH), Throughput(rate / 2.0))
    late = rows.arrivals_s > 20.0
    kept = done.kept & late
    assert kept.sum() / late.sum() == pytest.approx(0.45, abs=0.03)  # 0.9 of what is allowed
    assert (worth[kept] == 1.0).mean() > 0.85


@pytest.mark.parametrize("alpha", ["inf", "infinity", math.inf])
def test_infinity_has_several_spellings(alpha: float | str) -> None:
    assert Balanced(alpha=alpha).alpha == math.inf


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"alpha": -1}, "alpha = -1 is not usable: give a number from 0 up, or 'inf'"),
        ({"alpha": "fair"}, "alpha = 'fair' is not usable: give a number from 0 up, or 'inf'"),
        ({"min_keep": 0.0}, "min_keep = 0.0 is not usable: give a number from 0.0001 to 1"),
        ({"value": 3}, "value = 3 is not usable: give a column of utilities from 0 to 1, or .*"),
        ({"seed": 0.5}, "seed = 0.5 is not usable: give a whole number .*"),
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, object], line: str) -> None:
    with pytest.raises(PenstockError, match=f"^{line}$"):
        Balanced(**settings)
