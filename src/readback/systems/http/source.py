"""The HTTP source: what each answer proves about an object.

Must not act. What a status means is decided in `_meaning` alone: only a 200 shows an object, and a 404 is absence
only where the same credentials are shown something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from readback.domain.context import Context
from readback.domain.paging import has_another_page
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Lookup, Presence, Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError
from readback.systems.http.answer import Answer, CommitToken, Lift, lifted, pointed
from readback.systems.http.transport import PLACEHOLDER, HttpTransport, Values

if TYPE_CHECKING:
    import ssl

TIMEOUT_DEFAULT_S: Final = 10.0
STRONG_HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "no-cache"}
"""Sent where the context asks for a strong reading: caches on the way ask the origin."""

Headers: TypeAlias = Mapping[str, str] | Callable[[Context], Mapping[str, str]]

_HIDDEN: Final = frozenset({401, 403, 407})
_GONE: Final = frozenset({404, 410})
_LATER: Final = frozenset({408, 421, 425, 429})


class HttpSource:
    """JSON resources of one service. Safe from any thread; `close` it, or use it in a `with` block.

    `headers` go with each request (a function of the context where they depend on it, as on the tenant).
    `hosts`: names, with or without a port, that may be asked; only that of `base_url` unless given. `canary`: a path
    that these credentials are always shown; without one, a 404 is never absence. `as_of_header` holds microseconds
    of the service's clock; without one, `Date` says the second.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        hosts: Collection[str] | None = None,
        headers: Headers | None = None,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        canary: str | None = None,
        strong_headers: Mapping[str, str] = STRONG_HEADERS,
        commit_token: CommitToken | None = None,
        as_of_header: str | None = None,
        consistency: Consistency | str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        self.name = name
        self._door = HttpTransport(name, base_url, hosts, timeout_s, tls)
        self._headers = headers
        self._canary = canary
        self._strong_headers = dict(strong_headers)
        self._commit_token = commit_token
        self._as_of_header = as_of_header
        self._consistency = None if consistency is None else Consistency(consistency)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. May be called twice."""
        self._door.close()

    def get(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        query: Values | None = None,
        headers: Mapping[str, str] | None = None,
        value: str = "",
        version: str | None = None,
        stamp: str | None = None,
        author: str | None = None,
        commit_token: str | None = None,
        canary: str | None = None,
    ) -> Reading:
        """One object. `params` fill the `{placeholders}` of the path, encoded; `query` is the rest of the address.

        `value`, `version`, `stamp` and `author` are JSON pointers into the answer; without `version` its ETag is the
        version, as an opaque text. `commit_token` is the write's own, for a source that can wait for it.
        Raises ReaderTypeError for an answer of another shape, ReaderFailedError for a request that the service
        refuses; what could not be reached is `unavailable`.
        """
        sent = self._request_headers(ctx, headers)
        token = self._commit_token
        if commit_token is not None:
            if token is None:
                raise UsageError(f"Source {self.name!r} was not told how it waits for a commit token.")
            sent[token.header] = commit_token
        answer = self._door.ask(self._door.address(path, params, query), sent)
        found = self._meaning(answer, sent, Lift(value, version, stamp, author), params, canary)
        if found.presence not in (Presence.PRESENT, Presence.ABSENT):
            return found
        waited = token is not None and token.honoured(commit_token, answer.headers.get(token.confirmed_by))
        return replace(self._dated(found, answer), commit_token_honoured=waited)

    def all(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        query: Values | None = None,
        headers: Mapping[str, str] | None = None,
        items: str = "/items",
        complete: str | None = None,
        value: str = "",
        version: str | None = None,
        stamp: str | None = None,
        author: str | None = None,
    ) -> list[Reading]:
        """Every object of a list, for `find`. `items` points at the list, the other pointers into each item.

        `complete` points at a value that is true where the list is whole. Raises ReaderFailedError where the list
        could not be seen, is not whole by that value or by a link to a next page, or is one that a cache had kept:
        what it does not show may be there by now.
        """
        target = self._door.address(path, params, query)
        answer = self._door.ask(target, self._request_headers(ctx, headers))
        if answer.status != 200:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: it {answer.said}.")
        body = answer.json(self.name)
        listed = pointed(self.name, body, items)
        whole = complete is None or pointed(self.name, body, complete) is True
        if not whole or answer.goes_on or has_another_page(body):
            raise ReaderFailedError(f"Source {self.name!r} showed only a part of the list.")
        if answer.was_kept:
            raise ReaderFailedError(f"Source {self.name!r} showed a list that a cache had kept.")
        if not isinstance(listed, list):
            raise ReaderTypeError(f"Source {self.name!r} has no list at {items!r}.")
        lift = Lift(value, version, stamp, author)
        return [self._dated(lifted(self.name, item, lift), answer) for item in listed]

    def lookup(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        query: Values | None = None,
        headers: Mapping[str, str] | None = None,
        status: str = "/status",
        landed: Collection[str] = (),
        failed: Collection[str] = (),
        value: str = "",
    ) -> Lookup:
        """What became of the attempt with a key, where the service can be asked that.

        `status` points at a word: one of `landed` or `failed`, both final, or any other, which is pending. A 404 is
        an unknown key, which may still arrive. Raises ReaderFailedError for every other answer.
        """
        if isinstance(landed, str) or isinstance(failed, str):  # of which every part would be such a word
            raise UsageError(f"Source {self.name!r} takes `landed` and `failed` as lists of words.")
        answer = self._door.ask(self._door.address(path, params, query), self._request_headers(ctx, headers))
        if answer.status in _GONE:
            return Lookup.unknown_key()
        if answer.status != 200:
            raise ReaderFailedError(f"Source {self.name!r} cannot say what became of the key: it {answer.said}.")
        body = answer.json(self.name)
        found = Lookup.by_word(pointed(self.name, body, status), landed, failed)
        return Lookup.landed(pointed(self.name, body, value)) if found.status == "landed" else found

    def ping(self) -> None:
        """Raises ReaderFailedError where the service does not answer; with a canary, where that is not shown."""
        known = not callable(self._headers)  # Without an action there is no context to make headers from.
        canary = self._canary if known and not PLACEHOLDER.search(self._canary or "") else None
        sent = {} if callable(self._headers) else dict(self._headers or {})
        answer = self._door.ask(self._door.address(canary or "/"), sent)
        if answer.status == 0 or answer.status >= 500 or (canary is not None and answer.status != 200):
            raise ReaderFailedError(f"Source {self.name!r} {answer.said}.")

    def _request_headers(self, ctx: Context, more: Mapping[str, str] | None) -> dict[str, str]:
        own = self._headers(ctx) if callable(self._headers) else self._headers
        return {**(own or {}), **(more or {}), **(self._strong_headers if ctx.strong else {})}

    def _dated(self, found: Reading, answer: Answer) -> Reading:
        level = Consistency.CACHED if answer.was_kept else self._consistency
        return replace(found, as_of_us=answer.as_of_us(self._as_of_header), consistency=level)

    def _meaning(
        self, answer: Answer, sent: Mapping[str, str], lift: Lift, params: Values | None, canary: str | None
    ) -> Reading:
        status = answer.status
        if status == 200:
            found = lifted(self.name, answer.json(self.name), lift, answer.headers.get("etag"))
            if found.value is not None:
                return found
            if lift.value:  # beside it may stand why nothing is shown
                return Reading.not_visible(f"{self.name} shows nothing at {lift.value!r}, which is no absence")
            return self._absence(replace(answer, detail="answered null"), sent, params, canary or self._canary)
        if status in _GONE:
            return self._absence(answer, sent, params, canary or self._canary)
        if status in _HIDDEN:
            return Reading.not_visible(f"{self.name} {answer.said}: these credentials are shown nothing")
        if status == 0 or status in _LATER or status >= 500:
            return Reading.unavailable(f"{self.name} {answer.said}")
        if 300 <= status < 400 and status != 304:
            raise ReaderFailedError(f"Source {self.name!r} answered {status}; redirects are not followed.")
        if status < 400:
            raise ReaderTypeError(f"Source {self.name!r} answered {status}, which shows no object.")
        raise ReaderFailedError(f"Source {self.name!r} refused the request with {status}.")

    def _absence(self, answer: Answer, sent: Mapping[str, str], params: Values | None, canary: str | None) -> Reading:
        """Absence (a 404, or null in all) is believed where a canary is shown to the same credentials, right after."""
        if canary is None:
            return Reading.not_visible(f"{self.name} {answer.said}, and there is no canary to prove sight")
        if any(sign in str(value) for value in (params or {}).values() for sign in "/\\"):
            # There are servers that refuse each such address so, as Apache does unless it is told not to.
            return Reading.not_visible(f"{self.name} {answer.said}, which may be of the slash in its address alone")
        names = set(PLACEHOLDER.findall(canary))
        known = {name: value for name, value in (params or {}).items() if name in names}
        seen = self._door.ask(self._door.address(canary, known), sent)
        if seen.status != 200:
            return Reading.not_visible(f"{self.name} {answer.said}, and its canary {seen.said}")
        if seen.was_kept:
            return Reading.not_visible(f"{self.name} {answer.said}, and its canary was shown by a cache")
        return Reading.absent()
