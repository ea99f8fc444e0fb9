"""What a caller tells of a decision, held to its kinds before anything acts.

Called by the SDK. What has no written form would be found when the episode is sealed, behind the action; and a number
that is none (NaN) is over no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.decisions.model.envelope import Counts, Snapshot
from readback.decisions.model.words import Stage
from readback.domain.errors import ArgumentError

_MOST: Final = 2**53 - 1
_SPENT: Final = (Stage.CONTEXT, Stage.PLAN)


def check_counts(counts: Counts) -> None:
    """Raises ArgumentError for what is no four whole numbers."""
    if not isinstance(counts, Counts):
        raise ArgumentError("What a decision used up is told as Counts(hops, fanout, tool_calls, chain_depth).")
    for name in ("hops", "fanout", "tool_calls", "chain_depth"):
        _whole(getattr(counts, name), f"counts.{name}")


def check_snapshot(snapshot: Snapshot) -> None:
    """Raises ArgumentError for a context that cannot be held against anything, or kept."""
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
    """Raises ArgumentError for what is no text, or could not be read out of an episode again."""
    if not isinstance(value, str):
        raise ArgumentError(f"`{name}` is a text, and not {type(value).__name__}.")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ArgumentError(f"`{name}` holds half a character.")


def spent_of(given: Mapping[Stage, int]) -> dict[Stage, int]:
    """What context and plan took already. Raises ArgumentError."""
    spent: dict[Stage, int] = {}
    for stage, took in given.items():
        if stage not in _SPENT or _whole(took, f"spent_ms.{stage}") < 0:
            raise ArgumentError("What was spent before is a time of context and plan.")
        spent[Stage(stage)] = took
    return spent


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST:
        raise ArgumentError(f"`{name}` is a whole number, and not {value!r:.40}.")
    return value
