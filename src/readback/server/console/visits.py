"""One request to the console: the session behind its cookie, the caller, and the frame of its page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.server.access.principal import Caller
from readback.server.app import BODY_S, Server
from readback.server.console.health_board import HealthBoard
from readback.server.console.live import LiveFeed
from readback.server.console.rendering import PageFacts, page
from readback.server.console.sessions import Sessions, SignedIn, cookie_of, set_cookie
from readback.server.errors import BodyError, BodyTooLargeError, UnauthenticatedError
from readback.server.ledgers import ServerClient

SESSIONS_FILE: Final = "sessions.db"
FORM_MAX_BYTES: Final = 131_072
FIELDS_MAX: Final = 32


class Console:
    """What the console's pages share in one process."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.sessions = Sessions(server.ledgers.runtime, server.settings.shared_file(SESSIONS_FILE))
        server.on_close.append(self.sessions.close)
        self.live = LiveFeed(server)
        self.health = HealthBoard(server.stopping)


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a signed-in caller. `cookie`: the header that begins the session, or None."""

    console: Console
    request: Request
    caller: Caller
    signed_in: SignedIn
    cookie: bytes | None

    @property
    def client(self) -> ServerClient:
        """The caller's client."""
        return self.console.server.ledgers.client(self.caller)

    @property
    def session(self) -> Session:
        """The caller's view of the ledger."""
        return self.client.session

    async def is_valid(self) -> bool:
        """Whether the session and its token still exist. Raises UnauthenticatedError."""
        name = cookie_of(dict(self.request.headers.raw))
        ended = self.cookie is None and self.console.sessions.peek(name) is None
        return not ended and await self.console.server.caller(self.signed_in.credential) == self.caller

    def frame(self, path: str = "") -> PageFacts:
        """The frame of this request's page. Reads the log's last position."""
        return PageFacts(
            self.caller.tenant,
            self.caller.principal,
            self.caller.rights,
            self.signed_in.csrf,
            self.signed_in.zone,
            path or self.request.url.path,
            self.session.store.last_seq(),
            signed_in=True,
        )

    def page(self, template: str, status: int = 200, path: str = "", **values: object) -> Response:
        """Return a page as the answer."""
        return self.answer(HTMLResponse(page(template, self.frame(path), **values), status))

    def back(self, path: str) -> Response:
        """Return the answer to a form: the browser reads the page again."""
        return self.answer(RedirectResponse(local(path), 303))

    def answer(self, response: Response) -> Response:
        """Add the session's cookie to an answer, where the session has begun here."""
        if self.cookie is not None:
            response.raw_headers.append((b"set-cookie", self.cookie))
        return response

    async def form(self) -> Mapping[str, str]:
        """Return the fields of a form of this session. Raises ForgeryError, BodyError, BodyTooLargeError."""
        fields = await form_of(self.request)
        self.signed_in.check_form(fields.get("csrf", ""))
        return fields


async def visit_of(console: Console, request: Request) -> Visit:
    """Return the visit behind a request. Raises UnauthenticatedError without a session, RateLimitError."""
    name = cookie_of(dict(request.headers.raw))
    found = console.sessions.get(name) if name else None
    cookie = None
    if found is None and not console.server.settings.open_access:
        raise UnauthenticatedError("The browser has no session, or the session has ended.")
    try:
        caller = await console.server.caller("" if found is None else found.credential)
    except UnauthenticatedError:
        console.sessions.end(name)
        raise
    if found is None:
        fresh, found = console.sessions.begin("", caller.token)
        cookie = set_cookie(fresh, secure=False)
    console.server.count(caller)
    return Visit(console, request, caller, found, cookie)


async def form_of(request: Request) -> Mapping[str, str]:
    """Return the fields of a form. Raises BodyError for another body, BodyTooLargeError at the limit."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise BodyError("The body is no form.", remedy="Send the form of the page.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_MAX_BYTES:
                    raise BodyTooLargeError(f"The form exceeds {FORM_MAX_BYTES} bytes.")
    except TimeoutError as error:
        raise BodyError(f"The form did not arrive within {BODY_S:.0f} seconds.") from error
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError as error:
        raise BodyError("The form is malformed.", remedy="Send the form of the page.") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BodyError("A field of the form is given twice.", remedy="Send the form of the page.")
    return fields


def local(path: str) -> str:
    """A path of this server, or the first page: an address elsewhere is never followed."""
    parts = urlsplit(path)
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return path if safe and path.isascii() and path.isprintable() else "/"
