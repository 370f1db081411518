"""A peer update: what one site reports of a query to its peers, a few tens of bytes every shedding interval."""

from dataclasses import dataclass

from penstock.messages.codec import Count, Message, Name, Seconds, Share


@dataclass(frozen=True, slots=True)
class News(Message):
    """What a site gives a query.

    The paper's coordinator sends the query's SIC, measured on results (section 6). On micro-batches results are many
    seconds old, and sites that act on them overshoot. So a site also sends what it gives at this moment. The SIC that
    follows from it is `part * give`, and the sum over sites is the query's SIC, without the delay of its results.
    """

    site: Name  #: the site that sends it
    query: Name  #: of which query
    give: Share  #: the share of the query's source rows that the site keeps
    part: Share  #: the share of the query's sources that are read at the site
    sic: Share | None  #: the SIC measured on the query's results, if its root is there
    epoch: Count  #: grows when the site starts without its checkpoint
    sequence: Count  #: grows with every message of the site, also over restarts
    time_s: Seconds  #: when, by the site's clock; peers do not compare it with theirs
