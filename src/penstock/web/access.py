"""Access control of the page, and its content security policy.

Bound to loopback, the page serves this machine only. A request must use a loopback host name, which prevents DNS
rebinding. Bound elsewhere, the page asks for a token. The token arrives once in the address and then as a cookie that
scripts cannot read and that other sites' requests do not carry.

Behind a proxy the page may lie below any path, so the page and its redirect use relative addresses alone. The cookie
names no path: its default is the one that the browser sees. No header of a proxy is trusted.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Nothing but what this server serves; no frame, no form sent elsewhere, no inline script or style.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PublicUrl(NamedTuple):
    """Where a proxy shows the page."""

    base: str  #: with scheme, host and path, without the last slash
    host: str
    path: str  #: without the last slash, so it may be empty

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Check an address that a user gives."""
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
            accepted = "the address at which a proxy shows the page, such as https://example.com/penstock/"
            raise PenstockError.setting("--public-url", text, accepted)
        return cls(text.rstrip("/"), host, parts.path.rstrip("/"))

    def below(self, path: str) -> str:
        """A requested path without the prefix; a proxy may have removed it."""
        prefix = unquote(self.path)
        return path[len(prefix) :] if f"{path}/".startswith(f"{prefix}/") else path


class Door:
    """Accepts or rejects requests to the page."""

    def __init__(
        self, app: ASGIApp, *, host: str, port: int, token: str | None, public: PublicUrl | None = None
    ) -> None:
        """Guard a page bound to this address; without a token, any request with the right host name passes."""
        self._app, self._host, self._port, self._token = app, host, port, token
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if self._public is not None:
            scope = {**scope, "path": self._public.below(scope["path"])}
        answer = self._app
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self._is_ours(Headers(scope=scope).get("host", "")):
            answer = PlainTextResponse(
                "The page does not answer to this host name: open the address that was printed at the start.", 403
            )
        elif self._public is not None and not scope["path"]:
            # Relative addresses need the last slash.
            asked = scope["query_string"].decode("latin-1")
            answer = RedirectResponse(f"{self._public.path}/" + (f"?{asked}" if asked else ""), 303)
        elif self._token is not None and scope["path"] == "/" and self._is_token(given):
            # The token is removed from the address, so that neither history nor screen shows it.
            answer = moved = RedirectResponse("./", 303)
            secure = self._public is not None and self._public.base.startswith("https:")
            # Not "strict": a link from a chat or a notebook would arrive without the cookie.
            moved.set_cookie(self._cookie, given, path=None, httponly=True, samesite="lax", secure=secure)
        elif self._token is not None and not self._is_token(self._carried(HTTPConnection(scope))):
            answer = PlainTextResponse("A token is needed: open the address that was printed at the start.", 401)
        await answer(scope, receive, sealed)

    @property
    def _cookie(self) -> str:
        """Cookies of all ports are shared."""
        return f"penstock_{self._port}"

    def _carried(self, request: HTTPConnection) -> str:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return given.strip()
        # All servers on this host share cookies, and the standard library's parser fails at the first invalid one.
        return request.cookies.get(self._cookie, "")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode()) and bool(self._token)

    def _is_ours(self, header: str) -> bool:
        """Whether the request names this server: by an address, or by a name that others cannot register."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        if self._public is not None and name == self._public.host:
            return True
        loopback = is_loopback(self._host)
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            known = {"localhost"} if loopback else {"localhost", self._host.lower(), socket.gethostname().lower()}
            return name in known
        # An address cannot be rebound, and remote machines cannot reach loopback.
        return address.is_loopback or not loopback


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
