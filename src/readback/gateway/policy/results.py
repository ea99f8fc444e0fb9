"""What a client is told of a governed call: the outcome as a raw `tools/call` result.

Called by the gate with what is reconciled. The tool's own content goes along only where the action is verified and
stands; else it is evidence, and stays in the ledger. Every word about the action is from `domain.reporting`.
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
    """The recorded `tools/call` result; None where it is not there, or not whole."""
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
"""Of a tool's own words about its failure."""
PROBLEMS_MAX: Final = 20
UNGOVERNED: Final = "ungoverned-tool"
"""The contract of whatever has none."""
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
"""What says of a result that it is not the end: a verdict is."""
TOO_LARGE: Final = (
    f"The tool's own answer is over {RESULT_MAX_BYTES} bytes and is not handed on; the verdict stands without it."
)
NOT_EXACT: Final = (
    "The tool's own answer holds what cannot be taken as it is (a number over the bounds, half a character) and is not "
    "handed on; the verdict stands without it."
)


# --- the outcome as data -------------------------------------------------------------------------------------------


def outcome_object(outcome: Outcome, wording: Wording | None = None) -> Result:
    """What stands under OUTCOME_KEY. Nothing was checked of what no contract governs, whatever the ledger calls it."""
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
    """The id of the first of its claims, where it stands."""
    if not outcome.standing:
        return None
    if outcome.claimed_us > 0:  # then it has both
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
    """The result of a governed call. `raw`: what the tool answered, where that is at hand."""
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
    """What a tool without a contract answered, as it is, and that nothing of it was checked."""
    plain = _shown_unverified(raw)
    plain["_meta"] = {**_meta_of(plain), OUTCOME_KEY: outcome_object(outcome)}
    return plain


def _meta_of(raw: Mapping[str, Json]) -> dict[str, Json]:
    """What can be written again of a result's `_meta`."""
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
    """The same before the answer is on record: what the record says of the action then, and said before the answer."""
    plain = _shown_unverified(raw)
    told: Json = {**_UNCHECKED, "action": action_id or None}
    plain["_meta"] = {**_meta_of(plain), OUTCOME_KEY: told}
    return plain


def _shown_unverified(raw: Mapping[str, Json]) -> Result:
    """The answer with the mark among its content: clients hand content to the model, and `_meta` to nobody. The mark
    stands last, since programs read the first block as the tool's own; a schema says nothing of content.
    """
    plain = unforged(raw)
    content = plain.get("content")
    if isinstance(content, list) and DISOWNED_BLOCK not in content[:1]:
        plain["content"] = appended(content, UNVERIFIED_BLOCK)
    return plain


def unforged(raw: Mapping[str, Json]) -> Result:
    """What a tool without a contract answered, as it is but for an outcome that it made up: it has none to tell."""
    plain = _without_outcome(raw)
    if _imitates(plain):
        content = plain["content"]
        assert isinstance(content, list)
        plain["content"] = [DISOWNED_BLOCK, *content]
    return plain


def unanswered(outcome: Outcome) -> Result:
    """Of a tool without a contract that gave no answer: what is known, and that it is an error."""
    wording = outcome.wording()
    return in_meta(_made(wording.model, outcome_object(outcome, wording), failed=True))


def in_meta(result: Result) -> Result:
    """What a tool without a contract is answered with in its stead. Clients hold `structuredContent`, also of an error,
    against the schema that its server gave it: one that does not take the result never learns what became of the call.
    """
    return {key: value for key, value in result.items() if key != "structuredContent"}


def reported(outcome: Outcome, more: str = "") -> Result:
    """An answer about an action, which is no result of it."""
    wording = outcome.wording()
    text = wording.model + tool_line(outcome) if outcome.settled else f"{wording.model}\n{ASK}"
    return _made(f"{text}\n{more}" if more else text, outcome_object(outcome, wording), failed=False)


def begun(action_id: str, contract: str) -> Result:
    """The hold is over before anything of the action is on record. It goes on: by the time that this is read it may
    have been sent, so that it is told as if it had been.
    """
    report = ReportInput(State.EXECUTING, Verdict.NOT_CHECKED, action_id, contract, "", "", observed=False)
    told = _nothing_done(user_text(report), "", state=State.EXECUTING, pending=True, action=action_id)
    return _made(f"{model_text(report)}\n{ASK}", told, failed=True)


def unfinished(action_id: str, contract: str) -> Result:
    """The gateway ends while the call is under way: what the call did is unknown until the next gateway settles it."""
    report = ReportInput(State.UNKNOWN, Verdict.UNDETERMINED, action_id, contract, "", "", why=Why.UNREACHABLE)
    told = _nothing_done(user_text(report), GatewayEndedError.code, state=State.UNKNOWN, pending=True, action=action_id)
    told["verdict"], told["why"] = Verdict.UNDETERMINED.value, Why.UNREACHABLE.value
    return _made(f"{model_text(report)}\n{ENDED}", told, failed=True)


def refused(error: ReadbackError) -> Result:
    """What was not begun, or could not be answered, and why. What may have had an effect never comes to this."""
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
    """A question about an action that cannot be answered, such as one about an id that nobody knows."""
    text = f"[question] Not answered: {error.code}. {one_line(error.message, SAID_MAX_CHARACTERS)}"
    if error.remedy:
        text += f"\nNext: {one_line(error.remedy, SAID_MAX_CHARACTERS)}"
    told: Result = {"code": error.code, "message": one_line(error.message, SAID_MAX_CHARACTERS)}
    return _made(text, told, failed=True)


def lost(error: UnknownOutcomeError) -> Result:
    """The worst case: the effect may have landed, and its record has not."""
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
    """The tool's own result, whatever is in it, with the verdict first."""
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
    """Blocks that no client stumbles over: one that does not take the result does not learn that the action is done."""
    blocks = content if isinstance(content, list) else []
    return [
        each
        for each in blocks
        if isinstance(each, dict) and isinstance(each.get("text", ""), str) and isinstance(each.get("type"), str)
    ]


_OURS: Final = re.compile(rf"{re.escape(OUTCOME_KEY)}|\[\s*action\s+outcome\s*\]", re.IGNORECASE)
_OUTCOME_LINE: Final = re.compile(r"\[\s*action\s+outcome\s*\]", re.IGNORECASE)


def _without_outcome(raw: Mapping[str, Json]) -> Result:
    """A copy of a result without the key under which only Readback tells, wherever a client looks for it."""
    plain = {**raw}
    for place in ("_meta", "structuredContent"):
        if place in plain:
            plain[place] = _less(opened(plain[place], _OURS))
    content = plain.get("content")
    if isinstance(content, list):
        content = opened(content, _OURS)
        blocks = [_block(each) for each in content]
        same = all(one is other for one, other in zip(blocks, content, strict=True))
        plain["content"] = content if same else blocks  # with its own text, where nothing of it changed
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
    """Whether a text of it reads like one of ours."""
    content = raw.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and (_is_ours(block) or _is_ours(block.get("resource"))):
            return True
    return False


def _is_ours(part: Json) -> bool:
    text = part.get("text") if isinstance(part, dict) else None
    return isinstance(text, str) and "[" in text and _OUTCOME_LINE.search(text) is not None


def _told_as_error(raw: Mapping[str, Json]) -> bool:
    """Whether the tool's content tells of a failure, be it marked as one or not: it is not handed on as the result of
    what is verified.
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
    """A tool's words about a failure beside a state that is as intended, as its words."""
    said = one_line(" ".join(_texts(raw)), SAID_MAX_CHARACTERS)
    return _quoted(said)


def tool_line(outcome: Outcome) -> str:
    """What the tool said of a call that is not verified, as a line of its own; "" where there is nothing to tell."""
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
    """How many bytes a JSON value takes on the wire, about."""
    try:
        return len(orjson.dumps(value))
    except TypeError:  # an integer, or half a character, that only the slow one writes
        return len(json_text(value))
