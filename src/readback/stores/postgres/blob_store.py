"""Large evidence in object storage: the bytes are stored before the append, and the row holds the address.

Called by the store, if its URL names a location (`objects=`). An object's name consists of tenant and digest, so equal
bytes are stored once. Readers recompute the digest. If a process dies between object and row, the next append of the
same bytes reuses the object. Until then no row names the object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from readback.canon.frozen import dataclass
from readback.errors import SettingsError, StoreError
from readback.ports.storage.store import Append

Name = tuple[bytes, str]
"""Digest and tenant."""
T = TypeVar("T")
TENANT_CHARACTERS: Final = 16
_ABSENT: Final = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchBucket"})


class Files(Protocol):
    """One kind of object storage. `path` is the part after the scheme."""

    def put(self, path: str, body: bytes) -> None:
        """Store the object. On return the object is complete and durable."""
        ...

    def get(self, path: str) -> bytes | None: ...

    def has(self, path: str) -> bool: ...

    def drop(self, path: str) -> None:
        """Remove the object. A missing object is no error."""
        ...


class Local:
    """`file:///folder`: on a disk shared by all processes."""

    def put(self, path: str, body: bytes) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        with part.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def get(self, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def has(self, path: str) -> bool:
        return Path(path).is_file()

    def drop(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)


class S3:
    """`s3://bucket/prefix`, by boto3, with endpoint, region and credentials from the environment."""

    def __init__(self) -> None:
        import boto3

        self._client: Any = boto3.client("s3")

    def put(self, path: str, body: bytes) -> None:
        bucket, _, key = path.partition("/")
        self._client.put_object(Bucket=bucket, Key=key, Body=body)

    def get(self, path: str) -> bytes | None:
        bucket, _, key = path.partition("/")
        found = self._unless_absent(lambda: self._client.get_object(Bucket=bucket, Key=key))
        return None if found is None else found["Body"].read()

    def has(self, path: str) -> bool:
        bucket, _, key = path.partition("/")
        return self._unless_absent(lambda: self._client.head_object(Bucket=bucket, Key=key)) is not None

    def drop(self, path: str) -> None:
        bucket, _, key = path.partition("/")
        self._client.delete_object(Bucket=bucket, Key=key)

    def _unless_absent(self, ask: Callable[[], Any]) -> Any:
        from botocore.exceptions import ClientError

        try:
            return ask()
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise


class Fsspec:
    """Any other scheme, by fsspec and its installed plugins."""

    def __init__(self, scheme: str) -> None:
        import fsspec

        self._files: Any = fsspec.filesystem(scheme)

    def put(self, path: str, body: bytes) -> None:
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(path, body)

    def get(self, path: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(path))
        except FileNotFoundError:
            return None

    def has(self, path: str) -> bool:
        return bool(self._files.exists(path))

    def drop(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(path)


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes in object storage: the address, and the content while in memory."""

    place: str
    body: bytes


class Objects:
    """Stores evidence larger than `over` bytes under `base`. Reads and removes objects at any address."""

    def __init__(self, base: str, over: int) -> None:
        """Raises SettingsError without an installed library for the scheme of `base`."""
        self._base, self._over = base.rstrip("/"), over
        self._kinds: dict[str, Files] = {}
        if base:
            self._files(base)

    def keep(self, batch: Sequence[Append]) -> dict[Name, Kept]:
        """Store the large evidence of these appends and return the addresses. Raises StoreError before any append."""
        found: dict[Name, Kept] = {}
        for item in batch if self._base else ():
            for each in item.evidence:
                if len(each.body) > self._over:
                    name = (bytes.fromhex(each.digest), item.tenant)
                    found[name] = Kept(self.place_of(*name), each.body)
        for kept in found.values():
            self.ensure(kept)
        return found

    def ensure(self, kept: Kept) -> None:
        """Store the object again if missing."""
        if not self._do("looked for", kept.place, lambda files, path: files.has(path)):
            self._do("put", kept.place, lambda files, path: files.put(path, kept.body))

    def read(self, place: str) -> bytes | None:
        """Return the bytes without recomputing the digest. None for a missing object."""
        return self._do("read", place, lambda files, path: files.get(path))

    def drop(self, place: str) -> None:
        self._do("removed", place, lambda files, path: files.drop(path))

    def place_of(self, digest: bytes, tenant: str) -> str:
        """Return the object's URL. The tenant is hashed, since a tenant's name need not be a valid file name."""
        text = digest.hex()
        whose = sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:TENANT_CHARACTERS]
        return f"{self._base}/{whose}/{text[:2]}/{text}"

    def _files(self, place: str) -> Files:
        scheme = urlsplit(place).scheme
        if scheme not in self._kinds:
            try:
                self._kinds[scheme] = _kind(scheme)
            except (ImportError, ValueError) as error:
                raise SettingsError(
                    f"The adapter for evidence at {scheme!r} URLs is not installed ({error}).",
                    remedy="Install 'readback-ai[objects]', and what fsspec needs; 'readback-ai[s3]' for s3 URLs.",
                ) from error
        return self._kinds[scheme]

    def _do(self, verb: str, place: str, what: Callable[[Files, str], T]) -> T:
        files = self._files(place)
        path = place.partition("://")[2]
        try:
            return what(files, unquote(path) if isinstance(files, Local) else path)
        except Exception as error:
            raise StoreError(
                f"The object {place} could not be {verb} ({type(error).__name__}: {error}).",
                remedy="Check the object storage and the credentials for it; then run `readback resume`.",
                code="store.objects",
            ) from error


def _kind(scheme: str) -> Files:
    match scheme:
        case "file":
            return Local()
        case "s3":
            return S3()
        case "":
            raise ValueError("it has no scheme")
        case _:
            return Fsspec(scheme)
