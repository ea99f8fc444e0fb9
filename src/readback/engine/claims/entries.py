"""Claims: what a judgement, a reversal or a person says of them becomes entries of the same append.

Called by the engine after each judgement, by watch, by review and by reversed. It decides nothing about the action: a
claim follows from what was reconciled. On the way of an action that verifies at the first reading there is nothing to
do here, since a recorded success is what makes its claims.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.action.claim import (
    DEPENDANTS_NAMED_MAX,
    DEPENDANTS_SEEN_MAX,
    EVENT_OF,
    FALLEN,
    NOBODY,
    Change,
    ClaimKind,
    ClaimStatus,
    Reason,
    Word,
    claim_id,
    data_of,
    may_follow,
    own_status,
    parse_claim_id,
    said_of,
    status_of,
)
from readback.domain.idempotency import Resolution
from readback.domain.kind import Kind
from readback.domain.people.review import Decision
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.effects import DependantsFound, Effect, EffectResult, Folded, LoadAction, LoadDependants
from readback.engine.entries.recorder import Recorder
from readback.engine.run import Run
from readback.errors import NOT_STANDING, MalformedClaimError

# Relying: whether what an action was planned upon stands, before it acts and whenever its outcome is told.

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


Steps = Generator[Effect, EffectResult, None]
_K, _C, _S = ClaimKind, ClaimStatus, State

SAYS_DONE: Final = frozenset(
    {ObservationStatus.SUCCESS, ObservationStatus.ACCEPTED, ObservationStatus.PENDING, ObservationStatus.PARTIAL}
)
"""Answers by which the tool itself says that it did it, or took it: what is not verified of that is contested."""
OPEN: Final = frozenset({_S.UNKNOWN, _S.REVIEW_REQUIRED, _S.COMPENSATING})
ENDED_WITHOUT: Final = frozenset(
    {_S.FAILED, _S.ROLLED_BACK, _S.RECONCILIATION_FAILED, _S.PARTIALLY_COMMITTED, _S.VALIDATED}
)
"""Where a judgement leaves an action that was not done as intended; VALIDATED: it is attempted once more."""
TELLING: Final = OPEN | ENDED_WITHOUT
"""States that say something of a claim that nobody verified."""
_LOOKED: Final = frozenset({Why.NONE, Why.PROPAGATING})
"""Why it is open where the system of record was read, and does not show it."""


def after_judgement(run: Run, result: Reconciliation, path: tuple[State, ...], *, news: bool, now_us: int) -> Steps:
    """What the judgement that was recorded just now says of the action's claims.

    `path`: the states that it walked through. `news`: it contradicts what somebody was told.
    """
    yield from record_claims(run, changes_of(run.action, result, path, news=news), now_us)


def changes_of(
    action: Action, result: Reconciliation, path: tuple[State, ...], *, news: bool = False
) -> tuple[Change, ...]:
    """What a judgement says of the claims of an action that has taken it."""
    own = own_status(action.claims, _K.HAPPENED, made=action.claimed_us > 0)
    if action.state is _S.RECONCILED_SUCCESS:
        again = path and own is _C.CONTESTED and _may_stand_again(action)
        return (Change(_K.HAPPENED, _C.REINSTATED, Reason.VERIFIED),) if again else ()
    if news:
        attested = action.attested is Resolution.ATTESTED_DONE
        return (Change(_K.HAPPENED, _C.CONTESTED, Reason.DENIED if attested else Reason.LATE_EFFECT),)
    if result.verdict is Verdict.VERIFIED or not says_done(action) or action.state not in TELLING:
        return ()
    if not path and own is not _C.CONTESTED:
        return ()
    refuted = result.verdict is Verdict.REFUTED
    if action.state in ENDED_WITHOUT or (refuted and _is_final(action)):
        return (Change(_K.HAPPENED, _C.RETRACTED, Reason.REFUTED),)
    reason = Reason.UNVERIFIED if refuted or result.why in _LOOKED else Reason.UNDETERMINED
    return (Change(_K.HAPPENED, _C.CONTESTED, reason),) if path else ()


def _may_stand_again(action: Action) -> bool:
    """A reading alone may reinstate what was contested: not what a person contested, and not what was reversed."""
    said = said_of(action.claims, _K.HAPPENED)
    return not action.compensation_id and (said is None or said.reason is not Reason.PERSON)


def _is_final(action: Action) -> bool:
    """Nothing can change what refutes it: an effect is there, and is wrong, or there is none, and none can follow."""
    return action.state is not _S.UNKNOWN and (action.judgement.effect_shown or action.judgement.dead)


def says_done(action: Action) -> bool:
    """By the tool's own word it did something, or took it."""
    seen = action.observation
    if seen is None or action.kind == Kind.READ or not seen["dispatched"]:
        return False
    return seen["status"] in SAYS_DONE


def after_reversal(run: Run, now_us: int) -> Steps:
    """What was verified and is taken back holds no more; that it happened stands."""
    if run.action.state is _S.COMPENSATED and run.action.claimed_us:
        yield from record_claims(run, (REVERSED,), now_us)


REVERSED: Final = Change(_K.HOLDS, _C.RETRACTED, Reason.REVERSED)


def of_attestation(action: Action, decision: Decision) -> tuple[Change, ...]:
    """What a decision in review says of the claims of an action as it was before it."""
    happened = own_status(action.claims, _K.HAPPENED, made=action.claimed_us > 0)
    success = action.state is _S.RECONCILED_SUCCESS
    match decision:
        case Decision.ATTEST_NOT_DONE if success or happened is _C.CONTESTED:
            return (Change(_K.HAPPENED, _C.RETRACTED, Reason.PERSON),)
        case Decision.ATTEST_DONE if success:
            said = [each for each in action.claims if each.status in FALLEN and each.reason is not Reason.REVERSED]
            return tuple(Change(each.kind, _C.REINSTATED, Reason.PERSON) for each in said)
        case _:
            return ()


# --- recording ---


def record_claims(run: Run, changes: Iterable[Change], now_us: int) -> Steps:
    """Records each change with the next append; contested first, where it is to be retracted.

    What was said already with the same reason is not said again.
    """
    for change in changes:
        for each in stages(run.action, change):
            named, more = yield from dependants(run.action, each.kind)
            run.record(EVENT_OF[each.status], now_us, (), data_of(each, named, more))


def enter_claims(entries: Recorder, changes: Iterable[Change], now_us: int, word: Word = NOBODY) -> Steps:
    """The same without a contract at hand: for what a person says, and for a saga's reversal."""
    for change in changes:
        for each in stages(entries.action, change):
            named, more = yield from dependants(entries.action, each.kind)
            entries.add(EVENT_OF[each.status], now_us, (), data_of(each, named, more, word), word.signed)


def stages(action: Action, change: Change) -> tuple[Change, ...]:
    """The change as it is recorded: contested before retracted; none where it was said, or cannot follow.

    What fell already falls anew where it is taken back: from then on nobody's word and no look can let it stand again.
    """
    before = own_status(action.claims, change.kind, made=action.claimed_us > 0)
    said = said_of(action.claims, change.kind)
    if change.status is _C.RETRACTED and before is not _C.CONTESTED:
        if before is _C.RETRACTED and (change.reason is not Reason.REVERSED or is_reversed(action)):
            return ()
        return (Change(change.kind, _C.CONTESTED, change.reason), change)
    if change.status is before and said is not None and said.reason is change.reason:
        return ()
    return (change,) if may_follow(before, change.status) else ()


def is_reversed(action: Action) -> bool:
    """What was said last of what it left is that it was taken back."""
    said = said_of(action.claims, _K.HOLDS)
    return said is not None and said.reason is Reason.REVERSED


def dependants(action: Action, kind: ClaimKind) -> Generator[Effect, EffectResult, tuple[tuple[str, ...], int]]:
    """The actions that were planned upon the claim, and upon those, and so on: some by id, of the others how many.

    Nothing is asked where nothing was ever verified: nobody can have been planned upon it.
    """
    if not action.claimed_us:
        return (), 0
    waiting = [claim_id(action.id, each) for each in (_K.HOLDS, _K.HAPPENED) if each in (kind, _K.HOLDS)]
    seen: dict[str, None] = {}
    while waiting and len(seen) < DEPENDANTS_SEEN_MAX:
        found = yield LoadDependants(action.tenant, waiting.pop(0), DEPENDANTS_SEEN_MAX)
        assert isinstance(found, DependantsFound)
        for each in found.action_ids:
            if each not in seen and each != action.id and len(seen) < DEPENDANTS_SEEN_MAX:
                seen[each] = None
                waiting += [claim_id(each, one) for one in ClaimKind]
    named = tuple(seen)[:DEPENDANTS_NAMED_MAX]
    return named, len(seen) - len(named)
