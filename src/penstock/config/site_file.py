"""Site files: one autonomous site as YAML; a mistake is one line that names the file, the line and the field.

A site trusts only this file, which lists its peers and the rows that it accepts from each.
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.config import fields
from penstock.config.fields import Accepts, Columns, Duration, Format, Holds, Keys, Options, Text, Words
from penstock.config.network_file import SINK_NEEDS, Sink, Source
from penstock.config.yaml_lines import Document, Where, nearest, read
from penstock.core.fairness.sites.planner import Policy, SiteInput, SiteQuery
from penstock.errors import PenstockError
from penstock.store.folder import scheme_of

_LABEL = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$"
_NAME = "a name of up to 60 letters, digits, _ and -, with a letter or digit in front"
#: Names become folders and topics, so they contain no dot.
Label = Annotated[str, Field(pattern=_LABEL), Accepts(_NAME)]
_InputName = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,59}$"), Accepts("a name as SQL has it: letters, digits and _")
]
_Importance = Annotated[
    float, Field(gt=0.0), Accepts("the importance of the query, a number above 0: 2 asks for twice the SIC")
]
#: The most sites of a federation.
MOST_SITES = 1000


class TransportKeys(Keys):
    """How sites reach each other."""

    folder: Annotated[str, Field(min_length=1), Accepts("a folder that all sites can read and write")] | None = None
    kafka: (
        Annotated[str, Field(min_length=1), Accepts("the address of a Kafka broker, such as localhost:9092")] | None
    ) = None
    prefix: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"), Accepts("what topics begin with, such as penstock")
    ] = "penstock"
    client: Options = Field(default_factory=dict)


class QueryKeys(Keys):
    """What a site must know of a query."""

    sources: Annotated[
        int, Field(ge=1, le=1_000_000), Accepts("how many sources the query has in the whole federation, from 1 up")
    ]
    importance: _Importance = 1.0
    weight: _Importance | None = None  # the old name of importance


class InputKeys(Keys):
    """A source, or the rows of another fragment."""

    format: Format | None = None
    options: Options = Field(default_factory=dict)
    sender: Annotated[str, Accepts("the fragment that the rows come from")] | None = Field(None, alias="from")
    site: Annotated[str, Accepts("the site of that fragment")] | None = None
    columns: Columns | None = Field(None, alias="schema")


class FragmentKeys(Keys):
    """A part of a query."""

    query: Annotated[str, Accepts("the name of a query")]
    inputs: Annotated[dict[_InputName, InputKeys], Field(min_length=1), Holds("one input or more, each by its name")]
    sql: Annotated[str, Field(min_length=1), Accepts("a query in Spark SQL over the inputs")]
    to: Sink | None = None


class SiteKeys(Keys):
    """A whole file."""

    site: Label
    sites: Annotated[list[str], Words("a list of the federation's sites, this one among them", 1, MOST_SITES)]
    transport: TransportKeys
    folder: Text | None = None
    interval: Duration = 2.0
    window: Duration = 10.0
    budget: Annotated[float, Field(gt=0.0, le=1.0), Accepts("a share of time above 0, up to 1")] = 0.8
    capacity: Annotated[float, Field(gt=0.0), Accepts("rows a second, a number above 0")] | None = None
    policy: Annotated[Literal["balance", "random"], Accepts("one of balance, random")] = "balance"
    backlog: Annotated[Literal["keep", "thin"], Accepts("one of keep, thin")] = "keep"
    queries: Annotated[dict[Label, QueryKeys], Field(min_length=1), Holds("one query or more, each by its name")]
    fragments: Annotated[
        dict[Label, FragmentKeys], Field(min_length=1), Holds("one fragment or more, each by its name")
    ]


@dataclass(frozen=True, slots=True)
class Link:
    """Rows of a fragment on their way to others.

    >>> Link("west", "cov-part").channel
    'rows.west.cov-part'
    """

    site: str
    fragment: str

    @property
    def channel(self) -> str:
        """What they are called on the transport."""
        return f"rows.{self.site}.{self.fragment}"


@dataclass(frozen=True, slots=True)
class FragmentInput:
    """What a fragment reads: a source, or a link."""

    source: Source | None
    link: Link | None
    schema: str | None


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a query; one with a sink is the query's root."""

    name: str
    query: str
    inputs: dict[str, FragmentInput]
    sql: str
    sink: Sink | None


@dataclass(frozen=True, slots=True)
class Transport:
    """Where the bus is; either a folder or Kafka."""

    folder: Path | None
    kafka: str | None
    prefix: str
    client: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class SiteFile:
    """What a site file says."""

    site: str  #: the site's name
    peers: tuple[str, ...]  #: the other sites
    transport: Transport  #: how they are reached
    folder: Path  #: where the site stores its state
    interval_s: float  #: how often a batch starts: the shedding interval
    window_s: float  #: the source time window
    budget: float  #: the share of its time that the site may work
    capacity: float | None  #: rows a second that it can process, instead of the budget
    policy: Policy  #: how it sheds
    backlog: Literal["keep", "thin"]  #: whether rows that waited while the site was stopped are kept or thinned
    queries: dict[str, SiteQuery]  #: the queries that it has fragments of
    fragments: dict[str, Fragment]  #: these fragments
    document: Document = field(repr=False, compare=False)  #: the file, to name a line in further errors

    @property
    def inputs(self) -> dict[str, tuple[Fragment, FragmentInput]]:
        """All inputs, by `fragment.input`."""
        return {
            f"{fragment.name}.{name}": (fragment, one)
            for fragment in self.fragments.values()
            for name, one in fragment.inputs.items()
        }

    @property
    def planned(self) -> dict[str, SiteInput]:
        """The inputs as the planner sees them."""
        return {
            name: SiteInput(fragment.name, fragment.query, source=one.source is not None)
            for name, (fragment, one) in self.inputs.items()
        }

    @property
    def links_in(self) -> tuple[Link, ...]:
        """The links that rows come by."""
        return tuple(dict.fromkeys(one.link for _, one in self.inputs.values() if one.link is not None))

    @property
    def links_out(self) -> tuple[Link, ...]:
        """The links that rows leave by."""
        return tuple(Link(self.site, one.name) for one in self.fragments.values() if one.sink is None)


def load(path: str | Path) -> SiteFile:
    """Read a site file."""
    document = read(path, "site file", "site, sites, transport, queries and fragments")
    given = fields.checked(document, SiteKeys)
    _check_sites(document, given)
    _check_names(document, given)
    beside = Path(path).absolute().parent
    transport = _transport(document, given, beside)
    folder = _folder(document, ("folder",), given.folder or f"out/{given.site}", beside)
    fragments = {name: _fragment(document, name, one, given, beside) for name, one in given.fragments.items()}
    _check_queries(document, given)
    _check_sinks(document, fragments)
    _check_order(document, given.site, fragments)
    return SiteFile(
        site=given.site,
        peers=tuple(name for name in given.sites if name != given.site),
        transport=transport,
        folder=folder,
        interval_s=given.interval,
        window_s=given.window,
        budget=given.budget,
        capacity=given.capacity,
        policy=given.policy,
        backlog=given.backlog,
        queries={name: SiteQuery(one.sources, one.weight or one.importance) for name, one in given.queries.items()},
        fragments=fragments,
        document=document,
    )


def schema() -> dict[str, Any]:
    """The JSON schema of site files."""
    return fields.schema(SiteKeys)


def _check_sites(document: Document, given: SiteKeys) -> None:
    for position, name in enumerate(given.sites):
        if not re.fullmatch(_LABEL, name):
            raise document.refused(("sites", position), _NAME)
    twice = [name for name, count in Counter(given.sites).items() if count > 1]
    if twice:
        raise PenstockError.setting(document.at(("sites",)), twice[0], "each site once")
    if given.site not in given.sites:
        raise document.refused(("sites",), f"a list with this site, {given.site}, among them")
    if given.window < given.interval:
        raise document.refused(
            ("window",) if document.has(("window",)) else ("interval",), "a window of an interval or more"
        )


def _transport(document: Document, given: SiteKeys, beside: Path) -> Transport:
    one = given.transport
    if (one.folder is None) == (one.kafka is None):
        raise document.refused(("transport",), "either folder or kafka")
    for key in ("prefix", "client"):
        if one.folder is not None and document.has(("transport", key)):
            raise document.refused(("transport", key), "it with kafka alone")
    folder = None if one.folder is None else _folder(document, ("transport", "folder"), one.folder, beside)
    return Transport(folder, one.kafka, one.prefix, one.client)


def _folder(document: Document, where: Where, given: str, beside: Path) -> Path:
    if scheme_of(given) is not None or given.startswith("~"):
        raise document.refused(where, "the path of a folder of a file system that is mounted here")
    return beside / given


def _check_names(document: Document, given: SiteKeys) -> None:
    """Names become folders, topics and columns, some of which ignore case."""
    named: list[tuple[Where, list[str]]] = [
        (("sites",), given.sites),
        (("queries",), list(given.queries)),
        (("fragments",), list(given.fragments)),
        *((("fragments", name, "inputs"), list(one.inputs)) for name, one in given.fragments.items()),
    ]
    for where, names in named:
        for name, other in itertools.combinations(names, 2):
            if name.lower() == other.lower():
                raise PenstockError.setting(
                    document.at(where), other, f"names that differ from {name} by more than case"
                )


def _check_sinks(document: Document, fragments: Mapping[str, Fragment]) -> None:
    taken: dict[str, str] = {}
    for name, one in fragments.items():
        path = one.sink.options.get("path") if one.sink else None
        if path is not None and taken.setdefault(path, name) != name:
            raise document.refused(
                ("fragments", name, "to", "options", "path"),
                f"a folder of its own; fragment {taken[path]} has this one",
            )


def _check_order(document: Document, site: str, fragments: Mapping[str, Fragment]) -> None:
    """Refuse cycles of links."""
    feeds = {
        name: [link.fragment for link in (part.link for part in one.inputs.values()) if link and link.site == site]
        for name, one in fragments.items()
    }
    try:
        TopologicalSorter(feeds).prepare()
    except CycleError as error:
        at, told = document.at(("fragments", error.args[1][0])), " to ".join(error.args[1])
        raise PenstockError(f"{at} feeds itself, from {told}: remove one of these links") from None


def _fragment(document: Document, name: str, given: FragmentKeys, site: SiteKeys, beside: Path) -> Fragment:
    where: Where = ("fragments", name)
    if given.query not in site.queries:
        known = ", ".join(site.queries)
        raise document.refused((*where, "query"), f"one of {known}", nearest(given.query, site.queries))
    for option in SINK_NEEDS.get(given.to.format, ()) if given.to else ():
        if given.to is not None and option not in given.to.options:
            raise document.missing((*where, "to", "options", option), f"it to write {given.to.format}")
    inputs = {key: _input(document, (*where, "inputs", key), one, site, beside) for key, one in given.inputs.items()}
    sink = None if given.to is None else Sink(format=given.to.format, options=_absolute(given.to.options, beside))
    return Fragment(name, given.query, inputs, given.sql, sink)


def _absolute(options: Mapping[str, str], beside: Path) -> dict[str, str]:
    """A path is relative to the file, unless it is absolute or has a scheme."""
    path = options.get("path")
    if path is None or "://" in path or path.startswith(("/", "file:")):
        return dict(options)
    return {**options, "path": str(beside / path)}


def _input(document: Document, where: Where, given: InputKeys, site: SiteKeys, beside: Path) -> FragmentInput:
    if (given.sender is None) == (given.format is None):
        raise document.refused(where, "either format, for a source, or from and site, for rows of another fragment")
    if given.sender is None:
        if given.site is not None:
            raise document.refused((*where, "site"), "it with from alone")
        options = _absolute(given.options, beside)
        return FragmentInput(Source(given.format, options, given.columns, None), None, given.columns)
    if not re.fullmatch(_LABEL, given.sender):
        raise document.refused((*where, "from"), _NAME)
    if given.options:
        raise document.refused((*where, "options"), "them with format alone")
    if given.site is None:
        raise document.missing((*where, "site"), "the site of that fragment")
    if given.site not in site.sites:
        raise document.refused((*where, "site"), f"one of {', '.join(site.sites)}", nearest(given.site, site.sites))
    if given.columns is None:
        raise document.missing((*where, "schema"), "its columns as in SQL, such as 'key bigint, value double'")
    if given.site == site.site and (given.sender not in site.fragments or site.fragments[given.sender].to is not None):
        raise document.refused((*where, "from"), "a fragment of this site without a sink")
    return FragmentInput(None, Link(given.site, given.sender), given.columns)


def _check_queries(document: Document, given: SiteKeys) -> None:
    for name, query in given.queries.items():
        own = [one for one in given.fragments.values() if one.query == name]
        if not own:
            raise PenstockError(f"{document.at(('queries', name))} has no fragment here: remove it, or add one")
        sources = sum(one.format is not None for fragment in own for one in fragment.inputs.values())
        if sources > query.sources:
            raise document.refused(("queries", name, "sources"), f"at least {sources}, because {sources} are read here")
        if query.weight is not None and "importance" in query.model_fields_set:
            raise document.refused(("queries", name, "weight"), "importance alone: weight is its old name")
        if sum(one.to is not None for one in own) > 1:
            raise PenstockError(f"{document.at(('queries', name))} has two fragments with to: give its root alone one")
