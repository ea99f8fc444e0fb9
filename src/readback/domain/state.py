"""The nineteen states of an action, the transitions, and the meaning of each state.

The action verification specification's state machine as data ("Allowed Transitions"), with our own additions marked.
The engine calls `check` before every transition. The command line, the record and the texts use `status`. Other modules
decide when a transition is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import InvariantError


class State(StrEnum):
    """State of an action. Each state has its own words, permissions and duties.

    Example:
        >>> from readback import Readback, State, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.state.value, outcome.state is State.RECONCILED_SUCCESS)
        reconciled_success True
    """

    PROPOSED = "proposed"
    VALIDATED = "validated"
    EXECUTING = "executing"
    ACCEPTED = "accepted"
    PENDING = "pending"
    COMMITTED = "committed"
    PARTIALLY_COMMITTED = "partially_committed"
    RECONCILED_SUCCESS = "reconciled_success"
    RECONCILIATION_FAILED = "reconciliation_failed"
    FAILED = "failed"
    VERIFICATION_TIMEOUT = "verification_timeout"
    UNKNOWN = "unknown"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"
    FORWARD_RECOVERY = "forward_recovery"
    ROLLED_BACK = "rolled_back"
    REVIEW_REQUIRED = "review_required"
    ABANDONED = "abandoned"


class IllegalTransitionError(InvariantError):
    """A transition outside the table was attempted. No entry was written."""

    code = "internal.illegal-transition"


@dataclass(frozen=True, slots=True)
class Transition:
    """One permitted step. `ours`: not in the specification, added by us."""

    to: State
    ours: bool
    why: str


_S = State


def _t(to: State, why: str, *, ours: bool = False) -> Transition:
    return Transition(to, ours, why)


TRANSITIONS: Final = MappingProxyType(
    {
        _S.PROPOSED: (
            _t(_S.VALIDATED, "The contract's checks passed."),
            _t(_S.FAILED, "The contract's checks refused it."),
        ),
        _S.VALIDATED: (
            _t(_S.EXECUTING, "The attempt is durable and about to be dispatched."),
            _t(_S.FAILED, "It was refused, cancelled or expired before dispatch."),
            _t(_S.REVIEW_REQUIRED, "A person must decide before anything is executed."),
        ),
        _S.EXECUTING: (
            _t(_S.ACCEPTED, "The target took the request and has not processed it."),
            _t(_S.PENDING, "An answer came, and verification begins."),
            _t(_S.COMMITTED, "A reading shows an effect."),
            _t(_S.FAILED, "It failed before any effect."),
            _t(_S.UNKNOWN, "It cannot be said whether the call had an effect."),
            _t(_S.ROLLED_BACK, "The local transaction was aborted before it was visible.", ours=True),
        ),
        _S.ACCEPTED: (_t(_S.PENDING, "Verification polls for the end of processing."),),
        _S.PENDING: (
            _t(_S.COMMITTED, "A reading shows an effect."),
            _t(_S.EXECUTING, "The same request goes out again under an honoured key.", ours=True),
            _t(_S.VERIFICATION_TIMEOUT, "The deadline passed without a verdict."),
            _t(_S.FAILED, "There is no effect and none can follow."),
            _t(_S.UNKNOWN, "The readings cannot settle it."),
        ),
        _S.COMMITTED: (
            _t(_S.RECONCILED_SUCCESS, "Every postcondition holds over the authoritative state."),
            _t(_S.RECONCILIATION_FAILED, "A postcondition is violated for good."),
            _t(_S.PARTIALLY_COMMITTED, "Some required effects are there and others are not."),
        ),
        _S.PARTIALLY_COMMITTED: (
            _t(_S.COMPENSATING, "What was done is reversed."),
            _t(_S.FORWARD_RECOVERY, "What is missing is completed."),
            _t(_S.REVIEW_REQUIRED, "A person must decide."),
        ),
        _S.RECONCILED_SUCCESS: (),
        _S.RECONCILIATION_FAILED: (
            _t(_S.COMPENSATING, "The effect is reversed."),
            _t(_S.REVIEW_REQUIRED, "A person must decide."),
            _t(_S.FAILED, "There is no effect to reverse."),
            _t(_S.ROLLED_BACK, "The local transaction was aborted before it was visible.", ours=True),
        ),
        _S.FAILED: (_t(_S.VALIDATED, "The retry policy lets it be tried again under the same key."),),
        _S.VERIFICATION_TIMEOUT: (
            _t(_S.UNKNOWN, "It is kept as unknown, and looked at again."),
            _t(_S.REVIEW_REQUIRED, "A person must decide."),
            _t(_S.COMPENSATING, "A shown effect is reversed."),
        ),
        _S.UNKNOWN: (
            _t(_S.REVIEW_REQUIRED, "A person must decide."),
            _t(_S.PENDING, "Verification goes on."),
            _t(_S.RECONCILIATION_FAILED, "A reading settled it: not as intended."),
            _t(_S.RECONCILED_SUCCESS, "A reading settled it: as intended."),
        ),
        _S.COMPENSATING: (
            _t(_S.COMPENSATED, "The compensation is verified."),
            _t(_S.COMPENSATION_FAILED, "The compensation failed or its result is inconsistent."),
            _t(_S.REVIEW_REQUIRED, "A person must decide."),
        ),
        _S.COMPENSATED: (),
        _S.COMPENSATION_FAILED: (_t(_S.REVIEW_REQUIRED, "A person must decide."),),
        _S.FORWARD_RECOVERY: (
            _t(_S.RECONCILED_SUCCESS, "Every postcondition holds over the authoritative state."),
            _t(_S.REVIEW_REQUIRED, "A person must decide."),
        ),
        _S.ROLLED_BACK: (),
        _S.REVIEW_REQUIRED: (
            _t(_S.PENDING, "Reopened: verify again.", ours=True),
            _t(_S.COMPENSATING, "Resolved: reverse it.", ours=True),
            _t(_S.FORWARD_RECOVERY, "Resolved: complete it.", ours=True),
            _t(_S.VALIDATED, "Resolved before execution: it may go ahead.", ours=True),
            _t(_S.ABANDONED, "Resolved: stopped, with the discrepancy on record.", ours=True),
        ),
        _S.ABANDONED: (),
    }
)
"""Every state, with its permitted next states."""

LEFT_OUT: Final = MappingProxyType(
    {
        (
            _S.ACCEPTED,
            _S.FAILED,
        ): "Verification begins in the entry that records an accepted answer. Failure follows PENDING.",
        (
            _S.ACCEPTED,
            _S.UNKNOWN,
        ): "Verification begins in the entry that records an accepted answer. UNKNOWN follows PENDING.",
        (_S.FAILED, _S.PROPOSED): "A new proposal is a new action. A retry under the same key goes to VALIDATED.",
        (_S.FORWARD_RECOVERY, _S.FAILED): "After the pivot a failure keeps its effects. A person decides about them.",
        (_S.RECONCILIATION_FAILED, _S.FORWARD_RECOVERY): "Only a saga goes forward, from PARTIALLY_COMMITTED.",
        (_S.VERIFICATION_TIMEOUT, _S.FORWARD_RECOVERY): "Only a saga goes forward, from PARTIALLY_COMMITTED.",
    }
)
"""Steps of the specification never taken by an action or saga, each with the reason. Refused."""

TERMINAL: Final = frozenset(
    {_S.RECONCILED_SUCCESS, _S.FAILED, _S.COMPENSATED, _S.ROLLED_BACK, _S.REVIEW_REQUIRED, _S.ABANDONED}
)
"""The specification's terminal states. Only a policy or a person moves an action out of them."""


_NEXT: Final = MappingProxyType({state: frozenset(step.to for step in steps) for state, steps in TRANSITIONS.items()})


def can(before: State, after: State) -> bool:
    """Whether the table permits this step."""
    return after in _NEXT[before]


def check(before: State, after: State) -> None:
    """Raise IllegalTransitionError unless the table permits this step."""
    if not can(before, after):
        raise IllegalTransitionError(
            f"No transition leads from {before.value} to {after.value}.",
            details={"from": before.value, "to": after.value},
        )


class ExecutionStatus(StrEnum):
    """The ledger schema's `execution.status`."""

    NOT_EXECUTED = "NOT_EXECUTED"
    EXECUTING = "EXECUTING"
    ACCEPTED = "ACCEPTED"
    PENDING = "PENDING"
    COMMITTED = "COMMITTED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class VerificationStatus(StrEnum):
    """The ledger schema's `verification.status`. VERIFIED: every required postcondition was seen to hold."""

    NOT_REQUIRED = "NOT_REQUIRED"
    NOT_STARTED = "NOT_STARTED"
    PENDING = "PENDING"
    VERIFIED = "VERIFIED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    UNVERIFIABLE = "UNVERIFIABLE"


class ReconciliationStatus(StrEnum):
    """The ledger schema's `reconciliation.status`."""

    NOT_STARTED = "NOT_STARTED"
    RECONCILED_SUCCESS = "RECONCILED_SUCCESS"
    RECONCILED_PARTIAL = "RECONCILED_PARTIAL"
    RECONCILED_FAILURE = "RECONCILED_FAILURE"
    UNKNOWN = "UNKNOWN"
    COMPENSATED = "COMPENSATED"
    ROLLED_BACK = "ROLLED_BACK"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"


class ReportKey(StrEnum):
    """The key of the permitted statement for a state; the words are in `reporting`."""

    NOT_EXECUTED = "not_executed"
    ATTEMPTED = "attempted"
    PENDING = "pending"
    RECONCILING = "reconciling"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    COMPENSATED = "compensated"
    ROLLED_BACK = "rolled_back"
    UNKNOWN = "unknown"
    REVIEW = "review"


@dataclass(frozen=True, slots=True)
class StatusRow:
    """Meaning of a state for the record, the shell and the reader of a message."""

    execution: ExecutionStatus
    verification: VerificationStatus
    reconciliation: ReconciliationStatus
    exit_code: int
    report: ReportKey


_E, _V, _R, _K = ExecutionStatus, VerificationStatus, ReconciliationStatus, ReportKey

STATUS: Final = MappingProxyType(
    {
        _S.PROPOSED: StatusRow(_E.NOT_EXECUTED, _V.NOT_STARTED, _R.NOT_STARTED, 3, _K.NOT_EXECUTED),
        _S.VALIDATED: StatusRow(_E.NOT_EXECUTED, _V.NOT_STARTED, _R.NOT_STARTED, 3, _K.NOT_EXECUTED),
        _S.EXECUTING: StatusRow(_E.EXECUTING, _V.NOT_STARTED, _R.NOT_STARTED, 3, _K.ATTEMPTED),
        _S.ACCEPTED: StatusRow(_E.ACCEPTED, _V.PENDING, _R.NOT_STARTED, 3, _K.PENDING),
        _S.PENDING: StatusRow(_E.PENDING, _V.PENDING, _R.NOT_STARTED, 3, _K.PENDING),
        _S.COMMITTED: StatusRow(_E.COMMITTED, _V.PENDING, _R.NOT_STARTED, 3, _K.RECONCILING),
        _S.PARTIALLY_COMMITTED: StatusRow(_E.COMMITTED, _V.FAILED, _R.RECONCILED_PARTIAL, 1, _K.PARTIAL),
        _S.RECONCILED_SUCCESS: StatusRow(_E.COMMITTED, _V.VERIFIED, _R.RECONCILED_SUCCESS, 0, _K.COMPLETED),
        _S.RECONCILIATION_FAILED: StatusRow(_E.COMMITTED, _V.FAILED, _R.RECONCILED_FAILURE, 1, _K.FAILED),
        _S.FAILED: StatusRow(_E.FAILED, _V.FAILED, _R.RECONCILED_FAILURE, 1, _K.FAILED),
        _S.VERIFICATION_TIMEOUT: StatusRow(_E.UNKNOWN, _V.TIMEOUT, _R.UNKNOWN, 3, _K.UNKNOWN),
        _S.UNKNOWN: StatusRow(_E.UNKNOWN, _V.UNVERIFIABLE, _R.UNKNOWN, 3, _K.UNKNOWN),
        _S.COMPENSATING: StatusRow(_E.COMMITTED, _V.FAILED, _R.RECONCILED_FAILURE, 3, _K.RECONCILING),
        _S.COMPENSATED: StatusRow(_E.COMMITTED, _V.VERIFIED, _R.COMPENSATED, 1, _K.COMPENSATED),
        _S.COMPENSATION_FAILED: StatusRow(_E.COMMITTED, _V.FAILED, _R.REVIEW_REQUIRED, 4, _K.REVIEW),
        _S.FORWARD_RECOVERY: StatusRow(_E.COMMITTED, _V.PENDING, _R.RECONCILED_PARTIAL, 3, _K.RECONCILING),
        _S.ROLLED_BACK: StatusRow(_E.FAILED, _V.VERIFIED, _R.ROLLED_BACK, 1, _K.ROLLED_BACK),
        _S.REVIEW_REQUIRED: StatusRow(_E.UNKNOWN, _V.UNVERIFIABLE, _R.REVIEW_REQUIRED, 4, _K.REVIEW),
        _S.ABANDONED: StatusRow(_E.UNKNOWN, _V.UNVERIFIABLE, _R.UNKNOWN, 1, _K.UNKNOWN),
    }
)
"""Each state after an attempt (and states without an attempt)."""

NOT_ATTEMPTED: Final = MappingProxyType(
    {
        _S.FAILED: StatusRow(_E.NOT_EXECUTED, _V.NOT_REQUIRED, _R.RECONCILED_FAILURE, 1, _K.NOT_EXECUTED),
        _S.REVIEW_REQUIRED: StatusRow(_E.NOT_EXECUTED, _V.NOT_STARTED, _R.REVIEW_REQUIRED, 4, _K.REVIEW),
        _S.ABANDONED: StatusRow(_E.NOT_EXECUTED, _V.NOT_REQUIRED, _R.NOT_STARTED, 1, _K.NOT_EXECUTED),
    }
)
"""States also reachable without a dispatch."""


def status(state: State, *, attempted: bool = True) -> StatusRow:
    """Return the meaning of a state. `attempted`: False only where provably nothing was dispatched."""
    if not attempted and state in NOT_ATTEMPTED:
        return NOT_ATTEMPTED[state]
    return STATUS[state]


EXIT_VERIFIED: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNDETERMINED: Final = 3
EXIT_HELD: Final = 4
EXIT_VERIFIER: Final = 5
EXIT_STORE: Final = 6
_WORST_FIRST: Final = (EXIT_STORE, EXIT_VERIFIER, EXIT_HELD, EXIT_UNDETERMINED, EXIT_FAILED, EXIT_VERIFIED)


def exit_code(
    state: State,
    *,
    held: bool = False,
    verifier_error: bool = False,
    compensation_asked: bool = False,
    attested: bool = False,
) -> int:
    """Return the command line's exit code for one action.

    `held`: waiting for an approval or a lifted freeze. `verifier_error`: undetermined because verification itself
    broke. `compensation_asked`: the caller requested the reversal. `attested`: a person has decided; the action waits
    for no person, and is still not verified.
    """
    if state is State.COMPENSATED and compensation_asked:
        return EXIT_VERIFIED
    if held and state not in TERMINAL:
        return EXIT_HELD
    code = STATUS[state].exit_code
    if attested and code == EXIT_HELD:
        return EXIT_UNDETERMINED
    return EXIT_VERIFIER if verifier_error and code == EXIT_UNDETERMINED else code


def worst_exit(codes: Iterable[int]) -> int:
    """Return the exit code of several actions: the first present of 6, 5, 4, 3, 1, 0.

    2 (bad usage) occurs before any action runs, so 2 overrides all; no codes give 0.
    """
    seen = set(codes)
    if EXIT_USAGE in seen:
        return EXIT_USAGE
    return next((code for code in _WORST_FIRST if code in seen), EXIT_VERIFIED)
