"""The fixed words and numbers of delegations: events, the prompt that sends a delegate again, attributes of the span.

Used by whoever sends, verifies or reports a delegation. It decides nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

RETRIES_DEFAULT: Final = 2
RETRIES_MAX: Final = 10
REASON_MAX_CHARACTERS: Final = 2_000
TASK_MAX_CHARACTERS: Final = 100_000
RESPONSE_MAX_BYTES: Final = 262_144
"""Of one answer, as JSON. A longer one is no answer: it could not be kept whole."""
PRIORITY_MAX: Final = 1_000_000

POST_VERIFY: Final = "delegation.post_verify"
POST: Final = "delegation.post"
EVENTS: Final = (POST_VERIFY, POST)

NO_REASON: Final = "verifier returned verified=false with no reason"
BARE_FALSE: Final = "verifier returned bare false"
PROMPT: Final = (
    "VERIFICATION FAILED on the previous attempt: {reason}\n\n"
    "The task is NOT complete. Re-examine the actual state of the world and finish the work. "
    "Do not just claim success — actually verify the side effects exist before responding."
)
TASK: Final = "\n\nThe task:\n{task}"

SPAN: Final = "delegation.execute"
ATTRIBUTE_ID: Final = "delegation.id"
ATTRIBUTE_KIND: Final = "delegation.kind"
ATTRIBUTE_ATTEMPTS: Final = "delegation.verify_attempts"
ATTRIBUTE_PASSED: Final = "delegation.verify_passed"
ATTRIBUTE_OUTCOME: Final = "delegation.verify_outcome"


class VerifyOutcome(StrEnum):
    """What verification came to. UNDETERMINED is neither: the delegate is not sent again, and nothing is accepted."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDETERMINED = "undetermined"


def prompt_again(task: str, reason: str) -> str:
    """What a refuted delegate is told: the fixed text with the verifier's reason, and the task that it still has."""
    return PROMPT.replace("{reason}", bounded(reason)) + TASK.replace("{task}", task)


def bounded(reason: str) -> str:
    """A reason that is there, and no longer than may be told."""
    text = reason.strip() or NO_REASON
    return text if len(text) <= REASON_MAX_CHARACTERS else text[: REASON_MAX_CHARACTERS - 1] + "…"
