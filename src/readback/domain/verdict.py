"""The words of a judgement: verdict, open reason, attribution, and trust level.

Used by reconciliation, reporting and the record. One word for each concept.

Source: the action verification specification, "Observation Trust Ladder"; the verdict rules of ARCHITECTURE.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Verdict(StrEnum):
    """Undetermined is neither success nor failure; not checked is never passed."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNDETERMINED = "undetermined"
    NOT_CHECKED = "not_checked"


class Why(StrEnum):
    """Why a verdict is undetermined; NONE for any other verdict."""

    NONE = ""
    PROPAGATING = "propagating"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    VERIFIER_ERROR = "verifier_error"
    UNVERIFIABLE = "unverifiable"
    OUT_OF_SCOPE = "out_of_scope"
    CONFLICTING = "conflicting"
    UNATTRIBUTED = "unattributed"
    SETTLING = "settling"
    """Everything holds. The stability period, or the window for duplicates, is still running."""


class Attribution(StrEnum):
    """The author of the state."""

    OURS = "ours"
    OTHER_ACTOR = "other_actor"
    ALREADY_SO = "already_so"
    UNKNOWN = "unknown"


class Level(IntEnum):
    """The trust ladder of the specification."""

    RAW = 0
    NORMALISED = 1
    VERIFIED = 2
    RECONCILED = 3
    AUDIT_CONFIRMED = 4
