"""A saga as data and in plain sentences, from the ledger alone.

Each sentence names a recorded state; nothing is inferred.
"""

from __future__ import annotations

from typing import Any, Final

from readback.canon import Json
from readback.client.session import Session
from readback.domain.events import open_envelope
from readback.domain.idempotency import key_text
from readback.domain.recovery.table import RecoveryTable
from readback.domain.saga.fold import Direction, Saga
from readback.domain.saga.outcome import STEP_TEXT, SagaOutcome, StepOutcome, StepWord
from readback.domain.state import status
from readback.engine.saga_run import fold_saga
from readback.views.outcome_text import plain
from readback.views.state_help import MEANINGS
from readback.views.text import BAD, NONE, OK, OPEN, moment, safe

Picture = dict[str, Any]
MARKS: Final = {
    StepWord.COMPLETED: OK,
    StepWord.LEFT: OK,
    StepWord.REVERSED: OK,
    StepWord.FAILED: BAD,
    StepWord.NOT_REVERSED: BAD,
    StepWord.NOT_BEGUN: NONE,
}
HEADINGS: Final = {
    Direction.ONWARD: "A step starts after the verification of its prerequisites.",
    Direction.BACKWARD: "The saga turned back: no new step starts, and steps with an effect are reversed, last first.",
    Direction.FORWARD: "The saga is past its pivot: the missing steps are completed, under the same keys.",
}
REASONS: Final = {
    "step_failed": "A step failed for good.",
    "cancelled": "The saga was cancelled.",
    "step_stuck": "Only a person can determine the result of a step; nothing is guessed.",
    "forward_exhausted": "A step after the pivot has used all its attempts.",
    "compensation_failed": "The reversal of a step failed, or was refuted.",
    "reversal_held": "The recovery table permits no reversal without a person.",
    "forward_held": "The recovery table permits no forward recovery without a person.",
    "pivot_passed": "The pivot proved to be done after all.",
    "restored": "The ledger was restored from a backup: later steps are unknown here.",
    "contract.changed": "A contract has changed since the saga began.",
}


def picture(session: Session, outcome: SagaOutcome) -> dict[str, Json]:
    """All ledger facts about a saga."""
    stored = session.store.events(outcome.id)
    saga = fold_saga(stored)
    assert saga is not None
    opened = [open_envelope(each.envelope) for each in stored]
    row = status(outcome.state, attempted=outcome.attempts > 0)
    record = session.store.key(saga.tenant, saga.key_hash)
    events: list[Json] = [
        {
            "seq": entry.seq or None,
            "version": entry.version,
            "kind": one.event.kind.value,
            "at_us": one.event.at_us,
            "at": moment(one.event.at_us),
            "path": [state.value for state in one.event.path],
            "data": one.event.data,
            "refs": dict(one.event.refs),
            "previous": one.previous,
            "leaf": entry.leaf.hex(),
        }
        for entry, one in zip(stored, opened, strict=True)
    ]
    return {
        "outcome": outcome.as_json(),
        "said": {"user": outcome.message, "model": outcome.for_model()},
        "steps": [_step(step) for step in outcome.steps.values()],
        "decision": _decision(saga, session.engine.table),
        "status": {
            "execution": row.execution.value,
            "verification": row.verification.value,
            "reconciliation": row.reconciliation.value,
        },
        "key": {
            "text": key_text(saga.key_hash),
            "hash": saga.key_hash,
            "request_hash": saga.request_hash,
            "status": record.status if record is not None else None,
            "holder": record.action_id if record is not None else None,
        },
        "context": saga.context,
        "times": {"begun_us": saga.created_us, "ended_us": saga.ended_us, "due_us": saga.due_us},
        "events": events,
    }


def _step(step: StepOutcome) -> Json:
    return {
        **step.as_json(),
        "outcome": None if step.outcome is None else step.outcome.as_json(),
        "reversal": None if step.compensation is None else step.compensation.as_json(),
    }


def _decision(saga: Saga, table: RecoveryTable) -> Json:
    row = table.row(saga.row)
    if not saga.row or row is None:
        return {"row": saga.row} if saga.row else None
    return {"row": row.id, "action": row.action.value, "rationale": row.rationale, "ours": row.ours}


# --- explained ---


def step_line(step: StepOutcome) -> str:
    tries = f", begun {step.tries} times under one key" if step.tries > 1 else ""
    after = f", after {safe(', '.join(step.after))}" if step.after else ""
    where = ", the pivot" if step.region == "pivot" else ""
    seen = f", read back at {moment(step.verified_us)}" if step.verified_us else ""
    return f"{safe(step.name)}: {STEP_TEXT[step.word].lower()} ({safe(step.contract)}{where}{after}{tries}{seen})"


def explained(outcome: SagaOutcome, shown: Picture, where: str, work: str) -> dict[str, Json]:
    """The sentences, as data. `where`: the options of the ledger for a command; `work`: these and the contracts."""
    meaning = MEANINGS[outcome.state]
    commands: list[Json] = [line.format(id=outcome.id, where=where, work=work) for line in meaning.commands]
    commands += [f"readback explain {step.outcome.id}{where}" for step in _open(outcome) if step.outcome is not None]
    return {
        "id": outcome.id,
        "state": outcome.state.value,
        "verdict": outcome.verdict.value,
        "row": outcome.row,
        "may_repeat": outcome.may_repeat,
        "message": outcome.message,
        "why": [*_why(outcome, shown)],
        "now": [meaning.now, *_now(outcome), f"Tell a user only: {outcome.message}"],
        "commands": commands,
        "exit_code": outcome.exit_code,
    }


def _open(outcome: SagaOutcome) -> list[StepOutcome]:
    return [step for step in outcome.steps.values() if MARKS.get(step.word, OPEN) is OPEN]


def _why(outcome: SagaOutcome, shown: Picture) -> list[str]:
    began = moment(shown["times"]["begun_us"])
    said = [f"Saga {safe(outcome.name)} of {len(outcome.steps)} steps began at {began}."]
    said.append(HEADINGS[Direction(outcome.heading)])
    if outcome.code in REASONS:
        at = f" The step is {safe(outcome.because)}." if outcome.because else ""
        said.append(REASONS[outcome.code] + at)
    said += [f"Step {step_line(step)}." for step in outcome.steps.values()]
    if outcome.erased:
        said.append(f"The payloads were erased at {moment(outcome.erased_us)}.")
    decision = shown["decision"]
    if decision and "rationale" in decision:
        whose = "of ours" if decision["ours"] else "of the specification"
        said.append(f"Row {decision['row']} {whose} decided: {plain(decision['action'])}. {decision['rationale']}")
    return said


def _now(outcome: SagaOutcome) -> list[str]:
    said = []
    if not outcome.verified:
        said.append(
            "The operation may be requested again under its id: no effect exists or can appear."
            if outcome.may_repeat
            else "Do not repeat the operation: the same operation answers with this outcome and executes nothing."
        )
    if outcome.due_us is not None:
        said.append(f"The next reading is due at {moment(outcome.due_us)}, by any running worker.")
    if outcome.hold:
        said.append(f"The saga is held: {safe(outcome.hold)}.")
    if outcome.incident:
        said.append(f"An incident was opened: {safe(outcome.incident)}.")
    return said
