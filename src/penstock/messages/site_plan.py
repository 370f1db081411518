"""What a site keeps of a micro-batch: a message that is on disk before it acts, so a replay keeps the same rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.messages.codec import Count, Message, Name, Seconds, Share, Text


@dataclass(frozen=True, slots=True)
class SitePlan(Message):
    """The plan of one batch.

    Attributes:
        batch: The micro-batch.
        decided_s: When it was decided.
        elapsed_s: Time over which its rows came.
        keep: The share of rows that each input keeps.
        sic: The SIC of a row of each source.
        give: The share that each query is given.
        levels: The SIC of each query as the site sees it: what it gives and what others have told.
        note: Why.
        batch_id: What tells the batch from another one of the same number; empty if that is not known.
    """

    batch: Count
    decided_s: Seconds
    elapsed_s: Seconds
    keep: Mapping[Name, Share]
    sic: Mapping[Name, Share]
    give: Mapping[Name, Share]
    levels: Mapping[Name, Share]
    note: Text = ""
    batch_id: Text = ""

    @classmethod
    def _of_today(cls, document: dict[str, Any]) -> dict[str, Any]:
        """At first plans did not say which batch of a number they were for."""
        return {"batch_id": ""} | document
