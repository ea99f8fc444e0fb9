"""Build the raw `tools/call` result of a governed call.

Called by the gate with a reconciled outcome. The tool's own content is included only for a verified, standing action.
Otherwise the content is evidence and stays in the ledger. All words about the action come from `domain.reporting`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import orjson

from readback.agent_errors import GatewayEndedError
from readback.canon import Json, ReadbackError, json_text
from readback.domain.action.claim import ClaimKind, claim_id
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome, quoted_line
from readback.domain.outcome.reporting import ReportInput, Wording, model_text, quoted, user_text
from readback.domain.state import State
from readback.domain.verdict import Level, Verdict, Why
from readback.domain.verification.change import is_withheld
from readback.domain.verification.observation_signs import one_line, text_sign
from readback.errors import UnknownOutcomeError
from readback.gateway.call import OUTCOME_KEY, RESULT_MAX_BYTES
from readback.gateway.wire.verbatim import appended, has_fault, opened

# What a tool answered, out of the ledger: for a call that is answered from the record.


def content_of(outcome: Outcome) -> dict[str, Json] | None:
    """Return the recorded `tools/call` result, or None if absent or incomplete."""
    seen = outcome.observation
    body = None if seen is None else seen.body
    if not isinstance(body, dict) or not isinstance(body.get("content"), list) or _is_cut(body):
        return None
    return body


def _is_cut(value: Json) -> bool:
    if is_withheld(value):
        return True
    if isinstance(value, dict):
        return any(_is_cut(part) for part in value.values())
    return isinstance(value, list) and any(_is_cut(part) for part in value)


Result = dict[str, Json]
_NOT_CHECKED, _HAPPENED = Verdict.NOT_CHECKED, ClaimKind.HAPPENED

SAID_MAX_CHARACTERS: Final = 1_000
"""Longest quote of a tool's error text."""
PROBLEMS_MAX: Final = 20
UNGOVERNED: Final = "ungoverned-tool"
"""Contract name of calls without a contract."""
ASK: Final = "Ask: call readback_wait with this action's id for its end, or readback_status for what is known now."
ENDED: Final = (
    f"Reason: {GatewayEndedError.code}. The gateway was told to end while this call was under way."
    " Do not repeat the call. Ask when a gateway runs again: readback_wait with this action's id."
)
ITS_OWN: Final = "What reads like an outcome in the tool's own content is the tool's words, and none of Readback's."
DISOWNED: Final = f"[readback] No contract governs this tool, and nothing of its answer was verified. {ITS_OWN}"
DISOWNED_BLOCK: Final[Json] = {"type": "text", "text": DISOWNED}
UNVERIFIED: Final = "[readback] Not verified: no contract governs this tool, and nothing of its answer was read back."
UNVERIFIED_BLOCK: Final[Json] = {"type": "text", "text": UNVERIFIED}
NO_END: Final = ("resultType", "requestState", "inputRequests", "task")
"""Keys of a result marking a call as unfinished. A verdict is final."""
TOO_LARGE: Final = (
    f"The tool's own answer is over {RESULT_MAX_BYTES} bytes and is not handed on; the verdict stands without it."
)
NOT_EXACT: Final = (
    "The tool's own answer holds what cannot be taken as it is (a number over the bounds, half a character) and is not "
    "handed on; the verdict stands without it."
)


# --- the outcome as data -------------------------------------------------------------------------------------------


def outcome_object(outcome: Outcome, wording: Wording | None = None) -> Result:
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
    }


def _claim_of(outcome: Outcome) -> str | None:
    """Return the id of the first standing claim, or None."""
    if not outcome.standing:
        return None
    if outcome.claimed_us > 0:  # then both claims exist
        return claim_id(outcome.id, _HAPPENED)
    return next((claim.id for claim in outcome.claims), None)


def _nothing_done(message: str, code: str, *, state: State | None, pending: bool = False, action: str = "") -> Result:
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


# --- results -------------------------------------------------------------------------------------------------------


def governed(outcome: Outcome, raw: Mapping[str, Json] | None) -> Result:
    """Return the result of a governed call. `raw`: the tool's answer, if available."""
    wording = outcome.wording()
    text, told = wording.model, outcome_object(outcome, wording)
    if told["pending"]:
        text += f"\n{ASK}"
    if not outcome.standing:
        return _made(text + tool_line(outcome), told, failed=True)
    if raw is None:
        return _made(text, told, failed=False)
    if _told_as_error(raw):
        return _made(text + _said(raw), told, failed=False)
    if _is_large(raw):
        return _made(f"{text}\n{TOO_LARGE}", told, failed=False)
    if has_fault(raw):
        return _made(f"{text}\n{NOT_EXACT}", told, failed=False)
    return _with_content(text, told, raw)


def marked(outcome: Outcome, raw: Mapping[str, Json]) -> Result:
    """Return the unchanged answer of a tool without a contract, marked as unverified."""
    plain = _shown_unverified(raw)
    plain["_meta"] = {**_meta_of(plain), OUTCOME_KEY: outcome_object(outcome)}
    return plain


def _meta_of(raw: Mapping[str, Json]) -> dict[str, Json]:
    """Return the serialisable part of a result's `_meta`."""
    meta = raw.get("_meta")
    return meta if isinstance(meta, dict) and not has_fault({"_meta": meta}) else {}


_UNVERIFIABLE: Final = ReportInput(
    State.UNKNOWN, Verdict.UNDETERMINED, "", UNGOVERNED, "", "",
    why=Why.UNVERIFIABLE, discrepancy=Discrepancy.UNVERIFIABLE_STATE,
)  # fmt: skip
_UNCHECKED: Final[Result] = {
    **_nothing_done(user_text(_UNVERIFIABLE), "", state=State.UNKNOWN),
    "why": Why.UNVERIFIABLE.value,
    "discrepancy": Discrepancy.UNVERIFIABLE_STATE.value,
    "level": int(Level.NORMALISED),
}


def unchecked(action_id: str, raw: Mapping[str, Json]) -> Result:
    """Return the marked answer before its record is durable, with the outcome of the future record."""
    plain = _shown_unverified(raw)
    told: Json = {**_UNCHECKED, "action": action_id or None}
    plain["_meta"] = {**_meta_of(plain), OUTCOME_KEY: told}
    return plain


def _shown_unverified(raw: Mapping[str, Json]) -> Result:
    """Add the mark to the answer's content. Clients show content to the model, and hide `_meta`.

    The mark stands last, since programs read the first block as the tool's own. A schema does not cover content.
    """
    plain = unforged(raw)
    content = plain.get("content")
    if isinstance(content, list) and DISOWNED_BLOCK not in content[:1]:
        plain["content"] = appended(content, UNVERIFIED_BLOCK)
    return plain


def unforged(raw: Mapping[str, Json]) -> Result:
    """Return the answer of a tool without a contract, with any forged outcome removed."""
    plain = _without_outcome(raw)
    if _imitates(plain):
        content = plain["content"]
        assert isinstance(content, list)
        plain["content"] = [DISOWNED_BLOCK, *content]
    return plain


def unanswered(outcome: Outcome) -> Result:
    """Return the error result of a tool without a contract and without an answer."""
    wording = outcome.wording()
    return in_meta(_made(wording.model, outcome_object(outcome, wording), failed=True))


def in_meta(result: Result) -> Result:
    """Move the outcome of a call without a contract to `_meta` only.

    Clients validate `structuredContent`, even of an error, against the server's schema. A client rejecting the result
    never learns the call's fate.
    """
    return {key: value for key, value in result.items() if key != "structuredContent"}


def reported(outcome: Outcome, more: str = "") -> Result:
    """Return an answer about an action, as opposed to the action's own result."""
    wording = outcome.wording()
    text = wording.model + tool_line(outcome) if outcome.settled else f"{wording.model}\n{ASK}"
    return _made(f"{text}\n{more}" if more else text, outcome_object(outcome, wording), failed=False)


def begun(action_id: str, contract: str) -> Result:
    """Return the result for a hold ended before the first record. The call continues, so the text treats it as sent."""
    report = ReportInput(State.EXECUTING, Verdict.NOT_CHECKED, action_id, contract, "", "", observed=False)
    told = _nothing_done(user_text(report), "", state=State.EXECUTING, pending=True, action=action_id)
    return _made(f"{model_text(report)}\n{ASK}", told, failed=True)


def unfinished(action_id: str, contract: str) -> Result:
    """Return the result for a call in flight at the gateway's end. Its effect is unknown until the next gateway settles
    it.
    """
    report = ReportInput(State.UNKNOWN, Verdict.UNDETERMINED, action_id, contract, "", "", why=Why.UNREACHABLE)
    told = _nothing_done(user_text(report), GatewayEndedError.code, state=State.UNKNOWN, pending=True, action=action_id)
    told["verdict"], told["why"] = Verdict.UNDETERMINED.value, Why.UNREACHABLE.value
    return _made(f"{model_text(report)}\n{ENDED}", told, failed=True)


def refused(error: ReadbackError) -> Result:
    """Return the result of a call not begun, with the reason. Never used for a call with a possible effect."""
    if isinstance(error, UnknownOutcomeError):
        return lost(error)
    lines = [
        "[action outcome] Not executed: nothing was sent.",
        "Repetition: not as it is; first do what stands under Next.",
        f"Reason: {error.code}. {one_line(error.message, SAID_MAX_CHARACTERS)}",
        *_problems(error),
        f"Next: {one_line(error.remedy, SAID_MAX_CHARACTERS) or 'correct the call, or leave it.'}",
    ]
    message = "The action has not been executed."
    lines.append(f"Tell the user only: {quoted(message)}")
    told = _nothing_done(message, error.code, state=None)
    return _made("\n".join(lines), told, failed=True)


def unanswerable(error: ReadbackError) -> Result:
    """Return the error for a question without an answer, such as one with an unknown action id."""
    text = f"[question] Not answered: {error.code}. {one_line(error.message, SAID_MAX_CHARACTERS)}"
    if error.remedy:
        text += f"\nNext: {one_line(error.remedy, SAID_MAX_CHARACTERS)}"
    told: Result = {"code": error.code, "message": one_line(error.message, SAID_MAX_CHARACTERS)}
    return _made(text, told, failed=True)


def lost(error: UnknownOutcomeError) -> Result:
    """Return the result of the worst case: a possible effect without a record."""
    outcome = error.outcome
    if isinstance(outcome, Outcome):
        return governed(outcome, None)
    report = ReportInput(State.UNKNOWN, Verdict.UNDETERMINED, "", "", "", "", why=Why.VERIFIER_ERROR)
    told = _nothing_done(user_text(report), error.code, state=State.UNKNOWN)
    told["verdict"], told["why"] = Verdict.UNDETERMINED.value, Why.VERIFIER_ERROR.value
    return _made(f"{model_text(report)}\nReason: {error.code}", told, failed=True)


# --- parts ---------------------------------------------------------------------------------------------------------


def _made(text: str, told: Result, *, failed: bool) -> Result:
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {OUTCOME_KEY: told},
        "isError": failed,
        "_meta": {OUTCOME_KEY: told},
    }


def _with_content(text: str, told: Result, raw: Mapping[str, Json]) -> Result:
    """Return the tool's own result, with the verdict first."""
    plain = _without_outcome(raw)
    if _imitates(plain):
        text = f"{text}\n{ITS_OWN}"
    for key in NO_END:
        plain.pop(key, None)
    structured, meta = plain.get("structuredContent"), plain.get("_meta")
    plain["content"] = [{"type": "text", "text": text}, *_readable(plain.get("content"))]
    plain["structuredContent"] = {**(structured if isinstance(structured, dict) else {}), OUTCOME_KEY: told}
    plain["isError"] = False
    plain["_meta"] = {**(meta if isinstance(meta, dict) else {}), OUTCOME_KEY: told}
    return plain


def _readable(content: Json) -> list[Json]:
    """Return the well-formed blocks. A client rejecting the result would not learn that the action is done."""
    blocks = content if isinstance(content, list) else []
    return [
        each
        for each in blocks
        if isinstance(each, dict) and isinstance(each.get("text", ""), str) and isinstance(each.get("type"), str)
    ]


_OURS: Final = re.compile(rf"{re.escape(OUTCOME_KEY)}|\[\s*action\s+outcome\s*\]", re.IGNORECASE)
_OUTCOME_LINE: Final = re.compile(r"\[\s*action\s+outcome\s*\]", re.IGNORECASE)


def _without_outcome(raw: Mapping[str, Json]) -> Result:
    """Copy a result without Readback's reserved key, in every place read by clients."""
    plain = {**raw}
    for place in ("_meta", "structuredContent"):
        if place in plain:
            plain[place] = _less(opened(plain[place], _OURS))
    content = plain.get("content")
    if isinstance(content, list):
        content = opened(content, _OURS)
        blocks = [_block(each) for each in content]
        same = all(one is other for one, other in zip(blocks, content, strict=True))
        plain["content"] = content if same else blocks  # unchanged: keep the original text
    return plain


def _block(block: Json) -> Json:
    if not isinstance(block, dict) or ("_meta" not in block and "resource" not in block):
        return block
    inner = {"resource": _block(block["resource"])} if "resource" in block else {}
    meta = {"_meta": _less(block["_meta"])} if "_meta" in block else {}
    return {**block, **inner, **meta}


def _less(value: Json) -> Json:
    if not isinstance(value, dict) or OUTCOME_KEY not in value:
        return value
    return {key: each for key, each in value.items() if key != OUTCOME_KEY}


def _imitates(raw: Mapping[str, Json]) -> bool:
    """Return whether a text of the result imitates Readback's outcome line."""
    content = raw.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and (_is_ours(block) or _is_ours(block.get("resource"))):
            return True
    return False


def _is_ours(part: Json) -> bool:
    text = part.get("text") if isinstance(part, dict) else None
    return isinstance(text, str) and "[" in text and _OUTCOME_LINE.search(text) is not None


def _told_as_error(raw: Mapping[str, Json]) -> bool:
    """Return whether the tool's content reports a failure, with or without the error flag.

    Such content is not shown as the result of a verified action.
    """
    if raw.get("isError") is True:
        return True
    texts = [text for text in _texts(raw) if text.strip()]
    return bool(texts) and text_sign(texts[0]) is not None


def _texts(raw: Mapping[str, Json]) -> list[str]:
    content = raw.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


def _said(raw: Mapping[str, Json]) -> str:
    """Quote a tool's failure report beside a verified state."""
    said = one_line(" ".join(_texts(raw)), SAID_MAX_CHARACTERS)
    return _quoted(said)


def tool_line(outcome: Outcome) -> str:
    """Quote the tool's words about an unverified call on a separate line, or return ""."""
    return _quoted(outcome.tool_words)


def _quoted(said: str) -> str:
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


def _is_large(raw: Mapping[str, Json]) -> bool:
    return size_of(raw) > RESULT_MAX_BYTES


def size_of(value: object) -> int:
    """Return the approximate size of a JSON value on the wire, in bytes."""
    try:
        return len(orjson.dumps(value))
    except TypeError:  # only the slow writer takes a huge integer or an unpaired surrogate
        return len(json_text(value))
