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

from readback.canon.fault import (
    CanonError,
    EnvelopeProfileError,
    MalformedJsonError,
    ReadbackError,
    UnsupportedValueError,
    ValueTooLargeError,
)
from readback.errors.author import (
    CheckpointDamagedError,
    ContractChangedError,
    ContractError,
    ContractFieldError,
    ContractFileError,
    ExpressionError,
    FittingError,
    MetricsError,
    MetricsLabelError,
    MetricsPortError,
    MissingPostconditionError,
    MissingReaderError,
    SettingsError,
    SinkError,
    TelemetryError,
    TemplateError,
    UndecidedError,
    WeakReaderError,
)
from readback.errors.caller import (
    NOT_STANDING as NOT_STANDING,
)
from readback.errors.caller import (
    ApprovalError,
    ArgumentError,
    BundleError,
    CitationError,
    ClaimError,
    ErasureError,
    EvidenceLimitError,
    HeaderInjectionError,
    HonestyError,
    InFlightLimitError,
    InputError,
    LimitError,
    MalformedClaimError,
    MissingScopeError,
    NotFoundError,
    OversizeError,
    OwnFileError,
    PayloadConflictError,
    ProposalError,
    ReviewError,
    SagaError,
    SandboxEscapeError,
    SubmissionError,
    TableMissingError,
    UnknownPrincipalError,
    UnknownTenantError,
    UsageError,
)
from readback.errors.ledger import (
    AnchorError,
    AnchorRefusedError,
    BackupError,
    ConflictError,
    ErasedEvidenceError,
    InvariantError,
    LeaseLostError,
    RestoreError,
    SqliteTooOldError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreVersionError,
    UnknownOutcomeError,
)
from readback.errors.outcome import (
    AnswersDifferError,
    DoubledEffectError,
    DrillError,
    DrillRefusedError,
    DrillUndeterminedError,
    NotDispatchedError,
    NotVerifiedError,
    OutOfScopeReadingError,
    ReaderFailedError,
    ReaderTimeoutError,
    ReaderTypeError,
    ToolError,
    ToolTimeoutError,
    VerifierError,
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
