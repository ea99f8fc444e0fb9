"""The degrade ladder: which of its steps is taken, and why. No step executes anything, and none skips verification.

Called before an action by what is broken, and after it by what was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.decisions.model.envelope import Envelope
from readback.decisions.model.violation import Violation
from readback.decisions.model.words import FALLBACKS, MS_US, DegradeStep, Gate, Stage, VerificationResultWord


class Reason(StrEnum):
    """Why a step was taken."""

    WITHIN = "within_envelope"
    TIME = "time_pressure"
    FRESHNESS = "freshness_gate"
    RULES = "envelope_gate"
    VERIFICATION = "verification_gate"
    APPROVAL = "approval"
    CALLER = "asked_by_caller"


@dataclass(frozen=True, slots=True)
class Degraded:
    """The step, with its reason. `rung` None: none was needed."""

    rung: DegradeStep | None
    reason: Reason
    remaining_us: int = 0
    said: str = ""

    @property
    def word(self) -> str:
        """As episodes write it."""
        return self.rung.value if self.rung is not None else "none"

    def as_json(self, envelope: Envelope) -> dict[str, Json]:
        """The episode's part."""
        rationale: dict[str, Json] = {"reason": self.reason.value, "remaining_ms": max(self.remaining_us, 0) // MS_US}
        if self.said:
            rationale["said"] = self.said
        ladder: list[Json] = [step.rung.value for step in envelope.ladder]
        return {"step": self.word, "rationale": rationale, "ladder": ladder}


def before(
    envelope: Envelope, broken: Iterable[Violation], remaining_us: int, fallback: DegradeStep | None
) -> Degraded:
    """What is to be done before the action. `fallback`: the step by which it was planned already.

    Too little time for the budgets of act and verify asks for a faster plan; one that was made by a step of the ladder
    goes on as long as there is any time. Whatever else is broken abstains.
    """
    gates = [each.gate for each in broken if each.hard]
    if any(gate is not Gate.FEATURE_TTL for gate in gates):
        return Degraded(_without_acting(envelope, DegradeStep.ABSTAIN), Reason.RULES, remaining_us)
    if gates:
        return Degraded(_without_acting(envelope, DegradeStep.ABSTAIN), Reason.FRESHNESS, remaining_us)
    budgets = envelope.stage_budgets_ms
    needed_us = (budgets[Stage.ACT] + budgets[Stage.VERIFY]) * MS_US
    if fallback is None and remaining_us < needed_us:
        faster = next((step.rung for step in envelope.ladder if step.rung in FALLBACKS), None)
        return Degraded(faster or _without_acting(envelope, DegradeStep.HITL), Reason.TIME, remaining_us)
    if fallback is not None:
        return Degraded(fallback, Reason.TIME, remaining_us)
    return Degraded(None, Reason.WITHIN, remaining_us)


def after(envelope: Envelope, said: VerificationResultWord, degraded: Degraded, *, held: bool) -> Degraded:
    """What is to be done after the action: a verification that did not pass goes to a person, if the ladder has one."""
    if held:
        return Degraded(DegradeStep.HITL, Reason.APPROVAL, degraded.remaining_us)
    if said in (VerificationResultWord.FAIL, VerificationResultWord.INCONCLUSIVE):
        rung = _without_acting(envelope, DegradeStep.HITL)
        return Degraded(rung, Reason.VERIFICATION, degraded.remaining_us, f"verification: {said.value}")
    return degraded


def _without_acting(envelope: Envelope, first: DegradeStep) -> DegradeStep:
    """A step that does not act: the wished one where the ladder has it, else its other one, else to abstain.

    `bypass` is never taken by itself: nothing broken is a reason to go round a rule.
    """
    other = DegradeStep.HITL if first is DegradeStep.ABSTAIN else DegradeStep.ABSTAIN
    return next((rung for rung in (first, other) if envelope.step(rung) is not None), DegradeStep.ABSTAIN)
