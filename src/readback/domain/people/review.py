"""Review: the reasons for a review, the possible decisions, and the effect of each decision.

Called when a judgement is recorded (does the action enter the queue?) and when a person decides. Pure tables: they
choose no decision. No decision ever makes an action verified.

Source: the action verification specification, "Manual review"; the decisions and their transitions are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import Json, ReadbackError, parse_json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.idempotency import Resolution
from readback.domain.recovery.action import RecoveryAction
from readback.domain.side_effect import ReviewTrigger
from readback.domain.state import TERMINAL, State
from readback.errors import OversizeError

BREAK_GLASS: Final = "break_glass"
APPROVAL: Final = "approval"
COMPENSATION_FAILED: Final = "compensation_failed"
_SUCCESS: Final = State.RECONCILED_SUCCESS
CONTESTED: Final = "contested"
RESTORED: Final = "restored"
"""The action was in flight when the backup of its ledger was taken. Later attempts are unknown."""
DRIFT: Final = "drift"
"""A later reading contradicts the verified success."""


class Decision(StrEnum):
    """A person's decision about an action in review."""

    ATTEST_DONE = "attest_done"
    ATTEST_NOT_DONE = "attest_not_done"
    VERIFY_AGAIN = "verify_again"
    COMPENSATE = "compensate"
    GO_FORWARD = "go_forward"
    ABANDON = "abandon"
    REOPEN = "reopen"


_D, _S = Decision, State
RESOLUTION_OF: Final = MappingProxyType(
    {
        _D.ATTEST_DONE: Resolution.ATTESTED_DONE,
        _D.ATTEST_NOT_DONE: Resolution.ATTESTED_NOT_DONE,
        _D.VERIFY_AGAIN: Resolution.NONE,
        _D.COMPENSATE: Resolution.NONE,
        _D.GO_FORWARD: Resolution.NONE,
        _D.ABANDON: Resolution.NONE,
        _D.REOPEN: Resolution.NONE,
    }
)
"""The attestation of each decision: a person's word, only where a decision needs it."""

ACTS: Final = frozenset({_D.VERIFY_AGAIN, _D.COMPENSATE, _D.GO_FORWARD, _D.REOPEN})
"""Decisions with a resumed action. All other decisions end the matter."""

_WAYS: Final = MappingProxyType(
    {
        _D.VERIFY_AGAIN: (_S.PENDING,),
        _D.COMPENSATE: (_S.COMPENSATING,),
        _D.GO_FORWARD: (_S.FORWARD_RECOVERY,),
        _D.ABANDON: (_S.ABANDONED,),
        _D.REOPEN: (_S.VALIDATED,),
    }
)


def path_of(decision: Decision, state: State) -> tuple[State, ...]:
    """The states passed by a decision. An attestation keeps the state, and so does closing an ended action."""
    way = _WAYS.get(decision, ())
    match state:
        case State.REVIEW_REQUIRED:
            return way
        case State.UNKNOWN:
            return way if not way or decision is Decision.VERIFY_AGAIN else (State.REVIEW_REQUIRED, *way)
        case State.VALIDATED if decision is Decision.ABANDON:
            return (State.FAILED,)
        case _:
            return ()


# --- the queue ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Ending:
    """The result of a judgement, as needed by the queue. `found`: the discrepancy, else the finding."""

    state: State
    recovery: RecoveryAction
    found: str
    trigger: ReviewTrigger | None = None
    break_glass: bool = False
    contested: bool = False


def in_queue(ending: Ending) -> str:
    """Return why the action needs a review, or "".

    An action enters the queue if a person must decide, if the state stays unknown, or if the class asks for a review of
    the finding. An action with an open verification does not. A success enters only if contested, or if executed
    without a needed approval.
    """
    if ending.state is _SUCCESS:  # the common case
        return CONTESTED if ending.contested else BREAK_GLASS if ending.break_glass else ""
    match ending.state:
        case State.REVIEW_REQUIRED | State.COMPENSATION_FAILED:
            return ending.found
        case State.UNKNOWN | State.VERIFICATION_TIMEOUT:
            # REPORT_UNVERIFIED is a settled end where the contract permits it.
            reported = ending.recovery is RecoveryAction.REPORT_UNVERIFIED
            return _of(ending.trigger) or ("" if reported else ending.found)
        case State.FAILED | State.ROLLED_BACK | State.COMPENSATING | State.RECONCILIATION_FAILED:
            return CONTESTED if ending.contested else _of(ending.trigger)
        case State.PARTIALLY_COMMITTED | State.FORWARD_RECOVERY | State.COMPENSATED:
            return _of(ending.trigger)
        case State.PROPOSED | State.VALIDATED | State.EXECUTING | State.ACCEPTED | State.PENDING | State.COMMITTED:
            return ""
        case State.ABANDONED:
            return ""


def _of(trigger: ReviewTrigger | None) -> str:
    return "" if trigger is None else trigger.value


# --- the choices --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewFacts:
    """The facts of an action that bound the decisions.

    `effect_shown`: a reading shows our effect. `reversible`: the contract has a compensation. `readable`: the contract
    has readers. `blind`: the arguments are recorded as redacted only. `loaded`: the original contract is loaded here
    (None: not checked). `forward`: the action is a saga, or a step behind its pivot. `misplaced`: the action changed
    another object than intended.
    """

    state: State
    review: str
    hold: str = ""
    executed: bool = True
    effect_shown: bool = False
    reversible: bool = False
    readable: bool = True
    blind: bool = False
    forward: bool = False
    misplaced: bool = False
    resolution: Resolution = Resolution.NONE
    loaded: bool | None = None
    workflow: bool = False
    """The action is a saga. Decisions concern the results of its steps."""
    admitted: bool = True
    """A worker with the contract has admitted the action."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision, with its effect or the obstacle."""

    decision: Decision
    will: str
    why_not: str = ""

    @property
    def open(self) -> bool:
        """Whether the decision is possible now."""
        return not self.why_not

    def as_json(self) -> dict[str, Json]:
        return {"decision": self.decision.value, "open": self.open, "will": self.will, "why_not": self.why_not}


_WILL: Final = MappingProxyType(
    {
        _D.ATTEST_DONE: "Records your statement that the action was done. The key stays taken, so the operation "
        "never runs again. The action stays unverified and is reported as attested. A contrary later reading contests "
        "the statement.",
        _D.ATTEST_NOT_DONE: "Records your statement that the action had no effect and will have none. The key is "
        "released: the same operation may be requested again, and then runs. A later reading of an effect contests "
        "the statement.",
        _D.VERIFY_AGAIN: "Reads again now, by the contract's strongest path, and judges again. Afterwards only the "
        "recovery table's action is executed.",
        _D.COMPENSATE: "Runs the compensation once, even on a frozen target, and verifies the reversal.",
        _D.GO_FORWARD: "Completes the remaining steps under the same keys, since the done steps are irreversible.",
        _D.ABANDON: "Stops the action for good, with the discrepancy on record. Calls nothing. The key stays taken.",
        _D.REOPEN: "Checks the preconditions again and, if they hold, executes the action under the same key.",
    }
)
_CLOSE: Final = "Closes the review. The state and the key stay as they are. Calls nothing."
_CONFIRM: Final = "Records that a person confirmed the action. Nothing changes."
_CONTEST: Final = (
    "Records your statement that the action was not done. The reported success is contested and no longer stands."
)
_KNOWN: Final = (
    "Records your statement that the present state is right. The claim stands again, unverified. The watch continues."
)
_CLOSE_DRIFT: Final = "Closes the review and ends the watch. The claim HOLDS stays withdrawn."
_LOOK_AGAIN: Final = "Reads again now, by the strongest path. If the state holds again, the claim is reinstated."
_SUCCEEDED: Final = "The action succeeded. Correct later changes by a new action."
_KEEP: Final = (
    "Records your statement that the action was done after all. The operation may not be repeated. It stays unverified."
)

_WILL_DRIFT: Final = MappingProxyType({_D.ATTEST_DONE: _KNOWN, _D.VERIFY_AGAIN: _LOOK_AGAIN, _D.ABANDON: _CLOSE_DRIFT})
WORKED_ON: Final = "A process is working on the action. Wait for the result."
ENDED: Final = "The action has ended. No work is left to resume."
NOT_WAITING: Final = "The action does not wait for a person (any more)."
NOT_ADMITTED: Final = "No worker with its contract has admitted the action. Request the operation again."
NOT_EXECUTED: Final = "The action was never executed."
MISPLACED: Final = (
    "The action changed another object than intended, and the compensation acts on the intended object. Correct the "
    "change by a new action."
)
OF_STEPS: Final = "The action is a workflow. Decide about the waiting step, then verify the workflow again."
_REPEATS: Final = frozenset({State.REVIEW_REQUIRED, State.UNKNOWN})


def choices(standing: ReviewFacts) -> tuple[Choice, ...]:
    """Every decision, with its effect or the obstacle."""
    return tuple(_choice(decision, standing) for decision in Decision)


def choice(decision: Decision, standing: ReviewFacts) -> Choice:
    """The choice for this decision."""
    return _choice(decision, standing)


def _choice(decision: Decision, standing: ReviewFacts) -> Choice:
    why_not = _barred(decision, standing)
    if not why_not and standing.loaded is False and decision in ACTS:
        why_not = "The original contract is not loaded here."
    return Choice(decision, _will(decision, standing), why_not)


def _will(decision: Decision, standing: ReviewFacts) -> str:
    if standing.state in _REPEATS or standing.state not in TERMINAL:
        return _WILL[decision]
    if standing.review == DRIFT and decision in _WILL_DRIFT:
        return _WILL_DRIFT[decision]
    match decision:
        case Decision.ABANDON:
            return _CLOSE
        case Decision.ATTEST_DONE:
            return _CONFIRM if standing.state is State.RECONCILED_SUCCESS else _KEEP
        case Decision.ATTEST_NOT_DONE:
            return _CONTEST
        case _:
            return _WILL[decision]


def _barred(decision: Decision, standing: ReviewFacts) -> str:
    """Why a decision is impossible, or ""."""
    state = standing.state
    # An action attested as not done may still be reopened. Any other decision is made once.
    again = decision is Decision.REOPEN and standing.resolution is Resolution.ATTESTED_NOT_DONE
    if not standing.review and not again:
        return NOT_WAITING if state in TERMINAL or state is State.UNKNOWN else WORKED_ON
    if state is State.VALIDATED and standing.hold:
        return "" if decision is Decision.ABANDON else NOT_EXECUTED
    if state not in TERMINAL and state is not State.UNKNOWN:
        return WORKED_ON
    if state not in _REPEATS:
        return _barred_at_end(decision, standing)
    match decision:
        case Decision.ABANDON:
            return ""
        case Decision.ATTEST_DONE | Decision.ATTEST_NOT_DONE | Decision.REOPEN if standing.workflow:
            return OF_STEPS
        case Decision.REOPEN:
            return _barred_reopen(standing)
        case Decision.GO_FORWARD:
            return "" if standing.forward else "The action is not a workflow, or not past its pivot."
        case _ if not standing.executed:
            return NOT_EXECUTED
        case Decision.ATTEST_DONE:
            return ""
        case Decision.ATTEST_NOT_DONE:
            return "A reading shows an effect of the action." if standing.effect_shown else ""
        case Decision.VERIFY_AGAIN if standing.review == COMPENSATION_FAILED:
            return "The compensation failed. Verify the compensation, or reverse this action again."
        case Decision.VERIFY_AGAIN:
            return "" if standing.readable else "The contract has no reader."
        case Decision.COMPENSATE:
            return _barred_compensation(standing)


def _barred_reopen(standing: ReviewFacts) -> str:
    if not standing.admitted:
        return NOT_ADMITTED
    if standing.effect_shown:
        return "A reading shows an effect of the action."
    if standing.executed and standing.resolution is not Resolution.ATTESTED_NOT_DONE:
        return "The action may have been executed. Attest first that it was not done."
    if standing.hold == APPROVAL:
        return "The action waits for an approval. Approve the action instead."
    return "The arguments are recorded as redacted only. Request the operation again." if standing.blind else ""


def _barred_compensation(standing: ReviewFacts) -> str:
    if not standing.reversible:
        return "The contract has no compensation."
    if not standing.effect_shown:
        return "No reading shows an effect to reverse."
    if standing.misplaced:
        return MISPLACED
    return "The arguments are recorded as redacted only." if standing.blind else ""


def _barred_at_end(decision: Decision, standing: ReviewFacts) -> str:
    """Bound the decisions on an ended action.

    A review may be closed. A success may be confirmed or contested. A failure may be denied.
    """
    state = standing.state
    if decision is Decision.ABANDON or (decision is Decision.ATTEST_DONE and state is State.RECONCILED_SUCCESS):
        return ""
    if decision is Decision.ATTEST_DONE and state is State.FAILED and standing.executed:
        return ""
    if decision is Decision.ATTEST_NOT_DONE and state is State.RECONCILED_SUCCESS:
        return ""
    if standing.review == DRIFT:
        return "" if decision is Decision.VERIFY_AGAIN else _SUCCEEDED
    return ENDED


# --- signed statements -----------------------------------------------------------------------------------------

_LIFT: Final = "readback/lift/2"


def resolution_bytes(action_id: str, tenant: str, version: int, decision: str, who: str, reason: str) -> bytes:
    """The canonical bytes an approver signs for a resolution. Every part of the decision is bound."""
    bound: list[Json] = ["readback/resolution/1", tenant, action_id, version, decision, who, reason]
    return payload_bytes(bound)


def lift_bytes(tenant: str, subject: str, frozen: tuple[tuple[str, int], ...], who: str, reason: str) -> bytes:
    """The bytes an approver signs to lift a freeze: the subject, and each freezing action with its time in
    microseconds.

    The signature does not lift a later freeze by the same action.
    """
    bound: list[Json] = [_LIFT, tenant, subject, [list(each) for each in frozen], who, reason]
    return payload_bytes(bound)


def lifts(statement: bytes, tenant: str, subject: str, froze: tuple[str, int], who: str, reason: str) -> bool:
    """Whether these bytes are the signed statement for this lift. `froze`: an action and the time of its freeze."""
    try:
        match parse_json(statement):
            case [_, _, _, list(frozen), _, _] if [*froze] in frozen:
                return payload_bytes([_LIFT, tenant, subject, frozen, who, reason]) == statement
    except ReadbackError:
        pass  # not a signed statement
    return False


# The packet for a decision: intent, request, answer, readings, and possible decisions.

PACKET_FORMAT: Final = 1
PACKET_MAX_BYTES: Final = 262_144
SECTION_MAX_BYTES: Final = 24_576
"""Size limit of a single state or list in the packet."""
VALUE_MIN_BYTES: Final = 256
"""Every value keeps at least this size when the packet is cut."""
ENTRIES_MAX: Final = 64
"""Number of entries shown of a list: the first and the last ones."""
CUT: Final = "$cut"


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """The case of one action for a decision. `version`: the version to expect in a resolution.

    `reason`: why the action is in the queue, or "" outside the queue. `choices`: every decision, with its effect or the
    reason against it. `body`: the whole packet as bounded JSON.
    """

    id: str
    version: int
    state: str
    reason: str
    choices: tuple[Choice, ...]
    body: Mapping[str, Json] = field(default_factory=dict)

    def as_json(self) -> dict[str, Json]:
        """The packet as plain data."""
        return dict(self.body)


def packet_of(
    head: Mapping[str, Json], sections: Mapping[str, Json], choices: Sequence[Choice], *, version: int, reason: str
) -> ReviewCase:
    """Build a packet. `head`: small facts, id and state included; `sections`: the large parts.

    Raises OversizeError where the packet exceeds PACKET_MAX_BYTES even after cutting.
    """
    body: dict[str, Json] = {
        "format": PACKET_FORMAT,
        **head,
        "version": version,
        "review": reason,
        **{name: bounded(value) for name, value in sections.items()},
        "choices": [choice.as_json() for choice in choices],
    }
    size = len(payload_bytes(body))
    if size > PACKET_MAX_BYTES:
        raise OversizeError(
            f"The packet of {head['id']} has {size} bytes, over {PACKET_MAX_BYTES}.",
            remedy=f"Look at `readback show {head['id']} --json` for the whole record.",
        )
    return ReviewCase(str(head["id"]), version, str(head["state"]), reason, tuple(choices), body)


def bounded(value: Json, limit: int = SECTION_MAX_BYTES) -> Json:
    """The value, cut to `limit` bytes of canonical JSON. Every cut is marked."""
    size = len(payload_bytes(value))
    if size <= limit:
        return value
    if isinstance(value, dict) and len(value) <= ENTRIES_MAX:
        share = max(VALUE_MIN_BYTES, limit // (2 * len(value)))
        shorter: Json = {key: bounded(each, share) for key, each in value.items()}
        if len(payload_bytes(shorter)) <= limit:
            return shorter
    elif isinstance(value, list):
        shown = _ends(value)
        share = max(VALUE_MIN_BYTES, limit // (2 * len(shown)))
        shorter = [bounded(each, share) for each in shown]
        if len(payload_bytes(shorter)) <= limit:
            return shorter
    return _cut(value, size, limit)


def _ends(value: list[Json]) -> list[Json]:
    """The first and the last entries, with the number and digest of the entries between."""
    if len(value) <= ENTRIES_MAX:
        return value
    half = ENTRIES_MAX // 2
    left_out = value[half:-half]
    mark: Json = {CUT: f"{len(left_out)} entries", "sha256": sha256_hex(payload_bytes(left_out))}
    return [*value[:half], mark, *value[-half:]]


def _cut(value: Json, size: int, limit: int) -> Json:
    """The beginning of a text, with the whole length in bytes and the digest."""
    body = payload_bytes(value)
    begins = body[: max(limit // 2, 0)].decode("utf-8", errors="ignore")
    return {CUT: begins, "bytes": size, "sha256": sha256_hex(body)}
