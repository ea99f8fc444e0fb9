"""The words of a judgement: verdict, open reason, attribution, and trust level.

Used by reconciliation, reporting and the record. One word for each concept.

Source: the action verification specification, "Observation Trust Ladder"; the verdict rules of ARCHITECTURE.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Verdict(StrEnum):
    """Undetermined is neither success nor failure; not checked is never passed.

    Example:
        >>> from readback import Readback, Verdict, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> str: return "ok"
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.verdict.value, outcome.verdict is Verdict.VERIFIED)
        undetermined False
    """

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNDETERMINED = "undetermined"
    NOT_CHECKED = "not_checked"


class Why(StrEnum):
    """Why a verdict is undetermined; NONE for any other verdict.

    Example:
        >>> from readback import Readback, Why, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> def read_lamp() -> dict[str, bool]:
        ...     if lamp["on"]: raise ConnectionError("The controller cannot be reached.")
        ...     return lamp
        >>> switch = verified(switch_on, read=read_lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.verdict.value, outcome.why is Why.UNREACHABLE, outcome.why.value)
        undetermined True unreachable
    """

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
    """The author of the state.

    Example:
        >>> from readback import Attribution, Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.verified, outcome.attribution.value, outcome.attribution is Attribution.OURS)
        True unknown False
    """

    OURS = "ours"
    OTHER_ACTOR = "other_actor"
    ALREADY_SO = "already_so"
    UNKNOWN = "unknown"


class Level(IntEnum):
    """The trust ladder of the specification.

    Example:
        >>> from readback import Level, Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.level.name, outcome.level >= Level.VERIFIED)
        RECONCILED True
    """

    RAW = 0
    NORMALISED = 1
    VERIFIED = 2
    RECONCILED = 3
    AUDIT_CONFIRMED = 4
