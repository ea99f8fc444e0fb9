"""An S3 bucket as a system of record: reads objects by head or by bytes and changes nothing.

Users construct the source and call it inside reader functions. Nothing is shared with the executor. An ETag never
counts as a digest: for an object in parts or an encrypted object, the ETag is none. Needs the extra `s3`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from readback.canon import CanonError, Json
from readback.domain.context import Context
from readback.domain.side_effect import Consistency
from readback.domain.verification.observation import one_line
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError

STAMP_METADATA: Final = "readback-stamp"
TIMEOUT_DEFAULT_S: Final = 10.0
CANDIDATES_MAX: Final = 50
"""Maximum versions under one prefix in a search. More versions make the search incomplete."""
CHUNK_BYTES: Final = 1_048_576

Secret: TypeAlias = str | Callable[[], str]
"""A secret key, or a function that fetches the key when needed."""

_HIDDEN: Final = frozenset({401, 403})
_LATER: Final = frozenset({0, 408, 409, 425, 429})


class S3Source:
    """Read the objects of one bucket.

    Safe from any thread. Call `close`, or use the source in a `with` block.

    Args:
        name: Name in readings and messages.
        bucket: The bucket.
        endpoint: Address of a service other than Amazon's.
        region: Region of the bucket.
        access_key: Access key. Default: boto3's usual places for credentials.
        secret_key: Secret key, or a function that fetches the key.
        timeout_s: Seconds for one request.
        consistency: A weaker consistency than the reader declares, for a replicated bucket.

    Example:
        >>> def release(ctx, key):
        ...     with S3Source("releases", "releases", region="eu-central-1") as releases:
        ...         return releases.head(ctx, key)
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
        consistency: Consistency | str | None = None,
    ) -> None:
        if not name or not bucket:
            raise UsageError("A source needs a name and a bucket.")
        self.name = name
        self._bucket = bucket
        self._where = (endpoint, region)
        self._keys = (access_key, secret_key)
        self._timeout_s = timeout_s
        self._consistency = None if consistency is None else Consistency(consistency)
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

    def head(self, ctx: Context, key: str, *, read_bytes: bool = False) -> Reading:
        """Read the object under a key by the store's description, or with `read_bytes` by the bytes.

        The value holds `bucket`, `key`, `size`, `sha256` (hexadecimal, of the whole object, or null), `checksum` (the
        origin of the digest: whole, read or none), `etag`, `version_id`, `content_type`, `metadata` and `stamp`. Where
        the store has no digest of the whole object, for example of an object in parts, the source reads and hashes the
        bytes. The reading is absent only where the same credentials can see the bucket.
        """
        found = self._seen(key, None, read_bytes=read_bytes)
        if found.presence is not Presence.ABSENT:
            return found
        try:
            shown = self._asked("head_bucket")
        except _NoAnswerError as error:
            return Reading.not_visible(f"{self.name} shows no such object, and its bucket {error}")
        if _was_kept(shown):
            return Reading.not_visible(f"{self.name} shows no such object, and its bucket came from a cache")
        return found

    def versions(self, ctx: Context, key: str) -> Reading:
        """Read every version of a key in the bucket, the newest first, including deleted versions.

        The value holds `bucket`, `key`, `versions` (each with `version_id`, `latest`, `size`, `etag`), `markers` (ids
        of the delete markers) and `deleted` (the newest entry is a delete marker, so a plain read finds nothing). The
        reading is absent where no version and no marker exists. A list of more than `CANDIDATES_MAX` is never shown as
        complete.
        """
        try:
            listed = self._asked("list_object_versions", Prefix=key, MaxKeys=CANDIDATES_MAX + 1)
        except _NoAnswerError as error:
            return self._unseen(error) if error.status != 404 else Reading.not_visible(f"{self.name} {error}")
        own = [each for each in listed.get("Versions", []) if each["Key"] == key]
        markers = [each for each in listed.get("DeleteMarkers", []) if each["Key"] == key]
        beyond = [*listed.get("Versions", []), *listed.get("DeleteMarkers", [])]
        # The key sorts before all longer keys: once another key is listed, all versions of the key are here.
        whole = not listed.get("IsTruncated") or any(each["Key"] != key for each in beyond)
        level = Consistency.CACHED if _was_kept(listed) else self._consistency
        if not own and not markers:
            return Reading.absent(complete=whole, consistency=level)
        value: dict[str, Json] = {
            "bucket": self._bucket,
            "key": key,
            "versions": [_listed(each) for each in own],
            "markers": [str(each["VersionId"]) for each in markers],
            "deleted": any(each.get("IsLatest") is True for each in markers),
        }
        return Reading.of(value, complete=whole, consistency=level)

    def find(self, ctx: Context, prefix: str, *, own_of_many: bool = False) -> list[Reading]:
        """Find every version with the context's stamp under a prefix, in the form of `head`.

        With `own_of_many`, the prefix is a key. Among too many objects under the prefix, the versions of that key
        suffice, if all can be seen. Without `own_of_many`, an object named like the prefix, such as a folder marker,
        proves nothing about the others.

        Raises ReaderFailedError where the search was incomplete, a listed version changed before its read, a cache
        answered, or nothing was found at a `consistency` below strong, because the object may still arrive.
        """
        try:
            listed = self._asked("list_object_versions", Prefix=prefix, MaxKeys=CANDIDATES_MAX + 1)
        except _NoAnswerError as error:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: it {error}.") from error
        self._answered_itself(_was_kept(listed))
        versions = listed.get("Versions", [])
        if listed.get("IsTruncated") or len(versions) > CANDIDATES_MAX:
            # The key sorts first: once another key follows, all versions of the key are here.
            own = [each for each in versions if each["Key"] == prefix]
            if not own_of_many or not own or own[-1] is versions[-1]:
                raise ReaderFailedError(f"Source {self.name!r} holds over {CANDIDATES_MAX} versions under {prefix!r}.")
            versions = own
        found = [self._seen(str(each["Key"]), _version_of(each), stamp=ctx.stamp) for each in versions]
        if not all(_is_listed(each, seen) for each, seen in zip(versions, found, strict=True)):
            raise ReaderFailedError(f"Source {self.name!r} changed under {prefix!r} during the search.")
        unseen = next((each for each in found if each.presence not in (Presence.PRESENT, Presence.ABSENT)), None)
        if unseen is not None:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: {unseen.detail}")
        self._answered_itself(any(each.consistency is Consistency.CACHED for each in found))
        ours = [each for each in found if each.stamp == ctx.stamp]
        if not ours and self._consistency not in (None, Consistency.STRONG):
            raise ReaderFailedError(f"Source {self.name!r} is a replica, so an empty search proves nothing.")
        return ours

    def ping(self) -> None:
        """Check the bucket. Raises ReaderFailedError where the bucket is not visible."""
        try:
            self._asked("head_bucket")
        except _NoAnswerError as error:
            raise ReaderFailedError(f"The bucket of source {self.name!r} {error}.") from error

    def _answered_itself(self, kept: bool) -> None:
        if kept:
            raise ReaderFailedError(f"Source {self.name!r} showed an answer from a cache.")

    # --- looking -----------------------------------------------------------------------------------------------

    def _seen(self, key: str, version: str | None, *, read_bytes: bool = False, stamp: str = "") -> Reading:
        """Read one version, by default the newest. An object with another stamp than `stamp` is not read whole."""
        named = {"Key": key} | ({} if version is None else {"VersionId": version})
        try:
            said = self._asked("head_object", **named, ChecksumMode="ENABLED")
            metadata = {str(name).lower(): str(text) for name, text in said.get("Metadata", {}).items()}
            digest, how = _digest_of(said)
            wanted = not stamp or metadata.get(STAMP_METADATA) == stamp
            if wanted and (read_bytes or digest is None):
                digest, how = self._hashed(named, said), "read"
        except _NoAnswerError as error:
            return self._unseen(error)
        value: dict[str, Json] = {
            "bucket": self._bucket,
            "key": key,
            "size": int(said["ContentLength"]),
            "sha256": digest,
            "checksum": how,
            "etag": str(said.get("ETag", "")).strip('"'),
            "version_id": said.get("VersionId"),
            "content_type": str(said.get("ContentType", "")),
            "metadata": dict[str, Json](metadata),
            "stamp": metadata.get(STAMP_METADATA),
        }
        try:
            version_id = value["version_id"]
            mark = version_id if version_id not in (None, "null") else value["etag"]  # "null" means unversioned
            level = Consistency.CACHED if _was_kept(said) else self._consistency
            return Reading.of(value, version=str(mark), stamp=metadata.get(STAMP_METADATA), consistency=level)
        except CanonError as error:
            raise ReaderTypeError(f"An object of {self.name!r} has no JSON form: {error.message}") from error

    def _hashed(self, named: Mapping[str, str], said: Mapping[str, Any]) -> str:
        """Return the digest of the bytes of the same object as the head."""
        version = said.get("VersionId")
        same = {"VersionId": version} if version not in (None, "null") else {"IfMatch": said["ETag"]}
        digest, size = sha256(), 0
        sent = self._asked("get_object", **{**named, **same})
        body = sent["Body"]
        if _was_kept(sent) or (sent.get("ETag"), sent.get("VersionId")) != (said.get("ETag"), version):
            body.close()
            raise _NoAnswerError(0, "sent an answer from a cache, or another object than in the head")
        try:
            with _answering(self._faults()):
                while chunk := body.read(CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
        finally:
            body.close()
        if size != said["ContentLength"]:
            raise _NoAnswerError(0, f"sent {size} bytes of an object of {said['ContentLength']}")
        return digest.hexdigest()

    def _unseen(self, error: _NoAnswerError) -> Reading:
        status, said = error.status, f"{self.name} {error}"
        if status == 404:
            return Reading.absent(consistency=Consistency.CACHED if error.kept else self._consistency)
        if status in _HIDDEN:
            return Reading.not_visible(f"{said}: nothing is visible to these credentials")
        if status in _LATER or status == 412 or status >= 500:
            return Reading.unavailable(said)  # 412: the object was replaced during the read
        raise ReaderFailedError(f"Source {said}.")

    def _asked(self, what: str, **named: Any) -> Mapping[str, Any]:
        with _answering(self._faults()):
            said: Mapping[str, Any] = getattr(self._client(), what)(Bucket=self._bucket, **named)
        return said

    def _faults(self) -> tuple[type[Exception], type[Exception]]:
        from botocore.exceptions import BotoCoreError, ClientError

        return ClientError, BotoCoreError

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = _client(*self._where, *self._keys, timeout_s=self._timeout_s)
            return self._made


def _version_of(listed: Mapping[str, Any]) -> str | None:
    """Return the version id to request. The newest version from before versioning is requested without an id."""
    return None if listed["VersionId"] == "null" and listed.get("IsLatest") else str(listed["VersionId"])


def _listed(each: Mapping[str, Any]) -> Json:
    return {
        "version_id": str(each["VersionId"]),
        "latest": each.get("IsLatest") is True,
        "size": int(each.get("Size", 0)),
        "etag": str(each.get("ETag", "")).strip('"'),
    }


def _is_listed(listed: Mapping[str, Any], seen: Reading) -> bool:
    """Return whether the read saw the listed version.

    A newer version or a deletion hides the version from a read without id. The object still exists, and a search
    without the object would find too little.
    """
    if seen.presence is Presence.ABSENT:
        return False
    if seen.presence is not Presence.PRESENT or _version_of(listed) is not None:
        return True
    value = seen.value
    assert isinstance(value, Mapping)
    return value["version_id"] in (None, "null") and value["etag"] == str(listed.get("ETag", "")).strip('"')


class _NoAnswerError(Exception):
    """Why nothing was shown, as the end of a sentence. `status` 0: no answer at all. `kept`: the answer came from a
    cache.
    """

    def __init__(self, status: int, said: str, *, kept: bool = False) -> None:
        super().__init__(said)
        self.status = status
        self.kept = kept


@contextmanager
def _answering(faults: tuple[type[Exception], type[Exception]]) -> Iterator[None]:
    """Convert boto3's errors."""
    refused, broken = faults
    try:
        yield
    except refused as error:
        said = getattr(error, "response", {})
        status = said.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise _NoAnswerError(int(status), f"answered {status}", kept=_was_kept(said)) from error
    except (broken, OSError) as error:
        raise _NoAnswerError(0, one_line(f"gave no answer: {type(error).__name__}: {error}")) from error


def _was_kept(said: Mapping[str, Any]) -> bool:
    """Whether a cache answered, by the reported age."""
    headers = said.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("age", "0")).strip() != "0"


def _digest_of(said: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the store's digest of the whole object, or None. The digest of an object in parts covers the parts'
    digests.
    """
    text = said.get("ChecksumSHA256")
    kind = said.get("ChecksumType")
    in_parts = "-" in str(said.get("ETag", "")) and kind != "FULL_OBJECT"  # some stores report no type
    if not isinstance(text, str) or kind == "COMPOSITE" or "-" in text or in_parts:
        return None, "none"
    try:
        raw = b64decode(text, validate=True)
    except binascii.Error:
        return None, "none"
    return (raw.hex(), "whole") if len(raw) == sha256().digest_size else (None, "none")


def _client(
    endpoint: str | None, region: str | None, access_key: str | None, secret_key: Secret | None, *, timeout_s: float
) -> Any:
    import boto3.session
    from botocore.config import Config

    if endpoint is not None and re.match(r"https?://[^/?#\s]", endpoint) is None:
        raise UsageError(f"endpoint must begin with http:// or https:// (got {endpoint!r:.80}).")
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        proxies={},
        response_checksum_validation="when_required",  # the source reports differing bytes itself
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
