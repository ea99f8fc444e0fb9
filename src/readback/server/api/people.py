"""What waits for a person: reviews, approvals, claims, incidents and freezes.

The decider of a request is the token's principal, and never a name in the body. The server signs nothing: an approver
signs the exact bytes with a private key elsewhere, and the signature comes in.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from readback.canon import parse_json
from readback.client.operations import claiming, reviewing
from readback.client.session import Session
from readback.domain.action.claim import Claim
from readback.domain.contract.approval import HOLD
from readback.domain.people.review import resolution_bytes
from readback.domain.state import State
from readback.errors import UsageError
from readback.ports.storage.store import ActionFilter, Freeze, Incident, StoredProjection
from readback.server.access.principal import Right
from readback.server.api import shapes
from readback.server.api.actions import summary
from readback.server.api.answering import beside, expected_version, outcome_reply, page_of
from readback.server.errors import PreconditionFailedError
from readback.server.routing import Answer, Call, Reply, Route

PAGES_MAX: Final = 20
"""How many pages of validated actions one look searches for waiting approvals."""
LOOKED_AT: Final = 500


def signature_of(text: str) -> bytes | None:
    """Return a signature's bytes; None for no signature. Raises UsageError."""
    if not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError("The signature is not Base64.", remedy="Send the signature's 64 bytes as Base64.") from error


def _session(call: Call, *, test: bool) -> Session:
    return call.ledgers.client(call.caller, test=test).session


# --- reviews ----------------------------------------------------------------------------------------------------


async def list_reviews(call: Call) -> Reply:
    """List the actions and sagas that await a review."""
    query: shapes.PageQuery = call.query
    session = _session(call, test=query.test)
    wanted = ActionFilter(session.scope.tenant, before_id=query.starting_after, limit=query.limit + 1, review=True)
    items, more = page_of(await beside(session.store.page, wanted), query.limit)
    return Reply(200, shapes.ActionPage([summary(each) for each in items], has_more=more))


async def get_review(call: Call) -> Reply:
    """Return the case of an action, with the version that a decision must name."""
    session = _session(call, test=call.query.test)
    case = await beside(reviewing.review_packet, session, call.path["id"])
    return Reply(200, case.as_json(), ((b"etag", f'"{case.version}"'.encode("ascii")),))


async def review_statement(call: Call) -> Reply:
    """Return the exact bytes that an approver signs for a decision about a critical mutation."""
    query: shapes.StatementQuery = call.query
    session = _session(call, test=query.test)
    action_id = await beside(session.action_id, call.path["id"])
    signer = call.caller.principal
    message = resolution_bytes(action_id, session.scope.tenant, query.version, query.decision, signer, query.reason)
    return Reply(200, shapes.StatementView(base64.b64encode(message).decode("ascii"), signer))


async def decide_review(call: Call) -> Reply:
    """Record a decision about the version in If-Match, and carry the decision out."""
    body: shapes.DecisionRequest = call.body
    client = call.ledgers.client(call.caller, test=body.test)
    outcome = await client.resolve(
        call.path["id"],
        body.decision,
        expect_version=expected_version(call),
        who=call.caller.principal,
        reason=body.reason,
        signature=signature_of(body.signature),
    )
    reply = outcome_reply(call, client, outcome, test=body.test)
    return Reply(200, reply.body, reply.headers)


# --- approvals --------------------------------------------------------------------------------------------------


async def list_approvals(call: Call) -> Reply:
    """List the actions that wait for an approver, the newest first."""
    query: shapes.PageQuery = call.query
    session = _session(call, test=query.test)
    found, more = await beside(waiting_approvals, session, query.starting_after, query.limit)
    return Reply(200, shapes.ActionPage([summary(each) for each in found], has_more=more))


def waiting_approvals(session: Session, before_id: str, limit: int) -> tuple[list[StoredProjection], bool]:
    """Return a page of actions that are held for an approval. Only validated, unexecuted actions are read."""
    found: list[StoredProjection] = []
    for _ in range(PAGES_MAX):
        page = session.store.page(
            ActionFilter(session.scope.tenant, State.VALIDATED.value, before_id=before_id, limit=LOOKED_AT)
        )
        found += [each for each in page if each.projection.hold == HOLD]
        if len(page) < LOOKED_AT or len(found) > limit:
            break
        before_id = page[-1].projection.action_id
    return found[:limit], len(found) > limit


async def get_approval(call: Call) -> Reply:
    """Return what an approver signs: the exact bytes and their meaning."""
    client = call.ledgers.client(call.caller, test=call.query.test)
    request = await client.approval(call.path["id"])
    bound = request.bound
    view = shapes.ApprovalView(
        id=bound.action,
        approval=bound.approval,
        bytes=base64.b64encode(request.bytes).decode("ascii"),
        payload=request.payload,
        expires_us=bound.expires_us,
        people=bound.people,
        signed_by=[*request.signed_by],
        current=request.current,
        request=parse_json(request.bytes),
    )
    return Reply(200, view)


async def decide_approval(call: Call) -> Reply:
    """Record a signed approval or denial. Nothing is executed by this request."""
    body: shapes.TokenRequest = call.body
    client = call.ledgers.client(call.caller, test=body.test)
    decide = client.approve if body.decision == "approve" else client.deny
    outcome = await decide(call.path["id"], body.token)
    reply = outcome_reply(call, client, outcome, test=body.test)
    return Reply(200, reply.body, reply.headers)


# --- claims -----------------------------------------------------------------------------------------------------


async def list_claims(call: Call) -> Reply:
    """List the claims of an action, or the claims that were contested, retracted or reinstated."""
    query: shapes.ClaimQuery = call.query
    session = _session(call, test=query.test)
    found = await beside(claiming.claims, session, query.action, limit=query.limit)
    return Reply(200, {"items": [each.as_json() for each in found]})


async def get_claim(call: Call) -> Reply:
    """Return a claim, and whether the claim stands now."""
    return _claim(await beside(claiming.claim, _session(call, test=call.query.test), call.path["id"]))


def _claim(found: Claim) -> Reply:
    return Reply(200, found.as_json(), ((b"etag", f'"{found.version}"'.encode("ascii")),))


async def retract_claim(call: Call) -> Reply:
    """Withdraw a claim by the caller's statement."""
    return await _stated(call, reinstate=False)


async def reinstate_claim(call: Call) -> Reply:
    """Restore a claim by the caller's statement."""
    return await _stated(call, reinstate=True)


async def _stated(call: Call, *, reinstate: bool) -> Reply:
    body: shapes.StatementRequest = call.body
    client, version = call.ledgers.client(call.caller, test=body.test), expected_version(call)
    seen = await beside(claiming.claim, client.session, call.path["id"])
    if seen.version != version:
        raise PreconditionFailedError(f"The claim is at version {seen.version}, and If-Match names {version}.")
    state = client.reinstate if reinstate else client.retract
    found = await state(
        call.path["id"],
        who=call.caller.principal,
        reason=body.reason,
        expect_version=version,
        signature=signature_of(body.signature),
    )
    return _claim(found)


# --- incidents and freezes --------------------------------------------------------------------------------------


def incident_view(one: Incident) -> shapes.IncidentView:
    """Return an incident as the API shows incidents."""
    return shapes.IncidentView(
        one.id, one.severity, one.cause, one.action_id, one.seen, not one.closed_us, one.opened_us, one.closed_us
    )


async def list_incidents(call: Call) -> Reply:
    """List the tenant's incidents. The decision about the first action's review closes an incident."""
    query: shapes.IncidentQuery = call.query
    found = await beside(reviewing.incidents, _session(call, test=query.test), open_only=not query.all)
    return Reply(200, shapes.IncidentList([incident_view(each) for each in found]))


async def get_incident(call: Call) -> Reply:
    """Return one incident."""
    found = await beside(reviewing.incident, _session(call, test=call.query.test), call.path["id"])
    return Reply(200, incident_view(found))


def freeze_view(one: Freeze) -> shapes.FreezeView:
    """Return a freeze as the API shows freezes."""
    return shapes.FreezeView(one.subject, one.action_id, one.reason, one.since_us)


async def list_freezes(call: Call) -> Reply:
    """List the tenant's frozen subjects."""
    found = await beside(reviewing.freezes, _session(call, test=call.query.test))
    return Reply(200, shapes.FreezeList([freeze_view(each) for each in found]))


async def lift_freeze(call: Call) -> Reply:
    """Lift the freeze of a subject by the caller's decision."""
    body: shapes.LiftRequest = call.body
    client = call.ledgers.client(call.caller, test=body.test)
    await client.lift(
        body.subject, who=call.caller.principal, reason=body.reason, signature=signature_of(body.signature)
    )
    left = await beside(reviewing.freezes, client.session)
    return Reply(200, shapes.FreezeList([freeze_view(each) for each in left]))


DECIDED: Final = (Answer(200, "The decision is recorded.", shapes.ActionView, headers=("ETag",)),)
CLAIM: Final = (Answer(200, "The claim.", shapes.ClaimView, headers=("ETag",)),)
REVIEW: Final = (Answer(200, "The case, with the effect of each decision.", shapes.ReviewView, headers=("ETag",)),)


ROUTES: Final = (
    Route(
        "GET", "/v1/reviews", "listReviews", "List actions that await a review.", list_reviews, Right.READ,
        (Answer(200, "A page, the newest first.", shapes.ActionPage),), query=shapes.PageQuery, tag="reviews",
        faults=(503,),
    ),
    Route(
        "GET", "/v1/reviews/{id}", "getReview", "Return the case for a decision.", get_review, Right.READ, REVIEW,
        query=shapes.TestQuery, tag="reviews", faults=(404, 413, 503),
    ),
    Route(
        "GET", "/v1/reviews/{id}/statement", "getReviewStatement", "Return the bytes to sign for a decision.",
        review_statement, Right.REVIEW, (Answer(200, "The exact bytes.", shapes.StatementView),),
        query=shapes.StatementQuery, tag="reviews", faults=(404, 503),
    ),
    Route(
        "POST", "/v1/reviews/{id}/decisions", "decideReview", "Decide a review.", decide_review, Right.REVIEW,
        DECIDED, body=shapes.DecisionRequest, version=True, tag="reviews", faults=(403, 404, 409, 412, 422, 503),
    ),
    Route(
        "GET", "/v1/approvals", "listApprovals", "List actions that wait for an approver.", list_approvals,
        Right.READ, (Answer(200, "A page, the newest first.", shapes.ActionPage),), query=shapes.PageQuery,
        tag="approvals", faults=(503,),
    ),
    Route(
        "GET", "/v1/approvals/{id}", "getApproval", "Return the exact bytes to sign.", get_approval, Right.READ,
        (Answer(200, "The request for approval.", shapes.ApprovalView),), query=shapes.TestQuery, tag="approvals",
        faults=(404, 409, 503),
    ),
    Route(
        "POST", "/v1/approvals/{id}/tokens", "decideApproval", "Hand in a signed approval or denial.",
        decide_approval, Right.REVIEW, DECIDED, body=shapes.TokenRequest, tag="approvals",
        faults=(403, 404, 409, 422, 503),
    ),
    Route(
        "GET", "/v1/claims", "listClaims", "List claims.", list_claims, Right.READ,
        (Answer(200, "The claims.", shapes.ClaimPage),), query=shapes.ClaimQuery, tag="claims",
        faults=(404, 409, 422, 503),
    ),
    Route(
        "GET", "/v1/claims/{id}", "getClaim", "Return a claim.", get_claim, Right.READ, CLAIM,
        query=shapes.TestQuery, tag="claims", faults=(404, 409, 422, 503),
    ),
    Route(
        "POST", "/v1/claims/{id}/retract", "retractClaim", "Withdraw a claim.", retract_claim, Right.REVIEW, CLAIM,
        body=shapes.StatementRequest, version=True, tag="claims", faults=(403, 404, 409, 412, 422, 503),
    ),
    Route(
        "POST", "/v1/claims/{id}/reinstate", "reinstateClaim", "Restore a claim.", reinstate_claim, Right.REVIEW,
        CLAIM, body=shapes.StatementRequest, version=True, tag="claims", faults=(403, 404, 409, 412, 422, 503),
    ),
    Route(
        "GET", "/v1/incidents", "listIncidents", "List incidents.", list_incidents, Right.READ,
        (Answer(200, "The incidents, the newest first.", shapes.IncidentList),), query=shapes.IncidentQuery,
        tag="incidents", faults=(503,),
    ),
    Route(
        "GET", "/v1/incidents/{id}", "getIncident", "Return an incident.", get_incident, Right.READ,
        (Answer(200, "The incident.", shapes.IncidentView),), query=shapes.TestQuery, tag="incidents",
        faults=(404, 503),
    ),
    Route(
        "GET", "/v1/freezes", "listFreezes", "List frozen subjects.", list_freezes, Right.READ,
        (Answer(200, "The freezes, the oldest first.", shapes.FreezeList),), query=shapes.TestQuery, tag="freezes",
        faults=(503,),
    ),
    Route(
        "POST", "/v1/freezes/lift", "liftFreeze", "Lift a freeze.", lift_freeze, Right.REVIEW,
        (Answer(200, "The freeze is lifted; the remaining freezes.", shapes.FreezeList),), body=shapes.LiftRequest,
        tag="freezes", faults=(403, 404, 409, 422, 503),
    ),
)  # fmt: skip
