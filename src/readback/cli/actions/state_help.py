"""The meaning of each state for an operator and the permitted next steps: a table, read by `explain`.

`domain.reporting` holds the texts for users and models. `{id}` stands for the action, `{where}` for the options of the
ledger, and `{work}` for these options and the contracts.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.state import State
from readback.domain.verdict import Why


@dataclass(frozen=True, slots=True)
class Meaning:
    """`now`: the permitted next steps. `commands`: the exact next commands, if any helps."""

    means: str
    now: str
    commands: tuple[str, ...] = ()


_RESUME: Final = "readback resume{work}"
_WORKER: Final = "readback worker{work}"
_SHOW: Final = "readback show {id}{where}"
_DECIDE: Final = "readback review show {id}{where}"
DRIFTED: Final = Meaning(
    "It was verified, and a later reading shows that it no longer holds. That it was done stands.",
    "Read the present state and plan anew from it; a person decides what is made of the drift.",
    (_DECIDE, _SHOW),
)
OVER: Final = {
    "": "the watch is over",
    "time": "the watch is over",
    "unread": "the watch is over, and its last look could not tell",
    "changes": "the watch ended: it fell and came back too often",
    "reversed": "the watch ended: it was taken back",
    "withdrawn": "the watch ended: what was claimed of it was withdrawn",
}
"""The end of a watch, by the word of the last entry."""
_S = State

MEANINGS: Final = MappingProxyType(
    {
        _S.PROPOSED: Meaning("It is proposed and nothing has been called.", "Nothing happened yet.", (_SHOW,)),
        _S.VALIDATED: Meaning(
            "It passed its checks and nothing has been called, or another attempt under the same key is due.",
            "Let it go on; do not propose it again.",
            (_RESUME,),
        ),
        _S.EXECUTING: Meaning(
            "An attempt is durable and its call may be in flight; or the process that made it died in it.",
            "Do not repeat it. Whoever goes on with it reads what became of it, and never calls blindly again.",
            (_RESUME, _WORKER),
        ),
        _S.ACCEPTED: Meaning(
            "The target took the request in and has not finished it. That is no completion.",
            "Wait; verification goes on as long as a process stays with it.",
            (_RESUME, _WORKER),
        ),
        _S.PENDING: Meaning(
            "The tool has answered, or gone silent, and no reading has settled it yet.",
            "Wait; do not repeat it. Verification goes on as long as a process stays with it.",
            (_RESUME, _WORKER),
        ),
        _S.COMMITTED: Meaning(
            "A reading shows an effect that is not judged yet.", "Let verification go on.", (_RESUME, _WORKER)
        ),
        _S.PARTIALLY_COMMITTED: Meaning(
            "Some of the required effects are there and others are not. That is no success.",
            "Leave recovery to the table, or settle the open parts by hand; do not repeat the whole action.",
            (_RESUME, _SHOW),
        ),
        _S.RECONCILED_SUCCESS: Meaning(
            "Every postcondition held over what the system of record said, read by another path than the call.",
            "It is done; go on with what depends on it.",
        ),
        _S.RECONCILIATION_FAILED: Meaning(
            "The system of record contradicts a postcondition, finally. Recovery is under way.",
            "Let recovery go on.",
            (_RESUME, _SHOW),
        ),
        _S.FAILED: Meaning(
            "There is no verified change as intended, and no recovery is left to do.",
            "Correct the cause that is named above.",
            (_SHOW,),
        ),
        _S.VERIFICATION_TIMEOUT: Meaning(
            "The deadline passed before any reading settled it. That is neither success nor failure.",
            "Let recovery go on; do not repeat it.",
            (_RESUME, _WORKER),
        ),
        _S.UNKNOWN: Meaning(
            "Nobody can say whether it took effect. It is kept so, and its key blocks a second execution.",
            "Do not repeat it. Readings go on slowly while a process stays with it; a signal wakes the next one.",
            (_RESUME, _WORKER, _SHOW),
        ),
        _S.COMPENSATING: Meaning(
            "Its effect is being reversed by an action of its own.",
            "Let the reversal be verified.",
            (_RESUME, _WORKER),
        ),
        _S.COMPENSATED: Meaning(
            "Its effect was reversed by another action, and that reversal was read back.",
            "The world is as before in what the reversal's postconditions say. A new intention needs a new operation.",
            (_SHOW,),
        ),
        _S.COMPENSATION_FAILED: Meaning(
            "The reversal failed or left the state inconsistent.",
            "A person has to recover the state by hand; do not repeat it.",
            (_SHOW,),
        ),
        _S.FORWARD_RECOVERY: Meaning(
            "What remains is being completed, since what was done cannot be taken back.",
            "Let it go on.",
            (_RESUME, _WORKER),
        ),
        _S.ROLLED_BACK: Meaning(
            "The local boundary was dropped or put back before anyone saw it; the target was read as unchanged.",
            "Correct the cause; no durable change was made.",
            (_SHOW,),
        ),
        _S.REVIEW_REQUIRED: Meaning(
            "No automatic path is safe: a person has to decide. Its key blocks a second execution.",
            "Compare the readings with the system of record, and decide; do not repeat the action.",
            ("readback review show {id}{where}", "readback review list{where}"),
        ),
        _S.ABANDONED: Meaning(
            "It was stopped by a person, with its discrepancy on record.",
            "Nothing more happens. A new intention needs a new operation.",
            (_SHOW,),
        ),
    }
)
"""Every state. A test checks that none is missing."""

WHY_OPEN: Final = MappingProxyType(
    {
        Why.NONE: "",
        Why.PROPAGATING: "The readings do not agree with the postconditions yet, and the change may still arrive.",
        Why.TIMEOUT: "A reader did not answer in its time.",
        Why.UNREACHABLE: "The system of record could not be reached.",
        Why.STALE: "The reading may be older than the action, so it settles nothing.",
        Why.INCOMPLETE: "The reading lacks what a postcondition needs, or does not prove that it saw everything.",
        Why.VERIFIER_ERROR: "Verification itself broke: look at the reader or the expression that is named.",
        Why.UNVERIFIABLE: "The contract says that no system of record can confirm it.",
        Why.OUT_OF_SCOPE: "The reading was of another tenant or target: the reader is at fault, and it was not kept.",
        Why.CONFLICTING: "Several sources were asked, and they disagree.",
        Why.UNATTRIBUTED: "The state is there, and nothing shows that it is this action's doing.",
        Why.SETTLING: "Everything holds, and it has to hold for some time, or a duplicate may still appear.",
    }
)
"""Reasons for an open verdict. A test checks that none is missing."""

CODES: Final = MappingProxyType(
    {
        "approval.required": "It waits for an approval; nothing was called.",
        "approval.denied": "An approver denied it, so nothing was called.",
        "approval.expired": "Nobody had approved it when its time had passed, so it was not called.",
        "approval.forged": "A recorded approval does not bear its approver's signature, so it was not called.",
        "approval.mismatch": "What would have been called is not what was approved, so it was not called.",
        "approval.policy-changed": "The list of approvers had changed, so it was not called.",
        "approval.replayed": "A recorded approval was made for another request, so it was not called.",
        "approval.self": "Whoever asked for it had approved it, so it was not called.",
        "approval.unknown-approver": "Somebody had approved it who may not, by the operator's list; it was not called.",
        "source.unavailable": "The system of record could not be read beforehand, so nothing was called.",
        "source.unreadable": "What it asked for lies outside of what the reader may see, so nothing was called.",
        "reader.out-of-scope": "The reader brought another target's record beforehand, so nothing was called.",
        "version.unknown": "The target's version could not be told, so nothing was called.",
        "version.stale": "The target has moved on since it was planned, so nothing was called.",
        "precondition": "A precondition of the contract did not hold, so nothing was called.",
        "cancelled": "It was cancelled before it was executed.",
        "claim.not-standing": "Something that it was planned upon does not stand (any more), so nothing was called.",
        "frozen": "What it would act on is frozen since something severe happened there, so nothing was called.",
        "restored": (
            "The ledger was restored from a backup when it was in flight, or had failed: what was done after that is "
            "not known, and it counts as executed. Verify it again, or decide by what the systems of record show."
        ),
        "contract.changed": (
            "Its contract has changed since it began, so nobody could go on with it by the terms that it began with."
        ),
    }
)
"""Reasons why an action was not executed or not resumed."""
