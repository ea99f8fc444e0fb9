"""Release of an idempotency key: the single decision to let an attempted operation run again. Pure.

Recovery decides when an action ends, and records the reason with the end. Stores, people's decisions, sagas and the
interfaces read the recorded reason. A key stays taken without one of the reasons below.

Absence at the requested place is no reason: the system may have normalised the name, or the tool may have written
elsewhere. The tool's own answer is no reason either.
"""

from __future__ import annotations

from enum import StrEnum

from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError


class KeyRelease(StrEnum):
    """Why the key of an attempted action is free."""

    NONE = ""
    """The key stays taken."""
    NEVER_LEFT = "never_left"
    """No attempt left this process, or everything stayed in a transaction that was dropped."""
    REFUSED = "refused"
    """The contract names the refusal, and a strong reading of the whole region shows that nothing changed."""
    SEARCHED = "searched"
    """A complete search found nothing, and has found an earlier effect of the same contract by the same mark."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Reject an unknown reason: a corrupt entry must not release a key."""
        raise StoreCorruptError(f"A ledger entry releases its key for the unknown reason {value!r}.")


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """The evidence at the end of an action. Every field covers all attempts, not only the last."""

    left: bool
    """An attempt may have reached the tool."""
    effect_shown: bool
    """A reading, a search or the key's record shows an effect."""
    may_land: bool
    """Something of an attempt may still land."""
    others_changed: bool
    """Another actor changed the target: the plan behind the operation is stale."""
    refused: bool
    """The contract names the system's answer as a refusal."""
    region_unchanged: bool
    """A strong reading of everything the call may change equals the reading from before the call."""
    nothing_found: bool
    """A complete search over every place the tool can write found nothing."""
    mark_proven: bool
    """The same search has found an earlier effect of the same contract by the same mark."""


def release_of(evidence: KeyEvidence) -> KeyRelease:
    """Return the reason to free the key, or NONE. Total: in doubt the key stays taken."""
    if not evidence.left:
        return KeyRelease.NEVER_LEFT
    if evidence.effect_shown or evidence.may_land or evidence.others_changed:
        return KeyRelease.NONE
    if evidence.refused and evidence.region_unchanged:
        return KeyRelease.REFUSED
    if evidence.nothing_found and evidence.mark_proven:
        return KeyRelease.SEARCHED
    return KeyRelease.NONE
