"""Texts for the model about the next step: whether to ask again, and how to continue. Called by reporting alone.

Source: the action verification specification, "Next-step planning".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from readback.domain.discrepancy import Discrepancy
from readback.domain.idempotency import Resolution
from readback.domain.state import ReportKey
from readback.domain.verification.reading import UNREADABLE

_K = ReportKey

NEXT: Final = MappingProxyType(
    {
        _K.NOT_EXECUTED: "do not count on it; wait for what holds it, or plan without it.",
        _K.ATTEMPTED: "wait for verification; start nothing that depends on it.",
        _K.PENDING: "wait, poll or defer; start nothing that depends on it.",
        _K.RECONCILING: "wait; start nothing that depends on it.",
        _K.COMPLETED: "go on with the next dependent step.",
        _K.PARTIAL: "leave recovery to the system, ask the user, or escalate; do nothing that depends on it.",
        _K.FAILED: "repair the cause, plan anew, or stop.",
        _K.COMPENSATED: "plan anew from the reversed state.",
        _K.ROLLED_BACK: "plan anew from the unchanged state.",
        _K.UNKNOWN: "reconcile first; start nothing that depends on it.",
        _K.REVIEW: "stop this line of work until a person has decided.",
    }
)

NEXT_OF: Final = MappingProxyType(
    {
        Discrepancy.WRONG_TARGET_MODIFIED: "stop everything on this target: it is handled as an incident.",
        Discrepancy.STALE_STATE: "read the present state and plan anew from it.",
    }
)

NEXT_ATTESTED: Final = MappingProxyType(
    {
        Resolution.ATTESTED_DONE: "build on it only where a person's word is enough; it is attested, and not verified.",
        Resolution.ATTESTED_NOT_DONE: "ask for it again under the same operation, or plan without it.",
    }
)

REPETITION: Final = MappingProxyType(
    {
        _K.COMPLETED: "do not repeat this action; it is done.",
        _K.PARTIAL: "do not repeat this action; parts of it are done.",
        _K.REVIEW: "do not repeat this action; a person has to decide first.",
    }
)
NEVER_AS_IT_IS: Final = MappingProxyType(
    {
        UNREADABLE: "not as it is: what it asks for lies outside of what can be read here, and stays so.",
        "reader.out-of-scope": "not as it is: the reader brings another object, until its query is mended.",
    }
)
"""After a refusal with a lasting cause: the same request would be refused again."""
NEW_OPERATION: Final = "do not repeat this action as it is; a new intention needs a new operation."
