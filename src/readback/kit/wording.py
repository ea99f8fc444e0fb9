"""Texts about a call for the model, and the same facts as data. The kit and the gateway share this one place.

Every text about an action comes from `domain.outcome.reporting`. This module adds the texts of calls without an
outcome: refused calls, calls in flight, and the worst case of an effect without a record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from readback.agent_errors import GatewayEndedError
from readback.canon import Json, ReadbackError
from readback.domain.action.claim import ClaimKind, claim_id
from readback.domain.outcome.outcome import Outcome, quoted_line
from readback.domain.outcome.reporting import ReportInput, Wording, model_text, quoted, user_text
from readback.domain.state import State
from readback.domain.verdict import Level, Verdict, Why
from readback.domain.verification.observation_signs import one_line
from readback.errors import UnknownOutcomeError

OUTCOME_KEY: Final = "io.readback/outcome"
"""Key in a result's `_meta` and `structuredContent`: the outcome of the call, as data."""
UNGOVERNED: Final = "ungoverned-tool"
"""Contract name of calls without a contract."""
SAID_MAX_CHARACTERS: Final = 1_000
"""Longest quote of a tool's error text."""
PROBLEMS_MAX: Final = 20
ASK: Final = "Ask: call readback_wait with this action's id for its end, or readback_status for what is known now."
ENDED: Final = (
    f"Reason: {GatewayEndedError.code}. The gateway was told to end while this call was under way."
    " Do not repeat the call. Ask when a gateway runs again: readback_wait with this action's id."
)
NOT_EXECUTED: Final = "The action has not been executed."
OPENINGS: Final = ("[action outcome]", "[saga outcome]", "[question]")
"""Every text of this module begins with one of these words."""
_NOT_CHECKED, _HAPPENED = Verdict.NOT_CHECKED, ClaimKind.HAPPENED
Data = dict[str, Json]


class Statement(NamedTuple):
    """One text for the model, the same facts as data, and whether the call counts as failed."""

    text: str
    data: Data
    failed: bool


def is_result_text(text: str) -> bool:
    """Return whether a text of a stored history begins as every result of Readback does.

    Example:
        >>> from readback.kit import is_result_text
        >>> is_result_text("[action outcome] Completed and verified."), is_result_text("Tool was interrupted.")
        (True, False)
    """
    return text.lstrip().startswith(OPENINGS)


# --- the outcome as data -------------------------------------------------------------------------------------------


def outcome_object(outcome: Outcome, wording: Wording | None = None) -> Data:
    """Return the value of OUTCOME_KEY. A call without a contract is always NOT_CHECKED."""
    words = wording or outcome.wording()
    verdict = _NOT_CHECKED if outcome.contract == UNGOVERNED else outcome.verdict
    return {
        "action": outcome.id,
        "state": outcome.state._value_,
        "verdict": verdict._value_,
        "why": outcome.why._value_,
        "discrepancy": None if outcome.discrepancy is None else outcome.discrepancy._value_,
        "may_repeat": words.may_repeat,
        "claim": _claim_of(outcome),
        "pending": not outcome.settled,
        "level": int(outcome.level),
        "replayed": outcome.replayed,
        "message": words.user,
        **({"mode": outcome.mode} if outcome.mode else {}),
    }


def _claim_of(outcome: Outcome) -> str | None:
    """Return the id of the first standing claim, or None."""
    if not outcome.standing:
        return None
    if outcome.claimed_us > 0:  # then both claims exist
        return claim_id(outcome.id, _HAPPENED)
    return next((claim.id for claim in outcome.claims), None)


def without_outcome(message: str, code: str, *, state: State | None, pending: bool = False, action: str = "") -> Data:
    """Return the data of a call without an outcome in the ledger."""
    return {
        "action": action or None,
        "state": state.value if state is not None else None,
        "verdict": Verdict.NOT_CHECKED.value,
        "why": Why.NONE.value,
        "discrepancy": None,
        "may_repeat": False,
        "claim": None,
        "pending": pending,
        "level": int(Level.RAW),
        "replayed": False,
        "message": message,
        **({"code": code} if code else {}),
    }


# --- statements ----------------------------------------------------------------------------------------------------


def of_outcome(outcome: Outcome, *, ask: str = ASK) -> Statement:
    """State a reconciled outcome. `ask`: how the model asks about a pending action."""
    wording = outcome.wording()
    text, data = wording.model, outcome_object(outcome, wording)
    if ask and data["pending"]:
        text += f"\n{ask}"
    if outcome.standing:
        return Statement(text, data, failed=False)
    return Statement(text + tool_line(outcome), data, failed=True)


def of_report(outcome: Outcome, more: str = "") -> Statement:
    """State the answer about an action, as opposed to the action's own result."""
    wording = outcome.wording()
    text = wording.model + tool_line(outcome) if outcome.settled else f"{wording.model}\n{ASK}"
    return Statement(f"{text}\n{more}" if more else text, outcome_object(outcome, wording), failed=False)


def of_begun(action_id: str, contract: str) -> Statement:
    """State a hold ended before the first record. The call continues, so the text treats the call as sent."""
    report = ReportInput(State.EXECUTING, Verdict.NOT_CHECKED, action_id, contract, "", "", observed=False)
    data = without_outcome(user_text(report), "", state=State.EXECUTING, pending=True, action=action_id)
    return Statement(f"{model_text(report)}\n{ASK}", data, failed=True)


def of_unfinished(action_id: str, contract: str) -> Statement:
    """State a call in flight at the process's end. The effect is unknown until the next process settles the action."""
    report = ReportInput(State.UNKNOWN, Verdict.UNDETERMINED, action_id, contract, "", "", why=Why.UNREACHABLE)
    data = without_outcome(
        user_text(report), GatewayEndedError.code, state=State.UNKNOWN, pending=True, action=action_id
    )
    data["verdict"], data["why"] = Verdict.UNDETERMINED.value, Why.UNREACHABLE.value
    return Statement(f"{model_text(report)}\n{ENDED}", data, failed=True)


def of_refusal(error: ReadbackError) -> Statement:
    """State a call not begun, with the reason. Never used for a call with a possible effect."""
    if isinstance(error, UnknownOutcomeError):
        return of_loss(error)
    lines = [
        "[action outcome] Not executed: nothing was sent.",
        "Repetition: not as it is; first do what stands under Next.",
        f"Reason: {error.code}. {one_line(error.message, SAID_MAX_CHARACTERS)}",
        *_problems(error),
        f"Next: {one_line(error.remedy, SAID_MAX_CHARACTERS) or 'correct the call, or leave it.'}",
        f"Tell the user only: {quoted(NOT_EXECUTED)}",
    ]
    return Statement("\n".join(lines), without_outcome(NOT_EXECUTED, error.code, state=None), failed=True)


def of_question(error: ReadbackError) -> Statement:
    """State a question without an answer, such as a question with an unknown action id."""
    text = f"[question] Not answered: {error.code}. {one_line(error.message, SAID_MAX_CHARACTERS)}"
    if error.remedy:
        text += f"\nNext: {one_line(error.remedy, SAID_MAX_CHARACTERS)}"
    return Statement(text, {"code": error.code, "message": one_line(error.message, SAID_MAX_CHARACTERS)}, failed=True)


def of_loss(error: UnknownOutcomeError) -> Statement:
    """State the worst case: a possible effect without a record."""
    outcome = error.outcome
    if isinstance(outcome, Outcome):
        return of_outcome(outcome)
    report = ReportInput(State.UNKNOWN, Verdict.UNDETERMINED, "", "", "", "", why=Why.VERIFIER_ERROR)
    data = without_outcome(user_text(report), error.code, state=State.UNKNOWN)
    data["verdict"], data["why"] = Verdict.UNDETERMINED.value, Why.VERIFIER_ERROR.value
    return Statement(f"{model_text(report)}\nReason: {error.code}", data, failed=True)


def tool_line(outcome: Outcome) -> str:
    """Quote the tool's words about an unverified call on a separate line, or return ""."""
    return words_line(outcome.tool_words)


def words_line(said: str) -> str:
    """Quote words of a tool on a separate line, or return ""."""
    return f"\n{quoted_line(said)}" if said else ""


def _problems(error: ReadbackError) -> list[str]:
    found = error.details.get("problems")
    if not isinstance(found, list):
        return []
    lines = []
    for each in found[:PROBLEMS_MAX]:
        if isinstance(each, dict):
            named = f"{each['argument']}: " if each.get("argument") else ""
            lines.append(f"Problem: {one_line(named + str(each.get('reason', '')))}")
    return lines
