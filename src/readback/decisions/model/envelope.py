"""The envelope of a decision type: within which time, on how fresh a context, and under which rules it may act.

Made by `contracts.decisions`, which refuses what it does not know; read by `lifecycle.deciding`. Times in milliseconds,
as the format has them.

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
    """`hard`: nothing is executed because of it (or the decision does not proceed). A limit itself is within."""

    gate: Gate
    field: str
    limit: Json
    actual: Json
    hard: bool
    message: str

    def as_json(self) -> dict[str, Json]:
        """The form for episodes and `--json`."""
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
    """How old a feature may be. `allow_stale_if_safe` counts only for tiers at which nothing else is demanded."""

    default_ttl_ms: int
    feature_ttls_ms: Mapping[str, int]
    allow_stale_if_safe: bool = False

    def ttl_ms(self, feature: str) -> int:
        """The feature's own, or the default."""
        return self.feature_ttls_ms.get(feature, self.default_ttl_ms)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a decision used up, by the word of whoever planned it: there is no default, nothing is invented."""

    hops: int
    fanout: int
    tool_calls: int
    chain_depth: int


@dataclass(frozen=True, slots=True)
class VerificationTerms:
    """`timeout_ms` 0: the contract's own window stands."""

    required_above: BlastRadius
    methods: tuple[str, ...]
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class SafeAction:
    """`allowed_types` None: every type; an empty list allows none."""

    require_idempotency: bool
    require_rollback_above: BlastRadius
    blast_radius_max: BlastRadius
    allowed_types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One step of the degrade ladder, and how much longer than the deadline it may take."""

    rung: DegradeStep
    max_extra_ms: int = 0


@dataclass(frozen=True, slots=True)
class Envelope:
    """One version of one decision type. `sha256` is that of the file it was read from."""

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
        """The ladder's step of this name, if it has one."""
        return next((each for each in self.ladder if each.rung is rung), None)

    def requires_verification(self, tier: BlastRadius) -> bool:
        """Strictly above the threshold."""
        return tier.above(self.verification.required_above)

    def requires_rollback(self, tier: BlastRadius) -> bool:
        """Strictly above the threshold."""
        return tier.above(self.safe_action.require_rollback_above)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The context that a decision was made on: how old each feature was when it was taken, in milliseconds.

    Ages are durations, measured where the features are; they grow by our own clock from then on.
    """

    id: str
    ages_ms: Mapping[str, int]
    evidence: tuple[str, ...] = ()
