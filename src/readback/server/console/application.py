"""The console as an ASGI application: routes with their rights, sessions, headers of safety, and pages of errors."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import traceback
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from readback.canon import ReadbackError
from readback.server.access.principal import Right
from readback.server.app import App, Message, Receive, Scope, Send, Server, permit
from readback.server.console import changes, pages
from readback.server.console.rendering import FOLDER, PageFacts, page
from readback.server.console.sessions import cookie_of
from readback.server.console.visits import Console, Visit, local, visit_of
from readback.server.errors import InternalError, RouteError, UnauthenticatedError
from readback.server.problems import TITLES, status_of

LOG: Final = logging.getLogger("readback.server.console")
SAFETY: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # `no-referrer` would hide the page's own origin in the header that protects forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
MEDIA: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
ASSET_CACHE: Final = "no-cache"
"""Browsers ask again, and a matching ETag costs no body: a new release needs no new addresses."""

Handler = Callable[[Visit], Awaitable[Response]]
PAGES: Final[tuple[tuple[str, str, Handler, Right], ...]] = (
    ("GET", "/", pages.attention, Right.READ),
    ("GET", "/actions", pages.actions, Right.READ),
    ("GET", "/find", pages.find, Right.READ),
    ("GET", "/actions/{id}", pages.action, Right.READ),
    ("GET", "/actions/{id}/approval.json", pages.approval_bytes, Right.READ),
    ("GET", "/actions/{id}/proof", pages.proof, Right.READ),
    ("GET", "/actions/{id}/proof.txt", pages.proof_file, Right.READ),
    ("GET", "/actions/{id}/report.html", pages.report, Right.READ),
    ("GET", "/actions/{id}/bundle.json", pages.bundle, Right.READ),
    ("GET", "/actions/{id}/replay", pages.replay, Right.READ),
    ("GET", "/health", pages.health, Right.READ),
    ("GET", "/subscribers", pages.subscribers, Right.READ),
    ("GET", "/live", pages.live, Right.READ),
    ("POST", "/actions/{id}/decide", changes.decide, Right.REVIEW),
    ("POST", "/actions/{id}/approval", changes.approval, Right.REVIEW),
    ("POST", "/actions/{id}/claim", changes.claim, Right.REVIEW),
    ("POST", "/actions/{id}/control", changes.control, Right.RUN),
    ("POST", "/lift", changes.lift, Right.REVIEW),
    ("POST", "/subscribers/resend", changes.resend, Right.ADMIN),
    ("POST", "/preferences", changes.preferences, Right.READ),
    ("POST", "/sign-out", changes.sign_out, Right.READ),
)
"""Every page and form behind a session: method, path, handler, and the right that the caller needs."""


def console_app(server: Server) -> App:
    """Return the application of the console's pages."""
    console = Console(server)
    routes = [
        Route(path, _guarded(console, handler, right), methods=[method]) for method, path, handler, right in PAGES
    ]
    routes += [
        Route("/sign-in", _open(console, _sign_in_page), methods=["GET"]),
        Route("/sign-in", _open(console, changes.sign_in), methods=["POST"]),
        Route("/assets/{name}", _asset, methods=["GET"]),
    ]
    handlers = {HTTPException: _no_route, ReadbackError: _refused, Exception: _failed}
    return _safe(Starlette(routes=routes, exception_handlers=handlers))


def _guarded(console: Console, handler: Handler, right: Right) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visit = request.state.visit = await visit_of(console, request)
        permit(visit.caller, right)
        return await handler(visit)

    return answer


def _open(
    console: Console, handler: Callable[[Console, Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await handler(console, request)

    return answer


async def _refused(request: Request, error: Exception) -> Response:
    """The answer to an error of Readback: a page, or the page to sign in."""
    assert isinstance(error, ReadbackError)
    if isinstance(error, UnauthenticatedError):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.method == "GET" and request.url.path != "/live":
            return RedirectResponse(f"/sign-in?back={quote(here, safe='')}", 303)
        error = UnauthenticatedError("The session has ended.", remedy="Nothing was recorded. Sign in again.")
    return _fault_page(request, error)


async def _sign_in_page(console: Console, request: Request) -> Response:
    if console.server.settings.open_access:
        return RedirectResponse("/", 303)
    back = local(request.query_params.get("back", "/"))
    name = cookie_of(dict(request.headers.raw))  # the sign-out removes the cookie
    ended = bool(name) and console.sessions.peek(name) is None
    return HTMLResponse(page("sign_in.html", PageFacts(), fault="", ended=ended, back=back))


async def _failed(request: Request, _error: Exception) -> Response:
    return _fault_page(request, InternalError("The server met an unexpected error."))


def _fault_page(request: Request, error: ReadbackError) -> Response:
    """The page of an error, in the frame of the caller where the caller is known."""
    request_id = str(request.scope.get("readback.request_id", ""))
    visit: Visit | None = getattr(request.state, "visit", None)
    status = status_of(error)
    path = request.url.path if request.method == "GET" else local(request.url.path.rpartition("/")[0] or "/")
    missing = request.method == "GET" and status == 404  # the same page would be missing again
    values = {
        "title": TITLES.get(status, "Error"),
        "message": error.message,
        "remedy": error.remedy,
        "code": error.code,
        "request": request_id,
        "sign_in": isinstance(error, UnauthenticatedError),
        "back": "/" if missing else path,
        "way": "To the attention page" if missing else "Try again" if request.method == "GET" else "Back",
    }
    frame = PageFacts()
    if visit is not None:
        caller = visit.caller
        signed_in = visit.signed_in
        frame = PageFacts(
            caller.tenant, caller.principal, caller.rights, signed_in.csrf, signed_in.zone, path, signed_in=True
        )
    headers = {"retry-after": str(error.details.get("retry_after_s", 1))} if status in (429, 503) else {}
    return HTMLResponse(page("problem.html", frame, **values), status, headers)


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    answer = _fault_page(request, RouteError("There is no such page."))
    answer.status_code = status
    return answer


@cache
def _assets() -> dict[str, tuple[bytes, str, str]]:
    """Content, media type and ETag of each static file, read once."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for path in sorted((FOLDER / "static").iterdir()):
        content, kind = path.read_bytes(), MEDIA.get(path.suffix[1:])
        if kind is not None:
            found[path.name] = (content, f"{kind}; charset=utf-8", f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


async def _asset(request: Request) -> Response:
    found = (await asyncio.to_thread(_assets)).get(request.path_params["name"])
    if found is None:
        return await _no_route(request, HTTPException(404))
    content, media, tag = found
    headers = {"etag": tag, "cache-control": ASSET_CACHE}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)


def _safe(app: App) -> App:
    """Add the headers of safety to every answer, and forbid storing except for static files."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), *SAFETY]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        try:
            await app(scope, receive, sending)
        except Exception as error:  # tidy: boundary -- `_failed` has answered, and the error's text may hold a value
            last = traceback.extract_tb(error.__traceback__)[-1]
            named = scope.get("readback.request_id"), type(error).__name__, last.filename, last.lineno
            LOG.error("request %s: unexpected %s at %s:%s", *named)

    return answer
