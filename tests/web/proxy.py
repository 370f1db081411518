"""A small reverse proxy that shows a server below a path."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def proxy(port: int, path: str, *, strips: bool, preserves_host: bool) -> Iterator[str]:
    """Show the server on that port below a path, as nginx, an ingress or a notebook server does; its address.

    Args:
        port: The server's.
        path: Begins with a slash and does not end with one.
        strips: The server sees the rest of the path alone.
        preserves_host: The server sees the host name that was asked for, instead of its own address.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # an answer ends with its connection

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != path and not self.path.startswith(f"{path}/"):
                self.send_error(404)
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            if not preserves_host:
                headers["Host"] = f"127.0.0.1:{port}"
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", self.path.removeprefix(path) if strips else self.path, headers=headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "date", "server"}:
                    self.send_header(name, value)
            self.end_headers()
            try:
                while part := answer.read1():
                    self.wfile.write(part)
            except OSError:
                pass  # who asked has left
            finally:
                connection.close()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}{path}"
    finally:
        server.shutdown()
        server.server_close()
