"""A delegation's record: each attempt's outcome, the result, and the four attributes of the span.

The record exists on every path, errors included. An answer is a claim. Only `passed` means a verified effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, NoReturn

from readback.canon import Json, json_text, json_value, payload_bytes
from readback.canon.frozen import dataclass
from readback.delegations.model import words
from readback.delegations.model.words import RESPONSE_MAX_BYTES, VerifyOutcome
from readback.domain.context import Context
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import EXIT_FAILED, EXIT_UNDETERMINED
from readback.errors import HonestyError, ToolError

# The input of a delegate: the task, the prompt and the conversation so far. The output: the delegate's answer.

LISTS: Final = ("tool_calls", "tool_results")
NOTHING_ANSWERED: Final = "No answer was recorded for the attempt."


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a delegate.

    Attributes:
        prompt: The task at first. From the second turn on the fixed text with the reason of the refutation.
        history: Every earlier prompt with its answer, so the conversation can continue anywhere.
        ctx: The context with the stamp and the idempotency key of this attempt.

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> turns: list[Turn] = []
        >>> def check(result): return {"verified": len(turns) > 1, "reason": "no order is named"}
        >>> @delegation(name="writer", verify=check, within="10ms")
        ... def writer(turn: Turn) -> str:
        ...     turns.append(turn)
        ...     return "The order is o-17."
        >>> with Readback.open("memory:") as rb:
        ...     delegated = writer.run(rb, "Name the order.")
        >>> print([turn.attempt for turn in turns], turns[1].history)
        [0, 1] (('Name the order.', 'The order is o-17.'),)
        >>> print(turns[1].prompt.splitlines()[0])
        VERIFICATION FAILED on the previous attempt: no order is named
    """

    ctx: Context
    delegation: str
    attempt: int
    task: str
    prompt: str
    args: Mapping[str, Json]
    history: tuple[tuple[str, str], ...] = ()

    @property
    def transcript(self) -> str:
        """Return the whole conversation as one text, for a delegate without memory."""
        said = [f"USER:\n{prompt}\n\nASSISTANT:\n{answer}\n" for prompt, answer in self.history]
        return "\n".join([*said, f"USER:\n{self.prompt}\n"]) if said else self.prompt


def result_of(answer: object) -> dict[str, Json]:
    """Return the answer as `response`, `tool_calls` and `tool_results`. Raises ToolError for an answer above the
    limits.
    """
    value = json_value(answer)
    if not isinstance(value, dict) or not isinstance(value.get("response"), str):
        text = value if isinstance(value, str) else "" if value is None else json_text(value, ensure_ascii=False)
        value = {"response": text}
    for key in LISTS:
        if not isinstance(value.setdefault(key, []), list):
            raise ToolError(f"The delegate's {key!r} is no list.", remedy="What it did is being read back.")
    if len(payload_bytes(value)) > RESPONSE_MAX_BYTES:
        raise ToolError(
            f"The delegate's answer is over {RESPONSE_MAX_BYTES} bytes.", remedy="What it did is being read back."
        )
    return value


def answered(observed: Json) -> bool:
    """Whether an answer is on record. Without an answer the delegate may still work."""
    return isinstance(observed, dict) and isinstance(observed.get("response"), str)


def observed_result(observed: Json, delegation: str) -> dict[str, Json]:
    """Return the result for verifiers: the recorded answer, or an empty result with a note.

    `id` is the delegation's id, independent of the answer. A verifier may search by this id.
    """
    if isinstance(observed, dict) and answered(observed):
        return {**observed, "id": delegation}
    return {"id": delegation, "response": "", "tool_calls": [], "tool_results": [], "error": NOTHING_ANSWERED}


@dataclass(slots=True)
class Delegated:
    """The result of a delegation. It has no truth value: use `passed`.

    Attributes:
        result: The delegate's last answer after the hooks; None if withheld or absent.
        attempts: The number of verified attempts.
        withheld: The reason of a hook against the hand-over of an accepted result.

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> @delegation(name="writer", verify=lambda result: "o-17" in result["response"], within="10ms")
        ... def writer(turn: Turn) -> str: return "The order is o-17."
        >>> with Readback.open("memory:") as rb:
        ...     delegated = writer.run(rb, "Name the order.")
        >>> print(delegated.passed, delegated.attempts, delegated.response)
        True 1 The order is o-17.
    """

    id: str
    task: str
    kind: str = ""
    verify_outcome: VerifyOutcome = VerifyOutcome.UNDETERMINED
    attempts: int = 0
    reason: str = ""
    result: dict[str, Json] | None = None
    withheld: str = ""
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether the last attempt was verified and no hook withheld the result."""
        return self.verify_outcome is VerifyOutcome.PASSED and not self.withheld

    @property
    def response(self) -> str:
        """The delegate's last words."""
        return str((self.result or {}).get("response", ""))

    @property
    def attributes(self) -> dict[str, Json]:
        """The attributes of the span `delegation.execute`."""
        return {
            words.ATTRIBUTE_ID: self.id,
            words.ATTRIBUTE_KIND: self.kind,
            words.ATTRIBUTE_ATTEMPTS: self.attempts,
            words.ATTRIBUTE_PASSED: self.verify_outcome is VerifyOutcome.PASSED,
            words.ATTRIBUTE_OUTCOME: self.verify_outcome.value,
        }

    @property
    def exit_code(self) -> int:
        """The command line's exit code: 0 only if `passed`."""
        if self.passed:
            return 0
        if self.withheld or self.verify_outcome is VerifyOutcome.FAILED:
            return EXIT_FAILED
        last = self.outcomes[-1] if self.outcomes else None
        if last is None or (last.attempted and last.exit_code == EXIT_FAILED):
            return EXIT_UNDETERMINED  # what was refuted, and may still be at work
        return last.exit_code or EXIT_UNDETERMINED

    def as_json(self) -> dict[str, Json]:
        """Return plain data for `--json` and for programs."""
        return {
            "id": self.id,
            "passed": self.passed,
            "verify_outcome": self.verify_outcome.value,
            "attempts": self.attempts,
            "reason": self.reason,
            "withheld": self.withheld,
            "result": self.result,
            "attributes": self.attributes,
            "actions": [each.id for each in self.outcomes],
            "exit_code": self.exit_code,
        }

    def __bool__(self) -> NoReturn:
        raise HonestyError("A delegation is neither true nor false.", remedy="Ask `.passed`, or `.verify_outcome`.")
