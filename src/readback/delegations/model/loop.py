"""Decides from the last attempt's outcome alone whether to send a delegate again.

A delegate is sent again only after a final refuted outcome, never after an open outcome.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from readback.canon import Json, json_text
from readback.delegations.model.words import NO_REASON, bounded
from readback.domain.discrepancy import Discrepancy
from readback.domain.idempotency import Resolution
from readback.domain.outcome.outcome import Outcome
from readback.domain.predicate import Truth
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why

VERDICT_KEY: Final = "$delegation"
"""The verifiers' key in a reading."""
VALUE_MAX_CHARACTERS: Final = 200
_NOT_AGAIN: Final = frozenset(
    {
        Discrepancy.DUPLICATE_SIDE_EFFECT,
        Discrepancy.WRONG_TARGET_MODIFIED,
        Discrepancy.COMPENSATION_REQUIRED,
        Discrepancy.STALE_STATE,
    }
)
"""Findings for a person: more work by the same delegate would do harm."""


class NextMove(StrEnum):
    """The step after an attempt."""

    ACCEPT = "accept"
    AGAIN = "again"
    EXHAUSTED = "exhausted"
    BROKEN = "broken"
    """A verifier failed."""
    SKIPPED = "skipped"
    """No verifier was applicable."""
    OPEN = "open"


def after(outcome: Outcome, attempt: int, retries: int) -> NextMove:
    """Return the step after the attempt of this number, counted from 0."""
    if outcome.standing:
        return NextMove.ACCEPT
    if outcome.why is Why.UNVERIFIABLE and outcome.attempted:
        return NextMove.SKIPPED
    if outcome.why is Why.VERIFIER_ERROR and outcome.settled:
        return NextMove.BROKEN
    refuted = outcome.settled and outcome.verdict is Verdict.REFUTED and not outcome.contested and outcome.attempted
    ended = outcome.resolution is Resolution.ATTESTED_DONE or outcome.state is State.ABANDONED
    if not refuted or ended or outcome.discrepancy in _NOT_AGAIN or not has_answered(outcome):
        return NextMove.OPEN
    return NextMove.AGAIN if attempt < retries else NextMove.EXHAUSTED


def has_answered(outcome: Outcome) -> bool:
    """Whether an answer is on record. Without an answer the delegate may still work, beyond any late window."""
    seen = outcome.observation
    return seen is not None and isinstance(seen.body, dict) and "response" in seen.body


def reason_of(outcome: Outcome) -> str:
    """Return the reason of a refutation: the verifiers' words and the failed postconditions."""
    said = verdict_in(outcome)
    found = [str(said["reason"])] if said.get("verified") is False and said.get("reason") else []
    for each in outcome.postconditions:
        if each.truth is Truth.VIOLATED and each.name != "verified":
            seen = ", ".join(f"{path} is {_shown(value)}" for path, value in each.values)
            found.append(f"{each.name} does not hold: {each.source}" + (f" ({seen})" if seen else ""))
    if not found and outcome.discrepancy is not None:
        found.append(outcome.discrepancy.value.replace("_", " "))
    return bounded("; ".join(found) or outcome.detail or NO_REASON)


def verdict_in(outcome: Outcome) -> dict[str, Json]:
    """Return the verifiers' verdict in the last reading, or an empty mapping."""
    seen = outcome.authoritative
    found = seen.get(VERDICT_KEY) if isinstance(seen, dict) else None
    return found if isinstance(found, dict) else {}


def _shown(value: Json) -> str:
    text = json_text(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= VALUE_MAX_CHARACTERS else text[: VALUE_MAX_CHARACTERS - 1] + "…"
