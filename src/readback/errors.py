"""Public: every error that Readback raises, by consequence and by the side at fault.

    ReadbackError
    ├── CanonError (2)                  a value without an exact canonical form; see canon.fault
    ├── InputError (2)                  the caller's: only the rejection is recorded
    │   ├── ArgumentError, OversizeError, ProposalError, UsageError, NotFoundError
    │   ├── UnknownPrincipalError, UnknownTenantError, PayloadConflictError, ReviewError, SagaError
    │   ├── LimitError: InFlightLimitError, EvidenceLimitError; MissingScopeError, ApprovalError
    │   └── HeaderInjectionError, SandboxEscapeError
    ├── HonestyError (2, a TypeError)   `bool()` of an outcome or a proposal
    ├── ContractError (5)               the contract author's: found at load, before anything runs
    │   ├── ContractFieldError, MissingPostconditionError, MissingReaderError, WeakReaderError
    │   ├── ExpressionError, TemplateError
    │   └── ContractChangedError
    ├── SettingsError (5)               the operator's
    │   ├── SinkError                   of a message's receiver; no action fails by it
    │   └── TelemetryError              of a receiver of spans or metrics; no action fails by it
    ├── VerifierError (5)               the reader's or the predicate's: the outcome stays undetermined
    │   └── ReaderFailedError, ReaderTypeError, ReaderTimeoutError, OutOfScopeReadingError
    ├── ToolError (3)                   the tool's; drivers turn it into an observation
    │   └── NotDispatchedError, ToolTimeoutError
    ├── StoreError (6)                  the store's, or the machine's under it
    │   ├── StoreLockedError, StoreReadOnlyError, StoreFullError, StoreCorruptError
    │   ├── StoreVersionError, SqliteTooOldError
    │   ├── ConflictError, LeaseLostError
    │   └── UnknownOutcomeError         the worst case: an effect may have landed, its record has not
    ├── NotVerifiedError (by state)     raised by `raise_unless_verified`
    ├── DelegationFailedError (1)       refuted on every allowed attempt; see agent_errors
    ├── DrillError (5, 1, 3)            of drills alone
    ├── LogError (1)                    a proof or a log that does not verify; see log.fault
    │   ├── LogFormatError (2), LogUnplacedError (3), LogSignatureError
    │   └── LogProofError: LogCutError, LogForkError, LogOriginError, LogRewrittenError
    ├── TraceError (2)                  of a reasoning trace's files alone; see traces.format.fault
    │   └── TraceInputError, TracePolicyError (5), ArtifactError (1)
    ├── AnchorError (6)                 of an anchor for checkpoints; no action fails by it
    ├── MetricsError (5)                of a ledger's metrics; no action fails by it
    │   └── MetricsLabelError (2), MetricsPortError, CheckpointDamagedError
    └── InvariantError (6)              a bug of Readback, stopped before it could become a false report

Errors of one subject: AnchorRefusedError, AnswersDifferError, BackupError, BundleError, CitationError, ClaimError,
ContractFileError, DoubledEffectError, DrillRefusedError, DrillUndeterminedError, ErasedEvidenceError, ErasureError,
FittingError, MalformedClaimError, OwnFileError, RestoreError, SubmissionError, TableMissingError, UndecidedError.

Every room raises these errors. The number is the command line's exit code. `code` is stable between releases. Nothing
here logs. An unknown truth is an outcome and never an error.

Example:
    >>> from readback import Readback
    >>> from readback.errors import UsageError
    >>> with Readback.open("memory:") as rb:
    ...     try:
    ...         rb.find_operation("")
    ...     except UsageError as error:
    ...         print(error.code)
    input.usage
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
    "CheckpointDamagedError",
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
    "MetricsError",
    "MetricsLabelError",
    "MetricsPortError",
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
    "TelemetryError",
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
    """The request cannot be executed as given. No attempt was made; the same request gives the same error."""

    code = "input"
    exit_code = 2


class ArgumentError(InputError):
    """Arguments do not fit the action's parameters. `details["problems"]` lists every problem."""

    code = "input.arguments"
    remedy_default = "Correct the named arguments and propose the action again."


class OversizeError(InputError):
    """A value exceeds a size limit."""

    code = "input.oversize"
    remedy_default = "Pass a reference or a digest in place of the whole value."


class ProposalError(InputError):
    """A proposal cannot be run: it was run already, belongs to another runtime, or lacks a required operation."""

    code = "input.proposal"
    remedy_default = "Create a new proposal and pass an operation id."


class UsageError(InputError):
    """The library or the command line was used in an invalid way, for example after being closed."""

    code = "input.usage"


class NotFoundError(InputError):
    """This tenant has no action, contract or item of that name."""

    code = "input.not-found"
    remedy_default = "Run `readback list` to see this tenant's ids."


class UnknownPrincipalError(InputError):
    """The contract does not allow this principal to act."""

    code = "input.unknown-principal"
    remedy_default = "Use a principal listed in the contract's `principals`."


class UnknownTenantError(InputError):
    """The tenant is missing, or the action belongs to another tenant."""

    code = "input.unknown-tenant"
    remedy_default = "Open Readback with the action's own tenant."


class PayloadConflictError(InputError):
    """The same operation was requested before with other arguments. Nothing was executed."""

    code = "input.payload-conflict"
    remedy_default = "Use a new operation id for a new intent, or repeat the first arguments."


class ReviewError(InputError):
    """A decision about a review or a freeze was rejected. Nothing was changed. Codes: review.stale, .resolved,
    .not-offered, .self, .signature, .key-taken.
    """

    code = "review"
    remedy_default = "Run `readback review show` to see the allowed decisions."


class SagaError(InputError):
    """A saga cannot start. `details["problems"]` lists every fault. Nothing was done."""

    code = "input.saga"
    remedy_default = "Correct the named steps, then start the saga again."


class ApprovalError(InputError):
    """An approval or a denial does not count. Nothing was recorded or executed. The code gives the reason:
    approval.forged, .expired, .replayed, .mismatch, .policy-changed, .unknown-approver, .self; .key, .no-terminal.
    """

    code = "approval"
    remedy_default = "Run `readback approve ID` to see the current request and its approvers."


class LimitError(InputError):
    """The tenant has reached a limit set by the operator. Nothing was done, and nothing was recorded."""

    code = "limit"
    remedy_default = "Wait until an action has ended, or ask the operator to raise the tenant's limit."


class InFlightLimitError(LimitError):
    """The tenant has the maximum number of waiting actions."""

    code = "limit.in-flight"


class EvidenceLimitError(LimitError):
    """The tenant has the maximum amount of stored evidence."""

    code = "limit.evidence"
    remedy_default = "Ask the operator to raise the tenant's evidence limit."


class MissingScopeError(InputError):
    """The contract needs permission scopes that this client lacks."""

    code = "input.missing-scope"
    remedy_default = "Open Readback with the scopes listed in the contract's `scopes`."


class HeaderInjectionError(InputError):
    """The value of a header contains a line break or another control character."""

    code = "input.header-injection"
    remedy_default = "Remove control characters from header values."


class SandboxEscapeError(InputError):
    """A path leaves the folder that confines it."""

    code = "input.sandbox-escape"
    remedy_default = "Pass a path inside the sandbox, without links to the outside."


class HonestyError(ReadbackError, TypeError):
    """`bool()` of an outcome or a proposal was requested: neither answer would be honest."""

    code = "usage.honesty"
    exit_code = 2
    remedy_default = "Read `outcome.verified` or `outcome.state`; a proposal does nothing before `run`."


# --- the contract's fault -----------------------------------------------------------------------------------


class ContractError(ReadbackError):
    """A contract must not be run. Found at load."""

    code = "contract"
    exit_code = 5


class ContractFieldError(ContractError):
    """A contract has an unknown key, or an invalid value for a key."""

    code = "contract.field"
    remedy_default = "Compare the contract with the key reference in docs/reference/contracts.md."


class MissingPostconditionError(ContractError):
    """A contract has no postcondition, so nothing could ever be verified."""

    code = "contract.missing-postcondition"
    remedy_default = "Add the expected state under `ensure`."


class MissingReaderError(ContractError):
    """A contract has no reader and no `unverifiable` reason."""

    code = "contract.missing-reader"
    remedy_default = "Add a reader of the system of record, or `unverifiable:` with the reason."


class WeakReaderError(ContractError):
    """A reader's consistency or independence is below the side-effect class's minimum."""

    code = "contract.weak-reader"
    remedy_default = "Use a more independent or more consistent reader, or lower the class."


class ExpressionError(ContractError):
    """An expression was rejected at load. Codes: expression.syntax, .type, .limit, .unknown-name, .forbidden.

    `column` counts from 1 within `source`; 0 where the column is unknown.
    """

    code = "expression"
    remedy_default = "Correct the expression. Nothing was evaluated."

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


class TemplateError(ContractError):
    """A template is malformed, or names a missing value."""

    code = "contract.template"
    remedy_default = "Use `{requested.name}` with the name of an existing argument."


class ContractChangedError(ContractError):
    """The loaded contract has another version than the contract at the action's start."""

    code = "contract.changed"
    remedy_default = "Load the contract version of the action's start, or resolve the action in review."


class SettingsError(ReadbackError):
    """Operator settings are missing, malformed or not trusted."""

    code = "settings"
    exit_code = 5


class SinkError(SettingsError):
    """A subscriber did not accept a message. The message stays in the subscriber's queue and is sent again later.

    `details`: `final` for a permanent rejection, `retry_after_us` for a requested pause in microseconds.
    """

    code = "settings.sink"
    remedy_default = "Check the subscriber's target; `readback events list` shows its position."


class TelemetryError(SettingsError):
    """A receiver of spans did not accept them, or telemetry is set up wrongly. Actions continue.

    Spans follow from the ledger, so nothing is lost: the follower sends them again later.
    """

    code = "telemetry"
    remedy_default = "Check the endpoint and the OTEL_EXPORTER_OTLP_* variables. Actions continue without export."


# --- the verifier's fault -----------------------------------------------------------------------------------


class VerifierError(ReadbackError):
    """Verification itself failed. The truth is undetermined: neither success nor failure may be reported."""

    code = "verifier"
    exit_code = 5


class ReaderFailedError(VerifierError):
    """A reader raised, or the reader's source answered with an error."""

    code = "verifier.reader-failed"
    remedy_default = "Check the system of record; verification continues within its window."


class ReaderTypeError(VerifierError):
    """A reader returned no Reading, or a value without a JSON form."""

    code = "verifier.reader-type"
    remedy_default = "Return `Reading.of(...)` or `Reading.absent()`; in a contract file, correct the reader's keys."


class ReaderTimeoutError(VerifierError):
    """A reader exceeded its time limit."""

    code = "verifier.reader-timeout"
    remedy_default = "Check the system of record; verification continues within its window."


class OutOfScopeReadingError(VerifierError):
    """A reader returned a record of another tenant, target or region. The record's content was not stored."""

    code = "verifier.out-of-scope"
    remedy_default = "Correct the reader's query: select the record by the request's identity."


# --- the tool's fault ---------------------------------------------------------------------------------------


class ToolError(ReadbackError):
    """The tool could not be called as intended. The call may still have had an effect, so the state is read back."""

    code = "tool"
    exit_code = 3


class NotDispatchedError(ToolError):
    """Provably nothing left this process. After this tool failure alone, no effect is searched."""

    code = "tool.not-dispatched"
    exit_code = 1
    remedy_default = "Correct the cause; repeating is safe."


class ToolTimeoutError(ToolError):
    """The tool exceeded its time limit. The effect may have landed, or may land later."""

    code = "tool.timeout"
    remedy_default = "Do not repeat; the result is unknown and being verified."


# --- the store's fault --------------------------------------------------------------------------------------


class StoreError(ReadbackError):
    """The ledger could not be read or written. Nothing new was started."""

    code = "store"
    exit_code = 6


class StoreLockedError(StoreError):
    """Another process holds the database longer than the busy limit."""

    code = "store.locked"
    remedy_default = "Find the process that locks the database, then run `readback resume`."


class StoreReadOnlyError(StoreError):
    """The database, or its folder, cannot be written."""

    code = "store.read-only"
    remedy_default = "Grant the process write access to the database file and its folder."


class StoreFullError(StoreError):
    """The database has no space left."""

    code = "store.full"
    remedy_default = "Free space on the volume; then run `readback resume`."


class StoreCorruptError(StoreError):
    """The database is no ledger, or its content contradicts its hashes."""

    code = "store.corrupt"
    remedy_default = "Keep the file unchanged, restore the last backup, then run `readback ledger verify`."


class StoreVersionError(StoreError):
    """The database has the schema of a newer release, perhaps migrated while this process ran."""

    code = "store.version"
    remedy_default = "Use the release that wrote the schema, or a later one: it continues the actions in progress."


class SqliteTooOldError(StoreError):
    """The SQLite library has a known defect that can corrupt the write-ahead log."""

    code = "store.sqlite-too-old"
    remedy_default = "Install the apsw wheel; it contains its own SQLite."


class ConflictError(StoreError):
    """A compare-and-swap was lost: the action changed after the read. Nothing was appended."""

    code = "store.conflict"
    remedy_default = "Read the action again, then decide again."


class LeaseLostError(StoreError):
    """Another worker owns this action now. Nothing was appended."""

    code = "store.lease-lost"
    remedy_default = "Leave the action to its new owner."


class UnknownOutcomeError(StoreError):
    """The append after a side effect failed: the effect may have landed, and `outcome` says UNKNOWN."""

    code = "store.unknown-outcome"
    remedy_default = "Do not repeat the action. Repair the store, then run `readback resume`."

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
    """`raise_unless_verified` found an unverified outcome. `outcome` holds the outcome; the exit code follows from its
    state.
    """

    code = "outcome.not-verified"
    exit_code = 3
    remedy_default = "Do not report the action as done; read `outcome.state` and `outcome.may_repeat`."

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
    """An internal invariant would have been violated.

    This is a bug in Readback; the action was stopped at that point.
    """

    code = "internal.invariant"
    exit_code = 6
    remedy_default = "Report this with the action's `readback show --json`."


class AnchorError(ReadbackError):
    """An anchor for checkpoints cannot be reached or written, or did not answer in time.

    No action fails by this error.
    """

    code = "anchor.failed"
    exit_code = 6
    remedy_default = "Check that the anchor exists and is writable; the checkpoint is offered again."


class MetricsError(ReadbackError):
    """The metrics of a ledger cannot be served or kept. No action is affected."""

    code = "metrics"
    exit_code = 5


class MetricsPortError(MetricsError):
    """The port for `/metrics` is in use, or the address is not available."""

    code = "metrics.port"
    remedy_default = "Choose a free port with --metrics-port."


class MetricsLabelError(MetricsError):
    """A constant label of the metrics has an invalid or reserved name, or an invalid value."""

    code = "metrics.label"
    exit_code = 2
    remedy_default = "Pass --label NAME=VALUE, such as --label environment=production."


class CheckpointDamagedError(MetricsError):
    """The checkpoint of the metrics is damaged or unreadable. The ledger is folded anew."""

    code = "metrics.checkpoint"
    remedy_default = "Nothing to do: the next checkpoint replaces the file. Check the disk if this repeats."


class AnchorRefusedError(AnchorError):
    """An anchor rejected this checkpoint."""

    code = "anchor.refused"
    remedy_default = (
        "Check that the anchor knows this log and its key; the checkpoint is offered again, with growing pauses."
    )


class CitationError(InputError):
    """The citation cannot be made. Codes: citation.not-standing, .erased, .place, .saga."""

    code = "citation"
    remedy_default = "Cite verified, standing claims only. For everything else, use the outcome's message."


NOT_STANDING: Final = "claim.not-standing"
"""The code of an action refused because a claim among its dependencies does not stand."""


class ClaimError(InputError):
    """A claim cannot be retracted or reinstated as requested. Nothing was changed. Codes: claim.not-offered, .self,
    .signature, .malformed.
    """

    code = "claim"
    remedy_default = "Run `readback claims list` and `readback claims check ID`."


class MalformedClaimError(ClaimError):
    """The text is no claim id. A claim id is an action's id followed by `:happened` or `:holds`."""

    code = "claim.malformed"
    remedy_default = "Pass the id of a claim, of an action, or an outcome."


class DrillError(ReadbackError):
    """A drill could not confirm the contract's claim."""

    code = "drill"
    exit_code = 5


class DrillRefusedError(DrillError):
    """The drill may not run: there is no safe twin, or the request names another target. Nothing was called."""

    code = "drill.refused"
    remedy_default = "Declare a safe twin with the action's `.twin`, then drill the twin."


class DoubledEffectError(DrillError):
    """Two calls under one key had two effects: the tool does not honour the key as the contract claims."""

    code = "drill.two-effects"
    exit_code = 1
    remedy_default = "Remove `honours_key` from the contract until the tool honours the key."


class AnswersDifferError(DrillError):
    """Two calls under one key had one effect, and the second answer differs where the contract relies on it."""

    code = "drill.answers-differ"
    exit_code = 1
    remedy_default = "Make the tool repeat its first answer for a repeated key, or do not rely on that field."


class DrillUndeterminedError(DrillError):
    """The drill ran and shows nothing: no effect was seen, or a second effect could not be seen."""

    code = "drill.undetermined"
    exit_code = 3
    remedy_default = "Add a `find` by stamp to the contract, and a twin where the action works."


class ErasureError(InputError):
    """The action still needs the data named for erasure. Nothing was erased."""

    code = "erasure.at-work"
    remedy_default = "Let the action settle, cancel it, or decide its review. Then erase it."


class BackupError(StoreError):
    """No backup was made: writing failed, or the written file is not sound."""

    code = "backup"
    remedy_default = "Name a new file on a volume with free space, then run the backup again."


class RestoreError(StoreError):
    """The backup was not installed. Neither the backup nor the target was changed."""

    code = "restore"
    remedy_default = "Use another backup, or read the message and decide."


class ContractFileError(ContractError):
    """Contract files cannot be used. `details["problems"]` holds every fault of every file, each with its place.

    None of the files is loaded.
    """

    code = "contract.file"
    remedy_default = "Correct every listed fault; `readback contracts check` lists all of them."


class FittingError(ContractError):
    """A system named in a contract file is unavailable: an extra is not installed, or a server lacks a tool."""

    code = "contract.fitting"
    remedy_default = "Install the named extra, or run the contract where the system is available."


class UndecidedError(ContractError):
    """A drafted contract has a value still waiting for a person's decision. Nothing of the file is used."""

    code = "contract.undecided"
    remedy_default = "Delete the word DECIDE to accept the proposal, or write the right value."


class OwnFileError(SandboxEscapeError):
    """An action would change a file of Readback's own: contract, settings, ledger, key, verifier or hook."""

    code = "input.own-file"
    remedy_default = "Give the executor a separate folder without contracts, settings, ledger or keys."


class BundleError(InputError):
    """The file is no replay bundle, or a part of the bundle has a wrong hash. Nothing was replayed."""

    code = "bundle"
    remedy_default = "Export the bundle again with `readback ledger export --bundle`; do not edit the file."


class TableMissingError(InputError):
    """A recovery table used by a recorded decision is neither the default table nor a named one.

    Nothing was written.
    """

    code = "bundle.table"
    remedy_default = "Name the table's file with --table; the hash of the rows identifies the table."


class ErasedEvidenceError(ReadbackError):
    """The bytes were erased. An entry of the action records the erasure, so this is no damage."""

    code = "evidence.erased"
    exit_code = 1
    remedy_default = "Run `readback show` to see the erasing entry and its reason."


class SubmissionError(InputError):
    """This action may not be left to another process. Nothing was submitted, or the submission is not executed."""

    code = "input.submission"
    remedy_default = "Run the action with `run` in the process that has its contract."
