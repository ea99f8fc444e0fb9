"""The vocabularies of decision types, and the table from blast radius to side-effect class.

The words are those of the envelope's, the episode's and the drift event's formats.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.domain.side_effect import SideEffect

MS_US: Final = 1_000


class BlastRadius(StrEnum):
    """Blast radius, from nothing to everything. `none` is a threshold only; no action has this tier."""

    NONE = "none"
    TINY = "tiny"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"

    @property
    def rank(self) -> int:
        """0 (none) to 4 (large)."""
        return _RANK[self]

    def above(self, threshold: BlastRadius) -> bool:
        """Whether a tier is strictly above a threshold."""
        return self.rank > threshold.rank


_RANK: Final = MappingProxyType({tier: rank for rank, tier in enumerate(BlastRadius)})

CLASS_OF: Final = MappingProxyType(
    {
        BlastRadius.TINY: SideEffect.LOW_RISK_INTERNAL,
        BlastRadius.SMALL: SideEffect.MEDIUM_RISK_WRITE,
        BlastRadius.MEDIUM: SideEffect.HIGH_RISK_EXTERNAL,
        BlastRadius.LARGE: SideEffect.CRITICAL_MUTATION,
    }
)
"""The minimum class of a contract for an action of this tier. Reads and drafts count as tiny too."""

TIER_OF: Final = MappingProxyType(
    {
        SideEffect.READ_ONLY: BlastRadius.TINY,
        SideEffect.EPHEMERAL_WRITE: BlastRadius.TINY,
        SideEffect.LOW_RISK_INTERNAL: BlastRadius.TINY,
        SideEffect.MEDIUM_RISK_WRITE: BlastRadius.SMALL,
        SideEffect.HIGH_RISK_EXTERNAL: BlastRadius.MEDIUM,
        SideEffect.CRITICAL_MUTATION: BlastRadius.LARGE,
    }
)
"""The tier of an action by its contract's class. A declaration can be refused, and lowers nothing."""

ALIASES: Final = MappingProxyType({"low": BlastRadius.SMALL, "high": BlastRadius.LARGE})
"""Two older words for tiers, read upwards. Actions may use them, and envelopes never."""


class Stage(StrEnum):
    """The four stages with a time budget."""

    CONTEXT = "context"
    PLAN = "plan"
    ACT = "act"
    VERIFY = "verify"


class DegradeStep(StrEnum):
    """Steps of a degrade ladder."""

    CACHE_BUNDLE = "cache_bundle"
    SMALL_MODEL = "small_model"
    RULES_ONLY = "rules_only"
    HITL = "hitl"
    ABSTAIN = "abstain"
    BYPASS = "bypass"


FALLBACKS: Final = frozenset({DegradeStep.CACHE_BUNDLE, DegradeStep.SMALL_MODEL, DegradeStep.RULES_ONLY})
"""Steps with a new, faster plan. The other steps do not act."""


class VerificationResultWord(StrEnum):
    """The result of a verification in the format's words. INCONCLUSIVE counts as FAIL for safety."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NA = "na"
    """Nothing was executed, so nothing needs verification."""


class DecisionEnd(StrEnum):
    """The end of the decision, in the episode's words."""

    SUCCESS = "success"
    PARTIAL = "partial"
    """Also an unknown end: the episode's format has no other word, and the reason explains it."""
    FAIL = "fail"
    ABSTAIN = "abstain"
    BYPASSED = "bypassed"


class Gate(StrEnum):
    """The broken rule of an envelope."""

    DEADLINE = "deadline"
    STAGE_BUDGET = "stage_budget"
    FEATURE_TTL = "feature_ttl"
    LIMITS = "limits"
    SAFE_ACTION = "safe_action"


class DriftType(StrEnum):
    """The kinds of drift events."""

    TIME = "time"
    FRESHNESS = "freshness"
    FALLBACK = "fallback"
    BYPASS = "bypass"
    VERIFY = "verify"
    OUTCOME = "outcome"
    FANOUT = "fanout"
    CONTENTION = "contention"


class Severity(StrEnum):
    """The severity of a drift."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"


class Patch(StrEnum):
    """The change recommended by a drift event."""

    DTE_CHANGE = "dte_change"
    TTL_CHANGE = "ttl_change"
    CACHE_BUNDLE_CHANGE = "cache_bundle_change"
    ROUTING_CHANGE = "routing_change"
    VERIFICATION_CHANGE = "verification_change"
    ACTION_SCOPE_TIGHTEN = "action_scope_tighten"
    MANUAL_REVIEW = "manual_review"


PATCH_OF: Final = MappingProxyType(
    {
        DriftType.TIME: Patch.DTE_CHANGE,
        DriftType.FRESHNESS: Patch.TTL_CHANGE,
        DriftType.FALLBACK: Patch.CACHE_BUNDLE_CHANGE,
        DriftType.BYPASS: Patch.ACTION_SCOPE_TIGHTEN,
        DriftType.VERIFY: Patch.VERIFICATION_CHANGE,
        DriftType.OUTCOME: Patch.MANUAL_REVIEW,
        DriftType.FANOUT: Patch.ACTION_SCOPE_TIGHTEN,
        DriftType.CONTENTION: Patch.ROUTING_CHANGE,
    }
)
