"""The formats of decision files: envelope, action, episode, drift event.

The shapes follow the published schemas. Where a schema is open, whole numbers and real times are required.
"""

from __future__ import annotations

from typing import Final

from readback.decisions.contracts.shapes import Fields, Flag, Listed, Mapped, Shape, Text, Whole
from readback.decisions.model.words import (
    ALIASES,
    BlastRadius,
    DecisionEnd,
    DegradeStep,
    DriftType,
    Patch,
    Severity,
    Stage,
    VerificationResultWord,
)

_NAME: Final = Text(least=1)
_MOMENT: Final = Text(moment=True)
_TIERS: Final = Text(among=tuple(BlastRadius))
_RADII: Final = Text(among=tuple(tier for tier in BlastRadius if tier is not BlastRadius.NONE))
_STAGES: Final = Fields({stage: Whole() for stage in Stage}, tuple(Stage))
_LIMITS: Final = ("maxHops", "maxFanout", "maxToolCalls", "maxChainDepth")

ENVELOPE: Final = Fields(
    {
        "decisionType": _NAME,
        "version": _NAME,
        "description": Text(),
        "deadlineMs": Whole(1),
        "stageBudgetsMs": _STAGES,
        "freshness": Fields(
            {"defaultTtlMs": Whole(), "featureTtls": Mapped(Whole()), "allowStaleIfSafe": Flag()}, ("defaultTtlMs",)
        ),
        "limits": Fields({name: Whole() for name in _LIMITS}, _LIMITS),
        "degradeLadder": Listed(Fields({"step": Text(among=tuple(DegradeStep)), "maxExtraMs": Whole()}, ("step",)), 1),
        "verification": Fields(
            {"requiredAboveBlastRadius": _TIERS, "methods": Listed(_NAME), "verifyTimeoutMs": Whole()},
            ("requiredAboveBlastRadius",),
        ),
        "safeAction": Fields(
            {
                "requireIdempotency": Flag(),
                "requireRollbackAbove": _TIERS,
                "blastRadiusMax": _RADII,
                "allowedActionTypes": Listed(Text()),
            },
            ("requireIdempotency", "requireRollbackAbove", "blastRadiusMax"),
        ),
        "policyPack": Fields({"policyPackHash": Text(), "policyPackVersion": Text()}),
    },
    (
        "decisionType",
        "version",
        "deadlineMs",
        "stageBudgetsMs",
        "freshness",
        "limits",
        "degradeLadder",
        "verification",
        "safeAction",
    ),
)

ACTION: Final = Fields(
    {
        "actionId": _NAME,
        "actionType": _NAME,
        "blastRadiusTier": Text(among=(*(tier for tier in BlastRadius if tier is not BlastRadius.NONE), *ALIASES)),
        "targetRefs": Listed(Fields({"type": Text(), "id": Text()}, ("type", "id"))),
        "constraints": Mapped(),
        "authorization": Fields(
            {"mode": Text(among=("auto", "hitl", "blocked")), "policyRef": Text(), "approver": Text()}, open=True
        ),
        "idempotencyKey": Text(),
        "rollbackPlan": Mapped(),
        "execution": Mapped(),
    },
    ("actionId", "actionType"),
    open=True,
)

_TELEMETRY: Final[dict[str, Shape]] = {
    "endToEndMs": Whole(),
    "stageMs": _STAGES,
    "p95Ms": Whole(),
    "p99Ms": Whole(),
    "jitterMs": Whole(),
    "fallbackUsed": Flag(),
    "fallbackStep": Text(),
    "hopCount": Whole(),
    "fanout": Whole(),
}
_CONTEXT: Final[dict[str, Shape]] = {
    "snapshotId": Text(),
    "capturedAt": _MOMENT,
    "ttlMs": Whole(),
    "maxFeatureAgeMs": Whole(),
    "ttlBreachesCount": Whole(),
    "evidenceRefs": Listed(Text()),
}
_PARTS: Final[dict[str, Shape]] = {
    "episodeId": _NAME,
    "decisionType": _NAME,
    "startedAt": _MOMENT,
    "endedAt": _MOMENT,
    "decisionWindowMs": Whole(1),
    "actor": Fields(
        {"type": Text(among=("agent", "human", "system")), "id": Text(), "version": Text()}, ("type", "id")
    ),
    "dteRef": Fields(
        {"decisionType": Text(), "version": Text(), "policyPackHash": Text()}, ("decisionType", "version")
    ),
    "context": Fields(_CONTEXT, tuple(_CONTEXT)),
    "plan": Fields(
        {"planner": Text(among=("llm", "rules", "hybrid")), "summary": Text(), "planRef": Text()},
        ("planner", "summary"),
    ),
    "actions": Listed(ACTION),
    "verification": Fields(
        {
            "required": Flag(),
            "method": Text(),
            "result": Text(among=tuple(VerificationResultWord)),
            "details": Mapped(),
        },
        ("required", "result"),
    ),
    "outcome": Fields({"code": Text(among=tuple(DecisionEnd)), "reason": Text(), "effects": Mapped()}, ("code",)),
    "telemetry": Fields(_TELEMETRY, tuple(_TELEMETRY)),
}
_SEAL: Final = Fields({"sealedAt": _MOMENT, "sealHash": Text()}, ("sealedAt", "sealHash"))
_MORE: Final[dict[str, Shape]] = {
    "policy": Fields({"policyPackId": Text(), "policyPackVersion": Text(), "policyPackHash": Text()}, open=True),
    "degrade": Fields({"step": Text(), "rationale": Mapped(), "ladder": Listed(Text())}, open=True),
}

EPISODE: Final = Fields({**_PARTS, "seal": _SEAL, **_MORE}, (*_PARTS, "seal"))
UNSEALED: Final = Fields({**_PARTS, **_MORE}, tuple(_PARTS))
"""An episode before its seal."""

DRIFT: Final = Fields(
    {
        "driftId": _NAME,
        "episodeId": _NAME,
        "driftType": Text(among=tuple(DriftType)),
        "severity": Text(among=tuple(Severity)),
        "detectedAt": _MOMENT,
        "evidenceRefs": Listed(Text()),
        "recommendedPatchType": Text(among=tuple(Patch)),
        "fingerprint": Fields({"key": Text(), "version": Text()}, ("key", "version")),
        "notes": Text(),
    },
    (
        "driftId",
        "episodeId",
        "driftType",
        "severity",
        "detectedAt",
        "evidenceRefs",
        "recommendedPatchType",
        "fingerprint",
    ),
)
