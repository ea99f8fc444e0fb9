"""Parse an HTTP answer: its parts, its age, and whether the service waited for the write.

Only the HTTP source imports this module. The source decides whether an answer shows the object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from readback.canon import CanonError, Json, parse_json, why_not_json
from readback.canon.frozen import dataclass
from readback.domain import json_pointer
from readback.domain.verification.reading import Reading
from readback.errors import ReaderTypeError

_DIGITS_MAX: Final = 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
"""The second of a time in microseconds, for years of any length."""
_HIT: Final = re.compile(r";\s*hit\b(?!\s*=\s*\?0)", re.IGNORECASE)
_HIT_WORD: Final = re.compile(r"\s*(?:tcp_\w*)?(?:hit|stale|updating|revalidated)\b", re.IGNORECASE)
_CACHES: Final = ("x-cache", "x-cache-status", "x-proxy-cache", "cf-cache-status")
"""Headers in which caches report hits without an age. Only `Cache-Status` is standardized (RFC 9211)."""
_PART: Final = re.compile(r"\s*\w+\s+(\d{1,18})-(\d{1,18})/(\d{1,18})\s*|\s*(\d{1,18})-(\d{1,18})/(\d{1,18})\s*")
_RELATIONS: Final = re.compile(r"""\brel\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,]+))""", re.IGNORECASE)
"""Link relations (RFC 8288): any case, with or without quotes, several in one value."""


@dataclass(frozen=True, slots=True)
class CommitToken:
    """How a service waits for a write: the request header, and the confirming response header.

    The token is confirmed if the response repeats the token, or returns a larger number where both are numbers.

    Example:
        >>> CommitToken("X-Wait-For", "X-Applied").honoured("41", "42")
        True
    """

    header: str
    confirmed_by: str

    def honoured(self, asked: str | None, said: str | None) -> bool:
        """Return whether the answer confirms the requested token."""
        if asked is None or said is None:
            return False
        return said == asked or (asked.isdecimal() and said.isdecimal() and int(said) >= int(asked))


@dataclass(frozen=True, slots=True)
class ReadingPointers:
    """JSON pointers to the parts of a reading. An empty pointer means the whole answer."""

    value: str
    version: str | None
    stamp: str | None
    author: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read within bounds. Status 0 means no answer, with the reason."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    detail: str = ""

    @property
    def summary(self) -> str:
        """The answer as the end of a sentence."""
        return self.detail or f"answered {self.status}"

    def json(self, name: str) -> Json:
        """Return the parsed body. Raises ReaderTypeError. `name` is the source's, for the message."""
        try:
            return parse_json(self.body)
        except CanonError as error:
            raise ReaderTypeError(f"Source {name!r} sent no JSON: {why_not_json(error)}") from error

    def as_of_us(self, header: str | None) -> int | None:
        """Return the service's time: exact from a header, else the beginning of the second of `Date`."""
        if header is not None:
            said = self.headers.get(header, "")
            return int(said) if said.isascii() and said.isdecimal() and len(said) <= _DIGITS_MAX else None
        try:
            moment = parsedate_to_datetime(self.headers.get("date", ""))
        except (TypeError, ValueError, OverflowError):  # also for an endless number
            return None
        return None if moment.tzinfo is None else (moment - _EPOCH) // _SECOND * 1_000_000

    @property
    def is_cached(self) -> bool:
        """Whether a cache answered, by the reported age or by a cache header."""
        if self.headers.get("age", "0").strip() != "0" or _HIT.search(self.headers.get("cache-status", "")):
            return True
        return any(_HIT_WORD.match(self.headers.get(name, "")) for name in _CACHES)

    @property
    def has_next_page(self) -> bool:
        """Whether a link points to a next page, or a reported range ends before the whole."""
        part = _PART.fullmatch(self.headers.get("content-range", ""))
        if part is not None:
            first, last, whole = (int(each) for each in part.groups() if each is not None)
            if first > 0 or last + 1 < whole:
                return True
        relations = " ".join("".join(found) for found in _RELATIONS.findall(self.headers.get("link", ""))).lower()
        return "next" in relations.split()


def reading_of(name: str, body: Json, pointers: ReadingPointers, etag: str | None = None) -> Reading:
    """Return the reading of a present object. ETags are opaque: their order means nothing."""
    version: Json = None
    if pointers.version is not None:
        version = pointed(name, body, pointers.version)
    elif etag:
        version = etag.removeprefix("W/").strip('"')
    if version is not None and type(version) not in (int, str):
        raise ReaderTypeError(f"Source {name!r} has a version that is neither a number nor a text.")
    marks = [None if at is None else pointed(name, body, at) for at in (pointers.stamp, pointers.author)]
    stamp, author = (None if mark is None else str(mark) for mark in marks)
    try:
        value = pointed(name, body, pointers.value)
        return Reading.of(value, version=version, stamp=stamp, author=author)  # type: ignore[arg-type]
    except CanonError as error:
        raise ReaderTypeError(f"Source {name!r} sent a value without a JSON form: {error.message}") from error


def pointed(name: str, body: Json, pointer: str) -> Json:
    """Return the value at a JSON pointer. Raises ReaderTypeError where there is none."""
    return json_pointer.pointed(body, pointer, f"Source {name!r} sent nothing at {pointer!r}.")
