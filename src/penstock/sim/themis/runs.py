"""A federation on virtual time: sites that shed, fragments that send results, coordinators with late updates.

Time advances in shedding intervals. In each, sources send batches, and tuples from links join them in the sites' input
buffers. Every site's shedder selects the tuples to keep. Once a second a fragment sends its window: the SIC of all kept
tuples. A root's output is the query's result. Its coordinator sums its SIC over the source time window and sends it to
the sites of the query. They receive it after the delay of their links. Penstock's sites are in
`penstock.sim.themis.sites`: they run the loop and the planner of sites on Spark. Where a batch takes longer than its
interval, the tuples of the next one wait.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from penstock.core.fairness.input_buffer import Buffer, Known
from penstock.core.fairness.shedder import Shedder
from penstock.core.fairness.sic import SLIDE_S, STW_S
from penstock.sim.themis.deployment import Deployment, Floats, Ints

#: Every fragment's window, in seconds: queries give a result each second.
WINDOW_S = 1.0


@dataclass(frozen=True)
class Clock:
    """How time is cut: the shedding interval, which is also the slide of the source time window, and that window."""

    interval_s: float = SLIDE_S
    stw_s: float = STW_S

    @property
    def stw(self) -> int:
        """The source time window in intervals."""
        return round(self.stw_s / self.interval_s)

    def intervals(self, delay_s: Floats, apart: Floats) -> Ints:
        """Until what one site sends as it decides can be used by another that decides later, `apart` of an interval.

        >>> Clock(0.25).intervals(np.array([0.005, 0.05, 0.05]), np.array([0.5, 0.5, 0.9])).tolist()
        [1, 1, 2]
        """
        return np.maximum(np.ceil(delay_s / self.interval_s + apart - 1e-9), 1).astype(np.int64)


@dataclass(frozen=True)
class Site:
    """A site's part of a deployment: its fragments, in the order its shedder numbers their queries."""

    fragments: Ints
    groups: slice  #: of sources, sorted by site
    group_owner: Ints  #: of each group, the number of its query here
    senders: Ints  #: fragments elsewhere that send to one here
    sender_owner: Ints


class Layout:
    """A deployment cut up by site, with sources that always send alike put together as groups.

    Batches of the same query, worth the same, are interchangeable, so the shedders that look at SIC get a group's
    batches as one. Steady sources of a fragment are one group, bursty sources a group each.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        by_site = np.argsort(deployment.fragment_site, kind="stable")
        sources = deployment.fragment_sources[by_site]
        if deployment.sources.steady:
            self.group_fragment, self.group_sources = by_site, sources
        else:
            self.group_fragment, self.group_sources = np.repeat(by_site, sources), np.ones(sources.sum(), np.int64)
        self.source_group: Ints = np.repeat(np.arange(len(self.group_sources)), self.group_sources)
        self.group_query = deployment.fragment_query[self.group_fragment]
        local = np.empty(len(by_site), np.int64)
        self.sites: list[Site] = []
        for site in range(len(deployment.capacity)):
            here = np.flatnonzero(deployment.fragment_site == site)
            local[here] = np.arange(len(here))
            groups = np.flatnonzero(deployment.fragment_site[self.group_fragment] == site)
            first = int(groups[0]) if len(groups) else 0
            down = deployment.fragment_downstream
            senders = np.flatnonzero((down >= 0) & (deployment.fragment_site[down] == site))
            owners = local[self.group_fragment[groups]]
            self.sites.append(Site(here, slice(first, first + len(groups)), owners, senders, local[down[senders]]))


#: Makes the shedder of a site.
MakeShedder = Callable[[int], Shedder]


class Federation:
    """One run. `sic` has a row for every interval: the SIC of each query over the window that ends then."""

    def __init__(self, layout: Layout, clock: Clock, make: MakeShedder, rng: np.random.Generator) -> None:
        """Start with nothing sent; sources and windows are out of step with each other."""
        self._layout, self._clock = layout, clock
        self._shedders: Sequence[Shedder] = [make(site) for site in range(len(layout.sites))]
        self._whole_batches = self._shedders[0].name == "random"
        self._sources = _Sources(layout, clock, rng)
        self._sent = _SentTuples(layout, clock)
        self._fragments = _Fragments(layout.deployment, clock, rng)
        self._coordinators = _Coordinators(layout.deployment, clock, rng)
        self._waiting: dict[int, Buffer] = {}  # at sites whose last batch still runs

    @property
    def sic(self) -> Floats:
        """SIC by interval and query."""
        return self._coordinators.sic

    def run(self, seconds: float) -> Floats:
        """Run from the start for this time."""
        self.start(seconds)
        for step in range(len(self.sic)):
            self.step(step)
        return self.sic

    def start(self, seconds: float) -> None:
        """Allocate memory for a run of this length."""
        self._coordinators.start(round(seconds / self._clock.interval_s))

    def step(self, step: int) -> None:
        """Run one interval; the first is 0."""
        batches = self._sources.batches()
        sic = self._sent.sic_per_tuple(step, batches)
        arrived = self._fragments.arrived(step)
        for site in range(len(self._layout.sites)):
            self._shed(step, site, batches, sic, arrived)
        self._coordinators.hear(step, self._fragments.close_windows(step))

    def _shed(self, step: int, number: int, batches: Ints, sic: Floats, arrived: Floats) -> None:
        """Call a site's shedder, and put the kept tuples into its fragments' windows."""
        site, deployment = self._layout.sites[number], self._layout.deployment
        senders = np.flatnonzero(arrived[site.senders] > 0.0)
        sending = site.senders[senders]
        sent = deployment.fragment_output[sending]
        groups = np.flatnonzero(batches[site.groups])
        times = batches[site.groups][groups]
        if self._whole_batches:
            groups, times = np.repeat(groups, times), np.ones(int(times.sum()), np.int64)
        owner = np.concatenate([site.group_owner[groups], site.sender_owner[senders]])
        grain = deployment.sources.grain
        derived = np.arange(len(owner)) >= len(groups)
        cost = deployment.query_cost[deployment.fragment_query[site.fragments]][owner]
        buffer = Buffer(
            owner,
            np.concatenate([times * (deployment.sources.tuples_per_batch // grain), sent]),
            np.concatenate([sic[site.groups][groups] * grain, arrived[sending] / sent]),
            np.where(derived, cost, cost * grain),
            derived,
            np.concatenate([groups, senders]),
        )
        if (waiting := self._waiting.pop(number, None)) is not None:
            buffer = Buffer(
                *(np.concatenate([getattr(one, of.name) for one in (waiting, buffer)]) for of in fields(Buffer))
            )
        capacity = float(deployment.capacity[number]) * self._clock.interval_s
        now_s = (step + 1) * self._clock.interval_s
        known = self._coordinators.known(step, site.fragments)
        decision = self._shedders[number].select(buffer, capacity, known, now_s)
        if decision.waits:
            self._waiting[number] = buffer
        else:
            self._fragments.take(site.fragments, buffer.owner, decision.kept * buffer.sic)


class _SentTuples:
    """What sources sent in the source time window, by group: tuples are worth their share of it."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout, self._stw = layout, clock.stw
        self._sent = np.zeros((clock.stw, len(layout.group_sources)), np.int64)
        self._in_window = np.zeros(len(layout.group_sources), np.int64)

    def sic_per_tuple(self, step: int, batches: Ints) -> Floats:
        """Equation 1, with the tuples of the last window, scaled up as long as a whole one has not passed."""
        slot = step % self._stw
        self._in_window += batches - self._sent[slot]
        self._sent[slot] = batches
        deployment = self._layout.deployment
        scale = self._stw / min(step + 1, self._stw)
        each = np.maximum(self._in_window, 1) * scale * deployment.sources.tuples_per_batch / self._layout.group_sources
        return 1.0 / (each * deployment.query_sources[self._layout.group_query])


class _Fragments:
    """The open window of each fragment, and windows on their way to the fragments downstream."""

    def __init__(self, deployment: Deployment, clock: Clock, rng: np.random.Generator) -> None:
        fragments = len(deployment.fragment_query)
        self._deployment, self._interval_s = deployment, clock.interval_s
        self._phase_s = rng.random(deployment.queries)[deployment.fragment_query] * WINDOW_S
        self._delay = clock.intervals(deployment.data_delay_s, rng.random(fragments))
        self._on_the_way = np.zeros((int(self._delay.max(initial=1)) + 1, fragments))
        self._open = np.zeros(fragments)

    def arrived(self, step: int) -> Floats:
        """The SIC that arrives in an interval, by the fragment that sent it."""
        due = self._on_the_way[step % len(self._on_the_way)]
        found: Floats = due.copy()
        due[:] = 0.0
        return found

    def take(self, fragments: Ints, owner: Ints, sic: Floats) -> None:
        """Add the SIC of kept tuples to the windows of their owners among the fragments."""
        self._open[fragments] += np.bincount(owner, sic, minlength=len(fragments))

    def close_windows(self, step: int) -> Floats:
        """Fragments whose second is over send on what their window holds; returns the results by query."""
        deployment = self._deployment
        before, now = step * self._interval_s + self._phase_s, (step + 1) * self._interval_s + self._phase_s
        closing = np.floor(now / WINDOW_S + 1e-9) > np.floor(before / WINDOW_S + 1e-9)
        sends = np.flatnonzero(closing & (deployment.fragment_downstream >= 0))
        due = (step + self._delay[sends]) % len(self._on_the_way)
        self._on_the_way[due, sends] += self._open[sends]
        roots = np.flatnonzero(closing & (deployment.fragment_downstream < 0))
        results = np.zeros(deployment.queries)
        results[deployment.fragment_query[roots]] = self._open[roots]
        self._open[closing] = 0.0
        return results


class _Coordinators:
    """One for each query: sums the SIC of its results over the source time window and tells the sites of the query."""

    def __init__(self, deployment: Deployment, clock: Clock, rng: np.random.Generator) -> None:
        self._queries, self._interval_s = deployment.fragment_query, clock.interval_s
        self._delay = clock.intervals(deployment.message_delay_s, rng.random(len(self._queries)))
        self._results = np.zeros((clock.stw, deployment.queries))
        self.sic = np.zeros((0, deployment.queries))

    def start(self, intervals: int) -> None:
        self.sic = np.zeros((intervals, self._results.shape[1]))

    def hear(self, step: int, results: Floats) -> None:
        self._results[step % len(self._results)] = results
        self.sic[step] = self._results.sum(axis=0)

    def known(self, step: int, fragments: Ints) -> Known:
        """The newest messages that have arrived by now, for fragments of a site."""
        told = step - self._delay[fragments]
        sic = np.where(told >= 0, self.sic[np.maximum(told, 0), self._queries[fragments]], np.nan)
        return Known(sic, np.where(told >= 0, (told + 1) * self._interval_s, np.nan))


class _Sources:
    """Sources that send batches at their rate, and in bursts faster; each starts anywhere between two batches."""

    def __init__(self, layout: Layout, clock: Clock, rng: np.random.Generator) -> None:
        self._how, self._rng, self._layout = layout.deployment.sources, rng, layout
        count = len(layout.source_group)
        self._due = rng.random(count)
        self._rate = self._how.batches_per_s * clock.interval_s
        self._ends = min(clock.interval_s / self._how.burst_s, 1.0)
        self._begins = self._ends * self._how.burst_share / (1.0 - self._how.burst_share)
        self._in_burst = rng.random(count) < self._how.burst_share

    def batches(self) -> Ints:
        """Batches that each group sends in the next interval."""
        rate: Floats | float = self._rate
        if not self._how.steady:
            changes = self._rng.random(len(self._due)) < np.where(self._in_burst, self._ends, self._begins)
            self._in_burst ^= changes
            rate = self._rate * np.where(self._in_burst, self._how.burst, self._how.rest)
        self._due += rate
        whole = np.floor(self._due + 1e-9)
        self._due -= whole
        return np.bincount(self._layout.source_group, whole, len(self._layout.group_sources)).astype(np.int64)
