"""Places of stores: a folder of a file system that is mounted here, or an address in a bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from penstock.errors import PenstockError, Shown
from penstock.extras import missing
from penstock.store.folder import FolderStore, local_folder, scheme_of

if TYPE_CHECKING:
    from penstock.store.objects import ObjectStore

#: Schemes of addresses that are in buckets.
BUCKETS = ("s3", "s3a", "abfs", "abfss", "gs")


@dataclass(frozen=True, slots=True)
class Place:
    """An address, which drivers, executors and plans exchange as text.

    >>> place = Place.of("s3a://bucket/checkpoint") / "penstock"
    >>> str(place), place.name, str(place.parent)
    ('s3a://bucket/checkpoint/penstock', 'penstock', 's3a://bucket/checkpoint')
    """

    address: str

    @classmethod
    def of(cls, given: str | os.PathLike[str] | Place, setting: str = "folder") -> Self:
        """Read an address or a path; an address that is neither in a bucket nor mounted here is refused."""
        if isinstance(given, Place):
            return cls(given.address)
        text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
        scheme = scheme_of(text) if isinstance(text, str) else None
        if scheme in BUCKETS:
            return cls(bucket_address(setting, text))
        if scheme not in (None, "file"):
            accepted = f"a folder of a file system that is mounted here, or one in a bucket ({', '.join(BUCKETS)})"
            raise PenstockError.setting(setting, text, accepted)
        return cls(str(local_folder(setting, text)))

    @property
    def in_bucket(self) -> bool:
        """Whether each operation is a request to a server."""
        return scheme_of(self.address) in BUCKETS

    @property
    def parent(self) -> Place:
        """The place that this one is in."""
        return Place(self.address.rpartition("/")[0])

    @property
    def name(self) -> str:
        """Its name there."""
        return self.address.rpartition("/")[2]

    def __truediv__(self, name: str) -> Place:
        """A place in it."""
        return Place(f"{self.address}/{name}")

    def __str__(self) -> str:
        """The address."""
        return self.address

    def store(self, *, make: bool = True) -> FolderStore | ObjectStore:
        """The store at this place; with `make=False`, for readers and for other machines."""
        if not self.in_bucket:
            return FolderStore(self.address, make=make)
        try:
            from penstock.store.objects import ObjectStore  # noqa: PLC0415 - needs a package of an extra
        except ModuleNotFoundError as error:
            raise missing(error) from None
        return ObjectStore(self.address, make=make)

    def below(self) -> list[str]:
        """The names in it; none if it is missing."""
        return [] if self.missing() else self.store(make=False).names()

    def missing(self) -> bool:
        """Whether it is a folder that does not exist; a bucket has no folders."""
        return not self.in_bucket and not Path(self.address).exists()


def bucket_address(setting: str, address: str) -> str:
    """The address of a folder in a bucket, as Hadoop reads it; one line if it is none.

    >>> bucket_address("checkpoint", "s3a://bucket//tries/ck/")
    's3a://bucket/tries/ck'
    """
    parts = urlsplit(address)
    host = parts.netloc
    if ":" in host or ("@" in host and not parts.scheme.startswith("abfs")) or parts.query:
        # Such text is not shown: it may have a secret in it.
        shown = Shown(f"{parts.scheme}://... with credentials, a port or a query")
        fix = "give credentials by role or environment, and an endpoint by environment"
        raise PenstockError.setting(setting, shown, "the address without them", fix)
    names = [one for one in parts.path.split("/") if one]
    if parts.scheme.startswith("abfs") and "@" not in host:
        raise PenstockError.setting(setting, address, "abfss://container@account.dfs.core.windows.net/folder")
    if not host or parts.fragment or parts.scheme not in BUCKETS or {".", ".."} & set(names):
        accepted = f"the address of a folder in a bucket, such as s3a://bucket/folder ({', '.join(BUCKETS)})"
        raise PenstockError.setting(setting, address, accepted)
    return "/".join([f"{parts.scheme}://{host}", *names])
