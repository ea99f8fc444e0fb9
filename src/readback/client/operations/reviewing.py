"""Reviews and freezes, for the clients and the command line: orders, signatures and review cases.

Reads go through the session's store. A caller with a driver passes the orders to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readback.canon.limits import MESSAGE_MAX_BYTES
from readback.client.session import Session, check_id
from readback.domain.contract.approval import is_principal
from readback.domain.people.review import Decision, ReviewCase, lift_bytes, resolution_bytes
from readback.domain.people.signed_statement import SignedStatement, why_not_signed
from readback.engine.effects import Effects
from readback.engine.people import review
from readback.engine.people.review import Order, needs_signature
from readback.engine.people.review_case import packet
from readback.engine.saga import review as saga_review
from readback.engine.saga.review import saga_packet
from readback.errors import NotFoundError, OversizeError, ReviewError, UsageError
from readback.ports.signer import Signer
from readback.ports.storage.store import ActionFilter, Freeze, Incident, StoredProjection

PAGE_MAX = 10_000


def queue(session: Session, limit: int = PAGE_MAX) -> list[StoredProjection]:
    """Return every action and saga of the tenant in review, newest first."""
    session.check_open()
    return session.store.page(ActionFilter(session.scope.tenant, review=True, limit=limit))


def review_packet(session: Session, id_or_stamp: str) -> ReviewCase:
    """Return the review case of an action or a saga. Raises NotFoundError."""
    action_id = session.action_id(id_or_stamp)
    if session.is_saga(action_id):
        return saga_packet(session.store, action_id, session.scope.tenant, session.plan_of)
    return packet(session.store, action_id, session.scope.tenant, session.engine.table, session.plan_of)


def resolving(session: Session, order: Order) -> Effects[None]:
    """Return the work that records the decision and its consequences, for a caller with a driver."""
    work = saga_review.resolve if session.is_saga(order.action_id) else review.resolve
    return work(session.engine, order, session.scope.tenant, session.plan_of)


def resolution(
    session: Session,
    id_or_stamp: str,
    decision: str,
    *,
    expect_version: int,
    who: str,
    reason: str,
    signature: bytes | Signer | None = None,
) -> Order:
    """Return the order to resolve a review, checked as far as possible without the action. Raises InputError."""
    try:
        decided = Decision(decision)
    except ValueError:
        known = ", ".join(one.value for one in Decision)
        raise UsageError(f"{decision!r} is not a decision.", remedy=f"Decide one of: {known}.") from None
    given: object = expect_version
    if isinstance(given, bool) or not isinstance(given, int):
        raise UsageError(f"expect_version={given!r} is not a version.", remedy="Pass the version of the review case.")
    check_words(who, reason)
    action_id = session.action_id(id_or_stamp)
    order = Order(action_id, decided, expect_version, who, reason)
    if signature is None:
        return order
    tenant = session.scope.tenant
    message = resolution_bytes(action_id, tenant, expect_version, decided.value, who, reason)
    stored = session.store.projection(action_id)
    contracts = [stored.projection.contract] if stored is not None else []
    return replace(order, signed=signed_word(session, who, message, signature, contracts))


def lifting(
    session: Session,
    subject: str,
    *,
    who: str,
    reason: str,
    signature: bytes | Signer | None = None,
) -> tuple[tuple[str, ...], Order]:
    """Return the actions that freeze a subject, and the order to lift the freeze.

    Raises NotFoundError where none does.
    """
    check_words(who, reason)
    tenant, frozen = session.scope.tenant, freezers(session, subject)
    ids = tuple(action_id for action_id, _ in frozen)
    frozen_by = [session.fold(action_id) for action_id in ids]
    if any(is_principal(who, action.principal) for action in frozen_by):
        raise ReviewError(
            f"{who!r} ran the action that froze {subject!r}. Another person must lift the freeze.", code="review.self"
        )
    order = Order(ids[0], Decision.ABANDON, 0, who, reason)
    if signature is not None:
        message = lift_bytes(tenant, subject, frozen, who, reason)
        contracts = [action.contract for action in frozen_by]
        order = replace(order, signed=signed_word(session, who, message, signature, contracts))
    if not order.signed_by and any(needs_signature(action) for action in frozen_by):
        raise _unsigned(f"A critical mutation froze {subject!r}. The lift needs an approver's signature.")
    return ids, order


def freezers(session: Session, subject: str) -> tuple[tuple[str, int], ...]:
    """Return the actions that freeze a subject, each with the start in microseconds, ordered by id. Raises
    NotFoundError where none does.
    """
    frozen = sorted((freeze.action_id, freeze.since_us) for freeze in freezes(session) if freeze.subject == subject)
    if not frozen:
        raise NotFoundError(f"{subject!r} is not frozen in this tenant.", remedy="See `readback freezes list`.")
    return tuple(frozen)


def freezes(session: Session) -> list[Freeze]:
    """Return the tenant's frozen subjects, the oldest first."""
    session.check_open()
    return session.store.freezes(session.scope.tenant)


def incidents(session: Session, *, open_only: bool = True) -> list[Incident]:
    """Return the tenant's incidents, the newest first."""
    session.check_open()
    return session.store.incidents(session.scope.tenant, open_only=open_only)


def incident(session: Session, incident_id: str) -> Incident:
    """Return one incident by id. Raises NotFoundError."""
    for one in incidents(session, open_only=False):
        if one.id == incident_id:
            return one
    raise NotFoundError(
        f"There is no incident {incident_id!r} in this tenant.", remedy="See `readback incidents list`."
    )


def signed_word(
    session: Session, who: str, message: bytes, given: bytes | Signer, contracts: Sequence[str]
) -> SignedStatement:
    """Return exactly this statement, signed by an approver of this process. Raises ReviewError for an invalid
    signature.
    """
    approvals, tenant = session.engine.approvals, session.scope.tenant
    if not isinstance(given, bytes) and not hasattr(given, "sign"):
        raise _unsigned(f"signature must be bytes or an ApproverKey (got {type(given).__name__}).")
    signature = given if isinstance(given, bytes) else given.sign(message)
    approver = approvals.policy.named(who)
    if approver is None or not all(approver.may_approve(tenant, contract) for contract in contracts):
        raise _unsigned(f"{who!r} is not an approver for this action.")
    word = SignedStatement(approver.name, approver.key_id, message, signature)
    if why_not_signed(word, approvals.policy, approvals.verify):
        raise _unsigned(f"The signature is not a signature of {who!r} for this decision.")
    return word


def check_words(who: str, reason: str) -> None:
    """Require the decider's name and a reason. Raises InputError."""
    check_id("who", who, UsageError)
    said: object = reason
    if not isinstance(said, str) or not said.strip():
        raise UsageError(
            "The reason is missing.", remedy="Pass reason='...' as one sentence; the reason stays in the record."
        )
    if len(reason.encode(errors="replace")) > MESSAGE_MAX_BYTES:
        raise OversizeError(f"The reason exceeds {MESSAGE_MAX_BYTES} bytes.", remedy="Say it shorter.")


def _unsigned(why: str) -> ReviewError:
    return ReviewError(
        why,
        remedy="Sign with the key of an approver listed in the operator's settings for this tenant and contract.",
        code="review.signature",
    )
