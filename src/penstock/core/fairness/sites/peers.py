r"""Peer updates: the latest of each site, and their expiry.

For a query, other sites have sent parts $p_s$ and their shares $g_s$. Their SIC is $\sum_s p_s g_s$. For the missing
part the site assumes its own share, so without any update it is fair among its own queries.

Age is counted from the arrival of an update, by the site's own clock; clocks of other sites play no role. Updates that
are not newer than the last of the same site are ignored. After that one has expired, any update is accepted, so a
forged sequence silences a site only for that time.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

from penstock.messages.report import Known
from penstock.messages.site_news import News

Verdict = Literal["taken", "old", "too much"]

#: Parts are sums of fractions.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class _Heard:
    news: News
    at_s: float


class Peers:
    """The latest update of each query from each other site.

    >>> peers = Peers(expiry_s=10.0)
    >>> news = News("west", "cov", give=0.4, part=0.5, sic=None, epoch=1, sequence=7, time_s=0.0)
    >>> peers.hear(news, now_s=100.0), peers.hear(news, now_s=101.0)
    ('taken', 'old')
    >>> peers.known("cov", now_s=109.0)
    Known(part=0.5, sic=0.2, sites=1)
    >>> peers.known("cov", now_s=111.0)
    Known(part=0.0, sic=0.0, sites=0)

    Attributes:
        ignored: The number of ignored updates, by reason.
    """

    def __init__(self, expiry_s: float, own_parts: dict[str, float] | None = None) -> None:
        """Keep updates for `expiry_s`; `own_parts` is the share of each query's sources that is read here."""
        self._expiry_s, self._own_parts = expiry_s, own_parts or {}
        self._heard: defaultdict[str, dict[str, _Heard]] = defaultdict(dict)  # by query and site
        self.ignored: Counter[str] = Counter()

    def hear(self, news: News, now_s: float) -> Verdict:
        """Accept an update if it is newer than the known one and consistent with those of other sites."""
        heard = self._believed(news.query, now_s)
        last = heard.get(news.site)
        third = sum(one.news.part for site, one in heard.items() if site != news.site)
        verdict: Verdict = "taken"
        if last is not None and (news.epoch, news.sequence) <= (last.news.epoch, last.news.sequence):
            verdict = "old"
        elif third + self._own_parts.get(news.query, 0.0) + news.part > 1.0 + _ROUNDING:
            verdict = "too much"
        if verdict == "taken":
            heard[news.site] = _Heard(news, now_s)
        else:
            self.ignored[verdict] += 1
        return verdict

    def known(self, query: str, now_s: float) -> Known:
        """The current SIC of a query at other sites."""
        told = [one.news for one in self._believed(query, now_s).values()]
        return Known(sum((one.part for one in told), 0.0), sum((one.part * one.give for one in told), 0.0), len(told))

    def sic(self, query: str, now_s: float) -> float | None:
        """The SIC measured on the query's results, if the site of its root has sent it."""
        found = [one for one in self._believed(query, now_s).values() if one.news.sic is not None]
        return max(found, key=lambda one: one.at_s).news.sic if found else None

    def _believed(self, query: str, now_s: float) -> dict[str, _Heard]:
        """Unexpired updates of a query, by site."""
        heard = self._heard[query]
        for site in [site for site, one in heard.items() if now_s - one.at_s > self._expiry_s]:
            del heard[site]
        return heard
