"""What a judgement can say: verdict, why it is open, whose doing, and how far it may be trusted.

Used by reconciliation, reporting and the record. Words only; one word a concept.

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
    """Why a verdict is undetermined; NONE where it is not."""

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
    """Everything holds, and the time for which it has to hold (or in which a duplicate may appear) runs on."""


class Attribution(StrEnum):
    """Whose doing the state is."""

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
