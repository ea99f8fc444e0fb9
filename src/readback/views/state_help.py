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
    "The action was verified, and a later reading shows another state. The fact that it happened stands.",
    "Read the present state and plan from it. A person decides about the drift.",
    (_DECIDE, _SHOW),
)
OVER: Final = {
    "": "the watch is over",
    "time": "the watch is over",
    "unread": "the watch is over, and the last reading was undetermined",
    "changes": "the watch ended: the state changed too often",
    "reversed": "the watch ended: the action was reversed",
    "withdrawn": "the watch ended: the claim was withdrawn",
}
"""The end of a watch, by the word of the last entry."""
_S = State

MEANINGS: Final = MappingProxyType(
    {
        _S.PROPOSED: Meaning("The action is proposed and nothing has been called.", "Nothing happened yet.", (_SHOW,)),
        _S.VALIDATED: Meaning(
            "The checks passed. Either nothing has been called yet, or another attempt under the same key is due.",
            "Resume the action; do not propose it again.",
            (_RESUME,),
        ),
        _S.EXECUTING: Meaning(
            "An attempt is recorded. The call may be in flight, or the process died during the call.",
            "Do not repeat the action. The next process reads the result back, and never repeats the call blindly.",
            (_RESUME, _WORKER),
        ),
        _S.ACCEPTED: Meaning(
            "The target accepted the request and has not finished. The action is not complete.",
            "Wait; verification continues while a worker runs.",
            (_RESUME, _WORKER),
        ),
        _S.PENDING: Meaning(
            "The tool answered or timed out, and no reading has settled the outcome yet.",
            "Wait; do not repeat the action. Verification continues while a worker runs.",
            (_RESUME, _WORKER),
        ),
        _S.COMMITTED: Meaning(
            "A reading shows an effect. The verdict is pending.", "Let verification continue.", (_RESUME, _WORKER)
        ),
        _S.PARTIALLY_COMMITTED: Meaning(
            "Some of the required effects exist and others do not. The action did not succeed.",
            "Leave recovery to the table, or settle the open parts by hand. Do not repeat the whole action.",
            (_RESUME, _SHOW),
        ),
        _S.RECONCILED_SUCCESS: Meaning(
            "Every postcondition holds in the system of record, read through a path separate from the call.",
            "The action is done; continue with dependent steps.",
        ),
        _S.RECONCILIATION_FAILED: Meaning(
            "The system of record finally contradicts a postcondition. Recovery is in progress.",
            "Let recovery continue.",
            (_RESUME, _SHOW),
        ),
        _S.FAILED: Meaning(
            "No intended change is verified, and no recovery step is left.",
            "Correct the cause named above.",
            (_SHOW,),
        ),
        _S.VERIFICATION_TIMEOUT: Meaning(
            "The deadline passed before any reading settled the outcome. The result is neither success nor failure.",
            "Let recovery continue; do not repeat the action.",
            (_RESUME, _WORKER),
        ),
        _S.UNKNOWN: Meaning(
            "The effect is unknown. The state stays unknown, and the key blocks a second execution.",
            "Do not repeat the action. A worker continues to read, slowly; a signal makes the next reading due.",
            (_RESUME, _WORKER, _SHOW),
        ),
        _S.COMPENSATING: Meaning(
            "A separate action is reversing the effect.",
            "Wait for the verification of the reversal.",
            (_RESUME, _WORKER),
        ),
        _S.COMPENSATED: Meaning(
            "Another action reversed the effect, and the reversal was read back.",
            "The reversal's postconditions hold. A new intent needs a new operation.",
            (_SHOW,),
        ),
        _S.COMPENSATION_FAILED: Meaning(
            "The reversal failed or left the state inconsistent.",
            "A person must recover the state by hand; do not repeat the action.",
            (_SHOW,),
        ),
        _S.FORWARD_RECOVERY: Meaning(
            "The remaining steps are being completed, because the finished steps cannot be reversed.",
            "Let the action continue.",
            (_RESUME, _WORKER),
        ),
        _S.ROLLED_BACK: Meaning(
            "The local change was rolled back before any other process saw it. A reading shows the target unchanged.",
            "Correct the cause; no durable change was made.",
            (_SHOW,),
        ),
        _S.REVIEW_REQUIRED: Meaning(
            "No automatic path is safe: a person must decide. The key blocks a second execution.",
            "Compare the readings with the system of record, and decide. Do not repeat the action.",
            ("readback review show {id}{where}", "readback review list{where}"),
        ),
        _S.ABANDONED: Meaning(
            "A person stopped the action, with the discrepancy on record.",
            "Nothing more happens. A new intent needs a new operation.",
            (_SHOW,),
        ),
    }
)
"""Every state. A test checks that none is missing."""

WHY_OPEN: Final = MappingProxyType(
    {
        Why.NONE: "",
        Why.PROPAGATING: "The readings do not agree with the postconditions yet, and the change may still arrive.",
        Why.TIMEOUT: "A reader did not answer within its time limit.",
        Why.UNREACHABLE: "The system of record could not be reached.",
        Why.STALE: "The reading may be older than the action and settles nothing.",
        Why.INCOMPLETE: "The reading lacks a value needed by a postcondition, or does not prove completeness.",
        Why.VERIFIER_ERROR: "Verification itself failed: check the named reader or expression.",
        Why.UNVERIFIABLE: "The contract states that no system of record can confirm the effect.",
        Why.OUT_OF_SCOPE: "The reading shows another tenant or target. The reader is at fault; nothing of it was kept.",
        Why.CONFLICTING: "Several sources disagree.",
        Why.UNATTRIBUTED: "The state is as intended, and nothing shows that this action caused it.",
        Why.SETTLING: "Everything holds. The state must hold for some time, or a duplicate may still appear.",
    }
)
"""Reasons for an open verdict. A test checks that none is missing."""

CODES: Final = MappingProxyType(
    {
        "approval.required": "The action awaits an approval; nothing was called.",
        "approval.denied": "An approver denied the action, so nothing was called.",
        "approval.expired": "The approval period ended without an approval, so nothing was called.",
        "approval.forged": "A recorded approval lacks its approver's signature, so nothing was called.",
        "approval.mismatch": "The request differs from the approved request, so nothing was called.",
        "approval.policy-changed": "The list of approvers had changed, so nothing was called.",
        "approval.replayed": "A recorded approval belongs to another request, so nothing was called.",
        "approval.self": "The requester was also the approver, so nothing was called.",
        "approval.unknown-approver": "The approver is not on the operator's list, so nothing was called.",
        "source.unavailable": "The system of record could not be read before the call, so nothing was called.",
        "source.unreadable": "The request lies outside the reader's permitted scope, so nothing was called.",
        "reader.out-of-scope": "The reader returned another target's record before the call, so nothing was called.",
        "version.unknown": "The target's version could not be read, so nothing was called.",
        "version.stale": "The target has changed since planning, so nothing was called.",
        "precondition": "A precondition of the contract did not hold, so nothing was called.",
        "cancelled": "The action was cancelled before execution.",
        "claim.not-standing": "A claim behind the plan does not stand (any more), so nothing was called.",
        "frozen": "The target is frozen after a severe fault, so nothing was called.",
        "restored": (
            "The ledger was restored from a backup while the action was in flight or had failed. Later work is "
            "unknown, so the action counts as executed. Verify again, or decide by the systems of record."
        ),
        "contract.changed": (
            "The contract has changed since the action began, so no process could resume under the original terms."
        ),
    }
)
"""Reasons why an action was not executed or not resumed."""
