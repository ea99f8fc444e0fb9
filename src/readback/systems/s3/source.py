"""A bucket as a system of record: what an object is, by its head or by its bytes, over S3; it changes nothing.

Constructed by users and called inside reader functions. It must not act, and shares nothing with what does. An ETag is
never taken for a digest: of an object in parts, or of an encrypted one, it is none. Needs the extra `s3`.
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
"""Versions under one prefix that a search looks at; with more, it was not a whole one."""
CHUNK_BYTES: Final = 1_048_576

Secret: TypeAlias = str | Callable[[], str]
"""A secret key, or what fetches it when it is needed."""

_HIDDEN: Final = frozenset({401, 403})
_LATER: Final = frozenset({0, 408, 409, 425, 429})


class S3Source:
    """Objects of one bucket. Safe from any thread; `close` it, or use it in a `with` block.

    `endpoint`: where it is not Amazon's. Without keys, boto3 looks for credentials in its usual places. `consistency`
    marks every reading with less than its reader declared, for a bucket that is replicated into.
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
            raise UsageError("A source needs a name, and a bucket to look into.")
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
        """Closes the connections. May be called twice."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def head(self, ctx: Context, key: str, *, read_bytes: bool = False) -> Reading:
        """The object under a key, as the store describes it; `read_bytes`: as its bytes are.

        Its value: `bucket`, `key`, `size`, `sha256` (hexadecimal, of the whole object; null where the store has none),
        `checksum` (how that is known: whole, read or none), `etag`, `version_id`, `content_type`, `metadata`, `stamp`.
        Where the store has no digest of the whole, as of an object in parts, its bytes are read and hashed. Absent only
        where the same credentials are shown the bucket.
        """
        found = self._seen(key, None, read_bytes=read_bytes)
        if found.presence is not Presence.ABSENT:
            return found
        try:
            shown = self._asked("head_bucket")
        except _NoAnswerError as error:
            return Reading.not_visible(f"{self.name} shows no such object, and its bucket {error}")
        if _was_kept(shown):
            return Reading.not_visible(f"{self.name} shows no such object, and its bucket was shown by a cache")
        return found

    def versions(self, ctx: Context, key: str) -> Reading:
        """Every version that the bucket keeps of a key, the newest first: what a deletion leaves, and what it does not.

        Its value: `bucket`, `key`, `versions` (each with `version_id`, `latest`, `size`, `etag`), `markers` (ids of the
        delete markers), `deleted` (the newest of all is such a marker, so that a plain look shows nothing). Absent
        where no version and no marker is left. More than `CANDIDATES_MAX` are not told as all.
        """
        try:
            listed = self._asked("list_object_versions", Prefix=key, MaxKeys=CANDIDATES_MAX + 1)
        except _NoAnswerError as error:
            return self._unseen(error) if error.status != 404 else Reading.not_visible(f"{self.name} {error}")
        own = [each for each in listed.get("Versions", []) if each["Key"] == key]
        markers = [each for each in listed.get("DeleteMarkers", []) if each["Key"] == key]
        beyond = [*listed.get("Versions", []), *listed.get("DeleteMarkers", [])]
        # The key itself comes first of all with the prefix: where another one is listed, all of its own are here.
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
        """Every version of every object under a prefix that bears the context's stamp, each as `head` shows it.

        `own_of_many`: the prefix is a key, and among too many objects under it that one's versions suffice, if all of
        them can be seen; else an object whose key is the prefix, such as a folder's mark, says nothing of the others.
        Raises ReaderFailedError where not everything could be looked at, a listed version was replaced or removed
        before its look, a cache answered, or nothing was found with less than a strong `consistency`: it may be on its
        way.
        """
        try:
            listed = self._asked("list_object_versions", Prefix=prefix, MaxKeys=CANDIDATES_MAX + 1)
        except _NoAnswerError as error:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: it {error}.") from error
        self._answered_itself(_was_kept(listed))
        versions = listed.get("Versions", [])
        if listed.get("IsTruncated") or len(versions) > CANDIDATES_MAX:
            # The key itself comes first; where another one follows, all of its versions are here.
            own = [each for each in versions if each["Key"] == prefix]
            if not own_of_many or not own or own[-1] is versions[-1]:
                raise ReaderFailedError(f"Source {self.name!r} holds over {CANDIDATES_MAX} versions under {prefix!r}.")
            versions = own
        found = [self._seen(str(each["Key"]), _version_of(each), stamp=ctx.stamp) for each in versions]
        if not all(_is_listed(each, seen) for each, seen in zip(versions, found, strict=True)):
            raise ReaderFailedError(f"Source {self.name!r} was changed under {prefix!r} while it was searched.")
        unseen = next((each for each in found if each.presence not in (Presence.PRESENT, Presence.ABSENT)), None)
        if unseen is not None:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: {unseen.detail}")
        self._answered_itself(any(each.consistency is Consistency.CACHED for each in found))
        ours = [each for each in found if each.stamp == ctx.stamp]
        if not ours and self._consistency not in (None, Consistency.STRONG):
            raise ReaderFailedError(f"Source {self.name!r} is replicated into: that it finds nothing says nothing.")
        return ours

    def ping(self) -> None:
        """Raises ReaderFailedError where the bucket is not shown."""
        try:
            self._asked("head_bucket")
        except _NoAnswerError as error:
            raise ReaderFailedError(f"The bucket of source {self.name!r} {error}.") from error

    def _answered_itself(self, kept: bool) -> None:
        if kept:
            raise ReaderFailedError(f"Source {self.name!r} showed what a cache had kept.")

    # --- looking -----------------------------------------------------------------------------------------------

    def _seen(self, key: str, version: str | None, *, read_bytes: bool = False, stamp: str = "") -> Reading:
        """One look at one version, the newest where none is named. `stamp`: what bears another is not read whole."""
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
            mark = version_id if version_id not in (None, "null") else value["etag"]  # the former is one for all
            level = Consistency.CACHED if _was_kept(said) else self._consistency
            return Reading.of(value, version=str(mark), stamp=metadata.get(STAMP_METADATA), consistency=level)
        except CanonError as error:
            raise ReaderTypeError(f"An object of {self.name!r} has no JSON form: {error.message}") from error

    def _hashed(self, named: Mapping[str, str], said: Mapping[str, Any]) -> str:
        """The digest of the bytes of the very object that the head was of."""
        version = said.get("VersionId")
        same = {"VersionId": version} if version not in (None, "null") else {"IfMatch": said["ETag"]}
        digest, size = sha256(), 0
        sent = self._asked("get_object", **{**named, **same})
        body = sent["Body"]
        if _was_kept(sent) or (sent.get("ETag"), sent.get("VersionId")) != (said.get("ETag"), version):
            body.close()
            raise _NoAnswerError(0, "sent what a cache had kept, or another object than its head is of")
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
            return Reading.not_visible(f"{said}: these credentials are shown nothing")
        if status in _LATER or status == 412 or status >= 500:
            return Reading.unavailable(said)  # 412: another object was put there while this one was read
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
    """How a listed version is asked for: one from before versioning, while it is the newest, by no name."""
    return None if listed["VersionId"] == "null" and listed.get("IsLatest") else str(listed["VersionId"])


def _listed(each: Mapping[str, Any]) -> Json:
    return {
        "version_id": str(each["VersionId"]),
        "latest": each.get("IsLatest") is True,
        "size": int(each.get("Size", 0)),
        "etag": str(each.get("ETag", "")).strip('"'),
    }


def _is_listed(listed: Mapping[str, Any], seen: Reading) -> bool:
    """Whether the look saw the version that the list names. A newer version or a deletion in between hides it from a
    look by no name; the object is then still there, and a search that leaves it out finds too little.
    """
    if seen.presence is Presence.ABSENT:
        return False
    if seen.presence is not Presence.PRESENT or _version_of(listed) is not None:
        return True
    value = seen.value
    assert isinstance(value, Mapping)
    return value["version_id"] in (None, "null") and value["etag"] == str(listed.get("ETag", "")).strip('"')


class _NoAnswerError(Exception):
    """Why nothing was shown, as the end of a sentence; `status` 0: no answer at all; `kept`: a cache gave it."""

    def __init__(self, status: int, said: str, *, kept: bool = False) -> None:
        super().__init__(said)
        self.status = status
        self.kept = kept


@contextmanager
def _answering(faults: tuple[type[Exception], type[Exception]]) -> Iterator[None]:
    """Turns what boto3 raises into what it means here."""
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
    """A cache on the way answered, and says so by the age of what it kept."""
    headers = said.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("age", "0")).strip() != "0"


def _digest_of(said: Mapping[str, Any]) -> tuple[str | None, str]:
    """The digest of the whole object, where the store has one; that of an object in parts is over their digests."""
    text = said.get("ChecksumSHA256")
    kind = said.get("ChecksumType")
    in_parts = "-" in str(said.get("ETag", "")) and kind != "FULL_OBJECT"  # not every store says of what it is
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
        raise UsageError(
            f"A store's endpoint is an address that begins with http:// or https://, not {endpoint!r:.80}."
        )
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        proxies={},
        response_checksum_validation="when_required",  # bytes that differ are for us to see
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
