"""The frame: what an action may change, and whether anything beside it changed. Pure.

Source: the action verification specification, "State Reconciliation Model".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.verdict import Attribution, Why
from readback.domain.verification.case import Case, Judged
from readback.domain.verification.change import differences, outside, withheld
from readback.domain.verification.open_words import BESIDE
from readback.domain.verification.reading import Presence
from readback.domain.verification.reconciliation import Reconciliation, refuted, undetermined

NAMED_MAX: Final = 10
_NOT_WHOLE: Final = "Whether anything beside it changed cannot be told: a reading did not show all of it."


def unexpected_changes(case: Case, judged: Judged, whose: Attribution) -> Reconciliation | None:
    """What stands against success outside the frame: a change that may not be, or one that nobody can see any more."""
    frame, before = case.contract.may_change, case.before
    if frame is None or before is None or before.taken.believable_absence:
        return None
    if before.presence is not Presence.PRESENT:
        if case.contract.kind in (Kind.CREATE, Kind.SEND):
            return None  # it is shown to be ours, and so to be new
        detail = "Whether anything beside it changed cannot be told: what was before could not be seen."
        return undetermined(Why.INCOMPLETE, Finding.VERIFIER_ERROR, detail=detail)
    if not (before.taken.reading.complete and judged.taken.reading.complete):
        return undetermined(Why.INCOMPLETE, Finding.VERIFIER_ERROR, detail=_NOT_WHOLE)
    old = before.taken.reading.value
    beside = outside(frame, differences(old, judged.taken.reading.value))
    if beside:
        named = ", ".join(beside[:NAMED_MAX]) + (
            "" if len(beside) <= NAMED_MAX else f" and {len(beside) - NAMED_MAX} more"
        )
        detail = f"{BESIDE}{named}."
        if whose is Attribution.OURS:
            found = refuted(Finding.HIDDEN_SIDE_EFFECT, Discrepancy.VALUE_MISMATCH, whose, effect_shown=True)
            return replace(found, detail=detail)
        # Other actors work here too: a change outside the frame that nobody signed is not ours by that.
        return undetermined(Why.UNATTRIBUTED, Finding.HIDDEN_SIDE_EFFECT, Discrepancy.UNKNOWN_STATE, detail)
    unseen = outside(frame, withheld(old))
    if unseen:
        detail = f"Whether {', '.join(unseen)} changed cannot be told: the record of what was before is redacted there."
        return undetermined(Why.INCOMPLETE, Finding.VERIFIER_ERROR, detail=detail)
    return None
