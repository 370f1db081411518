"""An S3 server for tests: moto's, in this process, whose requests are counted and made to fail."""

from __future__ import annotations

import logging
import socket
import threading
import time
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any

from moto.server import DomainDispatcherApplication, create_backend_app
from obstore.store import from_url
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from collections.abc import Iterable

BUCKET = "bucket"
#: Credentials that must not be told.
KEY, SECRET = "AKIAUNTOLD", "untold-secret"
#: An answer of S3 that refuses a request; it repeats the key.
REFUSAL = (
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>no</Message>'
    f"<AWSAccessKeyId>{KEY}</AWSAccessKeyId></Error>"
)


class ObjectServer:
    """A bucket on a port of its own."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # It logs each request.
        self.requests: Counter[str] = Counter()  #: by method; those of Hadoop under its name
        self.mend()
        self.log = []
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.make(BUCKET)

    def mend(self) -> None:
        """Have no faults, as at first."""
        self.delay_s = 0.0  #: how long each request waits
        self.conditional = True  #: whether it heeds If-None-Match
        self.lost = ""  #: what happens to the next answer to a write: `error` or `cut`
        self.refusal: tuple[int, str] | None = None  #: status and code of every answer but those to Hadoop

    @property
    def environment(self) -> dict[str, str]:
        """The variables that give a process the address and the credentials."""
        return {f"AWS_{name.upper()}": value for name, value in self.options.items()}

    @property
    def hadoop(self) -> dict[str, str]:
        """The settings that give them to Hadoop's client."""
        settings = {
            "access.key": KEY,
            "secret.key": SECRET,
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "create.performance.flags": "*",  # fewer looks before it writes
            "input.stream.type": "classic",
        }
        return {f"fs.s3a.{name}": value for name, value in settings.items()}

    @property
    def options(self) -> dict[str, str]:
        return {
            "access_key_id": KEY,
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "secret_access_key": SECRET,
        }

    def make(self, bucket: str) -> None:
        made = urllib.request.Request(f"{self.endpoint}/{bucket}", method="PUT")  # noqa: S310 - a server of ours
        urllib.request.urlopen(made).close()  # noqa: S310

    def objects(self, folder: str) -> dict[str, bytes]:
        """Every object below a folder of the bucket, by what follows it; marks of folders are left out."""
        client = from_url(f"s3://{BUCKET}", config=self.options, client_options={"allow_http": True})
        paths = [one["path"] for page in client.list(folder) for one in page if one["size"]]
        return {path.removeprefix(f"{folder}/"): bytes(client.get(path).bytes()) for path in paths}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        hadoop = "hadoop" in environ.get("HTTP_USER_AGENT", "").lower()
        self.requests["hadoop" if hadoop else environ["REQUEST_METHOD"]] += 1
        time.sleep(self.delay_s)
        if self.refusal is not None and not hadoop:
            status, code = self.refusal
            return Response(REFUSAL.format(code=code), status, mimetype="application/xml")(environ, start_response)
        if not self.conditional:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self._lock:  # moto looks and stores in two steps, S3 in one.
            answer = Response.from_app(self._moto, environ, buffered=True)
        if self.lost and environ["REQUEST_METHOD"] == "PUT":
            lost, self.lost = self.lost, ""
            if lost == "cut":
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return Response("", 500)(environ, start_response)
        return answer(environ, start_response)
