"""The route table of the API: each route once, with its right, its types and its handler.

`app` answers requests by this table, and `openapi` describes the API by the same table. Handlers receive a `Call` and
return a `Reply`; no handler sees a token or a tenant other than the caller's.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from readback.server.access.principal import Caller, Right
from readback.server.errors import BodyError

if TYPE_CHECKING:
    from readback.client.async_client import AsyncReadback
    from readback.server.ledgers import Ledgers

JSON: Final = b"application/json"
QUERY_MAX_BYTES: Final = 32_768
FIELDS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: a status, and a value as JSON, or bytes, or a stream of bytes."""

    status: int = 200
    body: Any = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    media: bytes = JSON
    stream: AsyncIterator[bytes] | None = None


@dataclass(slots=True)
class Call:
    """One authenticated request.

    Attributes:
        caller: The authenticated caller. The tenant comes from here alone.
        ledgers: The open ledgers and the contracts.
        path: The values of the path's parameters.
        query: The validated query, an instance of the route's `query` type.
        body: The validated body, an instance of the route's `body` type.
        headers: The request's headers, with lower-case names.
        request_id: The request's id for the log and problem documents.
    """

    caller: Caller
    ledgers: Ledgers
    path: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    request_id: str = ""
    raw: bytes = b""

    def header(self, name: str) -> str:
        """Return a header's text; "" without one."""
        return self.headers.get(name.encode("ascii"), b"").decode("latin-1")

    def client(self, *, test: bool = False) -> AsyncReadback:
        """Return a client in the caller's name, on the ledger or on the ledger of tests."""
        return self.ledgers.client(self.caller, test=test)


Handler = Callable[[Call], Awaitable[Reply]]


_SHORTER: Final = "Send fewer or shorter fields."
_WANTED: Final = (("Expected `int`, got", "a whole number"), ("Expected `bool`, got", "true or false"))


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query without fields."""


_NO_QUERY: Final = NoQuery()


@dataclass(frozen=True, slots=True)
class Answer:
    """A documented answer of a route: the status, the meaning, and the body's type."""

    status: int
    meaning: str
    body: Any = None
    media: str = "application/json"
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        right: The required right; None for a route without authentication.
        body: The type of the JSON body; None for a route without a body.
        key: Whether the route demands an Idempotency-Key.
        version: Whether the route demands an If-Match.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    right: Right | None
    answers: tuple[Answer, ...]
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    key: bool = False
    version: bool = False
    tag: str = ""
    headers: tuple[str, ...] = ()
    faults: tuple[int, ...] = ()
    """Statuses of problem documents besides those of every route."""


@dataclass(slots=True)
class _Decoders:
    body: msgspec.json.Decoder[Any] | None
    query: type[msgspec.Struct]


class RouteTable:
    """Routes by method and path. A path without parameters is found by one look-up."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: tuple[Route, ...] = tuple(routes)
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        by_path: dict[str, dict[str, Route]] = {}
        for each in self.routes:
            methods = by_path.setdefault(each.path, {})
            if each.method in methods:
                raise ValueError(f"Two routes answer {each.method} {each.path}.")
            methods[each.method] = each
        for path, methods in by_path.items():
            if "{" in path:
                pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
                self._patterns.append((re.compile(pattern), methods))
            else:
                self._fixed[path] = methods
        self._decoders = {
            each.name: _Decoders(None if each.body is None else msgspec.json.Decoder(each.body), each.query)
            for each in self.routes
        }

    def find(self, path: str) -> tuple[Mapping[str, Route], Mapping[str, str]] | None:
        """Return the methods of a raw path and its parameters; None for an unknown path."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed, {}
        for pattern, methods in self._patterns:
            found = pattern.fullmatch(path)
            if found is not None:
                return methods, {name: unquote(value) for name, value in found.groupdict().items()}
        return None

    def body(self, route: Route, raw: bytes) -> Any:
        """Return the decoded body. Raises BodyError with the place of the fault."""
        decoder = self._decoders[route.name].body
        if decoder is None:
            if raw.strip():
                raise BodyError("This route takes no body.", remedy="Send the request without a body.")
            return None
        try:
            found = decoder.decode(raw or b"{}")
            _NAMES_ONCE(raw.decode() or "{}")
            return found
        except msgspec.DecodeError as error:
            raise BodyError(f"The body does not fit: {error}.") from error
        except RecursionError as error:
            raise BodyError("The body is nested too deeply.") from error
        except (UnicodeDecodeError, ValueError) as error:
            raise BodyError("The body is not UTF-8 JSON.") from error

    def query(self, route: Route, raw: bytes) -> Any:
        """Return the decoded query. Raises BodyError for an unknown, repeated or malformed field."""
        if not raw and route.query is NoQuery:
            return _NO_QUERY
        if len(raw) > QUERY_MAX_BYTES or raw.count(b"&") >= FIELDS_MAX:
            raise BodyError(f"The query exceeds {QUERY_MAX_BYTES} bytes or {FIELDS_MAX} fields.", remedy=_SHORTER)
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as error:
            said = "The query holds bytes that are not percent-encoded UTF-8."
            raise BodyError(said, remedy="Percent-encode each character that is not ASCII, as UTF-8.") from error
        given = dict(pairs)
        names = ", ".join(route.query.__struct_fields__) or "none"
        fields = f"The query's fields of this route: {names}."
        if len(given) != len(pairs):
            raise BodyError("A field of the query is given twice.", remedy=fields)
        try:
            return msgspec.convert(given, route.query, strict=False)
        except msgspec.ValidationError as error:
            raise BodyError(_plain(str(error)), remedy=fields) from error


def _plain(said: str) -> str:
    """Return msgspec's message about a field of a query in the words of a query."""
    reason, _, place = said.partition(" - at `$.")
    missing = reason.partition("missing required field `")[2].removesuffix("`")
    if missing:
        return f"The query lacks its field {missing!r}."
    if not place:
        unknown = reason.partition("unknown field `")[2].removesuffix("`")
        return f"The query of this route has no field {unknown!r:.80}."
    wanted = next((words for start, words in _WANTED if reason.startswith(start)), "")
    least = reason.partition("` ")[2].replace(">=", "at least").replace("<=", "at most")
    return f"The query's field {place.removesuffix('`')!r:.80} must be {wanted or least or 'one of its values'}."


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raise BodyError for a name given twice: an intermediary may have checked the other value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BodyError(f"The body gives {twice!r:.80} twice.", remedy="Send each name of an object once.")
    return found


_NAMES_ONCE: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str).decode
