"""The degrade ladder: the chosen step and the reason. No step executes anything, and none skips verification.

Called before an action with broken rules, and after an action with findings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.decisions.model.envelope import Envelope, Violation
from readback.decisions.model.words import (
    FALLBACKS,
    MS_US,
    DecisionEnd,
    DegradeStep,
    Gate,
    Stage,
    VerificationResultWord,
)
from readback.domain.contract.contract import Contract
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import JudgedPostcondition, Outcome
from readback.domain.predicate import Truth
from readback.domain.verdict import Verdict, Why

# What an outcome comes to in the words of decision types: pass, fail, inconclusive or na, for each method too.

LATE = frozenset({Why.TIMEOUT, Why.PROPAGATING, Why.SETTLING})
"""Undetermined reasons another reading might settle. At the end of the verification time they are a timeout."""
BUILT_IN = ("read_after_write", "invariant_check")
VERIFIER = "verifier."
"""The name prefix of a custom verifier's postcondition."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verification of one action. `timed_out`: inconclusive at the end of the time."""

    said: VerificationResultWord
    timed_out: bool
    methods: dict[str, Json] = field(default_factory=dict)
    reason: str = ""


def judged(envelope: Envelope, contract: Contract, outcome: Outcome, verify_us: int) -> Judged:
    """Judge an outcome.

    `contract` is the contract under the envelope. `verify_us` is the time from the tool's answer to the verdict, or the
    waited time.
    """
    if not outcome.attempted:
        return Judged(
            VerificationResultWord.NA,
            False,
            reason=outcome.code or outcome.detail or outcome.hold or outcome.state.value,
        )
    limit_us = envelope.verification.timeout_ms * MS_US
    late = bool(limit_us) and verify_us > limit_us
    unasked = _unasked(contract, outcome) if outcome.standing else []
    partly = any(not name.startswith(VERIFIER) for name in unasked)
    methods: dict[str, Json] = {
        name: _method(name, outcome, late=late or (partly and name in BUILT_IN))
        for name in envelope.verification.methods
    }
    if unasked:  # it was run before, without this envelope or under another contract
        named = ", ".join(name.removeprefix(VERIFIER) for name in unasked)
        return Judged(VerificationResultWord.INCONCLUSIVE, False, methods, f"verified without {named}")
    if outcome.standing and not late:
        return Judged(VerificationResultWord.PASS, False, methods)
    if outcome.standing:
        return Judged(
            VerificationResultWord.INCONCLUSIVE, True, methods, f"verified after {verify_us // MS_US} ms, too late"
        )
    if outcome.verdict is Verdict.REFUTED and not outcome.contested:
        return Judged(VerificationResultWord.FAIL, False, methods, _found(outcome))
    timed_out = outcome.why in LATE or (not outcome.settled and outcome.why is Why.NONE)
    return Judged(VerificationResultWord.INCONCLUSIVE, timed_out, methods, outcome.why.value or outcome.state.value)


def _unasked(contract: Contract, outcome: Outcome) -> list[str]:
    """Return postconditions of the present contract without a verdict in the record."""
    asked = {(each.name, each.source) for each in outcome.postconditions}
    return [each.name for each in contract.ensure if (each.name, each.source) not in asked]


def ended(said: VerificationResultWord, outcome: Outcome | None) -> DecisionEnd:
    """Return the episode's code. An unknown end is `partial`, the nearest word, with a reason."""
    if outcome is None or said is VerificationResultWord.NA:
        return DecisionEnd.ABSTAIN
    if said is VerificationResultWord.PASS:
        return DecisionEnd.SUCCESS
    partial = outcome.discrepancy is Discrepancy.PARTIAL_APPLICATION
    return DecisionEnd.PARTIAL if said is VerificationResultWord.INCONCLUSIVE or partial else DecisionEnd.FAIL


def _own(name: str, outcome: Outcome) -> list[JudgedPostcondition]:
    """Return the postconditions of a method, without custom verifiers that did not run."""
    if name in BUILT_IN:
        return [each for each in outcome.postconditions if not each.name.startswith(VERIFIER)]
    return [each for each in outcome.postconditions if each.name == f"{VERIFIER}{name}"]


def _method(name: str, outcome: Outcome, *, late: bool) -> Json:
    said: dict[str, Json] = {"result": _together(_own(name, outcome), late=late).value}
    answered = _answer(name, outcome)
    if answered is not None:
        said |= {"said": answered.get("outcome"), "detail": answered.get("detail")}
    return said


def _together(own: list[JudgedPostcondition], *, late: bool) -> VerificationResultWord:
    if not own or late or any(each.truth is Truth.UNDETERMINED for each in own):
        return (
            VerificationResultWord.FAIL
            if any(each.truth is Truth.VIOLATED for each in own) and not late
            else VerificationResultWord.INCONCLUSIVE
        )
    return (
        VerificationResultWord.PASS if all(each.truth is Truth.HOLDS for each in own) else VerificationResultWord.FAIL
    )


def _answer(name: str, outcome: Outcome) -> dict[str, Json] | None:
    seen = outcome.authoritative
    answers = seen.get("$verifiers") if isinstance(seen, dict) else None
    answer = answers.get(name) if isinstance(answers, dict) else None
    return answer if isinstance(answer, dict) else None


def _found(outcome: Outcome) -> str:
    broken = [each.name for each in outcome.postconditions if each.truth is Truth.VIOLATED]
    said = outcome.discrepancy.value if outcome.discrepancy is not None else "refuted"
    return f"{said}: {', '.join(broken)}" if broken else said


class Reason(StrEnum):
    """The reason of a step."""

    WITHIN = "within_envelope"
    TIME = "time_pressure"
    FRESHNESS = "freshness_gate"
    RULES = "envelope_gate"
    VERIFICATION = "verification_gate"
    APPROVAL = "approval"
    CALLER = "asked_by_caller"


@dataclass(frozen=True, slots=True)
class Degraded:
    """The step with its reason. `rung` is None without a step."""

    rung: DegradeStep | None
    reason: Reason
    remaining_us: int = 0
    said: str = ""

    @property
    def word(self) -> str:
        """The step in the words of episodes."""
        return self.rung.value if self.rung is not None else "none"

    def as_json(self, envelope: Envelope) -> dict[str, Json]:
        """Return the episode's part."""
        rationale: dict[str, Json] = {"reason": self.reason.value, "remaining_ms": max(self.remaining_us, 0) // MS_US}
        if self.said:
            rationale["said"] = self.said
        ladder: list[Json] = [step.rung.value for step in envelope.ladder]
        return {"step": self.word, "rationale": rationale, "ladder": ladder}


def before(
    envelope: Envelope, broken: Iterable[Violation], remaining_us: int, fallback: DegradeStep | None
) -> Degraded:
    """Choose the step before the action. `fallback` is the step of the present plan.

    Too little time for the budgets of act and verify requires a faster plan. A plan of the ladder continues with any
    time left. Every other broken rule abstains.
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
    """Choose the step after the action: a verification without a pass goes to a person, if the ladder has the step."""
    if held:
        return Degraded(DegradeStep.HITL, Reason.APPROVAL, degraded.remaining_us)
    if said in (VerificationResultWord.FAIL, VerificationResultWord.INCONCLUSIVE):
        rung = _without_acting(envelope, DegradeStep.HITL)
        return Degraded(rung, Reason.VERIFICATION, degraded.remaining_us, f"verification: {said.value}")
    return degraded


def _without_acting(envelope: Envelope, first: DegradeStep) -> DegradeStep:
    """Choose a step without an action: the wished step, else the ladder's other such step, else to abstain.

    `bypass` is never automatic: a broken rule is no reason to go around a rule.
    """
    other = DegradeStep.HITL if first is DegradeStep.ABSTAIN else DegradeStep.ABSTAIN
    return next((rung for rung in (first, other) if envelope.step(rung) is not None), DegradeStep.ABSTAIN)
