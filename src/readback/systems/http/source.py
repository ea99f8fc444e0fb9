"""The HTTP source: what each answer proves about an object.

The source never acts. Only `_meaning` interprets a status: only a 200 shows an object, and a 404 is absence only where
the same credentials are shown something else.
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
from readback.systems.http.answer import Answer, CommitToken, ReadingPointers, pointed, reading_of
from readback.systems.http.transport import PLACEHOLDER, HttpTransport, Values

if TYPE_CHECKING:
    import ssl

TIMEOUT_DEFAULT_S: Final = 10.0
STRONG_HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "no-cache"}
"""Headers of strong reads: caches ask the origin server."""

Headers: TypeAlias = Mapping[str, str] | Callable[[Context], Mapping[str, str]]

_HIDDEN: Final = frozenset({401, 403, 407})
_GONE: Final = frozenset({404, 410})
_LATER: Final = frozenset({408, 421, 425, 429})


class HttpSource:
    """Read the JSON resources of one service.

    Safe from any thread. Call `close`, or use the source in a `with` block.

    Args:
        name: Name in readings and messages.
        base_url: Address of the service.
        hosts: Allowed host names, with or without a port. Default: the host of `base_url`.
        headers: Headers of every request, or a function of the context, for example by tenant.
        canary: Path always visible to these credentials. Without a canary, a 404 is never absence.
        as_of_header: Header with the service's clock in microseconds. Default: `Date`, to the second.
        commit_token: How the service waits for a write.

    Example:
        >>> with HttpSource("orders", "https://orders.example", canary="/health") as orders:
        ...     orders.name
        'orders'
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
        self._transport = HttpTransport(name, base_url, hosts, timeout_s, tls)
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
        """Close the connections. A second call does nothing."""
        self._transport.close()

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
        """Read one object.

        Args:
            ctx: Context of the reader.
            path: Path with `{placeholders}`.
            params: Values for the placeholders. Values are encoded.
            query: Query of the address.
            headers: More headers.
            value: JSON pointer to the object.
            version: JSON pointer to the version. Default: the ETag, as opaque text.
            stamp: JSON pointer to the stamp.
            author: JSON pointer to the author.
            commit_token: Token of the write, for a source with `commit_token`.
            canary: Path of another canary.

        Returns:
            The reading. An unreachable service gives `unavailable`.

        Raises:
            ReaderTypeError: The answer has another shape.
            ReaderFailedError: The service rejects the request.
        """
        sent = self._request_headers(ctx, headers)
        token = self._commit_token
        if commit_token is not None:
            if token is None:
                raise UsageError(
                    f"Source {self.name!r} has no commit token. Pass commit_token=CommitToken(...) to the source."
                )
            sent[token.header] = commit_token
        answer = self._transport.ask(self._transport.address(path, params, query), sent)
        found = self._meaning(answer, sent, ReadingPointers(value, version, stamp, author), params, canary)
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
        """Read every object of a list, for `find`.

        Args:
            ctx: Context of the reader.
            path: Path with `{placeholders}`.
            params: Values for the placeholders. Values are encoded.
            query: Query of the address.
            headers: More headers.
            items: JSON pointer to the list. The other pointers start at each item.
            complete: JSON pointer to a value that is true where the list is whole.
            value: JSON pointer to the object in an item.
            version: JSON pointer to the version in an item.
            stamp: JSON pointer to the stamp in an item.
            author: JSON pointer to the author in an item.

        Raises:
            ReaderFailedError: The list was not visible, not whole, continued on a next page, or came from a cache.
                A cached list may miss recent objects.
            ReaderTypeError: There is no list at `items`.
        """
        target = self._transport.address(path, params, query)
        answer = self._transport.ask(target, self._request_headers(ctx, headers))
        if answer.status != 200:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: it {answer.summary}.")
        body = answer.json(self.name)
        listed = pointed(self.name, body, items)
        whole = complete is None or pointed(self.name, body, complete) is True
        if not whole or answer.has_next_page or has_another_page(body):
            raise ReaderFailedError(f"Source {self.name!r} showed only a part of the list.")
        if answer.is_cached:
            raise ReaderFailedError(f"Source {self.name!r} showed a list from a cache.")
        if not isinstance(listed, list):
            raise ReaderTypeError(f"Source {self.name!r} has no list at {items!r}.")
        pointers = ReadingPointers(value, version, stamp, author)
        return [self._dated(reading_of(self.name, item, pointers), answer) for item in listed]

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
        """Ask the service for the state of the attempt with a key.

        `status` points at a word. `landed` and `failed` list the final words; every other word is pending. A 404 means
        an unknown key, and the request may still arrive. Raises ReaderFailedError for every other answer.
        """
        if isinstance(landed, str) or isinstance(failed, str):  # every character would count as a word
            raise UsageError(f"Source {self.name!r} needs lists of words for `landed` and `failed`.")
        answer = self._transport.ask(self._transport.address(path, params, query), self._request_headers(ctx, headers))
        if answer.status in _GONE:
            return Lookup.unknown_key()
        if answer.status != 200:
            raise ReaderFailedError(f"Source {self.name!r} cannot look up the key: it {answer.summary}.")
        body = answer.json(self.name)
        found = Lookup.by_word(pointed(self.name, body, status), landed, failed)
        return Lookup.landed(pointed(self.name, body, value)) if found.status == "landed" else found

    def ping(self) -> None:
        """Check the service. Raises ReaderFailedError without an answer or without a visible canary."""
        known = not callable(self._headers)  # Outside an action there is no context for the headers.
        canary = self._canary if known and not PLACEHOLDER.search(self._canary or "") else None
        sent = {} if callable(self._headers) else dict(self._headers or {})
        answer = self._transport.ask(self._transport.address(canary or "/"), sent)
        if answer.status == 0 or answer.status >= 500 or (canary is not None and answer.status != 200):
            raise ReaderFailedError(f"Source {self.name!r} {answer.summary}.")

    def _request_headers(self, ctx: Context, more: Mapping[str, str] | None) -> dict[str, str]:
        own = self._headers(ctx) if callable(self._headers) else self._headers
        return {**(own or {}), **(more or {}), **(self._strong_headers if ctx.strong else {})}

    def _dated(self, found: Reading, answer: Answer) -> Reading:
        level = Consistency.CACHED if answer.is_cached else self._consistency
        return replace(found, as_of_us=answer.as_of_us(self._as_of_header), consistency=level)

    def _meaning(
        self,
        answer: Answer,
        sent: Mapping[str, str],
        pointers: ReadingPointers,
        params: Values | None,
        canary: str | None,
    ) -> Reading:
        status = answer.status
        if status == 200:
            found = reading_of(self.name, answer.json(self.name), pointers, answer.headers.get("etag"))
            if found.value is not None:
                return found
            if pointers.value:  # another member may hold the reason
                return Reading.not_visible(f"{self.name} shows nothing at {pointers.value!r}, which is no absence")
            return self._absence(replace(answer, detail="answered null"), sent, params, canary or self._canary)
        if status in _GONE:
            return self._absence(answer, sent, params, canary or self._canary)
        if status in _HIDDEN:
            return Reading.not_visible(f"{self.name} {answer.summary}: nothing is visible to these credentials")
        if status == 0 or status in _LATER or status >= 500:
            return Reading.unavailable(f"{self.name} {answer.summary}")
        if 300 <= status < 400 and status != 304:
            raise ReaderFailedError(f"Source {self.name!r} answered {status}; redirects are not followed.")
        if status < 400:
            raise ReaderTypeError(f"Source {self.name!r} answered {status}, which shows no object.")
        raise ReaderFailedError(f"Source {self.name!r} refused the request with {status}.")

    def _absence(self, answer: Answer, sent: Mapping[str, str], params: Values | None, canary: str | None) -> Reading:
        """Absence (a 404, or only nulls) is believed where the same credentials see a canary immediately afterwards."""
        if canary is None:
            return Reading.not_visible(f"{self.name} {answer.summary}, and there is no canary to prove sight")
        if any(sign in str(value) for value in (params or {}).values() for sign in "/\\"):
            # Some servers answer 404 for every encoded slash, such as Apache by default.
            return Reading.not_visible(f"{self.name} {answer.summary}, maybe only because of the slash in its address")
        names = set(PLACEHOLDER.findall(canary))
        known = {name: value for name, value in (params or {}).items() if name in names}
        seen = self._transport.ask(self._transport.address(canary, known), sent)
        if seen.status != 200:
            return Reading.not_visible(f"{self.name} {answer.summary}, and its canary {seen.summary}")
        if seen.is_cached:
            return Reading.not_visible(f"{self.name} {answer.summary}, and its canary was shown by a cache")
        return Reading.absent()
