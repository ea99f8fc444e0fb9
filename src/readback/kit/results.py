"""The result of a tool call through the kit, in words for the model and as data for the framework.

A result is made of an outcome, or of an error before any attempt. Only a standing success is `ok`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final, Literal

from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.contract.approval import HOLD
from readback.domain.outcome.outcome import Outcome
from readback.domain.saga.outcome import SagaOutcome, StepWord
from readback.domain.verification.observation_signs import ObservationStatus, one_line
from readback.errors import CitationError, UnknownOutcomeError
from readback.kit import wording
from readback.kit.content import CONTENT_MAX_BYTES, as_result, cut, reports_failure, shown, texts_of
from readback.kit.wording import OUTCOME_KEY, SAID_MAX_CHARACTERS, Statement

Status = Literal["verified", "not_verified", "pending", "parked", "refused"]
PARKED_LINE: Final = "Ask: a person decides about this call. Go on with work that does not depend on the call."
CITE_LINE: Final = "Cite it in a final report as:"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call. A result is never an exception: each failure is a result that is not `ok`.

    Attributes:
        text: Everything for the model: the verdict, the next step, a citation, and the tool's own content, cut. The
            content is present only beside a verified action.
        ok: Whether the action is verified and stands.
        status: "verified", "not_verified" (settled or unknown, and no success), "pending" (in progress), "parked" (an
            approval is missing, and nothing was executed) or "refused" (nothing was executed, and nothing waits).
        is_error: The error flag for the framework: `not ok`, except for an answered question about an action. In
            shadow mode, the tool's own flag.
        action: The action's id in the ledger; "" where no action exists.
        code: A stable error code; "" without one.
        data: The outcome as data, as in the gateway's `io.readback/outcome`.
        content: The foreign tool's own value, where the action is verified and this call got the value; else None.
        outcome: The outcome, where the ledger has one.
        packet: For a parked call: the approval request as JSON, for the framework's pause.
        verdict_text: `text` without the tool's own content.

    Example:
        >>> from readback import verified
        >>> from readback.kit import Kit
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Kit.open("memory:", actions=[switch]) as kit:
        ...     result = kit.tool("switch_on").run({})
        >>> result.ok, result.status, result.is_error
        (True, 'verified', False)
    """

    text: str
    ok: bool
    status: Status
    is_error: bool
    action: str = ""
    code: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)
    content: Any = None
    outcome: Outcome | None = None
    packet: Mapping[str, Json] | None = None
    verdict_text: str = ""

    @property
    def waits(self) -> bool:
        """Whether the action is still in progress, or waits for a person's approval."""
        return self.status in ("pending", "parked")

    @property
    def message(self) -> str:
        """The only text about the call for users."""
        return str(self.data.get("message", ""))

    def mcp(self) -> dict[str, Json]:
        """Return the result as a `tools/call` result of the Model Context Protocol."""
        return {
            "content": [{"type": "text", "text": self.text}],
            "structuredContent": {OUTCOME_KEY: dict(self.data)},
            "isError": self.is_error,
            "_meta": {OUTCOME_KEY: dict(self.data)},
        }


@dataclass(frozen=True, slots=True)
class Attempt:
    """The permission for a call made by the caller. `allowed`: make the call now, exactly once, and report the end.

    `result`: the result to hand back where the call is not allowed.

    Example:
        >>> from readback import verified
        >>> from readback.kit import Kit
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Kit.open("memory:", actions=[switch]) as kit:
        ...     tool = kit.tool("switch_on")
        ...     attempt = tool.begin({}, operation="switch on")
        ...     if attempt.allowed:
        ...         lamp["on"] = True
        ...     tool.end(attempt.action, "switched").ok
        True
    """

    allowed: bool
    action: str
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Foreign:
    """A foreign tool's answer to this call: the tool's own value, and the same as a `tools/call` result."""

    value: Any
    raw: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one kit's results: whether verified results carry a citation, how the model asks about a pending
    action ("" for not at all), and the limit of a foreign tool's content in bytes.
    """

    cite: bool = True
    ask: str = wording.ASK
    content_max_bytes: int = CONTENT_MAX_BYTES


def of_outcome(
    outcome: Outcome, terms: Terms, *, foreign: Foreign | None = None, packet: Mapping[str, Json] | None = None
) -> ToolResult:
    """Return the result of an outcome. `foreign`: the foreign tool's answer; `packet`: a parked action's request."""
    status = status_of(outcome)
    if outcome.unworded and _answered(outcome):
        return _unworded(outcome, status, terms, foreign)
    said = wording.of_outcome(outcome, ask=terms.ask if status == "pending" else "")
    lines = [said.text]
    if status == "parked":
        lines.append(PARKED_LINE)
    if status == "verified" and terms.cite and (citation := _citation(outcome)):
        lines.append(f"{CITE_LINE} {citation}")
    verdict = "\n".join(lines)
    content = "" if foreign is None or status != "verified" else _content(foreign.raw, terms)
    return ToolResult(
        verdict + content,
        status == "verified",
        status,
        status != "verified",
        outcome.id,
        outcome.code,
        said.data,
        None if foreign is None or status != "verified" else foreign.value,
        outcome,
        packet,
        verdict,
    )


def _unworded(outcome: Outcome, status: Status, terms: Terms, foreign: Foreign | None) -> ToolResult:
    """Return the tool's own answer as the result of a shadow action: never verified, and not reworded."""
    seen = outcome.observation
    assert seen is not None
    raw = foreign.raw if foreign is not None else as_result(seen.body if seen.body is not None else seen.detail)
    failed = raw.get("isError") is True or seen.status in _FAILURES
    text = cut("\n".join(texts_of(raw)), terms.content_max_bytes)
    data = wording.outcome_object(outcome)
    value = foreign.value if foreign is not None else seen.body
    told: Status = "pending" if status == "pending" else "not_verified"
    return ToolResult(text, False, told, failed, outcome.id, outcome.code, data, value, outcome, None, text)


def _answered(outcome: Outcome) -> bool:
    """Return whether the tool answered, so that an answer can be handed on."""
    return outcome.observation is not None and outcome.observation.status is not ObservationStatus.NONE


_FAILURES: Final = frozenset({ObservationStatus.ERROR, ObservationStatus.TIMEOUT, ObservationStatus.CANCELLED})


def of_answer(outcome: Outcome) -> ToolResult:
    """Return the answer to a question about an action. The answer is no error, also for a failed action."""
    said, status = wording.of_report(outcome), status_of(outcome)
    ok, code = status == "verified", outcome.code
    return ToolResult(said.text, ok, status, False, outcome.id, code, said.data, None, outcome, None, said.text)


def of_refusal(error: ReadbackError) -> ToolResult:
    """Return the result of a call without an attempt, or of the worst case: a possible effect without a record."""
    said = wording.of_refusal(error)
    lost = isinstance(error, UnknownOutcomeError)
    outcome = getattr(error, "outcome", None) if lost else None
    return _plain(
        said, "not_verified" if lost else "refused", error.code, outcome if isinstance(outcome, Outcome) else None
    )


def of_question(error: ReadbackError) -> ToolResult:
    """Return the result of a question without an answer."""
    return _plain(wording.of_question(error), "refused", error.code)


def _plain(said: Statement, status: Status, code: str, outcome: Outcome | None = None) -> ToolResult:
    action = "" if outcome is None else outcome.id
    return ToolResult(said.text, False, status, True, action, code, said.data, None, outcome, None, said.text)


def with_line(result: ToolResult, line: str, code: str) -> ToolResult:
    """Return a result with one more line for the model, and a code."""
    text = f"{result.text}\n{line}"
    return replace(result, text=text, verdict_text=text, code=code, data={**result.data, "code": code})


def status_of(outcome: Outcome) -> Status:
    """Return the status of an outcome. Only a standing success is "verified"."""
    if outcome.standing:
        return "verified"
    if waiting_step(outcome) is not None or (outcome.hold == HOLD and not outcome.attempted):
        return "parked"
    if not outcome.settled:
        return "pending"
    return "not_verified" if outcome.attempted or isinstance(outcome, SagaOutcome) else "refused"


def waiting_step(outcome: Outcome) -> Outcome | None:
    """Return the outcome of a saga's step that waits for an approval, or None."""
    if not isinstance(outcome, SagaOutcome):
        return None
    held = [each.outcome for each in outcome.steps.values() if each.word is StepWord.HELD]
    return next((each for each in held if each is not None and each.hold == HOLD and not each.attempted), None)


def held_of(outcome: Outcome) -> Outcome:
    """Return the action that waits for an approval: the outcome itself, or a saga's step."""
    step = waiting_step(outcome)
    return outcome if step is None else step


def _citation(outcome: Outcome) -> str:
    try:
        return outcome.cite()
    except CitationError:  # a saga, a fallen plan, or erased evidence
        return ""


def _content(raw: Mapping[str, Json], terms: Terms) -> str:
    """Return the lines of the tool's own content. A reported failure beside a verified state is quoted as evidence."""
    if reports_failure(raw):
        return wording.words_line(one_line(" ".join(texts_of(raw)), SAID_MAX_CHARACTERS))
    return shown(raw, terms.content_max_bytes)
