"""A person's statement about a claim: retracted or reinstated, by name and with a reason, signed if required.

Called by the clients and the command line. A statement verifies no action: a never verified action can be attested in
review, but not reinstated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.claim import (
    FALLEN,
    Claim,
    ClaimBasis,
    ClaimChange,
    ClaimEvent,
    ClaimKind,
    ClaimStatement,
    ClaimStatus,
    Reason,
    claim_id,
    last_event_of,
    status_of,
)
from readback.domain.contract.approval import is_principal
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine import coordinator
from readback.engine.claims.entries import enter_claims
from readback.engine.effects import Commit, Effects
from readback.engine.entries.recorder import Recorder
from readback.engine.people.review import leased
from readback.engine.resume import fold_opened
from readback.errors import ClaimError
from readback.ports.storage.store import Appended, StoredEvent

# Report of a claim: its status, and the entries behind it by number and leaf hash.

_PARTS: Final = (EventKind.ATTEMPTED, EventKind.OBSERVED, EventKind.READ, EventKind.JUDGED)
"""The grounds of a claim: attempt, tool answer, readings, judgement."""
_LATER: Final = (EventKind.READ, EventKind.JUDGED)
_Placed = tuple[ParsedEnvelope, str]


def claims_of(events: Sequence[StoredEvent]) -> tuple[Claim, ...]:
    """Every claim of the action in these entries, "happened" first; empty without claims."""
    return tuple(each for each in _told(events) if each.made_us or each.said is not None)


def claim_of(events: Sequence[StoredEvent], kind: ClaimKind) -> Claim | None:
    """The claim of this kind, even if not claimed so far; None without entries."""
    return next((each for each in _told(events) if each.kind is kind), None)


def _told(events: Sequence[StoredEvent]) -> tuple[Claim, ...]:
    placed = [(open_envelope(each.envelope), each.leaf.hex()) for each in events]
    action = fold_opened((opened, each.leaf) for (opened, _), each in zip(placed, events, strict=True))
    return () if action is None else tuple(_claim(action, kind, placed) for kind in ClaimKind)


def _claim(action: Action, kind: ClaimKind, placed: Sequence[_Placed]) -> Claim:
    status = status_of(action.claims, kind, made=action.claimed_us > 0)
    said, grounds = last_event_of(action.claims, kind), _grounds(action, kind, placed)
    return Claim(claim_id(action.id, kind), action.id, kind, status, action.claimed_us, said, grounds, action.version)


def _grounds(action: Action, kind: ClaimKind, placed: Sequence[_Placed]) -> tuple[ClaimBasis, ...]:
    """The last entry of each part up to the claim's judgement; for "holds", the latest entries, too."""
    made = _made_at(action, placed)
    chosen = [*_last(placed[:made], _PARTS)]
    if kind is ClaimKind.HOLDS and action.claimed_us:
        chosen += _last(placed[made:], _LATER)
    return tuple(ClaimBasis(opened.version, opened.event.kind.value, leaf) for opened, leaf in chosen)


def _made_at(action: Action, placed: Sequence[_Placed]) -> int:
    """The number of entries up to the verification; all entries if never verified."""
    for place, (opened, _) in enumerate(placed, 1):
        event = opened.event
        if event.kind is EventKind.JUDGED and event.at_us == action.claimed_us:
            if State.RECONCILED_SUCCESS in event.path or event.data.get("verdict") == "verified":
                return place
    return len(placed)


def _last(placed: Sequence[_Placed], kinds: tuple[EventKind, ...]) -> list[_Placed]:
    """The last entry of each kind, in order; of readings, those used for judging."""
    found: dict[EventKind, _Placed] = {}
    for each in placed:
        event = each[0].event
        if event.kind in kinds and not (event.kind is EventKind.READ and event.data.get("role") == "before"):
            found[event.kind] = each
    return sorted(found.values(), key=lambda each: each[0].version)


Steps = Effects[None]
_K, _C = ClaimKind, ClaimStatus


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """A person's statement about a claim: RETRACTED or REINSTATED.

    `expect_version`: the version of the action seen by the person, 0 for any.
    """

    action_id: str
    kind: ClaimKind
    status: ClaimStatus
    word: ClaimStatement
    expect_version: int = 0

    @property
    def claim(self) -> str:
        return claim_id(self.action_id, self.kind)


def decide(order: ClaimOrder, tenant: str) -> Steps:
    """Record a person's statement about a claim.

    Raises ClaimError, with nothing changed: claim.not-offered if the claim's status does not permit the statement,
    claim.self if the action's own principal states it, claim.signature if a required signature is missing, claim.stale
    if the action is at another version. Raises NotFoundError for an unknown action.
    """
    while True:
        action = yield from coordinator.find(order.action_id, tenant)
        check(action, order)
        lease = yield from leased(action.id, 0)
        if lease.version != action.version:
            continue
        entries = Recorder(action, action.version)
        yield from enter_claims(
            entries, (ClaimChange(order.kind, order.status, Reason.PERSON),), lease.now_us, order.word
        )
        assert lease.fence is not None
        committed = yield from Commit(entries.append(lease.fence))
        if isinstance(committed.result, Appended):
            return


def check(action: Action, order: ClaimOrder) -> None:
    """Raise ClaimError if the claim's status, or this person, does not permit the statement."""
    if order.expect_version and action.version != order.expect_version:
        raise ClaimError(
            f"Action {action.id} is at version {action.version}, and version {order.expect_version} was decided about.",
            remedy="Read the claim again and decide about its current version.",
            code="claim.stale",
        )
    if is_principal(order.word.who, action.principal):
        raise ClaimError(
            f"{order.word.who!r} ran action {action.id}; another person must decide about its claims.",
            code="claim.self",
        )
    if action.side_effect == SideEffect.CRITICAL_MUTATION and not order.word.signed_by:
        raise unsigned(f"Action {action.id} is a critical mutation: a statement about its claims must be signed.")
    said = last_event_of(action.claims, order.kind)
    why_not = why_not_stated(order.status, said, made=action.claimed_us > 0)
    if why_not:
        raise ClaimError(f"{order.claim} cannot be {order.status.value}: {why_not}", code="claim.not-offered")


def unsigned(why: str) -> ClaimError:
    """The error for a missing signature of an approver."""
    return ClaimError(
        why,
        remedy="Sign with the key of an approver listed in the operator's settings for this tenant and contract.",
        code="claim.signature",
    )


def why_not_stated(status: ClaimStatus, said: ClaimEvent | None, *, made: bool) -> str:
    """Why a person cannot state this status of a claim; "" where a person can. `said`: the claim's last event."""
    own = said.status if said else _C.STANDING if made else _C.NONE
    if own is _C.NONE:
        return "nothing is claimed: the action was never verified, and the tool never reported success."
    if status is _C.RETRACTED:
        return "it is retracted already." if own is _C.RETRACTED else ""
    if own not in FALLEN:
        return "it is not contested; its status follows the action's other claim."
    if not made:
        return "it was never verified. Attest the result in review instead."
    if said is not None and said.reason is Reason.REVERSED:
        return "its reversal was verified."
    return ""
