"""Claims: statements about a finished action, the objections to each, and its status.

A verified success makes two claims, without an entry of their own. *Happened*: the action was done at that time,
according to the entries of that time. *Holds*: the result still exists; a later contrary reading makes this claim fall.
An objection is an entry: first contested, then retracted or reinstated. Consumers read the status before they rely on
an action.

Source: "The Verification Ledger Pattern" (claim ledger, claim retraction). The two kinds and reinstating are ours.
"""

from __future__ import annotations

import re
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import Json, payload_bytes
from readback.canon.frozen import dataclass
from readback.domain.events import Event, EventKind
from readback.domain.people.signed_statement import SignedStatement
from readback.errors import MalformedClaimError, StoreCorruptError

DEPENDANTS_NAMED_MAX: Final = 32
"""Largest number of dependent actions named in an entry. The entry counts the others."""
DEPENDANTS_SEEN_MAX: Final = 1_000
"""Largest number of dependents to search for. From there on the count means "at least"."""
DEPENDS_ON_MAX: Final = 32
"""Largest number of claims one action may depend on."""
CLAIM_ID_MAX: Final = 256


class ClaimKind(StrEnum):
    """The subject of a claim about an action."""

    HAPPENED = "happened"
    """The action was done at that time."""
    HOLDS = "holds"
    """The result still exists. Falls together with HAPPENED."""


class ClaimStatus(StrEnum):
    """Whether a claim stands, and why not."""

    NONE = "none"
    """No claim: nothing is verified so far, and a tool's answer makes no claim."""
    STANDING = "standing"
    CONTESTED = "contested"
    RETRACTED = "retracted"
    REINSTATED = "reinstated"
    """Contested or retracted earlier, valid again."""


class Reason(StrEnum):
    """Reason of a claim event. Stable codes; see REASONS."""

    UNVERIFIED = "unverified"
    UNDETERMINED = "undetermined"
    REFUTED = "refuted"
    DENIED = "denied"
    LATE_EFFECT = "late_effect"
    DRIFTED = "drifted"
    REVERSED = "reversed"
    PERSON = "person"
    VERIFIED = "verified"
    RESTORED = "restored"


class Advice(StrEnum):
    """Recommended next step for a consumer of a claim. Stable codes; see ADVICE."""

    INVESTIGATE = "investigate"
    VERIFY_AGAIN = "verify_again"
    PLAN_AGAIN = "plan_again"
    GO_ON = "go_on"


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """The consequences of a reason. `confidence`: a decimal from 0 to 1, set by this table and not measured.

    `words` continue "It was contested: ".
    """

    confidence: str
    advice: Advice
    words: str


_R, _A = Reason, Advice
REASONS: Final = MappingProxyType(
    {
        _R.UNVERIFIED: ReasonRow("0.99", _A.INVESTIGATE, "the tool took it, and no reading showed it in time."),
        _R.UNDETERMINED: ReasonRow("0.50", _A.VERIFY_AGAIN, "the tool took it, and no reading could tell either way."),
        _R.REFUTED: ReasonRow("0.999", _A.PLAN_AGAIN, "a reading shows that it was not done as intended."),
        _R.DENIED: ReasonRow("0.99", _A.INVESTIGATE, "a reading denies what a person attested."),
        _R.LATE_EFFECT: ReasonRow("0.99", _A.INVESTIGATE, "an effect landed after something else had been said."),
        _R.DRIFTED: ReasonRow("0.99", _A.PLAN_AGAIN, "a later reading shows that it no longer holds."),
        _R.REVERSED: ReasonRow("0.999", _A.PLAN_AGAIN, "it was taken back, and that was verified."),
        _R.PERSON: ReasonRow("0.95", _A.INVESTIGATE, "a person says so."),
        _R.VERIFIED: ReasonRow("0.999", _A.GO_ON, "a later reading verified it."),
        _R.RESTORED: ReasonRow("0.99", _A.GO_ON, "a later reading shows that it holds again."),
    }
)
"""Confidence 0.99 for accepted but unverified actions is the source's figure. It leaves 1 % for slow propagation."""

ADVICE: Final = MappingProxyType(
    {
        _A.INVESTIGATE: "Investigate the mismatch before assuming that it was done.",
        _A.VERIFY_AGAIN: "Verify it again before relying on it.",
        _A.PLAN_AGAIN: "Plan again what was planned upon it.",
        _A.GO_ON: "It can be relied on again.",
    }
)

CONTRADICTS: Final = frozenset({_R.DENIED, _R.LATE_EFFECT, _R.DRIFTED, _R.PERSON})
"""Reasons that contradict a reported success. The other reasons concern the tool's own answer, or a reversal."""
FALLEN: Final = frozenset({ClaimStatus.CONTESTED, ClaimStatus.RETRACTED})
_WORST: Final = (ClaimStatus.RETRACTED, ClaimStatus.CONTESTED, ClaimStatus.REINSTATED)
_BEFORE: Final = MappingProxyType(
    {
        ClaimStatus.CONTESTED: frozenset(ClaimStatus),
        ClaimStatus.RETRACTED: frozenset({ClaimStatus.CONTESTED}),
        ClaimStatus.REINSTATED: frozenset({ClaimStatus.CONTESTED, ClaimStatus.RETRACTED}),
    }
)
"""The statuses allowed before each status."""


@dataclass(frozen=True, slots=True)
class ClaimEvent:
    """The last event of a claim. `who` and `note`: a person's name and reason, empty without a person."""

    kind: ClaimKind
    status: ClaimStatus
    reason: Reason
    confidence: str
    advice: Advice
    at_us: int
    version: int
    who: str = ""
    note: str = ""
    signed_by: str = ""
    dependants: tuple[str, ...] = ()
    more: int = 0
    """Number of dependents beyond the named ones."""

    @property
    def reason_text(self) -> str:
        """The reason in words."""
        return REASONS[self.reason].words

    @property
    def advice_text(self) -> str:
        """The advice for plans on the claim, as a sentence."""
        return ADVICE[self.advice]


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """A new event for a claim."""

    kind: ClaimKind
    status: ClaimStatus
    reason: Reason


@dataclass(frozen=True, slots=True)
class ClaimBasis:
    """An entry behind a claim: its number in the action, its kind, and its leaf hash in hex."""

    version: int
    kind: str
    leaf: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim and its status. `made_us`: time of the verification, or 0. `said`: the last event, if any.

    `grounds`: the entries behind the claim.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     for claim in rb.run(switch()).claims:
        ...         print(claim.kind.value, claim.status.value)
        happened standing
        holds standing
    """

    id: str
    action_id: str
    kind: ClaimKind
    status: ClaimStatus
    made_us: int
    said: ClaimEvent | None = None
    grounds: tuple[ClaimBasis, ...] = ()
    version: int = 0
    """The action's version at the time of the look; 0 for an outcome's own claim."""

    @property
    def standing(self) -> bool:
        """Whether consumers may rely on the claim."""
        return self.status in (ClaimStatus.STANDING, ClaimStatus.REINSTATED)

    def as_json(self) -> dict[str, Json]:
        said = self.said
        return {
            "id": self.id,
            "action": self.action_id,
            "kind": self.kind.value,
            "status": self.status.value,
            "standing": self.standing,
            "made_us": self.made_us,
            "version": self.version,
            "reason": said.reason.value if said else "",
            "confidence": said.confidence if said else "",
            "recommended_action": said.advice.value if said else "",
            "at_us": said.at_us if said else self.made_us,
            "who": said.who if said else "",
            "note": said.note if said else "",
            "signed_by": said.signed_by if said else "",
            "dependants": list(said.dependants) if said else [],
            "dependants_more": said.more if said else 0,
            "grounds": [{"version": g.version, "kind": g.kind, "leaf": g.leaf} for g in self.grounds],
        }


def claim_id(action_id: str, kind: ClaimKind) -> str:
    """The id of an action's claim."""
    return f"{action_id}:{kind._value_}"


def claim_bytes(claim: str, tenant: str, version: int, status: str, who: str, reason: str) -> bytes:
    """The canonical bytes an approver signs to retract or reinstate a claim. Every part of the decision is bound."""
    bound: list[Json] = ["readback/claim/1", tenant, claim, version, status, who, reason]
    return payload_bytes(bound)


def parse_claim_id(text: str) -> tuple[str, ClaimKind]:
    """Return the action and the kind named by an id. An action's id alone names its HOLDS claim.

    Raises MalformedClaimError for any other text.
    """
    action_id, colon, kind = text.rpartition(":")
    if not colon:
        action_id, kind = text, ClaimKind.HOLDS.value
    if kind not in set(ClaimKind) or not action_id or len(text) > CLAIM_ID_MAX or not action_id.isprintable():
        raise MalformedClaimError(f"{text[:CLAIM_ID_MAX]!r} is not a claim id.")
    return action_id, ClaimKind(kind)


_CONFIDENCE: Final = re.compile(r"0\.[0-9]{1,6}|1")
_STATUS_OF: Final = MappingProxyType(
    {
        EventKind.CLAIM_CONTESTED: ClaimStatus.CONTESTED,
        EventKind.CLAIM_RETRACTED: ClaimStatus.RETRACTED,
        EventKind.CLAIM_REINSTATED: ClaimStatus.REINSTATED,
    }
)
EVENT_OF: Final = MappingProxyType({status: kind for kind, status in _STATUS_OF.items()})
"""The event kind of each status."""


def claim_event_in(event: Event, version: int) -> ClaimEvent:
    """Read the claim event in an entry. Raises KeyError for a missing field, StoreCorruptError for an unknown word."""
    d = event.data
    named, more = d["dependants"], d["more"]
    if not isinstance(named, list) or not isinstance(more, int):
        raise StoreCorruptError("The dependants of a claim entry are not a list.")
    try:
        kind, reason = ClaimKind(str(d["claim"])), Reason(str(d["reason"]))
        advice, confidence = Advice(str(d["recommended"])), str(d["confidence"])
        if not _CONFIDENCE.fullmatch(confidence):
            raise ValueError(f"{confidence!r} is not a confidence")
    except ValueError as unknown:
        raise StoreCorruptError(f"A claim entry holds an unknown word: {unknown}.") from unknown
    return ClaimEvent(
        kind,
        _STATUS_OF[event.kind],
        reason,
        confidence,
        advice,
        event.at_us,
        version,
        str(d["who"]),
        str(d["note"]),
        str(d["signed_by"]),
        tuple(str(each) for each in named),
        more,
    )


@dataclass(frozen=True, slots=True)
class ClaimStatement:
    """A person's statement about a claim: the person, the reason, and the signed token (None without a signature)."""

    who: str = ""
    note: str = ""
    signed: SignedStatement | None = None

    @property
    def signed_by(self) -> str:
        """The key of the signature; "" without a signature."""
        return self.signed.signer if self.signed is not None else ""


NO_PERSON: Final = ClaimStatement()


def data_of(
    change: ClaimChange, dependants: tuple[str, ...] = (), more: int = 0, word: ClaimStatement = NO_PERSON
) -> dict[str, Json]:
    """The data of the entry for this event."""
    row = REASONS[change.reason]
    advice = Advice.GO_ON if change.status is ClaimStatus.REINSTATED else row.advice
    return {
        "claim": change.kind._value_,
        "reason": change.reason._value_,
        "confidence": row.confidence,
        "recommended": advice._value_,
        "who": word.who,
        "note": word.note,
        "signed_by": word.signed_by,
        "dependants": list(dependants),
        "more": more,
    }


def last_event_of(claims: tuple[ClaimEvent, ...], kind: ClaimKind) -> ClaimEvent | None:
    """The last event of the claim of this kind."""
    for one in claims:
        if one.kind is kind:
            return one
    return None


def own_status(claims: tuple[ClaimEvent, ...], kind: ClaimKind, *, made: bool) -> ClaimStatus:
    """The claim's own status, without the other claim. `made`: a verified success was recorded."""
    said = last_event_of(claims, kind)
    return said.status if said else (ClaimStatus.STANDING if made else ClaimStatus.NONE)


def status_of(claims: tuple[ClaimEvent, ...], kind: ClaimKind, *, made: bool) -> ClaimStatus:
    """Status of the claim of this kind. HOLDS falls with HAPPENED, and does not exist without HAPPENED."""
    status = own_status(claims, kind, made=made)
    if kind is ClaimKind.HOLDS and status not in FALLEN:
        other = own_status(claims, ClaimKind.HAPPENED, made=made)
        return other if other in FALLEN else status
    return status


def holds(claims: tuple[ClaimEvent, ...]) -> bool:
    """Whether the result of a verified success is still claimed to exist."""
    if not claims:
        return True
    return status_of(claims, ClaimKind.HOLDS, made=True) in (ClaimStatus.STANDING, ClaimStatus.REINSTATED)


def worst(claims: tuple[ClaimEvent, ...]) -> str:
    """The worst status: retracted, contested, reinstated, or "" without any event."""
    found = {one.status for one in claims}
    return next((status.value for status in _WORST if status in found), "")


def may_follow(before: ClaimStatus, after: ClaimStatus) -> bool:
    """Whether this status may follow the claim's current status."""
    return after in _BEFORE and before in _BEFORE[after]


def after(claims: tuple[ClaimEvent, ...], said: ClaimEvent) -> tuple[ClaimEvent, ...]:
    """The claims after one more event."""
    return tuple(sorted((*(one for one in claims if one.kind is not said.kind), said), key=lambda one: one.kind))


def contradicted(claims: tuple[ClaimEvent, ...]) -> bool:
    """Whether claim events contradict a reported success."""
    return any(one.status in FALLEN and one.reason in CONTRADICTS for one in claims)
