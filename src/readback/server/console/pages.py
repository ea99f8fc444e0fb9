"""The reading pages of the console. A page is a few bounded queries and a template."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import RedirectResponse, Response, StreamingResponse

from readback.bootstrap import predicate_engine
from readback.canon import Json
from readback.client.operations import delivery_admin
from readback.client.operations.replaying import replay_bundle
from readback.client.operations.reviewing import review_packet
from readback.client.session import Session
from readback.domain.action.claim import Claim, ClaimKind, ClaimStatus
from readback.domain.outcome.claim_words import describe_claim
from readback.domain.people.review import APPROVAL
from readback.domain.records.replayed import Comparison
from readback.domain.saga.outcome import STEP_TEXT
from readback.domain.side_effect import SideEffect
from readback.domain.state import TERMINAL, State
from readback.engine.people.claims import claims_of, why_not_stated
from readback.errors import NotFoundError
from readback.ports.storage.store import Projection
from readback.server.api.actions import bundle as bundle_of
from readback.server.app import while_valid
from readback.server.console.action_view import action_view
from readback.server.console.listing import chosen_of, listing_of
from readback.server.console.rendering import as_attribute
from readback.server.console.report import report_of_action
from readback.server.console.visits import Visit
from readback.views.action import abbreviated
from readback.views.attention import COUNT_MAX, SHOWN_MAX, attention_of, related_to
from readback.views.proof import ProofView, proof_of
from readback.views.text import BAD, OK, OPEN

TITLES: Final = {"reviews": "Reviews", "approvals": "Approvals", "unknown": "Unknown", "overdue": "Overdue"}
LEADS: Final = {
    "reviews": "A person must decide. The key of each action stays taken until then.",
    "approvals": "Nothing was called. Each action waits for a signature.",
    "unknown": "The effect is unknown, and a worker reads on. Do not repeat the actions. Actions in review count too.",
    "overdue": "A reading is due for more than a minute, and no worker has taken it. Actions in review count too.",
}
LINKS: Final = {
    "reviews": "/actions?review=1",
    "approvals": "/actions?review=1&hold=approval",
    "unknown": "/actions?state=unknown",
    "overdue": "/actions",
}
REPLAY_SIGNS: Final = {Comparison.SAME: OK, Comparison.DIFFERS: BAD, Comparison.NOT_EVALUATED: OPEN}
LETTERS_SHOWN_MAX: Final = 50
LETTERS_COUNTED_MAX: Final = 1_000
SIGNAL: Final = ("signal", "Read now", "Makes the next reading due. A worker reads; nothing is called.")
CANCEL: Final = (
    "cancel",
    "Cancel",
    "Requests the stop. An unexecuted action is not executed, and an effect that a reading shows is reversed where the "
    "contract has a compensation.",
)


async def attention(visit: Visit) -> Response:
    """The first page: actions waiting for a person, the oldest first."""
    return await asyncio.to_thread(_attention, visit)


def _attention(visit: Visit) -> Response:
    found = attention_of(visit.session)
    subjects = list(dict.fromkeys(each.subject for each in found.freezes))[:SHOWN_MAX]
    return visit.page(
        "attention.html",
        attention=found,
        titles=TITLES,
        leads=LEADS,
        links=LINKS,
        count_max=COUNT_MAX,
        shown_max=SHOWN_MAX,
        subjects=subjects,
    )


async def actions(visit: Visit) -> Response:
    """The list of actions, with filters in the URL."""
    return await asyncio.to_thread(_actions, visit)


def _actions(visit: Visit) -> Response:
    chosen = chosen_of(visit.request.query_params)
    found = listing_of(visit.session, chosen)
    return visit.page(
        "list.html",
        found=found,
        chosen=chosen,
        states=[each.value for each in State],
        here=chosen.url(chosen.before),
        first=chosen.url(),
    )


async def find(visit: Visit) -> Response:
    """Open an action by the id, the stamp, or the first letters of the id."""
    named = visit.request.query_params.get("id", "").strip()[:256]
    found = await asyncio.to_thread(abbreviated, visit.session, named) if named else ""
    return visit.answer(RedirectResponse(f"/actions/{found}" if found else "/actions", 303))


RETRACT: Final = "The claim is contested and retracted. The entry names the actions planned on the claim."
REINSTATE: Final = "The claim is valid again, and plans may rely on it."
STATEMENTS: Final = (("retract", ClaimStatus.RETRACTED, RETRACT), ("reinstate", ClaimStatus.REINSTATED, REINSTATE))


async def action(visit: Visit) -> Response:
    """An action or saga, with the possible decisions."""
    session = visit.session
    action_id = await asyncio.to_thread(session.action_id, visit.request.path_params["id"])
    stored = await asyncio.to_thread(session.store.projection, action_id)
    if stored is None:
        raise NotFoundError(f"There is no action {action_id!r}.")
    asked = await _approval(visit, stored.projection)
    return await asyncio.to_thread(_action, visit, stored.projection, asked)


def _action(visit: Visit, held: Projection, asked: dict[str, Any] | None) -> Response:
    session, action_id = visit.session, held.action_id
    view = action_view(session, action_id)
    made = () if view.graph else claims_of(session.store.events(action_id))
    return visit.page(
        "action.html",
        path=f"/actions/{action_id}",
        view=view,
        case=review_packet(session, action_id),
        approval=asked,
        controls=_controls(session, held),
        claims=[{"claim": each, "text": describe_claim(each)} for each in made],
        statements=_statements(made),
        signed=held.side_effect == SideEffect.CRITICAL_MUTATION,
        related=related_to(session, held, view.compensation),
        step_text=STEP_TEXT,
    )


async def _approval(visit: Visit, held: Projection) -> dict[str, Any] | None:
    """The request to be signed, where the action waits for a signature."""
    if held.hold != APPROVAL:
        return None
    request = await visit.client.approval(held.action_id)
    return {
        "id": request.bound.approval,
        "payload": request.payload,
        "expires_us": request.bound.expires_us,
        "signed": ", ".join(request.signed_by),
        "bytes": request.bytes.decode("utf-8", "replace"),
        "size": len(request.bytes),
    }


def _statements(made: Sequence[Claim]) -> list[tuple[str, str, ClaimKind, str]]:
    """The possible statements about an action's claims: command, value in the form, claim, and consequence."""
    return [
        (command, f"{command} {each.kind.value}", each.kind, will)
        for each in made
        for command, status, will in STATEMENTS
        if not why_not_stated(status, each.said, made=each.made_us > 0)
    ]


def _controls(session: Session, held: Projection) -> list[tuple[str, str, str]]:
    """The possible controls of an open action. A cancel needs the contract."""
    waits = [SIGNAL] if held.due_us is not None and not held.hold else []
    ended = State(held.state) in TERMINAL or not session.knows(held)
    return [*waits, *([] if ended else [CANCEL])]


async def approval_bytes(visit: Visit) -> Response:
    """The bytes to be signed, as a file. The page shows them bounded and escaped."""
    action_id = await asyncio.to_thread(visit.session.action_id, visit.request.path_params["id"])
    request = await visit.client.approval(action_id)
    return _download(visit, request.bytes, "application/octet-stream", "approval.json")


async def proof(visit: Visit) -> Response:
    """The proof of an action's last entry, the head and the anchors."""
    return await asyncio.to_thread(_proof, visit)


def _proof(visit: Visit) -> Response:
    action_id = visit.session.action_id(visit.request.path_params["id"])
    found = proof_of(visit.session, action_id)
    return visit.page("proof.html", id=action_id, proof=found, data=_proof_data(visit, found))


def _proof_data(visit: Visit, found: ProofView) -> Markup:
    authority = visit.session.sealer.authority if visit.session.sealer else visit.session.sealing.authority
    if found.proof is None or found.head is None or authority is None:
        return Markup()
    text: dict[str, Json] = {
        "entry": b64encode(found.proof.entry).decode(),
        "index": found.proof.index,
        "size": found.head.size,
        "path": [b64encode(each).decode() for each in found.proof.path],
        "root": found.head.root.hex(),
        "note": found.note,
        "name": authority.key.name,
        "key": b64encode(authority.key.public).decode(),
    }
    return as_attribute(text)


async def proof_file(visit: Visit) -> Response:
    """The proof as a file for `readback ledger verify-proof`."""
    found = await asyncio.to_thread(proof_of, visit.session, visit.request.path_params["id"])
    if found.proof is None:
        raise NotFoundError(f"There is no proof: {found.missing}")
    return _download(visit, found.proof.to_bytes(), "text/plain; charset=utf-8", "proof.txt")


async def report(visit: Visit) -> Response:
    """The static report of an action as a file."""
    made = await asyncio.to_thread(report_of_action, visit.session, visit.request.path_params["id"])
    return _download(visit, made.encode(), "text/html; charset=utf-8", "report.html")


async def bundle(visit: Visit) -> Response:
    """The bundle of an action as a file for `readback replay`."""
    content = await asyncio.to_thread(bundle_of, visit.session, visit.request.path_params["id"])
    return _download(visit, content, "application/json", "bundle.json")


async def replay(visit: Visit) -> Response:
    """The recorded judgements of an action, and the same judgements by this server's logic."""
    return await asyncio.to_thread(_replay, visit)


def _replay(visit: Visit) -> Response:
    action_id = visit.session.action_id(visit.request.path_params["id"])
    found = replay_bundle(bundle_of(visit.session, action_id), predicate_engine())
    return visit.page("replay.html", path=f"/actions/{action_id}", id=action_id, found=found, signs=REPLAY_SIGNS)


def _download(visit: Visit, content: bytes, media: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return visit.answer(Response(content, media_type=media, headers=headers))


async def health(visit: Visit) -> Response:
    """Counts of contracts, tools and sources."""
    return await asyncio.to_thread(lambda: visit.page("health.html", **visit.console.health.of(visit.session)))


async def subscribers(visit: Visit) -> Response:
    """The positions of subscribers, and the dead letters."""
    return await asyncio.to_thread(_subscribers, visit)


def _subscribers(visit: Visit) -> Response:
    session, settings = visit.session, visit.console.server.ledgers.settings
    chosen = visit.request.query_params.get("subscriber", "")[:256]
    letters = delivery_admin.dead_letters(session, set(), chosen, limit=LETTERS_COUNTED_MAX)
    last = session.store.last_seq()
    positions = [
        {
            "name": one.name,
            "where": one.where,
            "after_seq": None if one.cursor is None else one.cursor.after_seq,
            "behind": None if one.cursor is None else last - one.cursor.after_seq,
            "tried": 0 if one.cursor is None else one.cursor.tried,
            "next_us": 0 if one.cursor is None else one.cursor.next_us,
            "said": "" if one.cursor is None else one.cursor.said,
        }
        for one in delivery_admin.positions(session, settings, set(), count=False)
    ]
    return visit.page(
        "subscribers.html",
        path="/subscribers",
        positions=positions,
        names=sorted({str(one["name"]) for one in positions} | {each.letter.subscriber for each in letters}),
        subscriber=chosen,
        letters=letters[:LETTERS_SHOWN_MAX],
        total=len(letters),
        more=len(letters) >= LETTERS_COUNTED_MAX,
    )


async def live(visit: Visit) -> Response:
    """The feed of changes of the caller's tenant."""
    given = visit.request.headers.get("last-event-id", "") or visit.request.query_params.get("after", "")
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else 0
    if visit.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    events = await visit.console.live.listen(visit.caller.tenant, after)
    events = while_valid(events, visit.is_valid)
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
