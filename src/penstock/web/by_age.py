"""What thins a batch besides its plan, by its binding: ages at the start (`core.control.backlog`), its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from penstock.core.control.backlog import age_thresholds
from penstock.core.control.gate import CERTAIN
from penstock.errors import PenstockError
from penstock.store.logs import BindingLog
from penstock.web.typed_value import microseconds

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.messages.plan import Backlog, Binding
    from penstock.web.followed import Json


class Thinned(NamedTuple):
    """How a batch thinned its rows.

    >>> from penstock.core.control.backlog import rule
    >>> old = Thinned(rule(2.0), bound_s=1e9)
    >>> old.share(1e9 - 40.0), old.share(1e9 - 10.0), old.oldest_s(2**62), old.oldest_s(2**58)
    (0.05, 1.0, 30.0, 64.0)
    """

    backlog: Backlog
    bound_s: float  #: the age of rows is their age then

    def threshold(self, arrival_s: float) -> int:
        """The largest hash at which a row of that arrival is kept."""
        return int(age_thresholds(self.backlog, np.array([arrival_s]), self.bound_s)[0])

    def share(self, arrival_s: float) -> float:
        """The keep share of rows of that arrival."""
        threshold = self.threshold(arrival_s)
        return 1.0 if threshold >= CERTAIN else (threshold + 1) / 2.0**63

    def oldest_s(self, coin: int) -> float:
        """The greatest age at which a row with this hash is kept."""
        return max(self.backlog.grace_s, self.backlog.fresh_s * 2.0**63 / max(coin, 1))

    def to_json(self, arrival_s: float | None) -> Json:
        """For the page."""
        age_s = None if arrival_s is None else self.bound_s - arrival_s
        return {"grace_s": self.backlog.grace_s, "fresh_s": self.backlog.fresh_s, "age_s": age_s}


def thinned(folder: Path, query: str, batch: int) -> Thinned | None:
    """How a batch of a guard's query thinned its rows; None if it did not."""
    bound = _binding(folder, query, batch)
    return None if bound is None or bound.backlog is None else Thinned(bound.backlog, bound.bound_s)


def share_that_fitted(folder: Path, query: str, batch: int) -> float:
    """The factor on all keep shares of a batch that was too large."""
    bound = _binding(folder, query, batch)
    return 1.0 if bound is None else bound.share


def _binding(folder: Path, query: str, batch: int) -> Binding | None:
    return BindingLog(folder / "bindings" / query, make=False).get(batch)


def seconds_since_1970(text: str) -> float:
    """A time as typed by a user.

    >>> seconds_since_1970("2001-09-09T01:46:40"), seconds_since_1970("1e9")
    (1000000000.0, 1000000000.0)
    """
    try:
        found = float(text)
    except ValueError:
        try:
            return microseconds(text) / 1e6
        except ValueError:
            found = np.nan
    if not np.isfinite(found):
        accepted = "a time such as 2026-01-31T12:00:00, in UTC, or seconds since 1970"
        raise PenstockError.setting("arrived", text[:40], accepted)
    return found
