"""Review: record a person's decision about an action, and continue the action like any other.

Called by the clients and the command line. The decision is durable before any effect. From then on any worker may
continue the action, so a crash in between loses nothing. No decision verifies an action: only a reading does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from readback.canon import Json, parse_json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.claim import ClaimStatement
from readback.domain.contract.approval import is_principal
from readback.domain.contract.freezing import lifted_with
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.idempotency import KeyDecision, KeyStatus, Resolution, aged, on_key
from readback.domain.people.review import ACTS, RESOLUTION_OF, Decision, ReviewFacts, choice, lifts, path_of
from readback.domain.people.signed_statement import SignedStatement
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine import coordinator
from readback.engine.claims import entries as claim
from readback.engine.effects import (
    Commit,
    Effects,
    GetClock,
    Lease,
    Leased,
    Load,
    LoadFreeze,
    LoadKey,
    MakeDue,
    Wait,
)
from readback.engine.engine import Engine
from readback.engine.entries.recorder import Recorder
from readback.engine.resume import PlanOf, marks
from readback.engine.run_result import StopAtWait
from readback.engine.saga_run import left_behind
from readback.errors import NotFoundError, ReviewError
from readback.ports.storage.store import Appended, KeyConflict, KeyRecord

LEASE_US: Final = 5_000_000
LOOK_AGAIN_US: Final = 500_000
LOOKS_MAX: Final = 240
"""How often to retry while a worker holds the action: after two minutes the decision is refused with an error."""

Steps = Effects[None]


@dataclass(frozen=True, slots=True)
class Order:
    """A person's decision. `expect_version`: the version of the action seen by the person. `signed`: the checked,
    signed statement; None without a signature.
    """

    action_id: str
    decision: Decision
    expect_version: int
    who: str
    reason: str
    signed: SignedStatement | None = None

    @property
    def signed_by(self) -> str:
        """The owner of the signing key; "" without a signature."""
        return self.signed.signer if self.signed is not None else ""


def resolve(engine: Engine, order: Order, tenant: str, plans: PlanOf) -> Steps:
    """Record the decision, and continue the action without waiting.

    Raises ReviewError, with nothing changed: review.stale if the action is at another version, review.resolved if
    nothing is left to decide, review.not-offered if the decision is not permitted, review.signature if a required
    signature is missing, review.self if the action's own principal decides, review.key-taken if another action holds
    the key.
    """
    action = yield from _of_version(order, tenant)
    yield from _check(action, order, plans)
    lease = yield from leased(action.id, order.expect_version)
    reserve, replaces = None, ""
    if order.decision is Decision.REOPEN:
        reserve, replaces = yield from _reserved(action, lease.now_us)
    said = claim.of_attestation(action, order.decision)
    entries = Recorder(action, action.version)
    path, data = path_of(order.decision, action.state), _data(action, order, lease)
    entries.add(EventKind.RESOLVED, lease.now_us, path, data, order.signed)
    yield from claim.enter_claims(entries, said, lease.now_us, ClaimStatement(order.who, order.reason, order.signed))
    assert lease.fence is not None
    committed = yield from Commit(entries.append(lease.fence, reserve=reserve, replaces=replaces))
    match committed.result:
        case Appended():
            pass
        case KeyConflict(record):
            raise _key_taken(record.action_id)
        case _:
            raise stale(order, action.version)
    if order.decision in ACTS and plans(action.contract) is not None:
        # Durable and due: after a crash the resuming worker continues.
        yield from StopAtWait(coordinator.resume(engine, order.action_id, tenant, plans), may_wait=False)
    if action.context.get("saga"):
        yield from MakeDue(str(action.context["saga"]))  # look soon; without this the look comes later


def lift(action_id: str, subject: str, order: Order, tenant: str) -> Steps:
    """End the freezes of one action. Ignores `order.decision` and `expect_version`."""
    while True:
        action = yield from coordinator.find(action_id, tenant)
        if subject not in action.frozen:
            raise NotFoundError(f"Action {action_id} does not freeze {subject!r} (any more).")
        check_person(replace(order, action_id=action_id), action.principal, critical=needs_signature(action))
        lease = yield from leased(action.id, 0)
        if lease.version != action.version:
            continue
        yield from _check_freeze(action, subject, order)
        entries = Recorder(action, action.version)
        data: dict[str, Json] = {"lift": [subject], "who": order.who, "reason": order.reason}
        if places := lifted_with(subject, action.frozen):
            data["lift_places"] = [*places]
        entries.add(EventKind.LIFTED, lease.now_us, (), {**data, "signed_by": order.signed_by}, order.signed)
        assert lease.fence is not None
        committed = yield from Commit(entries.append(lease.fence))
        if isinstance(committed.result, Appended):
            return


def _check_freeze(action: Action, subject: str, order: Order) -> Steps:
    """A signed order lifts the freeze seen by the person, and no later freeze of the same action."""
    if order.signed is None:
        return
    found = yield from LoadFreeze(action.tenant, (subject,), action.id)
    froze = (action.id, found.since_us if found is not None else 0)
    if not lifts(order.signed.statement, action.tenant, subject, froze, order.who, order.reason):
        raise ReviewError(
            f"Action {action.id} froze {subject!r} again after the lift was signed.",
            remedy="Read the freeze again and sign its current state.",
            code="review.stale",
        )


# --- is the decision permitted? ---


def _of_version(order: Order, tenant: str) -> Effects[Action]:
    action = yield from coordinator.find(order.action_id, tenant)
    # An action attested as not done may still be reopened. Any other decision is final.
    again = order.decision is Decision.REOPEN and action.attested is Resolution.ATTESTED_NOT_DONE
    if not action.review and not again:
        raise undecided(order)
    if action.version != order.expect_version:
        raise stale(order, action.version)
    return action


def _check(action: Action, order: Order, plans: PlanOf) -> Steps:
    check_person(order, action.principal, critical=needs_signature(action))
    plan = plans(action.contract)
    loaded = None if plan is None else plan.contract.hash == action.contract_hash
    contract = yield from _load(action, action.contract_ref)
    request = yield from _load(action, action.request_ref)
    refuse(order, standing_of(action, contract, request, loaded=loaded))
    if order.decision is Decision.REOPEN and (yield from left_behind(action)):
        raise ReviewError(
            f"reopen is not possible for action {action.id}: its saga has turned back, or has ended, without it.",
            code="review.not-offered",
            details={"action": action.id, "decision": order.decision.value},
        )


def refuse(order: Order, standing: ReviewFacts) -> None:
    """Raise ReviewError if the decision is not permitted."""
    found = choice(order.decision, standing)
    if found.why_not:
        raise ReviewError(
            f"{order.decision.value} is not possible for action {order.action_id}: {found.why_not}",
            code="review.not-offered",
            details={"action": order.action_id, "decision": order.decision.value},
        )


def check_person(order: Order, principal: str, *, critical: bool) -> None:
    """No person decides about their own action. A critical mutation also needs an approver's key."""
    if is_principal(order.who, principal):
        raise ReviewError(
            f"{order.who!r} ran action {order.action_id}; another person must decide about it.", code="review.self"
        )
    if critical and not order.signed_by:
        raise ReviewError(
            f"Action {order.action_id} is a critical mutation: an approver's key must sign the decision.",
            remedy="Sign it with the key of an approver whom the operator's settings list.",
            code="review.signature",
        )


def needs_signature(action: Action) -> bool:
    """Whether a decision about the action requires an approver's signature."""
    return action.side_effect == SideEffect.CRITICAL_MUTATION


def standing_of(
    action: Action, contract: Mapping[str, Json], request: Mapping[str, Json], *, loaded: bool | None = None
) -> ReviewFacts:
    """The fields of an action relevant to the permitted decisions, from its record alone."""
    requested = request.get("requested")
    return ReviewFacts(
        state=action.state,
        review=action.review,
        hold=action.hold,
        executed=action.attempts > 0,
        effect_shown=action.judgement.effect_shown,
        misplaced=action.judgement.discrepancy == Discrepancy.WRONG_TARGET_MODIFIED,
        reversible=bool(contract.get("compensate")),
        readable=bool(contract.get("readers")),
        blind=requested is None or any(True for _ in marks(requested, "requested")),
        resolution=action.attested,  # unless contradicted by a later reading
        loaded=loaded,
        admitted=bool(action.contract_ref),
    )


def leased(action_id: str, version: int) -> Effects[Leased]:
    """Acquire the lease, waiting for a current holder. Raises ReviewError if the action is at another version."""
    for _ in range(LOOKS_MAX):
        begun = yield from GetClock()
        lease = yield from Lease(action_id, begun.now_us + LEASE_US, version)
        if lease.fence is not None:
            return lease
        if version and lease.version != version:
            raise ReviewError(
                f"Action {action_id} was moved on meanwhile: it is at version {lease.version} now.",
                remedy="Read it again and decide about its current version.",
                code="review.stale",
            )
        yield from Wait(action_id, begun.now_us + LOOK_AGAIN_US)
    raise ReviewError(f"Action {action_id} stays leased by a worker; try again.", code="review.stale")


# --- recording ---


def _data(action: Action, order: Order, lease: Leased) -> dict[str, Json]:
    decision = order.decision
    contests = decision is Decision.ATTEST_NOT_DONE and action.state is State.RECONCILED_SUCCESS
    kept = action.resolution if decision is Decision.REOPEN else RESOLUTION_OF[decision].value
    due: Json = lease.now_us if decision in ACTS else action.due_us
    return {
        "decision": decision.value,
        "resolution": "" if contests else kept,
        "contests": contests,
        "who": order.who,
        "reason": order.reason,
        "signed_by": order.signed_by,
        "was": action.review,
        "due": None if decision is Decision.ABANDON else due,
        "reserved": decision is Decision.REOPEN,
        "closes": list(action.incidents),
    }


def _reserved(action: Action, now_us: int) -> Effects[tuple[KeyRecord, str]]:
    """The key must be reserved again before any execution. Returns the reservation, and the record to replace."""
    found = yield from LoadKey(action.tenant, action.key_hash)
    replaces, record = "", found
    if record is not None and record.action_id != action.id:
        status = aged(KeyStatus(record.status), record.expires_us, now_us)
        same = record.request_hash == action.request_hash
        if on_key(status, same_request=same) is not KeyDecision.EXECUTE:
            raise _key_taken(record.action_id)
        replaces = record.action_id
    mine = KeyRecord(action.tenant, action.key_hash, action.request_hash, action.id, "PENDING", action.created_us, 0)
    return mine, replaces


def undecided(order: Order) -> ReviewError:
    """The error for an action without a pending decision."""
    return ReviewError(f"There is nothing to decide about action {order.action_id} (any more).", code="review.resolved")


def stale(order: Order, version: int) -> ReviewError:
    """The error for an action changed since the person's look."""
    return ReviewError(
        f"Action {order.action_id} is at version {version}, and version {order.expect_version} was decided about.",
        remedy="Read it again and decide about its current version.",
        code="review.stale",
        details={"version": version},
    )


def _key_taken(holder: str) -> ReviewError:
    return ReviewError(
        f"Action {holder} holds the same operation now; this action can no longer be executed.",
        remedy=f"Look at {holder} and abandon this action.",
        code="review.key-taken",
        details={"action": holder},
    )


def _load(action: Action, digest: str) -> Effects[dict[str, Json]]:
    loaded = yield from Load(action.tenant, action.id, digest)
    body = None if loaded is None else parse_json(loaded)
    return body if isinstance(body, dict) else {}
