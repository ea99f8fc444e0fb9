"""What the ledger says of one action: the facts that its entries have made.

Each kind of entry changes them in `domain.fold`; nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from readback.canon import Json
from readback.domain import state as states
from readback.domain.action import claim as claims
from readback.domain.action.approval_record import Asked
from readback.domain.action.key_release import KeyRelease
from readback.domain.contract import watch as watching
from readback.domain.contract.approval import NEVER_AGAIN
from readback.domain.idempotency import KEY_KEPT_US, Resolution
from readback.domain.state import State

# A judgement as an entry tells it: the part of an action's fold that says what was found and decided last.


@dataclass(slots=True)  # the standard one: each entry sets fields of it, which costs more in a native one
class Judgement:
    """The last judgement, as recorded. Empty words where there was none."""

    verdict: str = "not_checked"
    why: str = ""
    finding: str = ""
    discrepancy: str = ""
    attribution: str = "unknown"
    row: str = ""
    table: str = ""
    recovery: str = ""
    level: int = 1
    effect_shown: bool = False
    dead: bool = False
    done: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    detail: str = ""
    ref: str = ""


_FAILED, _ROLLED_BACK, _UNKNOWN = State.FAILED, State.ROLLED_BACK, State.UNKNOWN
_NOTHING_ATTESTED = Resolution.NONE
_ATTESTABLE = frozenset({State.REVIEW_REQUIRED, State.UNKNOWN, State.FAILED})


@dataclass(slots=True)  # the standard one: each entry sets fields of it, which costs more in a native one
class ActionState:
    """Everything the ledger says of one action. Times in microseconds; 0 where it has not happened."""

    id: str
    tenant: str
    version: int = 0
    head: str = ""
    state: State = State.PROPOSED
    principal: str = ""
    contract: str = ""
    contract_version: str = ""
    contract_hash: str = ""
    engine: str = ""
    """The expression engine that its contract was read by, and later that of its last judgement; empty for one of the
    time before engines were named.
    """
    kind: str = ""
    side_effect: str = ""
    target: str = ""
    operation: str = ""
    wrapper: str = ""
    """The version of what made the action of a proposal; "" where the record does not say it."""
    key_hash: str = ""
    request_hash: str = ""
    asked_hash: str = ""
    """By what it was asked for by name; see domain.idempotency."""
    key_kept_us: int = KEY_KEPT_US
    stamp: str = ""
    context: dict[str, Json] = field(default_factory=dict)
    request_ref: str = ""
    contract_ref: str = ""
    before: dict[str, Json] | None = None
    before_ref: str = ""
    attempts: int = 0
    place: str = ""
    """Which system its first attempt was for, as a digest; "" where the contract itself says that."""
    first_executed_us: int = 0
    """When its first attempt began: a key is known to the tool from then on."""
    first_ended_us: int = 0
    """When its first attempt ended: the deadline of sending it again counts from then on."""
    left_before: bool = False
    """An attempt before the last one may have reached the tool."""
    release: KeyRelease | None = None
    """Why its key is free, as its end records it; None for an end that was recorded before ends said so."""
    attempt_open: bool = False
    timeout_us: int = 0
    ended_us: int = 0
    observation: dict[str, Json] | None = None
    observation_ref: str = ""
    reading: dict[str, Json] | None = None
    reading_ref: str = ""
    sighted: bool = False
    """A reading since the last judgement bears our stamp."""
    seen: bool = False
    """A reading of an earlier round bore our stamp: whatever is read now, ours was there."""
    lookup: str = ""
    polls: int = 0
    late_polls: int = 0
    held_since_us: int = 0
    looked_us: int = 0
    due_us: int | None = None
    judgement: Judgement = field(default_factory=Judgement)
    compensation_id: str = ""
    rollback_done: bool = False
    commit_open: bool = False
    """A staged transaction was left without an answer to its end: it may still be committed."""
    cancelled: bool = False
    contested: bool = False
    """What was told of it is contradicted, and nobody has decided about that."""
    claims: tuple[claims.ClaimEvent, ...] = ()
    """What was said last of each of its claims; nothing is written for one that merely stands."""
    claimed_us: int = 0
    """When it was verified first, whatever was said later: that is what makes its claims."""
    hold: str = ""
    approval: Asked | None = None
    """The approval that it waits for or stood on; None where none was asked for."""
    gated: bool = False
    """Its last attempt says which approvals it stood on, if only that it needed none."""
    code: str = ""
    review: str = ""
    incident: str = ""
    incidents: tuple[str, ...] = ()
    """Ids of the incidents that its entries opened (or would have, had their cause not been open already)."""
    frozen: tuple[str, ...] = ()
    """Subjects that it has frozen and nobody has lifted."""
    resolution: str = ""
    """What a person attested of it, if anything; see `attested`."""
    decision: str = ""
    """What a person decided and nobody has acted on yet."""
    maker: str = ""
    """The process that made the last attempt; "" where its entry does not say."""
    unproved: bool = False
    """An attempt was taken over from a process whose end nothing proved: it may be paused, and go on with its call."""
    restored: bool = False
    """Attempts that are not on record may have been made under its key, with other stamps; see keeping.restore."""
    reserved: bool = False
    """Its key was taken before it was executed: with its submission, or again."""
    break_glass: str = ""
    watch: watching.Watched | None = None
    """What came of watching it after its success; None where nobody asked for that."""
    erased: tuple[str, ...] = ()
    """Digests of its payloads that were erased, and not recorded again since."""
    erased_us: int = 0
    created_us: int = 0
    updated_us: int = 0
    validated_us: int = 0
    executed_us: int = 0
    verified_us: int = 0
    reconciled_us: int = 0

    @property
    def attested(self) -> Resolution:
        """A person's word, as far as it counts: not after a reading that contradicts it, nor while work goes on."""
        if not self.resolution or self.contested or self.state not in _ATTESTABLE:
            return _NOTHING_ATTESTED
        return Resolution(self.resolution)

    @property
    def claim(self) -> str:
        """The worst that was said of its claims; see domain.claim."""
        return claims.worst(self.claims) if self.claims else ""

    @property
    def drifted(self) -> bool:
        """It was verified, and the last look that could tell shows that it no longer holds."""
        return self.watch is not None and self.watch.drifted

    @property
    def may_repeat(self) -> bool:
        """Whether the operation may be proposed again: it had no effect, and none can follow; or a person says so.

        Never after another actor's change (the plan is stale then), and never while anything is open. The end of an
        attempted action says why its key is free; see domain.key_release.
        """
        if self.resolution and (attested := self.attested) is not _NOTHING_ATTESTED:
            return attested is Resolution.ATTESTED_NOT_DONE
        if self.state not in (_FAILED, _ROLLED_BACK) or self.judgement.effect_shown:
            return False
        if self.code in NEVER_AGAIN:
            return False
        if self.attempts == 0:
            return True
        if self.release is not None:
            return self.release is not KeyRelease.NONE
        return self.judgement.dead and self.judgement.discrepancy != "stale_state"

    @property
    def durable_key_change(self) -> bool:
        """Whether this state settles the idempotency record (or opens it again)."""
        settles = self.state in states.TERMINAL or self.attempts > 1
        return self.version > 0 and (settles or (self.state is _UNKNOWN and bool(self.resolution)))
