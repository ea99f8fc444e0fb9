"""What a delegate is sent: its task, what it is told now, and the conversation so far; and what it answered.

Made by `sdk.delegating`. The answer is a claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon import Json, json_text, json_value, payload_bytes
from readback.canon.frozen import dataclass
from readback.delegations.model.words import RESPONSE_MAX_BYTES
from readback.domain.context import Context
from readback.domain.errors import ToolError

LISTS: Final = ("tool_calls", "tool_results")
NOTHING_ANSWERED: Final = "No answer was recorded for the attempt."


@dataclass(frozen=True, slots=True)
class Turn:
    """One sending of a delegate. `prompt` is the task at first, and from then on the fixed text with the reason.

    `history` is every earlier prompt with its answer, so that the same conversation can be gone on with anywhere.
    `ctx` carries the stamp and the idempotency key of this attempt.
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
        """The whole conversation as one text, for a delegate that keeps none."""
        said = [f"USER:\n{prompt}\n\nASSISTANT:\n{answer}\n" for prompt, answer in self.history]
        return "\n".join([*said, f"USER:\n{self.prompt}\n"]) if said else self.prompt


def result_of(answer: object) -> dict[str, Json]:
    """The answer as `response`, `tool_calls` and `tool_results`. Raises ToolError for one that cannot be kept whole."""
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
    """Whether an answer is on record: without one the delegate may still be at work."""
    return isinstance(observed, dict) and isinstance(observed.get("response"), str)


def observed_result(observed: Json, delegation: str) -> dict[str, Json]:
    """The result that verifiers see: the recorded answer, or an empty one that says that there is none. `id` is the
    delegation's own, whatever stands in the answer: a verifier may look by it.
    """
    if isinstance(observed, dict) and answered(observed):
        return {**observed, "id": delegation}
    return {"id": delegation, "response": "", "tool_calls": [], "tool_results": [], "error": NOTHING_ANSWERED}
