"""Every error that Readback raises, by consequence and by whose fault it is.

    ReadbackError
    ├── CanonError (2)                  a value that cannot be written down exactly; see canon.fault
    ├── InputError (2)                  the caller's: nothing is recorded but the rejection
    │   ├── ArgumentError, OversizeError, ProposalError, UsageError, NotFoundError
    │   ├── UnknownPrincipalError, UnknownTenantError, PayloadConflictError, ReviewError, SagaError
    │   ├── LimitError: InFlightLimitError, EvidenceLimitError; MissingScopeError, ApprovalError
    │   └── HeaderInjectionError, SandboxEscapeError
    ├── HonestyError (2, a TypeError)   an outcome or a proposal was asked for a truth value
    ├── ContractError (5)               the contract author's: found at load, before anything runs
    │   ├── ContractFieldError, MissingPostconditionError, MissingReaderError, WeakReaderError
    │   ├── ExpressionError, TemplateError
    │   └── ContractChangedError
    ├── SettingsError (5)               the operator's
    │   └── SinkError                   of where messages go; no action ever fails by it
    ├── VerifierError (5)               the reader's or the predicate's: the outcome stays undetermined
    │   └── ReaderFailedError, ReaderTypeError, ReaderTimeoutError, OutOfScopeReadingError
    ├── ToolError (3)                   the tool's; drivers turn it into an observation
    │   └── NotDispatchedError, ToolTimeoutError
    ├── StoreError (6)                  the store's, or the machine's under it
    │   ├── StoreLockedError, StoreReadOnlyError, StoreFullError, StoreCorruptError
    │   ├── StoreVersionError, SqliteTooOldError
    │   ├── ConflictError, LeaseLostError
    │   └── UnknownOutcomeError         the worst case: an effect may have landed, its record has not
    ├── NotVerifiedError (by state)     asked for by `raise_unless_verified`
    ├── DelegationFailedError (1)       refuted as often as it may be sent; see agent_errors
    ├── DrillError (5, 1, 3)            of drills alone
    ├── LogError (1)                    what is to prove something, and does not; see ledger.fault
    │   ├── LogFormatError (2), LogUnplacedError (3), LogSignatureError
    │   └── LogProofError: LogCutError, LogForkError, LogOriginError, LogRewrittenError
    ├── TraceError (2)                  of a reasoning trace's files alone; see citations.fault
    │   └── TraceInputError, TracePolicyError (5), ArtifactError (1)
    ├── AnchorError (6)                 of a place for checkpoints; no action ever fails by it
    └── InvariantError (6)              ours: a bug, stopped before it could become a false report

Errors of one subject:
AnchorRefusedError, AnswersDifferError, BackupError, BundleError, CitationError, ClaimError, ContractFileError,
DoubledEffectError, DrillRefusedError, DrillUndeterminedError, ErasedEvidenceError, ErasureError, FittingError,
MalformedClaimError, OwnFileError, RestoreError, SubmissionError, TableMissingError, UndecidedError.

Who uses it: every room. The number is the command line's exit code. `code` is stable between releases.
Nothing here logs, and nothing here is raised for a truth that merely is not known: that is an outcome, not
an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon.fault import (
    CanonError,
    EnvelopeProfileError,
    MalformedJsonError,
    ReadbackError,
    UnsupportedValueError,
    ValueTooLargeError,
)

__all__ = [
    "AnchorError",
    "AnchorRefusedError",
    "AnswersDifferError",
    "ApprovalError",
    "ArgumentError",
    "BackupError",
    "BundleError",
    "CanonError",
    "CitationError",
    "ClaimError",
    "ConflictError",
    "ContractChangedError",
    "ContractError",
    "ContractFieldError",
    "ContractFileError",
    "DoubledEffectError",
    "DrillError",
    "DrillRefusedError",
    "DrillUndeterminedError",
    "EnvelopeProfileError",
    "ErasedEvidenceError",
    "ErasureError",
    "EvidenceLimitError",
    "ExpressionError",
    "FittingError",
    "HeaderInjectionError",
    "HonestyError",
    "InFlightLimitError",
    "InputError",
    "InvariantError",
    "LeaseLostError",
    "LimitError",
    "MalformedClaimError",
    "MalformedJsonError",
    "MissingPostconditionError",
    "MissingReaderError",
    "MissingScopeError",
    "NotDispatchedError",
    "NotFoundError",
    "NotVerifiedError",
    "OutOfScopeReadingError",
    "OversizeError",
    "OwnFileError",
    "PayloadConflictError",
    "ProposalError",
    "ReadbackError",
    "ReaderFailedError",
    "ReaderTimeoutError",
    "ReaderTypeError",
    "RestoreError",
    "ReviewError",
    "SagaError",
    "SandboxEscapeError",
    "SettingsError",
    "SinkError",
    "SqliteTooOldError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreReadOnlyError",
    "StoreVersionError",
    "SubmissionError",
    "TableMissingError",
    "TemplateError",
    "ToolError",
    "ToolTimeoutError",
    "UndecidedError",
    "UnknownOutcomeError",
    "UnknownPrincipalError",
    "UnknownTenantError",
    "UnsupportedValueError",
    "UsageError",
    "ValueTooLargeError",
    "VerifierError",
    "WeakReaderError",
]


# --- the caller's fault -------------------------------------------------------------------------------------


class InputError(ReadbackError):
    """What was asked cannot be done as asked. No attempt was made; asking again unchanged gives the same."""

    code = "input"
    exit_code = 2


class ArgumentError(InputError):
    """Arguments that do not fit the action's parameters. `details["problems"]` lists all of them at once."""

    code = "input.arguments"
    remedy_default = "Correct the named arguments and propose the action again."


class OversizeError(InputError):
    """A value over a size limit."""

    code = "input.oversize"
    remedy_default = "Pass a reference or a digest in place of the whole value."


class ProposalError(InputError):
    """A proposal that cannot be run: run already, of another runtime, or without an operation where one is
    needed.
    """

    code = "input.proposal"
    remedy_default = "Make a new proposal, and give it an operation id."


class UsageError(InputError):
    """The library or the command line was used in a way that has no meaning, as after it was closed."""

    code = "input.usage"


class NotFoundError(InputError):
    """No action, contract or item of that name in this tenant."""

    code = "input.not-found"
    remedy_default = "Look at `readback list` for the ids of this tenant."


class UnknownPrincipalError(InputError):
    """The principal is not one that the contract lets act."""

    code = "input.unknown-principal"
    remedy_default = "Use a principal that the contract names under `principals`."


class UnknownTenantError(InputError):
    """The tenant is missing, or is not the one this action belongs to."""

    code = "input.unknown-tenant"
    remedy_default = "Open Readback with the tenant that the action belongs to."


class PayloadConflictError(InputError):
    """The same operation was asked before with other arguments. Nothing was executed."""

    code = "input.payload-conflict"
    remedy_default = "Use a new operation id for a new intention, or repeat the arguments of the first."


class ReviewError(InputError):
    """A decision about a review, or about a freeze, that cannot be taken. Nothing was changed. Codes: review.stale,
    .resolved, .not-offered, .self, .signature, .key-taken.
    """

    code = "review"
    remedy_default = "Look at `readback review show` for what may be decided now."


class SagaError(InputError):
    """A saga that may not be begun. `details["problems"]` lists all its faults at once. Nothing was done."""

    code = "input.saga"
    remedy_default = "Correct the named steps, and begin the saga again."


class ApprovalError(InputError):
    """An approval, or a denial, that does not count. Nothing was recorded and nothing executed. The code says why:
    approval.forged, .expired, .replayed, .mismatch, .policy-changed, .unknown-approver, .self; .key, .no-terminal.
    """

    code = "approval"
    remedy_default = "Look at `readback approve ID` for what is asked for now, and by whom it can be approved."


class LimitError(InputError):
    """The tenant has as much as its operator lets it have. Nothing was done, and nothing was recorded."""

    code = "limit"
    remedy_default = "Wait until something has ended, or have the operator raise the tenant's limit."


class InFlightLimitError(LimitError):
    """As many actions of the tenant wait for something as may."""

    code = "limit.in-flight"


class EvidenceLimitError(LimitError):
    """As much evidence of the tenant is kept as may be."""

    code = "limit.evidence"
    remedy_default = "Have the operator raise the tenant's limit of evidence."


class MissingScopeError(InputError):
    """The contract needs permission scopes that this client does not hold."""

    code = "input.missing-scope"
    remedy_default = "Open Readback with the scopes that the contract names under `scopes`."


class HeaderInjectionError(InputError):
    """A line break or another control character in what goes into a header."""

    code = "input.header-injection"
    remedy_default = "Remove control characters from header values."


class SandboxEscapeError(InputError):
    """A path that leaves the folder it was confined to."""

    code = "input.sandbox-escape"
    remedy_default = "Give a path inside the sandbox, without links out of it."


class HonestyError(ReadbackError, TypeError):
    """`bool()` of an outcome or a proposal: neither answer would be honest."""

    code = "usage.honesty"
    exit_code = 2
    remedy_default = "Ask `outcome.verified` or `outcome.state`; a proposal has done nothing until it is run."


# --- the contract's fault -----------------------------------------------------------------------------------


class ContractError(ReadbackError):
    """A contract that must not be run. Found when it is loaded."""

    code = "contract"
    exit_code = 5


class ContractFieldError(ContractError):
    """An unknown key, or a value that the key does not take."""

    code = "contract.field"
    remedy_default = "Compare the contract with the reference of keys."


class MissingPostconditionError(ContractError):
    """No postcondition: nothing could ever be verified."""

    code = "contract.missing-postcondition"
    remedy_default = "Say under `ensure` what must be true afterwards."


class MissingReaderError(ContractError):
    """No reader, and no `unverifiable` reason."""

    code = "contract.missing-reader"
    remedy_default = "Add a reader of the system of record, or `unverifiable:` with the reason."


class WeakReaderError(ContractError):
    """A reader below the consistency or independence that the side-effect class demands."""

    code = "contract.weak-reader"
    remedy_default = "Read by a more independent path, or more consistently; or lower what may be claimed."


class ExpressionError(ContractError):
    """An expression that is refused at load. Codes: expression.syntax, .type, .limit, .unknown-name,
    .forbidden.

    `column` counts from 1 within `source`; 0 where it is not known.
    """

    code = "expression"
    remedy_default = "Correct the expression; it was never evaluated."

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        column: int = 0,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        merged = {"source": source, "column": column, **(details or {})}
        super().__init__(message, remedy=remedy, details=merged, code=code)
        self.source = source
        self.column = column


EXPRESSION_CODES: Final = (
    "expression.syntax",
    "expression.type",
    "expression.limit",
    "expression.unknown-name",
    "expression.forbidden",
)


class TemplateError(ContractError):
    """A template that is malformed, or names what is not there."""

    code = "contract.template"
    remedy_default = "Templates take `{requested.name}` of arguments that exist."


class ContractChangedError(ContractError):
    """The contract at hand is not the version that the action began with."""

    code = "contract.changed"
    remedy_default = "Load the version the action began with, or resolve the action in review."


class SettingsError(ReadbackError):
    """Operator settings that are missing, malformed or not trusted."""

    code = "settings"
    exit_code = 5


class SinkError(SettingsError):
    """A message was not taken. It stays the subscriber's, and is told again later.

    `details`: `final` where it never will be taken, `retry_after_us` where the subscriber asks for a pause.
    """

    code = "settings.sink"
    remedy_default = "Look at what the subscriber names; `readback events list` says how it stands."


# --- the verifier's fault -----------------------------------------------------------------------------------


class VerifierError(ReadbackError):
    """Verification itself broke. The truth is undetermined: neither success nor failure may be said."""

    code = "verifier"
    exit_code = 5


class ReaderFailedError(VerifierError):
    """A reader raised, or its source answered with an error."""

    code = "verifier.reader-failed"
    remedy_default = "Look at the source of record; verification goes on by itself within its window."


class ReaderTypeError(VerifierError):
    """A reader returned what is not a Reading, or a value that has no JSON form."""

    code = "verifier.reader-type"
    remedy_default = "Return `Reading.of(...)` or `Reading.absent()`; in a contract file, correct where it looks."


class ReaderTimeoutError(VerifierError):
    """A reader did not answer in its time."""

    code = "verifier.reader-timeout"
    remedy_default = "Look at the source of record; verification goes on by itself within its window."


class OutOfScopeReadingError(VerifierError):
    """A reader brought a record of another tenant, target or region. Its content was not stored."""

    code = "verifier.out-of-scope"
    remedy_default = "Correct the reader's query: it must read by the identity of the request."


# --- the tool's fault ---------------------------------------------------------------------------------------


class ToolError(ReadbackError):
    """The tool could not be called as meant. Whether it had an effect is another question, and is read
    back.
    """

    code = "tool"
    exit_code = 3


class NotDispatchedError(ToolError):
    """Provably nothing left this process: the only tool failure after which no effect is looked for."""

    code = "tool.not-dispatched"
    exit_code = 1
    remedy_default = "Correct the cause; repeating is safe."


class ToolTimeoutError(ToolError):
    """The tool did not answer in its time. Its effect may have landed, or may land later."""

    code = "tool.timeout"
    remedy_default = "Do not repeat; the result is unknown and being verified."


# --- the store's fault --------------------------------------------------------------------------------------


class StoreError(ReadbackError):
    """The ledger could not be read or written. Nothing new was started."""

    code = "store"
    exit_code = 6


class StoreLockedError(StoreError):
    """Another process holds the database for longer than the busy limit."""

    code = "store.locked"
    remedy_default = "Find the process that holds the database; then run `readback resume`."


class StoreReadOnlyError(StoreError):
    """The database, or its folder, cannot be written."""

    code = "store.read-only"
    remedy_default = "Give the process the right to write the database file and its folder."


class StoreFullError(StoreError):
    """No space left for the database."""

    code = "store.full"
    remedy_default = "Free space on the volume; then run `readback resume`."


class StoreCorruptError(StoreError):
    """The database is not one of ours, or its content contradicts its hashes."""

    code = "store.corrupt"
    remedy_default = "Keep the file as it is, and restore the last backup; run `readback ledger verify`."


class StoreVersionError(StoreError):
    """The database has the schema of a newer release, which may have brought it up while this one ran."""

    code = "store.version"
    remedy_default = "Use the release that wrote it, or a later one: it goes on with what this one had in hand."


class SqliteTooOldError(StoreError):
    """The SQLite library has a known defect that can corrupt the write-ahead log."""

    code = "store.sqlite-too-old"
    remedy_default = "Install the apsw wheel, which brings its own SQLite."


class ConflictError(StoreError):
    """Compare-and-swap lost: the action has moved on since it was read. Nothing was appended."""

    code = "store.conflict"
    remedy_default = "Read the action again and decide anew."


class LeaseLostError(StoreError):
    """Another worker owns this action now. Nothing was appended."""

    code = "store.lease-lost"
    remedy_default = "Leave the action to its new owner."


class UnknownOutcomeError(StoreError):
    """The append after a side effect failed: the effect may have landed, and `outcome` says UNKNOWN."""

    code = "store.unknown-outcome"
    remedy_default = "Do not repeat the action; mend the store, then run `readback resume`."

    def __init__(
        self,
        message: str,
        *,
        outcome: object = None,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, details=details, code=code)
        self.outcome = outcome


# --- asked for, and ours ------------------------------------------------------------------------------------


class NotVerifiedError(ReadbackError):
    """`raise_unless_verified` found an outcome that is not verified. `outcome` is it; the exit code is its
    state's.
    """

    code = "outcome.not-verified"
    exit_code = 3
    remedy_default = "Tell no one that it is done; see `outcome.state` and `outcome.may_repeat`."

    def __init__(
        self,
        message: str,
        *,
        outcome: object = None,
        exit_code: int = 3,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, details=details, code=code)
        self.outcome = outcome
        self.exit_code = exit_code


class InvariantError(ReadbackError):
    """Something that must never be was about to be. A bug of ours; the action was stopped where it stood."""

    code = "internal.invariant"
    exit_code = 6
    remedy_default = "Report this with the action's `readback show --json`."


class AnchorError(ReadbackError):
    """A place for checkpoints cannot be reached or written, or did not answer in time. No action fails by it."""

    code = "anchor.failed"
    exit_code = 6
    remedy_default = "Look whether the place is there and may be written; the checkpoint is offered again."


class AnchorRefusedError(AnchorError):
    """A place for checkpoints answered that it does not take this one."""

    code = "anchor.refused"
    remedy_default = "Look whether it knows this log and its key; the checkpoint is offered again, ever more seldom."


class CitationError(InputError):
    """Nothing can be cited as asked. Codes: citation.not-standing, .erased, .place,
    .saga."""

    code = "citation"
    remedy_default = "Cite what is verified and stands; say of everything else what its outcome's message says."


NOT_STANDING: Final = "claim.not-standing"
"""The code of an action that was refused because something that it was planned upon does not stand."""


class ClaimError(InputError):
    """A claim cannot be retracted or reinstated as asked. Nothing was changed. Codes: claim.not-offered, .self,
    .signature, .malformed.
    """

    code = "claim"
    remedy_default = "Look at `readback claims list` and `readback claims check ID`."


class MalformedClaimError(ClaimError):
    """It is no claim id: that is an action's id with `:happened` or `:holds` behind it."""

    code = "claim.malformed"
    remedy_default = "Pass the id of a claim, of an action, or an outcome."


class DrillError(ReadbackError):
    """A drill could not show what the contract claims."""

    code = "drill"
    exit_code = 5


class DrillRefusedError(DrillError):
    """The drill may not be held: there is no safe twin, or what was asked for is not it. Nothing was called."""

    code = "drill.refused"
    remedy_default = "Declare a safe twin with the action's `.twin`, and drill that one."


class DoubledEffectError(DrillError):
    """Two calls under one key had two effects: the tool does not honour the key that its contract says it does."""

    code = "drill.two-effects"
    exit_code = 1
    remedy_default = "Take `honours_key` out of the contract until the tool does."


class AnswersDifferError(DrillError):
    """Two calls under one key had one effect, and the second answer differs where the contract relies on it."""

    code = "drill.answers-differ"
    exit_code = 1
    remedy_default = "Let the tool answer a repeated key as it answered the first, or do not rely on that field."


class DrillUndeterminedError(DrillError):
    """The drill was held and shows nothing: no effect was seen, or there is no way to see a second one."""

    code = "drill.undetermined"
    exit_code = 3
    remedy_default = "Give the contract a `find` by stamp, and a twin on which the action works."


class ErasureError(InputError):
    """Something is still to happen to the action, and needs what was to be erased. Nothing was erased."""

    code = "erasure.at-work"
    remedy_default = "Let it settle, cancel it or decide its review; then erase it."


class BackupError(StoreError):
    """There is no backup: it could not be written, or what was written is not sound."""

    code = "backup"
    remedy_default = "Name a file that is not there yet, on a volume with space; then take it again."


class RestoreError(StoreError):
    """The backup was not put in place. Neither it nor what stands at the target was changed."""

    code = "restore"
    remedy_default = "Take another backup, or read what is said about it and decide."


class ContractFileError(ContractError):
    """Contract files that cannot be used. `details["problems"]` holds every fault of every file, each with its place.

    Nothing of any of the files is loaded.
    """

    code = "contract.file"
    remedy_default = "Correct all that is named; `readback contracts check` names all faults."


class FittingError(ContractError):
    """What a contract file names cannot be had here: an extra that is not installed, or a tool of a server."""

    code = "contract.fitting"
    remedy_default = "Install the extra that is named, or run it where it can be had."


class UndecidedError(ContractError):
    """A value of a drafted contract that a person has to decide, and has not. Nothing of the file is used."""

    code = "contract.undecided"
    remedy_default = "Delete the word DECIDE to take what follows it, or write what is right in its place."


class OwnFileError(SandboxEscapeError):
    """An action would change a file of Readback's own: contract, settings, ledger, key, verifier or hook."""

    code = "input.own-file"
    remedy_default = "Give the executor a folder of its own, which holds no contracts, settings, ledger or keys."


class BundleError(InputError):
    """The file is no replay bundle, or something in it has another hash than it has to have. Nothing was replayed."""

    code = "bundle"
    remedy_default = "Export it again with `readback ledger export --bundle`; do not edit it."


class TableMissingError(InputError):
    """A recovery table by which was decided is neither the default one nor one that was named. Nothing was written."""

    code = "bundle.table"
    remedy_default = "Name its file with --table; it is known by the hash of its rows."


class ErasedEvidenceError(ReadbackError):
    """The bytes were erased. That is no damage: an entry of the action says so."""

    code = "evidence.erased"
    exit_code = 1
    remedy_default = "`readback show` names the entry that erased it, with its reason."


class SubmissionError(InputError):
    """What may be run here may not be left to somebody else: nothing was submitted, or what was is not executed."""

    code = "input.submission"
    remedy_default = "Run it where its contract is, with `run`."
