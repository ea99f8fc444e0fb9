"""Readings by an undeclared reader: information without a decision. Pure.

Called by `reconcile`. A match is not verified, a difference is not refuted, and an empty answer is not absence. Every
result is undetermined, so no key is freed and no action is reported as done or failed.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.predicate import Truth, conjoin
from readback.domain.verdict import Why
from readback.domain.verification.open_class import UNDECLARED
from readback.domain.verification.reading import Presence
from readback.domain.verification.reconciliation import Case, Judged, Reconciliation, undetermined

_TRUTH: Final = attrgetter("truth")


def inform(case: Case, judged: Judged) -> Reconciliation:
    """Return the undetermined result of a reading by an undeclared reader.

    A matching record ends the check, since no later look can verify the action. Otherwise looks continue until the
    window closes: the system of record may lag behind.
    """
    if judged.in_scope is Truth.VIOLATED:
        detail = "The reading is of another target or tenant, or does not say of which."
        return undetermined(Why.OUT_OF_SCOPE, Finding.VERIFIER_ERROR, detail=detail)
    shown = _shown(judged)
    if shown is not Truth.HOLDS and not case.window_closed:
        return undetermined(Why.PROPAGATING, Finding.AUTHORITY_MISMATCH, Discrepancy.PROPAGATION_DELAY)
    lift = f"Declare the reader with one word: @{case.contract.name}.read(strong=True)."
    detail = f"{UNDECLARED[_word(judged, shown)]} {lift}"
    return undetermined(Why.UNVERIFIABLE, Finding.UNVERIFIABLE, Discrepancy.UNVERIFIABLE_STATE, detail)


def _shown(judged: Judged) -> Truth:
    if judged.presence is Presence.ABSENT or judged.in_scope is not Truth.HOLDS:
        return Truth.UNDETERMINED
    return conjoin(map(_TRUTH, judged.ensure))


def _word(judged: Judged, shown: Truth) -> str:
    if judged.presence is Presence.ABSENT:
        return "absent"
    return {Truth.HOLDS: "matches", Truth.VIOLATED: "differs", Truth.UNDETERMINED: "open"}[shown]
