"""A person's word about a claim: retracted or reinstated by name and with a reason, and signed where that is asked for.

Called by the clients and the command line. It makes no action
verified: what never was can be attested in review, and is not reinstated here.
"""

from __future__ import annotations

from collections.abc import Generator

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.claim import (
    FALLEN,
    Change,
    ClaimKind,
    ClaimStatus,
    Reason,
    Word,
    claim_id,
    own_status,
    said_of,
)
from readback.domain.contract.approval import is_principal
from readback.domain.errors.claim import ClaimError
from readback.domain.side_effect import SideEffect
from readback.engine import coordinator
from readback.engine.claims.entries import enter_claims
from readback.engine.effects import Commit, Committed, Effect, EffectResult
from readback.engine.entries.recorder import Recorder
from readback.engine.people.review import leased
from readback.ports.storage.store import Appended

Steps = Generator[Effect, EffectResult, None]
_K, _C = ClaimKind, ClaimStatus


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """What a person says of a claim: RETRACTED or REINSTATED. `expect_version`: the version of the action that he
    looked at, 0 for whichever it is at.
    """

    action_id: str
    kind: ClaimKind
    status: ClaimStatus
    word: Word
    expect_version: int = 0

    @property
    def claim(self) -> str:
        return claim_id(self.action_id, self.kind)


def decide(order: ClaimOrder, tenant: str) -> Steps:
    """Records what a person says of a claim.

    Raises ClaimError, and then nothing was changed: claim.not-offered where it cannot be said of how it stands,
    claim.self where its own principal says it, claim.signature where it has to be signed and is not, claim.stale where
    the action is at another version; NotFoundError.
    """
    while True:
        action = yield from coordinator.find(order.action_id, tenant)
        check(action, order)
        lease = yield from leased(action.id, 0)
        if lease.version != action.version:
            continue
        entries = Recorder(action, action.version)
        yield from enter_claims(entries, (Change(order.kind, order.status, Reason.PERSON),), lease.now_us, order.word)
        assert lease.fence is not None
        committed = yield Commit(entries.append(lease.fence))
        assert isinstance(committed, Committed)
        if isinstance(committed.result, Appended):
            return


def check(action: Action, order: ClaimOrder) -> None:
    """Raises ClaimError where this cannot be said of the claim as it stands, or not by this person."""
    if order.expect_version and action.version != order.expect_version:
        raise ClaimError(
            f"Action {action.id} is at version {action.version}, and version {order.expect_version} was decided about.",
            remedy="Look at the claim again, and decide about what it is now.",
            code="claim.stale",
        )
    if is_principal(order.word.who, action.principal):
        raise ClaimError(
            f"{order.word.who!r} ran action {action.id}; somebody else has to decide about its claims.",
            code="claim.self",
        )
    if action.side_effect == SideEffect.CRITICAL_MUTATION and not order.word.signed_by:
        raise unsigned(f"Action {action.id} is a critical mutation: what is said of its claims has to be signed.")
    why_not = _why_not(action, order)
    if why_not:
        raise ClaimError(f"{order.claim} cannot be {order.status.value}: {why_not}", code="claim.not-offered")


def unsigned(why: str) -> ClaimError:
    """It is not signed by somebody whose word counts here."""
    return ClaimError(
        why,
        remedy="Sign it with the key of an approver whom the operator's settings list for this tenant and contract.",
        code="claim.signature",
    )


def _why_not(action: Action, order: ClaimOrder) -> str:
    own = own_status(action.claims, order.kind, made=action.claimed_us > 0)
    said = said_of(action.claims, order.kind)
    if own is _C.NONE:
        return "nothing is claimed, for it was never verified, nor said to be done by the tool."
    if order.status is _C.RETRACTED:
        return "it is retracted already." if own is _C.RETRACTED else ""
    if own not in FALLEN:
        return "it is not contested, and stands or falls with the other claim of the action."
    if not action.claimed_us:
        return "it was never verified. What a person knows of it is attested in review."
    if said is not None and said.reason is Reason.REVERSED:
        return "it was taken back, and that was verified."
    return ""
