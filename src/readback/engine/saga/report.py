"""Report of a saga: from its fold and its actions to an outcome. Reads the ledger alone.

Called by `saga.attend`. Each step is reported by its own action's outcome; the saga's state implies nothing about a
step.
"""

from __future__ import annotations

from collections.abc import Mapping

from readback.domain.action.action import Action
from readback.domain.outcome.outcome import Outcome
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.domain.saga.fold import Direction, Saga, StepTerms
from readback.domain.saga.outcome import SagaOutcome, StepOutcome, StepWord
from readback.domain.saga.planner import StepStatus, has_effect, has_ended, step_status
from readback.domain.state import State
from readback.domain.verdict import Attribution, Level, Why
from readback.engine.effects import Effects
from readback.engine.saga_run import load_family, verdict_of
from readback.engine.stages.report import outcome_of

ActionsById = Mapping[str, Action]


def outcome_of_saga(saga: Saga, *, replayed: bool = False) -> Effects[SagaOutcome]:
    """The outcome by the ledger alone."""
    family = yield from load_family(saga)
    steps: dict[str, StepOutcome] = {}
    for terms in saga.terms:
        steps[terms.name] = yield from _step(saga, terms, family)
    row = DEFAULT_TABLE.row(saga.row)
    success = saga.state is State.RECONCILED_SUCCESS
    begun = any(step.outcome is not None and step.outcome.attempts for step in steps.values())
    return SagaOutcome(
        id=saga.id,
        state=saga.state,
        verdict=verdict_of(saga),
        why=Why.PROPAGATING if saga.state is State.UNKNOWN else Why.NONE,
        discrepancy=None,
        attribution=_attribution(steps) if success else Attribution.UNKNOWN,
        level=Level.RECONCILED if success else Level.NORMALISED,
        may_repeat=saga.may_repeat,
        replayed=replayed,
        contract=saga.contract,
        contract_version="",
        target=saga.operation,
        operation=saga.operation,
        tenant=saga.tenant,
        principal=saga.principal,
        stamp=saga.stamp,
        ledger_entry=saga.head,
        parts_done=tuple(n for n, s in steps.items() if s.word is StepWord.COMPLETED),
        parts_open=tuple(n for n, s in steps.items() if s.word not in _CLOSED),
        row=saga.row,
        recovery=row.action.value if row is not None else "",
        code=saga.reason if saga.state is not State.RECONCILED_SUCCESS else "",
        detail=saga.detail,
        hold=saga.hold,
        review=saga.review,
        incident=saga.incident,
        contested=any(_contested(saga, s) for s in steps.values()),
        attempts=1 if begun else 0,
        due_us=saga.due_us,
        trace=str(saga.context.get("trace", "")),
        kind="saga",
        steps=steps,
        heading=saga.heading.value,
        because=saga.because,
        name=saga.name,
        quiet=saga.quiet,
        erased_us=saga.erased_us,
        version=saga.version,
    )


def _contested(saga: Saga, step: StepOutcome) -> bool:
    """The reported result is contradicted now: a step's success (by a drift, too), or its reversal. For a saga ended
    without effect: an effect of this step has landed since. A saga with success stands only on standing steps.
    """
    own, undo = step.outcome, step.compensation
    if saga.state is State.RECONCILED_SUCCESS and (
        own is None or not own.standing or step.word is not StepWord.COMPLETED
    ):
        return True
    if undo is not None and undo.contested and undo.state is State.RECONCILED_SUCCESS:
        return True
    if own is None or not own.contested or step.word is StepWord.REVERSED:
        return False
    if saga.state in (State.FAILED, State.COMPENSATED):
        return step.word is StepWord.NOT_REVERSED
    return own.state is State.RECONCILED_SUCCESS


def _attribution(steps: Mapping[str, StepOutcome]) -> Attribution:
    """Ours if every changing step is attributed to its action or had nothing to change."""
    whose = {s.outcome.attribution for s in steps.values() if s.outcome is not None and s.outcome.kind != "read"}
    doubtful = (Attribution.UNKNOWN, Attribution.OTHER_ACTOR)
    return next((each for each in doubtful if each in whose), Attribution.OURS)


_CLOSED = (StepWord.COMPLETED, StepWord.LEFT, StepWord.REVERSED, StepWord.FAILED)


def _step(saga: Saga, terms: StepTerms, family: ActionsById) -> Effects[StepOutcome]:
    record = saga.steps[terms.name]
    child, undo = family.get(record.action_id), family.get(record.undo_id)
    if undo is None and child is not None:
        undo = family.get(child.compensation_id)
    outcome: Outcome | None = None
    reversal: Outcome | None = None
    if child is not None:
        outcome = yield from outcome_of(child)
    if undo is not None:
        reversal = yield from outcome_of(undo)
    word = word_of(saga, terms.name, family)
    return StepOutcome(
        terms.name,
        word,
        terms.contract,
        terms.region.value,
        terms.after,
        outcome,
        reversal,
        record.tries,
        record.refused,
        record.detail,
        _verified_us(child) if child is not None and word in (StepWord.COMPLETED, StepWord.LEFT) else 0,
    )


def _verified_us(child: Action) -> int:
    """The time of the last reading with the step's effect: the start of the verifying reading, or a later look.

    The start counts: an effect may change during a reading.
    """
    started = child.reading.get("started") if child.reading is not None else None
    verified_us = started if isinstance(started, int) else child.claimed_us
    watched = child.watch
    return max(verified_us, watched.held_us) if watched is not None and watched.looks else verified_us


def word_of(saga: Saga, name: str, family: ActionsById) -> StepWord:
    """The permitted word for one step."""
    record = saga.steps[name]
    match step_status(saga, name, family):
        case StepStatus.WAITING | StepStatus.ANNOUNCED:
            return StepWord.NOT_BEGUN
        case StepStatus.RUNNING:
            child = family[record.action_id]
            return StepWord.REVERSING if child.state is State.COMPENSATING else StepWord.PENDING
        case StepStatus.LATE:
            return StepWord.UNKNOWN
        case StepStatus.HELD:
            return StepWord.HELD
        case StepStatus.FAILED:
            return StepWord.FAILED
        case StepStatus.REVERSED:
            return StepWord.REVERSED
        case StepStatus.STUCK:
            return StepWord.REVIEW
        case StepStatus.DONE | StepStatus.EFFECT as stands:
            return _of_effect(saga, name, family, stands)


def _of_effect(saga: Saga, name: str, family: ActionsById, stands: StepStatus) -> StepWord:
    record = saga.steps[name]
    undo = family.get(record.undo_id)
    if record.undo_state == "refused":
        return StepWord.NOT_REVERSED
    if undo is not None:
        if undo.state is State.RECONCILED_SUCCESS and not undo.contested:
            return StepWord.REVERSED
        return StepWord.NOT_REVERSED if has_ended(undo) else StepWord.REVERSING
    if stands is StepStatus.EFFECT:
        return StepWord.NOT_REVERSED
    back = saga.heading is Direction.BACKWARD and not has_effect(family[record.action_id])
    return StepWord.LEFT if back else StepWord.COMPLETED
