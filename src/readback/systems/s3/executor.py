"""Act on an S3 bucket: upload one object, with the stamp in the metadata and the SHA-256 in the request.

Users construct the executor and call it inside actions. The executor does not verify and sends nothing twice: boto3's
retries are off. Nothing is shared with the S3 source. Needs the extra `s3`.
"""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256 as hashed
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, TypeAlias

from readback.canon import Json
from readback.domain.context import Context
from readback.domain.verification.observation import one_line
from readback.errors import ArgumentError, NotDispatchedError, ToolError, ToolTimeoutError, UsageError

STAMP_METADATA: Final = "readback-stamp"
TIMEOUT_DEFAULT_S: Final = 60.0
PART_MIN_BYTES: Final = 5_242_880
"""S3's minimum size of a part, except the last part."""
PART_DEFAULT_BYTES: Final = 16_777_216
PARTS_MAX: Final = 10_000
KEY_MAX_BYTES: Final = 1_024

Secret: TypeAlias = str | Callable[[], str]
"""A secret key, or a function that fetches the key when needed."""


class S3Executor:
    """Upload objects to one bucket.

    Safe from any thread. Call `close`, or use the executor in a `with` block. An object of more than `part_bytes` is
    uploaded in parts, and becomes visible with the last request.

    Args:
        name: Name in evidence and messages.
        bucket: The bucket.
        endpoint: Address of a service other than Amazon's.
        region: Region of the bucket.
        access_key: Access key. Default: boto3's usual places for credentials.
        secret_key: Secret key, or a function that fetches the key.
        timeout_s: Seconds for one request.
        part_bytes: Size of one part.
        sole: The action makes one upload here and does nothing else. A failure before the last request then
            proves that nothing became visible.

    Example:
        >>> def publish(ctx, key, file, sha256):
        ...     with S3Executor("releases", "releases", region="eu-central-1", sole=True) as releases:
        ...         return releases.put(ctx, key, file, sha256=sha256, only_new=True)
    """

    def __init__(
        self,
        name: str,
        bucket: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: Secret | None = None,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        part_bytes: int = PART_DEFAULT_BYTES,
        sole: bool = False,
    ) -> None:
        if part_bytes < PART_MIN_BYTES:
            raise UsageError(f"part_bytes of {name!r} must be at least {PART_MIN_BYTES} bytes.")
        self.name = name
        self._bucket = bucket
        self._where = (endpoint, region)
        self._keys = (access_key, secret_key)
        self._timeout_s = timeout_s
        self._part_bytes = part_bytes
        self._sole = sole
        self._made: Any = None
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def put(
        self,
        ctx: Context,
        key: str,
        file: str | Path,
        *,
        sha256: str,
        only_new: bool = False,
        content_type: str = "application/octet-stream",
        metadata: Mapping[str, str] | None = None,
    ) -> dict[str, Json]:
        """Upload a local file under a key.

        Args:
            ctx: Context of the action.
            key: Key of the object.
            file: Path of the file.
            sha256: Expected SHA-256 of the file, in hexadecimal. A file with other bytes is not uploaded.
            only_new: Reject the upload where the key exists.
            content_type: Media type of the object.
            metadata: More metadata.

        Returns:
            The store's answer: `etag`, `version_id`, `size`, `parts`.

        Raises:
            ToolTimeoutError: No answer arrived in time. The object may exist.
            ToolError: The store refused the object, or the object may exist.
        """
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            size = 0
        if not 0 < size <= KEY_MAX_BYTES or key.startswith("/") or {".", ".."} & set(key.split("/")):
            raise ArgumentError(f"{key!r} cannot be the key of an object.")
        if STAMP_METADATA in {name.lower() for name in metadata or {}}:
            raise UsageError(f"{self.name!r} sets the metadata {STAMP_METADATA!r} itself.")
        if not all(text.isascii() and text.isprintable() for pair in (metadata or {}).items() for text in pair):
            raise ArgumentError("The metadata of an object must be printable ASCII.")
        with ExitStack() as opened:
            with self._hidden():
                client = self._client()
                source: BinaryIO = opened.enter_context(_plain(file))
                first = source.read(self._part_bytes)
                more = source.read(1)
            marks = {"Metadata": {**(metadata or {}), STAMP_METADATA: ctx.stamp}, "ContentType": content_type}
            where = {"Bucket": self._bucket, "Key": key}
            if more:
                return self._in_parts(client, where, marks, source, [first, more], sha256, only_new)
        digest = hashed(first)
        self._as_asked(digest.hexdigest(), sha256)
        sent = {**where, **marks, **_new(only_new), **_checked(first)}
        with self._open():
            said = client.put_object(Body=first, **sent)
        return _answer(said, len(first), 1)

    def _in_parts(
        self,
        client: Any,
        where: dict[str, str],
        marks: dict[str, Any],
        source: BinaryIO,
        read: list[bytes],
        sha256: str,
        only_new: bool,
    ) -> dict[str, Json]:
        """Upload in parts. Nothing is visible before the last request, the only request with an open effect."""
        with self._hidden():
            upload = client.create_multipart_upload(**where, **marks, ChecksumAlgorithm="SHA256")["UploadId"]
        where = {**where, "UploadId": upload}
        try:
            with self._hidden():
                parts, digest, size = self._parts(client, where, source, read)
            self._as_asked(digest, sha256)
        except BaseException:
            self._drop(client, where)
            raise
        with self._open():
            said = client.complete_multipart_upload(**where, MultipartUpload={"Parts": parts}, **_new(only_new))
        return _answer(said, size, len(parts))

    def _parts(
        self, client: Any, where: dict[str, str], source: BinaryIO, read: list[bytes]
    ) -> tuple[list[dict[str, Any]], str, int]:
        parts: list[dict[str, Any]] = []
        digest, size = hashed(), 0
        part = read[0]
        held = read[1]
        while part:
            if len(parts) >= PARTS_MAX:
                raise ArgumentError(f"The file has over {PARTS_MAX} parts; make the parts larger.")
            digest.update(part)
            size += len(part)
            number = len(parts) + 1
            sent = _checked(part)
            said = client.upload_part(**where, PartNumber=number, Body=part, **sent)
            parts.append({"PartNumber": number, "ETag": said["ETag"], "ChecksumSHA256": sent["ChecksumSHA256"]})
            part, held = held + source.read(self._part_bytes - len(held)), b""
        return parts, digest.hexdigest(), size

    def _drop(self, client: Any, where: dict[str, str]) -> None:
        """Delete unfinished parts. Unfinished parts cost money and are invisible; the store's own rules clear
        leftovers.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        with suppress(BotoCoreError, ClientError):
            client.abort_multipart_upload(**where)

    def _as_asked(self, found: str, sha256: str) -> None:
        if found != sha256.lower():
            said = f"The file has the SHA-256 {found}; {sha256} was requested."
            raise NotDispatchedError(said) if self._sole else ArgumentError(said)

    # --- what an error means -----------------------------------------------------------------------------------

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """A failure here leaves nothing visible."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError, OSError) as error:
            said = one_line(f"{self.name!r} could not begin: {type(error).__name__}: {error}")
            if self._sole:
                raise NotDispatchedError(said) from error
            raise ToolError(said, remedy="Its effect is being read back.", code="tool.unreachable") from error

    @contextmanager
    def _open(self) -> Iterator[None]:
        """The request that makes the object visible."""
        from botocore import exceptions as fault

        try:
            yield
        except fault.ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            raise self._failed(error, "tool.refused" if status < 500 else "tool.failed") from error
        except (*_unreached(), *_unsent()) as error:
            if self._sole:
                raise NotDispatchedError(one_line(f"{self.name!r} was sent nothing: {error}")) from error
            raise self._failed(error, "tool.unreachable") from error
        except fault.ReadTimeoutError as error:
            raise ToolTimeoutError(f"{self.name!r} received the object and did not reply in time.") from error
        except fault.BotoCoreError as error:
            raise self._failed(error, "tool.connection-lost") from error

    def _failed(self, error: Exception, code: str) -> ToolError:
        said = one_line(f"{self.name!r} failed: {type(error).__name__}: {error}")
        return ToolError(said, remedy="Its effect is being read back.", code=code)

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = _client(*self._where, *self._keys, timeout_s=self._timeout_s)
            return self._made


def _client(
    endpoint: str | None, region: str | None, access_key: str | None, secret_key: Secret | None, *, timeout_s: float
) -> Any:
    """One request is one request: no retries, no proxies from the environment, no checksums besides ours."""
    import boto3.session
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        proxies={},
        request_checksum_calculation="when_required",
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key() if callable(secret_key) else secret_key,
        config=config,
    )


@contextmanager
def _plain(file: str | Path) -> Iterator[BinaryIO]:
    """Open a file without waiting. Raises OSError for anything but a plain file: a pipe blocks, and a device has no
    end.
    """
    with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as source:
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise OSError(f"{str(file)!r} is not a plain file")
        yield source


def _unreached() -> tuple[type[Exception], ...]:
    """Errors raised without a connection."""
    from botocore import exceptions as fault

    return fault.EndpointConnectionError, fault.ConnectTimeoutError, fault.ProxyConnectionError


def _unsent() -> tuple[type[Exception], ...]:
    """Errors raised while a request is composed and signed."""
    from botocore import exceptions as fault

    return (
        fault.ParamValidationError,
        fault.NoCredentialsError,
        fault.PartialCredentialsError,
        fault.CredentialRetrievalError,
    )


def _checked(data: bytes) -> dict[str, str]:
    """Add the digest: the store refuses other bytes."""
    return {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": b64encode(hashed(data).digest()).decode("ascii")}


def _new(only_new: bool) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if only_new else {}


def _answer(said: Mapping[str, Any], size: int, parts: int) -> dict[str, Json]:
    """Return the store's answer. `etag` is no digest of the object, even where it looks like a digest."""
    return {
        "etag": str(said.get("ETag", "")).strip('"'),
        "version_id": said.get("VersionId"),
        "size": size,
        "parts": parts,
    }
