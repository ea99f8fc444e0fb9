"""The episode of a decision, in its format, with observed facts only.

Built at the conclusion of a decision. `decisions.model.seals` seals the episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.decisions.flow.ladder import Degraded, Judged
from readback.decisions.model.drift import written_moment
from readback.decisions.model.envelope import Counts, Envelope, Snapshot, Violation
from readback.decisions.model.words import FALLBACKS, MS_US, TIER_OF, DecisionEnd, Gate, Stage, VerificationResultWord
from readback.domain.contract.contract import Contract
from readback.domain.outcome.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Actor:
    """The deciding actor: an agent, a human or a system."""

    type: str
    id: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan: its author (llm, rules, hybrid), its content and its place."""

    planner: str
    summary: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The known facts at the conclusion. `ended` is the code with the reason."""

    episode_id: str
    envelope: Envelope
    actor: Actor
    started_us: int
    ended_us: int
    snapshot: Snapshot
    captured_us: int
    oldest_us: int
    planned: Planned
    counts: Counts
    stages_us: Mapping[Stage, int]
    ended: DecisionEnd
    reason: str
    degraded: Degraded
    broken: Sequence[Violation] = ()
    action: Mapping[str, Json] | None = None
    contract: Contract | None = None
    judged: Judged | None = None
    outcome: Outcome | None = None
    samples_ms: Sequence[int] = ()
    """Durations of decisions of this type in this process, this decision included."""


def episode_of(facts: Facts) -> dict[str, Json]:
    """The episode without its seal, valid against its format."""
    envelope, episode = facts.envelope, dict[str, Json]()
    reference: dict[str, Json] = {"decisionType": envelope.decision_type, "version": envelope.version}
    policy: dict[str, Json] = {}
    if envelope.policy_version:
        policy["policyPackVersion"] = envelope.policy_version
    if envelope.policy_hash:
        policy["policyPackHash"] = reference["policyPackHash"] = envelope.policy_hash
    episode |= {
        "episodeId": facts.episode_id,
        "decisionType": envelope.decision_type,
        "startedAt": written_moment(facts.started_us),
        "endedAt": written_moment(facts.ended_us),
        "decisionWindowMs": envelope.deadline_ms,
        "actor": _without_empty({"type": facts.actor.type, "id": facts.actor.id, "version": facts.actor.version}),
        "dteRef": reference,
        "context": _context(facts),
        "plan": _without_empty(
            {"planner": facts.planned.planner, "planRef": facts.planned.ref}, summary=facts.planned.summary
        ),
        "actions": [dict(facts.action)] if facts.action is not None else [],
        "verification": _verification(facts),
        "outcome": {"code": facts.ended.value, "reason": facts.reason, "effects": _effects(facts)},
        "telemetry": _telemetry(facts),
        "degrade": facts.degraded.as_json(envelope),
    }
    if policy:
        episode["policy"] = policy
    return episode


def action_of(outcome: Outcome, contract: Contract, target: tuple[str, str]) -> dict[str, Json]:
    """Return the attempted action in its format."""
    kinds = (("compensate", contract.has_compensation), ("restore", contract.has_rollback), ("none", True))
    return {
        "actionId": outcome.id,
        "actionType": contract.name,
        "blastRadiusTier": TIER_OF[contract.side_effect].value,
        "targetRefs": [{"type": target[0], "id": target[1]}],
        "authorization": {"mode": "hitl" if outcome.approved_by else "auto", "policyRef": contract.hash},
        "idempotencyKey": outcome.operation,
        "rollbackPlan": {"type": next(name for name, there in kinds if there)},
        "execution": {"timeoutMs": contract.execution.timeout_us // MS_US},
    }


def _effects(facts: Facts) -> dict[str, Json]:
    """Return the record of the effect, or nothing without an effect."""
    found = facts.outcome
    return {"actionId": found.id, "ledgerEntry": found.ledger_entry} if found is not None and found.attempted else {}


def _context(facts: Facts) -> dict[str, Json]:
    breaches = sum(each.gate is Gate.FEATURE_TTL for each in facts.broken)
    return {
        "snapshotId": facts.snapshot.id,
        "capturedAt": written_moment(facts.captured_us),
        "ttlMs": facts.envelope.freshness.default_ttl_ms,
        "maxFeatureAgeMs": max(facts.oldest_us, 0) // MS_US,
        "ttlBreachesCount": breaches,
        "evidenceRefs": list(facts.snapshot.evidence),
    }


def _verification(facts: Facts) -> dict[str, Json]:
    judged, outcome, envelope = facts.judged, facts.outcome, facts.envelope
    tier = TIER_OF[facts.contract.side_effect] if facts.contract is not None else None
    methods = envelope.verification.methods
    details: dict[str, Json] = {
        "envelopeSha256": envelope.sha256,
        "violations": [each.as_json() for each in facts.broken],
        "samples": len(facts.samples_ms),
    }
    if judged is not None:
        details |= {"methods": judged.methods, "timedOut": judged.timed_out, "reason": judged.reason}
    if outcome is not None:
        details["outcome"] = {
            "actionId": outcome.id,
            "state": outcome.state.value,
            "verdict": outcome.verdict.value,
            "why": outcome.why.value,
            "contractHash": facts.contract.hash if facts.contract is not None else "",
            "ledgerEntry": outcome.ledger_entry,
            "replayed": outcome.replayed,
        }
    said: dict[str, Json] = {
        "required": tier is not None and envelope.requires_verification(tier),
        "result": (judged.said if judged is not None else VerificationResultWord.NA).value,
        "details": details,
    }
    if methods:
        said["method"] = "+".join(methods)
    return said


def _telemetry(facts: Facts) -> dict[str, Json]:
    """Percentiles by nearest rank over the samples, and the spread between the median and the 99th of a hundred."""
    took = max(facts.ended_us - facts.started_us, 0) // MS_US
    samples = sorted(facts.samples_ms) or [took]
    p50, p95, p99 = (_rank(samples, share) for share in (50, 95, 99))
    step = facts.degraded.word if facts.degraded.rung is not None else ""
    return {
        "endToEndMs": took,
        "stageMs": {stage.value: facts.stages_us.get(stage, 0) // MS_US for stage in Stage},
        "p95Ms": p95,
        "p99Ms": p99,
        "jitterMs": p99 - p50,
        "fallbackUsed": facts.degraded.rung in FALLBACKS,
        "fallbackStep": step,
        "hopCount": max(facts.counts.hops, 0),
        "fanout": max(facts.counts.fanout, 0),
    }


def _rank(samples: list[int], share: int) -> int:
    return samples[max(-(-len(samples) * share // 100) - 1, 0)]


def _without_empty(parts: dict[str, str], **kept: str) -> dict[str, Json]:
    return {**{key: value for key, value in parts.items() if value}, **kept}
