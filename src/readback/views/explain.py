"""The reasons for an outcome and the next steps, in plain sentences.

The source is the ledger alone. Every sentence comes from a table or names a recorded value; nothing is inferred.
"""

from __future__ import annotations

from typing import Any

from readback.canon import Json
from readback.domain.contract.approval import HOLD
from readback.domain.contract.freezing import CODE as FROZEN
from readback.domain.outcome.claim_words import describe_claim
from readback.domain.outcome.outcome import Outcome, quoted_line
from readback.domain.outcome.reporting import quoted_value
from readback.domain.predicate import Truth
from readback.domain.saga.outcome import SagaOutcome
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict
from readback.domain.verification.observation import ObservationStatus
from readback.views import saga
from readback.views.labels import ATTRIBUTION
from readback.views.outcome_text import plain, shadow_lines, verdict_text
from readback.views.state_help import CODES, DRIFTED, MEANINGS, WHY_OPEN
from readback.views.text import moment, quoted_name, safe, value

Picture = dict[str, Any]
VALUES_SHOWN_MAX = 8
ERASED = "request, answer and readings are gone; the entries keep the result."
APPROVE = ("readback approve {id}{where}", "readback deny {id}{where}")
"""The next step of an approver."""


def explained_any(outcome: Outcome, picture: Picture, where: str, work: str) -> dict[str, Json]:
    """The sentences about an action or a saga; see `explained`."""
    if isinstance(outcome, SagaOutcome):
        return saga.explained(outcome, picture, where, work)
    return explained(outcome, picture, where, work)


def explained(outcome: Outcome, picture: Picture, where: str, work: str) -> dict[str, Json]:
    """The sentences, as data. `where`: the options of the ledger for a command; `work`: these and the contracts."""
    meaning = MEANINGS[outcome.state]
    if outcome.state is State.RECONCILED_SUCCESS and outcome.verdict is Verdict.REFUTED:
        meaning = DRIFTED
    lines = (*APPROVE, *meaning.commands) if outcome.hold == HOLD else meaning.commands
    commands: list[Json] = [line.format(id=outcome.id, where=where, work=work) for line in lines]
    return {
        "id": outcome.id,
        "state": outcome.state.value,
        "verdict": outcome.verdict.value,
        "row": outcome.row,
        "may_repeat": outcome.may_repeat,
        "message": outcome.message,
        "why": [*_what_happened(outcome, picture), meaning.means, *_judgement(outcome, picture)],
        "now": [*_now(outcome, picture, meaning.now)],
        "commands": commands,
        "exit_code": outcome.exit_code,
    }


def _what_happened(outcome: Outcome, picture: Picture) -> list[str]:
    """The tool's answer, as evidence."""
    at = moment(picture["times"]["proposed_us"])
    said = [f"{safe(outcome.contract)} was requested on {quoted_name(outcome.target)} at {at}."]
    if outcome.attempts == 0:
        said.append("Nothing was called.")
        return said
    seen = outcome.observation
    if seen is None or seen.status is ObservationStatus.NONE:
        said.append(
            "The call was attempted, and no answer of the tool is recorded: the process may have died during the call."
        )
    else:
        detail = f": {safe(seen.detail).rstrip('.')}" if seen.detail else ""
        said.append(
            f"The tool answered {plain(seen.status.value)} ({safe(seen.code)}){detail}. That is evidence, not truth."
        )
        if outcome.tool_words:
            said.append(quoted_line(outcome.tool_words))
    if outcome.attempts > 1:
        said.append(f"The call was attempted {outcome.attempts} times under one key.")
    return said


def _judgement(outcome: Outcome, picture: Picture) -> list[str]:
    """The verdict, the evidence, and the row of the recovery table."""
    said: list[str] = [f"{line[:1].upper()}{line[1:]}".rstrip(".") + "." for line in shadow_lines(outcome)]
    if outcome.code:
        said.append(CODES.get(outcome.code, f"The code is {safe(outcome.code)}."))
    if outcome.verdict is not Verdict.NOT_CHECKED or outcome.attempts:
        said.append(f"The verdict is {verdict_text(outcome.verdict, outcome.why)}. {WHY_OPEN[outcome.why]}".rstrip())
    said += [_sentence(each) for each in picture["postconditions"] if each["truth"] != Truth.HOLDS.value]
    for each in picture["identity"]:
        if each["truth"] == Truth.VIOLATED.value:
            expected, actual = value(each["expected"]), value(each["actual"])
            said.append(f"The reading shows another {safe(each['key'])}: {expected} was expected, {actual} was found.")
    found = picture["discrepancy"]
    if found:
        said.append(f"The discrepancy is {plain(found['class'])}: {found['definition']}")
    if outcome.told and not outcome.verified:
        said.append(f"Read before the call: {quoted_value(outcome.told)}")
    if outcome.attribution is not Attribution.UNKNOWN:
        said.append(f"Cause of the state: {ATTRIBUTION[outcome.attribution]}.")
    if outcome.parts_open:
        said.append(f"Open parts: {safe(', '.join(outcome.parts_open))}.")
    if outcome.contested:
        said.append("The earlier finding is contradicted and no longer stands.")
    said += [f"Claim {plain(each.kind)}: {describe_claim(each)}" for each in outcome.claims if each.said is not None]
    if outcome.fallen:
        said.append(f"Claims behind the plan no longer stand: {safe(', '.join(outcome.fallen))}.")
    if outcome.erased:
        said.append(f"The payloads were erased at {moment(outcome.erased_us)}: {ERASED}")
    if outcome.detail:
        said.append(f"Detail: {safe(outcome.detail)}")
    assumed = picture["contract"].get("assumed")
    if assumed:
        said.append(f"The contract rests on assumptions: {safe('; '.join(assumed))}.")
    return said + _decision(picture["decision"])


def _sentence(found: Picture) -> str:
    values = ", ".join(f"{safe(path, 80)} is {value(v)}" for path, v in found["values"][:VALUES_SHOWN_MAX])
    because = f" ({safe(found['reason'])})" if found["reason"] else ""
    seen = f"; {values}" if values else ""
    return f"Postcondition {safe(found['name'])!r} is {plain(found['truth'])}{because}: {safe(found['source'])}{seen}."


def _decision(found: Picture | None) -> list[str]:
    if found is None:
        return []
    because = f" {found['rationale']}" if found["rationale"] else ""
    whose = "" if found["ours"] is None else " of ours" if found["ours"] else " of the specification"
    return [f"Row {safe(found['row'])}{whose} decided: {plain(found['action'])}.{because}"]


def _now(outcome: Outcome, picture: Picture, advice: str) -> list[str]:
    said = [advice]
    asked = picture["approval"]
    if outcome.hold == HOLD:
        people = "an approver" if asked["people"] == 1 else f"{asked['people']} approvers"
        signed = f" Signed so far by {safe(', '.join(asked['signed_by']))}." if asked["signed_by"] else ""
        said = [f"Wait until {people} decided, or cancel; the action ends by itself at {asked['expires_at']}.{signed}"]
    if outcome.code == FROZEN:
        said.append("`readback freezes list` shows the freezes and their actions; a person lifts a freeze.")
    if outcome.may_repeat:
        said.append(
            "The operation may be requested again under its id: no effect of this attempt exists or can appear."
        )
    elif not outcome.verified:
        said.append(
            "Do not repeat the operation: the same operation id answers with this outcome and executes nothing."
        )
    if outcome.due_us is not None and picture["watch"]:
        said.append(
            f"The state is watched until {picture['watch']['until']}: {picture['watch']['looks']} readings so far, "
            f"next at {picture['watch']['next']}. The state last held at {picture['watch']['held_at']}."
        )
    elif outcome.due_us is not None:
        said.append(f"The next reading is due at {moment(outcome.due_us)}, by any running worker.")
    lease = picture["lease"]
    if lease:
        gone = "is gone; the next process resumes the action" if lease["owner_is_gone"] else "processes the action now"
        said.append(f"Process {safe(lease['owner'])} {gone}.")
    if outcome.incident:
        said.append(f"An incident was opened: {safe(outcome.incident)}.")
    if outcome.compensation:
        said.append(f"The reversal is action {safe(outcome.compensation)}.")
    said.append(f"Tell a user only: {outcome.message}")
    return said
