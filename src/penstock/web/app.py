"""The page, its requests and its server: the state once, updates as server-sent events, and why a row was dropped."""

from __future__ import annotations

import errno
import json
import secrets
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import anyio
import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.web import PORT
from penstock.web.access import Door, PublicUrl, is_loopback
from penstock.web.why import why

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from penstock.web.board import Board
    from penstock.web.followed import Cursor

#: Time between two polls of the logs.
LOOK_S = 0.5
#: After this many polls without updates an empty line is sent, so that a lost connection is noticed.
QUIET_LOOKS = 20
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
#: The parts of the page, and what they are.
PARTS = {
    one.name: _KINDS[kind]
    for one in (files("penstock.web") / "page").iterdir()
    if (kind := one.name.rpartition(".")[2]) in _KINDS
}
_MOST_LETTERS = 1000


def app(
    board: Board,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    public: PublicUrl | None = None,
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
        # nginx must not buffer events.
        at_once = {"X-Accel-Buffering": "no"}
        return StreamingResponse(_events(board, closing), media_type="text/event-stream", headers=at_once)

    routes = [
        Route("/", part("index.html")),
        *(Route(f"/{name}", part(name)) for name in PARTS),
        Route("/api/state", state),
        Route("/api/why", answer),
        Route("/api/events", events),
    ]
    return Door(Starlette(routes=routes), host=host, port=port, token=token, public=public)


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


_PORTS = range(2**16)
_LEAST_TOKEN = 16
_STOP_S = 5.0


@dataclass(frozen=True)
class Address:
    """The address of the page, and the token that opens it."""

    host: str
    port: int
    token: str | None
    public: PublicUrl | None = None

    @property
    def url(self) -> str:
        """The address to open."""
        return f"{self._base}/" + (f"?token={self.token}" if self.token else "")

    @property
    def _base(self) -> str:
        if self.public is not None:
            return self.public.base
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        name = f"[{shown}]" if ":" in shown else shown
        return f"http://{name}:{self.port}"


class Page:
    """A bound page, ready to be served."""

    def __init__(
        self,
        board: Board,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str | None = None,
        public_url: str | None = None,
        any_port: bool = False,
    ) -> None:
        """Bind the address; with `any_port`, another port if this one is in use."""
        public = None if public_url is None else PublicUrl.from_text(public_url)
        if token is not None and len(token) < _LEAST_TOKEN:
            raise PenstockError.setting(
                "--token", "...", f"one of at least {_LEAST_TOKEN} letters, or none to have one made"
            )
        if token is not None and not (token.isascii() and token.replace("-", "a").replace("_", "a").isalnum()):
            raise PenstockError.setting("--token", "...", "letters from a to z, digits, - and _ alone")
        self._socket = _bound(host, port, any_port=any_port)
        bound = self._socket.getsockname()[1]
        if token is None and (public is not None or not is_loopback(host)):
            token = secrets.token_urlsafe(24)
        self.address = Address(host, bound, token, public)
        page = app(board, host=host, port=bound, token=token, public=public, closing=lambda: self._server.should_exit)
        config = uvicorn.Config(
            page,
            log_level="critical",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        self._server.run(sockets=[self._socket])

    @contextmanager
    def beside(self) -> Iterator[Address]:
        """Serve from a thread while the block runs."""
        thread = threading.Thread(target=self.serve, name="penstock-dashboard", daemon=True)
        thread.start()
        try:
            yield self.address
        finally:
            self._server.should_exit = True
            thread.join(_STOP_S)
            self._socket.close()


def _bound(host: str, port: int, *, any_port: bool) -> socket.socket:
    if port not in _PORTS:
        raise PenstockError.setting("--port", port, "a port from 1 to 65535, or 0 for any that is free")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        found = []
    if not host or not found:
        raise PenstockError.setting("--host", host, "an address or a name of this machine, such as 127.0.0.1")
    family, _, _, _, address = found[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(64)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE and any_port:
            return _bound(host, 0, any_port=False)
        setting, value, accepted = "--port", str(port), f"one that is free at {host}, or 0 for any"
        if error.errno == errno.EADDRNOTAVAIL:
            setting, value, accepted = "--host", host, "an address of this machine, such as 127.0.0.1"
        raise PenstockError.setting(setting, value, accepted, f"the system says: {error.strerror}") from None
    return made
