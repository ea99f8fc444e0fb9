"""Build the raw `tools/call` result of a governed call.

Called by the gate with a reconciled outcome. The tool's own content is included only for a verified, standing action.
Otherwise the content is evidence and stays in the ledger. All words about the action come from `domain.reporting`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import orjson

from readback.canon import Json, ReadbackError, json_text
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.reporting import ReportInput, user_text
from readback.domain.state import State
from readback.domain.verdict import Level, Verdict, Why
from readback.domain.verification.observation_signs import one_line
from readback.errors import UnknownOutcomeError
from readback.gateway.call import RESULT_MAX_BYTES
from readback.gateway.wire.verbatim import appended, has_fault, opened
from readback.kit import wording
from readback.kit.content import ITS_OWN, OUTCOME_LINE, reports_failure, texts_of
from readback.kit.wording import OUTCOME_KEY, SAID_MAX_CHARACTERS, UNGOVERNED, Statement, outcome_object

Result = dict[str, Json]

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


# --- results -------------------------------------------------------------------------------------------------------


def governed(outcome: Outcome, raw: Mapping[str, Json] | None) -> Result:
    """Return the result of a governed call. `raw`: the tool's answer, if available."""
    said = wording.of_outcome(outcome)
    if said.failed or raw is None:
        return _made(said)
    if reports_failure(raw):
        return _made(said, wording.words_line(one_line(" ".join(texts_of(raw)), SAID_MAX_CHARACTERS)))
    if _is_large(raw):
        return _made(said, f"\n{TOO_LARGE}")
    if has_fault(raw):
        return _made(said, f"\n{NOT_EXACT}")
    return _with_content(said.text, said.data, raw)


def marked(outcome: Outcome, raw: Mapping[str, Json], *, in_content: bool = True) -> Result:
    """Return the unchanged answer of a tool without a contract, marked as unverified.

    `in_content`: False in shadow mode, where `_meta` alone bears the mark.
    """
    plain = _shown_unverified(raw) if in_content else unforged(raw)
    plain["_meta"] = {**_meta_of(plain), OUTCOME_KEY: outcome_object(outcome)}
    return plain


def unworded(outcome: Outcome, raw: Mapping[str, Json]) -> Result:
    """Return the server's own answer to a call in shadow mode, with the outcome in `_meta` alone."""
    plain = unforged(raw)
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
    **wording.without_outcome(user_text(_UNVERIFIABLE), "", state=State.UNKNOWN),
    "why": Why.UNVERIFIABLE.value,
    "discrepancy": Discrepancy.UNVERIFIABLE_STATE.value,
    "level": int(Level.NORMALISED),
}


def unchecked(action_id: str, raw: Mapping[str, Json], *, in_content: bool = True) -> Result:
    """Return the marked answer before its record is durable, with the outcome of the future record."""
    plain = _shown_unverified(raw) if in_content else unforged(raw)
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
    words = outcome.wording()
    return in_meta(_made(Statement(words.model, outcome_object(outcome, words), failed=True)))


def in_meta(result: Result) -> Result:
    """Move the outcome of a call without a contract to `_meta` only.

    Clients validate `structuredContent`, even of an error, against the server's schema. A client rejecting the result
    never learns the call's fate.
    """
    return {key: value for key, value in result.items() if key != "structuredContent"}


def reported(outcome: Outcome, more: str = "") -> Result:
    """Return an answer about an action, as opposed to the action's own result."""
    return _made(wording.of_report(outcome, more))


def begun(action_id: str, contract: str) -> Result:
    """Return the result for a hold ended before the first record."""
    return _made(wording.of_begun(action_id, contract))


def unfinished(action_id: str, contract: str) -> Result:
    """Return the result for a call in flight at the gateway's end."""
    return _made(wording.of_unfinished(action_id, contract))


def refused(error: ReadbackError) -> Result:
    """Return the result of a call not begun, with the reason. Never used for a call with a possible effect."""
    return _made(wording.of_refusal(error))


def unanswerable(error: ReadbackError) -> Result:
    """Return the error for a question without an answer, such as one with an unknown action id."""
    return _made(wording.of_question(error))


def lost(error: UnknownOutcomeError) -> Result:
    """Return the result of the worst case: a possible effect without a record."""
    return _made(wording.of_loss(error))


# --- parts ---------------------------------------------------------------------------------------------------------


def _made(said: Statement, more: str = "") -> Result:
    return {
        "content": [{"type": "text", "text": said.text + more}],
        "structuredContent": {OUTCOME_KEY: said.data},
        "isError": said.failed,
        "_meta": {OUTCOME_KEY: said.data},
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
    return isinstance(text, str) and "[" in text and OUTCOME_LINE.search(text) is not None


def _is_large(raw: Mapping[str, Json]) -> bool:
    return size_of(raw) > RESULT_MAX_BYTES


def size_of(value: object) -> int:
    """Return the approximate size of a JSON value on the wire, in bytes."""
    try:
        return len(orjson.dumps(value))
    except TypeError:  # only the slow writer takes a huge integer or an unpaired surrogate
        return len(json_text(value))
