"""When an idempotency key is released: the one decision that lets the same operation run again after an attempt. Pure.

Called by recovery when an action ends, and recorded with that end. Stores, people's decisions, sagas and every surface
read the recorded reason; none of them decides it again. A key stays taken unless one of the reasons below holds.

Absence at the asked-for place is no reason: the system may have normalised the name, or the tool may have written
somewhere else. The tool's own words are no reason either.
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
        """An unknown reason releases nothing: the entry cannot be believed."""
        raise StoreCorruptError(f"A ledger entry releases its key for {value!r}, which is no reason.")


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """What is known when an action ends. Every field counts for all attempts of the action, not for the last alone."""

    left: bool
    """An attempt may have reached the tool."""
    effect_shown: bool
    """A reading, a search or the key's record shows an effect."""
    may_land: bool
    """Something of an attempt may still land."""
    others_changed: bool
    """Another actor changed the target: the plan behind the operation is stale."""
    refused: bool
    """The contract names what the system said as a refusal."""
    region_unchanged: bool
    """A strong reading of everything that the call may change equals the one from before the call."""
    nothing_found: bool
    """A complete search over every place that the tool can write found nothing."""
    mark_proven: bool
    """The same search has found an earlier effect of the same contract by the same mark."""


def release_of(evidence: KeyEvidence) -> KeyRelease:
    """The reason why the key is free, or NONE. Total: every combination has an answer, and doubt keeps the key."""
    if not evidence.left:
        return KeyRelease.NEVER_LEFT
    if evidence.effect_shown or evidence.may_land or evidence.others_changed:
        return KeyRelease.NONE
    if evidence.refused and evidence.region_unchanged:
        return KeyRelease.REFUSED
    if evidence.nothing_found and evidence.mark_proven:
        return KeyRelease.SEARCHED
    return KeyRelease.NONE
