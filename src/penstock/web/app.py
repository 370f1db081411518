"""The page and its requests: the state once, then updates as server-sent events, and why a row was dropped."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.web.access import Door
from penstock.web.why import why

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from penstock.web.board import Board
    from penstock.web.followed import Cursor

#: Time between two polls of the logs.
LOOK_S = 0.5
#: After this many polls without updates an empty line is sent, so that a lost connection is noticed.
QUIET_LOOKS = 20
#: The parts of the page, and what they are.
PARTS = {
    "index.html": "text/html",
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "axis.js": "text/javascript",
    "chart.js": "text/javascript",
    "fair.js": "text/javascript",
    "grouped.js": "text/javascript",
    "guard.js": "text/javascript",
    "parts.js": "text/javascript",
    "network.js": "text/javascript",
    "why.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_MOST_LETTERS = 1000


def app(
    board: Board,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    closing: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """The page over a board, behind its access control; event streams end when `closing` is true."""
    page = files("penstock.web") / "page"
    contents = {name: (page / name).read_bytes() for name in PARTS}

    def part(name: str) -> Callable[[Request], Response]:
        return lambda _: Response(contents[name], media_type=f"{PARTS[name]}")

    def state(_: Request) -> Response:
        board.look()
        return JSONResponse({"logs": board.news({})})

    def answer(request: Request) -> Response:
        asked = request.query_params
        if len(str(request.url.query)) > _MOST_LETTERS:
            return JSONResponse({"error": "that is too long to be a key"}, 414)
        try:
            batch = _whole(asked.get("batch", ""))
            with board.lock:
                query = board.guarded(asked.get("id", ""))
                key, row = (_values(asked.getlist(what), asked.getlist(f"null_{what}")) for what in ("key", "row"))
                found = why(query, key, row, batch, asked.get("arrived", ""))
        except PenstockError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse(found)

    async def events(_: Request) -> Response:
        # Tells nginx not to buffer events.
        at_once = {"X-Accel-Buffering": "no"}
        return StreamingResponse(_events(board, closing), media_type="text/event-stream", headers=at_once)

    routes = [
        Route("/", part("index.html")),
        *(Route(f"/{name}", part(name)) for name in PARTS),
        Route("/api/state", state),
        Route("/api/why", answer),
        Route("/api/events", events),
    ]
    return Door(Starlette(routes=routes), host=host, port=port, token=token)


async def _events(board: Board, closing: Callable[[], bool]) -> AsyncIterator[str]:
    """Everything at first, then updates."""
    cursors: dict[str, Cursor] = {}
    yield "retry: 1000\n\n"
    quiet, first = 0, True
    while not closing():
        await run_sync(board.look)
        news = await run_sync(board.news, cursors)
        quiet = 0 if news else quiet + 1
        if news or first:
            text = json.dumps({"first": first, "logs": news}, allow_nan=False)
            yield f"data: {text}\n\n"
            first = False
        elif quiet % QUIET_LOOKS == 0:
            yield ": still here\n\n"
        await anyio.sleep(LOOK_S)


def _values(given: list[str], nulls: list[str]) -> list[str | None]:
    """The values; those at the positions in `nulls` are null, because any text may be a key."""
    return [None if str(number) in nulls else value for number, value in enumerate(given)]


def _whole(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise PenstockError.setting("batch", text, "the number of a batch") from None
