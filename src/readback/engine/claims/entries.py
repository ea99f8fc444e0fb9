"""Claims: the consequences of a judgement, a reversal or a person's statement become entries of the same append.

Called by the engine after each judgement, by watch, by review and by the saga's reversals. Decides nothing about the
action: a claim follows from the reconciliation. An action verified at the first reading needs no work here, since its
recorded success makes its claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.action.claim import (
    DEPENDANTS_NAMED_MAX,
    DEPENDANTS_SEEN_MAX,
    EVENT_OF,
    FALLEN,
    NO_PERSON,
    ClaimChange,
    ClaimKind,
    ClaimStatement,
    ClaimStatus,
    Reason,
    claim_id,
    data_of,
    last_event_of,
    may_follow,
    own_status,
    parse_claim_id,
    status_of,
)
from readback.domain.idempotency import Resolution
from readback.domain.kind import Kind
from readback.domain.people.review import Decision
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.effects import Effects, LoadAction, LoadDependants
from readback.engine.entries.recorder import Recorder
from readback.engine.run import Run
from readback.errors import NOT_STANDING, MalformedClaimError

# Dependencies: whether the claims behind an action are valid, before the action and for every report.

LOOKED_AT_MAX: Final = 256
"""The number of claims checked, nearest first. Claims beyond are not checked."""
NAMED_MAX: Final = 8

STANDS: Final = frozenset({ClaimStatus.STANDING, ClaimStatus.REINSTATED})


def claims_relied_on(action: Action) -> tuple[str, ...]:
    """The claims behind the action."""
    return upon_in(action.context)


def upon_in(context: Mapping[str, Json]) -> tuple[str, ...]:
    """The same, from the context in a proposal's entry."""
    named = context.get("upon")
    return tuple(str(each) for each in named) if isinstance(named, list) else ()


def invalid_claims(tenant: str, claims: tuple[str, ...]) -> Effects[tuple[str, ...]]:
    """The invalid claims among these and among the claims behind them, nearest first."""
    waiting, seen, found = list(claims), set(claims), list[str]()
    looked = 0
    while waiting and looked < LOOKED_AT_MAX:
        claim, looked = waiting.pop(0), looked + 1
        try:
            action_id, kind = parse_claim_id(claim)
        except MalformedClaimError:
            found.append(claim)
            continue
        folded = yield from LoadAction(action_id)
        action = folded
        if action is None or action.tenant != tenant:
            found.append(claim)
            continue
        if status_of(action.claims, kind, made=action.claimed_us > 0) not in STANDS:
            found.append(claim)
        fresh = [each for each in claims_relied_on(action) if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return tuple(found)


def reason_blocked(action: Action) -> Effects[str]:
    """Why claims bar the execution, in a sentence; "" if they do not."""
    claims = claims_relied_on(action)
    if not claims:
        return ""
    found = yield from invalid_claims(action.tenant, claims)
    if not found:
        return ""
    named = ", ".join(found[:NAMED_MAX]) + (f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else "")
    return f"What it was planned upon does not stand ({named}), so nothing was executed: plan again."


__all__ = ["NOT_STANDING", "claims_relied_on", "invalid_claims", "reason_blocked", "upon_in"]


Steps = Effects[None]
_K, _C, _S = ClaimKind, ClaimStatus, State

SAYS_DONE: Final = frozenset(
    {ObservationStatus.SUCCESS, ObservationStatus.ACCEPTED, ObservationStatus.PENDING, ObservationStatus.PARTIAL}
)
"""Answers by which the tool claims completion or acceptance. An unverified claim of this kind is contested."""
OPEN: Final = frozenset({_S.UNKNOWN, _S.REVIEW_REQUIRED, _S.COMPENSATING})
ENDED_WITHOUT: Final = frozenset(
    {_S.FAILED, _S.ROLLED_BACK, _S.RECONCILIATION_FAILED, _S.PARTIALLY_COMMITTED, _S.VALIDATED}
)
"""States after a judgement without the intended effect. VALIDATED means another attempt follows."""
TELLING: Final = OPEN | ENDED_WITHOUT
"""States relevant to a claim without verification."""
_LOOKED: Final = frozenset({Why.NONE, Why.PROPAGATING})
"""Reasons of an open result after a reading of the system of record without the effect."""


def after_judgement(run: Run, result: Reconciliation, path: tuple[State, ...], *, news: bool, now_us: int) -> Steps:
    """Record the consequences of the latest judgement for the action's claims.

    `path`: the states passed through. `news`: the judgement contradicts an earlier report.
    """
    yield from record_claims(run, changes_of(run.action, result, path, news=news), now_us)


def changes_of(
    action: Action, result: Reconciliation, path: tuple[State, ...], *, news: bool = False
) -> tuple[ClaimChange, ...]:
    """The consequences of an applied judgement for the action's claims."""
    own = own_status(action.claims, _K.HAPPENED, made=action.claimed_us > 0)
    if action.state is _S.RECONCILED_SUCCESS:
        again = path and own is _C.CONTESTED and _may_stand_again(action)
        return (ClaimChange(_K.HAPPENED, _C.REINSTATED, Reason.VERIFIED),) if again else ()
    if news:
        attested = action.attested is Resolution.ATTESTED_DONE
        return (ClaimChange(_K.HAPPENED, _C.CONTESTED, Reason.DENIED if attested else Reason.LATE_EFFECT),)
    if result.verdict is Verdict.VERIFIED or not says_done(action) or action.state not in TELLING:
        return ()
    if not path and own is not _C.CONTESTED:
        return ()
    refuted = result.verdict is Verdict.REFUTED
    if action.state in ENDED_WITHOUT or (refuted and _is_final(action)):
        return (ClaimChange(_K.HAPPENED, _C.RETRACTED, Reason.REFUTED),)
    reason = Reason.UNVERIFIED if refuted or result.why in _LOOKED else Reason.UNDETERMINED
    return (ClaimChange(_K.HAPPENED, _C.CONTESTED, reason),) if path else ()


def _may_stand_again(action: Action) -> bool:
    """A reading may reinstate a contested claim, except after a person's contest or a reversal."""
    said = last_event_of(action.claims, _K.HAPPENED)
    return not action.compensation_id and (said is None or said.reason is not Reason.PERSON)


def _is_final(action: Action) -> bool:
    """The refutation is final: a wrong effect exists, or no effect exists and none can follow."""
    return action.state is not _S.UNKNOWN and (action.judgement.effect_shown or action.judgement.dead)


def says_done(action: Action) -> bool:
    """The tool claims to have done the work, or to have accepted the request."""
    seen = action.observation
    if seen is None or action.kind == Kind.READ or not seen["dispatched"]:
        return False
    return seen["status"] in SAYS_DONE


def after_reversal(run: Run, now_us: int) -> Steps:
    """A verified and reversed effect no longer holds; the claim of having happened stands."""
    if run.action.state is _S.COMPENSATED and run.action.claimed_us:
        yield from record_claims(run, (REVERSED,), now_us)


REVERSED: Final = ClaimChange(_K.HOLDS, _C.RETRACTED, Reason.REVERSED)


def of_attestation(action: Action, decision: Decision) -> tuple[ClaimChange, ...]:
    """The consequences of a review decision for the claims, by the action's state before the decision."""
    happened = own_status(action.claims, _K.HAPPENED, made=action.claimed_us > 0)
    success = action.state is _S.RECONCILED_SUCCESS
    match decision:
        case Decision.ATTEST_NOT_DONE if success or happened is _C.CONTESTED:
            return (ClaimChange(_K.HAPPENED, _C.RETRACTED, Reason.PERSON),)
        case Decision.ATTEST_DONE if success:
            said = [each for each in action.claims if each.status in FALLEN and each.reason is not Reason.REVERSED]
            return tuple(ClaimChange(each.kind, _C.REINSTATED, Reason.PERSON) for each in said)
        case _:
            return ()


# --- recording ---


def record_claims(run: Run, changes: Iterable[ClaimChange], now_us: int) -> Steps:
    """Record each change with the next append; a retraction contests the claim first.

    A change already recorded with the same reason is skipped.
    """
    for change in changes:
        for each in stages(run.action, change):
            named, more = yield from dependants(run.action, each.kind)
            run.record(EVENT_OF[each.status], now_us, (), data_of(each, named, more))


def enter_claims(
    entries: Recorder, changes: Iterable[ClaimChange], now_us: int, word: ClaimStatement = NO_PERSON
) -> Steps:
    """The same without a loaded contract: for a person's statement, and for a saga's reversal."""
    for change in changes:
        for each in stages(entries.action, change):
            named, more = yield from dependants(entries.action, each.kind)
            entries.add(EVENT_OF[each.status], now_us, (), data_of(each, named, more, word), word.signed)


def stages(action: Action, change: ClaimChange) -> tuple[ClaimChange, ...]:
    """The change as recorded: contested before retracted; empty if already recorded or not permitted.

    A retracted claim is retracted anew by a reversal: from then on no statement and no reading can reinstate the claim.
    """
    before = own_status(action.claims, change.kind, made=action.claimed_us > 0)
    said = last_event_of(action.claims, change.kind)
    if change.status is _C.RETRACTED and before is not _C.CONTESTED:
        if before is _C.RETRACTED and (change.reason is not Reason.REVERSED or is_reversed(action)):
            return ()
        return (ClaimChange(change.kind, _C.CONTESTED, change.reason), change)
    if change.status is before and said is not None and said.reason is change.reason:
        return ()
    return (change,) if may_follow(before, change.status) else ()


def is_reversed(action: Action) -> bool:
    """The last statement about "holds" is its reversal."""
    said = last_event_of(action.claims, _K.HOLDS)
    return said is not None and said.reason is Reason.REVERSED


def dependants(action: Action, kind: ClaimKind) -> Effects[tuple[tuple[str, ...], int]]:
    """The actions depending on the claim, directly or indirectly: some by id, and the number of the others.

    Without a verified claim the store is not asked: no action can depend on the claim.
    """
    if not action.claimed_us:
        return (), 0
    waiting = [claim_id(action.id, each) for each in (_K.HOLDS, _K.HAPPENED) if each in (kind, _K.HOLDS)]
    seen: dict[str, None] = {}
    while waiting and len(seen) < DEPENDANTS_SEEN_MAX:
        found = yield from LoadDependants(action.tenant, waiting.pop(0), DEPENDANTS_SEEN_MAX)
        for each in found:
            if each not in seen and each != action.id and len(seen) < DEPENDANTS_SEEN_MAX:
                seen[each] = None
                waiting += [claim_id(each, one) for one in ClaimKind]
    named = tuple(seen)[:DEPENDANTS_NAMED_MAX]
    return named, len(seen) - len(named)
