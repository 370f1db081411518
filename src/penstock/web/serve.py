"""Runs the page: binds its address, makes a token if one is needed, and serves, here or in a thread."""

from __future__ import annotations

import errno
import secrets
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from penstock.errors import PenstockError
from penstock.web import PORT
from penstock.web.access import is_loopback
from penstock.web.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.web.board import Board

_PORTS = range(2**16)
_LEAST_TOKEN = 16
_STOP_S = 5.0


@dataclass(frozen=True)
class Address:
    """The address of the page, and the token that opens it."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """The address to open."""
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        name = f"[{shown}]" if ":" in shown else shown
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")


class Page:
    """A bound page, ready to be served."""

    def __init__(
        self,
        board: Board,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str | None = None,
        any_port: bool = False,
    ) -> None:
        """Bind the address; with `any_port`, another port if this one is in use."""
        if token is not None and len(token) < _LEAST_TOKEN:
            raise PenstockError.setting(
                "--token", "...", f"one of at least {_LEAST_TOKEN} letters, or none to have one made"
            )
        if token is not None and not (token.isascii() and token.replace("-", "a").replace("_", "a").isalnum()):
            raise PenstockError.setting("--token", "...", "letters from a to z, digits, - and _ alone")
        self._socket = _bound(host, port, any_port=any_port)
        bound = self._socket.getsockname()[1]
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(24)
        self.address = Address(host, bound, token)
        page = app(board, host=host, port=bound, token=token, closing=lambda: self._server.should_exit)
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
