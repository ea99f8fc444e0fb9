"""An action's state: the facts recorded by its entries. Only the fold changes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from readback.canon import Json
from readback.domain import state as states
from readback.domain.action import claim as claims
from readback.domain.action.approval_record import RequestedApproval
from readback.domain.action.key_release import KeyRelease
from readback.domain.contract import watch as watching
from readback.domain.contract.approval import NEVER_AGAIN
from readback.domain.idempotency import KEY_KEPT_US, Resolution
from readback.domain.state import State

# The recorded judgement: the part of an action's fold with the last finding and decision.


@dataclass(slots=True)  # the standard decorator: every entry sets fields, at a higher cost in the native form
class Judgement:
    """The last judgement, as recorded. Its words are empty before the first judgement."""

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


@dataclass(slots=True)  # the standard decorator: every entry sets fields, at a higher cost in the native form
class ActionState:
    """All recorded facts of one action. Times are in microseconds; 0 means "not yet"."""

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
    """The expression engine of the contract, later of the last judgement. Empty for entries older than engine names."""
    kind: str = ""
    side_effect: str = ""
    target: str = ""
    operation: str = ""
    wrapper: str = ""
    """The version of the wrapper around the proposal; "" where the record has none."""
    key_hash: str = ""
    request_hash: str = ""
    asked_hash: str = ""
    """Hash of a request made by name; see domain.idempotency."""
    key_kept_us: int = KEY_KEPT_US
    stamp: str = ""
    context: dict[str, Json] = field(default_factory=dict)
    request_ref: str = ""
    contract_ref: str = ""
    before: dict[str, Json] | None = None
    before_ref: str = ""
    attempts: int = 0
    place: str = ""
    """Digest of the first attempt's system; "" where the contract names the system."""
    first_executed_us: int = 0
    """Start of the first attempt. The tool may know the key from then on."""
    first_ended_us: int = 0
    """End of the first attempt. The deadline for a resend counts from then on."""
    left_before: bool = False
    """An attempt before the last one may have reached the tool."""
    release: KeyRelease | None = None
    """Why the key is free, as recorded at the end. None for entries older than this field."""
    attempt_open: bool = False
    timeout_us: int = 0
    ended_us: int = 0
    observation: dict[str, Json] | None = None
    observation_ref: str = ""
    reading: dict[str, Json] | None = None
    reading_ref: str = ""
    sighted: bool = False
    """A reading since the last judgement shows the action's stamp."""
    seen: bool = False
    """A reading of an earlier round showed the action's stamp, so its effect existed then."""
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
    """The commit or rollback of a staged transaction got no answer. A commit may still happen."""
    cancelled: bool = False
    contested: bool = False
    """A reported outcome is contradicted, and no person has decided yet."""
    claims: tuple[claims.ClaimEvent, ...] = ()
    """The last event of each claim. An undisputed claim has no event."""
    claimed_us: int = 0
    """Time of the first verification, whether disputed later or not. The first verification makes the claims."""
    hold: str = ""
    approval: RequestedApproval | None = None
    """The pending or used approval; None where none was requested."""
    gated: bool = False
    """The last attempt records the approvals behind it, even if it needed none."""
    code: str = ""
    review: str = ""
    incident: str = ""
    incidents: tuple[str, ...] = ()
    """Ids of the incidents opened by its entries. An incident with an already open cause is included."""
    frozen: tuple[str, ...] = ()
    """Subjects frozen by this action and not lifted."""
    resolution: str = ""
    """What a person attested; see `attested`."""
    decision: str = ""
    """A person's decision before the engine acts on it."""
    maker: str = ""
    """The process of the last attempt; "" where the entry has none."""
    unproved: bool = False
    """An attempt was taken over without proof of the earlier process's end. A paused process may resume its call."""
    restored: bool = False
    """Unrecorded attempts may exist under its key, with other stamps, since the ledger was restored from a backup."""
    reserved: bool = False
    """The key was reserved before execution: by a submission, or again later."""
    break_glass: str = ""
    mode: str = ""
    """"shadow" for an action in shadow mode; "" for an enforced action. Fixed by the first entry."""
    would_refuse: str = ""
    """The code of the check that the enforced mode would have refused a shadow action by; "" for none."""
    shadow: dict[str, Json] | None = None
    """The judgement of a shadow action, which counts for the operator's report alone."""
    watch: watching.WatchState | None = None
    """Progress of watching after success; None without a watch."""
    erased: tuple[str, ...] = ()
    """Digests of erased payloads, except payloads recorded again since."""
    erased_us: int = 0
    created_us: int = 0
    updated_us: int = 0
    validated_us: int = 0
    executed_us: int = 0
    verified_us: int = 0
    reconciled_us: int = 0

    @property
    def attested(self) -> Resolution:
        """A person's attestation. It does not count after a contradicting reading, nor while work continues."""
        if not self.resolution or self.contested or self.state not in _ATTESTABLE:
            return _NOTHING_ATTESTED
        return Resolution(self.resolution)

    @property
    def claim(self) -> str:
        """The worst status among its claims; see domain.claim."""
        return claims.worst(self.claims) if self.claims else ""

    @property
    def drifted(self) -> bool:
        """The last conclusive look contradicts the verified success."""
        return self.watch is not None and self.watch.drifted

    @property
    def may_repeat(self) -> bool:
        """Whether the operation may be proposed again: it had no effect and none can follow, or a person attests so.

        False after another actor's change, since the plan is stale then. False while anything is open. The end of an
        attempted action records why its key is free; see domain.key_release.
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
        """Whether this state settles or reopens the idempotency record."""
        settles = self.state in states.TERMINAL or self.attempts > 1
        return self.version > 0 and (settles or (self.state is _UNKNOWN and bool(self.resolution)))
