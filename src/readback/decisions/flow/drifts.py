"""Decides the drift events of a decision: all eight kinds, from broken rules and findings.

Called once, at the conclusion of a decision.
"""

from __future__ import annotations

from collections.abc import Iterable

from readback.decisions.flow.ladder import Degraded, Judged
from readback.decisions.model.drift import Drift, told_once
from readback.decisions.model.envelope import Violation
from readback.decisions.model.words import FALLBACKS, DegradeStep, DriftType, Gate, Severity, VerificationResultWord
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome
from readback.domain.verdict import Attribution

_KIND_OF = {
    Gate.DEADLINE: DriftType.TIME,
    Gate.STAGE_BUDGET: DriftType.TIME,
    Gate.FEATURE_TTL: DriftType.FRESHNESS,
    Gate.LIMITS: DriftType.FANOUT,
    Gate.SAFE_ACTION: DriftType.BYPASS,
}
_GRAVE = frozenset({Discrepancy.WRONG_TARGET_MODIFIED, Discrepancy.DUPLICATE_SIDE_EFFECT})


def drifts_of(
    broken: Iterable[Violation],
    degraded: Iterable[Degraded],
    judged: Judged | None,
    outcome: Outcome | None,
    contended: str = "",
) -> tuple[Drift, ...]:
    """Return drifts in the order of the stages. `contended` gives the reason if another action blocked the start, else
    "".
    """
    found = [_of(each) for each in broken]
    found += [drift for each in degraded for drift in _of_step(each)]
    if judged is not None:
        found += _of_verification(judged)
    if outcome is not None:
        found += _of_outcome(outcome)
    if contended:
        found.append(Drift(DriftType.CONTENTION, Severity.YELLOW, "limit", contended))
    return told_once(found)


def _of(violation: Violation) -> Drift:
    severity = Severity.RED if violation.hard else Severity.YELLOW
    return Drift(_KIND_OF[violation.gate], severity, violation.field, violation.message)


def _of_step(degraded: Degraded) -> list[Drift]:
    if degraded.rung in FALLBACKS:
        said = f"The ladder's step {degraded.word} was taken: {degraded.reason.value}."
        return [Drift(DriftType.FALLBACK, Severity.YELLOW, degraded.word, said)]
    if degraded.rung is DegradeStep.BYPASS:
        return [Drift(DriftType.BYPASS, Severity.RED, degraded.word, degraded.said or "The decision was bypassed.")]
    return []


def _of_verification(judged: Judged) -> list[Drift]:
    """Yellow without a pass, red after the time limit."""
    if judged.said not in (VerificationResultWord.FAIL, VerificationResultWord.INCONCLUSIVE):
        return []
    severity = Severity.RED if judged.timed_out else Severity.YELLOW
    cause = "timeout" if judged.timed_out else judged.said.value
    return [Drift(DriftType.VERIFY, severity, cause, f"Verification is {judged.said.value}: {judged.reason}.")]


def _of_outcome(outcome: Outcome) -> list[Drift]:
    """Return deviations beyond a wrong value: another actor in between, a partial, doubled or misplaced effect."""
    found = outcome.discrepancy
    if found is Discrepancy.STALE_STATE or outcome.attribution is Attribution.OTHER_ACTOR:
        return [Drift(DriftType.CONTENTION, Severity.YELLOW, "other_actor", "Another actor changed the target.")]
    if found is Discrepancy.PARTIAL_APPLICATION:
        done, left = ", ".join(outcome.parts_done) or "nothing", ", ".join(outcome.parts_open) or "nothing"
        return [Drift(DriftType.OUTCOME, Severity.YELLOW, found.value, f"Done: {done}; open: {left}.")]
    if found in _GRAVE:
        return [Drift(DriftType.OUTCOME, Severity.RED, found.value, outcome.detail or found.value)]
    return []
