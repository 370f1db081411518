"""A federation on virtual time: what sites know, when they know it, and what becomes of what they shed."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.core.fairness.input_buffer import Buffer, Decision, Known
from penstock.core.fairness.jain import fairness
from penstock.core.fairness.shedder import RandomShedder, Shedder
from penstock.core.fairness.sic import STW_S, SourceTimeWindow, source_sic
from penstock.errors import PenstockError
from penstock.sim.themis.cases import SHEDDERS, Case, measure, optimum, shedders_of
from penstock.sim.themis.deployment import BURSTY, BURSTY_SAME_MEAN, EMULAB, Deployment, Setup, deploy
from penstock.sim.themis.runs import Clock, Federation, Layout
from penstock.sim.themis.sites import SiteShedder

SMALL = Case(sites=6, total_fragments=90, fragments=(1, 2, 3, 4, 5, 6), capacity_share=0.3, zipf=0.5)
SETUP = Setup(sites=4, capacity_share=0.5)
QUERIES = ["avg_all", "top_5", "cov"], [3, 2, 4]


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng([*seed, 77])


class Spy:
    """Keeps everything, or all but some, and remembers what it was asked."""

    name = "spy"

    def __init__(self, *, derived: bool = True, share: float = 1.0) -> None:
        self.calls: list[tuple[Buffer, float, Known, float]] = []
        self._derived, self._share = derived, share

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        self.calls.append((buffer, capacity, known, now_s))
        kept = (buffer.tuples * self._share).astype(np.int64)
        return Decision(np.where(buffer.derived, buffer.tuples if self._derived else 0, kept))


def watched(
    deployment: Deployment, seconds: float, *, derived: bool = True, share: float = 1.0
) -> tuple[Federation, list[Spy]]:
    spies = [Spy(derived=derived, share=share) for _ in deployment.capacity]
    federation = Federation(Layout(deployment), Clock(), spies.__getitem__, rng(1))
    federation.run(seconds)
    return federation, spies


# Deployments.


def test_fragments_form_trees_and_chains_each_on_another_site() -> None:
    found = deploy(SETUP, *QUERIES, rng(0))
    assert found.fragment_downstream.tolist() == [-1, 0, 0, 4, -1, 6, 7, 8, -1]
    assert found.fragment_sources.tolist() == [10] * 3 + [20] * 2 + [2] * 4
    for query in range(3):
        sites = found.fragment_site[found.fragment_query == query]
        assert len(set(sites.tolist())) == len(sites)
    assert found.capacity.sum() == pytest.approx(0.5 * (30 + 40 + 8) * 150)


def test_a_skew_gives_the_first_sites_more() -> None:
    setup, queries = Setup(sites=6, capacity_share=0.3), (["cov"] * 600, [2] * 600)
    even, skewed = (
        np.bincount(deploy(replace(setup, zipf=zipf), *queries, rng(1)).fragment_site, minlength=6)
        for zipf in (0.0, 1.0)
    )
    assert even.max() < 1.3 * even.min()
    assert skewed[0] > 2 * skewed[-1]
    assert skewed.sum() == even.sum() == 1200


def test_a_query_with_more_fragments_than_sites_is_refused() -> None:
    with pytest.raises(PenstockError, match="at most 4"):
        deploy(SETUP, QUERIES[0], [3, 2, 5], rng(0))


@pytest.mark.parametrize(("sources", "factor"), [(EMULAB, 1.0), (BURSTY, 1.9), (BURSTY_SAME_MEAN, 1.0)])
def test_bursts_raise_the_mean_rate_or_leave_it(sources: object, factor: float) -> None:
    setup = Setup(sites=1, capacity_share=1.0, sources=sources)  # type: ignore[arg-type]
    _, (spy,) = watched(deploy(setup, ["top_5"] * 20, [1] * 20, rng(2)), 60.0)
    tuples = sum(int(buffer.tuples.sum()) * EMULAB.grain for buffer, *_ in spy.calls)
    assert tuples == pytest.approx(20 * 20 * 150 * 60 * factor, rel=0.05)
    assert spy.calls[0][1] == pytest.approx(20 * 20 * 150 / 4)  # capacity is a share of the usual rate


def test_in_bursts_sites_keep_what_brings_more_sic_and_stay_fair() -> None:
    """Of a query, rows of sources in a burst bring little SIC."""
    case = Case(4, queries=12, fragments=(2,), capacity_share=0.3, seconds=45.0, sources=BURSTY_SAME_MEAN)
    found = measure(0, case=case, seed=1, shedders=("balance_sic", "penstock"))
    assert found["penstock"].mean > 1.2 * found["balance_sic"].mean
    assert found["penstock"].poorest > 1.2 * found["balance_sic"].poorest
    assert found["penstock"].jain > 0.99


# What flows.


def test_without_shedding_every_query_has_all_its_sic() -> None:
    federation, _ = watched(deploy(SETUP, *QUERIES, rng(3)), 30.0)
    assert federation.sic[80:] == pytest.approx(np.ones((40, 3)), abs=0.03)


def test_half_of_all_tuples_are_half_of_the_sic() -> None:
    federation, _ = watched(deploy(SETUP, *QUERIES, rng(3)), 30.0, share=0.5)
    assert federation.sic[80:] == pytest.approx(np.full((40, 3), 0.5), abs=0.03)


def test_what_another_fragment_sent_is_lost_if_it_is_shed() -> None:
    federation, _ = watched(deploy(SETUP, *QUERIES, rng(3)), 30.0, derived=False)
    assert federation.sic[80:].mean(axis=0) == pytest.approx([1 / 3, 1 / 2, 1 / 4], abs=0.03)


def test_a_source_tuple_is_worth_what_equation_1_says() -> None:
    deployment = deploy(Setup(sites=1, capacity_share=1.0), ["cov"], [1], rng(4))
    _, (spy,) = watched(deployment, 15.0)
    came = SourceTimeWindow()  # of the fragment's two sources as one
    for buffer, _, _, now_s in spy.calls:
        tuples = int(buffer.tuples.sum()) * EMULAB.grain
        came.add(now_s, tuples)
        if tuples:
            assert buffer.sic[0] / EMULAB.grain == pytest.approx(
                source_sic(came.total(now_s) * max(STW_S / now_s, 1.0), sources=1)
            )


@pytest.mark.parametrize("delay_s", [0.005, 0.25, 0.6, 3.0])
def test_news_is_never_seen_before_its_delay_has_passed(delay_s: float) -> None:
    federation, spies = watched(deploy(replace(SETUP, message_delay_s=delay_s), *QUERIES, rng(5)), 12.0)
    layout = Layout(deploy(replace(SETUP, message_delay_s=delay_s), *QUERIES, rng(5)))
    for site, spy in zip(layout.sites, spies, strict=True):
        queries = layout.deployment.fragment_query[site.fragments]
        for _, _, known, now_s in spy.calls:
            told = ~np.isnan(known.told_s)
            assert (told == ~np.isnan(known.sic)).all()
            assert (known.told_s[told] <= now_s - delay_s + 1e-9).all()
            assert (known.told_s[told] > now_s - delay_s - 0.5 - 1e-9).all()  # and not much later
            steps = np.rint(known.told_s[told] / 0.25).astype(int) - 1
            assert (known.sic[told] == federation.sic[steps, queries[told]]).all()
    assert not np.isnan(spies[0].calls[-1][2].sic).any()


def test_what_a_fragment_sends_takes_its_links_delay() -> None:
    two = Setup(sites=2, capacity_share=1.0)
    first = {}
    for delay_s in (0.005, 2.0):
        _, spies = watched(deploy(replace(two, delay_s=delay_s), ["cov"], [2], rng(6)), 8.0)
        first[delay_s] = min(now_s for spy in spies for buffer, _, _, now_s in spy.calls if buffer.derived.any())
    # 0.005 s is one interval, 2 s are eight, and each may miss one more decision.
    assert first[2.0] - first[0.005] == pytest.approx(1.75, abs=0.25 + 1e-9)


def test_batches_come_whole_to_the_random_shedder_and_together_to_the_others() -> None:
    deployment = deploy(SETUP, *QUERIES, rng(7))
    sizes = {}
    for name in ("spy", "random"):
        spies = [Spy() for _ in deployment.capacity]
        for spy in spies:
            spy.name = name
        Federation(Layout(deployment), Clock(), spies.__getitem__, rng(1)).run(3.0)
        rows = [buffer for spy in spies for buffer, *_ in spy.calls]
        sizes[name] = {int(one) for buffer in rows for one in buffer.tuples[~buffer.derived]}
        sizes[f"{name} in all"] = {sum(int(buffer.tuples.sum()) for buffer in rows)}
    assert sizes["random"] == {EMULAB.tuples_per_batch // EMULAB.grain}
    assert max(sizes["spy"]) > EMULAB.tuples_per_batch // EMULAB.grain
    assert sizes["spy in all"] == sizes["random in all"]


# Shedders.


class Checked:
    """A shedder that must never keep more than fits: ours since the start, for a batch may end late."""

    def __init__(self, inner: Shedder) -> None:
        self.name, self._inner = inner.name, inner
        self._intervals, self._done = 1, 0.0

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        decision = self._inner.select(buffer, capacity, known, now_s)
        assert (decision.kept >= 0).all()
        assert (decision.kept <= buffer.tuples).all()
        if self.name == "penstock":
            self._intervals, self._done = self._intervals + 1, self._done + float(decision.kept @ buffer.work)
            assert self._done <= capacity * self._intervals
        else:
            assert decision.kept @ buffer.work <= capacity * (1.0 + 1e-6)
        return decision


@pytest.mark.parametrize("name", SHEDDERS[:3])
@pytest.mark.parametrize("costs", [(1.0,), (1.0, 2.0, 4.0, 8.0)])
def test_no_shedder_keeps_more_work_than_a_site_can_do(name: str, costs: tuple[float, ...]) -> None:
    layout, clock = Layout(replace(SMALL, costs=costs).deployment(rng(8))), Clock()
    make = shedders_of(name, layout, clock, 0)
    Federation(layout, clock, lambda site: Checked(make(site)), rng(1)).run(4.0)


class Slow(Spy):
    """A shedder whose batches take three intervals each."""

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        decision = super().select(buffer, capacity, known, now_s)
        return replace(decision, waits=len(self.calls) % 3 != 0)


def test_rows_wait_while_a_batch_runs_and_none_is_lost() -> None:
    layout = Layout(SMALL.deployment(rng(8)))
    tuples = {}
    for kind in (Spy, Slow):
        spies = [kind() for _ in layout.sites]
        Federation(layout, Clock(), spies.__getitem__, rng(1)).run(3.0)
        done = [calls[2::3] if kind is Slow else calls for calls in (spy.calls for spy in spies)]
        tuples[kind] = [sum(int(buffer.tuples[~buffer.derived].sum()) for buffer, *_ in calls) for calls in done]
    assert tuples[Slow] == tuples[Spy]


def test_batches_of_a_site_are_bound_to_stored_plans_and_wait_for_a_long_one() -> None:
    layout, clock = Layout(SMALL.deployment(rng(8))), Clock()
    make = shedders_of("penstock", layout, clock, 0)
    sites = [make(site) for site in range(len(layout.sites))]
    federation = Federation(layout, clock, sites.__getitem__, rng(1))
    federation.start(3.0)
    federation.step(0)
    site = sites[0]
    assert isinstance(site, SiteShedder)
    site.work.free_s = 3.5 * clock.interval_s
    for step in (1, 2):
        federation.step(step)
    assert [site.plans.bound(step) for step in range(3)] == [True, False, True]
    newest = site.plans.newest
    assert newest is not None
    assert (newest.version, newest.elapsed_s) == (1, 2.0 * clock.interval_s), "the rows of two intervals"


def test_ours_is_near_the_optimum_and_the_papers_between_it_and_random() -> None:
    found = measure(0, case=replace(SMALL, warm_s=30.0, seconds=50.0), seed=3)
    assert list(found) == list(SHEDDERS)
    assert found["random"].jain < found["balance_sic"].jain < found["penstock"].jain
    assert found["random"].jain_instant < found["balance_sic"].jain_instant < 0.98 < found["penstock"].jain_instant
    assert found["penstock"].poorest > 0.93 * found["max_min"].poorest > found["balance_sic"].poorest
    assert found["penstock"].oscillation_share < 0.02 < found["balance_sic"].oscillation_share


def test_costs_that_differ_are_shared_by_work() -> None:
    found = measure(0, case=replace(SMALL, costs=(1.0, 8.0), warm_s=30.0, seconds=50.0), seed=3)
    assert found["penstock"].jain_instant > 0.99
    assert found["penstock"].poorest > 0.93 * found["max_min"].poorest


def test_the_optimum_of_one_site_is_its_share() -> None:
    case = Case(sites=1, queries=9, capacity_share=0.25)
    assert optimum(case.deployment(rng(9))) == pytest.approx(np.full(9, 0.25))
    assert fairness([optimum(SMALL.deployment(rng(9)))]).jain > 0.99


def test_runs_repeat_and_differ() -> None:
    short = replace(SMALL, warm_s=2.0, seconds=4.0)
    assert measure(0, case=short, seed=1) == measure(0, case=short, seed=1)
    assert measure(0, case=short, seed=1) != measure(1, case=short, seed=1)
    assert isinstance(shedders_of("random", Layout(short.deployment(rng(1))), Clock(), 0)(0), RandomShedder)


def test_the_grain_changes_next_to_nothing() -> None:
    case = replace(SMALL, total_fragments=40, warm_s=15.0, seconds=25.0)
    fine = replace(case, sources=replace(EMULAB, grain=1))
    for name in ("balance_sic", "penstock"):
        one, other = (measure(0, case=each, seed=2, shedders=[name])[name] for each in (case, fine))
        assert one.mean == pytest.approx(other.mean, rel=0.1)
        assert one.jain_instant == pytest.approx(other.jain_instant, abs=0.02)
