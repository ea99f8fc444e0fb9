"""The fixed words and numbers of delegations: events, the prompt of a further attempt, attributes of the span.

This module decides nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from readback.domain.tracing import names

RETRIES_DEFAULT: Final = 2
RETRIES_MAX: Final = 10
REASON_MAX_CHARACTERS: Final = 2_000
TASK_MAX_CHARACTERS: Final = 100_000
RESPONSE_MAX_BYTES: Final = 262_144
"""The size limit of one answer as JSON. A longer answer counts as no answer, since the ledger cannot keep the whole."""
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

SPAN: Final = names.DELEGATION_SPAN
ATTRIBUTE_ID: Final = names.DELEGATION_ID
ATTRIBUTE_KIND: Final = names.DELEGATION_KIND
ATTRIBUTE_ATTEMPTS: Final = names.DELEGATION_ATTEMPTS
ATTRIBUTE_PASSED: Final = names.DELEGATION_PASSED
ATTRIBUTE_OUTCOME: Final = names.DELEGATION_OUTCOME


class VerifyOutcome(StrEnum):
    """The result of a verification. UNDETERMINED neither accepts the work nor sends the delegate again."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDETERMINED = "undetermined"


def prompt_again(task: str, reason: str) -> str:
    """Return the prompt after a refutation: the fixed text, the verifier's reason and the task."""
    return PROMPT.replace("{reason}", bounded(reason)) + TASK.replace("{task}", task)


def bounded(reason: str) -> str:
    """Return a non-empty reason within the length limit."""
    text = reason.strip() or NO_REASON
    return text if len(text) <= REASON_MAX_CHARACTERS else text[: REASON_MAX_CHARACTERS - 1] + "…"
