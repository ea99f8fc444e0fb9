"""Labels for people for stored states and attributions. `-v` and `--json` show the stored words.

Each label stands for one stored word and decides nothing.
"""

from __future__ import annotations

from typing import Final

from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verdict import Attribution

VERIFIED: Final = "verified"
FALLEN: Final = "no longer verified"
LOCKED: Final = "locked"
FROZEN: Final = "frozen"
"""The stored hold of an action on a frozen target."""
ATTRIBUTION: Final = {
    Attribution.OURS: "caused by this call",
    Attribution.OTHER_ACTOR: "caused by another actor",
    Attribution.ALREADY_SO: "already so before this call",
    Attribution.UNKNOWN: "not shown",
}


def state_label(state: str, *, standing: bool, hold: str = "") -> str:
    """The label of a stored state.

    Example:
        >>> state_label("reconciled_success", standing=True)
        'verified'
        >>> state_label("validated", standing=False, hold="frozen")
        'locked'
    """
    if hold == FROZEN:
        return LOCKED
    if state == State.RECONCILED_SUCCESS:
        return VERIFIED if standing else FALLEN
    return str(state).replace("_", " ")


def outcome_label(outcome: Outcome) -> str:
    """The label of an outcome. A retracted success is no longer verified."""
    return state_label(outcome.state.value, standing=outcome.standing, hold=outcome.hold)
