r"""What a site knows of the others, by their latest news, and for how long it believes it.

Of a query, other sites have told parts $p_s$ and what they give of them, $g_s$. Their SIC is $\sum_s p_s g_s$. What is
not told is not zero: of that part the site assumes what it gives itself, so without any news it is fair among its own
queries by its own shares alone.

Age is counted from when news arrive, by the site's own clock: clocks of other sites play no role. News that are not
newer than the last of the same site are ignored; once those have expired, any are taken, so a message with a sequence
out of this world silences a site for no longer than that.
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
    """The latest news of each query from each other site.

    >>> peers = Peers(expiry_s=10.0)
    >>> news = News("west", "cov", give=0.4, part=0.5, sic=None, epoch=1, sequence=7, time_s=0.0)
    >>> peers.hear(news, now_s=100.0), peers.hear(news, now_s=101.0)
    ('taken', 'old')
    >>> peers.known("cov", now_s=109.0)
    Known(part=0.5, sic=0.2, sites=1)
    >>> peers.known("cov", now_s=111.0)
    Known(part=0.0, sic=0.0, sites=0)

    Attributes:
        ignored: How many news were ignored, by why.
    """

    def __init__(self, expiry_s: float, own_parts: dict[str, float] | None = None) -> None:
        """Believe news for `expiry_s`; `own_parts` says which share of each query's sources is read here."""
        self._expiry_s, self._own_parts = expiry_s, own_parts or {}
        self._heard: defaultdict[str, dict[str, _Heard]] = defaultdict(dict)  # by query and site
        self.ignored: Counter[str] = Counter()

    def hear(self, news: News, now_s: float) -> Verdict:
        """Take news, if they are newer than what is known and fit beside what other sites have told."""
        heard = self._believed(news.query, now_s)
        last = heard.get(news.site)
        verdict: Verdict = "taken"
        if last is not None and (news.epoch, news.sequence) <= (last.news.epoch, last.news.sequence):
            verdict = "old"
        elif self._rest(news) + news.part > 1.0 + _ROUNDING:
            verdict = "too much"
        if verdict == "taken":
            heard[news.site] = _Heard(news, now_s)
        else:
            self.ignored[verdict] += 1
        return verdict

    def known(self, query: str, now_s: float) -> Known:
        """What others give a query, as far as it is known now."""
        told = [one.news for one in self._believed(query, now_s).values()]
        return Known(sum((one.part for one in told), 0.0), sum((one.part * one.give for one in told), 0.0), len(told))

    def sic(self, query: str, now_s: float) -> float | None:
        """The SIC measured on the query's results, if the site of its root has told it."""
        found = [one for one in self._believed(query, now_s).values() if one.news.sic is not None]
        return max(found, key=lambda one: one.at_s).news.sic if found else None

    def _rest(self, news: News) -> float:
        """The part of the query that is read here and at third sites."""
        third = sum(one.news.part for site, one in self._heard[news.query].items() if site != news.site)
        return third + self._own_parts.get(news.query, 0.0)

    def _believed(self, query: str, now_s: float) -> dict[str, _Heard]:
        """What was heard of a query and has not expired, by site."""
        heard = self._heard[query]
        for site in [site for site, one in heard.items() if now_s - one.at_s > self._expiry_s]:
            del heard[site]
        return heard
