"""Mutants of the verifier: each a belief that a careless verifier holds, put in place of ours for one test.

The matrix has to kill every one of them; one that lives shows what the matrix does not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest

from readback.domain.action.action import Action
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.predicate import Truth
from readback.domain.state import State
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification import reconcile as reconciling
from readback.domain.verification import reconciliation
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Presence, TakenReading
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, EvaluatedReading, Reconciliation
from readback.engine.recovery import resend
from readback.engine.stages import evaluate, recover, verify

Mutate = Callable[[pytest.MonkeyPatch], None]

SUCCESS: Final = Reconciliation(
    Verdict.VERIFIED, Why.NONE, Finding.VERIFIED, None, Attribution.OURS, effect_shown=True, level=Level.RECONCILED
)
FAILURE: Final = Reconciliation(
    Verdict.REFUTED, Why.NONE, Finding.REFUTED_DEAD, Discrepancy.NO_OP_FAILURE, level=Level.VERIFIED
)


def _domain(name: str, value: object) -> Mutate:
    """Replaces one function of the reconciliation."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(reconciling, name, value)

    return mutate


def _instead(judge: Callable[[Case], Reconciliation | None]) -> Mutate:
    """Answers before the real judgement does, where it wants to."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(verify, "reconcile", lambda case: judge(case) or reconcile(case))

    return mutate


def _observed(*statuses: ObservationStatus, then: Reconciliation) -> Mutate:
    return _instead(lambda case: then if case.observation.status in statuses else None)


def _strongly(taken: TakenReading) -> bool:
    return taken.ran and taken.reading.presence is Presence.ABSENT


def _any_absence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TakenReading, "believable_absence", property(_strongly))
    patch.setattr(TakenReading, "strong", property(lambda taken: True))


def _every_reading_strong(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciling, "_too_weak", lambda case, judged: None)
    patch.setattr(TakenReading, "strong", property(lambda taken: True))


def _incomplete_is_complete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TakenReading, "believable_absence", property(lambda taken: _strongly(taken) and taken.strong))


def _hidden_is_absent(patch: pytest.MonkeyPatch) -> None:
    real = evaluate.judge_reading

    def judge(plan: Any, taken: TakenReading, variables: Any, before: TakenReading | None = None) -> EvaluatedReading:
        if taken.reading.presence is Presence.NOT_VISIBLE:
            taken = replace(taken, reading=replace(taken.reading, presence=Presence.ABSENT))
        return real(plan, taken, variables, before)

    patch.setattr(verify, "judge_reading", judge)


def _always_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verify, "is_dead", lambda *_: True)
    patch.setattr(recover, "is_dead", lambda *_: True)


def _scope_unread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EvaluatedReading, "in_scope", property(lambda judged: Truth.HOLDS))


def _may_always_repeat(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Action, "may_repeat", property(lambda action: action.state in (State.FAILED, State.ROLLED_BACK)))


def _doubt_is_truth(patch: pytest.MonkeyPatch) -> None:
    def conjoin(truths: Any) -> Truth:
        return Truth.VIOLATED if Truth.VIOLATED in set(truths) else Truth.HOLDS

    patch.setattr(reconciling, "conjoin", conjoin)


def _outage_is_failure(taken: TakenReading) -> Reconciliation:
    return FAILURE


def _first_reading_is_final(case: Case) -> Reconciliation | None:
    return reconcile(replace(case, window_closed=True))


def _nowhere_else(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resend, "looked_elsewhere", lambda *_, **__: True)
    patch.setattr(reconciling, "looked_elsewhere", lambda *_, **__: True)


_O = ObservationStatus
MUTANTS: Final[Mapping[str, Mutate]] = MappingProxyType(
    {
        "what the tool says is believed": _observed(_O.SUCCESS, then=SUCCESS),
        "accepted is taken for done": _observed(_O.ACCEPTED, _O.PENDING, then=SUCCESS),
        "an error is taken for no effect": _observed(_O.ERROR, then=FAILURE),
        "a timeout is taken for failure": _observed(_O.TIMEOUT, then=FAILURE),
        "a lost reply is taken for success": _observed(_O.TIMEOUT, _O.NONE, _O.CANCELLED, then=SUCCESS),
        "every reading is taken for strong": _every_reading_strong,
        "a weak reading confirms": _domain("_too_weak", lambda case, judged: None),
        "a stale reading needs no proof of being later": _domain("_after_action", lambda case, judged: True),
        "absence is believed from anywhere": _any_absence,
        "an incomplete search proves absence": _incomplete_is_complete,
        "what may be hidden is taken for absent": _hidden_is_absent,
        "identity is not looked at": _scope_unread,
        "effects elsewhere are not looked at": _domain("_misplaced", lambda case: None),
        "duplicates are not looked at": _domain("_duplicate", lambda case: None),
        "duplicates are looked for too early": lambda patch: patch.setattr(verify, "look_due", lambda run, when: False),
        "anything that fits is ours": _domain("attribute", lambda case, judged, **_: Attribution.OURS),
        "what is not ours fits as well": _domain(
            "_not_ours", lambda case, judged, whose: reconciliation.success(whose)
        ),
        "doubt is taken for truth": _doubt_is_truth,
        "an outage is taken for failure": _domain("_not_run", _outage_is_failure),
        "the first reading is final": _instead(_first_reading_is_final),
        "what is not there now is dead": _always_dead,
        "a part is taken for the whole": _instead(
            lambda case: (
                SUCCESS if any(e.truth is Truth.HOLDS for j in case.checks if j.taken.ran for e in j.ensure) else None
            )
        ),
        "nothing is ever settled": _instead(
            lambda case: replace(
                reconcile(case), verdict=Verdict.UNDETERMINED, why=Why.PROPAGATING, finding=Finding.AUTHORITY_MISMATCH
            )
        ),
        "whatever failed may be repeated": _may_always_repeat,
        "the target's silence is the whole world's": _nowhere_else,
        "the frame is not looked at": _domain("unexpected_changes", lambda case, judged, whose: None),
    }
)
