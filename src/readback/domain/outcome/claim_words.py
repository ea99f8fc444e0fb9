"""Texts about claims: for users beside an action's status, for the model as a separate line, for people.

Called by reporting and the command line. Every text is ours; no person's words and no tool's answer appear here. The
status of a claim comes from domain.claim.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from readback.domain.action.claim import (
    ADVICE,
    REASONS,
    Claim,
    ClaimEvent,
    ClaimKind,
    ClaimStatus,
    Reason,
    last_event_of,
    worst,
)

CONTRADICTED: Final = " A later reading contradicts what was found before."
_BY_A_PERSON: Final = " A person contradicts what was found before."
_AGAINST: Final = MappingProxyType(
    {
        (ClaimKind.HAPPENED, ClaimStatus.RETRACTED): " That it was done is retracted.",
        (
            ClaimKind.HOLDS,
            ClaimStatus.RETRACTED,
        ): " It was done then, and what it left holds no more: that is retracted.",
        (ClaimKind.HOLDS, ClaimStatus.CONTESTED): " It was done then; that what it left still holds is contested.",
    }
)
"""Texts for a user after a reported success, the gravest first."""
REINSTATED: Final = " It was contested since, and stands again."
FALLEN: Final = " What it was planned upon stands no more."
REFUSED: Final = FALLEN
PLAN_AGAIN: Final = "plan again from what is so now: what it was planned upon stands no more."
NOT_AS_IT_IS: Final = "not as it is: what it was planned upon stands no more."

_STATUS: Final = MappingProxyType(
    {
        ClaimStatus.NONE: "Nothing is claimed: it was not verified, or not so far.",
        ClaimStatus.STANDING: "It stands.",
        ClaimStatus.CONTESTED: "It is contested: do not rely on it.",
        ClaimStatus.RETRACTED: "It is retracted: do not rely on it.",
        ClaimStatus.REINSTATED: "It was contested, and stands again.",
    }
)


def against(said: tuple[ClaimEvent, ...], *, told: bool, contested: bool) -> str:
    """The text against an earlier report. `told`: the report was a success."""
    for (kind, status), words in _AGAINST.items() if told else ():
        found = last_event_of(said, kind)
        if found is not None and found.status is status:
            return words
    happened = last_event_of(said, ClaimKind.HAPPENED)
    if contested and happened is not None and happened.reason is Reason.PERSON:
        return _BY_A_PERSON
    return CONTRADICTED if contested else ""


def reinstated(said: tuple[ClaimEvent, ...]) -> str:
    """The text for a reinstated success."""
    return REINSTATED if worst(said) == ClaimStatus.REINSTATED else ""


def model_line(said: ClaimEvent) -> str:
    """A claim's last event, for the model."""
    what = f"that it {said.kind.value} is {said.status.value}"
    return f"Claim: {what} ({said.reason.value}, confidence {said.confidence}). {ADVICE[said.advice]}"


def describe_claim(claim: Claim) -> str:
    """The status of a claim and the reason, in a sentence or two, for a person."""
    text = _STATUS[claim.status]
    if claim.said is None or claim.said.status is not claim.status:
        return text
    row = REASONS[claim.said.reason]
    return f"{text} Why: {row.words} {ADVICE[claim.said.advice]}"
