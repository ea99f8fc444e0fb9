"""The forms of the console. Each is a POST of the session's own page, and each result is a page to read again.

A decision names the version that the person saw, in the form or in If-Match. The ledger compares the version.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from readback.client.operations import delivery_admin
from readback.client.operations.delivery_admin import DeadLetterMessage
from readback.domain.action.claim import ClaimKind, claim_id
from readback.errors import UsageError
from readback.server.console.pages import LETTERS_COUNTED_MAX
from readback.server.console.rendering import PageFacts, is_zone, page
from readback.server.console.sessions import clear_cookie, cookie_of, set_cookie
from readback.server.console.visits import Console, Visit, form_of, local
from readback.server.errors import PreconditionRequiredError, UnauthenticatedError

ZONE_MAX_CHARACTERS: Final = 64
VERSION_MAX_DIGITS: Final = 12


async def sign_in(console: Console, request: Request) -> Response:
    """Begin a session for a token. An unknown token leads to the same form, for the same page behind the form."""
    fields = await form_of(request)
    credential, back = fields.get("token", "").strip(), local(fields.get("back", "/"))
    try:
        caller = await console.server.caller(credential)
    except UnauthenticatedError as error:
        return HTMLResponse(page("sign_in.html", PageFacts(), fault=error.message, ended=False, back=back), 401)
    console.server.count(caller)
    console.sessions.end(cookie_of(dict(request.headers.raw)))
    name, _ = console.sessions.begin(credential, caller.token)
    response = RedirectResponse(back, 303)
    # The browser names its own scheme in Origin. Behind a proxy with HTTPS the request itself arrives without HTTPS.
    secure = request.headers.get("origin", "").lower().startswith("https://")
    response.raw_headers.append((b"set-cookie", set_cookie(name, secure=secure)))
    return response


async def sign_out(visit: Visit) -> Response:
    """End the session; with `everywhere`, all sessions of the same token, or of the same person at a provider."""
    fields = await visit.form()
    if fields.get("everywhere"):
        visit.console.sessions.end_all(visit.caller.token)
    else:
        visit.console.sessions.end(visit.signed_in.name)
    response = RedirectResponse("/sign-in", 303)
    response.raw_headers.append((b"set-cookie", clear_cookie()))
    return response


async def preferences(visit: Visit) -> Response:
    """Set the session's time zone. Raises UsageError for an unknown one."""
    fields = await visit.form()
    zone = fields.get("zone", "").strip()[:ZONE_MAX_CHARACTERS] or "UTC"
    if not is_zone(zone):
        raise UsageError(f"There is no time zone {zone!r}.", remedy="Write a name such as Europe/Riga, or UTC.")
    visit.console.sessions.choose_zone(visit.signed_in, zone)
    return visit.back(fields.get("back", "/"))


async def decide(visit: Visit) -> Response:
    """Record a decision about an action in review, and carry out the decision."""
    fields = await visit.form()
    action_id = await asyncio.to_thread(visit.session.action_id, visit.request.path_params["id"])
    await visit.client.resolve(
        action_id,
        fields.get("decision", ""),
        expect_version=_version(visit, fields.get("version", "")),
        who=visit.caller.principal,
        reason=fields.get("reason", ""),
    )
    return visit.back(f"/actions/{action_id}")


def _version(visit: Visit, given: str) -> int:
    """The version that the person saw. Raises PreconditionRequiredError."""
    text = visit.request.headers.get("if-match", "").strip().strip('"') or given
    if not (text.isascii() and text.isdigit() and len(text) <= VERSION_MAX_DIGITS) or text != str(int(text)):
        raise PreconditionRequiredError("The decision names no version of the action.")
    return int(text)


async def approval(visit: Visit) -> Response:
    """Record an approver's signed token. No key reaches the server."""
    fields = await visit.form()
    action_id = await asyncio.to_thread(visit.session.action_id, visit.request.path_params["id"])
    token = fields.get("token", "").strip().encode()
    match fields.get("choice", ""):
        case "approve":
            await visit.client.approve(action_id, token)
        case "deny":
            await visit.client.deny(action_id, token)
        case other:
            raise UsageError(f"{other!r} is no choice.", remedy="Choose approve or deny.")
    return visit.back(f"/actions/{action_id}")


async def claim(visit: Visit) -> Response:
    """Record a person's statement about a claim of an action."""
    fields = await visit.form()
    action_id = await asyncio.to_thread(visit.session.action_id, visit.request.path_params["id"])
    command, _, kind = fields.get("statement", "").partition(" ")
    state = {"retract": visit.client.retract, "reinstate": visit.client.reinstate}.get(command)
    if state is None or kind not in tuple(ClaimKind):
        raise UsageError(f"{command[:40]!r} is no statement.", remedy="Choose a statement of the page.")
    await state(
        claim_id(action_id, ClaimKind(kind)),
        who=visit.caller.principal,
        reason=fields.get("reason", ""),
        expect_version=_version(visit, fields.get("version", "")),
    )
    return visit.back(f"/actions/{action_id}")


async def control(visit: Visit) -> Response:
    """Make the next reading due, or request the stop of an action."""
    fields = await visit.form()
    action_id = await asyncio.to_thread(visit.session.action_id, visit.request.path_params["id"])
    match fields.get("control", ""):
        case "signal":
            await asyncio.to_thread(visit.session.signal, action_id)
        case "cancel":
            await visit.client.cancel(action_id)
        case other:
            raise UsageError(f"{other!r} is no control.", remedy="Choose signal or cancel.")
    return visit.back(f"/actions/{action_id}")


async def lift(visit: Visit) -> Response:
    """Lift the freeze of a subject."""
    fields = await visit.form()
    await visit.client.lift(fields.get("subject", ""), who=visit.caller.principal, reason=fields.get("reason", ""))
    return visit.back("/")


async def resend(visit: Visit) -> Response:
    """Deliver dead letters once more, exactly as many as the page announced. Raises UsageError for another number."""
    fields = await visit.form()
    expected, subscriber = fields.get("expected", ""), fields.get("subscriber", "")

    def work() -> None:
        found: list[DeadLetterMessage] = delivery_admin.dead_letters(
            visit.session, set(), subscriber, limit=LETTERS_COUNTED_MAX
        )
        if expected != str(len(found)):
            raise UsageError(
                f"The page announced {expected or 'no'} messages, and {len(found)} are undelivered now.",
                remedy="Open the page again, and decide by the present number.",
            )
        delivery_admin.resend(visit.session, found)

    await asyncio.to_thread(work)
    return visit.back("/subscribers")
