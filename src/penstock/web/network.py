"""A query network as the page shows it: from the drawing and the journal of snapshots in the folder of its run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.store.journal import Tail, at
from penstock.web.followed import Followed, Json
from penstock.web.sentences import MISS, QUIET_S, share

if TYPE_CHECKING:
    from pathlib import Path

DRAWING, JOURNAL = "network.json", "snapshots.journal"
#: What a drawing has, and what a snapshot has that the page shows.
_DRAWN = {"name", "inputs", "boxes", "outputs", "width", "height", "nodes", "arcs"}
_TOLD = {"rates", "flows", "loads", "drops", "delivered", "utilities", "entry", "entries", "rebuilt", "alarms"}


def drawing(folder: Path) -> Json:
    """The drawing of a network; raises `OSError`, or `ValueError` if the file is no drawing."""
    found = json.loads((folder / DRAWING).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not found.keys() >= _DRAWN:
        raise ValueError(f"{folder / DRAWING} is no drawing of a network")
    return found


def has_drawing(folder: Path) -> bool:
    """Whether a network runs in this folder, or did."""
    try:
        return bool(drawing(folder))
    except (OSError, ValueError):
        return False


class FollowedNetwork(Followed):
    """The folder of a run, followed."""

    kind = "network"

    def _forget(self) -> None:
        super()._forget()
        self._tail = Tail(*at(self.folder / JOURNAL))
        self._drawing: Json | None = None
        self._drawn_ns = 0
        self._last: Json | None = None
        self._ended = False
        self._unreadable = self._rows_in = 0
        self._shed: dict[str, int] = {}
        self._drops: Json = {}

    def _follow(self) -> None:
        self._draw()
        lines = self._tail.news()
        if self._tail.restarts:
            self._forget()
            self.generation += 1
            self._draw()
            lines = self._tail.news()
        for text in lines:
            self._take(text)

    def _draw(self) -> None:
        path = self.folder / DRAWING
        changed_ns = path.stat().st_mtime_ns
        if changed_ns != self._drawn_ns:
            self._drawing, self._drawn_ns = drawing(self.folder), changed_ns
            self.name = str(self._drawing["name"])

    def _take(self, text: str) -> None:
        word, _, document = text.partition(" ")
        if word == "end":
            self._ended = True
            return
        try:
            self._take_snapshot(json.loads(document if word == "snapshot" else ""))
        except (KeyError, TypeError, ValueError, AttributeError):
            self._unreadable += 1

    def _take_snapshot(self, one: dict[str, Any]) -> None:
        if missing := _TOLD - one.keys():
            raise KeyError(*missing)
        if self._last is not None and one["batch"] == self._last["batch"]:
            return
        inputs = sum(one["rows"].get(name, 0) for name in (self._drawing or {}).get("inputs", ()))
        utilities = [utility for utility in one["utilities"].values() if utility is not None]
        point = {
            "n": one["batch"],
            "t": float(one["time_s"]),
            "d": one["duration_s"],
            "in": inputs,
            "shed": one["shed"],
            "load": one["load"],
            "allowed": one["headroom"] * one["capacity"] if one["capacity"] is not None else None,
            "done": sum(load or 0.0 for load in one["loads"].values()),
            "utility": sum(utilities) / len(utilities) if utilities else None,
        }
        self._last, self._ended = one, False
        self._rows_in += inputs
        for place, rows in one["shed"].items():
            self._shed[place] = self._shed.get(place, 0) + rows
        if one["drops"] != self._drops:
            self._drops = one["drops"]
            self.decisions.add(
                {"version": one["entry"], "t": one["time_s"], "batch": one["batch"], "drops": one["drops"]}
            )
        self.points.add(point)

    def _shown(self, now_s: float) -> Json:
        last = self._last
        return {
            "folder": self.shown_as,
            "state": self._state(now_s),
            "trouble": self._gone,
            "verdict": self._verdict(),
            "drawing": self._drawing,
            "last": last,
            "alarms": last["alarms"] if last else [],
            "errors": 0,
            "unreadable": self._unreadable,
            "batches": self.points.count,
            "rows_in": self._rows_in,
            "rows_shed": dict(self._shed),
            "rebuilt": last["rebuilt"] if last else 0,
        }

    def _state(self, now_s: float) -> str:
        if self._gone:
            return "gone"
        if self._ended:
            return "ended"
        if self._last is None:
            return "waiting"
        return "quiet" if now_s - self._last["time_s"] > QUIET_S else "running"

    def _verdict(self) -> dict[str, str]:
        if not self.points.kept:
            return {"level": "none", "text": "No batch has ended yet."}
        last = self.points.kept[-1]
        load, allowed, done = last["load"], last["allowed"], last["done"]
        kept = share(self._rows_in - sum(self._shed.values()), self._rows_in)
        worth = "" if last["utility"] is None else f" Mean utility {last['utility']:.2f}."
        if load is None or allowed is None:
            return {"level": "none", "text": f"Load is not known yet.{worth}"}
        if load <= allowed:
            return {"level": "good", "text": f"Within capacity: load {load:.2f} of {allowed:.2f} allowed.{worth}"}
        level = "good" if done <= MISS * allowed else "bad"
        text = f"Overloaded: load {load:.2f} of {allowed:.2f} allowed, {done:.2f} done with drops; {kept} kept so far."
        return {"level": level, "text": f"{text}{worth}"}
