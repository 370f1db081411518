"""A store in a bucket of S3, Azure or Google Cloud, or of a server that speaks as one of them.

Credentials come from the role of the machine, from the environment, or from options that only this process has. No
plan, log or message contains them. The text of an error may repeat a key, so a message has only its code.
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from penstock.errors import PenstockError
from penstock.store import segments
from penstock.store.interface import StoreError
from penstock.store.place import bucket_address
from penstock.store.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.store.interface import Part

#: The attribute of an object that tells its writer from others. Azure accepts only letters, digits and underscores.
_NONCE = "penstock"
_PROBE = ".probe-"
#: The longest that a request lasts, and all its retries: a batch waits for it.
_REQUEST_S, _RETRY_S, _RETRIES = 3.0, 6.0, 3
#: After a request without an answer, others are refused for this long: a batch makes several, and waits for one only.
_SILENT_S = 10.0
#: Errors of the client and of Python that it raises.
_ERRORS = (BaseError, OSError)

#: How errors name themselves: S3 and Azure, Google Cloud, and by their status.
_CODES = (r"<Code>(\w+)</Code>", r'"code": ?"(\w+)', r"status code: (\d{3} [A-Z][A-Za-z ]+)")
_CREDENTIALS = {"AuthenticationFailed", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
_DENIED = {"AccessDenied", "AuthorizationPermissionMismatch", "403 Forbidden"}
_NO_BUCKET = {"ContainerNotFound", "NoSuchBucket"}
_CLOCK = {"RequestExpired", "RequestTimeTooSkewed"}
#: Where a client looks for the role of its machine if no credentials are given.
_ROLE_SERVERS = ("169.254.", "metadata.google", "Missing credentials", "CredentialsNotLoaded")

#: Clients by bucket and options: they hold connections, which batches of one process share.
_clients: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
#: Buckets in which this process may create names: they were probed.
_probed: set[str] = set()
#: Until when requests to buckets that do not answer are refused.
_silent: dict[str, float] = {}


class ObjectStore:
    """An object a name.

    An object appears whole, and `create` is a conditional request: the store refuses it if the name is taken. Each
    `create` marks its object with a nonce. A request whose answer is lost is retried and finds its own object, which
    the nonce shows.
    """

    def __init__(
        self,
        address: str,
        options: Mapping[str, str] | None = None,
        *,
        make: bool = True,
        client: Any = None,  # noqa: ANN401 - one of several classes, or a double of one
    ) -> None:
        """Open the store at this address, below its bucket.

        The bucket is also probed, once a process: a store that ignores the condition of a request is refused. With
        `make=False` it is not: for readers, and for other machines. `options` are those of the client, such as an
        endpoint or credentials.
        """
        self.where = bucket_address("address", address) if client is None else address
        parts = urlsplit(self.where)
        self._bucket = f"{parts.scheme}://{parts.netloc}"
        self._client = client or _client(self._bucket, options or {})
        self._prefix = parts.path.strip("/")
        self._journals: dict[str, Segments] = {}
        if make and self._bucket not in _probed:
            self._probe()

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a name and return true; false if the name is taken. Durable on return."""
        path, nonce = self._path(name), uuid.uuid4().hex
        self._refuse_silent()
        for last in (False, False, True):
            try:
                self._client.put(path, content, mode="create", attributes={_NONCE: nonce}, use_multipart=False)
            except _ERRORS as error:  # It may have been stored anyway.
                if not _answered(error):
                    self._refuse("written", error)
                found = None
                with suppress(*_ERRORS):
                    found = self._nonce(path)
                if found is not None:
                    return found == nonce
                # A name that is taken and then is not was deleted meanwhile.
                if last or not isinstance(error, AlreadyExistsError):
                    self._refuse("written", error)
            else:
                break
        return True

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, replacing the old content; it is always durable."""
        del durable
        with self._telling("written"):
            self._client.put(self._path(name), content, use_multipart=False)

    def read(self, name: str) -> bytes | None:
        """The content of a name; `None` if it is not taken."""
        with self._telling("read"), _absent():
            return bytes(self._client.get(self._path(name)).bytes())
        return None

    def has(self, name: str) -> bool:
        """Whether a name is taken."""
        with self._telling("read"), _absent():
            return bool(self._client.head(self._path(name)))
        return False

    def written_s(self, name: str) -> float | None:
        """When a name was written last; `None` if it is not taken."""
        with self._telling("read"), _absent():
            return float(self._client.head(self._path(name))["last_modified"].timestamp())
        return None

    def changed_s(self, below: str) -> float:
        """When a name was last created below this one; 0 if there is none."""
        with self._telling("listed"):
            found = self._client.list_with_delimiter(self._path(below))
        return max((one["last_modified"].timestamp() for one in found["objects"]), default=0.0)

    def names(self) -> list[str]:
        """Every name that is taken, ascending; also names of journals, and of what lies deeper."""
        with self._telling("listed"):
            found = self._client.list_with_delimiter(self._prefix or None)
        # Hadoop marks a folder with an object of its name.
        objects = (one["path"] for one in found["objects"] if one["path"] != self._prefix)
        paths = [*objects, *found["common_prefixes"]]
        return sorted(name for one in paths if not (name := one.rpartition("/")[2]).startswith(_PROBE))

    def remove(self, *names: str) -> None:
        """Delete names, those that are taken: one request for up to 1,000 of them."""
        with self._telling("deleted"), suppress(FileNotFoundError):
            self._client.delete([self._path(name) for name in names])

    def append(self, name: str, line: bytes, most_bytes: int) -> None:
        """Add a line to a journal, which is put aside first if it is full."""
        self._journals.setdefault(name, Segments(self, name)).append(line, most_bytes)

    def part(self, name: str, offset: int) -> Part | None:
        """The content of a journal from an offset on; `None` if there is none or it cannot be read."""
        try:
            return segments.part(self, name, offset)
        except StoreError:
            return None

    def sizes(self, below: str) -> dict[str, int]:
        """The sizes of the objects below a name, by what follows it."""
        with self._telling("listed"):
            found = self._client.list_with_delimiter(self._path(below))
        return {one["path"].rpartition("/")[2]: one["size"] for one in found["objects"]}

    def rest(self, name: str, offset: int) -> bytes:
        """The content of a name from an offset on; empty if there is none."""
        with self._telling("read"), _absent():
            return bytes(self._client.get(self._path(name), options={"range": {"offset": offset}}).bytes())
        return b""

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}".lstrip("/")

    def _nonce(self, path: str) -> str | None:
        """The nonce of an object, empty if it was written by another program; `None` if there is no object."""
        with _absent():
            return str(self._client.get(path, options={"head": True}).attributes.get(_NONCE, ""))
        return None

    def _probe(self) -> None:
        name = f"{_PROBE}{uuid.uuid4().hex}"
        try:
            both = self.create(name, b"1") and self.create(name, b"2")
        finally:
            with suppress(StoreError):
                self.remove(name)
        if both:
            accepted = "a bucket of a store that refuses to create an object twice"
            raise self._failure(accepted, "this one ignores If-None-Match, so two drivers could both decide a batch")
        _probed.add(self._bucket)

    @contextmanager
    def _telling(self, deed: str) -> Iterator[None]:
        """Turn an error of the store into one line."""
        self._refuse_silent()
        try:
            yield
        except _ERRORS as error:
            self._refuse(deed, error)

    def _refuse(self, deed: str, error: Exception) -> NoReturn:
        if not _answered(error):
            _silent[self._bucket] = time.monotonic() + _SILENT_S
        raise self._failure(*_told(deed, error)) from None  # Its text may have a part of the credentials.

    def _refuse_silent(self) -> None:
        if time.monotonic() < _silent.get(self._bucket, 0.0):
            raise self._failure("a bucket that can be reached", "the store did not answer a moment ago")

    def _failure(self, accepted: str, why: str) -> StoreError:
        failure = StoreError.setting("address", self.where, accepted, why)
        failure.accepted, failure.why = accepted, why
        return failure


@contextmanager
def _absent() -> Iterator[None]:
    """Ignore that there is no such object; an error if there is no such bucket."""
    try:
        yield
    except FileNotFoundError as error:
        if _code(error) in _NO_BUCKET:
            raise


def _told(deed: str, error: Exception) -> tuple[str, str]:
    """What is accepted and what to do, without the text of the error."""
    code, text = _code(error), str(error)
    says = f"the store says: {code}" if code else "the store does not answer"
    if isinstance(error, UnauthenticatedError) or code in _CREDENTIALS or any(one in text for one in _ROLE_SERVERS):
        fix = "set them by role or environment for the driver and every executor"
        return "an address for which there are valid credentials", f"{fix}; {says}"
    if code in _CLOCK:
        return "a store whose clock agrees with this machine's", f"set this machine's clock; {says}"
    if code in _NO_BUCKET or isinstance(error, FileNotFoundError):
        return "a bucket that exists", f"create it; {says}"
    if isinstance(error, PermissionDeniedError) or code in _DENIED:
        return f"a bucket in which objects may be {deed}", f"grant that to these credentials; {says}"
    return f"a bucket in which objects can be {deed}", says


def _answered(error: Exception) -> bool:
    """Whether an error is an answer of the store."""
    return bool(_code(error)) or isinstance(error, AlreadyExistsError | FileNotFoundError)


def _code(error: Exception) -> str:
    """The code that the store gives for an error; empty if it gave none."""
    found = (re.search(one, str(error)) for one in _CODES)
    return next((one[1].strip() for one in found if one), "")


def use(bucket: str, client: Any) -> None:  # noqa: ANN401 - one of several classes, or a double of one
    """Use this client for a bucket from now on, instead of one by the environment: to measure what is requested."""
    _clients[bucket, ()] = client


def _client(bucket: str, options: Mapping[str, str]) -> Any:  # noqa: ANN401 - one of several classes
    key = (bucket, tuple(sorted(options.items())))
    if key not in _clients:
        limit = timedelta(seconds=_REQUEST_S)
        given: dict[str, Any] = {
            "config": dict(options),
            # Without TLS only if the endpoint that is given has none.
            "client_options": {"allow_http": True, "connect_timeout": limit, "timeout": limit},
            "retry_config": {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_S)},
        }
        try:
            _clients[key] = from_url(bucket, **given)
        except (*_ERRORS, ValueError, TypeError):
            fix = "their values are not shown here, because they may be secret"
            raise PenstockError.setting("options", ", ".join(sorted(options)), "options of the store", fix) from None
    return _clients[key]
