"""The host functions of verifiers' scripts: http, fs, sql, time and hash, each with an allow-list and bounds.

Implements the port `ports.scripts.ScriptHost`. Chosen by `bootstrap`. The functions change nothing: HTTP uses GET and
HEAD without redirects, files are opened for reading and never through a link, databases are opened read-only.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from readback.canon import Json, ReadbackError, json_value, payload_bytes, sha256_hex
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions
from readback.ports.scripts import Functions, HostCall

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGESTS: Final = ("sha256", "sha384", "sha512", "sha1", "md5")
FAILED_STATUS: Final = (408, 425, 429)
"""Statuses without information about the object, besides 500 and above."""
ASKED_MAX_CHARACTERS: Final = 500
HEADERS_OURS: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "forwarded",
        "host", "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via",
        "x-forwarded-host", "x-forwarded-server", "x-host", "x-http-host-override", "x-http-method",
        "x-http-method-override", "x-method-override", "x-original-host", "x-original-method", "x-original-url",
        "x-rewrite-url",
    }
)  # fmt: skip
"""Headers about a request's target, method or length. Only `allow.http` decides those."""
HEADERS_MAX: Final = 50
HEADER_MAX_CHARACTERS: Final = 8_192
SQL_STEPS: Final = 2_000_000
"""Maximum instructions of SQLite's machine in one query."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PART = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class _UnavailableError(Exception):
    """The system is unreachable: nothing is known about its content."""


class WorldHost:
    """The host functions of scripts under one allow-list."""

    def __init__(self, allow: ScriptPermissions, limits: ScriptLimits, now_us: Callable[[], int]) -> None:
        self._allow, self._limits, self._now_us = allow, limits, now_us

    def functions(self, record: Callable[[HostCall], None]) -> Functions:
        """See the port."""
        looks: dict[str, dict[str, Callable[..., Json]]] = {
            "http": {"get": self._get, "head": self._head},
            "fs": {"stat": self._stat, "exists": self._exists, "read": self._read, "list": self._list},
            "sql": {"query": self._query},
            "time": {"now_us": self._now_us, "now": lambda: self._now_us() / 1_000_000},
            "hash": {name: _hasher(name) for name in DIGESTS},
        }
        return {
            module: {name: _recorded(f"{module}.{name}", look, record) for name, look in named.items()}
            for module, named in looks.items()
        }

    # --- http ---

    def _get(self, url: str, headers: Mapping[str, str] | None = None) -> Json:
        return self._asked("GET", url, headers)

    def _head(self, url: str, headers: Mapping[str, str] | None = None) -> Json:
        return self._asked("HEAD", url, headers)

    def _asked(self, method: str, url: str, headers: Mapping[str, str] | None) -> Json:
        if not any(_within(url, prefix) for prefix in self._allow.http):
            raise PermissionError(f"{url!r:.120} is not among the addresses that `allow.http` names")
        sent = _headers(headers)
        came: list[Json] = []
        broke: list[Exception] = []

        def ask() -> None:
            try:
                came.append(self._answered(method, url, sent))
            except (TypeError, ValueError) as error:  # invalid headers
                broke.append(error)

        asking = threading.Thread(target=ask, name="readback-look", daemon=True)
        asking.start()
        asking.join(self._limits.host_seconds)  # a slow server blocks only its own thread
        if broke:
            raise ValueError(str(broke[0]))
        return came[0] if came else _nothing(f"no whole answer within {self._limits.host_seconds:g} s")

    def _answered(self, method: str, url: str, headers: Mapping[str, str]) -> Json:
        import httpx

        body, cut = bytearray(), False
        try:
            with (
                httpx.Client(timeout=self._limits.host_seconds, follow_redirects=False, trust_env=False) as client,
                client.stream(method, url, headers={**headers, "Accept-Encoding": "identity"}) as answer,
            ):
                started_us = self._now_us()
                unfold = _unfolding(answer.headers.get("content-encoding", ""), self._limits.body_bytes + 1)
                for chunk in answer.iter_raw(16_384):
                    body += unfold(chunk)
                    slow = self._now_us() - started_us > self._limits.host_seconds * 1_000_000
                    if len(body) > self._limits.body_bytes or slow:
                        cut = True
                        break
                found: dict[str, Json] = {"status": answer.status_code, "headers": dict(answer.headers.items())}
        except (httpx.HTTPError, httpx.InvalidURL, OSError, zlib.error) as error:
            return _nothing(f"{type(error).__name__}: {error}"[:200])
        text = bytes(body[: self._limits.body_bytes]).decode("utf-8", "replace")
        return {**found, "body": text, **({"cut": True} if cut else {})}

    # --- files ---

    def _stat(self, path: str) -> Json:
        with self._opened(path) as number:
            return None if number is None else _facts(os.fstat(number))

    def _exists(self, path: str) -> Json:
        with self._opened(path) as number:
            return number is not None

    def _read(self, path: str) -> Json:
        with self._opened(path) as number:
            if number is None or not stat.S_ISREG(os.fstat(number).st_mode):
                return None
            data = _whole(number, self._limits.body_bytes + 1)
        if len(data) > self._limits.body_bytes:
            raise ValueError(f"the file is over {self._limits.body_bytes} bytes; look at its size or its parts")
        return data.decode("utf-8", "replace")

    def _list(self, path: str) -> Json:
        with self._opened(path) as number:
            if number is None or not stat.S_ISDIR(os.fstat(number).st_mode):
                return None
            with os.scandir(number) as entries:
                names = [entry.name for _, entry in zip(range(self._limits.names + 1), entries, strict=False)]
        if len(names) > self._limits.names:
            raise ValueError(f"the folder has more than {self._limits.names} names")
        return [*sorted(names)]

    @contextmanager
    def _opened(self, path: str) -> Iterator[int | None]:
        """Open a file below an allowed folder, part by part, so that no link leads out. None: the file is missing.

        A missing folder of `allow.fs` is no absence: the volume may be unmounted.
        """
        root, parts = self._below(path)
        numbers = []
        try:
            try:
                numbers.append(os.open(root, _ROOT))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise _UnavailableError(
                    f"the folder {root!r:.120} of `allow.fs` is not there, so nothing below it can be looked at"
                ) from error
            try:
                for part in parts:
                    numbers.append(os.open(part, _PART, dir_fd=numbers[-1]))
            except (FileNotFoundError, NotADirectoryError) as error:
                if _is_link(error, numbers):
                    raise PermissionError(f"{path!r:.120} goes through a link") from error
                yield None
                return
            yield numbers[-1]
        except OSError as error:
            if error.errno is None:
                raise
            if error.errno == errno.ELOOP:
                raise PermissionError(f"{path!r:.120} goes through a link") from error
            raise _UnavailableError(f"{path!r:.120} cannot be looked at: {error.strerror}") from error
        finally:
            for number in numbers:
                os.close(number)

    def _below(self, path: str) -> tuple[str, list[str]]:
        if "\0" in path:
            raise ValueError("a path holds no null character")
        for root in self._allow.fs:
            whole = os.path.normpath(os.path.join(root, path))
            bare = os.path.normpath(root)
            if ".." not in path.split(os.sep) and (whole == bare or whole.startswith(bare.rstrip(os.sep) + os.sep)):
                return bare, [part for part in whole[len(bare) :].split(os.sep) if part]
        raise PermissionError(f"{path!r:.120} is not below a folder that `allow.fs` names")

    # --- sql ---

    def _query(self, name: str, text: str, parameters: list[Any] | None = None) -> Json:
        path = self._allow.sql.get(name)
        if path is None:
            raise PermissionError(f"{name!r:.40} is no database that `allow.sql` names")
        from readback.systems.isolated import query

        try:
            rows = query(
                path,
                text,
                [*(parameters or [])],
                timeout_s=self._limits.host_seconds,
                steps=SQL_STEPS,
                rows=self._limits.names,
                value_bytes=self._limits.body_bytes,
            )
        except FileNotFoundError as error:
            raise _UnavailableError(f"the database {path!r:.120} of `allow.sql` cannot be opened") from error
        return [{key: _cell(value) for key, value in row.items()} for row in rows]


def _headers(given: object) -> dict[str, str]:
    """Return the headers that a script may send. Raises PermissionError for others, ValueError for invalid headers."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > HEADERS_MAX:
        raise ValueError(f"headers are an object of at most {HEADERS_MAX} names and texts")
    sent: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str) or len(name) + len(value) > HEADER_MAX_CHARACTERS:
            raise ValueError(f"a header is a name and a text of at most {HEADER_MAX_CHARACTERS} characters")
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r:.60} holds what no header can say")
        plain = name.lower().replace("_", "-")  # some servers treat both alike
        if plain in HEADERS_OURS or plain.startswith("proxy-"):
            raise PermissionError(
                f"the header {name!r:.60} is not a script's to send: `allow.http` says where to and how"
            )
        sent[name] = value
    return sent


def _unfolding(coding: str, most: int) -> Callable[[bytes], bytes]:
    """Decompress an answer piece by piece, up to `most` bytes in total. Raises zlib.error."""
    match coding.strip().lower():
        case "" | "identity":
            return lambda chunk: chunk
        case "gzip" | "x-gzip" | "deflate":
            inner, left = zlib.decompressobj(wbits=47), [most]
        case other:
            raise zlib.error(f"the answer is encoded by {other!r:.40}, which was not asked for")

    def unfold(chunk: bytes) -> bytes:
        if left[0] <= 0:
            return b""
        out = inner.decompress(chunk, left[0])
        left[0] -= len(out)
        return out

    return unfold


def _whole(number: int, most: int) -> bytes:
    """Read up to `most` bytes of a file. One system read may return fewer."""
    data = bytearray()
    while len(data) < most and (chunk := os.read(number, most - len(data))):
        data += chunk
    return bytes(data)


def _nothing(why: str) -> Json:
    return {"status": 0, "headers": {}, "body": "", "error": why}


def _recorded(name: str, look: Callable[..., Json], record: Callable[[HostCall], None]) -> Callable[..., Json]:
    """Record the request, the success, and the digest of the answer. No other error passes."""

    def call(*args: Any, **kwargs: Any) -> Json:
        asked = ", ".join(map(repr, [*args, *kwargs.values()]))[:ASKED_MAX_CHARACTERS]
        try:
            answer = json_value(look(*args, **kwargs))
        except _UnavailableError as error:
            record(HostCall(name, asked, True, str(error)[:200], unavailable=True))
            raise RuntimeError(f"{name}: {error}"[:300]) from None
        except PermissionError as error:
            record(HostCall(name, asked, True, str(error)[:200]))
            raise
        except (ValueError, TypeError, ReadbackError) as error:
            record(HostCall(name, asked, True, str(error)[:200]))
            raise ValueError(f"{name}: {error}"[:300]) from None
        except Exception as error:  # errors of the database
            record(HostCall(name, asked, True, f"{type(error).__name__}: {error}"[:200]))
            raise RuntimeError(f"{name}: {type(error).__name__}: {error}"[:300]) from None
        said = _failure(answer) if name.startswith("http.") else ""
        record(HostCall(name, asked, bool(said), said, sha256_hex(payload_bytes(answer))))
        return answer

    return call


def _failure(answer: Json) -> str:
    assert isinstance(answer, dict)
    status = answer["status"]
    assert isinstance(status, int)
    if status == 0:
        return str(answer.get("error"))
    if answer.get("cut"):
        return "the answer was cut: what is not in the part that came may be in the rest"
    return f"status {status}" if status >= 500 or status in FAILED_STATUS else ""


def _within(url: str, prefix: str) -> bool:
    """Return whether scheme, host and port are equal, and the path begins with the allowed path and never leads up."""
    try:
        asked, allowed = urlsplit(url), urlsplit(prefix)
        same = (asked.scheme, asked.hostname, asked.port) == (allowed.scheme, allowed.hostname, allowed.port)
    except ValueError:
        return False
    path, begin = asked.path or "/", allowed.path or "/"
    plain = not any(sign in url for sign in "\\\r\n\t ") and asked.username is None and url.isprintable()
    leads_up = any(part in ("..", ".") for part in path.lower().replace("%2e", ".").replace("%2f", "/").split("/"))
    inside = path == begin or path.startswith(begin if begin.endswith("/") else begin + "/")
    return same and plain and not leads_up and inside


def _facts(found: os.stat_result) -> dict[str, Json]:
    kind = "dir" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return {"size": found.st_size, "kind": kind, "is_dir": kind == "dir", "mtime_us": found.st_mtime_ns // 1_000}


def _is_link(error: OSError, numbers: list[int]) -> bool:
    """Return whether a link is in the way. The system reports such a link as no folder."""
    with suppress(OSError):
        if numbers and isinstance(error.filename, str):
            return stat.S_ISLNK(os.stat(error.filename, dir_fd=numbers[-1], follow_symlinks=False).st_mode)
    return False


def _hasher(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


def _cell(value: object) -> Json:
    return value.hex() if isinstance(value, bytes) else json_value(value)
