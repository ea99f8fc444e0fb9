"""Gates: every rule of an envelope an action would break, found before any run.

The client calls the gates with the facts of the moment. A value at a limit is within the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.canon.frozen import dataclass
from readback.decisions.model.envelope import Counts, Envelope, Snapshot, Violation
from readback.decisions.model.words import CLASS_OF, MS_US, TIER_OF, BlastRadius, DegradeStep, Gate, Stage
from readback.domain.contract.contract import Contract
from readback.errors import ArgumentError

# What a caller tells of a decision, held to its kinds before anything acts.

_MOST: Final = 2**53 - 1
_SPENT: Final = (Stage.CONTEXT, Stage.PLAN)


def check_counts(counts: Counts) -> None:
    """Check the counts. Raises ArgumentError unless there are four whole numbers."""
    if not isinstance(counts, Counts):
        raise ArgumentError("The counts of a decision must be Counts(hops, fanout, tool_calls, chain_depth).")
    for name in ("hops", "fanout", "tool_calls", "chain_depth"):
        _whole(getattr(counts, name), f"counts.{name}")


def check_snapshot(snapshot: Snapshot) -> None:
    """Check the context. Raises ArgumentError for values beyond comparison or storage."""
    if not isinstance(snapshot.ages_ms, Mapping):
        raise ArgumentError("The context of a decision is a Snapshot, and its ages a mapping of features.")
    check_text(snapshot.id, "snapshot.id")
    for feature, age in snapshot.ages_ms.items():
        check_text(feature, "a feature's name")
        _whole(age, f"the age of {feature!r:.80}")
    if not isinstance(snapshot.evidence, tuple | list):
        raise ArgumentError("`snapshot.evidence` is a tuple of texts.")
    for each in snapshot.evidence:
        check_text(each, "snapshot.evidence")


def check_text(value: object, name: str) -> None:
    """Check a text. Raises ArgumentError for other types, and for texts an episode could not give back."""
    if not isinstance(value, str):
        raise ArgumentError(f"`{name}` is a text, and not {type(value).__name__}.")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ArgumentError(f"`{name}` holds half a character.")


def spent_of(given: Mapping[Stage, int]) -> dict[Stage, int]:
    """Return the time spent on context and plan. Raises ArgumentError."""
    spent: dict[Stage, int] = {}
    for stage, took in given.items():
        if stage not in _SPENT or _whole(took, f"spent_ms.{stage}") < 0:
            raise ArgumentError("Time spent before belongs to the stages context and plan.")
        spent[Stage(stage)] = took
    return spent


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST:
        raise ArgumentError(f"`{name}` is a whole number, and not {value!r:.40}.")
    return value


@dataclass(frozen=True, slots=True)
class Asked:
    """The request: the contract of the action, and whether the intent has a name. `declared` is the proposer's tier, or
    None.
    """

    contract: Contract
    operation: bool
    declared: BlastRadius | None = None

    @property
    def tier(self) -> BlastRadius:
        """The tier by the contract's class alone."""
        return TIER_OF[self.contract.side_effect]


def deadline_us(envelope: Envelope, fallback: DegradeStep | None) -> int:
    """The time limit of the decision: the deadline plus the allowance of the ladder's step."""
    step = envelope.step(fallback) if fallback is not None else None
    return (envelope.deadline_ms + (step.max_extra_ms if step else 0)) * MS_US


def over_time(envelope: Envelope, elapsed_us: int, fallback: DegradeStep | None = None) -> Iterator[Violation]:
    """Check the hard deadline."""
    limit_us = deadline_us(envelope, fallback)
    if elapsed_us > limit_us:
        took, most = -(-elapsed_us // MS_US), limit_us // MS_US
        said = f"The decision has taken {took} ms, over its deadline of {most} ms."
        yield Violation(Gate.DEADLINE, "deadlineMs", most, took, True, said)


def over_budgets(envelope: Envelope, stages_us: Mapping[Stage, int]) -> Iterator[Violation]:
    """Return stages over their budget. The violations are soft: reported, without a stop."""
    for stage, took_us in stages_us.items():
        budget = envelope.stage_budgets_ms[stage]
        if took_us > budget * MS_US:
            took = -(-took_us // MS_US)
            said = f"The stage {stage.value!r} took {took} ms, over its budget of {budget} ms."
            yield Violation(Gate.STAGE_BUDGET, f"stageBudgetsMs.{stage.value}", budget, took, False, said)


def stale(envelope: Envelope, ages_us: Mapping[str, int], tier: BlastRadius) -> Iterator[Violation]:
    """Return features beyond their time to live.

    A stale feature passes only by the envelope's permission, at or below both thresholds of the tier. A negative age is
    no age and counts as stale.
    """
    safe = not envelope.requires_verification(tier) and not envelope.requires_rollback(tier)
    hard = not (envelope.freshness.allow_stale_if_safe and safe)
    for feature, age_us in ages_us.items():
        ttl = envelope.freshness.ttl_ms(feature)
        if age_us > ttl * MS_US or age_us < 0:
            age = -(-age_us // MS_US)
            said = f"The feature {feature!r:.80} is {age} ms old, over its {ttl} ms."
            yield Violation(Gate.FEATURE_TTL, f"freshness.{feature}", ttl, age, hard, said)


def over_limits(envelope: Envelope, counts: Counts) -> Iterator[Violation]:
    """Return exceeded resource limits. All are hard."""
    limits = envelope.limits
    for name, most, used in (
        ("maxHops", limits.hops, counts.hops),
        ("maxFanout", limits.fanout, counts.fanout),
        ("maxToolCalls", limits.tool_calls, counts.tool_calls),
        ("maxChainDepth", limits.chain_depth, counts.chain_depth),
    ):
        if used > most or used < 0:
            yield Violation(Gate.LIMITS, f"limits.{name}", most, used, True, f"{name}: {used}, over {most}.")


def unsafe(envelope: Envelope, asked: Asked) -> Iterator[Violation]:
    """The safe-action rules: all hard."""
    rules, contract, tier = envelope.safe_action, asked.contract, asked.tier

    def broken(field: str, limit: str, actual: str, said: str) -> Violation:
        return Violation(Gate.SAFE_ACTION, f"safeAction.{field}", limit, actual, True, said)

    if rules.allowed_types is not None and contract.name not in rules.allowed_types:
        allowed = ", ".join(rules.allowed_types) or "none"
        said = f"The action type {contract.name!r} is not allowed. Allowed: {allowed}."
        yield broken("allowedActionTypes", allowed, contract.name, said)
    if tier.above(rules.blast_radius_max):
        most = rules.blast_radius_max.value
        said = f"The blast radius is {tier.value} (class {contract.side_effect.value}), over {most}."
        yield broken("blastRadiusMax", most, tier.value, said)
    if asked.declared is not None and asked.declared.above(tier):
        said = (
            f"It is declared {asked.declared.value}, which takes a contract of the class "
            f"{CLASS_OF[asked.declared].value} at least; its own is {contract.side_effect.value}."
        )
        yield broken("blastRadiusTier", tier.value, asked.declared.value, said)
    if rules.require_idempotency and not asked.operation:
        said = "No operation names the intent, so the intent could be executed twice."
        yield broken("requireIdempotency", "operation", "", said)
    if envelope.requires_rollback(tier) and not (contract.has_rollback or contract.has_compensation):
        most = rules.require_rollback_above.value
        said = f"Above {most} an action needs a rollback or a compensation. The contract has neither."
        yield broken("requireRollbackAbove", most, tier.value, said)
    elif envelope.requires_rollback(tier) and not contract.execution.reversible:
        said = "The contract has a reversal and forbids the reversal (`execute.reversible` is false)."
        yield broken("requireRollbackAbove", rules.require_rollback_above.value, tier.value, said)
