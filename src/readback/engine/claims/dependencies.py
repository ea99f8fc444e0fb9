"""Relying: whether what an action was planned upon stands, before it acts and whenever its outcome is told.

Called by validate and the engine before anything is executed, and by report. It reads the ledger alone and changes
nothing: what fell is found by going up from claim to claim, so that a retraction writes nothing on whoever relied.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.action.claim import ClaimStatus, parse_claim_id, status_of
from readback.domain.errors.claim import NOT_STANDING, MalformedClaimError
from readback.engine.effects import Effect, EffectResult, Folded, LoadAction

LOOKED_AT_MAX: Final = 256
"""So many claims are looked at, the nearest first; beyond them nothing is said."""
NAMED_MAX: Final = 8

STANDS: Final = frozenset({ClaimStatus.STANDING, ClaimStatus.REINSTATED})


def claims_relied_on(action: Action) -> tuple[str, ...]:
    """The claims that the action was planned upon."""
    return upon_in(action.context)


def upon_in(context: Mapping[str, Json]) -> tuple[str, ...]:
    """The same, of the context that a proposal's entry holds."""
    named = context.get("upon")
    return tuple(str(each) for each in named) if isinstance(named, list) else ()


def invalid_claims(tenant: str, claims: tuple[str, ...]) -> Generator[Effect, EffectResult, tuple[str, ...]]:
    """Which of these claims do not stand, and which of those that they in turn were planned upon; the nearest first."""
    waiting, seen, found = list(claims), set(claims), list[str]()
    looked = 0
    while waiting and looked < LOOKED_AT_MAX:
        claim, looked = waiting.pop(0), looked + 1
        try:
            action_id, kind = parse_claim_id(claim)
        except MalformedClaimError:
            found.append(claim)
            continue
        folded = yield LoadAction(action_id)
        assert isinstance(folded, Folded)
        action = folded.action
        if action is None or action.tenant != tenant:
            found.append(claim)
            continue
        if status_of(action.claims, kind, made=action.claimed_us > 0) not in STANDS:
            found.append(claim)
        fresh = [each for each in claims_relied_on(action) if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return tuple(found)


def reason_blocked(action: Action) -> Generator[Effect, EffectResult, str]:
    """Why it may not be executed, in a sentence, as far as that depends on claims; "" where nothing is against it."""
    claims = claims_relied_on(action)
    if not claims:
        return ""
    found = yield from invalid_claims(action.tenant, claims)
    if not found:
        return ""
    named = ", ".join(found[:NAMED_MAX]) + (f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else "")
    return f"What it was planned upon does not stand ({named}), so nothing was executed: plan again."


__all__ = ["NOT_STANDING", "claims_relied_on", "invalid_claims", "reason_blocked", "upon_in"]
