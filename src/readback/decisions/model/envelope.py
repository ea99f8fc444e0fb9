"""The envelope of a decision type: permitted time, freshness of the context, and rules for actions.

`decisions.contracts` creates envelopes and refuses unknown parts. Times are milliseconds, as in the format.

Source: the decision-type specification, "Relationship to Other Contracts".
"""

from __future__ import annotations

from collections.abc import Mapping

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.decisions.model.words import BlastRadius, DegradeStep, Gate, Stage

# A rule of an envelope that was broken, with what it allowed and what there was.


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule. `hard` blocks the execution, or the decision. A value at a limit is within the limit."""

    gate: Gate
    field: str
    limit: Json
    actual: Json
    hard: bool
    message: str

    def as_json(self) -> dict[str, Json]:
        """Return plain data for episodes and `--json`."""
        return {
            "gate": self.gate.value,
            "field": self.field,
            "limitValue": self.limit,
            "actualValue": self.actual,
            "severity": "hard" if self.hard else "soft",
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Freshness:
    """The permitted age of features. `allow_stale_if_safe` counts only for tiers without other requirements."""

    default_ttl_ms: int
    feature_ttls_ms: Mapping[str, int]
    allow_stale_if_safe: bool = False

    def ttl_ms(self, feature: str) -> int:
        """Return the feature's own limit, or the default."""
        return self.feature_ttls_ms.get(feature, self.default_ttl_ms)


@dataclass(frozen=True, slots=True)
class Counts:
    """The resources of a decision, as stated by the planner. No value has a default."""

    hops: int
    fanout: int
    tool_calls: int
    chain_depth: int


@dataclass(frozen=True, slots=True)
class VerificationTerms:
    """The terms of verification. `timeout_ms` 0 keeps the contract's own window."""

    required_above: BlastRadius
    methods: tuple[str, ...]
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class SafeAction:
    """The safe-action rules. `allowed_types` None permits every type; an empty list permits none."""

    require_idempotency: bool
    require_rollback_above: BlastRadius
    blast_radius_max: BlastRadius
    allowed_types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One step of the degrade ladder, with its allowance beyond the deadline."""

    rung: DegradeStep
    max_extra_ms: int = 0


@dataclass(frozen=True, slots=True)
class Envelope:
    """One version of one decision type. `sha256` is the hash of its file."""

    decision_type: str
    version: str
    deadline_ms: int
    stage_budgets_ms: Mapping[Stage, int]
    freshness: Freshness
    limits: Counts
    ladder: tuple[LadderStep, ...]
    verification: VerificationTerms
    safe_action: SafeAction
    description: str = ""
    policy_hash: str = ""
    policy_version: str = ""
    sha256: str = ""

    def step(self, rung: DegradeStep) -> LadderStep | None:
        """Return the ladder's step of this name, or None."""
        return next((each for each in self.ladder if each.rung is rung), None)

    def requires_verification(self, tier: BlastRadius) -> bool:
        """Strictly above the threshold."""
        return tier.above(self.verification.required_above)

    def requires_rollback(self, tier: BlastRadius) -> bool:
        """Strictly above the threshold."""
        return tier.above(self.safe_action.require_rollback_above)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The context of a decision: the age of each feature at its reading, in milliseconds.

    Ages are durations, measured at the features' source. Our own clock adds to them from then on.
    """

    id: str
    ages_ms: Mapping[str, int]
    evidence: tuple[str, ...] = ()
