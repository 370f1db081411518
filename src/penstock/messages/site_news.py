"""What one site tells the others of a query: a few tens of bytes every shedding interval."""

from dataclasses import dataclass

from penstock.messages.codec import Count, Message, Name, Seconds, Share


@dataclass(frozen=True, slots=True)
class News(Message):
    """What a site gives a query.

    The paper's coordinator sends the query's SIC, measured on results (section 6). On micro-batches results are many
    seconds old, and sites that act on them overshoot. So a site also tells what it gives at this moment: the SIC that
    follows from it is `part * give`, and the sum over sites is the query's SIC, without the delay of its results.

    Attributes:
        site: Who tells it.
        query: Of which query.
        give: The share of the query's source rows that the site keeps.
        part: The share of the query's sources that are read at the site.
        sic: The SIC measured on the query's results, if its root is there.
        epoch: Grows when the site starts without its checkpoint.
        sequence: Grows with every message of the site, also over restarts.
        time_s: When, by the site's clock, which nobody compares with his own.

    >>> news = News("west", "cov", give=0.4, part=0.5, sic=None, epoch=1, sequence=7, time_s=0.0)
    >>> News.from_json(news.to_json()) == news
    True
    """

    site: Name
    query: Name
    give: Share
    part: Share
    sic: Share | None
    epoch: Count
    sequence: Count
    time_s: Seconds
