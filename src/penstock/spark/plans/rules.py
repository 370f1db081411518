"""The rules that batches were bound under, in a guard's folder: written when a gate is made, read for a replayed batch.

Spark reruns the newest planned batch if it was not done. If the settings or the columns of the stream have changed
since, that batch is still judged by its own rules. The next one is judged by the new ones.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import PenstockError
from penstock.messages.plan import Rules
from penstock.spark.checkpoint import newest_done, newest_planned, query_id
from penstock.spark.plans.binding import bindings_of
from penstock.spark.quarantine import forwarded
from penstock.spark.quarantine.rows import file_names
from penstock.store.logs import BindingLog, RulesLog
from penstock.store.place import Place

if TYPE_CHECKING:
    import os

_logger = logging.getLogger("penstock")

#: How many rules are kept, besides those of batches that may be replayed.
_KEPT = 100


class Open(NamedTuple):
    """A batch that is bound and that Spark may run again, and the rules that it is bound under."""

    batch: int
    number: int
    rules: Rules | None  #: None if they cannot be read
    sure: bool = True  #: false if it is unknown whether the batch is done

    def to_text(self) -> str:
        """As received from the server of Connect."""
        return json.dumps([self.batch, self.number, None if self.rules is None else self.rules.to_json(), self.sure])

    @classmethod
    def from_text(cls, text: str) -> Open:
        """What `to_text` wrote."""
        batch, number, rules, sure = json.loads(text)
        return cls(batch, number, None if rules is None else Rules.from_json(rules), sure)


def new_number() -> int:
    """A number for new rules."""
    return time.time_ns() // 1000


def begin(folder: str | os.PathLike[str] | Place, gate: str, own: Rules) -> list[Open]:
    """Record the rules of a gate; returns earlier bound batches that Spark may run again.

    A batch that Spark no longer knows, because offsets were reset or not yet on disk, is unbound: its number will be
    reused.

    Raises:
        PenstockError: If rows of such a batch, or of one that may be run again, are in quarantine. They would be
            duplicated or go elsewhere.
    """
    place = Place.of(folder)
    log = RulesLog((place / "rules" / gate).store())
    if not log.add(own.number, own) and log.get(own.number) != own:
        raise PenstockError(f"rules {own.number} already exist in {log.store.where}: create a new guard")
    query = query_id(place.parent)
    if query is not None:
        _forget(place, newest_planned(place.parent), own, query)
    found = opened(place, gate)
    for one in found:
        _refuse_elsewhere(one, own, query or "")
    needed = {own.number, *(one.number for one in found)}
    old = [number for number in log.versions()[:-_KEPT] if number not in needed]
    if old:
        log.remove(*old)
    return found


def opened(folder: str | os.PathLike[str] | Place, gate: str) -> list[Open]:
    """The batches that are bound and that Spark may run again."""
    place = Place.of(folder)
    log, query = RulesLog((place / "rules" / gate).store(make=False)), query_id(place.parent)
    if query is None:
        return _newest_of_all(place, log)
    done = newest_done(place.parent)
    return _opened(bindings_of(place, query, make=False), [one for one in _numbers(place, query) if one > done], log)


def _numbers(place: Place, query: str) -> list[int]:
    missing = (place / "bindings" / query).missing()
    return [] if missing else bindings_of(place, query, make=False).versions()


def _opened(bindings: BindingLog, batches: list[int], log: RulesLog) -> list[Open]:
    bound = [one for batch in batches if (one := bindings.get(batch)) is not None]
    return [Open(one.batch, one.rules, log.get(one.rules)) for one in bound if one.rules is not None]


def _newest_of_all(place: Place, log: RulesLog) -> list[Open]:
    """The query and its commits are unknown: the newest batch of each query that was bound here."""
    found: list[Open] = []
    for query in (place / "bindings").below():
        bindings = bindings_of(place, query, make=False)
        found += _opened(bindings, bindings.versions()[-1:], log)
    return [one._replace(sure=False) for one in found if one.rules is not None]


def _forget(place: Place, planned: int, own: Rules, query: str) -> None:
    """Unbind batches that Spark no longer knows."""
    batches = [one for one in _numbers(place, query) if one > planned]
    if not batches:
        return
    bindings = bindings_of(place, query, make=False)
    which = f"{batches[0]}" if len(batches) == 1 else f"{batches[0]} to {batches[-1]}"
    kept = [one for one in batches if _quarantined(own.quarantine, query, one)]
    if kept:
        raise PenstockError(
            f"Spark's checkpoint {place.parent} no longer has batch {kept[0]}, of which rows are in "
            f"quarantine {own.quarantine}: its number would be reused and these rows would be there twice; delete the "
            f"files {query}-{kept[0]:012d}-* and later ones there, and {bindings.store.where}"
        )
    bindings.remove(*batches)
    _logger.warning(
        "Spark's checkpoint %s no longer has batches %s of query %s: they are judged again",
        place.parent,
        which,
        query,
    )


def _refuse_elsewhere(old: Open, own: Rules, query: str) -> None:
    """Shed rows of one batch must be in one quarantine."""
    before = old.rules.quarantine if old.sure and old.rules is not None and old.rules.mode == "enforce" else ""
    if before in ("", own.quarantine):
        return
    if not own.quarantine:
        raise PenstockError.setting(
            "quarantine",
            None,
            f"{before}, where rows of batch {old.batch} go",
            "start the query with it once, until that batch is done",
        )
    if _quarantined(before, query, old.batch) and not _quarantined(own.quarantine, query, old.batch):
        raise PenstockError.setting(
            "quarantine",
            own.quarantine,
            f"{before}, where rows of batch {old.batch} are already",
            "or copy the files from there first",
        )


def _quarantined(folder: str, query: str, batch: int) -> bool:
    return bool(folder) and any(forwarded.found(Path(folder), name) for name in file_names(query, batch))
